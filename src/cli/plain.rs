//! Tellings of events as plain lines for people and screen readers; knows no terminal, or where lines go.

mod blocks;
mod roles;
mod summary;

use std::collections::BTreeMap;

use unicode_width::UnicodeWidthStr;

use crate::projection::Matrix;
use crate::projection::answering::Answering;
use crate::projection::calls::OpenCalls;
use crate::projection::phrases;
use crate::projection::safe_text::safe_line;
use crate::projection::telling::{Body, Kind, Scene, Telling, Tone, Weight, Who};
use crate::projection::typed;
use crate::projection::wrapping::wrapped;
use crate::protocol::effect::Order;
use crate::protocol::expand::Lookup;
use crate::protocol::spec::Mode;
use crate::protocol::{ArenaEvent, CallId, Entry, EventRef, SparkId};

pub use roles::role_table;
pub use summary::{
    TeamWords, audit_lines, chain_lines, context_table, cost_table, ending, redecided, table_of, trailer,
};

/// The widest column of names.
const LABEL: usize = 24;

/// Columns of sentences below a line, beside their indent.
const COLUMNS: usize = 72;

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

/// The number of the terminal's own named colour or weight.
fn code(tone: Tone) -> Option<&'static str> {
    match tone {
        Tone::Plain => None,
        Tone::Quiet => Some("2"),
        Tone::Strong => Some("1"),
        Tone::Tool => Some("36"),
        Tone::Good => Some("32"),
        Tone::Bad => Some("31"),
        Tone::Warn => Some("33"),
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
    /// Who works on the last task; before it one spark, whose coming and going is no news.
    mode: Option<Mode>,
    /// The newest debate.
    debate: Matrix,
    /// What failed last in each call that is tried again.
    failures: BTreeMap<CallId, String>,
    /// Width of the spark column.
    label_width: usize,
}

impl Renderer {
    /// A renderer that has seen nothing yet.
    pub fn new(options: Options) -> Self {
        Renderer { options, label_width: "spark-1".len(), ..Renderer::default() }
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
                self.lay_out(&mut out, (from, entry.at), event, &Telling::other_model(words));
            }
            let find = |at: EventRef| lookup(at);
            let scene = Scene {
                time: if self.options.times { 0 } else { entry.at },
                lookup: &find,
                calls: Some(&self.calls),
                left: self.left(event),
                debate: matches!(self.mode, Some(Mode::Debate(_))).then_some(&self.debate),
                name: &|spark| self.title(spark),
            };
            for one in event.telling(&scene).into_iter().filter(|one| self.shows(one)) {
                let one = if self.is_again(event, &one) { one.again() } else { one };
                self.lay_out(&mut out, (one.of.unwrap_or(from), entry.at), event, &one);
            }
            self.fold(entry.at, from, event);
        }
        out
    }

    /// What was under way before a resume.
    fn left(&self, event: &ArenaEvent) -> Option<(EventRef, usize)> {
        matches!(event, ArenaEvent::SessionResumed(_)).then(|| self.calls.under_way()).flatten()
    }

    fn is_mention(&self, call: CallId) -> bool {
        self.calls.get(call).is_some_and(|open| matches!(open.order, Order::Mention(_)))
    }

    /// What a run says of its beginning where no story is told: where a resume continues, what a squad is given.
    pub fn beginning(&self, entry: &Entry, lookup: Lookup<'_>) -> Vec<String> {
        let (name, find) = (|spark| self.title(spark), |at: EventRef| lookup(at));
        let of_event = |event: &ArenaEvent| {
            let scene = Scene { left: self.left(event), name: &name, ..Scene::of(&find) };
            let told = match event {
                ArenaEvent::SessionResumed(_) | ArenaEvent::SparkIgnited(_) => event.telling(&scene),
                ArenaEvent::EffectFailed(data) if self.is_mention(data.call) => event.telling(&scene),
                _ => Vec::new(),
            };
            let line = |one: &Telling<'_>| match one.kind {
                Kind::Resumed if !one.end.is_empty() => Some(format!("resumed: {}", one.end)),
                Kind::Read => Some(format!("the squad reads {}", one.head)),
                Kind::Failed => Some(one.body.text().to_owned()),
                Kind::Notice => Some(one.head.to_string()),
                _ => None,
            };
            told.iter().filter_map(line).collect::<Vec<_>>()
        };
        entry.effective().flat_map(|(_, event)| of_event(event)).collect()
    }

    /// Takes an entry in without a line, for a view that starts in the middle of a log.
    pub fn skip(&mut self, entry: &Entry) {
        for (from, event) in entry.effective() {
            self.label(event);
            self.answering.apply(event);
            self.fold(entry.at, from, event);
        }
    }

    fn shows(&self, one: &Telling<'_>) -> bool {
        match (one.kind, one.weight) {
            (Kind::Ruling, _) => !self.options.summed_up,
            _ if self.options.full => true,
            (Kind::Joins, _) => !matches!(self.mode, None | Some(Mode::Solo)),
            (_, weight) => weight == Weight::News,
        }
    }

    /// True for a failure that says what the attempt before said.
    fn is_again(&self, event: &ArenaEvent, one: &Telling<'_>) -> bool {
        match event {
            ArenaEvent::ModelFailed(data) if one.kind == Kind::Failed => {
                self.failures.get(&data.call) == Some(&data.body.message)
            }
            _ => false,
        }
    }

    /// A spark has its name from its first line on; a debate's names are known before, so its columns never move.
    fn label(&mut self, event: &ArenaEvent) {
        match event {
            ArenaEvent::PromptGiven(data) => {
                if let Mode::Debate(plan) = &data.mode {
                    plan.personas.iter().for_each(|name| self.widen_for(name));
                }
                self.mode = Some(data.mode.clone());
            }
            ArenaEvent::SparkIgnited(data) => {
                let label = match self.mode {
                    None | Some(Mode::Solo) => data.spark.to_string(),
                    Some(_) => data.role.clone(),
                };
                self.widen_for(&label);
                self.labels.insert(data.spark, label);
            }
            _ => {}
        }
    }

    fn widen_for(&mut self, label: &str) {
        self.label_width = self.label_width.max(label.chars().count().min(LABEL));
    }

    fn name(&self, spark: SparkId) -> String {
        self.labels.get(&spark).cloned().unwrap_or_else(|| spark.to_string())
    }

    /// What a sentence calls a spark: one alone has no name worth saying.
    fn title(&self, spark: SparkId) -> String {
        match self.mode {
            None | Some(Mode::Solo) => "the agent".to_owned(),
            Some(_) => self.name(spark),
        }
    }

    fn fold(&mut self, at: u64, from: EventRef, event: &ArenaEvent) {
        self.calls.apply(at, from, event);
        self.debate.apply_event(from, event);
        match event {
            ArenaEvent::ModelFailed(data) => {
                self.failures.insert(data.call, data.body.message.clone());
            }
            ArenaEvent::ModelAnswered(data) => drop(self.failures.remove(&data.call)),
            ArenaEvent::TurnClosed(_) => self.failures.clear(),
            _ => {}
        }
    }

    fn lay_out(&self, out: &mut String, (from, at): (EventRef, u64), event: &ArenaEvent, one: &Telling<'_>) {
        let who = match one.who {
            Who::You => "you".to_owned(),
            Who::Spark(spark) => self.name(spark),
            Who::Its => {
                self.calls.spark_of(event).map_or_else(|| "agon".to_owned(), |spark| self.name(spark))
            }
        };
        let who = safe_line(&who).into_owned();
        let mut place = format!("{:<6} ", from.to_string());
        if self.options.times {
            place.push_str(&format!("{}  ", phrases::time_of_day(at)));
        }
        let (width, word) = (self.label_width, one.kind.word());
        if one.kind == Kind::Phase {
            out.push('\n');
        }
        out.push_str(&self.painted(&place, Tone::Quiet));
        out.push_str(&format!("{who:<width$}  {}", self.painted(word, one.tone)));
        let (text, block, is_cut) = self.texts(one);
        if !text.is_empty() {
            // Padding stays outside the colour, so that lines without colour are the same lines.
            let gap = 10usize.saturating_sub(word.len()).max(2);
            out.push_str(&" ".repeat(gap));
            let taken = place.len() + width.max(who.width()) + 2 + word.len() + gap;
            blocks::begun(out, safe_line(&text).trim_end(), taken, self.options.columns);
        }
        out.push('\n');
        blocks::indent(out, &block, is_cut && !self.options.full, self.options.columns);
    }

    /// The line and what stands below it, and true when that may be cut.
    fn texts(&self, one: &Telling<'_>) -> (String, String, bool) {
        let line = one.line_with_refs();
        if one.is_folded && !self.options.full {
            return (line, String::new(), false);
        }
        match one.rest() {
            Body::Answer(text) => {
                // What programs read is told in words; in full it is what the model wrote.
                let readable = typed::readable(text, &[]).filter(|_| !self.options.full);
                let text = readable.unwrap_or_else(|| text.trim_matches('\n').to_owned());
                match line.is_empty() && !text.contains('\n') {
                    true => (text, line, false),
                    false => (line, text, false),
                }
            }
            Body::Prose(text) => (
                line,
                text.lines().flat_map(|line| wrapped(line, COLUMNS)).collect::<Vec<_>>().join("\n"),
                false,
            ),
            Body::Output(text) | Body::Diff(text) => (line, text.to_string(), true),
            body => (line, body.text().to_owned(), false),
        }
    }

    fn painted(&self, text: &str, tone: Tone) -> String {
        match code(tone) {
            Some(code) if self.options.color => format!("\x1B[{code}m{text}\x1B[0m"),
            _ => text.to_owned(),
        }
    }
}
