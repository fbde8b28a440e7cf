//! The list of models, from which one is picked.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use crate::tui::state::{ModelRow, Picker, State};
use crate::tui::text::{clean_line, cut, width};
use crate::tui::theme::Tone;
use crate::tui::view_model::ViewModel;

/// The widest column of names.
const NAMES: usize = 56;

/// The models whose names contain every word that was typed.
pub(in crate::tui) fn fitting<'a>(
    rows: &'a [ModelRow],
    search: &str,
) -> impl Iterator<Item = &'a ModelRow> + use<'a> {
    let words: Vec<String> = search.to_lowercase().split_whitespace().map(str::to_owned).collect();
    rows.iter().filter(move |row| {
        let name = row.name.to_lowercase();
        words.iter().all(|word| name.contains(word))
    })
}

pub(super) fn draw(state: &State, scene: &ViewModel<'_>, list: &Picker, frame: &mut Frame<'_>, area: Rect) {
    let inner =
        super::sheet(scene, frame, area, "models", "Enter uses it from the next call on · Esc closes");
    let wide = usize::from(inner.width);
    let search = format!("search: {}▏", clean_line(&list.search));
    let mut lines = vec![Line::styled(search, scene.style(Tone::Text)), Line::default()];
    let Some(all) = &state.models else {
        lines.push(Line::styled("asking your providers…", scene.style(Tone::Quiet)));
        return frame.render_widget(Paragraph::new(lines), inner);
    };
    let rows: Vec<&ModelRow> = fitting(all, &list.search).collect();
    if rows.is_empty() {
        let words = if all.is_empty() { "no provider lists a model" } else { "no model fits" };
        lines.push(Line::styled(words, scene.style(Tone::Quiet)));
    }
    let height = usize::from(inner.height).saturating_sub(2).max(1);
    let chosen = list.chosen.min(rows.len().saturating_sub(1));
    let from = (chosen + 1).saturating_sub(height);
    let shown = rows.iter().enumerate().skip(from).take(height);
    let names = shown.clone().map(|(_, row)| width(&row.name)).max().unwrap_or(0).min(NAMES);
    for (nth, row) in shown {
        let name = cut(&clean_line(&row.name), NAMES);
        let gap = " ".repeat(names.saturating_sub(width(&name)));
        let is_chosen = nth == chosen;
        let (mark, tone) = if is_chosen { ("▸ ", Tone::Chosen) } else { ("  ", Tone::Text) };
        let text = format!("{mark}{name}{gap}  {}", clean_line(&row.about));
        lines.push(Line::styled(cut(text.trim_end(), wide), scene.style(tone)));
    }
    frame.render_widget(Paragraph::new(lines), inner);
}
