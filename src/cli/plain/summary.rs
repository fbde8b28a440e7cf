//! The blocks after the lines: the last summary, the cost sheet, the audit of tool calls; folds nothing.

use std::collections::BTreeSet;

use crate::host::Head;
use crate::host::replay::Redecided;
use crate::projection::board::{Board, BoardState};
use crate::projection::context_usage::Filled;
use crate::projection::costs::{CostRow, Costs, Scope, Tally};
use crate::projection::phrases;
use crate::projection::safe_text::safe_line;
use crate::projection::telling::{Kind, Scene, Telling, face, line_of};
use crate::projection::visible;
use crate::projection::why::{Audit, Cause, Reasons};
use crate::projection::wrapping::WIDTH;
use crate::protocol::event::{ErrorKind, PolicyDecided, ToolUse, TurnCause};
use crate::protocol::expand::Lookup;
use crate::protocol::need::Need;
use crate::protocol::text::names_shown;
use crate::protocol::{ArenaEvent, EventRef};

/// What the last summary of a squad's run says beside what every run's says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TeamWords {
    /// What keeps its work from being done.
    pub lacks: Option<String>,
    /// What the team cache did.
    pub cache: Option<String>,
}

/// The last summary of a run: why it ended, what it took, and where the log stands.
///
/// Four to seven aligned lines with a newline each. `head` is the log's end, left out when unknown.
pub fn ending(board: &Board, costs: &Costs, team: &TeamWords, head: Option<&Head>) -> String {
    let total = &costs.total.at_most();
    let mut rows = vec![
        ("end", end_words(board, team.lacks.as_deref())),
        ("work", work_words(board, total, costs.work.us / 1_000)),
        ("tokens", token_words(total)),
        ("cost", cost_words(total)),
    ];
    rows.extend(board.answering.lines().into_iter().map(|words| ("model", words)));
    rows.extend(team.cache.clone().map(|words| ("cache", words)));
    rows.extend(file_words(board).map(|words| ("files", words)));
    rows.extend(ask_words(board).map(|words| ("asks", words)));
    rows.extend(question_words(board).map(|words| ("asks", words)));
    rows.push(("session", board.id.clone()));
    if let Some((parent, seq)) = &board.parent {
        rows.push(("fork of", format!("{parent} at e{seq}, works in {}", board.workspace)));
    }
    if let Some(head) = head {
        rows.push(("log", format!("{}, head {}", phrases::counted(head.count, "entry"), head.hash)));
    }
    rows.iter().map(|(word, text)| format!("{word:<9}{}\n", safe_line(text))).collect()
}

/// The same on one line, for those who only want to know that it went well.
pub fn trailer(board: &Board, costs: &Costs, team: &TeamWords) -> String {
    let total = &costs.total.at_most();
    let tokens = phrases::short_count(total.usage.input.saturating_add(total.usage.output));
    let mut parts = vec![
        end_words(board, team.lacks.as_deref()),
        phrases::duration(costs.work.us / 1_000),
        format!("{}{tokens} tokens", total.about()),
        cost_words(total),
    ];
    parts.extend(board.answering.lines());
    parts.extend(team.cache.clone());
    parts.extend(file_words(board));
    parts.extend(
        ask_words(board).into_iter().chain(question_words(board)).map(|words| format!("asks: {words}")),
    );
    parts.push(format!("session {}", phrases::short_id(&board.id)));
    format!("{}\n", safe_line(&parts.join(" \u{b7} ")))
}

/// The questions of agents that wait for an answer.
fn question_words(board: &Board) -> impl Iterator<Item = String> {
    board.questions().map(|open| open.asked.lines().collect::<Vec<_>>().join(" "))
}

/// The calls that wait for an answer.
fn ask_words(board: &Board) -> Option<String> {
    let target = |target| visible::collapsed(&visible::shown(target));
    let needs = |opens: &[String]| match opens {
        [] => String::new(),
        opens => format!(", needs {}", opens.join(" and ")),
    };
    let open = board
        .approvals
        .iter()
        .map(|ask| format!("{}: {}{} ({})", ask.tool, target(&ask.target), needs(&ask.opens), ask.call));
    (!board.approvals.is_empty()).then(|| open.collect::<Vec<_>>().join(", "))
}

/// A price of 0 that is a bound is no news.
fn cost_words(total: &Tally) -> String {
    let words = phrases::money_known(total.micro_usd, total.unpriced);
    if total.unknown > 0 && total.micro_usd > 0 { format!("at most {words}") } else { words }
}

fn token_words(total: &Tally) -> String {
    let words = phrases::tokens(&total.usage);
    match total.unknown {
        0 => words,
        cut => format!(
            "at most {}; {} took is not known",
            words.trim_start_matches("about "),
            if cut == 1 {
                "1 call was cut off, what it".to_owned()
            } else {
                format!("{cut} calls were cut off, what they")
            },
        ),
    }
}

fn end_words(board: &Board, lacks: Option<&str>) -> String {
    match (board.state, board.cause, lacks) {
        (BoardState::Paused(_), ..) => {}
        (_, Some(cause @ (TurnCause::Incomplete | TurnCause::Limit)), Some(lacks))
            if board.limit.is_none() =>
        {
            return format!("{}: {lacks}", phrases::turn_cause(cause));
        }
        _ => {}
    }
    match (board.state, board.cause) {
        (BoardState::Paused(cause), _) => format!("paused: {}", phrases::pause_cause(cause)),
        (BoardState::Working | BoardState::Stopping(_), None) => "the turn is still open".to_owned(),
        (_, Some(TurnCause::Limit)) => match board.limit {
            Some((limit, used, max)) => format!("limit: {}", phrases::limit_with_flag(limit, used, max)),
            None => phrases::turn_cause(TurnCause::Limit).to_owned(),
        },
        (_, Some(TurnCause::ModelFailed)) => match board.failure {
            Some(ErrorKind::Network | ErrorKind::Timeout) => "the model could not be reached".to_owned(),
            Some(kind) => format!("the model call failed: {}", phrases::error_kind(kind)),
            None => phrases::turn_cause(TurnCause::ModelFailed).to_owned(),
        },
        (_, Some(cause)) => phrases::turn_cause(cause).to_owned(),
        (BoardState::Sealed(cause), None) => phrases::stop_cause(cause).to_owned(),
        (BoardState::Idle, None) => "nothing was asked".to_owned(),
    }
}

/// What was changed; what tools wrote and no comparison shows is not claimed to be there.
fn file_words(board: &Board) -> Option<String> {
    let (shown, unseen): (Vec<&String>, Vec<&String>) =
        board.changed.iter().partition(|path| board.is_seen(path));
    let changed = (!shown.is_empty()).then(|| format!("changed: {}", names_shown(shown)));
    let (undone, unseen): (Vec<&String>, Vec<&String>) =
        unseen.into_iter().partition(|path| board.work.iter().any(|work| work.restored.contains(path)));
    let undone = (!undone.is_empty()).then(|| format!("written and undone again: {}", names_shown(undone)));
    let written =
        (!unseen.is_empty()).then(|| format!("written, and not compared since: {}", names_shown(unseen)));
    let words: Vec<String> = [changed, undone, written].into_iter().flatten().collect();
    (!words.is_empty()).then(|| words.join("; "))
}

fn work_words(board: &Board, total: &Tally, ms: u64) -> String {
    let mut words_of = vec![phrases::counted(u64::from(total.calls), "model call")];
    let retries = total.attempts.saturating_sub(total.calls);
    if retries > 0 {
        words_of.push(if retries == 1 { "1 retry".to_owned() } else { format!("{retries} retries") });
    }
    let calls = phrases::counted(u64::from(total.tool_calls + board.refused), "tool call");
    let bad = [(board.refused, "refused"), (board.failed, "failed")];
    let bad = bad.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}"));
    match bad.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => words_of.push(calls),
        bad => words_of.push(format!("{calls} ({bad})")),
    }
    words_of.push(phrases::duration(ms));
    words_of.join(", ")
}

/// The cost sheet as an aligned table with a line of headings.
pub fn cost_table(costs: &Costs) -> String {
    let mut out = table_of(&costs.rows(), costs);
    out.extend(phrases::saved(costs.total.saved_micro_usd).map(|words| format!("\n{words}\n")));
    if costs.turns.len() > 1 {
        out.push_str("\n`--turn N` shows the sparks of one turn\n");
    }
    out
}

/// Rows of the cost sheet as an aligned table with a line of headings.
pub fn table_of(rows: &[CostRow], costs: &Costs) -> String {
    let headings =
        ["", "calls", "retries", "in", "cached", "out", "cost", "model time", "tools", "tool time"];
    let mut table: Vec<[String; 10]> = vec![headings.map(str::to_owned)];
    table.extend(rows.iter().map(|row| cells(row, costs)));
    aligned(&table, 1)
}

/// Rows of cells in columns, the first `left` of them flush left.
pub(super) fn aligned<const N: usize>(table: &[[String; N]], left: usize) -> String {
    let width = |n: usize| table.iter().map(|row| row[n].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    // Eighty columns are what a terminal has as a rule.
    let gap = if left > 1 && widths.iter().sum::<usize>() + 2 * (N - 1) > WIDTH { " " } else { "  " };
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).enumerate().map(|(n, (cell, width))| match n < left {
            true => format!("{cell:<width$}"),
            false => format!("{cell:>width$}"),
        });
        format!("{}\n", cells.collect::<Vec<_>>().join(gap).trim_end())
    };
    table.iter().map(line).collect()
}

/// What fills a window, under the name of its spark.
pub fn context_table(name: &str, filled: &Filled) -> String {
    let (rows, sum) = phrases::filled(filled);
    let mut out = format!("{} · {}\n", safe_line(name), safe_line(&filled.model));
    for [part, tokens, share] in rows {
        out.push_str(&format!("  {part:<14}{tokens:>12}{share:>9}\n"));
    }
    out.push_str(&format!("  {sum}\n"));
    out
}

fn cells(row: &CostRow, costs: &Costs) -> [String; 10] {
    let tally = &row.tally.at_most();
    let name = match &row.scope {
        Scope::Spark(spark) => {
            let role = costs.sparks.get(spark).map(|costs| costs.role.as_str()).unwrap_or_default();
            format!("{spark} {role}")
        }
        Scope::WithSubagents(spark) => format!("{spark} with subagents"),
        Scope::Turn(turn) => costs.turn_name(*turn),
        Scope::Role(role) => format!("role {role}"),
        Scope::Model(model) => model.clone(),
        Scope::Total => "total".to_owned(),
    };
    let about = tally.about();
    [
        safe_line(name.trim()).into_owned(),
        phrases::grouped(u64::from(tally.calls)),
        phrases::grouped(u64::from(tally.attempts.saturating_sub(tally.calls))),
        format!("{about}{}", phrases::grouped(tally.usage.input)),
        phrases::grouped(tally.usage.cached),
        format!("{about}{}", phrases::grouped(tally.usage.output)),
        tally.money(),
        phrases::duration(tally.model_ms),
        phrases::grouped(u64::from(tally.tool_calls)),
        phrases::duration(tally.tool_ms),
    ]
}

/// Every tool call with who allowed it: one block a call, one line a step, each with its reference.
pub fn audit_lines(reasons: &Reasons, lookup: Lookup<'_>) -> String {
    reasons.audits().map(|(tool_use, audit)| audit_block(tool_use, audit, lookup)).collect()
}

fn audit_block(tool_use: ToolUse, audit: &Audit, lookup: Lookup<'_>) -> String {
    let mut out = format!("{:<7}{}\n", tool_use.answer.to_string(), safe_line(&asked(tool_use, lookup)));
    let judged = audit.judged.iter().map(|(event, ..)| *event);
    let answered = audit.answered.as_ref().map(|(event, _)| *event);
    let before = audit.prepared.into_iter().chain(judged).chain(audit.requested).chain(answered);
    let plan = audit.prepared.and_then(lookup).and_then(ArenaEvent::plan);
    let is_outside = plan.is_some_and(|plan| plan.needs.contains(&Need::Unconfined));
    let steps = before.chain(audit.invoked.iter().copied()).chain(audit.end.map(|(event, _)| event));
    for at in steps {
        let told = lookup(at).map(|event| event.telling(&Scene::of(lookup))).unwrap_or_default();
        let mut words = told.first().map(step).unwrap_or_default();
        if is_outside && audit.invoked.contains(&at) {
            words.push_str(" outside the sandbox");
        }
        out.push_str(&format!("  {:<7}{}\n", at.to_string(), safe_line(&words)));
    }
    // The hosts it reached among them.
    for note in audit.end.and_then(|(at, _)| lookup(at)).into_iter().flat_map(ArenaEvent::told) {
        out.push_str(&format!("         {}\n", safe_line(note)));
    }
    if audit.end.is_none() {
        out.push_str("         still open\n");
    }
    out
}

/// A step of a tool call whose name is known.
fn step(one: &Telling<'_>) -> String {
    match one.kind {
        Kind::Ask => "approval asked".to_owned(),
        Kind::Reply => one.line().into_owned(),
        Kind::Tool => "started".to_owned(),
        Kind::Result => format!("ended: {}", one.end),
        Kind::Refused => format!("not run: {}", one.end),
        Kind::Steps | Kind::Answered => "answered".to_owned(),
        Kind::Policy | Kind::Gate | Kind::Cache => format!("{}: {}", one.kind.word(), one.head),
        kind => format!("{}: {}", kind.word(), one.end),
    }
}

/// An event and what led to it, oldest first, each with its causes.
pub fn chain_lines(event: EventRef, causes: &[Cause], lookup: Lookup<'_>) -> String {
    let mut events: BTreeSet<EventRef> = causes.iter().flat_map(|cause| [cause.of, cause.from]).collect();
    events.insert(event);
    let mut out = String::new();
    for at in events {
        let Some(told) = lookup(at) else { continue };
        let line = format!("{:<8}{:<24}{}", at.to_string(), told.kind(), line_of(told, &Scene::of(lookup)));
        out.push_str(safe_line(line.trim_end()).as_ref());
        out.push('\n');
        for cause in causes.iter().filter(|cause| cause.of == at) {
            out.push_str(&format!("        because of {} ({})\n", cause.from, phrases::link(cause.link)));
        }
    }
    out
}

/// A tool call on which other rules would have decided otherwise: what was and what would be, by which rule.
pub fn redecided(one: &Redecided, lookup: Lookup<'_>) -> String {
    let side = |of: &PolicyDecided| format!("{} by rule `{}`", phrases::action(of.action), of.rule);
    let call = safe_line(&asked(one.was.tool_use, lookup)).into_owned();
    let (was, would_be) = (side(&one.was), side(&one.would_be));
    format!(
        "{:<10} {call}\n  {:<8} {}\n  {:<8} {}\n",
        format!("e{}", one.seq),
        "was",
        safe_line(&was),
        "would be",
        safe_line(&would_be)
    )
}

fn asked(tool_use: ToolUse, lookup: Lookup<'_>) -> String {
    face(tool_use, lookup).map_or_else(|| format!("tool call {}", tool_use.part), |face| face.words())
}
