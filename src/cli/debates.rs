//! The commands `debates`: recorded debates listed, shown and written down; holds none.

use serde_json::json;

use crate::cli::args::DebatesCommand;
use crate::cli::error::Failure;
use crate::cli::output::Output;
use crate::cli::report;
use crate::config::{Environment, Places};
use crate::host::{Read, Sessions};
use crate::projection::report::debate::{DebateReport, DebateState};
use crate::projection::report::{plain, wording};
use crate::projection::safe_text::safe_line;
use crate::projection::wrapping::WIDTH;
use crate::projection::{Report, phrases};
use crate::protocol::ArenaEvent;
use crate::protocol::event::TurnCause;
use crate::protocol::spec::Mode;

/// Runs a `debates` command; without one the debates are listed.
pub fn run(
    command: Option<DebatesCommand>,
    environment: &Environment,
    output: Output,
) -> Result<(), Failure> {
    let sessions = Sessions::at(&Places::find(environment)?);
    match command.unwrap_or(DebatesCommand::List { json: false }) {
        DebatesCommand::List { json } => list(&sessions, json, output),
        DebatesCommand::Show { session, json } => show(with_debate(&sessions, &session)?, json, output),
        DebatesCommand::Report(typed) => {
            report::write(&typed, with_debate(&sessions, &typed.session)?, output)
        }
    }
}

fn with_debate(sessions: &Sessions, name: &str) -> Result<Read, Failure> {
    let read = sessions.read(name)?;
    match has_debate(&read) {
        true => Ok(read),
        false => Err(Failure::usage(format!("session `{}` held no debate", read.id))
            .hint(format!("agon report {} tells what it came to", read.id))),
    }
}

fn has_debate(read: &Read) -> bool {
    read.entries.iter().any(|entry| match entry.fact() {
        Some(ArenaEvent::PromptGiven(data)) => !entry.is_void() && matches!(data.mode, Mode::Debate(_)),
        _ => false,
    })
}

/// How the mode of a prompt stands in a log where it is a debate. Within a string its quotes are escaped.
const IN_A_DEBATE: &[u8] = b"\"mode\":{\"debate\"";

/// A session that cannot be read is said and passed over.
fn list(sessions: &Sessions, json: bool, output: Output) -> Result<(), Failure> {
    let mut rows = Vec::new();
    let summaries = sessions.list_with(IN_A_DEBATE)?;
    let all: Vec<String> = summaries.iter().map(|summary| summary.id.clone()).collect();
    let length = short_ids(&all);
    for summary in summaries {
        match sessions.read(&summary.id) {
            Ok(read) if has_debate(&read) => rows.push((read.id.clone(), Report::of(&read.entries))),
            Ok(_) => {}
            Err(error) => output.warn(&format!("`{}` is left out: {error}", summary.id)),
        }
    }
    let debates =
        rows.iter().flat_map(|(id, report)| report.debates.iter().map(move |debate| (id, report, debate)));
    if json {
        return output
            .json(&debates.map(|(id, report, debate)| row_json(id, report, debate)).collect::<Vec<_>>());
    }
    if rows.is_empty() {
        output.say("there are no debates yet; `agon demo debate` holds one");
    }
    let columns = output.columns().unwrap_or(WIDTH);
    output.data(
        &debates
            .map(|(id, report, debate)| row(id.get(..length).unwrap_or(id), report, debate, columns))
            .collect::<String>(),
    )
}

/// One line, as wide as the terminal or 80 columns: as much of the id as tells it from the others, when, the end, how many were heard, the
/// question.
fn row(id: &str, report: &Report, debate: &DebateReport, columns: usize) -> String {
    let at = report.session.last_at;
    let time = phrases::time_of_day(at);
    let when = format!("{} {}", phrases::day(at), time.get(..5).unwrap_or(&time));
    let heard = format!("{}/{} heard", debate.heard.ever, debate.heard.of);
    let start = format!("{id}  {when}  {:<12}  {heard}  ", ending(debate));
    let room = columns.saturating_sub(start.chars().count()).max(20);
    format!("{start}{}\n", phrases::start(&safe_line(&debate.question), room - 1))
}

/// As much of each id as no other begins with, and the time it was made at in any case.
fn short_ids(ids: &[String]) -> usize {
    const AT_LEAST: usize = 13;
    let mut sorted: Vec<&String> = ids.iter().collect();
    sorted.sort();
    let shared = |a: &str, b: &str| a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let longest = sorted.windows(2).map(|pair| shared(pair[0], pair[1]) + 1).max();
    longest.unwrap_or_default().max(AT_LEAST)
}

fn row_json(id: &str, report: &Report, debate: &DebateReport) -> serde_json::Value {
    json!({ "id": id, "turn": debate.turn, "newest_at": report.session.last_at, "question": debate.question,
            "personas": debate.debaters.iter().map(|debater| &debater.persona).collect::<Vec<_>>(),
            "state": debate.state, "confidence_pm": debate.verdict.as_ref().map(|verdict| verdict.confidence_pm),
            "talk": debate.talk, "heard": debate.heard })
}

fn ending(debate: &DebateReport) -> String {
    match (&debate.state, &debate.verdict) {
        (_, Some(verdict)) if verdict.is_majority => "sealed vote".to_owned(),
        (_, Some(verdict)) => format!("verdict {}", wording::cell(verdict.confidence_pm)),
        (DebateState::Gated(_), None) => "no verdict".to_owned(),
        (DebateState::Ended(TurnCause::Stopped | TurnCause::Interrupted), None) => "stopped".to_owned(),
        (DebateState::Open, None) => "unfinished".to_owned(),
        (DebateState::Decided | DebateState::Ended(_), None) => "no verdict".to_owned(),
    }
}

fn show(read: Read, json: bool, output: Output) -> Result<(), Failure> {
    let report = Report::of(&read.entries);
    match json {
        true => output.json(&report.debate())?,
        false => output.data(&plain::page(&report))?,
    }
    Ok(read.whole()?)
}
