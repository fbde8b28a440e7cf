//! Mission control behind the screen: opens, resumes, forks and leaves sessions, and does what the screen wants.

mod arrange;
mod desk;
pub mod lines;

use crate::cli::args::{ChatArgs, DemoArgs, ReplayArgs};
use crate::cli::error::{DONE, Failure, INTERRUPTED};
use crate::cli::output::Output;
use crate::config::{Environment, Places};
use crate::tui::screen::{self, Left};
use crate::tui::{Msg, State, update};
use crate::wiring::Sessions;

use desk::Mission;

/// The screen on this workspace; plain lines where there is no terminal.
pub async fn chat(typed: &ChatArgs, environment: Environment, output: Output) -> Result<u8, Failure> {
    if typed.plain || !output.has_screen(&environment) {
        return lines::chat(typed, environment, output).await;
    }
    let mut mission = arrange::mission(typed, environment)?;
    let mut state = State::new(mission.profile(), 80, 24);
    if typed.go_on {
        let newest = mission.newest_here()?;
        take(&mut state, mission.open(&newest)?);
    }
    follow(mission, state, output).await
}

/// The screen on the built-in demo.
pub async fn demo(typed: &DemoArgs, environment: Environment, output: Output) -> Result<u8, Failure> {
    let mut mission = arrange::mission(&ChatArgs::default(), environment)?;
    mission.says_yes = typed.arena.yes;
    let mut state = State::new(mission.profile(), 80, 24);
    take(&mut state, mission.demo(typed.show, typed.arena.workspace.workspace.as_deref()).await?);
    follow(mission, state, output).await
}

/// The screen on a record.
pub async fn replay(typed: &ReplayArgs, environment: Environment, output: Output) -> Result<u8, Failure> {
    let read = Sessions::at(&Places::find(&environment)?).read(&typed.session)?;
    let mut mission = arrange::mission(&ChatArgs::default(), environment)?;
    mission.is_record = true;
    let mut state = State::new(mission.profile(), 80, 24);
    take(&mut state, mission.show(read));
    if let Some(seq) = typed.at {
        state.look_at(seq);
    }
    follow(mission, state, output).await
}

fn take(state: &mut State, news: Vec<Msg>) {
    for msg in news {
        // Nothing that is told before the first frame wants anything done.
        let _ = update(state, msg);
    }
}

async fn follow(mut mission: Mission, mut state: State, output: Output) -> Result<u8, Failure> {
    let left = screen::run(&mut mission, &mut state).await;
    let summary = mission.close().await;
    output.tell(&summary);
    Ok(match left? {
        Left::Quit => DONE,
        Left::Terminated => INTERRUPTED,
    })
}
