//! The header: what session this is, who works with which model, how confined, what it used.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use crate::projection::board::BoardState;
use crate::projection::phrases;
use crate::protocol::effect::Order;
use crate::protocol::spec::{ANY_STEPS, PermissionLevel};
use crate::tui::level;
use crate::tui::state::State;
use crate::tui::text::{clean_line, cut, width};
use crate::tui::theme::Tone;
use crate::tui::view_model::ViewModel;

/// Cells of the context gauge.
const GAUGE: u64 = 8;

pub(super) fn draw(state: &State, scene: &ViewModel<'_>, frame: &mut Frame<'_>, area: Rect) {
    let lines = match area.height {
        0 => return,
        1 => {
            let left = first(state, scene);
            let right = short_used(state, scene, usize::from(area.width), &left);
            vec![both(scene, area.width, &left, &right)]
        }
        _ => vec![
            both(scene, area.width, &first_whole(state, scene), &confined_whole(state, scene, area.width)),
            both(scene, area.width, &second(state, scene), &used_whole(state, scene, area.width)),
        ],
    };
    frame.render_widget(Paragraph::new(lines), area);
}

type Words = Vec<(Tone, String)>;

/// Words on the left and on the right; the left ones give way.
fn both(scene: &ViewModel<'_>, wide: u16, left: &Words, right: &Words) -> Line<'static> {
    let wide = usize::from(wide).saturating_sub(2);
    let taken: usize = right.iter().map(|(_, text)| width(text)).sum();
    let mut room = wide.saturating_sub(taken + 2);
    let mut spans = vec![Span::raw(" ")];
    for (tone, text) in left {
        // A few letters of an id, or a lone `…`, read as a cut path.
        let is_lost = text.starts_with(" · ") && width(text) > room;
        let text = if is_lost { String::new() } else { cut(text, room) };
        room = room.saturating_sub(width(&text));
        spans.push(Span::styled(text, scene.style(*tone)));
    }
    spans.push(Span::raw(" ".repeat(room + 2)));
    let mut room = wide;
    for (tone, text) in right {
        let text = cut(text, room);
        room = room.saturating_sub(width(&text));
        spans.push(Span::styled(text, scene.style(*tone)));
    }
    Line::from(spans)
}

fn first(state: &State, scene: &ViewModel<'_>) -> Words {
    let board = &scene.moment.board;
    let mut words = vec![(Tone::Accent, "agon".to_owned())];
    let mode = board.mode.as_ref().map_or(state.wish.worker.word(), phrases::mode);
    let waits_for_you = !board.approvals.is_empty() || board.questions().next().is_some();
    let doing = match board.state {
        _ if board.seq.is_none() => {
            words.push((Tone::Quiet, format!("  {mode}")));
            return words;
        }
        _ if state.is_newer() => "newer: read only".to_owned(),
        BoardState::Idle => match board.cause {
            Some(cause) => phrases::turn_cause(cause).to_owned(),
            None => "ready".to_owned(),
        },
        BoardState::Working if scene.is_left => "left open".to_owned(),
        BoardState::Working if waits_for_you => "waits for you".to_owned(),
        BoardState::Working => "working".to_owned(),
        BoardState::Paused(cause) => format!("paused: {}", phrases::pause_cause(cause)),
        BoardState::Stopping(_) => "stopping".to_owned(),
        BoardState::Sealed(cause) => phrases::stop_cause(cause).to_owned(),
    };
    let is_calm = !waits_for_you && !state.is_newer();
    let tone = if is_calm { Tone::Text } else { Tone::Warn };
    words.push((Tone::Quiet, format!("  {mode}")));
    let next = state.wish.worker.word();
    if next != mode && !state.is_working() && scene.cut.is_none() && !state.profile.is_record {
        words.push((Tone::Warn, format!(", next {next}")));
    }
    words.push((Tone::Quiet, " · ".to_owned()));
    words.push((tone, doing));
    // Of a turn that is over, its last step says nothing.
    if let Some(phase) = board.phase.as_ref().filter(|_| board.has_open_turn()) {
        words.push((Tone::Quiet, format!(" · {}", clean_line(&phrases::spaced(phase)))));
    }
    words
}

/// The same with the number of the turn, where there is room.
fn first_whole(state: &State, scene: &ViewModel<'_>) -> Words {
    let (mut words, turn) = (first(state, scene), scene.moment.board.turn);
    if turn > 0 {
        words.push((Tone::Quiet, format!(" · turn {turn}")));
    }
    words
}

fn confined(state: &State, scene: &ViewModel<'_>) -> Words {
    let board = &scene.moment.board;
    let mut words = models(state, scene);
    if let Some(persona) = wanted(state, &state.profile.wanted_persona) {
        words.push((Tone::Warn, format!(" · next persona {}", clean_line(persona))));
    }
    if words.iter().any(|(_, text)| !text.is_empty()) {
        words.push((Tone::Quiet, " · ".to_owned()));
    }
    words.extend(levels(state, scene));
    if let Some(sandbox) = &board.sandbox {
        let (tone, name) = match sandbox.is_confining() {
            false => (Tone::Bad, "UNCONFINED".to_owned()),
            true => (Tone::Good, format!("sandbox {}", clean_line(&sandbox.kind))),
        };
        words.push((Tone::Quiet, " · ".to_owned()));
        words.push((tone, name));
    }
    let kind = board.sandbox.as_ref().map(|sandbox| sandbox.kind.as_str());
    if let Some(next) = wanted(state, &state.profile.wanted_sandbox).filter(|next| Some(*next) != kind) {
        words.push(match next {
            "none" => (Tone::Bad, ", next UNCONFINED".to_owned()),
            next => (Tone::Warn, format!(", next {}", clean_line(next))),
        });
    }
    words
}

/// The permission level, and the next one where that is another.
fn levels(state: &State, scene: &ViewModel<'_>) -> Words {
    let (now, next) = level::shown(state, scene);
    let mut words = vec![(level::tone(now), format!("level {}", now.word()))];
    words.extend(next.map(|next| (level::tone(next), format!(", next {}", next.word()))));
    words
}

/// What holds only from the next task on: said while nothing runs here.
fn wanted<'a>(state: &State, what: &'a Option<String>) -> Option<&'a str> {
    what.as_deref().filter(|_| !state.is_live && state.past.is_none() && !state.profile.is_record)
}

/// The model that works, and the one that works next where that is another.
fn models(state: &State, scene: &ViewModel<'_>) -> Words {
    let board = &scene.moment.board;
    let calls = board.sparks.iter().flat_map(|row| board.doing(Some(row.spark)));
    let older = calls.filter(|(_, open)| open.ordered.seq < board.model_since);
    let still = older.into_iter().find_map(|(_, open)| match &open.order {
        Order::Model(order) if order.model != board.model => Some(&order.model),
        _ => None,
    });
    if let Some(still) = still {
        let next = (Tone::Warn, format!(", next {}", clean_line(&board.model)));
        return vec![(Tone::Text, clean_line(still)), next];
    }
    let mut words = vec![(Tone::Text, clean_line(&board.model))];
    let next =
        wanted(state, &state.profile.wanted).filter(|next| board.seq.is_some() && *next != board.model);
    if let Some(next) = next {
        words.push((Tone::Warn, format!(", next {}", clean_line(next))));
    }
    words
}

/// The same with the roles that have places of their own, where there is room.
fn confined_whole(state: &State, scene: &ViewModel<'_>, wide: u16) -> Words {
    let mut words = confined(state, scene);
    let places: Vec<String> =
        scene.moment.board.places.iter().map(|place| clean_line(&phrases::place(place))).collect();
    let places = format!(" ({})", places.join("; "));
    let taken: usize = words.iter().map(|(_, text)| width(text)).sum();
    if places.len() > 3 && (taken + width(&places)) * 2 <= usize::from(wide) {
        words.push((Tone::Quiet, places));
    }
    words
}

fn second(state: &State, scene: &ViewModel<'_>) -> Words {
    let board = &scene.moment.board;
    let place = if board.workspace.is_empty() { &state.profile.workspace } else { &board.workspace };
    let mut words = vec![(Tone::Quiet, clean_line(place))];
    if !board.id.is_empty() {
        words.push((Tone::Quiet, format!(" · {}", clean_line(phrases::short_id(&board.id)))));
    }
    words
}

fn used(scene: &ViewModel<'_>) -> Words {
    let board = &scene.moment.board;
    if board.seq.is_none() {
        return Vec::new();
    }
    if scene.record.is_counting() {
        return vec![(Tone::Warn, "counting…".to_owned())];
    }
    let used = scene.costs().total.at_most();
    let tokens = used.short_tokens();
    let tokens = match board.limits.max_tokens {
        Some(max) => format!("{tokens} of {} tokens", phrases::short_count(max)),
        None => format!("{tokens} tokens"),
    };
    let money = used.money();
    let money = match board.limits.max_micro_usd {
        Some(max) => format!("{money} of {}", phrases::money(max)),
        None => money,
    };
    let mut words = vec![(Tone::Text, tokens), (Tone::Quiet, " · ".to_owned()), (Tone::Text, money)];
    if let Some((tone, text)) = gauge(scene) {
        words.push((Tone::Quiet, " · context ".to_owned()));
        words.push((tone, text));
    }
    words
}

/// The same with the model calls of the turn, in full where there is room or few are left.
fn used_whole(state: &State, scene: &ViewModel<'_>, wide: u16) -> Words {
    let mut words = used(scene);
    let (board, max) = (&scene.moment.board, scene.moment.board.limits.max_steps);
    if words.len() < 3 || max == ANY_STEPS {
        return words;
    }
    let steps = board.steps;
    let is_short = u64::from(steps) * 5 >= u64::from(max) * 4;
    let (steps, max) = (phrases::short_count(steps.into()), phrases::counted(max.into(), "call"));
    let (whole, brief) = (format!("{steps} of {max} · "), format!("{steps}/{max} · "));
    let taken: usize = words.iter().chain(&second(state, scene)).map(|(_, text)| width(text)).sum();
    let has_room = is_short || taken + width(&whole) + 4 <= usize::from(wide);
    let tone = if is_short { Tone::Warn } else { Tone::Text };
    words.insert(0, (tone, if has_room { whole } else { brief }));
    words
}

/// The same on one line: the model where it has room, and whether nothing confines the tools.
fn short_used(state: &State, scene: &ViewModel<'_>, wide: usize, left: &Words) -> Words {
    let board = &scene.moment.board;
    let mut words = Vec::new();
    if board.sandbox.as_ref().is_some_and(|sandbox| !sandbox.is_confining()) {
        words.push((Tone::Bad, "UNCONFINED".to_owned()));
        words.push((Tone::Quiet, " · ".to_owned()));
    }
    if level::shown(state, scene).0 != PermissionLevel::Ask {
        words.extend(levels(state, scene));
        words.push((Tone::Quiet, " · ".to_owned()));
    }
    if scene.record.is_counting() {
        words.push((Tone::Warn, "counting…".to_owned()));
    } else if board.seq.is_some() {
        words.push((Tone::Text, scene.costs().total.at_most().short_tokens()));
        words.push((Tone::Quiet, " tokens".to_owned()));
    }
    let taken: usize = left.iter().chain(&words).map(|(_, text)| width(text)).sum();
    let room = wide.saturating_sub(taken + 8);
    if room >= 6 && board.seq.is_some() {
        let model = models(state, scene).into_iter().map(|(_, text)| text).collect::<String>();
        words.insert(0, (Tone::Quiet, " · ".to_owned()));
        // Who makes it matters less than which one it is.
        let short = model.rsplit('/').next().unwrap_or(&model);
        let model = if width(&model) > room { cut(short, room) } else { model.clone() };
        words.insert(0, (Tone::Text, model));
    }
    words
}

/// The fullest window of those at work.
fn gauge(scene: &ViewModel<'_>) -> Option<(Tone, String)> {
    let rows = scene.moment.board.sparks.iter();
    let full =
        rows.filter_map(|row| scene.moment.gauge.of(row.spark)).map(|(used, window)| used * 1_000 / window);
    let full = full.max()?.min(1_000);
    let cells = (full * GAUGE).div_ceil(1_000).min(GAUGE);
    let bar: String = (0..GAUGE).map(|cell| if cell < cells { '▰' } else { '▱' }).collect();
    let tone = match full {
        0..700 => Tone::Good,
        700..900 => Tone::Warn,
        _ => Tone::Bad,
    };
    Some((tone, format!("{bar} {} %", full / 10)))
}
