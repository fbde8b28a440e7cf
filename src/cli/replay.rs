//! The command `replay`: reads a log and shows it; calls nothing, runs nothing.

use std::time::Duration;

use crate::cli::args::ReplayArgs;
use crate::cli::error::Failure;
use crate::cli::output::Output;
use crate::cli::plain::{self, Options, Renderer};
use crate::cli::sessions::{copy_out, settled};
use crate::config::{Environment, Places};
use crate::host::{LogError, Sessions, WireError};
use crate::projection::cache_summary::CacheSheet;
use crate::projection::squad::SquadSheet;
use crate::projection::{Board, Costs};
use crate::protocol::EventRef;

/// The longest pause that is kept at normal speed, in microseconds: nobody waits for a night to pass.
const LONGEST_PAUSE: u64 = 10_000_000;

/// Shows a recorded session as plain lines, or its lines as they are.
pub async fn replay(typed: &ReplayArgs, environment: &Environment, output: Output) -> Result<(), Failure> {
    let sessions = Sessions::at(&Places::find(environment)?);
    if typed.json && typed.at.is_none() {
        return copy_out(&sessions, &typed.session, None, output);
    }
    let read = sessions.read(&typed.session)?;
    if let Some(seq) = typed.at.filter(|seq| *seq >= read.head.count && read.fault.is_none()) {
        return Err(WireError::Log(LogError::NoSuchEntry { seq, count: read.head.count }).into());
    }
    if typed.json {
        return copy_out(&sessions, &typed.session, typed.at, output);
    }
    let shown = read.entries.iter().take_while(|entry| typed.at.is_none_or(|at| entry.seq <= at));
    let options = Options {
        color: output.colours_data(),
        full: typed.full,
        columns: output.columns(),
        ..Options::default()
    };
    let mut renderer = Renderer::new(options);
    let (mut board, mut costs) = (Board::default(), Costs::default());
    let (mut squad, mut cache) = (SquadSheet::default(), CacheSheet::default());
    let mut last = None;
    for entry in shown {
        pause(typed.speed, last.replace(entry.at), entry.at).await;
        let lookup = |at: EventRef| read.event(at);
        output.data(&renderer.entry(entry, &lookup))?;
        board.apply(entry);
        costs.apply(entry);
        cache.apply(entry);
        squad.apply(entry);
    }
    let is_whole = board.seq.is_some_and(|seq| seq + 1 == read.head.count);
    let costs = if is_whole { settled(&sessions, &read.id, costs) } else { costs };
    let team = plain::TeamWords { lacks: squad.lacks(), cache: cache.words() };
    output.data(&plain::ending(&board, &costs, &team, is_whole.then_some(&read.head)))?;
    Ok(read.whole()?)
}

async fn pause(speed: Option<u32>, from: Option<u64>, to: u64) {
    if let (Some(speed), Some(from)) = (speed, from) {
        let pause = to.saturating_sub(from).min(LONGEST_PAUSE) / u64::from(speed.max(1));
        tokio::time::sleep(Duration::from_micros(pause)).await;
    }
}
