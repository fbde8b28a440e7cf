//! The roster: a row per spark with its state, what it does, how long, what it used.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use crate::projection::board::SparkRow;
use crate::projection::words;
use crate::protocol::event::TurnCause;
use crate::tui::scene::{Scene, spinner};
use crate::tui::state::State;
use crate::tui::text::{clean_line, cut, width};
use crate::tui::theme::Tone;

/// A mark for the state; the words beside it say the same.
fn mark(scene: &Scene<'_>, row: &SparkRow) -> (Tone, &'static str) {
    let board = &scene.moment.board;
    match row.ended {
        Some((_, TurnCause::Done)) => (Tone::Good, "✓"),
        Some(_) => (Tone::Bad, "✗"),
        None if board.approvals.iter().any(|ask| ask.spark == row.spark) => (Tone::Warn, "?"),
        None if scene.is_left => (Tone::Warn, "■"),
        None if board.doing(Some(row.spark)).next().is_some() => (Tone::Accent, spinner(scene.beat)),
        None => (Tone::Quiet, "·"),
    }
}

/// A column: two lines and a blank one per spark, then what reviewers still want.
pub(super) fn column(state: &State, scene: &Scene<'_>, frame: &mut Frame<'_>, area: Rect) {
    let wide = usize::from(area.width).saturating_sub(1);
    let mut lines = Vec::new();
    let board = &scene.moment.board;
    for row in scene.at_work() {
        let (tone, mark) = mark(scene, row);
        let end = row.ended.map_or(scene.now, |(at, _)| at);
        let time = words::duration(end.saturating_sub(row.started) / 1_000_000 * 1_000);
        let role = cut(&clean_line(&row.role), wide.saturating_sub(width(&time) + 5));
        let gap = " ".repeat(wide.saturating_sub(width(&role) + width(&time) + 3));
        let chosen = state.story.focus == Some(row.spark);
        let name = if chosen { Tone::Chosen } else { Tone::Strong };
        lines.push(Line::from(vec![
            Span::styled(format!(" {mark} "), scene.style(tone)),
            Span::styled(role, scene.style(name)),
            Span::styled(format!("{gap}{time}"), scene.style(Tone::Quiet)),
        ]));
        let doing = cut(&clean_line(&board.state_of(row)), wide.saturating_sub(3));
        lines.push(Line::styled(format!("   {doing}"), scene.style(Tone::Text)));
        let used = format!(
            "   {} tokens · {}",
            words::short_count(row.usage.total()),
            words::money_known(row.micro_usd, row.unpriced)
        );
        lines.push(Line::styled(cut(&used, wide), scene.style(Tone::Quiet)));
        lines.push(Line::default());
    }
    if !board.findings.is_empty() {
        let title = words::counted(board.findings.len() as u64, "open finding");
        lines.push(Line::styled(format!(" {title}"), scene.style(Tone::Warn)));
        for finding in &board.findings {
            let text = format!(" {} {}", clean_line(&finding.id), clean_line(&finding.problem));
            lines.push(Line::styled(cut(&text, wide), scene.style(Tone::Text)));
        }
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// One line per spark.
pub(super) fn lines(state: &State, scene: &Scene<'_>, frame: &mut Frame<'_>, area: Rect) {
    let wide = usize::from(area.width).saturating_sub(2);
    let names = scene.at_work().map(|row| width(&clean_line(&row.role))).max().unwrap_or(0).min(24);
    let line = |row: &SparkRow| {
        let (tone, mark) = mark(scene, row);
        let role = cut(&clean_line(&row.role), names);
        let gap = " ".repeat(names - width(&role) + 2);
        let chosen = state.story.focus == Some(row.spark);
        let doing = cut(&clean_line(&scene.moment.board.state_of(row)), wide.saturating_sub(names + 4));
        Line::from(vec![
            Span::styled(format!(" {mark} "), scene.style(tone)),
            Span::styled(role, scene.style(if chosen { Tone::Chosen } else { Tone::Strong })),
            Span::raw(gap),
            Span::styled(doing, scene.style(Tone::Quiet)),
        ])
    };
    let mut rows: Vec<&SparkRow> = scene.at_work().collect();
    if rows.len() > usize::from(area.height) {
        // Where not all have room, those who do something come first.
        let board = &scene.moment.board;
        rows.sort_by_key(|row| row.ended.is_some() || board.doing(Some(row.spark)).next().is_none());
    }
    let all: Vec<Line<'static>> = rows.into_iter().map(line).collect();
    frame.render_widget(Paragraph::new(all), area);
}
