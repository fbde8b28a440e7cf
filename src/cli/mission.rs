//! Mission control behind the screen: opens, resumes, forks and leaves sessions, and does what the screen wants.

mod actions;
mod consent_prompt;
mod controller;
mod editor;
pub mod line_mode;
mod mode_request;
mod pick;
mod record;
mod session_ops;
mod session_options;
mod setup;
mod text;
mod undo;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::cli::args::{ArenaArgs, ChatArgs, DemoArgs, EarlierArgs, ReplayArgs, RunArgs};
use crate::cli::error::{DONE, Failure, INTERRUPTED};
use crate::cli::output::Output;
use crate::cli::run::{self, next_step};
use crate::cli::{init, plain};
use crate::config::{Environment, Places};
use crate::host::Sessions;
use crate::projection::phrases;
use crate::tui::screen::{self, Left};
use crate::tui::{Msg, State, update};

use controller::Mission;

/// Lines of the last answer that stay in the terminal.
const LEFT: usize = 40;

/// The screen on this workspace; plain lines where there is no terminal.
pub async fn chat(typed: &ChatArgs, environment: Environment, output: Output) -> Result<u8, Failure> {
    if typed.prompt.is_some() && !output.is_between_terminals() {
        // What comes through a pipe belongs to the task, and what goes into one is the answer.
        return run::run(&printed(typed), environment, output).await;
    }
    if typed.plain || !output.has_screen(&environment) {
        return line_mode::chat(typed, environment, output).await;
    }
    let mut kit = setup::kit(typed, environment.clone())?;
    if typed.set_up && init::first(&kit.config, output).await? {
        kit = setup::kit(typed, environment)?;
    }
    setup::ask_about_workspace(&mut kit, output).await?;
    let mut mission = setup::mission_with(typed, kit);
    let mut state = State::new(mission.profile(), 80, 24);
    state.begin(typed.prompt.as_deref(), matches!(typed.resume, Some(None)));
    let session = match &typed.resume {
        Some(Some(session)) => Some(session.clone()),
        _ if typed.newest => Some(mission.newest_here()?),
        _ => None,
    };
    mission.recall();
    if let Some(session) = session {
        // What is not there is said before anything is drawn.
        mission.kit.sessions().find(&session)?;
        take(&mut state, mission.open(session));
    }
    follow(mission, state, output).await
}

/// The same without a screen.
fn printed(typed: &ChatArgs) -> RunArgs {
    RunArgs {
        prompt: typed.prompt.clone(),
        model: typed.model.clone(),
        persona: typed.persona.clone(),
        earlier: EarlierArgs { resume: typed.resume.clone().flatten(), newest: typed.newest },
        arena: ArenaArgs {
            workspace: typed.workspace.clone(),
            held: typed.held.clone(),
            ..ArenaArgs::default()
        },
        ..RunArgs::default()
    }
}

/// The screen on the built-in demo.
pub async fn demo(typed: &DemoArgs, environment: Environment, output: Output) -> Result<u8, Failure> {
    has_screen(&environment, output)?;
    let (look, held) = (typed.look.clone(), typed.arena.held.clone());
    let chat = ChatArgs { look, held, ..ChatArgs::default() };
    let mut mission = setup::mission(&chat, environment)?;
    let mut state = State::new(mission.profile(), 80, 24);
    take(&mut state, mission.demo(typed.show, typed.arena.workspace.workspace.clone()));
    follow(mission, state, output).await
}

/// The screen on a record.
pub async fn replay(typed: &ReplayArgs, environment: Environment, output: Output) -> Result<u8, Failure> {
    has_screen(&environment, output)?;
    let sessions = Sessions::at(&Places::find(&environment)?);
    let mut is_readable = false;
    let fault = sessions.scan(&typed.session, &mut |_| {
        is_readable = true;
        false
    })?;
    if let Some(fault) = fault.filter(|_| !is_readable) {
        return Err(crate::host::WireError::from(fault).into());
    }
    let chat = ChatArgs { look: typed.look.clone(), ..ChatArgs::default() };
    let mut mission = setup::mission(&chat, environment)?;
    mission.is_record = true;
    let mut state = State::new(mission.profile(), 80, 24);
    take(&mut state, mission.open(typed.session.clone()));
    state.begin_at = typed.at;
    follow(mission, state, output).await
}

/// Refuses to draw where nothing can be drawn.
fn has_screen(environment: &Environment, output: Output) -> Result<(), Failure> {
    match output.has_screen(environment) {
        true => Ok(()),
        false => {
            Err(Failure::usage("there is no terminal to draw on").hint("without `--tui`, agon prints lines"))
        }
    }
}

fn take(state: &mut State, news: Vec<Msg>) {
    for msg in news {
        // Nothing that is told before the first frame wants anything done.
        let _ = update(state, msg);
    }
}

/// How the session is gone on with from where this program was started.
fn way_on(state: &State, id: &str, here: &std::path::Path) -> String {
    let board = state.board();
    let again = next_step(board, id);
    match std::path::Path::new(&board.workspace) == here {
        true => format!("agon -c, or {again}"),
        false => again,
    }
}

/// Begins again with the question of `agon init`, in place of this process: its thread that reads keys could not be ended.
fn again(here: &std::path::Path) -> Failure {
    let typed: Vec<OsString> = std::env::args_os().skip(1).filter(|typed| typed != "--set-up").collect();
    let is_chat = typed.first().is_none_or(|first| first.as_encoded_bytes().starts_with(b"-"));
    let flags = if is_chat { typed } else { vec!["--workspace".into(), here.into()] };
    let begun =
        std::env::current_exe().map(|program| Command::new(program).args(flags).arg("--set-up").exec());
    let error = begun.unwrap_or_else(|error| error);
    Failure::from(error).hint("agon init")
}

async fn follow(mut mission: Mission, mut state: State, output: Output) -> Result<u8, Failure> {
    let left = screen::run(&mut mission, &mut state).await;
    let (is_record, here) = (mission.is_record, mission.folder());
    let (last, id) = mission.close().await;
    for entry in last {
        let _ = update(&mut state, Msg::Entry(entry));
    }
    if state.next_seq() > 0 {
        // What was on the screen stays readable in the terminal.
        if let Some(answer) = state.last_answer().filter(|_| !is_record) {
            let most = LEFT.min(answer.lines().count());
            let gap = if most < answer.lines().count() { "\u{2026}\n" } else { "" };
            let end: Vec<&str> = answer.lines().skip(answer.lines().count() - most).collect();
            output.tell(&format!("{gap}{}\n\n", end.join("\n").trim_end()));
        }
        output.tell(&plain::trailer(state.board(), state.costs(), &plain::TeamWords::default()));
        if let Some(id) = id.filter(|_| !is_record) {
            let board = state.board();
            output.tell(&match mission.is_going(&board.workspace, board.has_open_turn()) {
                true => format!("look back: agon replay {} --tui\n", phrases::short_id(&id)),
                false => format!("continue: {}\n", way_on(&state, &id, &here)),
            });
        }
    }
    Ok(match left? {
        Left::SetUp => return Err(again(&here)),
        Left::Quit => DONE,
        Left::Terminated => INTERRUPTED,
    })
}
