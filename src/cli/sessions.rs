//! The commands `sessions`: recorded sessions listed, searched, shown, removed and copied; runs nothing.

mod search;

use std::path::Path;

use serde_json::json;
use unicode_width::UnicodeWidthChar;

use crate::cli::args::{SessionsArgs, SessionsCommand};
use crate::cli::consent::AtTerminal;
use crate::cli::desk::Desk;
use crate::cli::error::Failure;
use crate::cli::interrupts::unless_interrupted;
use crate::cli::output::{Output, on_screen};
use crate::cli::{plain, typed_lines};
use crate::config::{Environment, Places};
use crate::host::{Host, SessionSummary, Sessions};
use crate::projection::cache_summary::CacheSheet;
use crate::projection::safe_text::{safe_line, shown};
use crate::projection::squad::SquadSheet;
use crate::projection::{Board, Costs, phrases};

/// Sessions that can be chosen by number.
const CHOICES: usize = 10;

/// Runs a `sessions` command; without one the sessions are listed.
pub fn run(typed: SessionsArgs, environment: &Environment, output: Output) -> Result<(), Failure> {
    let sessions = Sessions::at(&Places::find(environment)?);
    match typed.command.unwrap_or(SessionsCommand::List { json: typed.json, check: typed.check }) {
        SessionsCommand::List { json, check } => {
            let all = if check { sessions.list_checked()? } else { sessions.list()? };
            list(&sessions, &all, json, output)
        }
        SessionsCommand::Search { words, json } => search::run(&sessions, &words, json, output),
        SessionsCommand::Show { session, json } => show(&sessions, &session, json, output),
        SessionsCommand::Rename { session, name } => {
            let id = sessions.rename(&session, &name)?;
            output.say(&format!(
                "{} {id}",
                if name.trim().is_empty() { "the name is gone from" } else { "named" }
            ));
            Ok(())
        }
        SessionsCommand::Rm { session } => session.iter().try_for_each(|session| {
            let id = sessions.remove(session)?;
            output.say(&format!("removed {id}"));
            Ok(())
        }),
        SessionsCommand::Export { session, output: Some(file) } => {
            let (entries, missing) = sessions.export(&session, &file)?;
            say_copied(&format!("{} written", file.display()), entries, &missing, output);
            Ok(())
        }
        SessionsCommand::Export { session, output: None } => copy_out(&sessions, &session, None, output),
        SessionsCommand::Import { file } => {
            let (id, entries, missing) = sessions.import(&file)?;
            say_copied("imported", entries, &missing, output);
            output.data(&format!("{id}\n"))
        }
    }
}

/// Writes a log's lines, up to an entry, to standard output.
pub fn copy_out(sessions: &Sessions, name: &str, last: Option<u64>, output: Output) -> Result<(), Failure> {
    output.stream(|stdout| {
        let mut written = Ok(());
        let read = sessions.lines(name, last, &mut |line| {
            written = stdout.write_all(&on_screen(line));
            written.is_ok()
        });
        written?;
        Ok(read?)
    })
}

fn say_copied(what: &str, entries: u64, missing: &[String], output: Output) {
    output.say(&format!("{what}: {}", phrases::counted(entries, "entry")));
    for blob in missing {
        output.warn(&format!("blob {blob} was not there or not whole"));
    }
}

fn list(sessions: &Sessions, all: &[SessionSummary], json: bool, output: Output) -> Result<(), Failure> {
    if json {
        let rows = all.iter().map(|row| {
            json!({ "id": row.id, "name": sessions.name_of(&row.id), "state": row.standing.words(), "entries": row.entries, "bytes": row.bytes, "opened_at": row.opened_at,
                    "newest_at": row.newest_at, "workspace": row.workspace, "prompt": row.prompt, "fault": row.fault,
                    "parent": row.parent.as_ref().map(|(id, seq)| json!({ "session": id, "seq": seq })) })
        });
        return output.json(&rows.collect::<Vec<_>>());
    }
    if all.is_empty() {
        output.say("there are no sessions yet; `agon demo` makes one");
    }
    if let Some(columns) = output.columns() {
        let lines = all.iter().map(|row| format!("{}\n", short_row(sessions, row, columns)));
        return output.data(&lines.collect::<String>());
    }
    let lines = all.iter().map(|row| {
        let when = format!("{} {}", phrases::day(row.newest_at), phrases::time_of_day(row.newest_at));
        let name = sessions.name_of(&row.id);
        let prompt = name.as_deref().or(row.prompt.as_deref()).unwrap_or_default();
        let fault = row.fault.as_ref().map(|fault| format!("  [{fault}]")).unwrap_or_default();
        let parent = row.parent.as_ref().map(|(id, seq)| format!("  (fork of {id} at e{seq})"));
        let parent = parent.unwrap_or_default();
        let state = row.standing.words();
        format!(
            "{}  {when}  {state:<8}  {:>7}  {}{parent}{fault}\n",
            row.id,
            row.entries,
            safe_line(&phrases::start(prompt, 60))
        )
    });
    output.data(&shown(&lines.collect::<String>()))
}

/// A session in as many columns: its short id, when it was last at work, how it stands, its name or first task.
fn short_row(sessions: &Sessions, row: &SessionSummary, columns: usize) -> String {
    let (day, time) = (phrases::day(row.newest_at), phrases::time_of_day(row.newest_at));
    let name = sessions.name_of(&row.id).map(|name| format!("\u{201c}{name}\u{201d} ")).unwrap_or_default();
    let fork = if row.parent.is_some() { "(fork) " } else { "" };
    let fault = row.fault.as_ref().map(|fault| format!("[{fault}] ")).unwrap_or_default();
    let (id, state) = (phrases::short_id(&row.id), row.standing.words());
    let about = format!("{fault}{name}{fork}{}", row.prompt.as_deref().unwrap_or_default());
    let line = format!(
        "{id:<8}  {}  {state:<8}  {}",
        [day.get(5..).unwrap_or_default(), time.get(..5).unwrap_or_default()].join(" "),
        phrases::start(&about, columns)
    );
    cut(&safe_line(&line), columns)
}

/// As much of a line as fits.
fn cut(line: &str, columns: usize) -> String {
    let mut room = columns.saturating_sub(1);
    let fits = |c: &char| {
        let left = room.checked_sub(c.width().unwrap_or(0));
        room = left.unwrap_or(room);
        left.is_some()
    };
    let head: String = line.chars().take_while(fits).collect();
    if head.len() < line.len() { head + "\u{2026}" } else { head }
}

/// The newest session of a workspace.
pub fn newest(host: &Host, workspace: &Path) -> Result<String, Failure> {
    host.newest_in(workspace)?.ok_or_else(|| {
        Failure::usage(format!("there is no session of `{}` to continue", workspace.display())).hint("agon")
    })
}

/// Lets the person at the terminal choose one of the newest sessions.
pub(super) async fn choose(sessions: &Sessions, person: AtTerminal) -> Result<String, Failure> {
    let unnamed =
        || Failure::usage("no session was named").hint("agon sessions lists them; `latest` is the newest");
    let (output, all) = (person.output, sessions.list()?);
    if !person.can_be_asked || !Desk::is_attended() || all.is_empty() {
        return Err(unnamed());
    }
    let columns = output.talk_columns().unwrap_or(80).saturating_sub(4);
    for (nth, row) in (1..).zip(all.iter().take(CHOICES)) {
        output.tell(&format!("{nth:>2}  {}\n", short_row(sessions, row, columns)));
    }
    output.tell("Number, id or name of the session: ");
    let line = unless_interrupted(typed_lines::line()).await??.unwrap_or_default();
    let nth =
        line.trim().parse::<usize>().ok().and_then(|nth| nth.checked_sub(1)).filter(|nth| *nth < CHOICES);
    match (nth.and_then(|nth| all.get(nth)), line.trim()) {
        (Some(row), _) => Ok(row.id.clone()),
        (None, "") => Err(unnamed()),
        (None, name) => Ok(sessions.find(name)?),
    }
}

/// Where no process is at work on a session any more, what still ran was cut off.
pub fn settled(sessions: &Sessions, id: &str, costs: Costs) -> Costs {
    if sessions.standing(id).is_held() { costs } else { costs.at_the_end() }
}

fn show(sessions: &Sessions, name: &str, json: bool, output: Output) -> Result<(), Failure> {
    let read = sessions.read(name)?;
    let (mut board, mut costs) = (Board::default(), Costs::default());
    let (mut squad, mut cache) = (SquadSheet::default(), CacheSheet::default());
    for entry in &read.entries {
        cache.apply(entry);
        squad.apply(entry);
        board.apply(entry);
        costs.apply(entry);
    }
    let costs = settled(sessions, &read.id, costs);
    if json {
        let total = costs.total.at_most();
        output.json(&json!({
            "id": read.id, "entries": read.head.count, "head": read.head.hash, "turns": board.turn,
            "parent": board.parent.as_ref().map(|(id, seq)| json!({ "session": id, "seq": seq })),
            "workspace": board.workspace, "model": board.model, "program": board.program,
            "tokens": { "input": total.usage.input, "cached": total.usage.cached, "output": total.usage.output },
            "micro_usd": total.micro_usd, "unpriced_calls": total.unpriced, "cut_off_calls": total.unknown,
            "open_approvals": board.approvals.len(), "unfinished_bytes": read.unfinished,
            "fault": read.fault.as_ref().map(ToString::to_string),
        }))?;
    } else {
        let team = plain::TeamWords { lacks: squad.lacks(), cache: cache.words() };
        output.data(&plain::ending(&board, &costs, &team, Some(&read.head)))?;
        output.data(&plain::cost_table(&costs))?;
    }
    Ok(read.whole()?)
}
