//! Tool calls and the steps of squads and debates as lines: asked, allowed, running, ended; runs nothing.

use ratatui::text::Line;

use crate::projection::board::SparkRow;
use crate::projection::calls::target;
use crate::projection::changes::is_diff;
use crate::projection::telling::{Body, Kind, Telling};
use crate::projection::transcript::Item;
use crate::protocol::effect::Order;
use crate::protocol::event::{ArenaEvent, ToolUse};
use crate::protocol::message::Part;
use crate::protocol::{EventRef, Lane};

use super::block::{Page, look, mark};
use crate::tui::text::{bare_line, clean, clean_line};
use crate::tui::theme::Tone;
use crate::tui::view_model::spinner;

/// Lines of live output that are shown.
const LIVE_LINES: usize = 8;

impl Page<'_> {
    pub(super) fn tool_call(&self, item: &Item, part: u16, end: Option<EventRef>) -> Vec<Line<'static>> {
        let tool_use = ToolUse { answer: item.source, part };
        let Some(ArenaEvent::ModelAnswered(answer)) = self.scene.event(item.source) else {
            return Vec::new();
        };
        let Some(Part::Call { name, args, .. }) = answer.body.message.get(usize::from(part)) else {
            return Vec::new();
        };
        let (name, what) = (bare_line(name), bare_line(&target(args)));
        let Some(end) = end else { return self.open_call(tool_use, &name, &what) };
        let mut out = self.told(end, |one| self.ended((tool_use, end), &name, &what, one));
        out.extend(self.notes(self.scene.event(end)));
        out
    }

    fn ended(
        &self,
        (tool_use, end): (ToolUse, EventRef),
        name: &str,
        what: &str,
        one: &Telling<'_>,
    ) -> Vec<Line<'static>> {
        let mut out = vec![self.headline(look(one.tone), &mark(one), name, what, &one.end)];
        let preview = self.preview(tool_use).filter(|preview| one.kind == Kind::Result && is_diff(preview));
        if let Some(preview) = preview {
            out.extend(self.changes(preview));
        } else if !one.is_folded || self.is_open {
            let notes = self.scene.event(end).map(ArenaEvent::told).unwrap_or_default();
            out.extend(match &one.body {
                Body::Rows(rows) => self.output(rows),
                body => self.output(&without_status(body.text(), notes)),
            });
        }
        out
    }

    /// The diff or command that was looked at before it was allowed.
    fn preview(&self, tool_use: ToolUse) -> Option<&str> {
        let prepared = self.scene.record.reasons(tool_use.answer.seq).audit(tool_use)?.prepared?;
        Some(&self.scene.event(prepared)?.plan()?.preview)
    }

    fn open_call(&self, tool_use: ToolUse, name: &str, what: &str) -> Vec<Line<'static>> {
        let board = &self.scene.moment.board;
        let rows = board.sparks.iter().flat_map(|row| board.doing(Some(row.spark)));
        let open = rows.into_iter().find_map(|(call, open)| match &open.order {
            Order::Tool(of) if of.tool_use == tool_use => Some((call, open, "running")),
            Order::Ask(of) if of.tool_use == tool_use => Some((call, open, "asks")),
            Order::Gate(of) if of.tool_use == tool_use => Some((call, open, "waits for a gate")),
            Order::Question(of) if of.tool_use == tool_use => Some((call, open, "asks you")),
            Order::Prepare(of) if of.tool_use == tool_use => Some((call, open, "looks first")),
            _ => None,
        });
        let works = |row: &&SparkRow| row.delegated.as_ref().is_some_and(|of| of.tool_use == tool_use);
        if let Some(row) = board.sparks.iter().find(works).filter(|_| !self.scene.is_left) {
            let end = format!("{} · {}", clean_line(&row.role), self.scene.elapsed(row.started));
            let mark = format!("{} ", spinner(self.scene.beat));
            return vec![self.headline(Tone::Accent, &mark, name, what, &end)];
        }
        let Some((call, open, word)) = open else {
            return vec![self.headline(Tone::Quiet, "○ ", name, what, "waits")];
        };
        let (end, mark) = match (self.scene.is_left, word) {
            (true, _) => ("left open".to_owned(), "■ ".to_owned()),
            (false, "asks" | "asks you") => {
                (format!("{word} · {}", self.scene.elapsed(open.since)), "? ".to_owned())
            }
            (false, _) => {
                let end = format!("{word} · {}", self.scene.elapsed(open.since));
                (end, format!("{} ", spinner(self.scene.beat)))
            }
        };
        let mark = mark.as_str();
        let mut out = vec![self.headline(Tone::Warn, mark, name, what, &end)];
        if let Some(question) = board.questions().find(|question| question.call == call) {
            let lines = question.asked.lines().collect::<Vec<_>>().join("\n");
            out.extend(self.output(&clean(&lines)));
        }
        for lane in [Lane::Stdout, Lane::Stderr] {
            if let Some(partial) = board.partial(call, lane) {
                out.extend(self.tail(&partial.text));
            }
        }
        out
    }

    /// The newest lines of what a running command wrote.
    fn tail(&self, text: &str) -> Vec<Line<'static>> {
        let from = text.trim_end().rmatch_indices('\n').nth(LIVE_LINES - 1).map_or(0, |(at, _)| at + 1);
        let newest = &text[from..];
        let from = newest.ceil_char_boundary(newest.len().saturating_sub(4 * 1024));
        let lines = self.output(&clean(&newest[from..]));
        lines[lines.len().saturating_sub(LIVE_LINES)..].to_vec()
    }
}

/// A command's output without what only its model needs: exit code, agon's notes, which have lines of their own, and which
/// stream when only one spoke.
fn without_status(content: &str, notes: &[String]) -> String {
    let mut rest = content
        .split_once('\n')
        .filter(|(first, _)| first.starts_with("exit code "))
        .map_or(content, |(_, rest)| rest);
    let mut hints = String::new();
    while let Some((line, below)) = rest.split_once('\n').filter(|(line, _)| line.starts_with("[agon: ")) {
        if !notes.iter().any(|note| line == format!("[agon: {note}]")) {
            hints.push_str(&format!("{line}\n"));
        }
        rest = below;
    }
    let only = rest
        .trim_end()
        .strip_suffix("stderr: (empty)")
        .map(|only| only.strip_prefix("stdout:\n").unwrap_or(only));
    hints + only.unwrap_or(rest)
}
