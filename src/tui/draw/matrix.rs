//! A debate as a table: phases by personas with rating and confidence, the curve of agreement, who crossed over.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::projection::matrix::{Matrix, Phase, Stand};
use crate::projection::phrases;
use crate::projection::report::wording;
use crate::protocol::{SparkId, ballot};
use crate::tui::state::State;
use crate::tui::text::{Wrap, clean_line, cut, width};
use crate::tui::theme::Tone;
use crate::tui::view_model::ViewModel;

/// Cells of a persona's name.
const NAME: usize = 24;

/// Cells of one phase.
const CELL: usize = 20;

pub(super) fn draw(
    state: &State,
    scene: &ViewModel<'_>,
    frame: &mut Frame<'_>,
    area: Rect,
    (scroll, back): (usize, usize),
) {
    let inner = super::sheet(scene, frame, area, "debate", "↑↓ scroll · ← → phases · Esc closes");
    let wide = usize::from(inner.width);
    let matrix = &scene.moment.matrix;
    let mut lines = Vec::new();
    if matrix.phases.is_empty() {
        lines.push(Line::styled("no debate has begun in this session", scene.style(Tone::Quiet)));
        return super::scrolled(state, frame, inner, lines, scroll);
    }
    if matrix.is_sealed {
        let text = "The first ballots are sealed: no position is shown before all are in.";
        lines.push(Line::styled(text, scene.style(Tone::Warn)));
        lines.push(Line::default());
    }
    let columns = columns(matrix, wide, back);
    state.farthest.set(columns.1 + columns.2);
    table(scene, matrix, wide, columns, &mut lines);
    let legend = "one sign for each proposition: ++ strongly for, + for, 0 undecided, - against, -- strongly against; then how sure";
    wrapped(Line::styled(legend, scene.style(Tone::Quiet)), wide, &mut lines);
    lines.push(Line::default());
    propositions(scene, matrix, wide, &mut lines);
    curve(scene, matrix, wide, &mut lines);
    let mut words = Vec::new();
    flips(scene, matrix, &mut words);
    verdict(scene, matrix, &mut words);
    for line in words {
        wrapped(line, wide, &mut lines);
    }
    super::scrolled(state, frame, inner, lines, scroll);
}

/// Phases that have room, and how many there are before and after them.
type Columns<'a> = (Vec<&'a Phase>, usize, usize);

/// Phases in which somebody says where they stand, as many as have room, so many back from the newest.
fn columns(matrix: &Matrix, wide: usize, back: usize) -> Columns<'_> {
    let room = (wide.saturating_sub(NAME) / CELL).max(1);
    let last = matrix.phases.len().saturating_sub(1);
    let is_over = matrix.upheld.is_some() || matrix.gated.is_some();
    let says = |nth: usize, phase: &Phase| !phase.stands.is_empty() || nth == last && !is_over;
    let all = matrix.phases.iter().enumerate().filter(|(nth, phase)| says(*nth, phase));
    let all: Vec<&Phase> = all.map(|(_, phase)| phase).collect();
    let after = back.min(all.len().saturating_sub(room));
    let before = all.len().saturating_sub(room + after);
    (all[before..all.len() - after].to_vec(), before, after)
}

fn table(
    scene: &ViewModel<'_>,
    matrix: &Matrix,
    wide: usize,
    (phases, before, after): Columns<'_>,
    lines: &mut Vec<Line<'static>>,
) {
    if before + after > 0 {
        let older = format!("← {} before these", phrases::counted(before as u64, "phase"));
        let newer = format!("{} after →", phrases::counted(after as u64, "phase"));
        let text = match (before, after) {
            (_, 0) => older,
            (0, _) => newer,
            _ => format!("{older}, {newer}"),
        };
        lines.push(Line::styled(cut(&text, wide), scene.style(Tone::Quiet)));
    }
    let mut head = vec![Span::raw(" ".repeat(NAME))];
    for phase in &phases {
        head.push(Span::styled(padded(&clean_line(&phase.label()), CELL), scene.style(Tone::Accent)));
    }
    lines.push(Line::from(head));
    let debaters: std::collections::BTreeSet<SparkId> =
        matrix.phases.iter().flat_map(|phase| phase.stands.keys().copied()).collect();
    for spark in debaters {
        let mut spans = vec![Span::styled(padded(&scene.name(spark), NAME), scene.style(Tone::Strong))];
        for phase in &phases {
            let is_open = phase.probe.is_none() && matrix.upheld.is_none();
            let none = if is_open { "…" } else { "absent" };
            let text = phase.stands.get(&spark).map_or(none.to_owned(), |stand| cell(matrix, stand));
            spans.push(Span::styled(padded(&text, CELL), scene.style(Tone::Text)));
        }
        lines.push(Line::from(spans));
    }
    lines.push(Line::default());
}

/// What the numbers stand for, in the words of whoever stated them.
fn propositions(scene: &ViewModel<'_>, matrix: &Matrix, wide: usize, lines: &mut Vec<Line<'static>>) {
    if matrix.is_sealed || matrix.stated.is_empty() {
        return;
    }
    let texts = ballot::propositions(&matrix.stated, &|at| scene.event(at));
    for (nth, text) in texts.into_iter().take(matrix.propositions as usize).enumerate() {
        let line = format!("P{}  {}", nth + 1, clean_line(&text));
        wrapped(Line::styled(line, scene.style(Tone::Text)), wide, lines);
    }
    lines.push(Line::default());
}

/// A line of words over as many lines as it needs.
fn wrapped(line: Line<'static>, wide: usize, lines: &mut Vec<Line<'static>>) {
    if line.width() <= wide {
        return lines.push(line);
    }
    let text = line.to_string();
    let wrap = Wrap::to(wide).with(Vec::new(), vec![Span::raw("    ")]);
    wrap.line(&[(line.style, text.as_str())], lines);
}

/// Ratings as signs, one per proposition, and how sure: `++ 0 -  80 %`.
fn cell(matrix: &Matrix, stand: &Stand) -> String {
    if matrix.is_sealed {
        return "sealed".to_owned();
    }
    let signs: Vec<&str> = stand.ratings.iter().map(|rating| sign(rating.rating)).collect();
    let sure = stand.confidence_pm.map(|pm| format!(" {}", wording::per_cent(pm))).unwrap_or_default();
    format!("{}{sure}", signs.join(" "))
}

fn sign(rating: i8) -> &'static str {
    match rating {
        2.. => "++",
        1 => "+",
        0 => "0",
        -1 => "-",
        _ => "--",
    }
}

fn padded(text: &str, room: usize) -> String {
    let text = cut(text, room.saturating_sub(1));
    format!("{text}{}", " ".repeat(room.saturating_sub(width(&text))))
}

/// Agreement after each phase as a bar of its own.
fn curve(scene: &ViewModel<'_>, matrix: &Matrix, wide: usize, lines: &mut Vec<Line<'static>>) {
    let room = wide.saturating_sub(NAME + 24).clamp(10, 40);
    for phase in &matrix.phases {
        let Some(probe) = &phase.probe else { continue };
        let score = probe.score_pm.unwrap_or(0).min(1_000);
        let full = room * usize::try_from(score).unwrap_or(0) / 1_000;
        let bar = format!("{}{}", "█".repeat(full), "░".repeat(room - full));
        let mut text = match probe.score_pm {
            Some(score) => format!(" {} agreed", wording::per_cent(score)),
            None => " not measured".to_owned(),
        };
        if let Some(moved) = probe.movement_pm {
            text.push_str(&format!(", moved {}", wording::per_cent(moved)));
        }
        if probe.collapse {
            text.push_str(", dissent vanished without a reason");
        }
        lines.push(Line::from(vec![
            Span::styled(padded(&clean_line(&phase.label()), NAME), scene.style(Tone::Quiet)),
            Span::styled(bar, scene.style(Tone::Accent)),
            Span::styled(cut(&text, wide.saturating_sub(NAME + room)), scene.style(Tone::Text)),
        ]));
    }
    lines.push(Line::default());
}

fn flips(scene: &ViewModel<'_>, matrix: &Matrix, lines: &mut Vec<Line<'static>>) {
    for phase in &matrix.phases {
        for flip in phase.probe.iter().flat_map(|probe| &probe.flips) {
            let text = format!(
                "⇄ {} crossed over on {} in {}: {} to {}",
                scene.name(flip.spark),
                wording::name(flip.proposition),
                clean_line(&phase.label()),
                sign(flip.from),
                sign(flip.to)
            );
            lines.push(Line::styled(text, scene.style(Tone::Warn)));
        }
    }
}

fn verdict(scene: &ViewModel<'_>, matrix: &Matrix, lines: &mut Vec<Line<'static>>) {
    if let Some(reason) = &matrix.gated {
        lines.push(Line::styled(
            format!("not worth a debate: {}", clean_line(reason)),
            scene.style(Tone::Accent),
        ));
    }
    let Some(upheld) = &matrix.upheld else { return };
    lines.push(Line::default());
    let words = match matrix.verdict_pm {
        Some(sure) => format!("verdict, {} sure", wording::per_cent(sure)),
        None => "no verdict; the sealed majority is used instead".to_owned(),
    };
    lines.push(Line::styled(words, scene.style(Tone::Accent)));
    for (nth, held) in upheld.iter().enumerate() {
        let word = wording::upheld(Some(*held));
        let plain = wording::majority(matrix.majority.get(nth).copied());
        let vote = if matrix.phases.len() > 1 { "a plain vote before the talk" } else { "a plain vote" };
        let text = format!("  P{}  {word:<10} {vote}: {plain}", nth + 1);
        lines.push(Line::styled(text, scene.style(Tone::Text)));
    }
    let overruled = matrix.overruled();
    if !overruled.is_empty() {
        let text = format!("  the moderator overruled the panel on {}", wording::names(&overruled));
        lines.push(Line::styled(text, scene.style(Tone::Bad)));
    }
    for (spark, propositions) in &matrix.dissent {
        let text = format!("  {} stands against it on {}", scene.name(*spark), wording::names(propositions));
        lines.push(Line::styled(text, scene.style(Tone::Warn)));
    }
}
