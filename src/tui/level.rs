//! The permission level on the screen: what is shown of it, and what changes it.

use crate::projection::Board;
use crate::protocol::event::TurnCause;
use crate::protocol::spec::PermissionLevel;

use super::state::State;
use super::theme::Tone;
use super::view_model::ViewModel;
use super::{Act, ModeRequest};

/// The level in force, and the one that holds next where that is another.
pub(super) fn shown(state: &State, scene: &ViewModel<'_>) -> (PermissionLevel, Option<PermissionLevel>) {
    let (profile, board) = (&state.profile, &scene.moment.board);
    let now = match board.seq {
        Some(_) => board.permission,
        None => profile.level,
    };
    let wanted = profile.wanted_level.filter(|_| state.past.is_none() && !profile.is_record);
    (now, wanted.filter(|wanted| *wanted != now))
}

/// The colour of a level; its word is always beside it.
pub(super) fn tone(level: PermissionLevel) -> Tone {
    match level {
        PermissionLevel::Plan => Tone::Accent,
        PermissionLevel::Ask => Tone::Good,
        PermissionLevel::Edits => Tone::Warn,
        PermissionLevel::Auto | PermissionLevel::Unknown(_) => Tone::Bad,
    }
}

/// What a level does, in a few words.
fn about(level: PermissionLevel) -> &'static str {
    match level {
        PermissionLevel::Plan => "nothing is changed; the answer is a plan",
        PermissionLevel::Ask => "reads are free; edits and commands are asked",
        PermissionLevel::Edits => "reads and edits are free; commands are asked",
        PermissionLevel::Auto => "what the sandbox confines is free",
        PermissionLevel::Unknown(_) => "unknown to this agon",
    }
}

/// Goes on to the next level.
pub(super) fn cycle(state: &mut State, acts: &mut Vec<Act>) {
    if state.profile.is_record {
        return;
    }
    let (now, next) = shown(state, &state.scene());
    acts.push(Act::Permission(next.unwrap_or(now).next()));
}

/// What `/permission` does: a level is set; without one the levels are listed.
pub(super) fn set(state: &mut State, rest: &str, acts: &mut Vec<Act>) -> Result<(), String> {
    if rest.is_empty() {
        let (now, _) = shown(state, &state.scene());
        state.tell(format!("permission level {}: {}; Shift-Tab changes it", now.word(), about(now)));
        return Ok(());
    }
    acts.push(Act::Permission(named(rest)?));
    Ok(())
}

/// A level by its name.
pub fn named(word: &str) -> Result<PermissionLevel, String> {
    PermissionLevel::named(word)
        .ok_or_else(|| format!("no level is called `{word}`: plan, ask, edits or auto"))
}

/// True while the screen shows a plan that can be accepted.
pub(super) fn has_plan(state: &State, scene: &ViewModel<'_>) -> bool {
    state.past.is_none() && !state.profile.is_record && accepted(&scene.moment.board, "").is_ok()
}

/// The level that a plan is carried out at, and the task that cites it.
pub fn accepted(board: &Board, rest: &str) -> Result<(PermissionLevel, String), String> {
    let level = if rest.is_empty() { PermissionLevel::Edits } else { named(rest)? };
    let is_plan = board.permission == PermissionLevel::Plan && board.cause == Some(TurnCause::Done);
    let plan = board.answer.filter(|_| is_plan);
    let plan = plan.ok_or("there is no plan to accept: it is the answer of a turn at the level `plan`")?;
    if level == PermissionLevel::Plan {
        return Err("accepting a plan raises the level: /accept ask, edits or auto".to_owned());
    }
    let text =
        format!("Carry out your plan ({plan}). The permission level is `{}` from here on.", level.word());
    Ok((level, text))
}

/// What `/accept` does: the level is raised, and the plan becomes the next task.
pub(super) fn accept(state: &State, rest: &str, written: &str) -> Result<Act, String> {
    let (level, text) = accepted(&state.scene().moment.board, rest)?;
    let (wish, written) = (ModeRequest::default(), written.to_owned());
    Ok(Act::Accept { level, task: Box::new(Act::Prompt { text, wish, written, steers: false, to: None }) })
}
