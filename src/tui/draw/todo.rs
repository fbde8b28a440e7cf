//! What is still to be done: the agent's list while it works, above what is being written.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use crate::protocol::inside::{Todo, TodoState};
use crate::tui::state::State;
use crate::tui::text::{clean_line, cut};
use crate::tui::theme::Tone;
use crate::tui::view_model::ViewModel;

/// Rows of the list at most.
const MOST: usize = 8;

fn list<'a>(scene: &ViewModel<'a>) -> Option<&'a Todo> {
    let board = &scene.moment.board;
    board.todo.as_ref().filter(|list| board.has_open_turn() && list.next().is_some())
}

/// Commands in the background that have a row.
const MOST_RUNNING: usize = 3;

fn running<'a>(scene: &ViewModel<'a>) -> Vec<String> {
    let running = scene.moment.board.background().take(MOST_RUNNING);
    running.map(|(call, order)| format!("in the background: {} {}", call.0, order.command)).collect()
}

/// Rows for the list: a sixth of the screen; one where there is a question to answer.
pub(super) fn rows(state: &State, area: Rect, asks: u16) -> u16 {
    let running = u16::try_from(running(&state.scene()).len()).unwrap_or(0);
    let Some(list) = list(&state.scene()) else { return running };
    let room = if asks > 0 { 1 } else { usize::from(area.height / 6).clamp(1, MOST) };
    u16::try_from(room.min(list.items.len())).unwrap_or(1) + running
}

/// The points around the one under way; in one row what the list says in short.
pub(super) fn draw(scene: &ViewModel<'_>, frame: &mut Frame<'_>, area: Rect) {
    let line = |tone: Tone, text: &str| {
        Line::styled(cut(&format!(" {}", clean_line(text)), usize::from(area.width)), scene.style(tone))
    };
    let running = running(scene);
    let rows = usize::from(area.height).saturating_sub(running.len());
    let running = running.iter().map(|text| line(Tone::Quiet, text));
    let Some(list) = list(scene) else {
        return frame.render_widget(Paragraph::new(running.collect::<Vec<_>>()), area);
    };
    if rows < 2 {
        let lines: Vec<Line<'_>> = std::iter::once(line(Tone::Quiet, &list.words())).chain(running).collect();
        return frame.render_widget(Paragraph::new(lines), area);
    }
    let next = list.items.iter().position(|item| Some(item) == list.next()).unwrap_or(0);
    let from = next.saturating_sub(1).min(list.items.len().saturating_sub(rows));
    let shown = list.items.iter().zip(list.lines()).skip(from).take(rows);
    let lines: Vec<Line<'_>> = shown
        .map(|(item, text)| match item.state {
            TodoState::Doing => line(Tone::Strong, &text),
            TodoState::Done => line(Tone::Quiet, &text),
            TodoState::Open | TodoState::Unknown(_) => line(Tone::Text, &text),
        })
        .chain(running)
        .collect();
    frame.render_widget(Paragraph::new(lines), area);
}
