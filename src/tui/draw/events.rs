//! The list of events: every fact and decision with its kind, its spark and what it is about; made row by row.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use crate::projection::calls::target;
use crate::projection::report::wording;
use crate::projection::why::Link;
use crate::projection::words;
use crate::protocol::event::{ArenaEvent, Class, PrepareResult};
use crate::protocol::message::Part;
use crate::protocol::{EventRef, SparkId};
use crate::tui::scene::Scene;
use crate::tui::state::Events;
use crate::tui::text::{clean_line, cut, width};
use crate::tui::theme::Tone;

/// Characters of a text that are looked at for a row.
const ABOUT: usize = 300;

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
    scene: &Scene<'_>,
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

fn neighbour(scene: &Scene<'_>, at: EventRef, down: bool) -> Option<EventRef> {
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

fn row(scene: &Scene<'_>, at: EventRef) -> Option<Row> {
    let event = scene.event(at)?;
    let entry = scene.record.entry(at.seq)?;
    let spark = spark_of(scene, at, event, DEPTH).map(|spark| scene.name(spark)).unwrap_or_default();
    Some(Row {
        at,
        time: entry.at,
        is_fact: event.class() != Class::Decision,
        kind: clean_line(event.kind()),
        spark,
        about: clean_line(&about(event)),
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
fn spark_of(scene: &Scene<'_>, at: EventRef, event: &ArenaEvent, depth: u32) -> Option<SparkId> {
    use ArenaEvent as E;
    let own = |event: &ArenaEvent| match event {
        E::ModelCalled(data) => Some(data.spark),
        E::ToolInvoked(data) => Some(data.spark),
        E::ApprovalRequested(data) => Some(data.spark),
        E::SparkIgnited(data) => Some(data.spark),
        E::SparkCompleted(data) => Some(data.spark),
        E::NoticeGiven(data) => Some(data.spark),
        E::EffectOrdered(data) => data.spark,
        E::SteeringGiven(data) => data.spark,
        E::PlanStated(data) => Some(data.spark),
        E::CodeProposed(data) => Some(data.spark),
        E::CritiqueIssued(data) => Some(data.spark),
        E::BallotCast(data) => Some(data.spark),
        E::RatingsCast(data) => Some(data.spark),
        _ => None,
    };
    own(event).or_else(|| {
        let causes = scene.record.reasons(at.seq).direct(at);
        let steps = causes.iter().filter(|cause| !matches!(cause.link, Link::DrawnFrom | Link::Names));
        let nearer =
            steps.filter(|_| depth > 0).filter_map(|cause| Some((cause.from, scene.event(cause.from)?)));
        nearer.into_iter().find_map(|(at, event)| spark_of(scene, at, event, depth - 1))
    })
}

/// What an event is about, on one line.
fn about(event: &ArenaEvent) -> String {
    use ArenaEvent as E;
    let short = |text: &str| text.chars().take(ABOUT).collect::<String>();
    match event {
        E::SessionOpened(data) => data.spec.workspace.root.clone(),
        E::PromptGiven(data) => short(&data.text),
        E::SteeringGiven(data) => short(&data.text),
        E::ModelCalled(data) => {
            format!("{} · attempt {} · {}", data.model, data.attempt, short(&data.digest))
        }
        E::ModelAnswered(data) => answer(&data.body.message),
        E::ModelFailed(data) => {
            format!("{}: {}", words::error_kind(data.body.kind), short(&data.body.message))
        }
        E::ToolPrepared(data) => match &data.body.result {
            PrepareResult::Ready(plan) => plan.command.clone().unwrap_or_else(|| paths(&plan.paths)),
            PrepareResult::Unfit(why) => short(why),
        },
        E::PolicyDecided(data) => format!("{} by rule {}", words::action(data.action), data.rule),
        E::ApprovalAnswered(data) => format!("{} by {}", words::choice(&data.choice), data.by),
        E::ToolResolved(data) => {
            let exit = data.body.exit.map(|exit| format!(" · exit {exit}")).unwrap_or_default();
            format!("{}{exit} · {}", words::tool_status(data.body.status), words::duration(data.body.ms))
        }
        E::ToolRefused(data) => format!("{}: {}", words::refusal(data.reason), short(&data.text)),
        E::NoticeGiven(data) => short(&data.text),
        E::PhaseShifted(data) => data.to.clone(),
        E::CheckRan(data) => {
            format!("{} · {}", short(&data.body.command), wording::exit(data.body.exit))
        }
        E::BudgetReserved(data) => format!("{} tokens", words::grouped(data.tokens)),
        E::BudgetSettled(data) => {
            format!("{} · {}", words::tokens(&data.usage), words::money(data.micro_usd))
        }
        E::TurnOpened(data) => format!("turn {}", data.turn),
        E::TurnClosed(data) => format!("turn {} · {}", data.turn, words::turn_cause(data.cause)),
        E::SparkIgnited(data) => format!("{} as {} with {}", data.role, data.persona, data.model),
        E::SparkCompleted(data) => words::turn_cause(data.cause).to_owned(),
        E::InputRefused(data) => short(&data.reason),
        E::OutcomeIgnored(data) => short(&data.reason),
        E::SessionSealed(data) => words::stop_cause(data.cause).to_owned(),
        E::MentionExpanded(data) => data.body.mention.clone(),
        E::EffectFailed(data) => short(&data.body.error),
        E::CallCancelled(data) => format!("{} · {}", data.call, short(&data.reason)),
        E::CallLost(data) => format!("{} · {}", data.call, short(&data.text)),
        E::DiffTaken(data) => data.body.files.join(", "),
        E::FallbackTaken(data) => format!("{} instead of {}", data.to, data.from),
        E::RetryScheduled(data) => format!("attempt {} in {}", data.attempt, words::duration(data.delay_ms)),
        E::LimitReached(data) => words::limit(data.limit, data.used, data.max),
        // Decisions are small: what has no words of its own is shown as it is recorded.
        other if other.class() == Class::Decision => short(&other.data().to_string()),
        _ => String::new(),
    }
}

fn paths(paths: &[crate::protocol::event::PathBase]) -> String {
    paths.iter().take(8).map(|base| base.path.as_str()).collect::<Vec<_>>().join(", ")
}

fn answer(parts: &[Part]) -> String {
    let said = parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some(text.chars().take(ABOUT).collect()),
        Part::Call { name, args, .. } => Some(format!("→ {name} {}", target(args))),
        _ => None,
    });
    said.take(6).collect::<Vec<String>>().join("  ")
}

pub(super) fn draw(scene: &Scene<'_>, list: &Events, frame: &mut Frame<'_>, area: Rect) {
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
fn line(scene: &Scene<'_>, row: &Row, is_chosen: bool, begins: bool, wide: usize) -> Line<'static> {
    let number = match (begins, row.at.i) {
        (_, 0) => format!("e{}", row.at.seq),
        (true, i) => format!("e{}.{i}", row.at.seq),
        (false, i) => format!("  .{i}"),
    };
    let time = if begins { words::time_of_day(row.time) } else { String::new() };
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
