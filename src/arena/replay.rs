//! Replays recorded entries: verifies that the same facts give the same decisions; touches no port.

use std::sync::Arc;

use crate::protocol::event::{ArenaEvent, PolicyDecided};
use crate::protocol::spec::{Mode, Rule, Setting};
use crate::protocol::{Entry, Fact, Input, RULES};
use crate::session::Session;
use crate::session::convergence::Scorers;

/// Where a log and today's rules part.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The entry.
    pub seq: u64,
    /// The decisions as recorded.
    pub recorded: Vec<ArenaEvent>,
    /// The decisions the same fact gives now.
    pub decided: Vec<ArenaEvent>,
    /// True when the segment was written under these very rules, so that there must be no difference.
    pub strict: bool,
}

/// What a verification found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verification {
    /// Entries looked at.
    pub entries: u64,
    /// Every entry whose decisions differ, in order.
    pub differences: Vec<Difference>,
    /// The first entry that could not be fed at all: it does not follow, or starts with no fact.
    pub unreadable: Option<u64>,
    /// The first entry of a newer program, and what is not known of it: nothing was compared from there on.
    pub newer: Option<(u64, String)>,
    /// The first debate whose scorer is not known here, and that scorer's name: nothing was compared.
    pub no_scorer: Option<(u64, String)>,
}

impl Verification {
    /// True when the log holds to its own rules; with `strict` also to today's.
    pub fn holds(&self, strict: bool) -> bool {
        let is_compared = self.unreadable.is_none() && self.newer.is_none() && self.no_scorer.is_none();
        is_compared && !self.differences.iter().any(|difference| strict || difference.strict)
    }
}

/// Feeds only the facts of a log to a fresh session, entry by entry, and compares the decisions; no log is ever held
/// whole. After a difference the session is folded from the recorded entries, so that one difference is not counted
/// again and again.
pub struct Verifier {
    session: Session,
    folded: Session,
    scorers: Scorers,
    strict: bool,
    is_over: bool,
    found: Verification,
}

impl Verifier {
    /// Before the first entry, with the scorers a program registered beside the built-in ones.
    pub fn new(scorers: &Scorers) -> Self {
        let session = Session::new().with_scorers(scorers.clone());
        Verifier {
            folded: session.clone(),
            session,
            scorers: scorers.clone(),
            strict: false,
            is_over: false,
            found: Verification::default(),
        }
    }

    /// Takes the next entry.
    pub fn apply(&mut self, entry: &Arc<Entry>) {
        if self.found.no_scorer.is_some() {
            return;
        }
        if let Some(name) = scorer_in(entry).filter(|name| self.scorers.get(name).is_none()) {
            let no_scorer = Some((entry.seq, name.to_owned()));
            self.found = Verification { no_scorer, ..Verification::default() };
        } else if !self.is_over {
            self.is_over = !self.compare(entry);
        }
    }

    /// False when nothing can be compared from here on.
    fn compare(&mut self, entry: &Arc<Entry>) -> bool {
        if let Some(what) = entry.newer() {
            self.found.newer = Some((entry.seq, what.into_owned()));
            return false;
        }
        self.found.entries += 1;
        self.strict = rules_of(entry).map_or(self.strict, |rules| rules == RULES);
        let fact = entry.fact().cloned().and_then(|event| Fact::new(event).ok());
        let Some(fact) = fact.filter(|_| entry.seq == self.session.next_seq()) else {
            self.found.unreadable = Some(entry.seq);
            return false;
        };
        let decided = self.session.handle(Input { at: entry.at, fact });
        if self.folded.apply(entry).is_err() {
            self.found.unreadable = Some(entry.seq);
            return false;
        }
        if decided.decisions() != entry.decisions() {
            self.found.differences.push(Difference {
                seq: entry.seq,
                recorded: entry.decisions().to_vec(),
                decided: decided.decisions().to_vec(),
                strict: self.strict,
            });
            self.session = self.folded.clone();
        }
        true
    }

    /// What was found so far.
    pub fn found(self) -> Verification {
        self.found
    }
}

/// Verifies entries that are at hand.
pub fn verify(entries: &[Arc<Entry>]) -> Verification {
    verify_with(entries, &Scorers::default())
}

/// The same with the scorers a program registered beside the built-in ones.
pub fn verify_with(entries: &[Arc<Entry>], scorers: &Scorers) -> Verification {
    let mut verifier = Verifier::new(scorers);
    entries.iter().for_each(|entry| verifier.apply(entry));
    verifier.found()
}

/// A tool call on which other rules would have decided otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redecided {
    /// The entry in which it was decided.
    pub seq: u64,
    /// What was decided.
    pub was: PolicyDecided,
    /// What would have been.
    pub would_be: PolicyDecided,
}

/// What the policy would have decided otherwise if these rules had been there from the beginning, beside those that
/// were. Calls that a call decided otherwise would have led to are not known: each is judged as it was recorded.
pub fn redecided(entries: &[Arc<Entry>], rules: &[Rule]) -> Vec<Redecided> {
    let entries: Vec<Arc<Entry>> = entries.iter().map(|entry| under(entry, rules)).collect();
    let differences = verify(&entries).differences;
    let changed = differences.iter().flat_map(|difference| {
        let would_be = decisions_of_policy(&difference.decided);
        let was = decisions_of_policy(&difference.recorded);
        was.filter_map(move |was| {
            let would_be = would_be.clone().find(|one| one.tool_use == was.tool_use)?;
            let differs = (would_be.action, &would_be.rule) != (was.action, &was.rule);
            differs.then(|| Redecided { seq: difference.seq, was: was.clone(), would_be: would_be.clone() })
        })
    });
    changed.collect()
}

fn decisions_of_policy(events: &[ArenaEvent]) -> impl Iterator<Item = &PolicyDecided> + Clone {
    events.iter().filter_map(|event| match event {
        ArenaEvent::PolicyDecided(data) => Some(data),
        _ => None,
    })
}

/// The entry, its fact bringing in these rules wherever it brings in a policy.
fn under(entry: &Arc<Entry>, rules: &[Rule]) -> Arc<Entry> {
    use ArenaEvent as E;
    let mut entry = Arc::clone(entry);
    // Every other entry stays shared.
    let Some(
        E::SessionOpened(_)
        | E::SessionResumed(_)
        | E::SessionForked(_)
        | E::PromptGiven(_)
        | E::SettingsChanged(_),
    ) = entry.events.first()
    else {
        return entry;
    };
    match Arc::make_mut(&mut entry).events.first_mut() {
        Some(E::SessionOpened(data)) => data.spec.policy.add(rules),
        Some(E::SessionResumed(data)) => add_to(&mut data.changed, rules),
        Some(E::SessionForked(data)) => add_to(&mut data.changed, rules),
        Some(E::PromptGiven(data)) => add_to(&mut data.changed, rules),
        Some(E::SettingsChanged(data)) => add_to(&mut data.changed, rules),
        _ => {}
    }
    entry
}

fn add_to(settings: &mut [Setting], rules: &[Rule]) {
    for setting in settings {
        if let Setting::Policy(policy) = setting {
            policy.add(rules);
        }
    }
}

/// The scorer of the debate that an entry begins.
pub(super) fn scorer_in(entry: &Entry) -> Option<&str> {
    match entry.fact().filter(|_| !entry.is_void())? {
        ArenaEvent::PromptGiven(data) => match &data.mode {
            Mode::Debate(plan) => Some(&plan.scorer),
            Mode::Solo | Mode::Squad | Mode::Unknown(_) => None,
        },
        _ => None,
    }
}

/// The rules a segment was written under, for an entry that begins one.
fn rules_of(entry: &Entry) -> Option<u32> {
    match entry.fact()? {
        ArenaEvent::SessionOpened(data) => Some(data.rules),
        ArenaEvent::SessionResumed(data) => Some(data.rules),
        ArenaEvent::SessionForked(data) => Some(data.rules),
        _ => None,
    }
}
