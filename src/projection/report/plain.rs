//! Writes a report's essence as plain lines for a terminal; the other writers have the whole of it.

use std::fmt::Write as _;

use crate::projection::safe_text::safe_line;
use crate::projection::words;

use super::debate::DebateReport;
use super::{Report, wording};

/// The newest debate, or the turns when there was none.
pub fn page(report: &Report) -> String {
    let mut out = String::new();
    match report.debate() {
        Some(debate) => one_debate(&mut out, debate),
        None => turns(&mut out, report),
    }
    let total = &report.session.total;
    let (calls, tokens) =
        (words::counted(u64::from(total.calls), "call"), total.input.saturating_add(total.output));
    let _ =
        writeln!(out, "cost         {}, {} tokens, {calls}", wording::money(total), words::grouped(tokens));
    out
}

fn row(out: &mut String, name: &str, text: &str) {
    let _ = writeln!(out, "{name:<12} {}", safe_line(text));
}

fn one_debate(out: &mut String, debate: &DebateReport) {
    row(out, "question", &debate.question);
    if let Some(state) = wording::state(debate) {
        row(out, "state", &state);
    }
    if let Some(verdict) = &debate.verdict {
        let stands_in = "none by the moderator; the sealed majority stands in";
        row(out, "verdict", verdict.answer.as_deref().unwrap_or(stands_in));
        row(out, "confidence", &wording::per_cent(verdict.confidence_pm));
        row(out, "plain vote", &wording::talk(debate));
    }
    for each in &debate.propositions {
        let (vote, verdict) = (wording::majority(each.sealed_majority), wording::upheld(each.verdict));
        let text = format!("{} (vote: {vote}; verdict: {verdict})", each.text);
        row(out, &wording::name(each.number), &text);
    }
    for step in &debate.moves {
        let (from, to) = (wording::rating(step.from), wording::rating(step.to));
        let why = step.because.as_deref().unwrap_or("gave no reason");
        let name = wording::name(step.proposition);
        row(out, "moved", &format!("{}, {name} {from} \u{2192} {to}: {why}", step.persona));
    }
    for dissent in &debate.minority {
        let on = wording::names(&dissent.propositions);
        let position = dissent.position.as_deref().unwrap_or_default();
        row(out, "minority", &format!("{} against {on}: {position}", dissent.persona));
    }
    for absence in &debate.absences {
        let phase = absence.phase.as_deref().unwrap_or("the beginning");
        row(out, "absent", &format!("{} in {phase}: {}", absence.persona, words::turn_cause(absence.cause)));
    }
    for risk in debate.verdict.iter().flat_map(|verdict| &verdict.open_risks) {
        row(out, "risk", risk);
    }
}

fn turns(out: &mut String, report: &Report) {
    for turn in &report.session.turns {
        row(out, "task", &turn.prompt);
        row(out, "answer", turn.answer.as_deref().unwrap_or("none"));
        row(out, "end", turn.cause.map_or("the turn is not over", words::turn_cause));
    }
}
