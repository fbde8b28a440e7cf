//! The context window: what the next request says, how large it is, and what a summary may replace.

use crate::protocol::event::{ArenaEvent, ModelReply, Notice, Parts, Purpose, RequestPart, TurnCause};
use crate::protocol::expand::{Lookup, text_in_spec};
use crate::protocol::message::{Args, Part, Role};
use crate::protocol::spec::ModelSpec;
use crate::protocol::{EventRef, SparkId};

use super::Session;
use super::output_limit::of_summary;
use super::state::{Item, Spark};

/// Summaries in a row without a usable answer between them.
const MOST_COMPACTIONS: u32 = 8;

const ORDER_FOR_SUMMARY: &str = "The conversation above no longer fits and will be replaced by what you write \
now. Write a summary for yourself, without calling tools: the task and every rule or wish the person stated, \
word for word where it matters; what was done, with file paths and the references ([e12]) that prove it; what \
was found out, including what did not work; what is still to be done, next step first.";

impl Session {
    /// The parts of a spark's next request.
    pub(super) fn next_parts(&self, spark: &Spark) -> Vec<RequestPart> {
        spark.transcript.iter().chain(&spark.queue).map(|item| item.part.clone()).collect()
    }

    /// Bytes of text in a list of items.
    pub(super) fn bytes_in<'a>(&self, items: impl Iterator<Item = &'a Item>) -> u64 {
        let lookup = |at| self.event(at);
        items.map(|item| if item.bytes > 0 { item.bytes } else { bytes_of(&item.part, &lookup) }).sum()
    }

    /// Bytes of the tool definitions a spark is offered.
    pub(super) fn tool_bytes(&self, spark: &Spark) -> u64 {
        self.tools_for(spark)
            .filter_map(|name| self.places.tools.get(name))
            .map(|(tool, _)| bytes(&tool.name) + bytes(&tool.description) + json_bytes(&tool.schema))
            .sum()
    }

    /// Estimated input tokens of a spark's next request.
    pub(super) fn input_estimate(&self, spark: &Spark) -> u64 {
        let items = || spark.transcript.iter().chain(&spark.queue);
        let bytes = self.bytes_in(items()) + self.tool_bytes(spark);
        self.ledger.estimate(bytes, items().count() as u64)
    }

    /// Names of the tools a spark may use, in the order they were offered.
    pub(super) fn tools_for(&self, spark: &Spark) -> impl Iterator<Item = &str> {
        let allowed = self.allowed_tools(spark);
        self.places
            .tool_order
            .iter()
            .filter(move |name| allowed.as_ref().is_none_or(|list| list.contains(name)))
            .map(String::as_str)
    }

    /// A request by reference to the spark's last one, so that no list is repeated in the log.
    pub(super) fn relative(&self, spark: &Spark, parts: &[RequestPart]) -> Parts {
        let Some((base, sent)) = &spark.sent else {
            return Parts { base: None, keep: 0, add: parts.to_vec() };
        };
        let keep = sent.iter().zip(parts).take_while(|(a, b)| a == b).count();
        Parts {
            base: Some(*base),
            keep: u32::try_from(keep).unwrap_or(u32::MAX),
            add: parts.get(keep..).unwrap_or_default().to_vec(),
        }
    }

    /// Orders a summary of the oldest part of a conversation that fits into one request, or ends the spark
    /// when nothing can be summarised.
    pub(super) fn compact(&mut self, id: SparkId) {
        let Some((model, end)) = self.compactable(id) else {
            return self.end_spark(id, TurnCause::ContextFull);
        };
        let order = self.notice(id, Notice::Compacted, ORDER_FOR_SUMMARY);
        let Some(spark) = self.sparks.get(&id) else { return };
        let mut parts: Vec<RequestPart> =
            spark.transcript.iter().take(end).map(|item| item.part.clone()).collect();
        parts.push(RequestPart { role: Role::User, from: order, sel: None });
        let bytes = self.bytes_in(spark.transcript.iter().take(end))
            + self.tool_bytes(spark)
            + ORDER_FOR_SUMMARY.len() as u64;
        let input = self.ledger.estimate(bytes, parts.len() as u64);
        let output = of_summary(&model);
        self.order_model_call(id, Purpose::Compact, parts, input, output);
    }

    /// The model and how many items of the conversation a summary would cover: as many of the oldest
    /// whole groups as fit into one request, but never the newest quarter of the window.
    fn compactable(&self, id: SparkId) -> Option<(ModelSpec, usize)> {
        let spark = self.sparks.get(&id)?;
        let model = self.model_spec(&spark.model)?.clone();
        if spark.compacted >= MOST_COMPACTIONS {
            return None;
        }
        let tokens = |items: &[Item]| self.ledger.estimate(self.bytes_in(items.iter()), items.len() as u64);
        let room = model
            .context
            .saturating_sub(of_summary(&model) + self.ledger.estimate(self.tool_bytes(spark), 2));
        let starts: Vec<usize> = spark
            .transcript
            .iter()
            .enumerate()
            .filter(|(_, item)| !item.is_pinned() && item.part.role != Role::Tool)
            .map(|(i, _)| i)
            .collect();
        let fits = |end: &&usize| {
            let (head, tail) = spark.transcript.split_at(**end);
            tokens(head) <= room && tokens(tail) >= model.context / 8
        };
        // Prefer to keep a quarter of the window; settle for the newest group alone.
        let keeps_quarter =
            |end: &&usize| spark.transcript.get(**end..).is_some_and(|t| tokens(t) >= model.context / 4);
        let end = starts
            .iter()
            .rev()
            .filter(fits)
            .find(keeps_quarter)
            .or_else(|| starts.iter().rev().find(|end| tokens(&spark.transcript[..**end]) <= room))
            .copied()?;
        let prompt = self.turn.as_ref().map(|turn| turn.prompt);
        let covers = spark.transcript.get(..end)?.iter();
        covers.into_iter().any(|item| self.is_coverable(item, prompt)).then_some((model, end))
    }

    /// The person's task of this turn, persona and instructions always stay.
    fn is_coverable(&self, item: &Item, prompt: Option<EventRef>) -> bool {
        !item.is_pinned() && Some(item.part.from) != prompt
    }

    /// What a finished summary stands for: everything its request showed that may be dropped.
    pub(super) fn covered(&self, parts: &[RequestPart]) -> Vec<EventRef> {
        let prompt = self.turn.as_ref().map(|turn| turn.prompt);
        let shown = parts.split_last().map(|(_, shown)| shown).unwrap_or_default();
        shown
            .iter()
            .filter(|part| part.role != Role::System && Some(part.from) != prompt)
            .map(|part| part.from)
            .collect()
    }
}

fn bytes(text: &str) -> u64 {
    text.len() as u64
}

fn json_bytes(value: &serde_json::Value) -> u64 {
    match value {
        serde_json::Value::String(text) => bytes(text) + 2,
        serde_json::Value::Array(items) => items.iter().map(json_bytes).sum::<u64>() + 2,
        serde_json::Value::Object(map) => {
            map.iter().map(|(k, v)| bytes(k) + json_bytes(v) + 4).sum::<u64>() + 2
        }
        serde_json::Value::Number(number) => bytes(number.as_str()),
        serde_json::Value::Bool(_) | serde_json::Value::Null => 5,
    }
}

/// Bytes of text one part puts into a request.
pub(super) fn bytes_of(part: &RequestPart, lookup: Lookup<'_>) -> u64 {
    use ArenaEvent as E;
    let Some(event) = lookup(part.from) else { return 0 };
    if let Some(sel) = &part.sel {
        let place = sel.strip_prefix("/order/").and_then(|place| place.parse().ok());
        if let (E::RoundOpened(round), Some(place)) = (event, place) {
            return bytes(&crate::protocol::ballot::digest::digest(round, place, lookup));
        }
        return bytes_selected(event, sel);
    }
    match event {
        E::PromptGiven(data) => bytes(&data.text),
        E::SteeringGiven(data) => bytes(&data.text),
        E::NoticeGiven(data) => bytes(&data.text),
        E::AnswerRejected(data) => data.errors.iter().map(|e| bytes(e)).sum::<u64>() + 128,
        E::ModelAnswered(data) => bytes_of_reply(&data.body),
        E::ContextCompacted(data) => match lookup(data.summary) {
            Some(E::ModelAnswered(answer)) => bytes_of_reply(&answer.body) + 64,
            _ => 0,
        },
        E::ToolResolved(data) => bytes(&data.body.content) + 8,
        E::ToolRefused(data) => bytes(&data.text) + 8,
        E::CallLost(data) => bytes(&data.text) + 8,
        E::CheckRan(data) => bytes(&data.body.output) + bytes(&data.body.command) + 32,
        E::DiffTaken(data) => bytes(&data.body.diff) + 8,
        E::CacheHit(data) => bytes(&data.body.answer),
        E::ModelFailed(data) => bytes(&data.body.said),
        E::MentionExpanded(data) => bytes(&data.body.mention) + bytes(&data.body.text) + 8,
        E::EffectFailed(data) => bytes(&data.body.error),
        _ => json_bytes(&event.data()),
    }
}

fn bytes_selected(event: &ArenaEvent, sel: &str) -> u64 {
    match text_in_spec(event, sel) {
        Some(text) => bytes(text),
        None => event.data().pointer(sel).map(json_bytes).unwrap_or_default(),
    }
}

/// Bytes of text in a model's answer.
pub(super) fn bytes_of_reply(reply: &ModelReply) -> u64 {
    reply
        .message
        .iter()
        .map(|part| match part {
            Part::Text { text } => bytes(text),
            Part::Reasoning { opaque: None, .. } => 0,
            Part::Reasoning { text, opaque: Some(opaque) } => bytes(text) + json_bytes(&opaque.json),
            Part::Call { id, name, args } => {
                bytes(id)
                    + bytes(name)
                    + match args {
                        Args::Json(value) => json_bytes(value),
                        Args::Broken(text) => bytes(text),
                        Args::Unknown(_) => 0,
                    }
            }
            Part::Result { content, .. } => bytes(content),
            Part::Image { data, .. } => bytes(data),
            Part::Opaque(opaque) => json_bytes(&opaque.json),
            Part::Unknown(_) => 0,
        })
        .sum()
}
