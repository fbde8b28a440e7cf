//! Turns what reaches the screen into a changed state and into wishes; no I/O, no clock of its own.

mod approve;
mod browse;
mod compose;
mod find;
mod overlay;
mod pick;
mod rewind;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind};

use crate::host::Consented;
use crate::projection::transcript::{Item, ItemKind};
use crate::protocol::{ArenaEvent, Command, Entry, Order};

pub use rewind::undo_wish;

use super::composer::picture;
use super::keys::{self, Do, KeyContext};
use super::level;
use super::session_view::SessionView;
use super::state::{Asked, Beginning, ModelRow, NOTE, NOTE_READ, Overlay, Pane, SessionRow, State};
use super::{Act, Msg};

/// Takes one message. What the person should see is marked for drawing; what is to be done comes back.
pub fn update(state: &mut State, msg: Msg) -> Vec<Act> {
    let mut acts = Vec::new();
    let visible = !matches!(msg, Msg::Tick(_));
    match msg {
        Msg::Key(key) if key.kind != KeyEventKind::Release => press(state, key, &mut acts),
        Msg::Key(_) => {}
        Msg::Wheel(key) if state.pane == Pane::Composer && state.overlays.is_empty() => {
            browse::scroll(state, if key.code == KeyCode::Up { -1 } else { 1 });
        }
        Msg::Wheel(key) => press(state, key, &mut acts),
        Msg::Paste(text) => paste(state, &text),
        Msg::Resize(columns, rows) => state.size = (columns, rows),
        Msg::Entry(entry) => take_entry(state, entry, &mut acts),
        Msg::Signal(signal) => state.record.hint(&signal),
        Msg::Focus(is_seen) => state.is_unseen = !is_seen,
        Msg::Tick(now) => tick(state, now),
        Msg::SessionView { record, is_live, is_elsewhere } => {
            look_at(state, *record, is_live, &mut acts);
            state.is_elsewhere = is_elsewhere;
        }
        Msg::Ended => {
            (state.is_live, state.is_elsewhere) = (false, false);
            forget_turn(state);
        }
        Msg::History(texts) => state.composer.recall_from(texts),
        Msg::Ran { command, output, exit } => compose::offer_output(state, (&command, &output), exit),
        Msg::Edited(text) => state.composer.replace(text.trim_end_matches('\n')),
        Msg::Turns(turns) => state.turns = Some(turns),
        Msg::Sessions(_) | Msg::Models(_) | Msg::Files(_) | Msg::Profile(_) | Msg::Personas(_) => {
            learn(state, msg)
        }
        Msg::Fault(fault) => state.fault = Some(fault),
        Msg::Mode(wish) => state.set_mode(wish),
        Msg::Busy(busy) => state.busy = busy,
        Msg::Refused { text, why } => compose::give_back(state, &text, why),
        Msg::Asked(question) => {
            state.overlays.push(Overlay::Consent(Asked { question, ..Asked::default() }));
            acts.push(Act::Bell);
        }
        Msg::Log(text) => {
            approve::refused(state, &text);
            state.tell(text);
        }
    }
    begin(state, &mut acts);
    state.is_dirty |= visible;
    state.record.trim();
    acts
}

/// What there is to choose from and to complete.
fn learn(state: &mut State, msg: Msg) {
    match msg {
        Msg::Sessions(rows) => {
            let row = |row: &SessionRow| {
                (row.id.clone(), row.name.clone().unwrap_or_else(|| super::text::clean_line(&row.prompt)))
            };
            state.composer.values.sessions = rows.iter().map(row).collect();
            state.sessions = Some(rows);
            state.composer.complete();
        }
        Msg::Models(rows) => {
            let row = |row: &ModelRow| (row.name.clone(), row.about.clone());
            state.composer.values.models = rows.iter().map(row).collect();
            state.models = Some(rows);
        }
        Msg::Files(files) => {
            state.composer.files = files;
            state.composer.complete();
        }
        Msg::Profile(profile) => {
            // A list of the providers themselves says more.
            if state.models.is_none() {
                let model = |model: &String| (model.clone(), String::new());
                state.composer.values.models = profile.models.iter().map(model).collect();
            }
            state.profile = *profile;
        }
        Msg::Personas(personas) => {
            state.composer.values.personas = personas;
            state.composer.complete();
        }
        _ => {}
    }
}

/// Does what the screen was begun for, as soon as there is a session or none is being opened.
fn begin(state: &mut State, acts: &mut Vec<Act>) {
    match state.beginning.take_if(|_| state.busy.is_none()) {
        Some(Beginning::Send) => compose::send(state, acts),
        Some(Beginning::Choose) => overlay::sessions(state, acts),
        None => {}
    }
}

impl State {
    /// The last answer, for the terminal once the screen is left.
    pub fn last_answer(&self) -> Option<String> {
        compose::last_answer(self)
    }
}

fn take_entry(state: &mut State, entry: std::sync::Arc<Entry>, acts: &mut Vec<Act>) {
    let asks = entry.effective().any(|(_, event)| match event {
        ArenaEvent::ApprovalRequested(_) => true,
        ArenaEvent::EffectOrdered(data) => matches!(data.effect, Order::Question(_)),
        _ => false,
    });
    state.now = state.now.max(entry.at);
    if !state.record.apply(entry.clone()) {
        return;
    }
    remember(state, &entry);
    if let [ArenaEvent::ApprovalAnswered(_), ArenaEvent::InputRefused(refused)] = entry.events.as_slice() {
        approve::refused(state, &refused.reason);
    }
    let ends = entry.effective().any(|(_, event)| matches!(event, ArenaEvent::TurnClosed(_)));
    match (asks, ends) {
        _ if !state.is_live => {}
        (true, _) if state.is_unseen => acts.push(Act::Notify("an approval waits for you".to_owned())),
        (true, _) => acts.push(Act::Bell),
        (false, true) if state.is_unseen => acts.push(Act::Notify("the turn is over".to_owned())),
        _ => {}
    }
    if !state.record.now.board.has_open_turn() {
        forget_turn(state);
    }
    browse::let_go(state, &entry);
    approve::look(state);
}

/// What was told of a turn goes with it.
fn forget_turn(state: &mut State) {
    state.note.take_if(|note| note.is_of_turn);
}

fn remember(state: &mut State, entry: &Entry) {
    if let Some(ArenaEvent::PromptGiven(given)) = entry.fact() {
        state.composer.remember(&given.text);
    }
}

/// Another session, or the same one once all of it is counted.
fn look_at(state: &mut State, record: SessionView, is_live: bool, acts: &mut Vec<Act>) {
    let was_counting = state.record.is_counting() && !record.is_counting();
    let anchor = state.story.anchor.take().filter(|_| was_counting);
    if was_counting {
        let before = record.count_items(Some(state.record.first().saturating_sub(1)));
        state.story = super::timeline::Timeline::default();
        state.story.anchor = anchor.map(|(at, line)| (at + before, line));
    } else {
        state.past = None;
        state.story = super::timeline::Timeline::default();
        state.overlays.clear();
        // What was told was told of the session before.
        state.note = None;
        if !state.profile.is_record {
            state.pane = Pane::Composer;
        }
    }
    state.is_elsewhere = false;
    state.fault = None;
    state.record = record;
    state.is_live = is_live;
    state.now = state.now.max(state.record.now.board.at);
    remember_prompts(state);
    if let Some(seq) = state.begin_at.take_if(|_| !state.record.is_counting()) {
        state.travel(seq);
    }
    approve::look(state);
    approve::come_back(state);
    if is_live && !state.record.now.board.approvals.is_empty() {
        acts.push(Act::Bell);
    }
}

/// The newest tasks of a record are there to be given again.
fn remember_prompts(state: &mut State) {
    let scene = state.scene();
    let prompts = scene.back_from(usize::MAX).take(2_000).filter(|item| item.kind == ItemKind::Prompt);
    let text = |item: &Item| item.body(&|at| scene.event(at)).map(std::borrow::Cow::into_owned);
    let mut texts: Vec<String> = prompts.take(50).filter_map(text).collect();
    while let Some(text) = texts.pop() {
        state.composer.remember(&text);
    }
}

/// A pasted block goes where text can go, and nowhere else.
fn paste(state: &mut State, text: &str) {
    if !state.overlays.is_empty() {
        return overlay::paste(state, text);
    }
    if !state.profile.is_record && !approve::paste(state, text) {
        state.pane = Pane::Composer;
        match picture(text, &state.profile.root) {
            Some(Ok(mention)) => state.composer.insert(&mention),
            Some(Err(why)) => {
                state.composer.paste(text);
                state.tell(why);
            }
            None => state.composer.paste(text),
        }
    }
}

/// Time moves clocks, plays records and takes old notes away.
fn tick(state: &mut State, now: u64) {
    let moved = now / 125_000 != state.now / 125_000;
    state.now = state.now.max(now);
    if state.note.as_ref().is_some_and(|note| note.until <= now) {
        state.note = None;
        state.is_dirty = true;
    }
    state.is_dirty |= moved && state.past.is_none() && state.is_working();
    browse::play(state);
}

fn press(state: &mut State, key: KeyEvent, acts: &mut Vec<Act>) {
    forget_note(state);
    let place = if state.pane == Pane::Composer { KeyContext::Composer } else { KeyContext::Timeline };
    let what = keys::find(place, key);
    if what != Some(Do::Leave) {
        state.is_leaving = false;
    }
    match what {
        Some(Do::Leave) => return leave(state, acts),
        Some(Do::Redraw) => return acts.push(Act::Redraw),
        Some(Do::Suspend) => return acts.push(Act::Suspend),
        _ => {}
    }
    if !state.overlays.is_empty() {
        return overlay::press(state, key, acts);
    }
    if state.pane == Pane::Approval && approve::press(state, key, acts) {
        return;
    }
    match what {
        Some(what) if common(state, what, acts) => {}
        what if state.pane == Pane::Composer => compose::press(state, key, what, acts),
        Some(what) => browse::press(state, what, acts),
        None => browse::other(state, key),
    }
}

/// Whoever presses a key has gone on: what was told before goes, once it was there long enough to be read.
fn forget_note(state: &mut State) {
    if state.note.as_ref().is_some_and(|note| note.until <= state.now + NOTE - NOTE_READ) {
        state.note = None;
    }
}

/// What a key does wherever it is pressed; false when it means something else here.
fn common(state: &mut State, what: Do, acts: &mut Vec<Act>) -> bool {
    match what {
        Do::NextPane if state.pane == Pane::Composer && state.composer.takes_tab() => return false,
        Do::NextPane => next_pane(state),
        Do::Level => level::cycle(state, acts),
        Do::Help => state.overlays.push(Overlay::Help { scroll: 0 }),
        Do::Events => overlay::events(state),
        Do::Find => find::open(state),
        Do::Sessions => overlay::sessions(state, acts),
        Do::PageUp => browse::page(state, -1),
        Do::PageDown => browse::page(state, 1),
        _ => return false,
    }
    true
}

fn next_pane(state: &mut State) {
    let asks = approve::is_open(state);
    state.pane = match state.pane {
        // What waits is one key away from everywhere; what is written begins with a letter, or with Esc in the story.
        Pane::Composer | Pane::Timeline if asks => Pane::Approval,
        Pane::Composer | Pane::Approval => Pane::Timeline,
        Pane::Timeline if state.profile.is_record => Pane::Timeline,
        Pane::Timeline => Pane::Composer,
    };
}

/// Ctrl-C takes back the nearest thing: an overlay, what is written, what runs; then it leaves.
fn leave(state: &mut State, acts: &mut Vec<Act>) {
    match state.overlays.pop() {
        // To leave that question is a no.
        Some(Overlay::Consent(_)) => return acts.push(Act::Consent(Consented::No)),
        Some(_) => return,
        None if approve::disarm(state) => return,
        None => {}
    }
    if !state.composer.is_empty() {
        return drop(state.composer.take());
    }
    if std::mem::replace(&mut state.is_leaving, true) {
        return acts.push(Act::Quit);
    }
    match state.is_working() {
        true => {
            acts.push(Act::Submit(Command::Interrupt { spark: None }));
            state.tell_of_turn("interrupted; Ctrl-C again leaves agon");
        }
        false => state.tell("Ctrl-C again leaves agon"),
    }
}
