//! One item of the story as lines: who speaks, what happened, how it ended; looks up bodies, keeps none.

use std::borrow::Cow;

use ratatui::text::{Line, Span};

use crate::projection::calls::target;
use crate::projection::transcript::{Item, ItemKind};
use crate::projection::{phrases, typed};
use crate::protocol::event::{ArenaEvent, Notice, PauseCause, ToolUse, TurnCause};
use crate::protocol::message::Part;
use crate::protocol::spec::Mode;
use crate::protocol::{CallId, Choice, EventRef, StopCause, ballot};

use crate::tui::diff;
use crate::tui::markdown::markdown;
use crate::tui::text::{Wrap, bare, clean, clean_line, cut};
use crate::tui::theme::Tone;
use crate::tui::view_model::ViewModel;

/// Cells before everything that is said.
pub(super) const INDENT: usize = 2;

/// Lines of a block that is not opened.
const FOLDED: usize = 12;

/// Entries in which it is looked for whether something was read.
const FARTHEST: u64 = 512;

/// What an item is laid out with.
pub(super) struct Page<'a> {
    pub scene: &'a ViewModel<'a>,
    pub width: usize,
    /// Everything is shown whole.
    pub is_open: bool,
    /// The item above.
    pub before: Option<&'a Item>,
}

/// True when the item will look the same from now on.
pub(super) fn is_final(scene: &ViewModel<'_>, item: &Item) -> bool {
    match item.kind {
        ItemKind::ToolCall { end, .. } => scene.known(end).is_some(),
        ItemKind::Approval { call, answer, .. } => scene.known(answer).is_some() || !is_open(scene, call),
        ItemKind::Steering => is_read(scene, item),
        _ => !scene.is_sealed(item),
    }
}

/// True while an ask waits for its answer.
fn is_open(scene: &ViewModel<'_>, call: CallId) -> bool {
    scene.moment.board.approvals.iter().any(|open| open.call == call)
}

/// True once a model was shown what was said to it.
fn is_read(scene: &ViewModel<'_>, item: &Item) -> bool {
    let last = scene.cut.or(scene.record.last()).unwrap_or(0).min(item.source.seq + FARTHEST);
    let shows = |event: &ArenaEvent| match event {
        ArenaEvent::ModelCalled(data) => data.parts.add.iter().any(|part| part.from == item.source),
        _ => false,
    };
    let entries = (item.source.seq..=last).filter_map(|seq| scene.record.entry(seq));
    entries.into_iter().any(|entry| entry.events.iter().any(shows))
}

/// True when the item has lines of its own: results are part of their call, a good end needs no words, and nobody needs
/// to hear that nothing changed.
pub(super) fn is_shown(scene: &ViewModel<'_>, item: &Item) -> bool {
    match item.kind {
        ItemKind::ToolResult { .. }
        | ItemKind::Refused { .. }
        | ItemKind::Answered { .. }
        | ItemKind::Lost { tool_use: Some(_) }
        | ItemKind::SparkEnd(TurnCause::Done | TurnCause::Interrupted)
        | ItemKind::Sealed(StopCause::Finished) => false,
        ItemKind::Diff => match scene.event(item.source) {
            Some(ArenaEvent::DiffTaken(data)) => !data.body.files.is_empty(),
            _ => true,
        },
        // What is asked of each of a debate's voices is the same every time, and the phase says which it is.
        ItemKind::Notice(Notice::Brief) => !matches!(scene.moment.board.mode, Some(Mode::Debate(_))),
        // A copy of a session whose turn was over is left as well: nothing is paused in it.
        ItemKind::Paused(PauseCause::Quit) => was_at_work(scene, item),
        _ => true,
    }
}

/// True where a turn was open.
fn was_at_work(scene: &ViewModel<'_>, item: &Item) -> bool {
    let seq = item.source.seq;
    let entries = (seq.saturating_sub(FARTHEST)..=seq).rev().filter_map(|seq| scene.record.entry(seq));
    let opened = |event: &ArenaEvent| match event {
        ArenaEvent::TurnOpened(_) => Some(true),
        ArenaEvent::TurnClosed(_) | ArenaEvent::SessionSealed(_) | ArenaEvent::SessionOpened(_) => {
            Some(false)
        }
        _ => None,
    };
    entries.into_iter().find_map(|entry| entry.events.iter().rev().find_map(opened)).unwrap_or(true)
}

impl Page<'_> {
    /// The item's lines, a blank one first where it stands apart.
    pub fn lines(&self, item: &Item) -> Vec<Line<'static>> {
        let mut out = Vec::new();
        if !is_shown(self.scene, item) {
            return out;
        }
        let body = self.body(item);
        if body.is_empty() {
            return out;
        }
        if self.stands_apart(item) {
            out.push(Line::default());
        }
        if let Some(name) = self.name(item) {
            out.push(Line::from(Span::styled(format!("  {name}"), self.scene.style(Tone::Accent))));
        }
        out.extend(body);
        match self.scene.moment.struck.covers(item.source.seq) {
            true => out.into_iter().map(|line| self.struck(line)).collect(),
            false => out,
        }
    }

    /// Tool calls in a row stay together; everything else gets room.
    fn stands_apart(&self, item: &Item) -> bool {
        let is_small = |item: &Item| {
            matches!(
                item.kind,
                ItemKind::ToolCall { .. }
                    | ItemKind::Approval { .. }
                    | ItemKind::Thinking { .. }
                    | ItemKind::Mention
                    | ItemKind::Undone
                    | ItemKind::Settings
                    | ItemKind::Step
            )
        };
        match self.before {
            None => false,
            // A step says what an answer came to: it belongs beneath it.
            Some(before) if item.kind == ItemKind::Step && matches!(before.kind, ItemKind::Answer { .. }) => {
                before.spark != item.spark
            }
            // Attempts of one call stay together, and so does what they came to.
            Some(before) if matches!(before.kind, ItemKind::Failure(_)) => {
                let goes_on = matches!(item.kind, ItemKind::Failure(_) | ItemKind::SparkEnd(_));
                !goes_on || before.spark != item.spark
            }
            Some(before) => !(is_small(before) && is_small(item)) || before.spark != item.spark,
        }
    }

    /// The spark's name, where several speak and another one begins.
    fn name(&self, item: &Item) -> Option<String> {
        let spark = item.spark.filter(|_| self.scene.has_voices())?;
        let same = self.before.is_some_and(|before| before.spark == item.spark);
        (!same).then(|| self.scene.name(spark))
    }

    fn body(&self, item: &Item) -> Vec<Line<'static>> {
        if self.scene.is_sealed(item) {
            return match item.kind {
                ItemKind::Answer { .. } | ItemKind::CutAnswer => {
                    self.remark(Tone::Quiet, "▪ ", "answered, sealed until every ballot is in")
                }
                _ => Vec::new(),
            };
        }
        match item.kind {
            ItemKind::Prompt => [self.said(item, "❯ ", Tone::Strong), self.settings(item)].concat(),
            ItemKind::Steering => self.steering(item),
            ItemKind::Settings => self.settings(item),
            ItemKind::Resumed | ItemKind::Forked => [self.small(item), self.settings(item)].concat(),
            ItemKind::Answer { .. } => self.answer(item),
            ItemKind::CutAnswer => {
                let mut lines = self.answer(item);
                lines.extend(self.remark(Tone::Warn, "✂ ", "cut off here"));
                lines
            }
            ItemKind::Thinking { .. } => self.thinking(item),
            ItemKind::ToolCall { part, end } => self.tool_call(item, part, self.scene.known(end)),
            ItemKind::Approval { answer, .. } => self.approval(item, self.scene.known(answer)),
            ItemKind::Check { passed } => self.check(item, passed),
            ItemKind::Diff => self.diff(item),
            ItemKind::Failure(kind) => self.failure(item, phrases::error_kind(kind)),
            ItemKind::End { cause, work_ms } => self.turn_end(cause, work_ms),
            ItemKind::Step => self.step(item),
            _ => self.small(item),
        }
    }

    /// Things that take one line.
    fn small(&self, item: &Item) -> Vec<Line<'static>> {
        let body = || clean_line(&self.text(item));
        match item.kind {
            ItemKind::Interrupt => self.remark(Tone::Warn, "■ ", "interrupted"),
            ItemKind::Lost { .. } => self.wrapped(Tone::Warn, "? ", &body()),
            // What a model is asked to sum up is for the model.
            ItemKind::Notice(Notice::Compacted) if !self.is_open => Vec::new(),
            ItemKind::Notice(notice) => {
                let text = self.text(item);
                // Folded, a brief is its first sentence: the rest only its model needs.
                let text = match notice {
                    Notice::Brief if !self.is_open => first_sentence(&text),
                    _ => &text,
                };
                let text = format!("agon: {}: {}", phrases::notice(notice), clean_line(text));
                self.wrapped(Tone::Quiet, "∙ ", &text)
            }
            ItemKind::Rejected => self.wrapped(Tone::Warn, "! ", &format!("answer does not fit: {}", body())),
            ItemKind::OtherModel => self.wrapped(Tone::Warn, "↷ ", &body()),
            ItemKind::Dropped => self.wrapped(Tone::Quiet, "↷ ", &body()),
            ItemKind::Fallback => self.remark(Tone::Warn, "↷ ", "another model takes over"),
            ItemKind::Limit(_) => self.wrapped(Tone::Warn, "■ ", &self.limit(item)),
            ItemKind::Mention => self.remark(Tone::Quiet, "∙ ", &format!("read {}", body())),
            ItemKind::Undone => self.wrapped(Tone::Warn, "! ", &body()),
            ItemKind::Compacted => {
                let mut out = self.remark(Tone::Quiet, "∙ ", "earlier conversation summarised (o shows it)");
                if self.is_open {
                    out.extend(self.output(&self.text(item)));
                }
                out
            }
            ItemKind::Phase => self.heading(&phrases::spaced(&body())),
            ItemKind::CacheHit => {
                self.remark(Tone::Good, "↺ ", &format!("a recorded run was found: {}", body()))
            }
            ItemKind::SparkEnd(cause) => {
                self.remark(Tone::Warn, "■ ", &format!("ended: {}", phrases::turn_cause(cause)))
            }
            ItemKind::Paused(cause) => {
                self.remark(Tone::Quiet, "∙ ", &format!("paused: {}", phrases::pause_cause(cause)))
            }
            ItemKind::Resumed => self.remark(Tone::Quiet, "∙ ", &format!("resumed, {}", when(item.at))),
            ItemKind::Forked => self.remark(Tone::Quiet, "∙ ", &self.fork(item)),
            ItemKind::Rewound => self.wrapped(Tone::Accent, "↶ ", &body()),
            ItemKind::Recovered => self.remark(Tone::Warn, "! ", "a torn end of the log was set aside"),
            ItemKind::Sealed(cause) => {
                self.remark(Tone::Quiet, "∙ ", &format!("ended: {}", phrases::stop_cause(cause)))
            }
            ItemKind::Unknown => self.remark(Tone::Quiet, "∙ ", &format!("{} (of a newer agon)", body())),
            _ => Vec::new(),
        }
    }

    fn text(&self, item: &Item) -> String {
        item.body(&|at| self.scene.event(at)).map(Cow::into_owned).unwrap_or_default()
    }

    fn said(&self, item: &Item, mark: &str, tone: Tone) -> Vec<Line<'static>> {
        let mut out = Vec::new();
        let wrap = Wrap::to(self.width).with(
            diff::prefix(self.scene.theme, Tone::Accent, mark),
            diff::prefix(self.scene.theme, Tone::Text, "  "),
        );
        wrap.text(self.scene.style(tone), clean(&self.text(item)).trim(), &mut out);
        self.fold(out)
    }

    /// What was said to somebody at work, and whether a model has read it.
    fn steering(&self, item: &Item) -> Vec<Line<'static>> {
        let mut out = self.said(item, "❯ ", Tone::Text);
        if !is_read(self.scene, item) {
            out.extend(self.remark(Tone::Quiet, "  └ ", "not read yet"));
        }
        out
    }

    fn answer(&self, item: &Item) -> Vec<Line<'static>> {
        let text = self.text(item);
        let text = typed::readable(&text, &self.propositions(item)).unwrap_or(text);
        indented(markdown(self.scene.theme, &clean(text.trim()), self.width.saturating_sub(INDENT)))
    }

    /// What is in dispute in the debate an item belongs to; nothing before it is stated.
    fn propositions(&self, item: &Item) -> Vec<String> {
        let stated = &self.scene.moment.matrix.stated;
        match stated.iter().all(|at| at.seq < item.source.seq) {
            true => ballot::propositions(stated, &|at| self.scene.event(at)),
            false => Vec::new(),
        }
    }

    fn thinking(&self, item: &Item) -> Vec<Line<'static>> {
        let text = self.text(item);
        if text.trim().is_empty() {
            return Vec::new();
        }
        if !self.is_open {
            return self.remark(Tone::Quiet, "∙ ", &format!("thought: {}", clean_line(text.trim())));
        }
        let mut out = Vec::new();
        let wrap = Wrap::to(self.width).barred(diff::prefix(self.scene.theme, Tone::Quiet, "  ┊ "));
        wrap.text(self.scene.style(Tone::Quiet), clean(&text).trim(), &mut out);
        out
    }

    fn approval(&self, item: &Item, answer: Option<EventRef>) -> Vec<Line<'static>> {
        let of = self.asked_about(item);
        let Some(ArenaEvent::ApprovalAnswered(data)) = answer.and_then(|at| self.scene.event(at)) else {
            let waits = matches!(item.kind, ItemKind::Approval { call, .. } if is_open(self.scene, call));
            let (tone, word) = match waits {
                true => (Tone::Warn, "waits for your answer"),
                false => (Tone::Quiet, "asked no longer"),
            };
            return self.remark(tone, "  └ ", &format!("{of}{word}"));
        };
        let said = match &data.choice {
            Choice::Rule(rule) => clean_line(&rule.name),
            choice => format!("{} by {}", phrases::choice(choice), clean_line(&data.by)),
        };
        self.remark(Tone::Quiet, "  └ ", &format!("{of}{said}"))
    }

    /// The call an approval is for, where it is not the one right above.
    fn asked_about(&self, item: &Item) -> String {
        let Some(ArenaEvent::ApprovalRequested(asked)) = self.scene.event(item.source) else {
            return String::new();
        };
        let ToolUse { answer, part } = asked.tool_use;
        let is_above = self.before.is_some_and(|before| {
            before.source == answer
                && matches!(before.kind, ItemKind::ToolCall { part: of, .. } if of == part)
        });
        let call = match self.scene.event(answer) {
            Some(ArenaEvent::ModelAnswered(data)) => data.body.message.get(usize::from(part)),
            _ => None,
        };
        match call {
            Some(Part::Call { name, args, .. }) if !is_above => {
                format!("{} {}: ", clean_line(name), cut(&clean_line(&target(args)), 40))
            }
            _ => String::new(),
        }
    }

    fn check(&self, item: &Item, passed: bool) -> Vec<Line<'static>> {
        let Some(ArenaEvent::CheckRan(data)) = self.scene.event(item.source) else { return Vec::new() };
        let exit = data.body.exit.map_or("killed".to_owned(), |exit| format!("exit {exit}"));
        let (tone, mark) = if passed { (Tone::Good, "✓ ") } else { (Tone::Bad, "✗ ") };
        let end = format!("{exit} · {}", phrases::duration(data.body.ms));
        let mut out = vec![self.headline(tone, mark, "check", &clean_line(&data.body.command), &end)];
        if !passed || self.is_open {
            out.extend(self.output(&data.body.output));
        }
        out.extend(self.told(&data.body.notes));
        out
    }

    fn diff(&self, item: &Item) -> Vec<Line<'static>> {
        let Some(ArenaEvent::DiffTaken(data)) = self.scene.event(item.source) else { return Vec::new() };
        let count = data.body.files.len() as u64;
        let mut out =
            self.remark(Tone::Accent, "± ", &format!("{} changed", phrases::counted(count, "file")));
        out.extend(self.changes(&data.body.diff));
        out
    }

    fn failure(&self, item: &Item, kind: &str) -> Vec<Line<'static>> {
        let mut out = Vec::new();
        let is_again = |before: &&Item| {
            matches!(before.kind, ItemKind::Failure(_)) && self.text(before) == self.text(item)
        };
        if self.before.filter(is_again).is_some() {
            return self.remark(Tone::Bad, "✗ ", &format!("{kind}, with the same words"));
        }
        let wrap = Wrap::to(self.width).with(
            diff::prefix(self.scene.theme, Tone::Bad, "✗ "),
            diff::prefix(self.scene.theme, Tone::Text, "  "),
        );
        wrap.text(self.scene.style(Tone::Bad), &format!("{kind}: {}", clean(&self.text(item))), &mut out);
        out
    }

    /// A rule with how the turn went, and how long it was at work.
    fn turn_end(&self, cause: TurnCause, work_ms: u64) -> Vec<Line<'static>> {
        let tone = if cause == TurnCause::Done { Tone::Quiet } else { Tone::Warn };
        let text = format!("{} · {}", phrases::turn_cause(cause), phrases::duration(work_ms));
        let rule = "─".repeat(self.width.saturating_sub(text.chars().count() + 6));
        vec![Line::styled(format!("  ── {text} {rule}"), self.scene.style(tone))]
    }

    fn heading(&self, text: &str) -> Vec<Line<'static>> {
        vec![Line::styled(format!("  ▌ {text}"), self.scene.style(Tone::Accent))]
    }

    fn limit(&self, item: &Item) -> String {
        match self.scene.event(item.source) {
            Some(ArenaEvent::LimitReached(data)) => phrases::limit(data.limit, data.used, data.max),
            _ => String::new(),
        }
    }

    fn fork(&self, item: &Item) -> String {
        match self.scene.event(item.source) {
            Some(ArenaEvent::SessionForked(data)) => {
                let parent = cut(&clean_line(&data.parent), 13);
                let change = data.change.as_deref().map(|c| format!(", with {}", clean_line(c)));
                format!("forked from {parent} at e{}{}", data.seq, change.unwrap_or_default())
            }
            _ => "forked".to_owned(),
        }
    }

    /// What explains something, whole, over as many lines as it needs; folded when it is very long.
    pub fn wrapped(&self, tone: Tone, mark: &str, text: &str) -> Vec<Line<'static>> {
        let rest = " ".repeat(crate::tui::text::width(mark));
        let wrap = Wrap::to(self.width)
            .with(diff::prefix(self.scene.theme, tone, mark), diff::prefix(self.scene.theme, tone, &rest));
        let mut out = Vec::new();
        wrap.line(&[(self.scene.style(tone), text)], &mut out);
        self.fold(out)
    }

    /// One line, cut at the edge.
    pub fn remark(&self, tone: Tone, mark: &str, text: &str) -> Vec<Line<'static>> {
        let line = format!("{mark}{text}");
        vec![Line::styled(cut(&line, self.width), self.scene.style(tone))]
    }

    /// What agon itself has to tell of a call, whole.
    pub fn told(&self, lines: &[String]) -> Vec<Line<'static>> {
        lines.iter().flat_map(|line| self.wrapped(Tone::Warn, "! ", &clean_line(line))).collect()
    }

    /// Output of a command: its beginning and its end.
    pub fn output(&self, text: &str) -> Vec<Line<'static>> {
        let text = clean(text.trim_end());
        let mut out = Vec::new();
        let wrap =
            Wrap::to(self.width).barred(diff::prefix(self.scene.theme, Tone::Quiet, "  │ ")).anywhere();
        wrap.text(self.scene.style(Tone::Text), &text, &mut out);
        self.fold(out)
    }

    /// A diff, folded when it is long.
    pub fn changes(&self, text: &str) -> Vec<Line<'static>> {
        let mut out = Vec::new();
        let wrap =
            Wrap::to(self.width).barred(diff::prefix(self.scene.theme, Tone::Quiet, "  │ ")).anywhere();
        // As it was shown to whoever allowed it: nothing dropped.
        diff::diff(self.scene.theme, &bare(text.trim_end()), &wrap, &mut out);
        self.fold(out)
    }

    fn fold(&self, mut lines: Vec<Line<'static>>) -> Vec<Line<'static>> {
        if self.is_open || lines.len() <= FOLDED {
            return lines;
        }
        let gone = lines.len() - (FOLDED - 1);
        let (head, tail) = (FOLDED / 2, FOLDED / 2 - 1);
        let note = format!("  ⋮ {} more (o opens)", phrases::counted(gone as u64, "line"));
        let rest = lines.split_off(lines.len() - tail);
        lines.truncate(head);
        lines.push(Line::styled(note, self.scene.style(Tone::Quiet)));
        lines.extend(rest);
        lines
    }

    /// `● name what          how it ended`, the end at the right edge.
    pub fn headline(&self, tone: Tone, mark: &str, name: &str, what: &str, end: &str) -> Line<'static> {
        use crate::tui::text::width;
        let room = self.width.saturating_sub(width(mark) + width(name) + 1 + width(end) + 2);
        let what = cut(what, room);
        let gap = " ".repeat(room.saturating_sub(width(&what)) + 2);
        Line::from(vec![
            Span::styled(mark.to_owned(), self.scene.style(tone)),
            Span::styled(name.to_owned(), self.scene.style(Tone::Strong)),
            Span::raw(format!(" {what}{gap}")),
            Span::styled(
                end.to_owned(),
                self.scene.style(if tone == Tone::Bad { tone } else { Tone::Quiet }),
            ),
        ])
    }
}

/// Lines moved to the right.
pub(super) fn indented(lines: Vec<Line<'static>>) -> Vec<Line<'static>> {
    let shift = |mut line: Line<'static>| {
        line.spans.insert(0, Span::raw(" ".repeat(INDENT)));
        line
    };
    lines.into_iter().map(shift).collect()
}

fn when(at: u64) -> String {
    format!("{} UTC", phrases::time_of_day(at))
}

/// The start of a brief.
fn first_sentence(text: &str) -> &str {
    let line = text.trim_start().lines().next().unwrap_or_default();
    line.split_inclusive(". ").next().unwrap_or_default().trim_end()
}
