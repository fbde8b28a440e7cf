//! One line at the foot of a terminal that shows what is being said right now; knows no session and keeps no text.
//!
//! Entries are told as lines that stay. Between them this line is rewritten in place, and it is gone before
//! anything else is printed, so what remains on the terminal is the story alone.

use std::time::{Duration, Instant};

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use crate::cli::output::Output;
use crate::projection::Board;
use crate::projection::safe_text::safe_line;
use crate::projection::wrapping::WIDTH;
use crate::protocol::spec::Mode;
use crate::protocol::{Lane, Signal};

/// The shortest time between two drawings.
const PAUSE: Duration = Duration::from_millis(60);
/// Bytes of what was said that are looked at.
const TAIL: usize = 2048;

/// The line.
pub struct LiveLine {
    is_wanted: bool,
    drawn: Option<Instant>,
    is_shown: bool,
}

impl LiveLine {
    /// A line that is not shown yet, and never is unless it is wanted and a cursor can be moved.
    pub fn new(is_wanted: bool, output: Output) -> Self {
        LiveLine { is_wanted: is_wanted && output.has_cursor(), drawn: None, is_shown: false }
    }

    /// Shows the end of what a call has said, if the last drawing is old enough.
    pub fn show(&mut self, board: &Board, signal: &Signal, output: Output) {
        let is_early = self.drawn.is_some_and(|drawn| drawn.elapsed() < PAUSE);
        if !self.is_wanted || is_early {
            return;
        }
        let Some(text) = newest(board, signal) else { return };
        output.tell(&format!(
            "\r{}\x1b[K",
            fitted(&text, output.talk_columns().unwrap_or(WIDTH).saturating_sub(1))
        ));
        (self.drawn, self.is_shown) = (Some(Instant::now()), true);
    }

    /// Takes the line away, before something that stays is printed.
    pub fn clear(&mut self, output: Output) {
        if std::mem::take(&mut self.is_shown) {
            output.tell("\r\x1b[K");
        }
    }
}

/// Who says what: the end of the call's text, on one line and without anything that steers a terminal.
fn newest(board: &Board, signal: &Signal) -> Option<String> {
    if matches!(board.mode, Some(Mode::Debate(_))) {
        return awaited(board);
    }
    let what = match signal.lane {
        Lane::Text => "",
        Lane::Reasoning => "thinks: ",
        Lane::Args(_) => "asks for: ",
        Lane::Stdout | Lane::Stderr | Lane::Progress => "$ ",
    };
    let said = &board.partial(signal.call, signal.lane)?.text;
    let tail = &said[said.ceil_char_boundary(said.len().saturating_sub(TAIL))..];
    let mut rows = board.sparks.iter();
    let is_speaking = |row: &&crate::projection::board::SparkRow| {
        board.doing(Some(row.spark)).any(|(call, _)| call == signal.call)
    };
    let who = rows.find(is_speaking).map_or("agon", |row| row.role.as_str());
    Some(format!("{who} {what}{}", safe_line(tail)))
}

/// Whose answers are awaited. Debaters speak at once and in JSON, and their ballots may be sealed: only who is told.
fn awaited(board: &Board) -> Option<String> {
    let is_asked = |row: &&crate::projection::board::SparkRow| board.is_busy(row.spark);
    let names: Vec<_> = board.sparks.iter().filter(is_asked).map(|row| safe_line(&row.role)).collect();
    match names.len() {
        0 => None,
        1..=3 => Some(format!("awaited: {}", names.join(", "))),
        many => Some(format!("awaited: {many} answers")),
    }
}

/// The first word and as much of the end as there is room for.
fn fitted(text: &str, room: usize) -> String {
    if text.width() <= room {
        return text.to_owned();
    }
    let (who, said) = text.split_once(' ').unwrap_or(("", text));
    let head = format!("{who} …");
    let Some(mut room) = room.checked_sub(head.width()) else { return String::new() };
    let mut end = said.len();
    for (at, piece) in said.grapheme_indices(true).rev() {
        let Some(left) = room.checked_sub(piece.width()) else { break };
        (room, end) = (left, at);
    }
    head + &said[end..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_shows_who_and_its_end_within_the_room() {
        assert_eq!(fitted("solo hello", 10), "solo hello");
        assert_eq!(fitted("solo hello world", 10), "solo …orld");
        assert_eq!(fitted("solo 日本語日本語日本語", 11), "solo …本語");
        assert_eq!(fitted("solo hello world", 3), "");
    }
}
