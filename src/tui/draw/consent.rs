//! A question before a session is opened: what it is about, what there is to know, the answer so far.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};

use crate::tui::state::Asked;
use crate::tui::text::{Wrap, bare_line};
use crate::tui::theme::Tone;
use crate::tui::view_model::ViewModel;

/// How it is answered. Whole words, so that no stray key allows anything.
const HOW: &str = "Write yes or no, then Enter:";
/// What is said where there is no room for all of it.
const CUT: &str = "⋮ the window is too small to show all of it: make it larger, or write no";

pub(super) fn draw(scene: &ViewModel<'_>, frame: &mut Frame<'_>, area: Rect, asked: &Asked) {
    let wrap = Wrap::to(usize::from(area.width).saturating_sub(1)).barred(vec![Span::raw(" ")]);
    let mut lines = vec![Line::styled("─".repeat(usize::from(area.width)), scene.style(Tone::Warn))];
    let mut say =
        |tone: Tone, text: &str| wrap.line(&[(scene.style(tone), bare_line(text).as_str())], &mut lines);
    say(Tone::Bad, &asked.question.title);
    say(Tone::Text, &asked.question.intro);
    for point in &asked.question.points {
        say(Tone::Warn, &format!("· {point}"));
    }
    let (answer, how) = match asked.question.keys {
        [] => (format!("{}▏", bare_line(&asked.word)), HOW),
        _ => (String::new(), ""),
    };
    let question = format!("{} {how} ", bare_line(&asked.question.question));
    let before = lines.len();
    let question =
        [(scene.style(Tone::Strong), question.as_str()), (scene.style(Tone::Accent), answer.as_str())];
    wrap.line(&question, &mut lines);
    let height = lines.len().min(usize::from(area.height));
    asked.is_whole.set(height == lines.len());
    // Where there is no room for everything, the question stays.
    if height < lines.len() {
        let cut = (lines.len() - height + 1).min(before);
        lines.drain(before - cut..before);
        lines.insert(before - cut, Line::styled(CUT, scene.style(Tone::Bad)));
        lines.truncate(height);
    }
    let height = u16::try_from(height).unwrap_or(area.height);
    let area = Rect { y: area.bottom() - height, height, ..area };
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines), area);
}
