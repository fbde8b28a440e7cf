//! Keys of the story: scrolling, time travel, playing, following one spark.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::approve;
use super::compose::copy;
use super::overlay;
use crate::projection::board::SparkRow;
use crate::protocol::{ArenaEvent, Entry, SparkId};
use crate::tui::Act;
use crate::tui::keys::Do;
use crate::tui::state::{Overlay, Pane, Play, State};
use crate::tui::timeline::Timeline;

/// The longest pause of a record that is kept when it is played, in microseconds.
const LONGEST_PAUSE: u64 = 2_000_000;

/// The shortest time an entry stays when a record is played at normal speed.
const SHORTEST_PAUSE: u64 = 60_000;

/// The fastest a record is played, in quarters of how it went.
const MAX_SPEED: u32 = 64 * 4;

pub(super) fn press(state: &mut State, what: Do, acts: &mut Vec<Act>) {
    match what {
        Do::LineUp => scroll(state, -1),
        Do::LineDown => scroll(state, 1),
        Do::Start => state.story.go_to_start(),
        Do::End => state.story.anchor = None,
        Do::PromptBack => with_story(state, |story, state| story.go_to_prompt(&state.scene(), false)),
        Do::PromptForward => with_story(state, |story, state| story.go_to_prompt(&state.scene(), true)),
        Do::Unfold => state.story.is_open = !state.story.is_open,
        Do::NextSpark => next_spark(state),
        Do::Matrix => state.overlays.push(Overlay::Matrix { scroll: 0, back: 0 }),
        Do::Review => review(state),
        Do::Open => open(state),
        Do::Copy => copy(state, acts),
        Do::StepBack => step(state, false),
        Do::StepForward => step(state, true),
        Do::Jump => {
            pause(state);
            state.overlays.push(Overlay::Jump(String::new()));
        }
        Do::Play => toggle(state),
        Do::Slower => speed(state, |speed| (speed / 2).max(1)),
        Do::Faster => speed(state, |speed| (speed * 2).min(MAX_SPEED)),
        Do::Fork => fork(state),
        Do::Live if state.past.is_some() => come_back(state),
        Do::Live if state.story.anchor.is_some() => live(state),
        Do::Live | Do::Write if !state.profile.is_record => state.pane = Pane::Composer,
        Do::Live if state.profile.is_record => state.overlays.push(Overlay::Quit),
        _ => {}
    }
}

/// `q` leaves a record, a slash begins a command; a letter that means nothing here does nothing.
pub(super) fn other(state: &mut State, key: KeyEvent) {
    match key.code {
        KeyCode::Char('q') => state.overlays.push(Overlay::Quit),
        KeyCode::Char('/') if !state.profile.is_record && key.modifiers == KeyModifiers::NONE => {
            state.pane = Pane::Composer;
            state.composer.insert("/");
        }
        _ => {}
    }
}

/// Asks before it forks: one key alone starts nothing.
fn fork(state: &mut State) {
    pause(state);
    if let Some(seq) = state.seen() {
        state.overlays.push(Overlay::Fork { seq });
    }
}

/// Back from an earlier moment, and to what waits for an answer.
pub(super) fn come_back(state: &mut State) {
    live(state);
    approve::come_back(state);
}

/// Back to the newest.
pub(super) fn live(state: &mut State) {
    state.past = None;
    state.story.anchor = None;
}

pub(super) fn page(state: &mut State, pages: isize) {
    let height = state.story.height().saturating_sub(2).max(1);
    scroll(state, pages * isize::try_from(height).unwrap_or(1));
}

pub(super) fn scroll(state: &mut State, by: isize) {
    with_story(state, |story, state| story.scroll(&state.scene(), by));
}

/// The story is moved while the rest of the state is read.
fn with_story(state: &mut State, change: impl FnOnce(&mut Timeline, &State)) {
    let mut story = std::mem::take(&mut state.story);
    change(&mut story, state);
    state.story = story;
}

fn next_spark(state: &mut State) {
    let sparks: Vec<SparkId> = state.scene().at_work().map(|row| row.spark).collect();
    let at = state.story.focus.and_then(|focus| sparks.iter().position(|spark| *spark == focus));
    state.story.focus = match at {
        None => sparks.first().copied(),
        Some(at) => sparks.get(at + 1).copied(),
    };
    state.story.anchor = None;
}

impl State {
    /// The subagent that is followed, while it is at work: words go to it, and Esc stops it alone.
    pub(in crate::tui) fn addressed(&self) -> Option<&SparkRow> {
        let focus = self.story.focus.filter(|_| self.past.is_none())?;
        let mut rows = self.record.now.board.sparks.iter();
        rows.find(|row| row.spark == focus && row.depth() > 0 && row.ended.is_none())
    }
}

/// A subagent that was followed has ended: what comes next is said by others.
pub(super) fn let_go(state: &mut State, entry: &Entry) {
    let rows = &state.record.now.board.sparks;
    let has_ended =
        |id: SparkId| rows.iter().any(|row| row.spark == id && row.depth() > 0 && row.ended.is_some());
    let ends = entry.effective().any(|(_, event)| matches!(event, ArenaEvent::SparkCompleted(_)));
    if ends && state.past.is_none() && state.story.focus.is_some_and(has_ended) {
        (state.story.focus, state.story.anchor) = (None, None);
    }
}

/// What a squad proposed in this turn; else what the session changed.
fn review(state: &mut State) {
    match state.scene().moment.board.proposed {
        Some(_) => state.overlays.push(Overlay::Review { is_whole: false }),
        None => overlay::changes(state),
    }
}

/// Opens the event behind the item at the top of the window.
fn open(state: &mut State) {
    let scene = state.scene();
    let top = state.story.top_item().min(scene.count().saturating_sub(1));
    if let Some(item) = scene.item(top) {
        let at = item.source;
        state.overlays.push(Overlay::Inspect { at, scroll: 0 });
    }
}

pub(super) fn step(state: &mut State, forward: bool) {
    let Some(seen) = state.seen() else { return };
    pause(state);
    let to = if forward { seen + 1 } else { seen.saturating_sub(1) };
    state.travel(to);
}

/// Whoever goes elsewhere in a record, or asks for something, is not played on.
pub(super) fn pause(state: &mut State) {
    if let Some(past) = &mut state.past {
        past.play = None;
    }
}

/// Plays from here, from the beginning when at the end; or pauses.
fn toggle(state: &mut State) {
    if state.past.as_ref().is_some_and(|past| past.play.is_some()) {
        return pause(state);
    }
    if state.past.is_none() {
        state.travel(0);
    }
    if let Some(past) = &mut state.past {
        past.play = Some(Play { speed: Play::AS_IT_WENT, since: state.now });
    }
}

fn speed(state: &mut State, change: impl Fn(u32) -> u32) {
    if let Some(play) = state.past.as_mut().and_then(|past| past.play.as_mut()) {
        play.speed = change(play.speed);
    }
}

/// Takes the entries whose time has come.
pub(super) fn play(state: &mut State) {
    while let Some(Play { speed, since }) = state.past.as_ref().and_then(|past| past.play) {
        let Some(seen) = state.seen() else { return };
        let Some(next) = state.record.entry(seen + 1) else { return live_at_end(state) };
        let before = state.record.entry(seen).map_or(next.at, |entry| entry.at);
        let gap = next.at.saturating_sub(before).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        let due = since + gap * u64::from(Play::AS_IT_WENT) / u64::from(speed.max(1));
        if due > state.now {
            return;
        }
        let to = next.seq;
        state.travel(to);
        state.is_dirty = true;
        if let Some(play) = state.past.as_mut().and_then(|past| past.play.as_mut()) {
            play.since = due;
        }
    }
}

fn live_at_end(state: &mut State) {
    live(state);
    state.is_dirty = true;
}
