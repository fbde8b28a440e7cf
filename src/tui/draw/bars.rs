//! The thin lines of the screen: rules, the slider of time, the status with its hints.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use crate::projection::phrases;
use crate::tui::state::{Armed, Pane, State};
use crate::tui::text::{Wrap, clean_line, cut, width};
use crate::tui::theme::Tone;
use crate::tui::view_model::ViewModel;

/// Why nothing can be asked of a record.
const NEWER: &str = "written by a newer agon: read only here, and what this one does not know is left out";

pub(super) fn rule(scene: &ViewModel<'_>, frame: &mut Frame<'_>, area: Rect) {
    let line = "─".repeat(usize::from(area.width));
    frame.render_widget(Paragraph::new(Line::styled(line, scene.style(Tone::Quiet))), area);
}

pub(super) fn divider(scene: &ViewModel<'_>, frame: &mut Frame<'_>, area: Rect) {
    let line = Line::styled(" │", scene.style(Tone::Quiet));
    frame.render_widget(Paragraph::new(vec![line; usize::from(area.height)]), area);
}

/// Where in the record somebody looks: `e12 ━━━●────── e42`.
pub(super) fn slider(state: &State, scene: &ViewModel<'_>, frame: &mut Frame<'_>, area: Rect) {
    let Some(last) = state.record.last() else { return };
    let at = state.seen().unwrap_or(last);
    let (left, right) =
        (format!(" e{at} "), format!(" e{last} · {} ", phrases::time_of_day(scene.moment.board.at)));
    let speed = state.past.as_ref().and_then(|past| past.play).map(|play| format!("▶ ×{} ", play.words()));
    let speed = speed.unwrap_or_default();
    let room = usize::from(area.width).saturating_sub(width(&left) + width(&right) + width(&speed) + 1);
    let done = match last {
        0 => room,
        last => usize::try_from(at.saturating_mul(room as u64) / last).unwrap_or(room),
    };
    let line = Line::from(vec![
        Span::styled(left, scene.style(Tone::Strong)),
        Span::styled("━".repeat(done), scene.style(Tone::Accent)),
        Span::styled("●", scene.style(Tone::Accent)),
        Span::styled("─".repeat(room.saturating_sub(done)), scene.style(Tone::Quiet)),
        Span::styled(right, scene.style(Tone::Quiet)),
        Span::styled(speed, scene.style(Tone::Accent)),
    ]);
    frame.render_widget(Paragraph::new(line), area);
}

fn fault_lines(state: &State, wide: u16) -> Vec<Line<'static>> {
    let newer = || state.is_newer().then_some(NEWER);
    let Some(fault) = state.fault.as_deref().or_else(newer) else { return Vec::new() };
    let (mut out, mark) = (Vec::new(), |text| vec![Span::styled(text, state.theme.style(Tone::Bad))]);
    let wrap = Wrap::to(usize::from(wide).saturating_sub(1)).with(mark(" ! "), mark("   "));
    wrap.line(&[(state.theme.style(Tone::Bad), clean_line(fault).as_str())], &mut out);
    out.truncate(3);
    out
}

/// Rows for what is wrong with the record.
pub(super) fn fault_rows(state: &State, wide: u16) -> u16 {
    u16::try_from(fault_lines(state, wide).len()).unwrap_or(0)
}

/// What is wrong with the record: it stays.
pub(super) fn fault(state: &State, frame: &mut Frame<'_>, area: Rect) {
    frame.render_widget(Paragraph::new(fault_lines(state, area.width)), area);
}

/// What is told, whole. What lies over the screen leaves it the last line only.
fn told_lines(state: &State, wide: u16) -> Vec<Line<'static>> {
    let Some(told) = state.told().filter(|_| state.overlays.is_empty()) else { return Vec::new() };
    let mut lines = Vec::new();
    let wrap = Wrap::to(usize::from(wide).saturating_sub(1)).barred(vec![Span::raw(" ")]);
    wrap.line(&[(state.theme.style(Tone::Warn), clean_line(told).as_str())], &mut lines);
    lines
}

/// Rows for what is told, of those that nothing else needs: it covers no key and no question.
pub(super) fn told_rows(state: &State, area: Rect, taken: u16) -> u16 {
    let rows = u16::try_from(told_lines(state, area.width).len()).unwrap_or(u16::MAX);
    rows.min((area.height / 3).max(1)).min(area.height.saturating_sub(taken + 2))
}

/// What is told, above what is being written.
pub(super) fn told(state: &State, frame: &mut Frame<'_>, area: Rect) {
    frame.render_widget(Paragraph::new(told_lines(state, area.width)), area);
}

/// What the keys do now, and where the session stands.
pub(super) fn status(state: &State, scene: &ViewModel<'_>, frame: &mut Frame<'_>, area: Rect, is_told: bool) {
    let told = state.told().filter(|_| !is_told).map(clean_line);
    let wide = usize::from(area.width);
    // What is told never takes the place of keys; what lies over the screen says itself what its keys do.
    let keeps_keys = state.overlays.is_empty();
    let right = match &told {
        Some(told) if keeps_keys => format!("{} ", cut(told, wide / 2)),
        _ => place(state),
    };
    let asks = state.is_asked() && (state.past.is_some() || !state.overlays.is_empty());
    let asks = asks.then(|| asking(state, wide.saturating_sub(10)));
    let right = match (&asks, &state.past) {
        // That something asks is worth more than where work goes on.
        (Some(asks), Some(past)) if width(asks) + width(&right) + 3 > wide => format!("◀ e{} ", past.cut),
        (Some(asks), None) if width(asks) + width(&right) + 3 > wide => String::new(),
        _ => right,
    };
    let room = wide.saturating_sub(width(&right) + 3);
    let (text, tone) = match told {
        Some(told) if !keeps_keys => (told, Tone::Warn),
        _ if asks.is_some() => (asks.unwrap_or_default(), Tone::Warn),
        _ => (hints(state, room), Tone::Quiet),
    };
    let text = cut(&text, room);
    let gap = " ".repeat(room.saturating_sub(width(&text)) + 1);
    let line = Line::from(vec![
        Span::raw(" "),
        Span::styled(text, scene.style(tone)),
        Span::raw(gap),
        Span::styled(right, scene.style(Tone::Quiet)),
    ]);
    frame.render_widget(Paragraph::new(line), area);
}

/// That something waits for an answer where its question cannot be seen, and how to get there.
fn asking(state: &State, room: usize) -> String {
    let way = if state.overlays.is_empty() { "Esc goes there" } else { "Esc closes this" };
    let count = phrases::counted(state.board().approvals.len() as u64, "approval");
    let long = format!("? {count} waiting for you: {way}");
    if width(&long) <= room { long } else { format!("? asks: {way}") }
}

/// The hints that have room, the most useful first.
fn hints(state: &State, room: usize) -> String {
    // What lies over the screen says itself what its keys do.
    if !state.overlays.is_empty() {
        return String::new();
    }
    let is_asked = state.is_asked() && state.past.is_none();
    let hints: &[&str] = match state.pane {
        Pane::Approval if state.asking.armed == Some(Armed::Rule) => {
            &["Enter grants the rule", "Esc takes it back"]
        }
        Pane::Approval => {
            &["y once", "s session", "r rule", "n deny", "then Enter", "↑↓ scroll", "Tab story"]
        }
        Pane::Composer if state.past.is_some() => &["Enter goes back to now", "Tab story", "Esc now"],
        Pane::Composer if state.board().questions().next().is_some() => {
            &["Enter answers", "Esc interrupts", "Tab story", "? help"]
        }
        Pane::Composer if is_asked => &["Enter steers", "Tab answers", "Esc interrupts", "? help"],
        Pane::Timeline if is_asked => &["Tab answers", "↑↓ scroll", "[ ] time", "o unfold", "? help"],
        Pane::Composer if state.is_working() => &["Enter steers", "Esc interrupts", "Tab story", "? help"],
        Pane::Composer if state.is_left_open() && state.composer.is_empty() => {
            &["Enter goes on where it was left", "or write", "Tab story", "? help"]
        }
        Pane::Composer => &["Enter sends", "/ commands", "Tab story", "? help"],
        Pane::Timeline if state.past.is_some() => &["[ ] step", "r play", "f fork here", "Esc now", "? help"],
        Pane::Timeline if state.profile.is_record => {
            &["[ ] step", "r play", "g jump", "f fork", "q leave", "? help"]
        }
        Pane::Timeline => &["↑↓ scroll", "[ ] time", "o unfold", "Tab write", "? help"],
    };
    let has_diff = state.pane == Pane::Timeline && state.scene().moment.board.proposed.is_some();
    let (first, rest) = hints.split_at(1);
    let diff: &[&str] = if has_diff { &["d diff"] } else { &[] };
    let mut line = String::new();
    for hint in [first, diff, rest].concat() {
        let joined = if line.is_empty() { hint.to_owned() } else { format!("{line} · {hint}") };
        if width(&joined) > room {
            break;
        }
        line = joined;
    }
    line
}

fn place(state: &State) -> String {
    match (state.record.last(), &state.past) {
        (None, _) => String::new(),
        (Some(last), Some(past)) if state.is_working() => {
            format!("◀ e{} · live goes on at e{last} ", past.cut)
        }
        (Some(last), Some(past)) if state.is_live => format!("◀ e{} of e{last} ", past.cut),
        (Some(_), Some(past)) => format!("◀ e{} ", past.cut),
        (Some(last), None) if state.is_live => format!("● live e{last} "),
        (Some(last), None) if state.is_elsewhere && !state.board().has_open_turn() => {
            format!("◌ open elsewhere e{last} ")
        }
        (Some(last), None) if state.is_elsewhere => format!("◌ runs elsewhere e{last} "),
        (Some(last), None) => format!("○ record e{last} "),
    }
}
