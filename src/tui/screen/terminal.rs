//! The terminal: taken over, drawn on, handed back in the state it had; knows nothing of what is drawn.

use std::io::{self, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use ratatui::crossterm::terminal::{disable_raw_mode, enable_raw_mode, size};
use ratatui::layout::Rect;
use ratatui::{Frame, Terminal, TerminalOptions, Viewport};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, getpgrp, getpid, kill_process};

use super::pipe::{Pipe, Sheet};
use super::scroll::Scrolling;
use crate::tui::State;

/// Alternate screen, bracketed paste, news of the focus, no cursor until a frame wants one. The wheel comes as arrows
/// (DEC mode 1007, kept as it was), so that the mouse stays the terminal's and selects as everywhere.
const TAKE: &str = "\x1b[?1049h\x1b[?2004h\x1b[?1004h\x1b[?1007s\x1b[?1007h\x1b[?25l";

/// The same taken back, and a synchronized frame that was cut off ended.
const GIVE_BACK: &str = "\x1b[<u\x1b[?2026l\x1b[?1007r\x1b[?1004l\x1b[?2004l\x1b[?25h\x1b[?1049l";

/// Everything cleared, in the terminal's own colours.
const CLEAR: &str = "\x1b[0m\x1b[2J";

/// Keys are distinguished that look alike otherwise (Shift-Enter), where the terminal says that it can.
const KEYS: &str = "\x1b[>1u";

/// Whether frames can be shown whole (DEC mode 2026) and keys distinguished, then a question every terminal answers.
const ASK: &[u8] = b"\x1b[?2026$p\x1b[?u\x1b[c";

/// How long a terminal has to answer.
const ANSWER: Duration = Duration::from_millis(100);

/// Bytes that a terminal takes for its clipboard; more is cut off by many.
const MOST_COPIED: usize = 100_000;

/// True while the terminal is taken over.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal while it is taken over.
pub(super) struct Screen {
    terminal: Terminal<Scrolling>,
    sheet: Sheet,
    /// Columns and rows the frames are made for.
    size: (u16, u16),
    pipe: Pipe,
    is_synchronized: bool,
    knows_keys: bool,
    /// The terminal belongs to the shell: nothing is written before it is given back.
    is_away: bool,
}

impl Screen {
    /// Takes the terminal over.
    pub fn open() -> io::Result<Self> {
        restore_on_panic();
        let leftover = Handed::take()?;
        let answer = ask();
        let sheet = Sheet::default();
        let size = size()?;
        let terminal = blank(&sheet, size)?;
        let screen = Screen {
            terminal,
            sheet,
            size,
            pipe: Pipe::to(io::stdout()),
            is_synchronized: answer.is_synchronized,
            knows_keys: answer.knows_keys,
            is_away: false,
        };
        screen.take_keys();
        // From here on the screen itself hands the terminal back.
        std::mem::forget(leftover);
        Ok(screen)
    }

    /// Columns and rows.
    pub fn size(&self) -> io::Result<(u16, u16)> {
        size()
    }

    /// True when another frame can be taken.
    pub fn is_ready(&self) -> bool {
        !self.is_away && self.pipe.is_ready()
    }

    /// True while the shell has the terminal.
    pub fn is_away(&self) -> bool {
        self.is_away
    }

    /// Waits until the last frame is written.
    pub async fn written(&self) {
        self.pipe.written().await;
    }

    /// Draws one frame.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        // A frame may be due before the signal that continues the process in the background is read.
        self.is_away = !is_ours();
        if self.is_away {
            return Ok(());
        }
        let size = size()?;
        if size != self.size {
            self.begin_anew(size)?;
        }
        self.terminal.draw(draw)?;
        self.send();
        Ok(())
    }

    /// The next frame is drawn whole. The library's own way asks the terminal where its cursor is, and the answer
    /// would be read as keys.
    fn begin_anew(&mut self, size: (u16, u16)) -> io::Result<()> {
        drop(self.sheet.take());
        self.sheet.write_all(CLEAR.as_bytes())?;
        self.terminal = blank(&self.sheet, size)?;
        self.size = size;
        Ok(())
    }

    fn send(&mut self) {
        let bytes = self.sheet.take();
        if bytes.is_empty() || !self.is_synchronized {
            return self.pipe.send(bytes);
        }
        let mut frame = Vec::with_capacity(bytes.len() + 16);
        frame.extend_from_slice(b"\x1b[?2026h");
        frame.extend_from_slice(&bytes);
        frame.extend_from_slice(b"\x1b[?2026l");
        self.pipe.send(frame);
    }

    fn take_keys(&self) {
        if self.knows_keys {
            self.pipe.send(KEYS.as_bytes().to_vec());
        }
    }

    /// Rings the bell.
    pub fn bell(&self) {
        if !self.is_away {
            self.pipe.send(b"\x07".to_vec());
        }
    }

    /// Tells of something in the desktop's own way, where the terminal knows one (OSC 9), and rings.
    pub fn notify(&self, text: &str) {
        if !self.is_away {
            let text: String = text.chars().filter(|c| !c.is_control()).take(120).collect();
            self.pipe.send(format!("\x1b]9;agon: {text}\x07\x07").into_bytes());
        }
    }

    /// Puts a text on the terminal's clipboard (OSC 52).
    pub fn copy(&self, text: &str) {
        if self.is_away {
            return;
        }
        let end = text.floor_char_boundary(MOST_COPIED);
        let code = base64::engine::general_purpose::STANDARD.encode(&text[..end]);
        self.pipe.send(format!("\x1b]52;c;{code}\x07").into_bytes());
    }

    /// Takes the terminal, whatever modes it has by now, and draws everything with the next frame; does neither while
    /// it belongs to the shell.
    pub fn redraw(&mut self, state: &mut State) -> io::Result<()> {
        self.is_away = !is_ours();
        if self.is_away {
            return Ok(());
        }
        // The library believes that its modes still hold; a shell that had the terminal meanwhile has set its own.
        let (Ok(()), Ok(size)) = (disable_raw_mode().and_then(|()| enable_raw_mode()), size()) else {
            // A terminal that is gone is told of by a signal of its own.
            return Ok(());
        };
        TAKEN.store(true, Ordering::SeqCst);
        self.pipe.send(TAKE.as_bytes().to_vec());
        self.take_keys();
        self.begin_anew(size)?;
        state.is_dirty = true;
        Ok(())
    }

    /// Hands the terminal back, stops the process, and takes the terminal over once it is continued.
    pub fn suspend(&mut self, state: &mut State) -> io::Result<()> {
        self.lend(state, || kill_process(getpid(), Signal::STOP))??;
        Ok(())
    }

    /// Hands the terminal back for as long as something else has it.
    pub fn lend<T>(&mut self, state: &mut State, work: impl FnOnce() -> T) -> io::Result<T> {
        self.pipe.close();
        give_back();
        let done = work();
        self.pipe = Pipe::to(io::stdout());
        self.redraw(state)?;
        Ok(done)
    }
}

/// A terminal of a size on which nothing was drawn yet.
fn blank(sheet: &Sheet, (columns, rows): (u16, u16)) -> io::Result<Terminal<Scrolling>> {
    let area = Rect::new(0, 0, columns, rows);
    Terminal::with_options(Scrolling::on(sheet, area), TerminalOptions { viewport: Viewport::Fixed(area) })
}

/// True where the terminal takes what this process writes as what the person wants to see: in the foreground, or where
/// there is no such thing.
fn is_ours() -> bool {
    rustix::termios::tcgetpgrp(rustix::stdio::stdin()).map_or(true, |group| group == getpgrp())
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.pipe.close();
        give_back();
    }
}

/// Hands the terminal back when taking it over fails half-way.
struct Handed;

impl Handed {
    fn take() -> io::Result<Self> {
        enable_raw_mode()?;
        TAKEN.store(true, Ordering::SeqCst);
        let handed = Handed;
        let mut out = io::stdout().lock();
        out.write_all(TAKE.as_bytes())?;
        out.flush()?;
        Ok(handed)
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        give_back();
    }
}

/// Hands the terminal back once.
fn give_back() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        if is_ours() {
            // From the background this would stop the process; the program that has the terminal has set its modes.
            // First of all: a person who sees the ordinary screen may type, and an Enter that was read raw ends no line.
            let _ = disable_raw_mode();
        }
        let mut out = io::stdout().lock();
        // A terminal that is gone needs nothing back.
        let _ = out.write_all(GIVE_BACK.as_bytes()).and_then(|()| out.flush());
    }
}

/// A panic is told on the ordinary screen.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            before(panic);
        }));
    });
}

/// What a terminal says it can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Answer {
    is_synchronized: bool,
    knows_keys: bool,
}

/// Asks the terminal what it can. What it says is read before keys are.
fn ask() -> Answer {
    let mut out = io::stdout().lock();
    if out.write_all(ASK).and_then(|()| out.flush()).is_err() {
        return Answer::default();
    }
    let stdin = rustix::stdio::stdin();
    let (mut heard, mut bytes) = (Vec::new(), [0; 256]);
    let end = Instant::now() + ANSWER;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        let mut waiting = [PollFd::new(&stdin, PollFlags::IN)];
        let timeout = rustix::event::Timespec { tv_sec: 0, tv_nsec: i64::from(left.subsec_nanos()) };
        if !matches!(poll(&mut waiting, Some(&timeout)), Ok(1..)) {
            continue;
        }
        match rustix::io::read(stdin, &mut bytes) {
            Ok(0) | Err(_) => return Answer::default(),
            Ok(count) => heard.extend_from_slice(&bytes[..count]),
        }
        if let Some(answer) = answer(&heard) {
            return answer;
        }
    }
    Answer::default()
}

/// What a terminal answered: none while its last answer is not there.
fn answer(heard: &[u8]) -> Option<Answer> {
    let text = String::from_utf8_lossy(heard);
    let at = text.find("\x1b[?").filter(|_| text.ends_with('c'))?;
    let is_synchronized =
        ["1", "2", "3"].iter().any(|mode| text[at..].contains(&format!("\x1b[?2026;{mode}$y")));
    let is_flags = |part: &str| part.find('u').is_some_and(|end| part[..end].parse::<u16>().is_ok());
    let knows_keys = text[at..].split("\x1b[?").any(is_flags);
    Some(Answer { is_synchronized, knows_keys })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_terminal_that_says_so_is_synchronized() {
        let said = |heard: &[u8]| answer(heard).map(|said| (said.is_synchronized, said.knows_keys));
        assert_eq!(said(b"\x1b[?2026;2$y\x1b[?62;c"), Some((true, false)));
        assert_eq!(said(b"\x1b[?2026;0$y\x1b[?0u\x1b[?62;c"), Some((false, true)));
        assert_eq!(said(b"\x1b[?1;2c"), Some((false, false)));
        assert_eq!(answer(b"\x1b[?2026;2$y"), None);
    }
}
