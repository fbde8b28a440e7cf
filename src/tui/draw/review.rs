//! The pane of the diff under review: beside or beneath a squad's story where there is room, else a sheet of its own.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use crate::tui::review::{Sheet, proposal, title};
use crate::tui::state::{Overlay, State};
use crate::tui::text::{cut, width};
use crate::tui::theme::Tone;
use crate::tui::view_model::ViewModel;

/// Columns of a story from which on the diff stands beside it.
const BESIDE: u16 = 130;

/// Rows of a story from which on the diff stands beneath it.
const BENEATH: u16 = 24;

/// Takes the room of the pane away from the story; none where there is no room or nothing is under review: once the
/// turn is over, the room belongs to its answer.
pub(super) fn divide(scene: &ViewModel<'_>, story: Rect) -> (Rect, Option<Rect>) {
    if !scene.moment.board.has_open_turn() || proposal(scene).is_none() {
        return (story, None);
    }
    let halves = match (story.width >= BESIDE, story.height >= BENEATH) {
        (true, _) => Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]),
        (false, true) => Layout::vertical([Constraint::Fill(3), Constraint::Fill(2)]),
        (false, false) => return (story, None),
    };
    let [story, pane] = halves.areas(story);
    (story, Some(pane))
}

/// The pane beside the story; the keys go to it while it is what lies on top.
pub(super) fn pane(state: &State, scene: &ViewModel<'_>, frame: &mut Frame<'_>, area: Rect, is_beside: bool) {
    let Some((at, taken)) = proposal(scene) else { return };
    let has_keys = matches!(state.overlays.last(), Some(Overlay::Review { .. }));
    let area = if is_beside {
        let [gap, pane] = Layout::horizontal([Constraint::Length(2), Constraint::Min(1)]).areas(area);
        super::bars::divider(scene, frame, gap);
        pane
    } else {
        area
    };
    let wide = usize::from(area.width);
    let keys = match has_keys {
        true => ["↑↓ scroll · d whole screen · Esc", "d whole screen · Esc"],
        false => ["d in the story goes here", "d in the story"],
    };
    let title = format!(" {} ", title(scene, at, taken));
    let room = wide.saturating_sub(width(&title) + 3);
    let keys = keys.into_iter().find(|keys| width(keys) <= room);
    let keys = keys.map(|keys| format!(" {keys} ")).unwrap_or_default();
    let rule = "─".repeat(wide.saturating_sub(width(&title) + width(&keys)));
    let tone = if has_keys { Tone::Chosen } else { Tone::Accent };
    let head = Line::from(vec![
        ratatui::text::Span::styled(cut(&title, wide), scene.style(tone)),
        ratatui::text::Span::styled(format!("{rule}{keys}"), scene.style(Tone::Quiet)),
    ]);
    let [top, body] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    frame.render_widget(Paragraph::new(head), top);
    let body = Rect { x: body.x + 1, width: body.width.saturating_sub(2), ..body };
    lines(state, scene, frame, body, has_keys);
}

/// The whole screen.
pub(super) fn whole(state: &State, scene: &ViewModel<'_>, frame: &mut Frame<'_>, area: Rect) {
    let title =
        proposal(scene).map_or("nothing is proposed".to_owned(), |(at, taken)| title(scene, at, taken));
    let inner = super::sheet(scene, frame, area, &title, "↑↓ scroll · Esc closes");
    lines(state, scene, frame, inner, true);
}

/// What the whole session changed.
pub(super) fn changes(
    state: &State,
    scene: &ViewModel<'_>,
    sheet: &Sheet,
    frame: &mut Frame<'_>,
    area: Rect,
) {
    let inner = super::sheet(scene, frame, area, &sheet.title, "↑↓ scroll · Esc closes");
    let lines = sheet.lines(scene.theme, usize::from(inner.width));
    let height = usize::from(inner.height);
    let most = lines.len().saturating_sub(height);
    state.most.set(most);
    let from = sheet.scroll.min(most);
    let shown: Vec<Line<'static>> = lines.iter().skip(from).take(height).cloned().collect();
    frame.render_widget(Paragraph::new(shown), inner);
    if from < most {
        super::more(scene, frame, inner);
    }
}

fn lines(state: &State, scene: &ViewModel<'_>, frame: &mut Frame<'_>, area: Rect, has_keys: bool) {
    let lines = state.review.lines(scene, usize::from(area.width));
    let height = usize::from(area.height);
    let most = lines.len().saturating_sub(height);
    if has_keys {
        state.most.set(most);
    }
    let from = state.review.scroll(scene.moment.board.proposed).min(most);
    let shown: Vec<Line<'static>> = lines.iter().skip(from).take(height).cloned().collect();
    frame.render_widget(Paragraph::new(shown), area);
    if from < most {
        super::more(scene, frame, area);
    }
}
