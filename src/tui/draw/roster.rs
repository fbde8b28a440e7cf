//! The roster: a row per spark with its state, what it does, how long, what it used.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use crate::projection::board::SparkRow;
use crate::projection::costs::Costs;
use crate::projection::{phrases, typed};
use crate::protocol::event::{ArenaEvent, TurnCause};
use crate::tui::markdown::markdown;
use crate::tui::state::State;
use crate::tui::text::{Wrap, clean, clean_line, cut, width};
use crate::tui::theme::Tone;
use crate::tui::view_model::{ViewModel, spinner};

/// Rows below which a plan is not begun: its heading, two lines, that there is more, a blank one.
const PLAN: usize = 5;

/// Lines of one finding at most.
const FINDING: usize = 4;

/// A mark for the state; the words beside it say the same.
fn mark(scene: &ViewModel<'_>, row: &SparkRow) -> (Tone, &'static str) {
    let board = &scene.moment.board;
    match row.ended {
        Some((_, TurnCause::Done)) => (Tone::Good, "✓"),
        Some(_) => (Tone::Bad, "✗"),
        None if board.approvals.iter().any(|ask| ask.spark == row.spark)
            || board.questions().any(|open| open.spark == Some(row.spark)) =>
        {
            (Tone::Warn, "?")
        }
        None if scene.is_left => (Tone::Warn, "■"),
        None if board.is_busy(row.spark) => (Tone::Accent, spinner(scene.beat)),
        None => (Tone::Quiet, "·"),
    }
}

/// A spark's role; a subagent's is moved in under its parent's.
fn name(row: &SparkRow) -> String {
    let edge = if row.depth() > 0 { "\u{2514} " } else { "" };
    format!("{}{edge}{}", "  ".repeat(row.depth().saturating_sub(1).min(4)), clean_line(&row.role))
}

/// What a spark does; of one that does nothing, whom it waits for.
fn doing(scene: &ViewModel<'_>, row: &SparkRow) -> String {
    let board = &scene.moment.board;
    if row.ended.is_some() || board.is_busy(row.spark) {
        return clean_line(&board.state_of(row));
    }
    let busy = |other: &&SparkRow| other.spark != row.spark && board.is_busy(other.spark);
    let others: Vec<String> = scene.at_work().filter(busy).map(|other| clean_line(&other.role)).collect();
    let asks = board.approvals.first().filter(|_| !others.is_empty()).map(|ask| scene.name(ask.spark));
    match (asks, others.as_slice()) {
        (Some(who), _) => format!("waits for {who}, who asks you"),
        (None, []) => clean_line(&board.state_of(row)),
        (None, [one]) => format!("waits for {one}"),
        (None, many) => format!("waits for {} others", many.len()),
    }
}

/// Microseconds a spark was at work, as the end of its turn counts them: without waiting for a person.
fn worked_us(scene: &ViewModel<'_>, costs: &Costs, row: &SparkRow) -> u64 {
    let done = costs.sparks.get(&row.spark).map_or(0, |costs| costs.tally.model_ms + costs.tally.tool_ms);
    let doing = scene.moment.board.doing(Some(row.spark));
    let open = doing.filter(|(_, open)| !open.waits_for_people() && !scene.is_left);
    done * 1_000 + open.map(|(_, open)| scene.now.saturating_sub(open.since)).max().unwrap_or(0)
}

/// A column: two lines and a blank one per spark, then what reviewers still want.
pub(super) fn column(state: &State, scene: &ViewModel<'_>, frame: &mut Frame<'_>, area: Rect) {
    let wide = usize::from(area.width).saturating_sub(1);
    let mut lines = Vec::new();
    let (board, costs) = (&scene.moment.board, scene.costs());
    for row in scene.at_work() {
        let (tone, mark) = mark(scene, row);
        let time = scene.elapsed(scene.now.saturating_sub(worked_us(scene, &costs, row)));
        let role = cut(&name(row), wide.saturating_sub(width(&time) + 5));
        let gap = " ".repeat(wide.saturating_sub(width(&role) + width(&time) + 3));
        let chosen = state.story.focus == Some(row.spark);
        let tone_of_name = if chosen { Tone::Chosen } else { Tone::Strong };
        lines.push(Line::from(vec![
            Span::styled(format!(" {mark} "), scene.style(tone)),
            Span::styled(role, scene.style(tone_of_name)),
            Span::styled(format!("{gap}{time}"), scene.style(Tone::Quiet)),
        ]));
        let edge = " ".repeat(3 + 2 * row.depth().min(5));
        let doing = cut(&doing(scene, row), wide.saturating_sub(edge.len()));
        lines.push(Line::styled(format!("{edge}{doing}"), scene.style(Tone::Text)));
        let used = costs.sparks.get(&row.spark).map(|costs| costs.tally.at_most()).unwrap_or_default();
        let used = format!("{edge}{} tokens · {}", used.short_tokens(), used.money());
        lines.push(Line::styled(cut(&used, wide), scene.style(Tone::Quiet)));
        lines.push(Line::default());
    }
    plan(scene, wide, usize::from(area.height).saturating_sub(lines.len()) / 2, &mut lines);
    if !board.findings.is_empty() {
        let title = phrases::counted(board.findings.len() as u64, "open finding");
        lines.push(Line::styled(format!(" {title}"), scene.style(Tone::Warn)));
        for finding in &board.findings {
            let text = format!("{} {}", clean_line(&finding.id), clean_line(&finding.problem));
            let (mut told, edge) = (Vec::new(), |text| vec![Span::raw(text)]);
            Wrap::to(wide).with(edge(" "), edge("   ")).line(&[(scene.style(Tone::Text), &text)], &mut told);
            told.truncate(FINDING);
            lines.append(&mut told);
        }
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// The plan that was stated, as much as has room.
fn plan(scene: &ViewModel<'_>, wide: usize, room: usize, lines: &mut Vec<Line<'static>>) {
    let Some(ArenaEvent::ModelAnswered(stated)) = scene.moment.board.plan.and_then(|at| scene.event(at))
    else {
        return;
    };
    let text = stated.body.text();
    let text = clean(typed::readable(&text, &[]).unwrap_or(text).trim());
    if room < PLAN {
        return;
    }
    // Lines a wrapped line may take more than were written do no harm: what is too long is cut below.
    let head: String = text.split_inclusive('\n').take(2 * room).collect();
    let mut told = markdown(scene.theme, &head, wide.saturating_sub(1));
    told.retain(|line| line.width() > 0);
    told.iter_mut().for_each(|line| line.spans.insert(0, Span::raw(" ")));
    lines.push(Line::styled(" plan", scene.style(Tone::Accent)));
    if told.len() > room - 2 {
        told.truncate(room - 3);
        told.push(Line::styled(" …", scene.style(Tone::Quiet)));
    }
    lines.append(&mut told);
    lines.push(Line::default());
}

/// One line per spark.
pub(super) fn lines(state: &State, scene: &ViewModel<'_>, frame: &mut Frame<'_>, area: Rect) {
    let wide = usize::from(area.width).saturating_sub(2);
    let names = scene.at_work().map(|row| width(&name(row))).max().unwrap_or(0).min(24);
    let line = |row: &SparkRow| {
        let (tone, mark) = mark(scene, row);
        let role = cut(&name(row), names);
        let gap = " ".repeat(names.saturating_sub(width(&role)) + 2);
        let chosen = state.story.focus == Some(row.spark);
        let doing = cut(&doing(scene, row), wide.saturating_sub(names + 4));
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
        rows.sort_by_key(|row| row.ended.is_some() || !board.is_busy(row.spark));
    }
    let height = usize::from(area.height);
    // The last line says how many are hidden; where there is but one, it is for whoever does something.
    let kept = if rows.len() > height && height > 1 { height - 1 } else { rows.len().min(height) };
    let hidden = if height > 1 { rows.len() - kept } else { 0 };
    rows.truncate(kept);
    let mut all: Vec<Line<'static>> = rows.into_iter().map(line).collect();
    if hidden > 0 {
        let text = format!("   and {hidden} more; s in the story follows one after the other");
        all.push(Line::styled(cut(&text, wide), scene.style(Tone::Quiet)));
    }
    frame.render_widget(Paragraph::new(all), area);
}
