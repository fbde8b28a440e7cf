//! Writes a report as Markdown; what others wrote is escaped, so that it stays text in every viewer.

use std::fmt::Write as _;

use crate::projection::phrases;
use crate::projection::safe_text::{safe, safe_line};
use crate::protocol::EventRef;
use crate::protocol::text::name_shown;

use super::debate::{DebateReport, Phase};
use super::said::Citation;
use super::session::{CostLine, TurnReport};
use super::wording::{self, spaced};
use super::{Excerpt, Report};

/// The whole report.
pub fn page(report: &Report, head: Option<&str>) -> String {
    let mut out = String::new();
    for debate in &report.debates {
        one_debate(&mut out, debate);
    }
    let is_debate = |turn: &&TurnReport| report.debates.iter().any(|debate| debate.turn == turn.number);
    for turn in report.session.turns.iter().filter(|turn| !is_debate(turn)) {
        one_turn(&mut out, turn);
    }
    costs(&mut out, report);
    excerpts(&mut out, &report.excerpts);
    let session = &report.session;
    let _ =
        write!(out, "---\n\nSession `{}`, {}", code(&session.id), phrases::counted(session.entries, "entry"));
    let _ = write!(out, ", by {}, {} UTC", line(&session.program), wording::when(session.opened_at));
    if session.sandbox.is_some() {
        let _ = write!(out, ", sandbox {}", line(&session.confined()));
    }
    for words in &session.answered {
        let _ = write!(out, ", {}", line(words));
    }
    if let Some(head) = head {
        let _ = write!(out, ". The chain ends at `{}`", code(head));
    }
    out.push_str(".\n");
    out
}

/// Text of others on one line, with everything escaped that Markdown or HTML would read.
pub fn line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in safe_line(text).trim().chars() {
        if matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '|' | '~' | '!' | '&' | '$') {
            out.push('\\');
        }
        out.push(c);
    }
    // At the start of a line these would begin a list, a quote or a heading.
    match out.chars().next() {
        Some('-' | '+' | '=') => out.insert(0, '\\'),
        Some('0'..='9') => out = numbered(out),
        _ => {}
    }
    out
}

/// A line such as `1. x` or `1) x` would begin a numbered list.
fn numbered(line: String) -> String {
    let digits = line.chars().take_while(char::is_ascii_digit).count();
    match line[digits..].chars().next() {
        Some('.' | ')') => format!("{}\\{}", &line[..digits], &line[digits..]),
        _ => line,
    }
}

/// Text of others between backticks.
fn code(text: &str) -> String {
    safe_line(text).replace('`', "'")
}

/// Text of others as a quote, its lines kept.
fn quote(out: &mut String, text: &str) {
    for each in safe(text).trim_matches('\n').split('\n') {
        let _ = writeln!(out, "{}", format!("> {}", line(each)).trim_end());
    }
    out.push('\n');
}

fn refs<'a>(all: impl IntoIterator<Item = &'a EventRef>) -> String {
    all.into_iter().map(|at| format!(" [{at}](#{})", anchor(*at))).collect()
}

/// What was cited, each with what is wrong with it.
fn citations(all: &[Citation]) -> String {
    let one = |cited: &Citation| {
        let what = match cited.at {
            Some(at) => refs([&at]),
            None => format!(" \u{201c}{}\u{201d}", line(&cited.written)),
        };
        let doubt = wording::doubt(cited).map(|doubt| format!(" **({doubt})**"));
        format!("{what}{}", doubt.unwrap_or_default())
    };
    all.iter().map(one).collect()
}

/// The anchor of an excerpt: only letters, digits and hyphens, which every viewer takes.
fn anchor(at: EventRef) -> String {
    at.to_string().replace('.', "-")
}

fn one_debate(out: &mut String, debate: &DebateReport) {
    heading(out, &debate.question);
    if let Some(state) = wording::state(debate) {
        let _ = writeln!(out, "{}\n", line(&state));
    }
    if let Some(verdict) = &debate.verdict {
        let _ = writeln!(out, "## Verdict\n");
        match (&verdict.answer, verdict.is_majority) {
            (Some(answer), _) => quote(out, answer),
            (None, true) => {
                out.push_str("The moderator had none to give; the sealed majority stands in.\n\n")
            }
            (None, false) => out.push_str("Its words cannot be read from the log.\n\n"),
        }
        let sure = verdict.confidence_pm.map(wording::per_cent);
        let sure = sure.map(|sure| format!("Confidence **{sure}**, ")).unwrap_or_default();
        let _ = writeln!(
            out,
            "{sure}**{}**. {}{}\n",
            wording::heard(debate),
            wording::talk(debate).unwrap_or_default(),
            refs([&verdict.source])
        );
        if let Some(words) = wording::overruled(debate) {
            let _ = writeln!(out, "**{}**\n", line(&words));
        }
    } else {
        let _ = writeln!(out, "**{}**.\n", wording::heard(debate));
    }
    if let Some(why) = wording::short_of_plan(debate) {
        let _ = writeln!(out, "{}\n", line(&why));
    }
    propositions(out, debate);
    absences(out, debate);
    moves(out, debate);
    if debate.verdict.is_none() {
        stands(out, debate);
    }
    positions(out, debate);
    probes(out, debate);
    minority(out, debate);
}

/// The first line as a heading; the rest, if any, as a quote. Of a long text only the beginning.
fn heading(out: &mut String, text: &str) {
    let shortened = wording::head(text, "The log and the JSON report have the whole.");
    if let Some((head, size)) = &shortened {
        heading(out, head);
        let _ = writeln!(out, "{size}\n");
        return;
    }
    let (first, rest) = text.trim().split_once('\n').unwrap_or((text.trim(), ""));
    let _ = writeln!(out, "# {}\n", line(first));
    if !rest.trim().is_empty() {
        quote(out, rest);
    }
}

fn propositions(out: &mut String, debate: &DebateReport) {
    if debate.propositions.is_empty() {
        return;
    }
    out.push_str(
        "## What was in dispute\n\n| | proposition | sealed majority | verdict |\n|---|---|---|---|\n",
    );
    for each in &debate.propositions {
        let (vote, verdict) = (wording::majority(each.sealed_majority), wording::upheld(each.verdict));
        let mark = if each.differs { " **differs**" } else { "" };
        let because =
            each.because.as_deref().map(|words| format!(" \u{2014} {}", line(words))).unwrap_or_default();
        let (name, text) = (wording::name(each.number), line(&each.text));
        let _ = writeln!(
            out,
            "| {name} | {text}{because}{} | {vote} | {verdict}{mark} |",
            citations(&each.evidence)
        );
    }
    out.push('\n');
}

fn absences(out: &mut String, debate: &DebateReport) {
    if debate.missing().next().is_none() {
        return;
    }
    out.push_str("## Who was missing\n\n");
    for one in debate.missing_together() {
        let (who, when, why) = (line(one.persona), line(&one.when()), line(one.why));
        let gap = if when.is_empty() { "" } else { " " };
        let _ = writeln!(out, "- **{who}**{gap}{when}: {why}{}", refs(&one.sources));
    }
    out.push('\n');
}

fn moves(out: &mut String, debate: &DebateReport) {
    if debate.first_rated().is_none() {
        return;
    }
    out.push_str("## Who moved, and why\n\n");
    if debate.moves.is_empty() {
        out.push_str("Nobody changed sides.\n\n");
        return;
    }
    for step in &debate.moves {
        let (from, to) = (wording::rating(step.from), wording::rating(step.to));
        let name = wording::name(step.proposition);
        let _ = writeln!(
            out,
            "- **{}**, {name} {from} \u{2192} {to}, in {}",
            line(&step.persona),
            line(&spaced(&step.phase))
        );
        if let Some(words) = &step.condition {
            let _ = writeln!(out, "  - had said it would move if: {}{}", line(words), refs(&step.named_in));
        }
        match &step.because {
            Some(words) => _ = writeln!(out, "  - moved because: {}{}", line(words), refs(&step.source)),
            None => out.push_str("  - gave no reason\n"),
        }
    }
    out.push('\n');
}

/// Where everybody was when it ended, where no verdict sums that up.
fn stands(out: &mut String, debate: &DebateReport) {
    let mut stands = debate.last_stands().peekable();
    if stands.peek().is_none() {
        return;
    }
    out.push_str("## What they held\n\n");
    for stand in stands {
        let sure = stand.confidence_pm.map(wording::per_cent).unwrap_or_default();
        let _ = writeln!(out, "**{}**, {sure} sure{}:\n", line(&stand.persona), refs(&stand.source));
        quote(out, stand.position.as_deref().unwrap_or_default());
        let cited: Vec<_> = stand.evidence.iter().filter(|one| one.cites.is_some()).collect();
        for one in &cited {
            let _ = writeln!(out, "- {}{}", line(&one.shows), citations(one.cites.as_slice()));
        }
        out.push_str(if cited.is_empty() { "" } else { "\n" });
    }
}

/// Every rating: persona by proposition, the phases from left to right in one cell.
fn positions(out: &mut String, debate: &DebateReport) {
    let rated: Vec<&Phase> = debate.rated().collect();
    if rated.is_empty() || debate.propositions.is_empty() {
        if debate.verdict.is_none() {
            let _ = writeln!(out, "{}\n", wording::NO_RATINGS);
        }
        return;
    }
    let names: Vec<_> =
        (1..).zip(&rated).map(|(n, phase)| format!("{n} {}", line(&spaced(&phase.name)))).collect();
    let _ = writeln!(
        out,
        "## Where they stood\n\nRatings from \u{2212}2 to +2, phase by phase: {}.\n",
        names.join(", ")
    );
    let numbers: Vec<_> = (1..=rated.len()).map(|n| n.to_string()).collect();
    let head = |number| format!("{} ({})", wording::name(number), numbers.join(" "));
    let heads: Vec<_> = debate.propositions.iter().map(|each| head(each.number)).collect();
    let _ = writeln!(out, "| persona | {} |\n|---|{}", heads.join(" | "), "---|".repeat(heads.len()));
    for debater in &debate.debaters {
        let cell = |proposition: u32| {
            let of = |phase: &&Phase| {
                phase.stand(&debater.persona).and_then(|stand| stand.rating(proposition)).copied()
            };
            let one =
                |phase: &&Phase| of(phase).map_or("\u{b7}".to_owned(), |rated| wording::rating(rated.rating));
            rated.iter().map(one).collect::<Vec<_>>().join(" ")
        };
        let cells: Vec<_> = debate.propositions.iter().map(|each| cell(each.number)).collect();
        let _ = writeln!(out, "| {} | {} |", line(&debater.persona), cells.join(" | "));
    }
    out.push('\n');
}

fn probes(out: &mut String, debate: &DebateReport) {
    let probes = debate.probes();
    if probes.is_empty() {
        return;
    }
    out.push_str("## Did they converge?\n\n| after | score | polarised | moved | independent votes |\n|---|---|---|---|---|\n");
    for (phase, probe) in &probes {
        let of = wording::cell;
        let (score, polarised, moved) =
            (wording::measured(probe.score_pm), of(probe.polarisation_pm), of(probe.movement_pm));
        let votes = probe.effective_votes_pm.map_or("\u{2013}".to_owned(), wording::votes);
        let collapse = if probe.collapse { " (dissent vanished without a stated reason)" } else { "" };
        let _ = writeln!(
            out,
            "| {}{collapse} | {score} | {polarised} | {moved} | {votes} |",
            line(&spaced(&phase.name))
        );
    }
    out.push('\n');
    if let Some(votes) = wording::independent(debate) {
        let _ = writeln!(out, "Independent votes: {}.\n", line(&votes));
    }
    let with_parts: Vec<_> = probes.iter().filter(|(_, probe)| probe.has_parts()).collect();
    for (phase, probe) in &with_parts {
        let parts: Vec<_> = probe.parts.iter().map(wording::part).collect();
        let _ = writeln!(out, "- score after {}: {}", line(&spaced(&phase.name)), line(&parts.join(", ")));
    }
    out.push_str(if with_parts.is_empty() { "" } else { "\n" });
}

fn minority(out: &mut String, debate: &DebateReport) {
    let Some(verdict) = &debate.verdict else { return };
    let _ = writeln!(out, "## {}\n", wording::dissent_heading(debate));
    if debate.minority.is_empty() {
        let _ = writeln!(out, "{}\n", wording::no_dissent(debate, verdict));
    } else if let Some(told) = &verdict.minority {
        quote(out, told);
    }
    for dissent in &debate.minority {
        let on = wording::names(&dissent.propositions);
        let _ = writeln!(
            out,
            "**{}**, against {} on {on}{}:\n",
            line(&dissent.persona),
            wording::ruling(verdict),
            refs([&dissent.source])
        );
        quote(out, dissent.position.as_deref().unwrap_or("its words cannot be read from the log"));
    }
    if !verdict.open_risks.is_empty() {
        out.push_str("## Open risks\n\n");
        verdict.open_risks.iter().for_each(|risk| _ = writeln!(out, "- {}", line(risk)));
        out.push('\n');
    }
}

fn one_turn(out: &mut String, turn: &TurnReport) {
    heading(out, &turn.prompt);
    match &turn.answer {
        Some(answer) => quote(out, answer),
        None => out.push_str("There is no answer.\n\n"),
    }
    let end = line(&wording::end(turn));
    let _ = writeln!(out, "Turn {}, {}: {end}{}\n", turn.number, line(&turn.mode), refs(&turn.source));
    for review in &turn.reviews {
        let said = wording::judgement(review.judgement);
        let _ = writeln!(out, "- {} {said}{}", line(&review.role), refs([&review.source]));
    }
    for each in &turn.findings {
        let finding = &each.finding;
        let state = if each.closed.is_some() { "closed" } else { "**open**" };
        let severity = finding.severity.word();
        let _ = writeln!(
            out,
            "- {} ({severity}, {state}) {}{}",
            line(&finding.id),
            line(&finding.problem),
            refs([&each.source])
        );
    }
    for check in &turn.checks {
        let _ = writeln!(
            out,
            "- check `{}`: {}{}",
            code(&check.command),
            wording::exit(check.exit),
            refs([&check.source])
        );
    }
    for claim in &turn.flagged {
        let _ = writeln!(out, "- claim {}{}", line(&wording::flagged(claim)), refs([&claim.source]));
    }
    for role in &turn.failed {
        let cause = phrases::turn_cause(role.cause);
        let _ = writeln!(out, "- {} did nothing: {cause}{}", line(&role.role), refs([&role.source]));
    }
    for words in wording::cached(turn) {
        let _ = writeln!(out, "- {}", line(&words));
    }
    if !turn.changed.is_empty() {
        let paths: Vec<_> =
            turn.changed.iter().map(|path| format!("`{}`", code(&name_shown(path)))).collect();
        let _ = writeln!(out, "- changed: {}", paths.join(", "));
    }
    out.push('\n');
}

fn costs(out: &mut String, report: &Report) {
    if report.session.costs.is_empty() {
        return;
    }
    out.push_str("## What it cost\n\n| who | model | calls | tokens in | tokens out | cost |\n|---|---|--:|--:|--:|--:|\n");
    for each in report.session.costs.iter().chain([&report.session.total]) {
        cost(out, each);
    }
    if let Some(why) = wording::cut_off(&report.session.total) {
        let _ = writeln!(out, "\n{why}");
    }
    out.push('\n');
}

fn cost(out: &mut String, each: &CostLine) {
    let (input, output) = (wording::tokens(each, each.input), wording::tokens(each, each.output));
    let (role, model, money) = (line(&each.role), line(&each.model), wording::money(each));
    let _ = writeln!(out, "| {role} | {model} | {} | {input} | {output} | {money} |", each.calls);
}

fn excerpts(out: &mut String, excerpts: &[Excerpt]) {
    if excerpts.is_empty() {
        return;
    }
    out.push_str("## From the log\n\n");
    for each in excerpts {
        let who = each.who.as_deref().map(|who| format!(" {}", line(who))).unwrap_or_default();
        let title = each.title.as_deref().map(|title| format!(" `{}`", code(title))).unwrap_or_default();
        let _ = writeln!(
            out,
            "<a id=\"{}\"></a>**{}**{who}, {}{title}\n",
            anchor(each.at),
            each.at,
            line(&each.kind)
        );
        if let Some(letters) = &each.letters {
            let _ = writeln!(out, "{}\n", line(letters));
        }
        fenced(out, &each.text);
    }
}

/// Text of others as it is, within a fence that nothing in it can end.
fn fenced(out: &mut String, text: &str) {
    let text = safe(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let _ = writeln!(out, "{fence}text\n{}\n{fence}\n", text.trim_matches('\n'));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_others_is_markup() {
        assert_eq!(line("<b>*x*</b> [a](b) `c` | d & e"), r"\<b\>\*x\*\</b\> \[a\](b) \`c\` \| d \& e");
        assert_eq!(line("# x\n- y\u{202E}"), r"\# x - y\<U+202E\>");
        assert_eq!(
            [line("- x"), line("1. x"), line("12) x"), line("3 x")],
            [r"\- x", r"1\. x", r"12\) x", "3 x"]
        );
        assert_eq!(code("a`b\nc"), "a'b c");
        let mut out = String::new();
        fenced(&mut out, "a\n````\n# b\u{202E}\n");
        assert_eq!(out, "`````text\na\n````\n# b<U+202E>\n`````\n\n");
    }
}
