//! The composer on the screen: text, cursor, what completion offers.

use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};
use unicode_segmentation::UnicodeSegmentation;

use crate::projection::phrases;
use crate::tui::mode_request::Worker;
use crate::tui::state::{Pane, State};
use crate::tui::text::{clean, clean_line, cut, width};
use crate::tui::theme::Tone;
use crate::tui::view_model::ViewModel;

/// Text lines that are shown at most.
const MOST: usize = 8;

/// Completions that are shown at once.
const OFFERED: usize = 10;

/// Bytes around the cursor that are laid out: more than fit on any screen.
const AROUND: usize = 16 * 1024;

/// Cells before the text.
const MARK: u16 = 3;

/// Rows the composer takes, its rule included.
pub(super) fn rows(state: &State, area: Rect) -> u16 {
    if state.profile.is_record {
        return 0;
    }
    let (lines, _) = layout(state, area.width);
    let most = MOST.min(usize::from(area.height) / 3).max(1);
    u16::try_from(lines.len().min(most)).unwrap_or(1) + 1
}

/// The text broken into lines, and where the cursor is: line, column.
fn layout(state: &State, wide: u16) -> (Vec<String>, (usize, usize)) {
    let room = usize::from(wide.saturating_sub(MARK + 2)).max(1);
    let (whole, at) = (&state.composer.text, state.composer.cursor);
    // Of a huge text only what is near the cursor is looked at; it begins with a line where there is one.
    let from = whole.floor_char_boundary(at.saturating_sub(AROUND));
    let from = if from == 0 { 0 } else { whole[from..at].find('\n').map_or(from, |line| from + line + 1) };
    let to = whole.ceil_char_boundary(at.saturating_add(AROUND).min(whole.len()));
    let (text, at_cursor) = (&whole[from..to], at - from);
    let (mut lines, mut used) = (vec![String::new()], 0);
    let mut cursor = (0, 0);
    for (at, grapheme) in text.grapheme_indices(true) {
        if at == at_cursor {
            cursor = (lines.len() - 1, used);
        }
        if grapheme == "\n" {
            lines.push(String::new());
            used = 0;
            continue;
        }
        // What was pasted may hold anything; the text itself is sent as it is.
        let shown = state.composer.mark(grapheme).unwrap_or_else(|| clean(grapheme));
        if used + width(&shown) > room {
            lines.push(String::new());
            used = 0;
        }
        used += width(&shown);
        if let Some(line) = lines.last_mut() {
            line.push_str(&shown);
        }
    }
    if at_cursor == text.len() {
        if used >= room {
            lines.push(String::new());
            used = 0;
        }
        cursor = (lines.len() - 1, used);
    }
    (lines, cursor)
}

pub(super) fn draw(state: &State, scene: &ViewModel<'_>, frame: &mut Frame<'_>, area: Rect) {
    if area.height < 2 {
        return;
    }
    let has_keys = super::has_keys(state, Pane::Composer);
    let tone = if has_keys { Tone::Accent } else { Tone::Quiet };
    frame.render_widget(Paragraph::new(Line::styled(rule(state, area.width), scene.style(tone))), area);
    let (lines, (line, column)) = layout(state, area.width);
    let height = usize::from(area.height) - 1;
    let top = (line + 1).saturating_sub(height).min(lines.len().saturating_sub(height));
    let text = |(nth, line): (usize, &String)| {
        let mark = if nth == 0 { " ❯ " } else { "   " };
        Line::from(vec![Span::styled(mark, scene.style(tone)), Span::raw(line.clone())])
    };
    let mut shown: Vec<Line<'static>> = lines.iter().enumerate().skip(top).take(height).map(text).collect();
    if state.composer.is_empty() {
        shown = vec![Line::from(vec![
            Span::styled(" ❯ ", scene.style(tone)),
            Span::styled(invitation(state), scene.style(Tone::Quiet)),
        ])];
    }
    frame.render_widget(Paragraph::new(shown), Rect { y: area.y + 1, height: area.height - 1, ..area });
    if has_keys {
        let x = area.x + MARK + u16::try_from(column).unwrap_or(0);
        let y = area.y + 1 + u16::try_from(line - top).unwrap_or(0);
        frame.set_cursor_position(Position { x: x.min(area.right().saturating_sub(1)), y });
    }
}

/// The rule above the text; it names who works on it, unless that is one spark as before.
fn rule(state: &State, wide: u16) -> String {
    let wide = usize::from(wide);
    let flags = state.wish.flags.iter().map(|flag| format!(" {}", clean_line(flag))).collect::<String>();
    let last = state.record.now.board.mode.as_ref().map_or("solo", phrases::mode);
    let label = match state.wish.worker {
        Worker::Solo if last == "solo" || state.is_working() => String::new(),
        worker => cut(&format!(" {}{flags} ", worker.word()), wide.saturating_sub(8)),
    };
    let rest = wide.saturating_sub(width(&label) + 2);
    if label.is_empty() { "─".repeat(wide) } else { format!("──{label}{}", "─".repeat(rest)) }
}

fn invitation(state: &State) -> String {
    if let Some(row) = state.addressed() {
        return format!("Message {}… (Esc stops it, s in the story follows another)", clean_line(&row.role));
    }
    let words = match (state.is_working(), state.wish.worker, state.record.last()) {
        _ if state.record.now.board.questions().next().is_some() => "write your answer",
        (true, ..) => "Message the agent…",
        (false, Worker::Debate, _) => "write a question",
        (false, _, None) => "write a task",
        (false, _, Some(_)) => "what next?",
    };
    words.to_owned()
}

/// Completions above the composer.
pub(super) fn offer(state: &State, scene: &ViewModel<'_>, frame: &mut Frame<'_>, composer: Rect) {
    let Some(offer) = state.composer.offer.as_ref().filter(|_| state.pane == Pane::Composer) else { return };
    let count = offer.choices.len();
    let height = u16::try_from(count.min(OFFERED)).unwrap_or(1).min(composer.y);
    let rows = usize::from(height);
    // The window follows the choice.
    let from = (offer.chosen + 1).saturating_sub(rows);
    let shown = || offer.choices.iter().enumerate().skip(from).take(rows);
    let names = shown().map(|(_, (word, _))| width(word)).max().unwrap_or(0);
    let wide = usize::from(composer.width).saturating_sub(4);
    let area = Rect { x: composer.x, y: composer.y - height, width: composer.width, height };
    let line = |(nth, (word, help)): (usize, &(String, String))| {
        let word = clean_line(word);
        let gap = " ".repeat(names.saturating_sub(width(&word)) + 2);
        let place = match nth + 1 - from == rows && count > rows {
            true => format!(" {} of {count}", offer.chosen + 1),
            false => String::new(),
        };
        let text = cut(&format!("{word}{gap}{help}"), wide.saturating_sub(width(&place)));
        let style = if nth == offer.chosen { scene.style(Tone::Chosen) } else { Style::new() };
        let gap = " ".repeat(wide.saturating_sub(width(&text) + width(&place)));
        let place = Span::styled(format!("{gap}{place}"), scene.style(Tone::Quiet));
        Line::from(vec![Span::raw("   "), Span::styled(text, style), place])
    };
    frame.render_widget(Clear, area);
    let lines: Vec<Line<'static>> = shown().map(line).collect();
    frame.render_widget(Paragraph::new(lines), area);
}
