//! The list of turns that can be gone back to before, and what the chosen one changed.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use crate::tui::diff;
use crate::tui::state::{State, TurnList};
use crate::tui::text::{Wrap, bare, clean_line, cut};
use crate::tui::theme::Tone;
use crate::tui::view_model::ViewModel;

pub(super) fn draw(state: &State, scene: &ViewModel<'_>, list: &TurnList, frame: &mut Frame<'_>, area: Rect) {
    let foot = "Enter takes files and words back · f files only · w words only · PgDn the diff · Esc closes";
    let inner = super::sheet(scene, frame, area, "go back to before a turn", foot);
    let (wide, tall) = (usize::from(inner.width), usize::from(inner.height));
    let quiet = |text: &'static str| Line::styled(text, scene.style(Tone::Quiet));
    let Some(rows) = &state.turns else {
        return frame.render_widget(Paragraph::new(quiet("reading the turns…")), inner);
    };
    let height = rows.len().min(tall / 3).max(1);
    let chosen = list.chosen.min(rows.len().saturating_sub(1));
    let from = (chosen + 1).saturating_sub(height);
    let mut lines = Vec::new();
    for (nth, row) in rows.iter().enumerate().skip(from).take(height) {
        let (mark, tone) = if nth == chosen { ("▸ ", Tone::Chosen) } else { ("  ", Tone::Text) };
        lines.push(Line::styled(cut(&format!("{mark}{}", clean_line(&row.title)), wide), scene.style(tone)));
    }
    lines.push(Line::default());
    let mut changed = Vec::new();
    match rows.get(chosen).map(|row| bare(row.diff.trim_end())) {
        Some(text) if !text.is_empty() => {
            diff::diff(scene.theme, &text, &Wrap::to(wide).anywhere(), &mut changed);
        }
        Some(_) => changed.push(quiet("it changed no file that is recorded")),
        None => changed.push(quiet("there is no turn yet")),
    }
    let room = tall.saturating_sub(lines.len());
    let most = changed.len().saturating_sub(room);
    state.most.set(most);
    lines.extend(changed.into_iter().skip(list.scroll.min(most)).take(room));
    frame.render_widget(Paragraph::new(lines), inner);
}
