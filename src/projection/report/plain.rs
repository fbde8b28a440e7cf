//! Writes a debate as plain lines of 80 columns for a terminal; the other writers have the whole report.

use std::fmt::Write as _;

use crate::projection::phrases;
use crate::projection::safe_text::{safe, safe_line};
use crate::projection::wrapping::{WIDTH, hanging};
use crate::protocol::EventRef;

use super::debate::{DebateReport, Dissent, Move, Phase, Probe, Proposition, Verdict};
use super::said::Citation;
use super::{Report, wording};

/// The newest debate, and what the session cost.
pub fn page(report: &Report) -> String {
    let mut out = String::new();
    if let Some(debate) = report.debate() {
        question(&mut out, debate);
        out.push_str(&outcome(debate));
        out.push('\n');
    }
    let total = &report.session.total;
    let (calls, tokens) =
        (phrases::counted(u64::from(total.calls), "call"), total.input.saturating_add(total.output));
    let _ = writeln!(
        out,
        "cost         {}, {} tokens, {calls}",
        wording::money(total),
        wording::tokens(total, tokens)
    );
    if let Some(why) = wording::cut_off(total) {
        item(&mut out, "             ", &why);
    }
    let _ = writeln!(out, "session      {}", safe_line(&report.session.id));
    out
}

/// The question; of a long one the beginning.
fn question(out: &mut String, debate: &DebateReport) {
    let whole = debate.asked_in.map(|at| format!("The whole of it stands in {at}."));
    match wording::head(&debate.question, &whole.unwrap_or_default()) {
        Some((head, size)) => {
            block(out, "", &head);
            out.push('\n');
            item(out, "  ", &size);
        }
        None => block(out, "", &debate.question),
    }
    out.push('\n');
}

/// What a debate came to, from the verdict to the last number.
pub fn outcome(debate: &DebateReport) -> String {
    let mut out = String::new();
    verdict(&mut out, debate);
    propositions(&mut out, debate);
    moves(&mut out, debate);
    minority(&mut out, debate);
    list(
        &mut out,
        "Open risks",
        debate.verdict.iter().flat_map(|verdict| verdict.open_risks.iter().cloned()),
    );
    absences(&mut out, debate);
    if debate.verdict.is_none() {
        stands(&mut out, debate);
    }
    positions(&mut out, debate);
    convergence(&mut out, debate);
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

/// Text of others, indented and broken into lines; its own paragraphs stay. What would be a heading where the page is
/// read as Markdown is quoted.
fn block(out: &mut String, indent: &str, text: &str) {
    let text = safe(text);
    for line in text.trim().lines() {
        let quoted = line.trim_start().starts_with('#').then(|| format!("{indent}> "));
        let hung = hanging(quoted.as_deref().unwrap_or(indent), line, WIDTH);
        out.push_str(if hung.is_empty() { "\n" } else { &hung });
    }
}

/// One line of others after `first`, the rest hanging below.
fn item(out: &mut String, first: &str, text: &str) {
    out.push_str(&hanging(first, safe_line(text).trim(), WIDTH));
}

fn list(out: &mut String, heading: &str, items: impl Iterator<Item = String>) {
    let mut items = items.peekable();
    if items.peek().is_some() {
        let _ = writeln!(out, "{heading}");
        items.for_each(|text| item(out, "  - ", &text));
        out.push('\n');
    }
}

fn refs<'a>(all: impl IntoIterator<Item = &'a EventRef>) -> String {
    all.into_iter().map(|at| format!(" [{at}]")).collect()
}

/// What was cited, each with what is wrong with it.
fn citations(all: &[Citation]) -> String {
    let one = |cited: &Citation| {
        let what = cited.at.map_or_else(|| format!("\u{201c}{}\u{201d}", cited.written), |at| at.to_string());
        match wording::doubt(cited) {
            Some(doubt) => format!(" [{what}: {doubt}]"),
            None => format!(" [{what}]"),
        }
    };
    all.iter().map(one).collect()
}

fn verdict(out: &mut String, debate: &DebateReport) {
    match &debate.verdict {
        None => _ = writeln!(out, "No verdict, {}", wording::heard(debate)),
        Some(verdict) => ruling(out, verdict, &wording::heard(debate)),
    }
    for note in [wording::state(debate), wording::short_of_plan(debate)].into_iter().flatten() {
        item(out, "  ", &note);
    }
    if debate.verdict.is_some() {
        let notes = [wording::overruled(debate), wording::talk(debate)];
        notes.into_iter().flatten().for_each(|note| item(out, "  ", &note));
    }
    out.push('\n');
}

fn ruling(out: &mut String, verdict: &Verdict, heard: &str) {
    let at = verdict.source;
    if verdict.is_majority {
        let _ = writeln!(out, "No verdict by the moderator, {heard}");
        item(out, "  ", "What the sealed majority said stands in for it.");
        return;
    }
    let sure = wording::cell(verdict.confidence_pm);
    let _ = writeln!(out, "Verdict, {sure} sure, {heard} [{at}]\n");
    block(out, "  ", verdict.answer.as_deref().unwrap_or("Its words cannot be read from the log."));
    out.push('\n');
}

fn propositions(out: &mut String, debate: &DebateReport) {
    if debate.propositions.is_empty() {
        return;
    }
    out.push_str("What was in dispute\n");
    debate.propositions.iter().for_each(|each| dispute(out, each));
    out.push('\n');
}

fn dispute(out: &mut String, each: &Proposition) {
    let text = if each.text.is_empty() { "its words cannot be read from the log" } else { &each.text };
    item(out, &format!("  {}  ", wording::name(each.number)), text);
    let (vote, verdict) = (wording::majority(each.sealed_majority), wording::upheld(each.verdict));
    let differs = if each.differs { "  \u{2190} differs" } else { "" };
    let ruled = each.verdict.map(|_| format!(", verdict: {verdict}{differs}")).unwrap_or_default();
    if each.sealed_majority.is_some() || each.verdict.is_some() {
        let _ = writeln!(out, "      sealed majority: {vote}{ruled}");
    }
    if let Some(because) = &each.because {
        item(out, "      ", &format!("{because}{}", citations(&each.evidence)));
    }
}

/// Where everybody was when it ended, where no verdict sums that up.
fn stands(out: &mut String, debate: &DebateReport) {
    let mut stands = debate.last_stands().peekable();
    if stands.peek().is_some() {
        out.push_str("What they held\n");
        for stand in stands {
            let sure = stand.confidence_pm.map(wording::per_cent).unwrap_or_default();
            item(out, "  ", &format!("{}, {sure} sure{}", stand.persona, refs(&stand.source)));
            item(out, "      ", stand.position.as_deref().unwrap_or_default());
            for one in stand.evidence.iter().filter(|one| one.cites.is_some()) {
                item(out, "      - ", &format!("{}{}", one.shows, citations(one.cites.as_slice())));
            }
        }
        out.push('\n');
    }
}

fn moves(out: &mut String, debate: &DebateReport) {
    if debate.first_rated().is_none() {
        return;
    }
    out.push_str("Who moved, and why\n");
    if debate.moves.is_empty() {
        out.push_str("  Nobody changed sides.\n");
    }
    debate.moves.iter().for_each(|step| moved(out, step));
    out.push('\n');
}

fn moved(out: &mut String, step: &Move) {
    let (from, to) = (wording::rating(step.from), wording::rating(step.to));
    let (name, phase) = (wording::name(step.proposition), wording::spaced(&step.phase));
    item(out, "  ", &format!("{}, {name} {from} \u{2192} {to}, in {phase}", step.persona));
    if let Some(condition) = &step.condition {
        let named = refs(&step.named_in);
        item(out, "      ", &format!("had said it would move if: {condition}{named}"));
    }
    match &step.because {
        Some(because) => item(out, "      ", &format!("moved because: {because}{}", refs(&step.source))),
        None => out.push_str("      gave no reason\n"),
    }
}

fn minority(out: &mut String, debate: &DebateReport) {
    let Some(verdict) = &debate.verdict else { return };
    let _ = writeln!(out, "{}", wording::dissent_heading(debate));
    if debate.minority.is_empty() {
        item(out, "  ", &wording::no_dissent(debate, verdict));
    } else if let Some(told) = &verdict.minority {
        block(out, "  ", told);
        out.push('\n');
    }
    let against = wording::ruling(verdict);
    debate.minority.iter().for_each(|dissent| dissented(out, dissent, against));
    out.push('\n');
}

fn dissented(out: &mut String, dissent: &Dissent, ruling: &str) {
    let on = wording::names(&dissent.propositions);
    item(out, "  ", &format!("{}, against {ruling} on {on} [{}]", dissent.persona, dissent.source));
    item(out, "      ", dissent.position.as_deref().unwrap_or("its words cannot be read from the log"));
}

fn absences(out: &mut String, debate: &DebateReport) {
    // Whoever fails together for one reason is told of together.
    let mut told: Vec<(String, Vec<&str>, &str)> = Vec::new();
    for one in debate.missing_together() {
        let when = one.when();
        match told.iter_mut().find(|(known, _, why)| *known == when && *why == one.why) {
            Some((_, who, _)) => who.push(one.persona),
            None => told.push((when, vec![one.persona], one.why)),
        }
    }
    let lines = told.iter().map(|(phase, who, why)| format!("{}{phase}: {why}", who.join(", ")));
    list(out, "Who was missing", lines);
}

/// Every rating: a row a debater, the phases from left to right in one cell.
fn positions(out: &mut String, debate: &DebateReport) {
    let rated: Vec<&Phase> = debate.rated().collect();
    if rated.is_empty() || debate.propositions.is_empty() {
        if debate.verdict.is_none() {
            item(out, "", wording::NO_RATINGS);
            out.push('\n');
        }
        return;
    }
    let name_width = debate.debaters.iter().map(|one| one.persona.chars().count()).max().unwrap_or(0);
    // Where all phases do not fit beside each other, the sealed rating and the last tell the way.
    let whole = name_width + 2 + debate.propositions.len() * (3 * rated.len() + 1) <= WIDTH;
    let shown: Vec<&Phase> = match rated.as_slice() {
        [first, .., last] if !whole => vec![first, last],
        all => all.to_vec(),
    };
    let phases = (1..).zip(&shown).map(|(n, phase)| format!("{n} {}", wording::spaced(&phase.name)));
    let phases: Vec<String> = phases.collect();
    out.push_str(&hanging("Where they stood: ", &phases.join(", "), WIDTH));
    if shown.len() < rated.len() {
        let left_out = rated.len() - shown.len();
        let between = phrases::counted(left_out as u64, "phase");
        let is = if left_out == 1 { "is" } else { "are" };
        item(out, "  ", &format!("{between} between them {is} in the reports: agon debates report."));
    }
    let cell_width = 3 * shown.len() + 1;
    let heads = debate.propositions.iter();
    let heads: String = heads.map(|each| format!(" {:<cell_width$}", wording::name(each.number))).collect();
    let _ = writeln!(out, "{}", format!("  {:name_width$} {heads}", "").trim_end());
    if shown.len() > 1 {
        let numbers: String = (1..=shown.len()).map(|n| format!("{n:>3}")).collect();
        let numbers = format!("{numbers:<width$}", width = cell_width + 1).repeat(debate.propositions.len());
        let _ = writeln!(out, "{}", format!("  {:name_width$} {numbers}", "").trim_end());
    }
    for debater in &debate.debaters {
        let cells = debate.propositions.iter().map(|each| {
            let rating = |phase: &&Phase| {
                let stand = phase.stand(&debater.persona)?;
                Some(wording::rating(stand.rating(each.number)?.rating))
            };
            let ratings = shown.iter().map(|phase| rating(phase).unwrap_or("\u{b7}".to_owned()));
            let cell: String = ratings.map(|rating| format!("{rating:>3}")).collect();
            format!("{cell:<width$}", width = cell_width + 1)
        });
        let row = format!("  {:<name_width$} {}", safe_line(&debater.persona), cells.collect::<String>());
        let _ = writeln!(out, "{}", row.trim_end());
    }
    out.push('\n');
}

fn convergence(out: &mut String, debate: &DebateReport) {
    let probes = debate.probes();
    let Some((_, last)) = probes.last() else { return };
    let scorer = safe_line(&last.scorer).into_owned();
    let _ = writeln!(out, "Did they converge? Scored by `{scorer}`: 0 is opposed, 100 agreed.");
    let names = probes.iter().map(|(phase, _)| wording::spaced(&phase.name).chars().count());
    let width = names.max().unwrap_or(0);
    for (phase, probe) in &probes {
        let name = wording::spaced(&phase.name);
        let line = format!("  {:<width$}  {}", safe_line(&name), score(probe));
        let _ = writeln!(out, "{}", line.trim_end());
        if probe.collapse {
            let _ = writeln!(out, "  {:width$}         dissent vanished without a stated reason", "");
        }
        if probe.has_parts() {
            let parts: Vec<_> = probe.parts.iter().map(wording::part).collect();
            item(out, &format!("  {:width$}         ", ""), &parts.join(", "));
        }
    }
    if let Some(votes) = wording::independent(debate) {
        item(out, "  ", &format!("Independent votes: {votes}."));
    }
}

/// A score with its bar.
fn score(probe: &Probe) -> String {
    let Some(score_pm) = probe.score_pm else { return wording::NOT_MEASURED.to_owned() };
    let bar = "\u{2588}".repeat(usize::try_from((score_pm + 12) / 25).unwrap_or(40).min(40));
    format!("{:>5}  {bar}", wording::per_cent(score_pm))
}
