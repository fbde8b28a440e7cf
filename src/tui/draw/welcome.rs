//! The first screen: what agon is, what it would work with, what to do when nothing is set up.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use crate::tui::state::State;
use crate::tui::text::{Wrap, clean_line, cut};
use crate::tui::theme::Tone;
use crate::tui::view_model::ViewModel;

/// The widest the text gets: longer lines are hard to read.
const WIDE: u16 = 76;

pub(super) fn draw(state: &State, scene: &ViewModel<'_>, frame: &mut Frame<'_>, area: Rect) {
    let wide = area.width.saturating_sub(4).min(WIDE);
    let mut lines = Vec::new();
    let profile = &state.profile;
    let wrap = Wrap::to(usize::from(wide));
    lines.push(Line::from(Span::styled(clean_line(&profile.program), scene.style(Tone::Accent))));
    lines.push(Line::default());
    if area.height >= 14 {
        let what = "An arena for AI agents. Every action is an event in one log; what you see here is read from it, live or years later.";
        wrap.text(scene.style(Tone::Text), what, &mut lines);
        lines.push(Line::default());
    }
    match &profile.trouble {
        Some(trouble) => {
            wrap.text(scene.style(Tone::Warn), &clean_line(&trouble.what), &mut lines);
            for hint in &trouble.hints {
                let wrap = wrap.clone().barred(vec![Span::raw("  ")]);
                wrap.text(scene.style(Tone::Text), &clean_line(hint), &mut lines);
            }
            lines.push(Line::default());
            lines.push(pair(scene, wide, "Enter", "choose a model, or store a provider's key"));
            lines.push(pair(scene, wide, "/demo", "agon at work right now: no key, no network, no model"));
        }
        None => {
            lines.push(pair(scene, wide, "workspace", &clean_line(&profile.workspace)));
            if let Some(model) = &profile.model {
                let why =
                    profile.why.as_ref().map_or(String::new(), |why| format!("  ({})", clean_line(why)));
                let text = format!("{}{why}", clean_line(model));
                let name = vec![Span::styled(format!("{:<12}", "model"), scene.style(Tone::Code))];
                let wrap = wrap.clone().with(name, vec![Span::raw(" ".repeat(12))]);
                wrap.line(&[(scene.style(Tone::Text), text.as_str())], &mut lines);
            }
            lines.push(Line::default());
            lines.push(Line::styled("Write a task and press Enter.", scene.style(Tone::Strong)));
            lines.push(Line::default());
            lines.push(pair(scene, wide, "/demo", "a recorded model at work: no key, no network"));
        }
    }
    lines.push(pair(scene, wide, "/sessions", "continue an earlier session, or replay it"));
    lines.push(pair(scene, wide, "/help", "keys and commands"));
    let height = u16::try_from(lines.len()).unwrap_or(area.height).min(area.height);
    let x = area.x + area.width.saturating_sub(wide) / 2;
    let y = area.y + (area.height - height) / 3;
    frame.render_widget(Paragraph::new(lines), Rect { x, y, width: wide, height });
}

fn pair(scene: &ViewModel<'_>, wide: u16, name: &str, text: &str) -> Line<'static> {
    let text = cut(text, usize::from(wide).saturating_sub(12));
    Line::from(vec![
        Span::styled(format!("{name:<12}"), scene.style(Tone::Code)),
        Span::styled(text, scene.style(Tone::Text)),
    ])
}
