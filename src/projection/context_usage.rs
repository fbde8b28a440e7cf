//! How full each spark's context window is, and what fills it; the provider's count is the measure.

use std::collections::BTreeMap;

use crate::protocol::event::{ModelCalled, RequestPart};
use crate::protocol::expand::{ExpandError, Lookup, declaration, flat_parts, message};
use crate::protocol::message::{Part, Role, Usage};
use crate::protocol::spec::{ModelSpec, Setting};
use crate::protocol::{ArenaEvent, CallId, Entry, EventRef, SparkId};

/// Tokens per thousand bytes where no provider counted: a little more than English text needs.
const RATIO: u64 = 300;

/// What a picture weighs among texts, in bytes: about what its tokens are worth.
const OF_IMAGE: u64 = 5_000;

/// What fills a window, in the order of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Filler {
    /// The persona's text.
    Persona,
    /// Instruction files.
    Instructions,
    /// What the tools are called, do and take.
    Tools,
    /// What was read before a turn: mentions and other loads.
    Loads,
    /// Summaries of what was said before.
    Summaries,
    /// What people, agon and the model said.
    Talk,
    /// What tools and checks gave.
    Results,
    /// The answer to it, which the next request begins with.
    Answer,
}

impl Filler {
    /// What it is called.
    pub fn word(self) -> &'static str {
        match self {
            Filler::Persona => "persona",
            Filler::Instructions => "instructions",
            Filler::Tools => "tools",
            Filler::Loads => "loads",
            Filler::Summaries => "summaries",
            Filler::Talk => "talk",
            Filler::Results => "results",
            Filler::Answer => "last answer",
        }
    }
}

/// What fills a window, part by part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filled {
    /// The model whose window it is.
    pub model: String,
    /// The parts with their tokens, the absent ones left out.
    pub parts: Vec<(Filler, u64)>,
    /// Tokens of all parts.
    pub used: u64,
    /// Tokens the window holds; 0 when unknown.
    pub window: u64,
    /// True where no provider counted the tokens.
    pub is_estimated: bool,
}

/// The last call of a spark.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Last {
    at: EventRef,
    call: CallId,
    model: String,
}

/// Windows, and what was last sent into them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContextUsage {
    windows: BTreeMap<String, u64>,
    called: BTreeMap<SparkId, Last>,
    used: BTreeMap<SparkId, (CallId, Usage)>,
    /// The sparks of the last turn.
    turn: Vec<SparkId>,
}

impl ContextUsage {
    /// Drops what is known of sparks before this one.
    pub fn forget(&mut self, oldest: SparkId) {
        self.called.retain(|spark, _| *spark >= oldest);
        self.used.retain(|spark, _| *spark >= oldest);
    }

    /// Folds one entry.
    pub fn apply(&mut self, entry: &Entry) {
        for (at, event) in entry.effective() {
            self.settings(event.changed());
            match event {
                ArenaEvent::SessionOpened(data) => {
                    data.spec.models.iter().for_each(|model| self.window(model))
                }
                ArenaEvent::TurnOpened(_) => self.turn.clear(),
                ArenaEvent::SparkIgnited(data) => self.turn.push(data.spark),
                ArenaEvent::ModelCalled(data) => {
                    self.called.insert(data.spark, Last { at, call: data.call, model: data.model.clone() });
                }
                ArenaEvent::ModelAnswered(data) => {
                    let asked = self.called.iter().find(|(_, last)| last.call == data.call);
                    if let Some((spark, last)) = asked {
                        self.used.insert(*spark, (last.call, data.body.usage));
                    }
                }
                _ => {}
            }
        }
    }

    /// Tokens of a spark's last request and answer, and the window they share; none before the first answer or
    /// when the model's window is unknown.
    pub fn of(&self, spark: SparkId) -> Option<(u64, u64)> {
        let (_, used) = self.used.get(&spark)?;
        let window = *self.windows.get(&self.called.get(&spark)?.model)?;
        (window > 0).then_some((used.total(), window))
    }

    /// The sparks of the last turn that called a model.
    pub fn at_work(&self) -> impl Iterator<Item = SparkId> + '_ {
        self.turn.iter().copied().filter(|spark| self.called.contains_key(spark))
    }

    /// What fills a spark's window, by its last request. The log has its words, the provider's count of the very
    /// request says how many tokens they are; while it is unanswered they are estimated. None before the first call.
    pub fn filled(&self, spark: SparkId, lookup: Lookup<'_>) -> Option<Result<Filled, ExpandError>> {
        let last = self.called.get(&spark)?;
        let Some(ArenaEvent::ModelCalled(called)) = lookup(last.at) else {
            return Some(Err(ExpandError::Missing(last.at)));
        };
        let usage = self.used.get(&spark).filter(|(call, _)| *call == last.call).map(|(_, usage)| *usage);
        let window = self.windows.get(&last.model).copied().unwrap_or_default();
        let model = last.model.clone();
        Some(weights(called, lookup).map(|bytes| Filled { model, window, ..shared(&bytes, usage) }))
    }

    fn settings(&mut self, changed: &[Setting]) {
        for setting in changed {
            if let Setting::Model { spec, .. } = setting {
                self.window(spec);
            }
        }
    }

    fn window(&mut self, model: &ModelSpec) {
        self.windows.insert(model.name.clone(), model.context);
    }
}

/// Bytes of each part of a request.
fn weights(called: &ModelCalled, lookup: Lookup<'_>) -> Result<BTreeMap<Filler, u64>, ExpandError> {
    let mut bytes = BTreeMap::new();
    for part in flat_parts(called, lookup)? {
        let said = message(&part, lookup)?;
        *bytes.entry(filler(&part, lookup)).or_default() += said.parts.iter().map(size).sum::<u64>();
    }
    for tool in &called.tools {
        let tool = declaration(tool, lookup)?;
        let size = tool.name.len() + tool.description.len() + tool.schema.to_string().len();
        *bytes.entry(Filler::Tools).or_default() += size as u64;
    }
    Ok(bytes)
}

fn filler(part: &RequestPart, lookup: Lookup<'_>) -> Filler {
    use ArenaEvent as E;
    match (part.role, lookup(part.from)) {
        (Role::System, _) if part.sel.as_ref().is_some_and(|sel| sel.contains("/instructions/")) => {
            Filler::Instructions
        }
        (Role::System, _) => Filler::Persona,
        (_, Some(E::MentionExpanded(_) | E::EffectFailed(_))) => Filler::Loads,
        (_, Some(E::ContextCompacted(_))) => Filler::Summaries,
        (Role::Tool, _) | (_, Some(E::CheckRan(_) | E::DiffTaken(_))) => Filler::Results,
        _ => Filler::Talk,
    }
}

fn size(part: &Part) -> u64 {
    match part {
        Part::Text { text } => text.len() as u64,
        Part::Reasoning { text, opaque } => opaque.as_ref().map_or(0, |_| text.len() as u64),
        Part::Call { name, args, .. } => (name.len() + args.text().len()) as u64,
        Part::Result { content, .. } => content.len() as u64,
        Part::Image { .. } => OF_IMAGE,
        Part::Opaque(_) | Part::Unknown(_) => 0,
    }
}

/// Shares the counted tokens out by bytes; what rounding leaves goes to the largest part.
fn shared(bytes: &BTreeMap<Filler, u64>, usage: Option<Usage>) -> Filled {
    let all: u64 = bytes.values().sum::<u64>().max(1);
    let counted = usage.filter(|usage| usage.input > 0);
    let input = counted.map_or(all.saturating_mul(RATIO) / 1000, |usage| usage.input);
    let part = |bytes: u64| u64::try_from(u128::from(bytes) * u128::from(input) / u128::from(all));
    let mut parts: Vec<(Filler, u64)> =
        bytes.iter().map(|(filler, bytes)| (*filler, part(*bytes).unwrap_or(input))).collect();
    let rest = input.saturating_sub(parts.iter().map(|(_, tokens)| tokens).sum());
    if let Some((_, largest)) = parts.iter_mut().max_by_key(|(_, tokens)| *tokens) {
        *largest += rest;
    }
    let answer = counted.map_or(0, |usage| usage.output);
    parts.push((Filler::Answer, answer));
    parts.retain(|(_, tokens)| *tokens > 0);
    let is_estimated = counted.is_none_or(|usage| usage.estimated);
    Filled { parts, used: input.saturating_add(answer), is_estimated, ..Filled::default() }
}
