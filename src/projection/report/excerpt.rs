//! The cited entries of a log, shortened for reading beside a report; quotes, never sums up.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::projection::phrases;
use crate::projection::squad::SquadSheet;
use crate::projection::telling::{Scene, line_of};
use crate::protocol::event::{Finding, ModelReply, PrepareResult};
use crate::protocol::message::Part;
use crate::protocol::spec::Mode;
use crate::protocol::text::{cut_middle, names_shown, unfenced};
use crate::protocol::typed::{Critique, SquadAnswer};
use crate::protocol::{ArenaEvent, EventRef, fit};

use super::debate::DebateReport;
use super::session::SessionReport;
use super::voices::Voices;
use super::{Log, wording};

/// Bytes of one excerpt's text; the middle of longer ones is left out.
const CAP: usize = 1_600;

/// One cited event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Excerpt {
    /// The event.
    pub at: EventRef,
    /// Microseconds since the Unix epoch; 0 when the event is not in the log.
    pub time: u64,
    /// Its kind; `missing` when it is not in the log.
    pub kind: String,
    /// Role of the spark it came from, when it is one's.
    pub who: Option<String>,
    /// A line on it: the tool with its target, the command, the model.
    pub title: Option<String>,
    /// Who is meant by the letters in it, when its writer knew others by letters only.
    pub letters: Option<String>,
    /// Its text, the middle left out when it is long.
    pub text: String,
    /// True when something was left out.
    pub is_cut: bool,
}

/// Every event the report cites, in order, and what those cite.
pub(super) fn cited(log: &Log<'_>, session: &SessionReport, debates: &[DebateReport]) -> Vec<Excerpt> {
    let mut wanted = BTreeSet::new();
    session.turns.iter().for_each(|turn| {
        // A conversation's answer is in the report whole.
        wanted.extend(turn.source.filter(|_| turn.mode != phrases::mode(&Mode::Solo)));
        wanted.extend(turn.reviews.iter().map(|review| review.source));
        wanted.extend(turn.findings.iter().flat_map(|line| [Some(line.source), line.closed]).flatten());
        wanted.extend(turn.checks.iter().map(|check| check.source));
        wanted.extend(turn.flagged.iter().map(|claim| claim.source));
        wanted.extend(turn.failed.iter().map(|role| role.source));
    });
    debates.iter().for_each(|debate| of_debate(debate, &mut wanted));
    let mut voices = Voices::default();
    let events = log.entries.iter().flat_map(|entry| entry.effective());
    events.for_each(|(at, event)| voices.apply(log, at, event));
    let absences: Vec<_> = debates.iter().flat_map(|debate| &debate.absences).collect();
    let one = |at: EventRef| {
        let mut one = excerpt(log, at);
        one.letters = voices.legend(log, at, &one.text);
        if let Some(absence) = absences.iter().find(|absence| absence.source == at) {
            one.text.clone_from(&absence.why);
        }
        one
    };
    wanted.into_iter().map(one).collect()
}

fn of_debate(debate: &DebateReport, wanted: &mut BTreeSet<EventRef>) {
    for proposition in &debate.propositions {
        wanted.extend(proposition.source);
        wanted.extend(proposition.evidence.iter().filter_map(|cited| cited.at));
    }
    for stand in debate.phases.iter().flat_map(|phase| &phase.stands) {
        wanted.extend(stand.source);
        wanted.extend(stand.evidence.iter().filter_map(|evidence| evidence.cites.as_ref()?.at));
    }
    wanted.extend(debate.moves.iter().flat_map(|step| [step.named_in, step.source]).flatten());
    wanted.extend(debate.minority.iter().map(|dissent| dissent.source));
    wanted.extend(debate.absences.iter().map(|absence| absence.source));
    wanted.extend(debate.verdict.iter().map(|verdict| verdict.source));
}

fn excerpt(log: &Log<'_>, at: EventRef) -> Excerpt {
    let (Some(entry), Some(event)) = (log.entry(at.seq), log.event(at)) else {
        let text = "this log has no such event".to_owned();
        return Excerpt {
            at,
            time: 0,
            kind: "missing".into(),
            who: None,
            title: None,
            letters: None,
            text,
            is_cut: false,
        };
    };
    let (title, text) = said(log, event);
    let (text, is_cut) = cut_middle(&text, CAP);
    let (kind, who) = (event.kind().to_owned(), log.who(event));
    Excerpt { at, time: entry.at, kind, who, title, letters: None, text, is_cut }
}

/// What an event says: a title and its text.
fn said(log: &Log<'_>, event: &ArenaEvent) -> (Option<String>, String) {
    use ArenaEvent as E;
    match event {
        E::PromptGiven(data) => (None, data.text.clone()),
        E::SteeringGiven(data) => (None, data.text.clone()),
        E::ModelAnswered(data) => (Some(data.body.model.clone()), reply(&data.body)),
        E::ModelFailed(data) => {
            let (message, said) = (&data.body.message, &data.body.said);
            let parts = [message.as_str(), said].into_iter().filter(|part| !part.is_empty());
            (Some(phrases::error_kind(data.body.kind).to_owned()), parts.collect::<Vec<_>>().join("\n\n"))
        }
        E::ToolResolved(data) => {
            let asked = log.event(data.body.tool_use.answer);
            (asked.and_then(|event| call(event, data.body.tool_use.part)), data.body.words().into_owned())
        }
        E::ToolPrepared(data) => match &data.body.result {
            PrepareResult::Ready(plan) => (plan.command().map(str::to_owned), plan.preview.clone()),
            PrepareResult::Unfit(why) => (None, why.clone()),
            PrepareResult::Unknown(unknown) => (None, unknown.raw().to_string()),
        },
        E::ToolRefused(data) => (Some(phrases::refusal(data.reason).to_owned()), data.text.clone()),
        E::CheckRan(data) => {
            let ran = &data.body;
            (Some(format!("{}: {}", ran.command, wording::exit(ran.exit))), or_nothing(&ran.output))
        }
        E::DiffTaken(data) => (Some(names_shown(&data.body.files)), data.body.diff.clone()),
        E::RoleFailed(data) => (None, phrases::turn_cause(data.cause).to_owned()),
        E::CritiqueIssued(data) => {
            let findings = data.findings.iter().map(finding).collect::<String>();
            (None, format!("{}{findings}", wording::judgement(data.verdict)))
        }
        E::FindingClosed(data) => (None, format!("{} was settled by {}", data.id, data.source)),
        E::CacheHit(data) => {
            let words = SquadSheet::recorded_words(&data.body.flags, &data.body.answer);
            (Some(format!("session {}", data.body.session)), words)
        }
        E::MentionExpanded(data) => (Some(data.body.mention.clone()), data.body.text.clone()),
        other => (None, line_of(other, &Scene::of(&|at| log.event(at)))),
    }
}

/// What a command printed.
fn or_nothing(output: &str) -> String {
    if output.trim().is_empty() { "(it printed nothing)".to_owned() } else { output.to_owned() }
}

fn finding(finding: &Finding) -> String {
    let fix = finding.fix.as_ref().map(|fix| format!("\n  suggested: {fix}")).unwrap_or_default();
    let (severity, place) = (finding.severity.word(), finding.place());
    format!("\n{} ({severity}){place}: {}{fix}", finding.id, finding.problem)
}

/// A squad's typed answer in words.
fn answer(answer: &SquadAnswer) -> String {
    let mut out = match &answer.answer {
        Value::String(words) => words.trim_end().to_owned(),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    };
    let claims = answer.claims.iter().map(|claim| match claim.evidence.as_slice() {
        [] => format!("\n- {} (cites nothing)", claim.text.trim()),
        cited => format!("\n- {} ({})", claim.text.trim(), cited.join(", ")),
    });
    let open = answer.open.iter().map(|open| format!("\n- {}", open.trim()));
    for (heading, lines) in [("Claims:", claims.collect::<String>()), ("Open:", open.collect())] {
        if !lines.is_empty() {
            out.push_str(&format!("\n\n{heading}{lines}"));
        }
    }
    out
}

/// A review as its writer gave it, in words.
fn critique(critique: &Critique) -> String {
    let found = critique.findings.iter().map(|found| Finding {
        id: found.id.clone().unwrap_or_else(|| "new".to_owned()),
        severity: found.severity,
        file: found.file.clone(),
        line: found.line,
        problem: found.problem.clone(),
        fix: found.fix.clone(),
    });
    let closed = match critique.closed.as_slice() {
        [] => String::new(),
        ids => format!("\nsettled: {}", ids.join(", ")),
    };
    let found: String = found.map(|one| finding(&one)).collect();
    format!("{}{found}{closed}", wording::judgement(critique.verdict))
}

/// An answer's text, else the tools it asked for. What squads answer in types is said in words.
fn reply(reply: &ModelReply) -> String {
    let text = reply.text();
    if let Some(typed) = fit::read::<SquadAnswer>(&text) {
        return answer(&typed);
    }
    if let Some(typed) = fit::read::<Critique>(&text) {
        return critique(&typed);
    }
    if let Ok(value @ Value::Object(_)) = serde_json::from_str(unfenced(&text)) {
        // Laid out in lines: models often write a typed answer as one.
        return serde_json::to_string_pretty(&value).unwrap_or(text);
    }
    if !text.trim().is_empty() {
        return text;
    }
    reply.message.iter().filter_map(asked).collect::<Vec<_>>().join("\n")
}

/// The tool call in one part of an answer.
fn call(event: &ArenaEvent, part: u16) -> Option<String> {
    let ArenaEvent::ModelAnswered(data) = event else { return None };
    asked(data.body.message.get(usize::from(part))?)
}

/// A tool call as it was asked for; none for any other part.
fn asked(part: &Part) -> Option<String> {
    let Part::Call { name, args, .. } = part else { return None };
    Some(format!("{name} {}", args.text()))
}
