//! The commands `cache`: recorded runs of squads counted, listed, shown and removed; shows no file's content.

use serde_json::json;

use crate::cli::args::{CacheCommand, WorkspaceArgs};
use crate::cli::error::Failure;
use crate::cli::output::Output;
use crate::config::Environment;
use crate::host::{FileChange, FoundRun, Runs};
use crate::projection::phrases::{self, counted};
use crate::projection::safe_text::{safe, safe_line};
use crate::projection::squad::SquadSheet;
use crate::protocol::effect::FinishedRun;

/// Runs a `cache` command.
pub fn run(command: &CacheCommand, environment: Environment, output: Output) -> Result<(), Failure> {
    let config = super::config::load(&WorkspaceArgs::default(), environment, output)?;
    let runs = Runs::of(&config);
    match command {
        CacheCommand::Stats { json } => stats(&runs, *json, output),
        CacheCommand::List { json } => list(&runs, *json, output),
        CacheCommand::Show { key, json } => show(&runs, key, *json, output),
        CacheCommand::Prune => say_removed(runs.prune()?, output),
        CacheCommand::Clear => say_removed(runs.clear()?, output),
    }
}

fn stats(runs: &Runs, json: bool, output: Output) -> Result<(), Failure> {
    let (stats, folder) = (runs.stats()?, runs.folder().display().to_string());
    if json {
        return output.json(&json!({
            "folder": folder, "on": runs.is_on(), "fresh": stats.fresh, "expired": stats.expired,
            "damaged": stats.damaged, "bytes": stats.bytes, "max_bytes": stats.max_bytes, "tokens": stats.tokens,
            "micro_usd": stats.micro_usd,
        }));
    }
    let mut text = format!(
        "{}, {}{}\nthey save {}, {} when each is used once\n",
        counted(stats.fresh, "run"),
        size(stats.bytes),
        if stats.max_bytes > 0 { format!(" of {}", size(stats.max_bytes)) } else { String::new() },
        counted(stats.tokens, "token"),
        phrases::money(stats.micro_usd),
    );
    for (count, what) in [(stats.expired, "expired"), (stats.damaged, "damaged")] {
        if count > 0 {
            text += &format!("{count} {what}; `agon cache prune` removes them\n");
        }
    }
    if !runs.is_on() {
        text += "switched off in the configuration: squads neither use nor store runs\n";
    }
    output.data(&format!("{text}in {}\n", safe_line(&folder)))
}

fn list(runs: &Runs, json: bool, output: Output) -> Result<(), Failure> {
    let rows = runs.list()?;
    if json {
        let rows = rows.iter().map(|row| match &row.run {
            Ok(found) => json!({ "key": row.key, "bytes": row.bytes, "used_at": row.used_at,
                                 "expired": row.expired,
                                 "stored_at": found.run.stored_at,
                                 "session": found.run.run.session, "tokens": found.run.run.tokens,
                                 "micro_usd": found.run.run.micro_usd, "models": found.run.run.models,
                                 "files": found.run.changes.len() }),
            Err(fault) => json!({ "key": row.key, "bytes": row.bytes, "fault": fault }),
        });
        return output.json(&rows.collect::<Vec<_>>());
    }
    if rows.is_empty() {
        output.say("the team cache is empty; a squad that ends done in a sandbox leaves its run there");
    }
    let lines = rows.iter().map(|row| {
        let key = short(&row.key);
        match &row.run {
            Ok(found) => format!(
                "{key}  {}  {:>9}  {:>9}  {}{}\n",
                when(found.run.stored_at),
                size(row.bytes),
                counted(found.run.changes.len() as u64, "file"),
                safe_line(&phrases::start(&about(&found.run.run), 50)),
                if row.expired { "  [expired]" } else { "" },
            ),
            Err(fault) => format!("{key}  [{}]\n", safe_line(fault)),
        }
    });
    output.data(&lines.collect::<String>())
}

fn show(runs: &Runs, prefix: &str, json: bool, output: Output) -> Result<(), Failure> {
    let (key, FoundRun { run, digest }) = runs.show(prefix)?;
    if json {
        return output.json(&json!({ "key": key, "digest": digest, "stored_at": run.stored_at,
                                    "run": run.run, "changes": run.changes }));
    }
    let head = format!(
        "key      {key}\nstored   {}\nsession  {}\nmodels   {}\nsaves    {}, {}\n",
        when(run.stored_at),
        safe_line(&run.run.session),
        safe_line(&run.run.models.join(", ")),
        counted(run.run.tokens, "token"),
        phrases::money(run.run.micro_usd),
    );
    let files = match run.changes.as_slice() {
        [] => "files    none\n".to_owned(),
        changes => changes.iter().map(file_line).collect(),
    };
    let asked = match run.run.request.trim() {
        "" => String::new(),
        request => format!("\n> {}\n", safe(request).replace('\n', "\n> ")),
    };
    output.data(&format!("{head}{files}{asked}\n{}\n", answer_of(&run.run)))
}

/// What a run is about, in one text: what was asked for, else its answer.
fn about(run: &FinishedRun) -> String {
    if run.request.trim().is_empty() { answer_of(run) } else { run.request.clone() }
}

/// The answer in words, safe to print.
fn answer_of(run: &FinishedRun) -> String {
    SquadSheet::recorded_words(&run.flags, &run.answer)
}

fn file_line(change: &FileChange) -> String {
    let word = match (&change.before, &change.after) {
        (None, _) => "adds",
        (_, None) => "removes",
        _ => "changes",
    };
    format!("{word:<8} {}\n", safe_line(&change.path))
}

fn say_removed(removed: crate::host::RemovedRuns, output: Output) -> Result<(), Failure> {
    output.data(&format!("removed {}, {}\n", counted(removed.runs, "run"), size(removed.bytes)))
}

fn short(key: &str) -> &str {
    key.get(..12).unwrap_or(key)
}

fn when(at: u64) -> String {
    format!("{} {}", phrases::day(at), phrases::time_of_day(at))
}

/// Bytes as people read them.
fn size(bytes: u64) -> String {
    match bytes {
        0..=1023 => format!("{bytes} B"),
        1024..=1_048_575 => format!("{} KiB", bytes.div_ceil(1024)),
        _ => format!("{} MiB", bytes.div_ceil(1024 * 1024)),
    }
}
