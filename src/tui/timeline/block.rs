//! One item of the story as lines: lays tellings out, and what a person and a model said; looks up bodies, keeps none.

use std::borrow::Cow;

use ratatui::text::{Line, Span};

use crate::projection::calls::target;
use crate::projection::telling::{self, Body, Kind, Scene, Spoken, Telling, Weight};
use crate::projection::transcript::{Item, ItemKind};
use crate::projection::{phrases, typed};
use crate::protocol::event::{ArenaEvent, Family, Notice, Plan, ToolUse};
use crate::protocol::message::Part;
use crate::protocol::{CallId, EventRef, ballot};

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
        ItemKind::Event if matches!(scene.event(item.source), Some(ArenaEvent::SteeringGiven(_))) => {
            is_read(scene, item)
        }
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

/// False for what is asked of each of a debate's voices: it is the same every time, and the phase says which it is.
pub(super) fn is_shown(scene: &ViewModel<'_>, item: &Item) -> bool {
    let brief = matches!(scene.event(item.source), Some(ArenaEvent::NoticeGiven(data)) if data.notice == Notice::Brief);
    !brief || scene.debate_at(item.at).is_none()
}

/// What a telling's tone looks like here.
pub(super) fn look(tone: telling::Tone) -> Tone {
    match tone {
        telling::Tone::Plain | telling::Tone::Quiet => Tone::Quiet,
        telling::Tone::Strong | telling::Tone::Tool => Tone::Accent,
        telling::Tone::Good => Tone::Good,
        telling::Tone::Bad => Tone::Bad,
        telling::Tone::Warn => Tone::Warn,
    }
}

/// What begins a telling here; a cross where it went wrong and its mark says that it did not.
pub(super) fn mark(one: &Telling<'_>) -> String {
    match (one.kind.mark(), one.tone) {
        ('✓' | '●', telling::Tone::Bad) | ('✓', telling::Tone::Warn) => "✗ ".to_owned(),
        (mark, _) => format!("{mark} "),
    }
}

impl<'a> Page<'a> {
    /// The item's lines, a blank one first where it stands apart.
    pub fn lines(&self, item: &Item) -> Vec<Line<'static>> {
        let mut out = Vec::new();
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

    /// A line that was taken back.
    fn struck(&self, line: Line<'static>) -> Line<'static> {
        let style = self.scene.style(Tone::Struck).patch(self.scene.style(Tone::Quiet));
        line.into_iter().map(|span| Span::styled(span.content, style)).collect()
    }

    /// The event of an item that is nothing but its event.
    fn event(&self, item: &Item) -> Option<&'a ArenaEvent> {
        self.scene.event(item.source).filter(|_| item.kind == ItemKind::Event)
    }

    /// True for a step of a squad or a debate.
    fn is_step(&self, item: &Item) -> bool {
        self.event(item).is_some_and(|event| matches!(event.family(), Family::Squad | Family::Debate))
    }

    /// Tool calls in a row stay together; everything else gets room.
    fn stands_apart(&self, item: &Item) -> bool {
        use ArenaEvent as E;
        let is_small = |item: &Item| match (item.kind, self.event(item)) {
            (ItemKind::ToolCall { .. } | ItemKind::Approval { .. } | ItemKind::Thinking { .. }, _) => true,
            (_, Some(E::MentionExpanded(_) | E::EffectFailed(_) | E::SettingsChanged(_))) => true,
            _ => self.is_step(item),
        };
        let Some(before) = self.before else { return false };
        let is_same = before.spark == item.spark;
        match (before.kind, self.event(before), self.event(item)) {
            // A step says what an answer came to: it belongs beneath it.
            (ItemKind::Answer { .. }, _, Some(_)) if self.is_step(item) => !is_same,
            // Attempts of one call stay together, and so does what they came to.
            (_, Some(E::ModelFailed(_)), after) => {
                !(is_same && matches!(after, Some(E::ModelFailed(_) | E::SparkCompleted(_))))
            }
            _ => !(is_same && is_small(before) && is_small(item)),
        }
    }

    /// The spark's name, where several speak and another one begins.
    fn name(&self, item: &Item) -> Option<String> {
        let spark = item.spark.filter(|_| self.scene.has_voices())?;
        let same = self.before.is_some_and(|before| before.spark == item.spark);
        (!same).then(|| self.scene.name(spark))
    }

    fn body(&self, item: &Item) -> Vec<Line<'static>> {
        match item.kind {
            ItemKind::Answer { .. } | ItemKind::CutAnswer if self.scene.is_sealed(item) => {
                self.remark(Tone::Quiet, "▪ ", "answered, sealed until every ballot is in")
            }
            ItemKind::Thinking { .. } if self.scene.is_sealed(item) => Vec::new(),
            ItemKind::Answer { .. } => self.answer(item, &self.text(item)),
            ItemKind::CutAnswer => {
                let mut lines = self.answer(item, &self.text(item));
                lines.extend(self.remark(Tone::Warn, "✂ ", "cut off here"));
                lines
            }
            ItemKind::OtherModel => self.wrapped(Tone::Warn, "↷ ", &clean_line(&self.text(item))),
            ItemKind::Thinking { .. } => self.thinking(item),
            ItemKind::ToolCall { part, end } => self.tool_call(item, part, self.scene.known(end)),
            ItemKind::Approval { answer, .. } => self.approval(item, self.scene.known(answer)),
            ItemKind::End { work_ms } => self.told(item.source, |one| self.turn_end(one, work_ms)),
            ItemKind::Resumed { left } => self.told_of((item.source, left), |one| self.telling(item, one)),
            ItemKind::Prompt | ItemKind::Event => self.told(item.source, |one| self.telling(item, one)),
        }
    }

    fn text(&self, item: &Item) -> String {
        item.body(&|at| self.scene.event(at)).map(Cow::into_owned).unwrap_or_default()
    }

    /// The tellings of an event, each laid out.
    pub fn told(
        &self,
        at: EventRef,
        lay_out: impl FnMut(&Telling<'_>) -> Vec<Line<'static>>,
    ) -> Vec<Line<'static>> {
        self.told_of((at, None), lay_out)
    }

    /// The same of a resume, with what was under way.
    fn told_of(
        &self,
        (at, left): (EventRef, Option<(EventRef, usize)>),
        lay_out: impl FnMut(&Telling<'_>) -> Vec<Line<'static>>,
    ) -> Vec<Line<'static>> {
        let (Some(event), Some(entry)) = (self.scene.event(at), self.scene.record.entry(at.seq)) else {
            return Vec::new();
        };
        let lookup = |at: EventRef| self.scene.event(at);
        let scene = Scene {
            time: entry.at,
            left,
            debate: self.scene.debate_at(entry.at),
            name: &|spark| self.scene.name(spark),
            ..Scene::of(&lookup)
        };
        event.telling(&scene).iter().flat_map(lay_out).collect()
    }

    /// What an event says; not what stands elsewhere in the story: ballots, answers, notes to models.
    fn telling(&self, item: &Item, one: &Telling<'_>) -> Vec<Line<'static>> {
        match one.kind {
            // The roster shows who takes part.
            Kind::Holds | Kind::Ratings | Kind::Ruling | Kind::CutOff | Kind::Joins => Vec::new(),
            // The answer above says that it is sealed.
            Kind::Ballot if self.scene.moment.matrix.is_sealed => Vec::new(),
            _ if one.of.is_some() => Vec::new(),
            _ if one.weight == Weight::Routine && !self.is_open => Vec::new(),
            Kind::Prompt | Kind::Question => self.said(&one.line(), one.rest(), Tone::Strong),
            Kind::Steer => self.steering(item, one),
            Kind::Phase => {
                let text = format!("  ▌ {}", clean_line(&one.line()));
                vec![Line::styled(text, self.scene.style(Tone::Accent))]
            }
            Kind::Check => self.check(item, one),
            Kind::Failed if self.is_again(item) => self.sentence(&one.clone().again()),
            // Each thing that is passed on is an event; the reader needs to know once that something was.
            Kind::Sent if self.is_sent_before(item) => Vec::new(),
            // Folded, a task is its first sentence: the rest only its model needs.
            Kind::Task if !self.is_open => {
                let first = one.head.split_inclusive(". ").next().unwrap_or_default().trim_end();
                self.wrapped(Tone::Quiet, "∙ ", &format!("task: {}", clean_line(first)))
            }
            // The answer above has them.
            Kind::Dispute => self.sentence(&Telling { body: Body::Nothing, ..one.clone() }),
            _ => self.sentence(one),
        }
    }

    /// A telling as a sentence behind its mark, with what stands under it.
    fn sentence(&self, one: &Telling<'_>) -> Vec<Line<'static>> {
        let (line, word) = (one.line(), one.kind.word());
        let mut text = match one.kind.spoken() {
            Spoken::Alone => line.into_owned(),
            Spoken::Begins => format!("{word} {line}"),
            Spoken::Label => format!("{word}: {line}"),
        };
        if let Body::Said(said) = one.rest() {
            text = format!("{text}: {said}");
        } else if one.kind == Kind::Compact && !self.is_open {
            text += " (o shows it)";
        }
        let mut out = self.wrapped(look(one.tone), &mark(one), &clean_line(&text));
        if !one.is_folded || self.is_open {
            out.extend(self.under(one.rest()));
        }
        out
    }

    /// What stands under a telling.
    pub fn under(&self, body: &Body<'_>) -> Vec<Line<'static>> {
        match body {
            Body::Nothing | Body::Said(_) => Vec::new(),
            Body::Answer(text) => {
                indented(markdown(self.scene.theme, &clean(text.trim()), self.width.saturating_sub(INDENT)))
            }
            Body::Prose(text) | Body::Rows(text) => {
                text.lines().flat_map(|row| self.wrapped(Tone::Text, "    ", &clean_line(row))).collect()
            }
            Body::Output(text) => self.output(text),
            Body::Diff(text) => self.changes(text),
        }
    }

    fn said(&self, line: &str, rest: &Body<'_>, tone: Tone) -> Vec<Line<'static>> {
        let text = if line.is_empty() { rest.text() } else { line };
        let mut out = Vec::new();
        let wrap = Wrap::to(self.width).with(
            diff::prefix(self.scene.theme, Tone::Accent, "❯ "),
            diff::prefix(self.scene.theme, Tone::Text, "  "),
        );
        wrap.text(self.scene.style(tone), clean(text).trim(), &mut out);
        self.fold(out)
    }

    /// What was said to somebody at work, and whether a model has read it.
    fn steering(&self, item: &Item, one: &Telling<'_>) -> Vec<Line<'static>> {
        let mut out = self.said(&one.line(), one.rest(), Tone::Text);
        if !is_read(self.scene, item) {
            out.extend(self.remark(Tone::Quiet, "  └ ", "not read yet"));
        }
        out
    }

    fn answer(&self, item: &Item, text: &str) -> Vec<Line<'static>> {
        let readable = typed::readable(text, &self.propositions(item));
        self.under(&Body::Answer(readable.map_or(Cow::Borrowed(text), Cow::Owned)))
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
        if let Some(answer) = answer {
            let line = |one: &Telling<'_>| {
                self.remark(Tone::Quiet, "  └ ", &format!("{of}{}", clean_line(&one.head)))
            };
            return self.told(answer, line);
        }
        let waits = matches!(item.kind, ItemKind::Approval { call, .. } if is_open(self.scene, call));
        let (tone, word) = match waits {
            true => (Tone::Warn, "waits for your answer"),
            false => (Tone::Quiet, "asked no longer"),
        };
        self.remark(tone, "  └ ", &format!("{of}{word}"))
    }

    /// The call an approval is for, where it is not the one right above.
    fn asked_about(&self, item: &Item) -> String {
        let Some(ArenaEvent::ApprovalRequested(asked)) = self.scene.event(item.source) else {
            return String::new();
        };
        // Of a running command only the connection was asked about.
        if let Some(need) =
            self.scene.event(asked.prepared).and_then(ArenaEvent::plan).and_then(Plan::connection)
        {
            return format!("{}: ", clean_line(&need.name()));
        }
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

    fn check(&self, item: &Item, one: &Telling<'_>) -> Vec<Line<'static>> {
        let mut out =
            vec![self.headline(look(one.tone), &mark(one), "check", &clean_line(&one.head), &one.end)];
        if one.tone != telling::Tone::Good || self.is_open {
            out.extend(self.under(one.rest()));
        }
        out.extend(self.notes(self.scene.event(item.source)));
        out
    }

    /// True when the failure before says the same.
    fn is_again(&self, item: &Item) -> bool {
        let Some(ArenaEvent::ModelFailed(now)) = self.event(item) else { return false };
        let before = self.before.and_then(|before| self.event(before));
        matches!(before, Some(ArenaEvent::ModelFailed(data)) if data.body.message == now.body.message)
    }

    /// True when the item above says the same already.
    fn is_sent_before(&self, item: &Item) -> bool {
        let ways = |item: &Item| match self.event(item) {
            Some(ArenaEvent::InsightSurfaced(data)) => Some((data.from, data.to)),
            _ => None,
        };
        self.before.is_some_and(|before| ways(before) == ways(item))
    }

    /// A rule with how the turn went, and how long it was at work.
    fn turn_end(&self, one: &Telling<'_>, work_ms: u64) -> Vec<Line<'static>> {
        let tone = if one.tone == telling::Tone::Good { Tone::Quiet } else { Tone::Warn };
        let text = format!("{} · {}", one.end, phrases::duration(work_ms));
        let rule = "─".repeat(self.width.saturating_sub(text.chars().count() + 6));
        vec![Line::styled(format!("  ── {text} {rule}"), self.scene.style(tone))]
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
    pub fn notes(&self, event: Option<&ArenaEvent>) -> Vec<Line<'static>> {
        let notes = event.into_iter().flat_map(ArenaEvent::told);
        notes.flat_map(|line| self.wrapped(Tone::Warn, "! ", &clean_line(line))).collect()
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
