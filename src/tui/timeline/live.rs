//! What is going on now, after the last item: streamed answers and thinking; knows what may be missing.

use ratatui::text::{Line, Span};

use crate::projection::calls::OpenCall;
use crate::protocol::effect::Order;
use crate::protocol::{CallId, Lane, SparkId};

use super::block::{INDENT, indented};
use crate::tui::diff::prefix;
use crate::tui::markdown::{coming_in, markdown};
use crate::tui::text::{Wrap, clean, clean_line, cut};
use crate::tui::theme::Tone;
use crate::tui::view_model::{ViewModel, spinner};

/// Bytes of a stream that are laid out again with each piece; what is above stays as it was made.
const SETTLED_AFTER: usize = 2 * 1024;

/// The settled beginnings of streamed answers.
pub(super) type Streams = std::collections::BTreeMap<CallId, Stream>;

/// The lines of the beginning of an answer, up to a place where a new block of Markdown begins.
#[derive(Debug, Default)]
pub(super) struct Stream {
    key: (u32, u64, usize),
    /// Bytes of the text that the lines stand for.
    settled: usize,
    lines: Vec<Line<'static>>,
}

/// The lines of everything that runs for one spark, or for all.
pub(super) fn lines(
    scene: &ViewModel<'_>,
    focus: Option<SparkId>,
    width: usize,
    streams: &mut Streams,
) -> Vec<Line<'static>> {
    let mut out = Vec::new();
    let board = &scene.moment.board;
    let many = scene.has_voices();
    let mut live = Vec::new();
    for row in board.sparks.iter().filter(|row| focus.is_none_or(|focus| focus == row.spark)) {
        for (call, open) in board.doing(Some(row.spark)) {
            if !matches!(open.order, Order::Model(_) | Order::Timer(_) | Order::Check(_)) {
                continue;
            }
            live.push(call);
            out.push(Line::default());
            if many {
                out.push(Line::styled(format!("  {}", clean_line(&row.role)), scene.style(Tone::Accent)));
            }
            out.extend(call_lines(scene, call, open, width, streams));
        }
    }
    streams.retain(|call, _| live.contains(call));
    out
}

fn call_lines(
    scene: &ViewModel<'_>,
    call: CallId,
    open: &OpenCall,
    width: usize,
    streams: &mut Streams,
) -> Vec<Line<'static>> {
    let board = &scene.moment.board;
    let mut out = Vec::new();
    if let Some(partial) = board.partial(call, Lane::Text).filter(|partial| !partial.text.trim().is_empty()) {
        if is_typed(&partial.text) {
            // What programs read is laid out once it is whole.
            let text = format!("{} writing its answer · {}", spinner(scene.beat), scene.elapsed(open.since));
            out.push(Line::styled(cut(&text, width), scene.style(Tone::Quiet)));
            return out;
        }
        let stream = streams.entry(call).or_default();
        let key = (partial.attempt, partial.from, width);
        out.extend(stream.lines(scene, &partial.text, key));
    } else if let Some(partial) = board.partial(call, Lane::Reasoning) {
        out.extend(thinking(scene, &partial.text, width));
    }
    if !out.is_empty() {
        out.push(Line::default());
    }
    out.extend(status(scene, (call, open), width));
    out
}

/// What a call does, and for how long.
fn status(scene: &ViewModel<'_>, (call, open): (CallId, &OpenCall), width: usize) -> Option<Line<'static>> {
    let said = clean_line(&scene.moment.board.say(call, open));
    if scene.is_left {
        let text = format!("■ left open while {said}");
        return Some(Line::from(Span::styled(cut(&text, width), scene.style(Tone::Warn))));
    }
    let text = format!("{} {said} · {}", spinner(scene.beat), scene.elapsed(open.since));
    Some(Line::from(Span::styled(cut(&text, width), scene.style(Tone::Quiet))))
}

/// An answer that programs read: its text is laid out once it is whole.
fn is_typed(text: &str) -> bool {
    text.trim_start().trim_start_matches("```json").trim_start().starts_with('{')
}

/// The last lines of thinking under way.
fn thinking(scene: &ViewModel<'_>, text: &str, width: usize) -> Vec<Line<'static>> {
    let from = text.ceil_char_boundary(text.len().saturating_sub(600));
    let mut lines = Vec::new();
    let wrap = Wrap::to(width).barred(prefix(scene.theme, Tone::Quiet, "  ┊ "));
    wrap.text(scene.style(Tone::Quiet), clean(&text[from..]).trim(), &mut lines);
    lines[lines.len().saturating_sub(3)..].to_vec()
}

impl Stream {
    fn lines(&mut self, scene: &ViewModel<'_>, text: &str, key: (u32, u64, usize)) -> Vec<Line<'static>> {
        let width = key.2.saturating_sub(INDENT);
        if self.key != key || self.settled > text.len() {
            *self = Stream { key, ..Stream::default() };
        }
        if text.len() - self.settled > SETTLED_AFTER
            && let Some(end) = boundary(&text[self.settled..])
        {
            let part = &text[self.settled..self.settled + end];
            self.lines.extend(indented(markdown(scene.theme, &clean(part), width)));
            self.lines.push(Line::default());
            self.settled += end;
        }
        let mut out = self.lines.clone();
        out.extend(indented(coming_in(scene.theme, &clean(&text[self.settled..]), width)));
        out
    }
}

/// The last place where a new paragraph begins outside of lists, quotes and code.
fn boundary(text: &str) -> Option<usize> {
    let (mut at, mut found, mut fenced, mut blank) = (0, None, false, false);
    for line in text.split_inclusive('\n') {
        if blank && !fenced && line.starts_with(|c: char| c.is_alphabetic() || c == '#') {
            found = Some(at);
        }
        if line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~") {
            fenced = !fenced;
        }
        blank = line.trim().is_empty();
        at += line.len();
    }
    found.filter(|at| *at > 0)
}
