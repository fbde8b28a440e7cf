//! Lines of standard input for whoever waits for one: read one at a time, by one thread of the process; means nothing
//! by them.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::sync::{OnceLock, mpsc as blocking};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::sync::{Mutex, mpsc};

use crate::cli::error::Failure;
use crate::cli::interrupts::unless_interrupted;

/// A blocking read cannot be cancelled, so it has a thread of its own that ends with the process.
struct Reader {
    wanted: blocking::Sender<()>,
    lines: mpsc::UnboundedReceiver<io::Result<Option<String>>>,
    /// True while a line is being waited for, also when whoever wanted it does not any more.
    is_reading: bool,
}

fn reader() -> &'static Mutex<Reader> {
    static READER: OnceLock<Mutex<Reader>> = OnceLock::new();
    READER.get_or_init(|| {
        let (wanted, asked) = blocking::channel::<()>();
        let (sender, lines) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for () in asked {
                let mut line = String::new();
                let read = io::stdin().lock().read_line(&mut line);
                if sender.send(read.map(|bytes| (bytes > 0).then_some(line))).is_err() {
                    return;
                }
            }
        });
        Mutex::new(Reader { wanted, lines, is_reading: false })
    })
}

/// The next line; none at the end. When this is dropped, the line goes to whoever asks next.
pub async fn line() -> io::Result<Option<String>> {
    let mut reader = reader().lock().await;
    if !reader.is_reading {
        // The thread ends only with the process.
        let _ = reader.wanted.send(());
        reader.is_reading = true;
    }
    let line = reader.lines.recv().await;
    reader.is_reading = false;
    line.unwrap_or(Ok(None))
}

/// The next line, which the terminal does not show while it is typed; `ask` asks for it. More that was pasted with it is
/// dropped, so that no shell reads it; the line then has a line break inside.
pub async fn hidden_line(ask: impl FnOnce()) -> io::Result<Option<String>> {
    let hidden = Hidden::begin()?;
    ask();
    let line = line().await?;
    let is_more = line.is_some() && hidden.has_more().await;
    Ok(line.map(|line| if is_more { format!("{line}\n…") } else { line }))
}

/// How long the rest of a paste may take.
const PASTE: Duration = Duration::from_millis(150);

/// A terminal that shows nothing of what is typed, until this is dropped.
struct Hidden(Termios);

impl Hidden {
    fn begin() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Flush, &silent)?;
        Ok(Hidden(before))
    }

    /// True when more than blanks comes after the line that was read: letter by letter, for its end may be missing.
    async fn has_more(&self) -> bool {
        let mut letters = self.0.clone();
        letters.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
        if tcsetattr(io::stdin(), OptionalActions::Now, &letters).is_err() {
            return false;
        }
        tokio::time::sleep(PASTE).await;
        let (stdin, mut rest) = (io::stdin(), [0; 4096]);
        let mut ready = [PollFd::new(&stdin, PollFlags::IN)];
        while poll(&mut ready, Some(&Timespec::default())).is_ok_and(|count| count > 0) {
            match rustix::io::read(&stdin, &mut rest) {
                Ok(0) | Err(_) => return false,
                Ok(bytes) if !rest[..bytes].trim_ascii().is_empty() => return true,
                Ok(_) => {}
            }
        }
        false
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // A terminal that is gone shows nothing anyway.
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.0);
    }
}

/// Drops what was typed so far: it was not meant for the question to come.
pub fn forget() {
    if io::stdin().is_terminal() {
        // A terminal that is gone has nothing left to forget.
        let _ = rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush);
    }
    if let Ok(mut reader) = reader().try_lock()
        && reader.lines.try_recv().is_ok()
    {
        reader.is_reading = false;
    }
}

/// The next line in small letters; nothing at the end of the input. An interrupt is an error, not an answer.
pub async fn word() -> Result<String, Failure> {
    let line = unless_interrupted(line()).await??;
    Ok(line.unwrap_or_default().trim().to_ascii_lowercase())
}
