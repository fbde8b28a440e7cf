//! The question whether tools may work where nothing can confine them: why, what would stand open, the answer so far.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};

use crate::tui::state::Unconfined;
use crate::tui::text::{Wrap, clean_line};
use crate::tui::theme::Tone;
use crate::tui::view_model::ViewModel;

/// What is asked. Whole words, so that no stray key allows anything.
const QUESTION: &str = "May they work with your own rights? Write yes or no, then Enter: ";

pub(super) fn draw(scene: &ViewModel<'_>, frame: &mut Frame<'_>, area: Rect, asked: &Unconfined) {
    let wrap = Wrap::to(usize::from(area.width).saturating_sub(1)).barred(vec![Span::raw(" ")]);
    let mut lines = vec![Line::styled("─".repeat(usize::from(area.width)), scene.style(Tone::Warn))];
    let mut say =
        |tone: Tone, text: &str| wrap.line(&[(scene.style(tone), clean_line(text).as_str())], &mut lines);
    say(Tone::Bad, &format!("Nothing here can confine the tools: {}", asked.why));
    say(Tone::Text, "Without a sandbox, for this whole session:");
    for gap in &asked.gaps {
        say(Tone::Warn, &format!("· {gap}"));
    }
    let answer = format!("{}▏", clean_line(&asked.word));
    let question = [(scene.style(Tone::Strong), QUESTION), (scene.style(Tone::Accent), answer.as_str())];
    wrap.line(&question, &mut lines);
    let height = lines.len().min(usize::from(area.height));
    // Where there is no room for everything, the question stays.
    lines.drain(..lines.len() - height);
    let height = u16::try_from(height).unwrap_or(area.height);
    let area = Rect { y: area.bottom() - height, height, ..area };
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines), area);
}
