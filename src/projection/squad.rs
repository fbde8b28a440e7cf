//! What a squad's answer is to a reader: its words, what agon itself found of them, who is missing; safe to print.

mod evidence;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::phrases;
use super::safe_text::safe;
use crate::protocol::blueprint::lead_of;
use crate::protocol::event::{CacheHit, ClaimFlagged, PatchApplied, PromptGiven, TurnCause, TurnClosed};
use crate::protocol::spec::{Blueprint, Mode};
use crate::protocol::text::{names_shown, unfenced};
use crate::protocol::typed::SquadAnswer;
use crate::protocol::{ArenaEvent, CallId, Entry, EventRef, SparkId, fit};
use evidence::{Evidence, blueprint_in};

/// The squad of the last prompt, as far as its answer needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SquadSheet {
    /// True when the last prompt was a squad's.
    pub is_squad: bool,
    /// Claims that the log does not support.
    pub flags: Vec<ClaimFlagged>,
    /// Roles that did not do their part.
    pub missing: Vec<Missing>,
    /// Checks and findings.
    evidence: Evidence,
    /// Commands of the blueprint in force.
    checks: Vec<String>,
    /// A run that was found in the team cache.
    recorded: Option<(EventRef, CacheHit)>,
    /// The one that became the answer.
    used: Option<CacheHit>,
    /// What it did to files here.
    applied: PatchApplied,
    /// Roles of the blueprint in force, and those of them that never got to work in a turn that is not done.
    named: Vec<String>,
    lead: Option<String>,
    idle: Vec<String>,
    /// Whose words became the answer of a turn in which nobody gave it.
    speaker: Option<String>,
    /// The answers of this turn that may stand for one.
    said_by: BTreeMap<EventRef, SparkId>,
    roles: BTreeMap<SparkId, String>,
    /// Whose model calls are open or failed last, and with which words.
    asked: BTreeMap<CallId, SparkId>,
    failures: BTreeMap<SparkId, String>,
}

/// A role that did not do its part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The role.
    pub role: String,
    /// Why.
    pub cause: TurnCause,
    /// What the model call said that failed.
    pub why: Option<String>,
}

impl Missing {
    fn words(&self) -> String {
        let cause = phrases::turn_cause(self.cause);
        match &self.why {
            Some(why) => format!("{}: {cause}: {}", self.role, why.trim()),
            None => format!("{}: {cause}", self.role),
        }
    }
}

impl SquadSheet {
    /// Folds one entry.
    pub fn apply(&mut self, entry: &Entry) {
        for (at, event) in entry.effective() {
            self.apply_event(at, event);
        }
    }

    fn apply_event(&mut self, at: EventRef, event: &ArenaEvent) {
        use ArenaEvent as E;
        self.follow(blueprint_in(event.changed()));
        match event {
            E::SessionOpened(data) => self.follow(data.spec.blueprint.as_ref()),
            E::PromptGiven(data) => self.begin(data),
            E::SparkIgnited(data) => drop(self.roles.insert(data.spark, data.role.clone())),
            E::ModelCalled(data) => {
                self.asked.retain(|_, spark| *spark != data.spark);
                self.asked.insert(data.call, data.spark);
            }
            E::ModelFailed(data) => {
                if let Some(spark) = self.asked.get(&data.call) {
                    self.failures.insert(*spark, data.body.message.clone());
                }
            }
            E::ModelAnswered(data) => {
                if let Some(spark) = self.asked.get(&data.call) {
                    self.said_by.insert(at, *spark);
                }
            }
            E::PatchApplied(data) => self.applied = data.body.clone(),
            E::ClaimFlagged(data) => self.flags.push(data.clone()),
            E::CacheHit(data) => self.recorded = Some((at, data.body.clone())),
            E::TurnClosed(data) => {
                if let Some((_, hit)) = self.recorded.take_if(|(hit, ..)| data.answer == Some(*hit)) {
                    self.flags.extend(hit.flags.iter().cloned());
                    self.used = Some(hit);
                }
                self.close(data);
            }
            E::RoleFailed(data) => {
                let why = self.failures.get(&data.spark).filter(|_| data.cause == TurnCause::ModelFailed);
                self.missing.push(Missing { role: data.role.clone(), cause: data.cause, why: why.cloned() });
            }
            _ => {}
        }
        let who = |spark: SparkId| self.roles.get(&spark).cloned().unwrap_or_else(|| spark.to_string());
        self.evidence.apply(at, event, who);
    }

    /// Who never got to work, and who spoke in the lead's place.
    fn close(&mut self, data: &TurnClosed) {
        if !self.is_squad || self.missing.is_empty() {
            return;
        }
        let worked = |name: &&String| self.roles.values().any(|role| role == *name);
        self.idle = self.named.iter().filter(|name| !worked(name)).cloned().collect();
        let speaker = data.answer.and_then(|answer| self.roles.get(self.said_by.get(&answer)?));
        let lead_failed = self.missing.iter().any(|missing| Some(&missing.role) == self.lead.as_ref());
        self.speaker =
            speaker.filter(|name| Some(*name) != self.lead.as_ref()).filter(|_| lead_failed).cloned();
    }

    fn follow(&mut self, blueprint: Option<&Blueprint>) {
        if let Some(blueprint) = blueprint {
            self.checks.clone_from(&blueprint.checks);
            self.named = blueprint.roles.iter().map(|role| role.name.clone()).collect();
            self.lead = lead_of(blueprint).and_then(|lead| self.named.get(lead)).cloned();
        }
    }

    fn begin(&mut self, data: &PromptGiven) {
        let old = std::mem::take(self);
        let (is_squad, evidence) = (data.mode == Mode::Squad, Evidence::of(&old.checks));
        let (checks, named, lead) = (old.checks, old.named, old.lead);
        *self = SquadSheet { is_squad, evidence, checks, named, lead, ..SquadSheet::default() };
    }

    /// The answer for a reader, safe to print: Markdown, or only the JSON where one was asked for by a schema.
    /// Words of a role that are no typed answer stay as they are. Under it is what agon itself knows of it.
    pub fn words(&self, text: &str) -> String {
        match self.said(text) {
            Ok(words) => {
                let under = self.under(&words);
                words + &safe(&under)
            }
            Err(json) => json,
        }
    }

    /// The answer alone: its words with what it says is open, and the claims that the log does not support. `Err` is the
    /// JSON where a schema asked for another answer than words.
    fn said(&self, text: &str) -> Result<String, String> {
        let Some(answer) = fit::read::<SquadAnswer>(text) else {
            let words = unmistakable(&safe(text.trim_end()));
            return Ok(match (&self.speaker, self.lacks()) {
                (Some(role), lacks) => {
                    let lacks = lacks.unwrap_or_default();
                    format!("There is no answer: {}\n\n{role} said:\n{}", safe(&lacks), quoted(&words))
                }
                (None, _) => words,
            });
        };
        let mut out = match &answer.answer {
            Value::String(words) => unmistakable(&safe(words.trim_end())),
            other => return Err(serde_json::to_string_pretty(other).unwrap_or_else(|_| other.to_string())),
        };
        if !answer.open.is_empty() {
            out.push_str("\n\nOpen:");
            out.extend(answer.open.iter().map(|open| format!("\n- {}", in_a_line(open))));
        }
        for (contradicted, heading) in [
            (true, "Claimed, but the log says otherwise:"),
            (false, "Claimed, but not supported by the log:"),
        ] {
            let flags: Vec<_> = self.flags.iter().filter(|flag| flag.contradicted == contradicted).collect();
            if !flags.is_empty() {
                out.push_str(&format!("\n\n{heading}"));
            }
            for flag in flags {
                let claim = usize::try_from(flag.claim).ok().and_then(|i| answer.claims.get(i));
                let claim =
                    flag.said.as_deref().or(claim.map(|claim| claim.text.as_str())).unwrap_or_default();
                out.push_str(&format!("\n- \"{}\": {}", in_a_line(claim), flag.reason));
            }
        }
        Ok(safe(&out).into_owned())
    }

    /// An answer that was recorded with what its log did not bear out, in words that are safe to print.
    pub fn recorded_words(flags: &[ClaimFlagged], text: &str) -> String {
        let sheet = SquadSheet { flags: flags.to_vec(), ..SquadSheet::default() };
        let words = sheet.said(unfenced(text.trim_end())).unwrap_or_else(|json| json);
        safe(&words).into_owned()
    }

    /// What there is to know of a recorded run that became the answer, in one line.
    pub fn used_words(&self) -> Option<String> {
        Some(safe(self.recorded_line(self.used.as_ref()?).trim()).into_owned())
    }

    fn recorded_line(&self, hit: &CacheHit) -> String {
        self.evidence.recorded_words(hit.stored_at, hit.ran_commands, &self.applied)
    }

    /// What agon itself says of an answer.
    fn under(&self, said: &str) -> String {
        let checks = match &self.used {
            Some(hit) => self.recorded_line(hit),
            None => self.evidence.checks_words(),
        };
        checks + &self.evidence.work_words() + &self.evidence.findings_words(said) + &self.missing_words()
    }

    /// What there is to read where a squad came to no answer, safe to print.
    pub fn standing(&self, cause: &str, changed: &BTreeSet<String>) -> String {
        let mut out = format!("The squad gave no answer: {cause}.\n\nWhat stands:");
        let steps = self.evidence.steps();
        out.push_str(if steps.is_empty() { "\n- no role came to a result" } else { &steps });
        match changed.is_empty() {
            true => out.push_str("\n- no file that git looks at was changed"),
            false => out.push_str(&format!("\n- changed files: {}", names_shown(changed))),
        }
        out.push_str(&self.under(""));
        safe(&out).into_owned()
    }

    /// What keeps the squad's work from being done, in one line; none when nothing does.
    pub fn lacks(&self) -> Option<String> {
        let evidence = if self.used.is_some() { Vec::new() } else { self.evidence.lacks() };
        let contradicted = self.flags.iter().filter(|flag| flag.contradicted);
        let claims = contradicted.map(|flag| format!("the answer claims what is not so: {}", flag.reason));
        let line = self.absent().chain(evidence).chain(claims).collect::<Vec<_>>().join("; ");
        (self.is_squad && !line.is_empty()).then_some(line)
    }

    /// Roles that did not do their part, and why.
    fn absent(&self) -> impl Iterator<Item = String> {
        let idle = self.idle.iter().map(|name| format!("{name}: it did not get to work"));
        self.missing.iter().map(Missing::words).chain(idle)
    }

    fn missing_words(&self) -> String {
        if self.missing.is_empty() {
            return String::new();
        }
        let lines = self.absent().map(|words| format!("\n- {words}"));
        format!("\n\nMissing:{}", lines.collect::<String>())
    }
}

/// How the lines begin that are agon's own.
const OWN: [&str; 11] = [
    "checks, as agon",
    "from the team cache",
    "no check ran",
    "no file that git looks at was changed",
    "changed meanwhile by another process",
    "changed by a check or by",
    "written, and as before again",
    "work that was undone",
    "findings still open",
    "missing:",
    "claimed, but",
];

/// A model's words, with every line quoted that could be taken for one of agon's own, and what belongs to it.
fn unmistakable(words: &str) -> String {
    let mut forged = false;
    let line = |line: &str| {
        let bare: String = line.chars().filter(|c| !"*_#>`~".contains(*c)).collect();
        let bare = bare.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
        let bare = bare.trim_start_matches(|c: char| !c.is_alphanumeric());
        forged = OWN.iter().any(|own| bare.starts_with(own)) || (forged && !bare.is_empty());
        if forged { format!("> {line}") } else { line.to_owned() }
    };
    words.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

fn quoted(words: &str) -> String {
    words.split('\n').map(|line| format!("> {line}")).collect::<Vec<_>>().join("\n")
}

/// Words that are to be one item of a list.
fn in_a_line(words: &str) -> String {
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_gaps_are_part_of_what_is_read() {
        let reason = "the check of e7 did not pass".to_owned();
        let flag =
            ClaimFlagged { source: EventRef::fact(9), claim: 0, reason, contradicted: false, said: None };
        let why = Some("no route to host\n".to_owned());
        let reviewer = Missing { role: "reviewer".to_owned(), cause: TurnCause::ModelFailed, why };
        let sheet = SquadSheet {
            is_squad: true,
            flags: vec![flag],
            missing: vec![reviewer],
            ..SquadSheet::default()
        };
        let typed = r#"{"answer":"Done.\n","claims":[{"kind":"checks_pass","text":"tests pass","evidence":["e7"]}],"open":["F2"]}"#;
        let words = sheet.words(typed);
        let flagged = "Claimed, but not supported by the log:\n- \"tests pass\": the check of e7";
        assert!(words.starts_with(&format!("Done.\n\nOpen:\n- F2\n\n{flagged}")), "{words}");
        let missing = "Missing:\n- reviewer: the model call failed: no route to host";
        assert!(words.ends_with(missing), "{words}");
        assert_eq!(sheet.lacks().unwrap(), "reviewer: the model call failed: no route to host");
        let schema = r#"{"answer":{"n":3},"claims":[],"open":[]}"#;
        assert_eq!(sheet.words(schema), "{\n  \"n\": 3\n}");
    }
}
