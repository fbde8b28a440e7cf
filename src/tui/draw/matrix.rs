//! A debate as a table: phases by personas with rating and confidence, the curve of agreement, who crossed over.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::projection::matrix::{Matrix, Phase, Stand};
use crate::projection::words;
use crate::protocol::SparkId;
use crate::tui::scene::Scene;
use crate::tui::state::State;
use crate::tui::text::{Wrap, clean_line, cut, width};
use crate::tui::theme::Tone;

/// Cells of a persona's name.
const NAME: usize = 24;

/// Cells of one phase.
const CELL: usize = 20;

pub(super) fn draw(state: &State, scene: &Scene<'_>, frame: &mut Frame<'_>, area: Rect, scroll: usize) {
    let inner = super::sheet(scene, frame, area, "debate", "↑↓ scroll · Esc closes");
    let wide = usize::from(inner.width);
    let matrix = &scene.moment.matrix;
    let mut lines = Vec::new();
    if matrix.phases.is_empty() {
        lines.push(Line::styled("no debate has begun in this turn", scene.style(Tone::Quiet)));
        return super::scrolled(state, frame, inner, lines, scroll);
    }
    if matrix.is_sealed {
        let text = "The first ballots are sealed: no position is shown before all are in.";
        lines.push(Line::styled(text, scene.style(Tone::Warn)));
        lines.push(Line::default());
    }
    table(scene, matrix, wide, &mut lines);
    curve(scene, matrix, wide, &mut lines);
    let mut words = Vec::new();
    flips(scene, matrix, &mut words);
    verdict(scene, matrix, &mut words);
    for line in words {
        wrapped(line, wide, &mut lines);
    }
    super::scrolled(state, frame, inner, lines, scroll);
}

/// Phases in which somebody says where they stand, as many of the newest as have room, and how many older ones
/// have none.
fn columns(matrix: &Matrix, wide: usize) -> (Vec<&Phase>, usize) {
    let room = (wide.saturating_sub(NAME) / CELL).max(1);
    let last = matrix.phases.len().saturating_sub(1);
    let is_over = matrix.upheld.is_some() || matrix.gated.is_some();
    let says = |nth: usize, phase: &Phase| !phase.stands.is_empty() || nth == last && !is_over;
    let all = matrix.phases.iter().enumerate().filter(|(nth, phase)| says(*nth, phase));
    let all: Vec<&Phase> = all.map(|(_, phase)| phase).collect();
    let hidden = all.len().saturating_sub(room);
    (all[hidden..].to_vec(), hidden)
}

fn table(scene: &Scene<'_>, matrix: &Matrix, wide: usize, lines: &mut Vec<Line<'static>>) {
    let (phases, hidden) = columns(matrix, wide);
    if hidden > 0 {
        let text =
            format!("← {} before these; the curve below has all", words::counted(hidden as u64, "phase"));
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
    let sure = stand.confidence_pm.map(|pm| format!(" {} %", pm / 10)).unwrap_or_default();
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
    let text = cut(text, room - 1);
    format!("{text}{}", " ".repeat(room - width(&text)))
}

/// Agreement after each phase as a bar of its own.
fn curve(scene: &Scene<'_>, matrix: &Matrix, wide: usize, lines: &mut Vec<Line<'static>>) {
    let room = wide.saturating_sub(NAME + 24).clamp(10, 40);
    for phase in &matrix.phases {
        let Some(probe) = &phase.probe else { continue };
        let score = probe.score_pm.unwrap_or(0).min(1_000);
        let full = room * usize::try_from(score).unwrap_or(0) / 1_000;
        let bar = format!("{}{}", "█".repeat(full), "░".repeat(room - full));
        let mut text = match probe.score_pm {
            Some(score) => format!(" {} % agreed", score / 10),
            None => " not measured".to_owned(),
        };
        if let Some(moved) = probe.movement_pm {
            text.push_str(&format!(", moved {} %", moved / 10));
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

fn flips(scene: &Scene<'_>, matrix: &Matrix, lines: &mut Vec<Line<'static>>) {
    for phase in &matrix.phases {
        for flip in phase.probe.iter().flat_map(|probe| &probe.flips) {
            let text = format!(
                "⇄ {} crossed over on proposition {} in {}: {} to {}",
                scene.name(flip.spark),
                flip.proposition + 1,
                clean_line(&phase.label()),
                sign(flip.from),
                sign(flip.to)
            );
            lines.push(Line::styled(text, scene.style(Tone::Warn)));
        }
    }
}

fn verdict(scene: &Scene<'_>, matrix: &Matrix, lines: &mut Vec<Line<'static>>) {
    if let Some(reason) = &matrix.gated {
        lines.push(Line::styled(
            format!("not worth a debate: {}", clean_line(reason)),
            scene.style(Tone::Accent),
        ));
    }
    let Some(upheld) = &matrix.upheld else { return };
    lines.push(Line::default());
    let words = match matrix.verdict_pm {
        Some(sure) => format!("verdict, {} % sure", sure / 10),
        None => "no verdict; the sealed majority stands in for it".to_owned(),
    };
    lines.push(Line::styled(words, scene.style(Tone::Accent)));
    for (nth, held) in upheld.iter().enumerate() {
        let word = match held {
            1.. => "upheld",
            0 => "left open",
            _ => "rejected",
        };
        let plain = match matrix.majority.get(nth) {
            Some(1..) => "for",
            Some(0) => "tied",
            Some(_) => "against",
            None => "none",
        };
        let text = format!("  proposition {}  {word:<10} a plain vote before the talk: {plain}", nth + 1);
        lines.push(Line::styled(text, scene.style(Tone::Text)));
    }
    for (spark, propositions) in &matrix.dissent {
        let numbers: Vec<String> = propositions.iter().map(|nth| (nth + 1).to_string()).collect();
        let text = format!("  {} stands against it on {}", scene.name(*spark), numbers.join(", "));
        lines.push(Line::styled(text, scene.style(Tone::Warn)));
    }
}
