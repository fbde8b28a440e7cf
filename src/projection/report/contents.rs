//! What a report says, in order, whatever its form: each turn, what it cost, the events it refers to.

mod debate;

use crate::projection::changes::counts;
use crate::projection::phrases::{self, counted};
use crate::protocol::event::Judgement;
use crate::protocol::text::name_shown;

use super::document::{Article, Block, Document, Fact, Line, Look, Table, Tone, cell, para};
use super::session::{CostLine, FindingLine, TurnReport};
use super::work::CallLine;
use super::{Report, prose, wording};

pub use debate::{debate, outcome};

/// The longest part of a request that is a title.
pub const TITLE: usize = 90;

/// Lines of a diff that are shown without being asked for.
const OPEN_DIFF: usize = 60;

/// The whole report. `head` is where the log's chain ends, if the caller knows.
pub fn whole<'a>(report: &'a Report, head: Option<&str>) -> Document<'a> {
    let mut blocks: Vec<Block<'a>> = Vec::new();
    for turn in &report.session.turns {
        let held = report.debates.iter().find(|debate| debate.turn == turn.number);
        let article = held.map_or_else(|| article(report, turn), |held| debate(report, held));
        blocks.push(Block::Article(Article { is_struck: turn.is_struck, ..article }));
    }
    blocks.extend(costs(report));
    if !report.excerpts.is_empty() {
        let lead = "The events this report cites, as they were recorded; long ones shortened in the middle, typed answers laid out in lines.";
        let events = report.excerpts.iter().map(Block::Excerpt).collect();
        blocks.push(section("log", "From the log", Some(lead.into()), events));
    }
    Document { title: title(report), blocks, colophon: colophon(report, head) }
}

/// A section.
pub(super) fn section<'a>(
    id: &'static str,
    heading: &'static str,
    lead: Option<Line>,
    blocks: Vec<Block<'a>>,
) -> Block<'a> {
    Block::Section { id, heading, lead, blocks }
}

/// The first request.
fn title(report: &Report) -> String {
    let request = report.session.turns.first().map(|turn| turn.prompt.as_str());
    phrases::start(request.unwrap_or("a session without a task"), TITLE)
}

/// What the only turn of a session cost; of many turns only the sum is known, which the table of costs has.
pub(super) fn price(report: &Report) -> Option<String> {
    (report.session.turns.len() == 1).then(|| wording::money(&report.session.total))
}

fn colophon(report: &Report, head: Option<&str>) -> Line {
    let session = &report.session;
    let mut line = Line::new("Session ").code(&session.id);
    line = line.plain(format!(", {}, by {}", counted(session.entries, "entry"), session.program));
    if session.sandbox.is_some() {
        line = line.plain(format!(", sandbox {}", session.confined()));
    }
    for words in &session.answered {
        line = line.plain(format!(", {words}"));
    }
    line = line.plain(format!(
        ", {} to {} UTC.",
        wording::when(session.opened_at),
        wording::when(session.last_at)
    ));
    if let Some((parent, seq)) = &session.parent {
        line = line.plain(" Forked from ").code(parent).plain(format!(" after entry {seq}."));
    }
    if session.unknown_events > 0 {
        let events = counted(session.unknown_events, "event");
        line = line.plain(format!(" {events} of kinds this program does not know are missing here."));
    }
    match head {
        Some(head) => line
            .plain(" The chain ends at ")
            .code(head)
            .plain("; check it with ")
            .code("agon verify")
            .plain("."),
        None => line,
    }
}

/// A turn that was no debate.
pub fn article<'a>(report: &'a Report, turn: &'a TurnReport) -> Article<'a> {
    let mut dateline =
        vec![turn.mode.clone(), phrases::day(report.session.opened_at), format!("turn {}", turn.number)];
    dateline.extend(price(report));
    let words = match &turn.answer {
        Some(answer) => Block::Words(prose::blocks(answer)),
        None => Block::Para(Tone::Notice, "There is no answer.".into()),
    };
    let mut answer = vec![words];
    answer.extend(wording::cached(turn).map(|words| Block::Para(Tone::Quiet, words.into())));
    answer.push(Block::Facts(facts(turn)));
    let mut blocks = vec![section("outcome", "Answer", None, answer)];
    blocks.extend(
        [steps(turn), changes(turn), reviews(turn), checks(turn), doubts(turn), approvals(turn), calls(turn)]
            .into_iter()
            .flatten(),
    );
    Article { dateline, request: &turn.prompt, is_struck: turn.is_struck, asked_in: turn.asked_in, blocks }
}

/// What a reader looks for first.
fn facts(turn: &TurnReport) -> Vec<Fact> {
    let fact = |id, label, line: Line, warns| Fact { id, label, level: None, lines: vec![line], warns };
    let is_done = turn.cause == Some(crate::protocol::event::TurnCause::Done);
    let source = turn.source.filter(|_| turn.mode != "solo");
    let mut facts = vec![fact("end", "Outcome", Line::new(wording::end(turn)).cites(&source), !is_done)];
    if !turn.changed.is_empty() {
        let (added, removed) = counts(&turn.diff);
        let files = counted(turn.changed.len() as u64, "file");
        facts.push(fact("changes", "Changed", format!("{files}, +{added} \u{2212}{removed}").into(), false));
    }
    if !turn.calls.is_empty() {
        let failed = turn.calls.iter().filter(|call| !call.is_done).count();
        let calls = counted(turn.calls.len() as u64, "call");
        let words = if failed == 0 { calls } else { format!("{calls}, {failed} without success") };
        facts.push(fact("tools", "Tools", words.into(), false));
    }
    let asked = turn.calls.iter().filter(|call| call.approval.is_some()).count();
    if asked > 0 {
        let given = turn.calls.iter().filter(|call| call.is_allowed()).count();
        let words = if given == asked { "given".to_owned() } else { format!("of which {given} given") };
        facts.push(fact("asked", "Approvals", format!("{asked} asked, {words}").into(), false));
    }
    if !turn.checks.is_empty() {
        let failed = turn.checks.iter().filter(|check| check.exit != Some(0)).count();
        let checks = counted(turn.checks.len() as u64, "check");
        let words =
            if failed == 0 { format!("{checks}, passed") } else { format!("{checks}, {failed} failed") };
        facts.push(fact("checked", "Checks", words.into(), failed > 0));
    }
    facts
}

fn steps<'a>(turn: &TurnReport) -> Option<Block<'a>> {
    let steps = Block::Code(String::new(), turn.steps.join("\n"));
    (!turn.steps.is_empty()).then(|| section("steps", "Steps", None, vec![steps]))
}

fn changes<'a>(turn: &TurnReport) -> Option<Block<'a>> {
    if turn.changed.is_empty() && turn.diff.is_empty() {
        return None;
    }
    let paths = turn.changed.iter().enumerate().fold(Line::default(), |line, (nth, path)| {
        line.plain(if nth == 0 { "" } else { ", " }).code(name_shown(path))
    });
    let code = Block::Code("diff".to_owned(), turn.diff.clone());
    let blocks = match turn.diff.lines().count() {
        0 => vec![para(paths)],
        1..=OPEN_DIFF => vec![para(paths), code],
        lines => {
            vec![Block::Fold(paths.quiet(format!(" {} of diff", counted(lines as u64, "line"))), vec![code])]
        }
    };
    Some(section("changed", "What changed", None, blocks))
}

fn reviews<'a>(turn: &TurnReport) -> Option<Block<'a>> {
    if turn.reviews.is_empty() && turn.findings.is_empty() {
        return None;
    }
    let said = turn.reviews.iter().map(|review| {
        let side = if review.judgement == Judgement::Approve { 1 } else { -1 };
        let line =
            Line::default().strong(&review.role).plain(" ").side(side, wording::judgement(review.judgement));
        vec![para(line.cites([&review.source]))]
    });
    let mut blocks = vec![Block::List(None, said.collect())];
    if !turn.findings.is_empty() {
        let head = ["", "finding", "severity", "state"].map(str::to_owned).to_vec();
        let rows = turn.findings.iter().map(|line| (false, finding(line))).collect();
        blocks.push(Block::Table(Table { class: "findings", head, rows, foot: None }));
    }
    Some(section("reviews", "Reviews", None, blocks))
}

fn finding(line: &FindingLine) -> Vec<Vec<Line>> {
    let finding = &line.finding;
    let mut problem = vec![Line::default().words(&finding.problem).cites([&line.source])];
    if let Some(file) = &finding.file {
        let at = finding.line.map(|number| format!(":{number}")).unwrap_or_default();
        problem.push(Line::default().code(format!("{file}{at}")));
    }
    let state = match &line.closed {
        Some(at) => Line::default().side(1, "closed").cites([at]),
        None => Line::default().side(-1, "open"),
    };
    vec![cell(finding.id.as_str()), problem, cell(finding.severity.word()), cell(state)]
}

fn checks<'a>(turn: &TurnReport) -> Option<Block<'a>> {
    let checks = turn.checks.iter().map(|check| {
        let side = if check.exit == Some(0) { 1 } else { -1 };
        let line = Line::default().code(&check.command).plain(" ").side(side, wording::exit(check.exit));
        vec![para(line.cites([&check.source]))]
    });
    let items: Vec<_> = checks.collect();
    (!items.is_empty()).then(|| section("checks", "Checks", None, vec![Block::List(None, items)]))
}

fn doubts<'a>(turn: &TurnReport) -> Option<Block<'a>> {
    let flagged = turn.flagged.iter();
    let flagged =
        flagged.map(|claim| Line::default().with(Look::Warn, wording::flagged(claim)).cites([&claim.source]));
    let failed = turn.failed.iter().map(|role| {
        let line = Line::default()
            .strong(&role.role)
            .plain(format!(" did nothing: {}", phrases::turn_cause(role.cause)));
        line.cites([&role.source])
    });
    let items: Vec<_> = flagged.chain(failed).map(|line| vec![para(line)]).collect();
    (!items.is_empty()).then(|| {
        section("doubts", "Unsupported claims and missing roles", None, vec![Block::List(None, items)])
    })
}

fn approvals<'a>(turn: &TurnReport) -> Option<Block<'a>> {
    let rows = turn.calls.iter().filter_map(|call| {
        let approval = call.approval.as_ref()?;
        let answer = approval.answer.as_deref().unwrap_or("not answered");
        let side = if call.is_allowed() { 1 } else { -1 };
        let mut said = vec![Line::default().side(side, answer)];
        said.extend(approval.words.as_deref().map(Line::from));
        let rule = call.rule.as_ref().map(|(rule, _)| rule.as_str()).unwrap_or_default();
        let asked = Line::default().strong(&call.tool).plain(" ").code(&call.target);
        Some((false, vec![cell(asked), cell(rule), said, cell(approval.by.as_deref().unwrap_or_default())]))
    });
    let rows: Vec<_> = rows.collect();
    let head = ["call", "asked by rule", "answer", "by"].map(str::to_owned).to_vec();
    (!rows.is_empty()).then(|| {
        section(
            "approvals",
            "Approvals",
            None,
            vec![Block::Table(Table { class: "approvals", head, rows, foot: None })],
        )
    })
}

fn calls<'a>(turn: &TurnReport) -> Option<Block<'a>> {
    if turn.calls.is_empty() {
        return None;
    }
    let is_alone = turn.calls.iter().all(|call| call.who == turn.calls[0].who);
    Some(section("calls", "Tool calls", None, turn.calls.iter().map(|one| call(one, is_alone)).collect()))
}

fn call<'a>(call: &CallLine, is_alone: bool) -> Block<'a> {
    let mut line = Line::default();
    if let Some(who) = call.who.as_deref().filter(|_| !is_alone) {
        line = line.plain(format!("{who}: "));
    }
    line = line.strong(&call.tool).plain(" ").code(&call.target).plain(" ");
    let outcome = if call.outcome.is_empty() { "left open" } else { &call.outcome };
    line = line.side(if call.is_done { 1 } else { -1 }, outcome);
    if call.ms > 0 {
        line = line.quiet(format!(" {}", phrases::duration(call.ms)));
    }
    let mut blocks = Vec::new();
    if let Some((rule, said)) = &call.rule {
        let mut words = Line::new("Rule ").code(rule).plain(format!(": {said}"));
        for (nth, need) in call.needs.iter().enumerate() {
            words = words.plain(if nth == 0 { "; needs " } else { ", " }).code(need);
        }
        if let Some(approval) = &call.approval {
            let answer = approval.answer.as_deref().unwrap_or("not answered");
            let by = approval.by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
            words = words.plain(format!("; {answer}{by}"));
        }
        blocks.push(Block::Para(Tone::Quiet, words.plain(".")));
    }
    match call.change() {
        Some(change) => blocks.push(Block::Code("diff".to_owned(), change.to_owned())),
        None => {
            // A command of many lines is on the line above only with its first.
            if call.preview.trim().contains('\n') {
                blocks.push(Block::Code(String::new(), call.preview.clone()));
            }
            blocks.push(Block::Code(String::new(), call.output.clone()));
        }
    }
    Block::Fold(line, blocks)
}

/// What each spark cost, and all of them.
fn costs<'a>(report: &Report) -> Option<Block<'a>> {
    let session = &report.session;
    if session.costs.is_empty() {
        return None;
    }
    let most = session.costs.iter().map(tokens).max().unwrap_or_default();
    let head =
        ["who", "model", "calls", "tokens in", "tokens out", "tools", "cost"].map(str::to_owned).to_vec();
    let rows = session.costs.iter().map(|line| (false, cost(line, most))).collect();
    let table = Table { class: "numbers costs", head, rows, foot: Some(cost(&session.total, 0)) };
    let mut blocks = vec![Block::Table(table)];
    blocks.extend(wording::cut_off(&session.total).map(|why| Block::Para(Tone::Notice, why.into())));
    Some(section("costs", "What it cost", None, blocks))
}

/// One row; the stroke is its part of what the one with the most tokens used.
fn cost(line: &CostLine, most: u64) -> Vec<Vec<Line>> {
    let mut who = Line::new(&line.role);
    if let Some(share) = tokens(line).saturating_mul(1_000).checked_div(most) {
        who = who.with(Look::Stroke(u32::try_from(share.min(1_000)).unwrap_or_default()), "");
    }
    let mut calls = Line::new(line.calls.to_string());
    if line.failures > 0 {
        calls = calls.with(Look::Warn, format!(" {} failed", line.failures));
    }
    let (input, output) = (wording::tokens(line, line.input), wording::tokens(line, line.output));
    let words = [line.model.clone(), input, output, line.tool_calls.to_string(), wording::money(line)];
    let mut cells: Vec<Vec<Line>> = words.into_iter().map(cell).collect();
    cells.insert(1, cell(calls));
    cells.insert(0, cell(who));
    cells
}

fn tokens(line: &CostLine) -> u64 {
    line.input.saturating_add(line.output)
}
