//! Lines that only moved up are moved by the terminal itself: a running answer costs its new lines, not the screen.

use std::io::{self, Write as _};

use ratatui::backend::{Backend, ClearType, CrosstermBackend, WindowSize};
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::{Position, Rect, Size};
use unicode_width::UnicodeWidthStr;

use super::pipe::Sheet;

/// The farthest that lines are looked for.
const FARTHEST: u16 = 12;

/// Moved lines from which on moving them is cheaper than writing them.
const WORTH: usize = 4;

/// A backend that knows what the terminal shows.
pub(super) struct Scrolling {
    inner: CrosstermBackend<Sheet>,
    sheet: Sheet,
    shown: Buffer,
    wanted: Buffer,
}

/// Rows `top` up to `bottom`, that one excluded, go up by some lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Moved {
    top: u16,
    bottom: u16,
    by: u16,
}

impl Scrolling {
    /// For a terminal on which nothing is.
    pub fn on(sheet: &Sheet, area: Rect) -> Self {
        let inner = CrosstermBackend::new(sheet.clone());
        Scrolling { inner, sheet: sheet.clone(), shown: Buffer::empty(area), wanted: Buffer::empty(area) }
    }

    fn show(&mut self) -> io::Result<()> {
        if let Some(moved) = moved(&self.shown, &self.wanted) {
            // The region is whole again at once, so that nothing else is drawn in it.
            let Moved { top, bottom, by } = moved;
            write!(self.sheet, "\x1b[0m\x1b[{};{bottom}r\x1b[{by}S\x1b[r", top + 1)?;
            shift(&mut self.shown, moved);
        }
        let changes = self.shown.diff(&self.wanted);
        self.inner.draw(changes.into_iter())?;
        self.shown.content.clone_from_slice(&self.wanted.content);
        Ok(())
    }
}

fn row(buffer: &Buffer, y: u16) -> &[Cell] {
    let wide = usize::from(buffer.area.width);
    let from = usize::from(y) * wide;
    &buffer.content[from..from + wide]
}

/// The move that saves most, if one saves enough.
fn moved(before: &Buffer, after: &Buffer) -> Option<Moved> {
    let height = before.area.height;
    let differs = |y: &u16| row(before, *y) != row(after, *y);
    let top = (0..height).find(differs)?;
    let bottom = (0..height).rev().find(differs)? + 1;
    let found = (1..=FARTHEST.min((bottom - top) / 2)).filter_map(|by| {
        let fits = |y: &u16| row(after, *y) == row(before, *y + by);
        let last = bottom - by;
        let from = (top..last).find(fits)?;
        let end = (from..last).find(|y| !fits(y)).unwrap_or(last);
        let saved = (from..end).filter(differs).count();
        (saved >= WORTH).then_some((saved, Moved { top: from, bottom: end + by, by }))
    });
    found.max_by_key(|(saved, moved)| (*saved, std::cmp::Reverse(moved.by))).map(|(_, moved)| moved)
}

fn shift(buffer: &mut Buffer, Moved { top, bottom, by }: Moved) {
    let wide = usize::from(buffer.area.width);
    let at = |y: u16| usize::from(y) * wide;
    buffer.content[at(top)..at(bottom)].rotate_left(at(by));
    buffer.content[at(bottom - by)..at(bottom)].fill(Cell::default());
}

impl Backend for Scrolling {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        for (x, y, cell) in content {
            if let Some(place) = self.wanted.cell_mut((x, y)) {
                place.clone_from(cell);
            }
            // What lies beneath the second half of a wide character is not there.
            for beside in 1..cell.symbol().width() {
                let x = x.saturating_add(u16::try_from(beside).unwrap_or(u16::MAX));
                if let Some(place) = self.wanted.cell_mut((x, y)) {
                    place.reset();
                }
            }
        }
        self.show()
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.inner.hide_cursor()
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.inner.show_cursor()
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        self.inner.get_cursor_position()
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        self.inner.set_cursor_position(position)
    }

    fn clear(&mut self) -> io::Result<()> {
        self.clear_region(ClearType::All)
    }

    fn clear_region(&mut self, region: ClearType) -> io::Result<()> {
        self.shown.reset();
        self.wanted.reset();
        self.inner.clear_region(region)
    }

    fn size(&self) -> io::Result<Size> {
        Ok(self.wanted.area.as_size())
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        self.inner.window_size()
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZero;

    use proptest::prelude::*;
    use ratatui::widgets::Paragraph;
    use ratatui::{Terminal, TerminalOptions, Viewport};

    use super::*;

    /// Draws frames one after another and gives what a terminal shows, and how many bytes each frame took.
    fn frames(frames: &[Vec<String>]) -> (String, Vec<usize>) {
        let sheet = Sheet::default();
        let area = Rect::new(0, 0, 24, 16);
        let viewport = Viewport::Fixed(area);
        let backend = Scrolling::on(&sheet, area);
        let mut terminal = Terminal::with_options(backend, TerminalOptions { viewport }).unwrap();
        let (rows, columns) = (NonZero::new(16).unwrap(), NonZero::new(24).unwrap());
        let (mut parser, mut sizes) = (vt100::Parser::new(rows, columns, 0), Vec::new());
        for lines in frames {
            let text = lines.join("\n");
            terminal.draw(|frame| frame.render_widget(Paragraph::new(text), area)).unwrap();
            let bytes = sheet.take();
            sizes.push(bytes.len());
            parser.process(&bytes);
        }
        // A blank that was written looks like one that was not.
        let lines: Vec<String> =
            parser.screen().contents().lines().map(|line| line.trim_end().to_owned()).collect();
        (lines.join("\n").trim_end().to_owned(), sizes)
    }

    fn story(from: usize) -> Vec<String> {
        let mut lines = vec!["header".to_owned()];
        lines.extend((from..from + 13).map(|nth| format!("line {nth} of the story")));
        lines.extend(["────".to_owned(), " ❯ what next?".to_owned()]);
        lines
    }

    #[test]
    fn a_line_more_costs_a_line() {
        let (shown, sizes) = frames(&[story(0), story(1), story(3)]);
        assert_eq!(shown, frames(&[story(3)]).0);
        assert!(sizes[1] < 120 && sizes[2] < 200, "{sizes:?}");
    }

    proptest! {
        #[test]
        fn a_terminal_shows_the_last_frame_however_it_came_there(
            texts in prop::collection::vec(prop::collection::vec("[ab日é]{0,14}", 1..16), 1..12),
            by in prop::collection::vec(0..5usize, 1..12),
        ) {
            let all: Vec<String> = texts.concat();
            let mut at = 0;
            let mut shown: Vec<Vec<String>> = by.iter().map(|by| {
                at = (at + by).min(all.len());
                all[at..].iter().take(16).cloned().collect()
            }).collect();
            shown.extend(texts);
            prop_assert_eq!(frames(&shown).0, frames(&shown[shown.len() - 1..]).0);
        }
    }
}
