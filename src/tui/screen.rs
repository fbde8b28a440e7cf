//! Runs the screen: keys, signals and news in, frames out; everything else is done by the desk behind it.

mod keys;
mod pipe;
mod scroll;
mod signals;
mod terminal;

use std::io;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ratatui::crossterm::event::Event;

use super::{Act, Msg, State, draw, update};
use signals::{Asked, Signals};
use terminal::Screen;

/// The shortest time between two frames while somebody types.
const FRAME: Duration = Duration::from_millis(16);

/// The same while somebody only watches: as smooth to the eye, at half the cost.
const WATCHED: Duration = Duration::from_millis(33);

/// How long after a key somebody counts as typing.
const TYPING: Duration = Duration::from_millis(500);

/// How soon it is seen that the shell has given the terminal back.
const AWAY: Duration = Duration::from_millis(250);

/// Keys that are taken before a frame is drawn in between.
const KEYS_AT_ONCE: usize = 256;

/// What does the screen's work: holds the session, opens and forks others.
pub trait Desk {
    /// Waits for news of the session or of work under way. Dropped and asked again; must lose nothing by that.
    fn news(&mut self) -> impl Future<Output = Vec<Msg>>;

    /// Does what the screen wants, or begins to; what comes of it later comes with the news.
    fn perform(&mut self, act: Act) -> Vec<Msg>;

    /// Opens the person's editor on a text, and waits until it is closed. The terminal is the editor's meanwhile.
    fn edit(&mut self, text: &str) -> Msg;
}

/// Why the screen was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// The person left.
    Quit,
    /// The person wants to be asked which model to use.
    SetUp,
    /// A signal asked for the end.
    Terminated,
}

/// Shows the state until somebody leaves. The terminal is what it was before when this returns, also on a panic.
pub async fn run(desk: &mut impl Desk, state: &mut State) -> io::Result<Left> {
    match show(desk, state).await {
        // The terminal is gone, which its signal may tell only later.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => {
            Ok(Left::Terminated)
        }
        left => left,
    }
}

async fn show(desk: &mut impl Desk, state: &mut State) -> io::Result<Left> {
    let mut signals = Signals::listen()?;
    let mut screen = Screen::open()?;
    let mut keys = keys::listen(KEYS_AT_ONCE);
    let size = screen.size()?;
    let mut todo = update(state, Msg::Resize(size.0, size.1));
    let (mut drawn, mut key): (Option<Instant>, Option<Instant>) = (None, None);
    loop {
        todo.extend(update(state, Msg::Tick(now())));
        if screen.is_away() {
            screen.redraw(state)?;
        }
        while !todo.is_empty() {
            let mut more = Vec::new();
            for act in std::mem::take(&mut todo) {
                match act {
                    Act::Quit => return Ok(Left::Quit),
                    Act::SetUp => return Ok(Left::SetUp),
                    act => {
                        let news = perform(act, desk, state, (&mut screen, &keys))?;
                        more.extend(news.into_iter().flat_map(|msg| update(state, msg)));
                    }
                }
            }
            todo = more;
        }
        let pace = if key.is_some_and(|at| at.elapsed() < TYPING) { FRAME } else { WATCHED };
        let is_due = drawn.is_none_or(|at| at.elapsed() >= pace);
        if is_due && screen.is_ready() && state.take_dirty() {
            screen.draw(|frame| draw(state, frame))?;
            drawn = Some(Instant::now());
        }
        let (is_early, is_away) = (state.is_dirty && screen.is_ready(), screen.is_away());
        // What arrives while the next frame is not due yet is taken all at once when it is.
        let pause = match drawn.filter(|_| is_early) {
            Some(at) => Some(pace.saturating_sub(at.elapsed()).max(Duration::from_millis(1))),
            None if is_away => Some(AWAY),
            None => state.wants_tick(),
        };
        tokio::select! {
            biased;
            asked = signals.next() => match asked {
                Asked::End => return Ok(Left::Terminated),
                Asked::Stop => screen.suspend(state)?,
                Asked::Continue => screen.redraw(state)?,
            },
            Some(event) = keys.recv() => {
                let _ = update(state, Msg::Tick(now()));
                key = Some(Instant::now());
                todo.extend(typed(state, event));
                for _ in 0..KEYS_AT_ONCE {
                    let Some(event) = keys.try_recv() else { break };
                    todo.extend(typed(state, event));
                }
            }
            news = desk.news(), if !is_early => {
                for msg in news {
                    todo.extend(update(state, msg));
                }
            }
            () = screen.written(), if !is_away && state.is_dirty && !screen.is_ready() => {}
            () = tokio::time::sleep(pause.unwrap_or_default()), if pause.is_some() => {}
        }
    }
}

/// Does what is the screen's own, and lets the desk do the rest; gives what came of it.
fn perform(
    act: Act,
    desk: &mut impl Desk,
    state: &mut State,
    (screen, keys): (&mut Screen, &keys::Keys),
) -> io::Result<Vec<Msg>> {
    match act {
        Act::Copy(text) => screen.copy(&text),
        Act::Bell => screen.bell(),
        Act::Notify(text) => screen.notify(&text),
        Act::Redraw => screen.redraw(state)?,
        Act::Suspend => screen.suspend(state)?,
        Act::Edit(text) => {
            return Ok(vec![keys.lent(|| screen.lend(state, || desk.edit(&text)))?]);
        }
        act => return Ok(desk.perform(act)),
    }
    Ok(Vec::new())
}

fn typed(state: &mut State, event: Event) -> Vec<Act> {
    match event {
        Event::Key(key) => update(state, Msg::Key(key)),
        Event::Mouse(wheel) => update(state, Msg::Wheel(keys::arrow(wheel.kind))),
        Event::Paste(text) => update(state, Msg::Paste(text)),
        Event::Resize(columns, rows) => update(state, Msg::Resize(columns, rows)),
        Event::FocusGained => update(state, Msg::Focus(true)),
        Event::FocusLost => update(state, Msg::Focus(false)),
    }
}

/// Microseconds since the Unix epoch.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
