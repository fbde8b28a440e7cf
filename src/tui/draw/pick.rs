//! The lists from which one is picked: models, and what was written before.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use crate::tui::state::{Picker, PickerKind, State};
use crate::tui::text::{clean_line, cut, width};
use crate::tui::theme::Tone;
use crate::tui::view_model::ViewModel;

/// The widest column of names.
const NAMES: usize = 56;

/// The rows that contain every word that was typed, each with what there is to know of it; none while they are asked for.
pub(in crate::tui) fn fitting<'a>(state: &'a State, list: &Picker) -> Option<Vec<(&'a str, &'a str)>> {
    let mut rows: Vec<(&str, &str)> = match list.kind {
        PickerKind::Models => {
            state.models.as_ref()?.iter().map(|row| (row.name.as_str(), row.about.as_str())).collect()
        }
        PickerKind::History => state.composer.earlier().into_iter().map(|text| (text, "")).collect(),
    };
    let words: Vec<String> = list.search.to_lowercase().split_whitespace().map(str::to_owned).collect();
    rows.retain(|(name, _)| {
        let name = name.to_lowercase();
        words.iter().all(|word| name.contains(word))
    });
    Some(rows)
}

pub(super) fn draw(state: &State, scene: &ViewModel<'_>, list: &Picker, frame: &mut Frame<'_>, area: Rect) {
    let (title, foot, names) = match list.kind {
        PickerKind::Models => ("models", "Enter uses it from the next call on · Esc closes", NAMES),
        PickerKind::History => ("written before", "Enter takes it · Ctrl-R older · Esc closes", usize::MAX),
    };
    let inner = super::sheet(scene, frame, area, title, foot);
    let wide = usize::from(inner.width);
    let search = format!("search: {}▏", clean_line(&list.search));
    let mut lines = vec![Line::styled(search, scene.style(Tone::Text)), Line::default()];
    let Some(rows) = fitting(state, list) else {
        lines.push(Line::styled("asking your providers…", scene.style(Tone::Quiet)));
        return frame.render_widget(Paragraph::new(lines), inner);
    };
    if rows.is_empty() {
        let words = match (list.kind, state.models.as_deref()) {
            (PickerKind::Models, Some([])) => "no provider lists a model",
            (PickerKind::Models, _) => "no model fits",
            (PickerKind::History, _) => "nothing that was written before fits",
        };
        lines.push(Line::styled(words, scene.style(Tone::Quiet)));
    }
    let height = usize::from(inner.height).saturating_sub(2).max(1);
    let chosen = list.chosen.min(rows.len().saturating_sub(1));
    let from = (chosen + 1).saturating_sub(height);
    let shown = rows.iter().enumerate().skip(from).take(height);
    let column = shown.clone().map(|(_, (name, _))| width(name)).max().unwrap_or(0).min(names);
    for (nth, (name, about)) in shown {
        let name = cut(&clean_line(name), names.min(wide));
        let gap = if about.is_empty() { 0 } else { column.saturating_sub(width(&name)) };
        let is_chosen = nth == chosen;
        let (mark, tone) = if is_chosen { ("▸ ", Tone::Chosen) } else { ("  ", Tone::Text) };
        let text = format!("{mark}{name}{}  {}", " ".repeat(gap), clean_line(about));
        lines.push(Line::styled(cut(text.trim_end(), wide), scene.style(tone)));
    }
    frame.render_widget(Paragraph::new(lines), inner);
}
