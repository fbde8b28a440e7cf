//! The one place that writes to standard output (data) and standard error (talk).

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use serde::Serialize;

use crate::cli::error::Failure;
use crate::config::Environment;
use crate::projection::safe_text::{json, shown};
use crate::projection::wrapping::broken;

/// The two streams of the process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Output {
    /// Colours on standard error.
    colour: bool,
    /// Colours on standard output.
    colour_data: bool,
    /// Standard error is a terminal that is not dumb.
    has_cursor: bool,
}

impl Output {
    /// Colours are used on a terminal unless `NO_COLOR` is set or the terminal is dumb.
    pub fn new(environment: &Environment) -> Self {
        let is_dumb = environment.get("TERM") == Some("dumb");
        let wanted = environment.get("NO_COLOR").is_none() && !is_dumb;
        Output {
            colour: wanted && io::stderr().is_terminal(),
            colour_data: wanted && io::stdout().is_terminal(),
            has_cursor: !is_dumb && io::stderr().is_terminal(),
        }
    }

    /// Writes data.
    pub fn data(&self, text: &str) -> Result<(), Failure> {
        self.bytes(text.as_bytes())
    }

    /// Writes data as it is.
    pub fn bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        Ok(stdout.flush()?)
    }

    /// Writes much data through a buffer.
    pub fn stream(&self, fill: impl FnOnce(&mut dyn Write) -> Result<(), Failure>) -> Result<(), Failure> {
        let mut stdout = io::BufWriter::new(io::stdout().lock());
        let filled = fill(&mut stdout);
        // What was read before a fault is shown all the same.
        stdout.flush()?;
        filled
    }

    /// Writes a value as indented JSON.
    pub fn json(&self, value: &impl Serialize) -> Result<(), Failure> {
        self.json_lines((serde_json::to_string_pretty(value)? + "\n").as_bytes())
    }

    /// Writes lines of JSON: byte for byte for a program; on a terminal what could steer it is written as `\u009b`,
    /// which is the same value.
    pub fn json_lines(&self, lines: &[u8]) -> Result<(), Failure> {
        self.bytes(&on_screen(lines))
    }

    /// Writes an answer: as it is for a program, without what could steer the terminal for a person.
    pub fn answer(&self, text: &str) -> Result<(), Failure> {
        match io::stdout().is_terminal() {
            true => self.data(&shown(text)),
            false => self.data(text),
        }
    }

    /// Tells lines that end with their own newline and were made safe already.
    pub fn tell(&self, lines: &str) {
        // A closed standard error is nothing to fail for.
        let _ = io::stderr().lock().write_all(lines.as_bytes());
    }

    /// Says something beside the data. Names of files and models come from others: nothing in it steers the terminal.
    pub fn say(&self, line: &str) {
        self.tell(&format!("{}\n", one(line)));
    }

    /// Tells what agon itself knows, in rows of which only the first begins at the margin: names in it are others'.
    pub fn note(&self, text: &str) {
        let line = format!("note: {}", shown(text));
        let rows = match self.talk_columns() {
            Some(columns) => broken(&line, 0, "note: ".len(), columns),
            None => line,
        };
        self.tell(&format!("{rows}\n"));
    }

    /// Warns.
    pub fn warn(&self, text: &str) {
        let word = if self.colour { "\x1b[33mwarning:\x1b[0m" } else { "warning:" };
        self.tell(&format!("{word} {}\n", one(text)));
    }

    /// A warning nobody should overlook, in red.
    pub fn alarm(&self, text: &str) {
        let (on, off) = if self.colour { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
        self.tell(&format!("{on}warning: {}{off}\n", one(text)));
    }

    /// Says why the command failed.
    pub fn fail(&self, failure: &Failure) {
        let text = failure.text();
        match shown(&text).strip_prefix("error:") {
            Some(rest) if self.colour => self.tell(&format!("\x1b[31merror:\x1b[0m{rest}")),
            _ => self.tell(&shown(&text)),
        }
    }

    /// True when data for people may be coloured.
    pub fn colours_data(&self) -> bool {
        self.colour_data
    }

    /// True when talk may be coloured.
    pub fn has_colour(&self) -> bool {
        self.colour
    }

    /// True when a person is at both ends: tasks are typed and answers are seen.
    pub fn is_between_terminals(&self) -> bool {
        io::stdin().is_terminal() && io::stdout().is_terminal()
    }

    /// True when a screen can be drawn: a terminal on both sides that is not dumb.
    pub fn has_screen(&self, environment: &Environment) -> bool {
        self.is_between_terminals() && environment.get("TERM") != Some("dumb")
    }

    /// True when a line on standard error can be rewritten.
    pub fn has_cursor(&self) -> bool {
        self.has_cursor
    }

    /// True when data goes to a terminal.
    pub fn is_terminal(&self) -> bool {
        io::stdout().is_terminal()
    }

    /// Columns of the terminal that data goes to; none when it goes elsewhere.
    pub fn columns(&self) -> Option<usize> {
        columns(&io::stdout())
    }

    /// Columns of the terminal that talk goes to; none when it goes elsewhere.
    pub fn talk_columns(&self) -> Option<usize> {
        columns(&io::stderr())
    }

    /// True when live text may be shown on standard error.
    pub fn is_live(&self) -> bool {
        io::stderr().is_terminal()
    }
}

/// Words of which only the first line begins at the margin: no name in them forges a line of agon's own.
pub(super) fn one(text: &str) -> String {
    let shown = shown(text);
    let mut lines = shown.split('\n');
    let first = lines.next().unwrap_or_default().to_owned();
    lines.fold(first, |text, line| {
        let margin = if line.is_empty() || line.starts_with(' ') { "" } else { "  " };
        text + "\n" + margin + line
    })
}

/// Lines of JSON as standard output is to get them.
pub(super) fn on_screen(lines: &[u8]) -> Cow<'_, [u8]> {
    match io::stdout().is_terminal() {
        false => Cow::Borrowed(lines),
        // What is no text is no line of a log either, and told as damage.
        true => Cow::Owned(json(&String::from_utf8_lossy(lines)).into_owned().into_bytes()),
    }
}

fn columns(stream: &(impl IsTerminal + AsFd)) -> Option<usize> {
    let size = stream.is_terminal().then(|| rustix::termios::tcgetwinsize(stream).ok()).flatten()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}
/// How many bytes are there of a whole.
pub fn bar(there: u64, whole: u64) -> String {
    const WIDTH: u64 = 24;
    let full = (there.min(whole) * WIDTH).checked_div(whole).and_then(|full| usize::try_from(full).ok());
    let full = full.unwrap_or_default();
    let rest = usize::try_from(WIDTH).unwrap_or_default() - full;
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    format!("[{}{}] {} of {} MiB", "#".repeat(full), "-".repeat(rest), mib(there), mib(whole))
}
