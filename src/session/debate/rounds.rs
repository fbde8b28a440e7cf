//! Sets of parallel calls: who is asked, whom each reads in which order, and whether the worst case can be paid.

use serde_json::Value;

use crate::protocol::ballot::digest::digest;
use crate::protocol::ballot::{self, SCHEMAS};
use crate::protocol::event::{
    ArenaEvent, Ask, DebateShortened, LimitKind, LimitReached, Notice, PeerOrder, RoundOpened, Standing,
};
use crate::protocol::expand::digest_of;
use crate::protocol::message::{Role, Structured, Usage};
use crate::protocol::spec::ModelSpec;
use crate::protocol::text::{grouped, money};
use crate::protocol::typed::schema;
use crate::protocol::{EventRef, SparkId};
use crate::session::Session;
use crate::session::budget::cost;
use crate::session::output_limit::{LEAST, WHOLE, of_ask};
use crate::session::state::{Item, Turn};

use super::{Debate, PHASES, VERDICT, briefs, phase_name};

/// The most tool results a moderator is shown.
const MOST_EVIDENCE: usize = 12;

/// A call of a set: for whom, of which model, its input in tokens, what it asks for.
type Largest<'a> = (SparkId, &'a ModelSpec, u64, Ask);

impl Session {
    /// Asks everybody whose turn it is, at once.
    pub(super) fn open_round(&mut self, ask: Ask) {
        let Some(debate) = &self.debate else { return };
        let round = self.round_for(debate, ask, debate.phase);
        if round.order.is_empty() {
            return self.after_nobody(ask);
        }
        if let Err(reached) = self.affords(&[&round]) {
            return self.reach(reached);
        }
        let readers: Vec<SparkId> = round.order.iter().map(|order| order.spark).collect();
        let number = round.round;
        self.emit(ArenaEvent::RoundOpened(round));
        for id in readers {
            // A call that fails at once may end this round, or the turn, before everybody is asked.
            let open =
                self.debate.as_ref().is_some_and(|debate| debate.round == number && debate.waits_for(id));
            if self.turn.is_none() || !open {
                continue;
            }
            let text = self.brief_for(id);
            self.notice(id, Notice::Brief, &text);
            self.think(id);
        }
    }

    /// What follows from a set of calls nobody is left for.
    fn after_nobody(&mut self, ask: Ask) {
        match ask {
            Ask::Ballot => self.finish_debate(crate::protocol::event::TurnCause::Incomplete, None),
            Ask::Propositions => self.after_propositions(),
            Ask::Ratings => self.after_sealed_ratings(),
            Ask::Statement => self.after_statements(),
            Ask::Verdict => self.after_verdict(),
            Ask::Unknown(_) => {}
        }
    }

    /// The set of calls that asks for something in a phase, from where the debate stands.
    fn round_for(&self, debate: &Debate, ask: Ask, phase: u32) -> RoundOpened {
        let number = debate.round + 1;
        let of_moderator = matches!(ask, Ask::Propositions | Ask::Verdict);
        let able = debate.debaters.iter().filter(|one| !one.out);
        let readers: Vec<SparkId> = match of_moderator {
            true => debate.moderator.into_iter().collect(),
            false => able.map(|one| one.spark).collect(),
        };
        let order = readers.into_iter().map(|spark| PeerOrder {
            spark,
            peers: match ask {
                Ask::Ballot | Ask::Ratings | Ask::Unknown(_) => Vec::new(),
                Ask::Propositions | Ask::Statement | Ask::Verdict => self.peers(debate, spark, number),
            },
        });
        let phase = match ask {
            Ask::Propositions => "propositions",
            Ask::Verdict => VERDICT,
            Ask::Ballot | Ask::Ratings | Ask::Statement | Ask::Unknown(_) => phase_name(phase),
        };
        let evidence = if ask == Ask::Verdict { self.cited_evidence(debate) } else { Vec::new() };
        RoundOpened {
            round: number,
            phase: phase.to_owned(),
            order: order.collect(),
            ask,
            debaters: if ask == Ask::Ballot { Vec::new() } else { standings(debate, ask) },
            propositions: debate.propositions.clone(),
            evidence,
        }
    }

    /// Whose ballots a reader is shown, shuffled anew for each reader and each set of calls.
    fn peers(&self, debate: &Debate, reader: SparkId, round: u32) -> Vec<SparkId> {
        let seed = self.spec.as_ref().map(|spec| spec.seed).unwrap_or_default();
        let others = debate.debaters.iter().filter(|one| one.spark != reader && one.ballot.is_some());
        let mut peers: Vec<SparkId> = others.map(|one| one.spark).collect();
        peers.sort_by_cached_key(|peer| digest_of(&("peers", seed, self.turns, round, reader, peer)));
        peers
    }

    /// Tool results the last ballots cite, each once, in the order of the log.
    fn cited_evidence(&self, debate: &Debate) -> Vec<EventRef> {
        let lookup = |at| self.event(at);
        let casts = debate.debaters.iter().filter_map(|one| one.ballot);
        let ballots = casts.filter_map(|(cast, _)| ballot::ballot_of(cast, &lookup));
        let mut cited: Vec<EventRef> = ballots
            .flat_map(|ballot| ballot.evidence)
            .filter_map(|evidence| ballot::reference(&evidence.reference))
            .filter(|at| debate.results.contains(at))
            .collect();
        cited.sort_unstable();
        cited.dedup();
        cited.truncate(MOST_EVIDENCE);
        cited
    }

    /// Whether the next phase can be paid for; the words say what stands against it.
    pub(super) fn affords_phase(&self, name: &str) -> Result<(), DebateShortened> {
        let Some(debate) = &self.debate else { return Ok(()) };
        let round = self.round_for(debate, Ask::Statement, debate.phase + 1);
        // A phase that leaves nothing for the verdict would be paid for in vain.
        let verdict = self.round_for(debate, Ask::Verdict, debate.phase + 1);
        self.affords(&[&round, &verdict]).map_err(|reached| {
            let LimitReached { limit, used, max, .. } = reached;
            let said = |amount: u64| match limit {
                LimitKind::MicroUsd | LimitKind::TurnMicroUsd | LimitKind::SparkMicroUsd => money(amount),
                LimitKind::Steps => format!("{} model calls", grouped(amount)),
                _ => format!("{} tokens", grouped(amount)),
            };
            let phase = name.replace('-', " ");
            let whole = match limit {
                LimitKind::TurnTokens | LimitKind::TurnMicroUsd => "debate",
                _ => "session",
            };
            let reason =
                format!("{phase} could bring the {whole} to {}; the limit is {}", said(used), said(max));
            DebateShortened { reason, limit: Some(reached) }
        })
    }

    /// Whether sets of calls fit into what is left, with no more output than they need. A debater whose own budget is too
    /// small is absent.
    fn affords(&self, rounds: &[&RoundOpened]) -> Result<(), LimitReached> {
        let calls: Vec<_> = rounds.iter().flat_map(|round| self.calls_of(round)).collect();
        let steps = u64::from(self.turn.as_ref().map(|turn| turn.steps).unwrap_or_default());
        let steps = steps.saturating_add(rounds.iter().map(|round| round.order.len() as u64).sum());
        let max_steps = self.spec.as_ref().map_or(u64::MAX, |spec| spec.limits.max_steps.into());
        let too_many = (steps > max_steps).then(|| LimitReached::new(LimitKind::Steps, steps, max_steps));
        self.unpaid(&calls, LEAST).or(too_many).map_or(Ok(()), Err)
    }

    /// How many parts of its usual output limit each call of a set may have: what is left is divided among them, and
    /// enough is kept for an answer that has to be asked for again and for the verdict.
    pub(super) fn parts_for(&self, round: &RoundOpened) -> u64 {
        let mut calls: Vec<_> = self.calls_of(round).collect();
        if round.ask != Ask::Verdict {
            calls.extend(calls.first().copied());
        }
        (LEAST..=WHOLE).rev().find(|parts| self.unpaid(&calls, *parts).is_none()).unwrap_or(LEAST)
    }

    /// The limit that these calls do not fit into with so many parts of their output.
    fn unpaid(&self, calls: &[Largest<'_>], parts: u64) -> Option<LimitReached> {
        let worst = calls.iter().map(|(id, model, input, ask)| {
            let room = model.max_output.min(model.context.saturating_sub(*input));
            let usage = Usage::at_most(*input, of_ask(*ask, parts).min(room));
            (*id, usage.total(), cost(model.price.as_ref(), &usage))
        });
        let worst: Vec<_> = worst.collect();
        self.over_budget(&worst).into_iter().find(|reached| reached.spark.is_none())
    }

    fn calls_of<'a>(&'a self, round: &'a RoundOpened) -> impl Iterator<Item = Largest<'a>> {
        (0..round.order.len()).filter_map(move |place| self.largest(round, place))
    }

    /// One call with the most input it may have.
    fn largest(&self, round: &RoundOpened, place: usize) -> Option<Largest<'_>> {
        let id = round.order.get(place)?.spark;
        let spark = self.sparks.get(&id)?;
        let model = self.model_spec(&spark.model)?;
        let mut items: Vec<Item> = self.head(&spark.persona).into_iter().map(Item::new).collect();
        let asked = self.turn.iter().flat_map(Turn::asked);
        let steering = self.debate.iter().flat_map(|debate| &debate.steering).map(|(_, at)| *at);
        items.extend(asked.chain(steering).map(|from| Item::of(Role::User, from)));
        let shown = digest(round, place, &|at| self.event(at)).len();
        let brief = briefs::brief(round.ask, &round.phase, "").len() + 4096;
        let tools = if round.phase == PHASES[2] { self.tool_bytes(spark) } else { 0 };
        let bytes = self.bytes_in(&items) + (shown + brief) as u64 + tools;
        let input = self.ledger.estimate(&model.name, bytes, items.len() as u64 + 2);
        Some((id, model, input, round.ask))
    }

    /// The schema of what is asked now.
    pub(in crate::session) fn debate_schema(&self, id: SparkId) -> Option<Value> {
        let debate = self.debate.as_ref().filter(|debate| debate.waits_for(id))?;
        Some(schema_of(debate.ask))
    }

    /// What is asked of a spark, in words; with the schema where its provider does not hold it to one.
    fn brief_for(&self, id: SparkId) -> String {
        let Some(debate) = &self.debate else { return String::new() };
        let model = self.sparks.get(&id).and_then(|spark| self.model_spec(&spark.model));
        let held = model.is_some_and(|model| match model.structured {
            Structured::ResponseFormat => true,
            Structured::ForcedTool => debate.tools_of(id).is_empty(),
            Structured::JsonObject | Structured::Words | Structured::Any | Structured::Unknown(_) => false,
        });
        let schema = if held { String::new() } else { schema_of(debate.ask).to_string() };
        let phase = if debate.ask == Ask::Verdict { VERDICT } else { debate.phase_name() };
        briefs::brief(debate.ask, phase, &schema)
    }
}

fn schema_of(ask: Ask) -> Value {
    match ask {
        Ask::Ballot => schema(SCHEMAS.ballot),
        Ask::Propositions => schema(SCHEMAS.propositions),
        Ask::Ratings => schema(SCHEMAS.ratings),
        Ask::Statement => schema(SCHEMAS.statement),
        Ask::Verdict => schema(SCHEMAS.verdict),
        Ask::Unknown(_) => serde_json::Value::Null,
    }
}

fn standings(debate: &Debate, ask: Ask) -> Vec<Standing> {
    let standing = |one: &super::Debater| {
        let (ballot, read) = one.ballot.unzip();
        Standing {
            spark: one.spark,
            name: one.name.clone(),
            ballot,
            read,
            sealed: one.sealed,
            ratings: one.ratings,
            course: if ask == Ask::Verdict { one.course.clone() } else { Vec::new() },
        }
    };
    debate.debaters.iter().map(standing).collect()
}
