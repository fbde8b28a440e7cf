//! The context window: what the next request says, how large it is, and what a summary may replace.

use crate::protocol::event::{
    ArenaEvent, ContextCompacted, ModelReply, Notice, Purpose, RequestPart, TurnCause,
};
use crate::protocol::expand::{Lookup, text_in_spec};
use crate::protocol::inside;
use crate::protocol::message::{Args, ImagePart, Part, Role, ToolDecl};
use crate::protocol::spec::{Family, Mode, ModelSpec, ToolSpec, is_chosen};
use crate::protocol::{EventRef, SparkId};

use super::Session;
use super::output_limit::of_summary;
use super::state::{Conversation, Item, OfferedTool, Spark};

/// Summaries in a row without a usable answer between them.
const MOST_COMPACTIONS: u32 = 8;

/// Tokens below which a window is offered the tools of files and commands only, unless others are named.
pub(super) const SMALL: u64 = 16_000;

const ORDER_FOR_SUMMARY: &str = "The conversation above no longer fits and will be replaced by what you write \
now. Write a summary for yourself, without calling tools: the task and every rule or wish the person stated, \
word for word where it matters; what was done, with file paths and the references ([e12]) that prove it; what \
was found out, including what did not work; what is still to be done, next step first.";

const DROPPED: &str = "The oldest part of the conversation was dropped without a summary: the window has no room for \
it. If you need what it said, look again in smaller parts.";

impl Session {
    /// What a spark's next request says.
    pub(super) fn next_request(&self, spark: &Spark) -> Conversation {
        let added = spark.fresh.iter().chain(&spark.queue).cloned();
        spark.said.clone().with_all(added, &|at| self.event(at))
    }

    /// Bytes of text in a list of items.
    pub(super) fn bytes_in<'a>(&self, items: impl IntoIterator<Item = &'a Item>) -> u64 {
        items.into_iter().map(|item| item.bytes(&|at| self.event(at))).sum()
    }

    /// The tools a spark is offered.
    pub(super) fn offered_to(&self, spark: &Spark) -> impl Iterator<Item = &OfferedTool> {
        self.tools_for(spark).filter_map(|name| self.places.tools.get(name))
    }

    /// Bytes of the tool definitions a spark is offered.
    pub(super) fn tool_bytes(&self, spark: &Spark) -> u64 {
        self.offered_to(spark).map(|tool| tool.bytes).sum()
    }

    /// Estimated input tokens of a spark's next request.
    pub(super) fn input_estimate(&self, spark: &Spark) -> u64 {
        let added = || spark.fresh.iter().chain(&spark.queue);
        let bytes = spark.said.bytes() + self.bytes_in(added()) + self.tool_bytes(spark);
        self.ledger.estimate(&spark.model, bytes, (spark.said.len() + added().count()) as u64)
    }

    /// Names of the tools a spark may use, in the order they were offered.
    pub(super) fn tools_for(&self, spark: &Spark) -> impl Iterator<Item = &str> {
        let allowed = self.allowed_tools(spark);
        let offered = self.spec.as_ref().and_then(|spec| spec.offered.as_deref());
        let is_named = allowed.is_some() || offered.is_some();
        let model = self.model_spec(&spark.model);
        let is_small = model.is_some_and(|model| model.context < SMALL);
        let calls_tools = model.is_none_or(ModelSpec::calls_tools);
        let depth = spark.delegated.as_ref().map_or(0, |delegated| delegated.depth);
        let above = self.tools_above(spark);
        let is_offered = move |tool: &ToolSpec| {
            calls_tools
                && offered.is_none_or(|list| is_chosen(list, tool))
                && allowed.as_ref().is_none_or(|list| is_chosen(list, tool))
                && above.as_ref().is_none_or(|list| list.contains(&tool.name.as_str()))
                && tool.inside.is_none_or(|inside| self.answers_inside(inside, depth))
                && (is_named || !is_small || is_basic(tool))
        };
        let tools = self.spec.iter().flat_map(|spec| &spec.tools);
        tools.filter(move |tool| is_offered(tool)).map(|tool| tool.name.as_str())
    }

    /// Orders a summary of the oldest part of a conversation that fits into one request, or drops that part where
    /// a summary would free too little.
    pub(super) fn compact(&mut self, id: SparkId) {
        let model = self.sparks.get(&id).and_then(|spark| self.model_spec(&spark.model));
        let rooms = model.map(|model| self.rooms(id, model)).unwrap_or_default();
        match rooms.into_iter().find_map(|room| self.compactable(id, room)) {
            Some((model, end)) => self.order_summary(id, &model, end),
            None => self.drop_oldest(id),
        }
    }

    /// Drops the oldest whole groups of a conversation, as few as make room for an answer, or ends the spark.
    pub(super) fn drop_oldest(&mut self, id: SparkId) {
        let Some(covers) = self.droppable(id) else {
            return self.end_spark(id, TurnCause::ContextFull);
        };
        let summary = self.notice(id, Notice::Compacted, DROPPED);
        self.emit(ArenaEvent::ContextCompacted(ContextCompacted { spark: id, summary, covers }));
        self.think(id);
    }

    /// What is dropped where no summary helps. A summary is, once the window does not hold it; what says that
    /// something was dropped is no reason to drop more. Nothing where it would be a ballot or a brief.
    fn droppable(&self, id: SparkId) -> Option<Vec<EventRef>> {
        self.turn.as_ref().filter(|turn| matches!(turn.mode, Mode::Solo))?;
        let spark = self.sparks.get(&id).filter(|spark| spark.compacted < MOST_COMPACTIONS)?;
        let model = self.model_spec(&spark.model)?;
        let [room, least] = self.rooms(id, model);
        let is_full = !self.fits(id, least);
        let (all, task) = (spark.transcript(), self.task_of(id));
        let frees = |item: &Item| match self.event(item.part.from) {
            Some(ArenaEvent::ContextCompacted(data)) => {
                is_full && !matches!(self.event(data.summary), Some(ArenaEvent::NoticeGiven(_)))
            }
            _ => self.is_coverable(item, task),
        };
        let first = all.iter().position(frees)?;
        let covered = |end: usize| all.iter().take(end).filter(move |item| self.is_coverable(item, task));
        let estimate = |bytes| self.ledger.estimate(&model.name, bytes, 0);
        let now = self.input_estimate(spark) + estimate(DROPPED.len() as u64 + 128);
        let holds =
            |end: usize, room: u64| now + room <= model.context + estimate(self.bytes_in(covered(end)));
        let is_end = |i: &usize| all.get(*i).is_none_or(|item| item.part.role != Role::Tool);
        let ends = || (first + 1..=all.len()).filter(is_end);
        let end = ends().find(|end| holds(*end, room)).or_else(|| ends().find(|end| holds(*end, least)))?;
        Some(covered(end).map(|item| item.part.from).collect())
    }

    /// Orders a summary of the first `end` messages.
    pub(super) fn order_summary(&mut self, id: SparkId, model: &ModelSpec, end: usize) {
        let Some(spark) = self.sparks.get(&id) else { return };
        let transcript = spark.transcript();
        let hidden = self.hidden(&transcript, model, self.task_of(id));
        let shown = transcript.iter().zip(&hidden).take(end).filter(|(_, hidden)| !**hidden);
        let shown: Vec<Item> = shown.map(|(item, _)| item.clone()).collect();
        let bytes = self.bytes_in(&shown) + self.tool_bytes(spark);
        let text = format!("{ORDER_FOR_SUMMARY}{}", named(&transcript, &hidden));
        let order = Item::of(Role::User, self.notice(id, Notice::Compacted, &text));
        let request = shown.into_iter().chain([order]);
        let request = Conversation::default().with_all(request, &|at| self.event(at));
        let input = self.ledger.estimate(&model.name, bytes + text.len() as u64, request.len() as u64);
        let output = of_summary(model);
        self.order_model_call(id, Purpose::Compact, request, input, output);
    }

    /// Which messages are too large to be shown even to whoever summarises them, with the call or result that each
    /// belongs to. By bytes alone: what a summary covers is worked out twice, before its call and after.
    fn hidden(&self, transcript: &[Item], model: &ModelSpec, task: Option<EventRef>) -> Vec<bool> {
        let mut hidden = vec![false; transcript.len()];
        let mut group = 0;
        for (i, item) in transcript.iter().enumerate() {
            if item.part.role != Role::Tool {
                group = i;
            }
            let is_large = self.bytes_in([item]) > model.context.saturating_mul(2);
            hidden[i] = (i > group && hidden[group]) || (is_large && self.is_coverable(item, task));
            if hidden[i] {
                hidden[group..i].fill(true);
            }
        }
        hidden
    }

    /// The model and how many items of the conversation a summary would cover: as many of the oldest whole groups as
    /// fit into one request. The newest quarter of the window stays if it can, then the newest group, then nothing.
    /// None when all that can be covered is too little to leave `answer` tokens, or a summary.
    pub(super) fn compactable(&self, id: SparkId, answer: u64) -> Option<(ModelSpec, usize)> {
        let spark = self.sparks.get(&id)?;
        let model = self.model_spec(&spark.model)?.clone();
        if spark.compacted >= MOST_COMPACTIONS {
            return None;
        }
        let all = spark.transcript();
        let task = self.task_of(id);
        let hidden = self.hidden(&all, &model, task);
        let estimate = |bytes, messages| self.ledger.estimate(&model.name, bytes, messages);
        let sizes: Vec<u64> = all.iter().map(|item| estimate(self.bytes_in([item]), 1)).collect();
        let sum = |range: std::ops::Range<usize>, counts: &dyn Fn(usize) -> bool| -> u64 {
            range.filter(|i| counts(*i)).filter_map(|i| sizes.get(i)).sum()
        };
        let tools = estimate(self.tool_bytes(spark), 2);
        let (summary, len) = (of_summary(&model), all.len());
        let room = model.context.saturating_sub(summary + tools);
        let is_covered = |i: usize| all.get(i).is_some_and(|item| self.is_coverable(item, task));
        // What the next request would hold: what no summary covers, the summary, and room for an answer.
        let queue = estimate(self.bytes_in(&spark.queue), spark.queue.len() as u64);
        let stays = |end: usize| sum(0..end, &|i| !is_covered(i)) + sum(end..len, &|_| true);
        let suffices = |end: &usize| stays(*end) + summary + tools + queue + answer <= model.context;
        if !suffices(&len) {
            return None;
        }
        let is_new = |item: &&Item| {
            self.is_coverable(item, task)
                && !matches!(self.event(item.part.from), Some(ArenaEvent::ContextCompacted(_)))
        };
        let first = all.iter().position(|item| is_new(&item))?;
        let ends: Vec<usize> = (first + 1..len)
            .filter(|i| all.get(*i).is_some_and(|item| item.part.role != Role::Tool))
            .chain([len])
            .filter(|end| sum(0..*end, &|i| !hidden[i]) <= room)
            .collect();
        let keeps_quarter = |end: &&usize| sum(**end..len, &|_| true) >= model.context / 4;
        let sufficing = || ends.iter().rev().filter(|end| suffices(end));
        let end = sufficing().find(keeps_quarter).or_else(|| sufficing().find(|end| **end < len));
        end.or(ends.last()).map(|end| (model.clone(), *end))
    }

    /// The task, persona and instructions always stay.
    fn is_coverable(&self, item: &Item, task: Option<EventRef>) -> bool {
        !item.is_pinned() && Some(item.part.from) != task
    }

    /// What a finished summary stands for: everything its request showed that may be dropped, and what was too large
    /// to be shown.
    pub(super) fn covered(&self, id: SparkId, model: &str, parts: &[RequestPart]) -> Vec<EventRef> {
        let (Some(spark), Some(model)) = (self.sparks.get(&id), self.model_spec(model)) else {
            return Vec::new();
        };
        let task = self.task_of(id);
        let shown = parts.split_last().map(|(_, shown)| shown).unwrap_or_default();
        let transcript = spark.transcript();
        let hidden = self.hidden(&transcript, model, task);
        let last = transcript.iter().rposition(|item| shown.contains(&item.part));
        let from = last.map_or(0, |last| last + 1);
        let more = hidden.iter().skip(from).take_while(|hidden| **hidden).count();
        let items = transcript.iter().zip(&hidden).take(from + more);
        items
            .filter(|(item, hidden)| **hidden || shown.contains(&item.part))
            .filter(|(item, _)| self.is_coverable(item, task))
            .map(|(item, _)| item.part.from)
            .collect()
    }
}

/// True for a tool that a small window has room for: of files and commands, and the program's own.
fn is_basic(tool: &ToolSpec) -> bool {
    match tool.family {
        Some(family) => matches!(family, Family::Files | Family::Run),
        None => tool.source.is_none(),
    }
}

/// What the order for a summary says of messages that are too large to be shown again.
fn named(transcript: &[Item], hidden: &[bool]) -> String {
    let gone = transcript.iter().zip(hidden).filter(|(_, hidden)| **hidden).map(|(item, _)| item);
    let names: Vec<String> = gone.map(|item| format!("[{}]", item.part.from)).collect();
    match names.as_slice() {
        [] => String::new(),
        names => format!(
            " Left out above, since larger than your window, and dropped for good: {}. If you need them, \
             look again in smaller parts.",
            names.join(" ")
        ),
    }
}

/// Bytes of text in a tool's declaration.
pub(super) fn bytes_of_tool(tool: &ToolDecl) -> u64 {
    bytes(&tool.name) + bytes(&tool.description) + json_bytes(&tool.schema)
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
            Some(E::NoticeGiven(notice)) => bytes(&notice.text) + 64,
            _ => 0,
        },
        E::ToolResolved(data) => {
            bytes(&data.body.text()) + data.body.images().map(bytes_of_image).sum::<u64>() + 8
        }
        E::ToolRefused(data) => bytes(&data.text) + 8,
        E::CallLost(data) => bytes(&data.text) + 8,
        E::ToolAnswered(data) => inside::words(data, lookup).map_or(0, |said| bytes(&said)) + 8,
        E::CheckRan(data) => bytes(&data.body.output) + bytes(&data.body.command) + 32,
        E::DiffTaken(data) => bytes(&data.body.diff) + 8,
        E::CacheHit(data) => bytes(&data.body.answer),
        E::ModelFailed(data) => bytes(&data.body.said),
        E::MentionExpanded(data) => {
            let pictures = data.body.images().map(bytes_of_image).sum::<u64>();
            bytes(&data.body.mention) + bytes(&data.body.text) + pictures + 8
        }
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

/// A picture counts as about as many bytes of text as models take tokens for it.
fn bytes_of_image(image: &ImagePart) -> u64 {
    let pixels = u64::from(image.width) * u64::from(image.height);
    (pixels / 200).clamp(400, 6_400) + bytes(&image.words)
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
            Part::Image(image) => bytes_of_image(image),
            Part::Opaque(opaque) => json_bytes(&opaque.json),
            Part::Unknown(_) => 0,
        })
        .sum()
}
