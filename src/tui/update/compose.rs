//! Keys of the composer: editing, sending, steering, slash commands.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::projection::phrases;
use crate::projection::transcript::ItemKind;
use crate::projection::{safe_text, typed};
use crate::protocol::{CallId, Command};

use super::{approve, browse, overlay, pick, rewind};
use crate::tui::keys::Do;
use crate::tui::level;
use crate::tui::mode_request;
use crate::tui::slash::{self, INIT_TASK, Order};
use crate::tui::state::{Overlay, Pane, Play, State};
use crate::tui::text::clean_line;
use crate::tui::theme::Theme;
use crate::tui::{Act, ModeRequest, Worker};

/// Items that are looked through for an answer.
const FARTHEST: usize = 20_000;

pub(super) fn press(state: &mut State, key: KeyEvent, what: Option<Do>, acts: &mut Vec<Act>) {
    match what {
        Some(Do::Send) if key.modifiers.contains(KeyModifiers::SHIFT) => state.composer.insert("\n"),
        Some(Do::Send) if state.composer.breaks_line() => {}
        Some(Do::Send) => send(state, acts),
        Some(Do::NewLine) => state.composer.insert("\n"),
        Some(Do::NextPane) if !state.composer.accept() => drop(state.composer.unfold()),
        Some(Do::NextPane) => {}
        Some(Do::History) => pick::open_history(state),
        Some(Do::Edit) => acts.push(Act::Edit(state.composer.whole())),
        Some(Do::Interrupt) => interrupt(state, acts),
        Some(Do::LeaveIfEmpty) if state.composer.is_empty() => acts.push(Act::Quit),
        Some(Do::LeaveIfEmpty) => state.composer.delete(),
        _ => edit(state, key),
    }
    if state.composer.files.is_empty() && state.composer.wants_files() {
        acts.push(Act::Files);
    }
    if state.sessions.is_none() && state.composer.text == "/resume " {
        acts.push(Act::List);
    }
    if state.composer.values.personas.is_empty() && state.composer.text == "/persona " {
        acts.push(Act::Personas);
    }
}

fn edit(state: &mut State, key: KeyEvent) {
    let composer = &mut state.composer;
    match key.code {
        KeyCode::Char('?') if composer.is_empty() => state.overlays.push(Overlay::Help { scroll: 0 }),
        KeyCode::Up if !composer.choose(false) => composer.up(),
        KeyCode::Down if !composer.choose(true) => composer.down(),
        _ => drop(composer.edit(key)),
    }
}

/// Esc closes what is offered, comes back to now, clears what is written; only then it interrupts what runs.
fn interrupt(state: &mut State, acts: &mut Vec<Act>) {
    if state.composer.offer.take().is_some() {
        return;
    }
    if state.past.is_some() {
        return browse::come_back(state);
    }
    if !state.composer.is_empty() {
        drop(state.composer.take());
        let then = if state.is_working() { ", Esc again interrupts" } else { "" };
        return state.tell(format!("cleared; \u{2191} brings it back{then}"));
    }
    stop(state, acts);
}

/// Interrupts what runs.
pub(super) fn stop(state: &mut State, acts: &mut Vec<Act>) {
    if state.is_working() {
        let (spark, words) = match state.addressed() {
            Some(row) => (Some(row.spark), format!("stopping {}", clean_line(&row.role))),
            None => (None, "interrupting".to_owned()),
        };
        acts.push(Act::Submit(Command::Interrupt { spark }));
        state.tell_of_turn(words);
    }
}

pub(super) fn send(state: &mut State, acts: &mut Vec<Act>) {
    if state.composer.is_command() {
        let whole = slash::parse(&state.composer.text).is_ok();
        if !whole && state.composer.accept() {
            return;
        }
        return command(state, acts);
    }
    if approve::catch(state) {
        return;
    }
    if let Some(line) = state.composer.shell().map(str::to_owned) {
        drop(state.composer.take());
        return acts.push(Act::Shell(line));
    }
    if state.past.is_some() {
        return now_first(state);
    }
    if state.composer.text.trim().is_empty() {
        if state.is_left_open() && !state.profile.is_record {
            acts.push(Act::GoOn);
        } else if state.profile.trouble.is_some() && !state.is_live && !state.profile.is_record {
            acts.push(Act::SetUp);
        }
        return state.composer.clear();
    }
    if state.profile.trouble.is_some() && !state.is_live {
        return state.tell("no model is set up yet: Enter alone sets one up, /demo works without one");
    }
    let text = state.composer.take();
    state.note = None;
    state.story.anchor = None;
    state.pane = Pane::Composer;
    let (wish, written, steers) = (state.wish.clone(), text.clone(), state.is_working());
    let to = state.addressed().map(|row| row.spark);
    acts.push(Act::Prompt { text, wish, written, steers, to });
}

/// What a command printed is offered to the model: it is written where messages are, before what is there.
pub(super) fn offer_output(state: &mut State, (command, output): (&str, &str), exit: Option<i32>) {
    let ended = exit.map_or("did not end by itself".to_owned(), |exit| format!("exit {exit}"));
    let output = safe_text::safe(output.trim_end());
    let written = state.composer.whole();
    state.composer.clear();
    state.composer.paste(&format!("$ {command}\n{output}\n({ended})\n"));
    state.composer.restore(&written);
    state.tell(format!("{ended}; Enter sends the output to the model, Esc drops it"));
}

/// What is sent goes to the session as it is now: whoever looks back is shown that first.
fn now_first(state: &mut State) {
    browse::live(state);
    let what = if state.composer.is_empty() { "" } else { "; Enter once more sends what is written" };
    state.tell(format!("back to now{what}"));
}

fn command(state: &mut State, acts: &mut Vec<Act>) {
    let text = state.composer.take();
    let obeyed = slash::parse(&text).and_then(|(slash, rest)| obey(state, slash.order, (&text, rest), acts));
    if let Err(why) = obeyed {
        give_back(state, &text, why);
    }
}

/// What was written stays to be mended.
pub(super) fn give_back(state: &mut State, text: &str, why: impl Into<String>) {
    if state.composer.is_empty() {
        state.composer.restore(text);
    }
    state.tell(why);
}

fn obey(
    state: &mut State,
    order: Order,
    (text, rest): (&str, &str),
    acts: &mut Vec<Act>,
) -> Result<(), String> {
    let wanted = |what: &str| match rest {
        "" => Err(format!("{} expects {what}", text.trim())),
        rest => Ok(rest.to_owned()),
    };
    match order {
        Order::Help => state.overlays.push(Overlay::Help { scroll: 0 }),
        Order::New => acts.push(Act::New),
        Order::Squad => acts.push(task(state, Worker::Squad, (text, rest))?),
        Order::Debate => acts.push(task(state, Worker::Debate, (text, rest))?),
        Order::Mode => acts.push(Act::Mode(ModeRequest::of_mode(rest)?)),
        Order::Sessions => overlay::sessions(state, acts),
        Order::Resume if rest.is_empty() => overlay::sessions(state, acts),
        Order::Resume => acts.push(Act::Open(rest.to_owned())),
        Order::Rename => acts.push(rename(state, rest)?),
        Order::Fork => acts.push(fork(state, rest)?),
        Order::Undo | Order::Redo | Order::Rewind => rewind::order(state, order, rest, acts)?,
        Order::Replay => replay(state)?,
        Order::Events => overlay::events(state),
        Order::Cost => state.overlays.push(Overlay::Cost { scroll: 0 }),
        Order::Diff => overlay::changes(state),
        Order::Context => state.overlays.push(Overlay::Context { scroll: 0 }),
        Order::Matrix => state.overlays.push(Overlay::Matrix { scroll: 0, back: 0 }),
        Order::Model if rest.is_empty() && !state.profile.is_record => pick::open(state, acts),
        Order::Model => acts.push(Act::Model(wanted("PROVIDER/MODEL")?)),
        Order::Effort => acts.push(Act::Effort(wanted("low, medium or high")?)),
        Order::Background => background(state, rest, acts)?,
        Order::Persona => acts.push(Act::Persona(wanted("the id of a persona")?)),
        Order::Policy => acts.push(Act::Policy(wanted("the path of a policy file")?)),
        Order::Sandbox => acts.push(Act::Sandbox(wanted("auto, local, docker or none")?)),
        Order::Permission => level::set(state, rest, acts)?,
        Order::Accept => acts.push(level::accept(state, rest, text)?),
        Order::Limits if rest.is_empty() => state.tell(limits(state)),
        Order::Limits => acts.push(Act::Limits(mode_request::limits(rest)?)),
        Order::Theme => {
            let theme = Theme::named(rest).ok_or("/theme expects dark, light or plain")?;
            state.theme = if state.theme.is_few() { theme.few() } else { theme };
            state.tell(format!("theme {rest}"));
        }
        Order::Init => acts.push(task(state, Worker::Solo, (text, INIT_TASK))?),
        Order::Status => state.tell(status(state)),
        Order::Copy => copy(state, acts),
        Order::Demo => acts.push(Act::Demo(if rest.is_empty() { "run" } else { rest }.to_owned())),
        Order::Quit => acts.push(Act::Quit),
    }
    Ok(())
}

/// Where things are, on a line.
fn status(state: &State) -> String {
    let board = state.board();
    let model = match board.model.as_str() {
        "" => state.profile.model.as_deref().unwrap_or("no model"),
        model => model,
    };
    let sandbox = board.sandbox.as_ref().map_or("not chosen yet", |sandbox| sandbox.kind.as_str());
    let total = state.costs().total.at_most();
    let used = match board.id.as_str() {
        "" => "no session yet".to_owned(),
        id => format!("session {} \u{b7} {}", phrases::short_id(id), phrases::tokens(&total.usage)),
    };
    format!("{} \u{b7} {model} \u{b7} sandbox {sandbox} \u{b7} {used}", state.profile.workspace)
}

/// What is in force.
fn limits(state: &State) -> String {
    match state.record.last() {
        Some(_) => format!(
            "in force: {}; /new goes back to those of the start",
            phrases::limits(&state.board().limits)
        ),
        None => "there is no session yet; `agon config` shows what it would begin with".to_owned(),
    }
}

/// A task for a squad or a debate, with the flags that stand before it.
fn task(state: &mut State, worker: Worker, (written, rest): (&str, &str)) -> Result<Act, String> {
    let (wish, text) = ModeRequest::of_task(worker, rest)?;
    if state.is_working() {
        return Err("a turn is open; Esc interrupts it".to_owned());
    }
    if state.profile.trouble.is_some() && !state.is_live {
        return Err("no model is set up yet; /demo works without one".to_owned());
    }
    if state.past.is_some() {
        browse::live(state);
        return Err("back to now; Enter once more sends what is written".to_owned());
    }
    state.note = None;
    state.story.anchor = None;
    let (text, written) = (text.to_owned(), written.to_owned());
    Ok(Act::Prompt { text, wish, written, steers: false, to: None })
}

fn rename(state: &State, name: &str) -> Result<Act, String> {
    match state.record.now.board.id.as_str() {
        "" => Err("there is no session to name yet".to_owned()),
        id => Ok(Act::Rename { id: id.to_owned(), name: name.to_owned() }),
    }
}

fn fork(state: &State, rest: &str) -> Result<Act, String> {
    let seq = if rest.is_empty() { state.seen() } else { rest.trim_start_matches('e').parse().ok() };
    match seq {
        Some(seq) if state.record.last().is_some_and(|last| seq <= last) => {
            Ok(Act::Fork { id: None, seq: Some(seq) })
        }
        _ => Err("/fork expects the number of an entry of this session".to_owned()),
    }
}

fn replay(state: &mut State) -> Result<(), String> {
    if state.record.last().is_none() {
        return Err("there is nothing to play yet".to_owned());
    }
    state.travel(0);
    state.pane = Pane::Timeline;
    if let Some(past) = &mut state.past {
        past.play = Some(Play { speed: Play::AS_IT_WENT, since: state.now });
    }
    Ok(())
}

/// Copies the last answer that is seen.
pub(super) fn copy(state: &mut State, acts: &mut Vec<Act>) {
    match last_answer(state) {
        Some(text) => {
            acts.push(Act::Copy(text));
            state.tell("copied the last answer");
        }
        None => state.tell("there is no answer to copy yet"),
    }
}

/// The last answer that is seen, as it was seen: nothing that steers a terminal or hides.
pub(super) fn last_answer(state: &State) -> Option<String> {
    let scene = state.scene();
    let answers = scene
        .back_from(usize::MAX)
        .take(FARTHEST)
        .filter(|item| matches!(item.kind, ItemKind::Answer { .. }));
    let text = answers
        .filter(|item| !scene.is_sealed(item))
        .find_map(|item| item.body(&|at| scene.event(at)).map(|text| text.into_owned()))?;
    let text = typed::readable(&text, &[]).unwrap_or(text);
    Some(safe_text::safe(&text).into_owned())
}

/// What runs in the background, or the end of one.
fn background(state: &mut State, rest: &str, acts: &mut Vec<Act>) -> Result<(), String> {
    let running: Vec<(CallId, String)> =
        state.scene().moment.board.background().map(|(call, order)| (call, order.command.clone())).collect();
    let number = rest.strip_prefix("stop ").and_then(|number| number.trim().parse().ok()).map(CallId);
    match (rest, running.iter().find(|(call, _)| Some(*call) == number)) {
        ("", _) if running.is_empty() => state.tell("nothing runs in the background".to_owned()),
        ("", _) => {
            let lines = running.iter().map(|(call, command)| format!("{} {command}", call.0));
            state.tell(lines.collect::<Vec<_>>().join(" \u{b7} "));
        }
        (_, Some((call, _))) => acts.push(Act::Submit(Command::StopBackground { call: *call })),
        (_, None) => {
            return Err("/background expects nothing, or `stop` and the number of a command".to_owned());
        }
    }
    Ok(())
}
