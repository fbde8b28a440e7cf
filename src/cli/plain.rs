//! Entries as plain lines for people and screen readers; knows no terminal, or where lines go.

mod blocks;
mod debates;
mod roles;
mod say;
mod squads;
mod summary;

use std::collections::BTreeMap;

use debates::Debating;
use unicode_width::UnicodeWidthStr;

use crate::projection::answering::Answering;
use crate::projection::calls::OpenCalls;
use crate::projection::phrases;
use crate::projection::safe_text::safe_line;
use crate::protocol::expand::Lookup;
use crate::protocol::spec::Mode;
use crate::protocol::{ArenaEvent, CallId, Entry, EventRef, SparkId};

pub use roles::role_table;
pub use summary::{
    TeamWords, audit_lines, chain_lines, context_table, cost_table, ending, redecided, table_of,
};

/// The widest column of names.
const LABEL: usize = 24;

/// How lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Named terminal colours; never the only bearer of a meaning.
    pub color: bool,
    /// Every event and every line; by default routine decisions are hidden and long output is cut.
    pub full: bool,
    /// A column with the time of day in UTC.
    pub times: bool,
    /// The caller tells at the end what a debate came to, so its lines need not.
    pub summed_up: bool,
    /// Columns of the terminal that lines go to; none where they go elsewhere, and nothing is broken.
    pub columns: Option<usize>,
}

/// What a line is about, as a colour says it once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tone {
    Plain,
    Quiet,
    Strong,
    Tool,
    Good,
    Bad,
    Warn,
}

impl Tone {
    /// The number of the terminal's own named colour or weight.
    fn code(self) -> Option<&'static str> {
        match self {
            Tone::Plain => None,
            Tone::Quiet => Some("2"),
            Tone::Strong => Some("1"),
            Tone::Tool => Some("36"),
            Tone::Good => Some("32"),
            Tone::Bad => Some("31"),
            Tone::Warn => Some("33"),
        }
    }
}

/// Whose line it is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Who {
    Agon,
    You,
    Spark(SparkId),
}

/// One event as a person should see it, not yet laid out nor made safe.
struct Line {
    who: Who,
    word: &'static str,
    tone: Tone,
    text: String,
    detail: String,
    /// True when the detail may be cut.
    cut: bool,
    /// True when an empty line stands before it.
    gap: bool,
    /// The event it is about, when that is not the one that is told.
    from: Option<EventRef>,
}

impl Line {
    fn new(who: Who, word: &'static str, tone: Tone, text: impl Into<String>) -> Self {
        Line { who, word, tone, text: text.into(), detail: String::new(), cut: true, gap: false, from: None }
    }

    /// Adds lines below, cut where they are many.
    fn with(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    /// Puts an empty line before it.
    fn after_a_gap(mut self) -> Self {
        self.gap = true;
        self
    }

    /// Says that it is about another event than the one that is told.
    fn from(mut self, at: EventRef) -> Self {
        self.from = Some(at);
        self
    }

    /// Adds lines below that are never cut.
    fn with_whole(mut self, detail: impl Into<String>) -> Self {
        self.cut = false;
        self.with(detail)
    }

    /// What somebody said: beside the word when it is one line, below it when it is more; never cut.
    fn said(who: Who, word: &'static str, tone: Tone, text: &str) -> Self {
        let text = text.trim_matches('\n');
        if text.contains('\n') {
            Line::new(who, word, tone, "").with_whole(text)
        } else {
            Line::new(who, word, tone, text)
        }
    }
}

/// Renders entries in order. It remembers what later lines refer to: which spark and which tool a call is for.
#[derive(Clone, Debug, Default)]
pub struct Renderer {
    options: Options,
    calls: OpenCalls,
    answering: Answering,
    /// What the spark column says, by spark.
    labels: BTreeMap<SparkId, String>,
    /// True when one spark works at a time and its coming and going is no news.
    solo: bool,
    /// What lines of a debate refer to.
    debating: Debating,
    /// What failed last in each call that is tried again.
    failures: BTreeMap<CallId, String>,
    /// Width of the spark column.
    label_width: usize,
}

impl Renderer {
    /// A renderer that has seen nothing yet.
    pub fn new(options: Options) -> Self {
        Renderer { options, label_width: "spark-1".len(), solo: true, ..Renderer::default() }
    }

    /// The lines of one entry, each with its newline; empty when it holds nothing worth a line.
    ///
    /// `lookup` finds earlier events (a preview to approve, a ballot to reveal). Without it (`&|_| None`) those
    /// texts are left out.
    pub fn entry(&mut self, entry: &Entry, lookup: Lookup<'_>) -> String {
        let mut out = String::new();
        for (from, event) in entry.effective() {
            self.label(event);
            if let Some(words) = self.answering.apply(event) {
                let line = Line::new(Who::Agon, "model", Tone::Warn, words);
                self.lay_out(&mut out, from, entry.at, &line);
            }
            for line in self.say(entry.at, event, lookup) {
                self.lay_out(&mut out, line.from.unwrap_or(from), entry.at, &line);
            }
            self.fold(entry.at, from, event);
        }
        out
    }

    /// Takes an entry in without a line, for a view that starts in the middle of a log.
    pub fn skip(&mut self, entry: &Entry) {
        for (from, event) in entry.effective() {
            self.label(event);
            self.answering.apply(event);
            self.fold(entry.at, from, event);
        }
    }

    /// A spark has its name from its first line on.
    fn label(&mut self, event: &ArenaEvent) {
        match event {
            ArenaEvent::PromptGiven(data) => {
                self.solo = data.mode == Mode::Solo;
                self.widen_for(&data.mode);
            }
            ArenaEvent::SparkIgnited(data) => {
                let label = if self.solo { data.spark.to_string() } else { data.role.clone() };
                self.label_width = self.label_width.max(label.chars().count().min(LABEL));
                self.labels.insert(data.spark, label);
            }
            _ => {}
        }
    }

    fn fold(&mut self, at: u64, from: EventRef, event: &ArenaEvent) {
        self.calls.apply(at, from, event);
        self.debating.fold(from, event);
        match event {
            ArenaEvent::ModelFailed(data) => {
                self.failures.insert(data.call, data.body.message.clone());
            }
            ArenaEvent::ModelAnswered(data) => drop(self.failures.remove(&data.call)),
            ArenaEvent::TurnClosed(_) => self.failures.clear(),
            _ => {}
        }
    }

    /// A debate's names are known before its first line, so its columns never move.
    fn widen_for(&mut self, mode: &Mode) {
        if let Mode::Debate(plan) = mode {
            let longest = plan.personas.iter().map(|name| name.chars().count()).max().unwrap_or_default();
            self.label_width = self.label_width.max(longest.min(LABEL));
        }
    }

    fn lay_out(&self, out: &mut String, from: EventRef, at: u64, line: &Line) {
        let who = match &line.who {
            Who::Agon => "agon".to_owned(),
            Who::You => "you".to_owned(),
            Who::Spark(spark) => self.labels.get(spark).cloned().unwrap_or_else(|| spark.to_string()),
        };
        let who = safe_line(&who).into_owned();
        let mut place = format!("{:<6} ", from.to_string());
        if self.options.times {
            place.push_str(&format!("{}  ", phrases::time_of_day(at)));
        }
        let width = self.label_width;
        if line.gap {
            out.push('\n');
        }
        out.push_str(&self.painted(&place, Tone::Quiet));
        out.push_str(&format!("{who:<width$}  {}", self.painted(line.word, line.tone)));
        if !line.text.is_empty() {
            // Padding stays outside the colour, so that lines without colour are the same lines.
            let gap = 10usize.saturating_sub(line.word.len()).max(2);
            out.push_str(&" ".repeat(gap));
            let taken = place.len() + width.max(who.width()) + 2 + line.word.len() + gap;
            blocks::begun(out, safe_line(&line.text).trim_end(), taken, self.options.columns);
        }
        out.push('\n');
        blocks::indent(out, &line.detail, line.cut && !self.options.full, self.options.columns);
    }

    fn painted(&self, text: &str, tone: Tone) -> String {
        match tone.code() {
            Some(code) if self.options.color => format!("\x1B[{code}m{text}\x1B[0m"),
            _ => text.to_owned(),
        }
    }
}
