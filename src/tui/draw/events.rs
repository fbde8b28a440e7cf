//! The list of events: every fact and decision with its kind, its spark and what it is about; made row by row.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use crate::projection::phrases;
use crate::projection::telling::{Scene, line_of};
use crate::projection::why::Link;
use crate::protocol::event::{ArenaEvent, Class};
use crate::protocol::{EventRef, SparkId};
use crate::tui::state::Events;
use crate::tui::text::{clean_line, cut, width};
use crate::tui::theme::Tone;
use crate::tui::view_model::ViewModel;

/// Events that are looked through for those a filter lets pass: the next key goes on from there.
const FARTHEST: usize = 20_000;

/// Steps from an outcome to the order that names its spark.
const DEPTH: u32 = 3;

/// One row.
pub(in crate::tui) struct Row {
    pub at: EventRef,
    time: u64,
    is_fact: bool,
    kind: String,
    spark: String,
    about: String,
}

/// The event itself and those after it (or before it, nearest first), as far as they fit the filter, at most `count`.
pub(in crate::tui) fn rows(
    scene: &ViewModel<'_>,
    from: EventRef,
    filter: &str,
    down: bool,
    count: usize,
) -> Vec<Row> {
    let filter = filter.to_lowercase();
    let mut found = Vec::new();
    let (mut next, mut looked) = (Some(from), 0);
    while let Some(at) = next.filter(|_| found.len() < count && looked < FARTHEST) {
        looked += 1;
        if let Some(row) = row(scene, at).filter(|row| row.fits(&filter)) {
            found.push(row);
        }
        next = neighbour(scene, at, down);
    }
    found
}

fn neighbour(scene: &ViewModel<'_>, at: EventRef, down: bool) -> Option<EventRef> {
    let count = |seq: u64| scene.record.entry(seq).map(|entry| entry.events.len());
    match (down, at.i) {
        (true, i) if usize::from(i) + 1 < count(at.seq)? => Some(EventRef { seq: at.seq, i: i + 1 }),
        (true, _) => count(at.seq + 1).map(|_| EventRef { seq: at.seq + 1, i: 0 }),
        (false, 0) => {
            let seq = at.seq.checked_sub(1)?;
            Some(EventRef { seq, i: u16::try_from(count(seq)?.saturating_sub(1)).ok()? })
        }
        (false, i) => Some(EventRef { seq: at.seq, i: i - 1 }),
    }
}

fn row(scene: &ViewModel<'_>, at: EventRef) -> Option<Row> {
    let event = scene.event(at)?;
    let entry = scene.record.entry(at.seq)?;
    let spark = spark_of(scene, at, event, DEPTH).map(|spark| scene.name(spark)).unwrap_or_default();
    let lookup = |at: EventRef| scene.event(at);
    let about = line_of(event, &Scene { name: &|spark| scene.name(spark), ..Scene::of(&lookup) });
    Some(Row {
        at,
        time: entry.at,
        is_fact: event.class() != Class::Decision,
        kind: clean_line(event.kind()),
        spark,
        about: clean_line(&about),
    })
}

impl Row {
    fn fits(&self, filter: &str) -> bool {
        let text = format!("e{} {} {} {}", self.at.seq, self.kind, self.spark, self.about).to_lowercase();
        filter.split_whitespace().all(|word| match word.split_once(':') {
            Some(("kind", kind)) => self.kind.contains(kind),
            Some(("spark", spark)) => self.spark.to_lowercase().contains(spark),
            _ => text.contains(word),
        })
    }
}

/// The spark an event is for: its own, or that of the call it answers.
fn spark_of(scene: &ViewModel<'_>, at: EventRef, event: &ArenaEvent, depth: u32) -> Option<SparkId> {
    event.spark().or_else(|| {
        let causes = scene.record.reasons(at.seq).direct(at);
        let steps = causes.iter().filter(|cause| !matches!(cause.link, Link::DrawnFrom | Link::Names));
        let nearer =
            steps.filter(|_| depth > 0).filter_map(|cause| Some((cause.from, scene.event(cause.from)?)));
        nearer.into_iter().find_map(|(at, event)| spark_of(scene, at, event, depth - 1))
    })
}

pub(super) fn draw(scene: &ViewModel<'_>, list: &Events, frame: &mut Frame<'_>, area: Rect) {
    let foot = match list.is_typing {
        true => format!("filter: {}▏  kind:tool spark:coder words · Ctrl-U clears", clean_line(&list.filter)),
        false if list.filter.is_empty() => "Enter opens · t goes there · / filters · Esc closes".to_owned(),
        false => format!("filter: {}  / changes it · Esc clears it", clean_line(&list.filter)),
    };
    let last = scene.record.last().unwrap_or(0);
    let inner = super::sheet(scene, frame, area, &format!("events e0 to e{last}"), &foot);
    let height = usize::from(inner.height);
    let mut all = rows(scene, list.chosen, &list.filter, false, height);
    all.reverse();
    all.extend(
        rows(scene, list.chosen, &list.filter, true, height).into_iter().filter(|row| row.at != list.chosen),
    );
    if all.is_empty() {
        let text = Line::styled("no event fits", scene.style(Tone::Quiet));
        return frame.render_widget(Paragraph::new(text), inner);
    }
    let surplus = all.len().saturating_sub(height);
    let chosen = all.iter().position(|row| row.at == list.chosen).unwrap_or(0);
    // In the middle where it can be; the list is as full as it gets.
    all.drain(..surplus.min(chosen.saturating_sub(height / 2)));
    all.truncate(height);
    let wide = usize::from(inner.width);
    let lines: Vec<Line<'static>> = all
        .iter()
        .enumerate()
        .map(|(nth, row)| {
            let begins = nth.checked_sub(1).is_none_or(|before| all[before].at.seq != row.at.seq);
            line(scene, row, row.at == list.chosen, begins, wide)
        })
        .collect();
    frame.render_widget(Paragraph::new(lines), inner);
}

/// A row; the first one shown of an entry names it and its time.
fn line(scene: &ViewModel<'_>, row: &Row, is_chosen: bool, begins: bool, wide: usize) -> Line<'static> {
    let number = match (begins, row.at.i) {
        (_, 0) => format!("e{}", row.at.seq),
        (true, i) => format!("e{}.{i}", row.at.seq),
        (false, i) => format!("  .{i}"),
    };
    let time = if begins { phrases::time_of_day(row.time) } else { String::new() };
    let mark = if is_chosen { "▸" } else { " " };
    // Where there is little room, what it is about is worth more than the time of day.
    let head = match wide < 76 {
        true => format!("{mark} {number:<7}{:<23}{:<10}", cut(&row.kind, 22), cut(&row.spark, 9)),
        false => {
            format!("{mark} {number:<9}{time:<10}{:<24}{:<12}", cut(&row.kind, 23), cut(&row.spark, 11))
        }
    };
    let about = cut(&row.about, wide.saturating_sub(width(&head)));
    let (tone, about_tone) = match (is_chosen, row.is_fact) {
        (true, _) => (Tone::Chosen, Tone::Chosen),
        (false, true) => (Tone::Strong, Tone::Text),
        (false, false) => (Tone::Text, Tone::Quiet),
    };
    Line::from(vec![
        Span::styled(cut(&head, wide), scene.style(tone)),
        Span::styled(about, scene.style(about_tone)),
    ])
}
