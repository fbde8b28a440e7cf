//! What a session remembers between facts; changed only by the fold.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde_json::Value;

use crate::protocol::effect::Order;
use crate::protocol::event::{ArenaEvent, RequestPart, Selected, ToolUse, TurnCause};
use crate::protocol::message::ToolDecl;
use crate::protocol::request_digest::of_tool;
use crate::protocol::spec::{Action, Mode, Risk, ToolSpec};
use crate::protocol::subagent::Delegated;
use crate::protocol::{CallId, EventRef, SparkId};

use super::context::bytes_of_tool;
pub use super::conversation::{Conversation, Item};

/// An ordered, unanswered call.
#[derive(Clone, Debug)]
pub struct Call {
    /// The attempt under way.
    pub attempt: u32,
    /// The spark it is for.
    pub spark: Option<SparkId>,
    /// What was ordered.
    pub order: Order,
    /// What a model call sends.
    pub request: Conversation,
    /// The retry timer that a model call waits for, between two attempts.
    pub timer: Option<CallId>,
    /// True once it was told to stop.
    pub cancelled: bool,
    /// True when the driver left before it was started (`session_paused{quit}`), so that it cost nothing.
    pub unsent: bool,
}

impl Call {
    /// True for a model call between two attempts.
    pub fn is_waiting(&self) -> bool {
        self.timer.is_some()
    }

    /// Entries needed to make its effect.
    pub fn seqs(&self) -> impl Iterator<Item = u64> {
        let parts = self.request.items().into_iter().map(|item| item.part.from);
        parts.chain(self.order.cites()).map(|at| at.seq)
    }
}

/// The open turn.
#[derive(Clone, Debug)]
pub struct Turn {
    /// Its number, from 1.
    pub number: u32,
    /// Who works on it.
    pub mode: Mode,
    /// The `prompt_given`.
    pub prompt: EventRef,
    /// Schema the final answer must fit.
    pub schema: Option<Value>,
    /// Timer of the time limit.
    pub timer: Option<CallId>,
    /// Model calls so far.
    pub steps: u32,
    /// Subagents so far.
    pub subagents: u32,
    /// Tokens and millionths of a dollar the session had used when it was opened.
    pub spent_before: (u64, u64),
    /// What the sparks get next to the prompt, in this order: what it mentions, and what was said before the turn began.
    pub said: Vec<Said>,
    /// True once a spark was given its task.
    pub begun: bool,
    /// Set once the turn is to end; no new call is ordered then.
    pub stopping: Option<TurnCause>,
}

impl Turn {
    /// What its sparks are told first: the prompt, and what was said with it.
    pub fn asked(&self) -> impl Iterator<Item = EventRef> {
        let said = self.said.iter().filter_map(|said| match said {
            Said::At(at) => Some(*at),
            Said::Awaited(_) => None,
        });
        std::iter::once(self.prompt).chain(said)
    }
}

/// Something that is said with a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// By this event.
    At(EventRef),
    /// By the outcome of this call, which is being read.
    Awaited(CallId),
}

/// One agent at work.
#[derive(Clone, Debug)]
pub struct Spark {
    /// `solo`, a blueprint's role, or a debater's persona id.
    pub role: String,
    /// Persona id.
    pub persona: String,
    /// The model its next call goes to.
    pub model: String,
    /// Models given up in this turn.
    pub given_up: Vec<String>,
    /// Persona and instructions as the conversation begins with them.
    pub head: Vec<RequestPart>,
    /// What the next request begins with.
    pub said: Conversation,
    /// What it says then: answers and results since.
    pub fresh: Vec<Item>,
    /// What waits for the next request.
    pub queue: Vec<Item>,
    /// The last `model_called` of a step and what it sent, as a base for the next.
    pub sent: Option<(EventRef, Conversation)>,
    /// Tool calls of the last answer.
    pub uses: Vec<Use>,
    /// The last calls, newest last, for loop detection.
    pub recent: VecDeque<Recent>,
    /// Model calls of its task.
    pub steps: u32,
    /// What it is given as a subagent.
    pub delegated: Option<Box<Delegated>>,
    /// True once it was warned of a loop.
    pub warned: bool,
    /// Unusable answers in a row.
    pub rejected: u32,
    /// True once it called a tool where a summary was asked for: from then on tools are left out there.
    pub called_in_summary: bool,
    /// Compactions since the last usable answer.
    pub compacted: u32,
    /// What it last saw of each file.
    pub seen: BTreeMap<String, Option<String>>,
    /// What it last wrote of each file.
    pub written: BTreeMap<String, Option<String>>,
    /// Its last answer without calls.
    pub answer: Option<EventRef>,
    /// Set once this spark is to end.
    pub stopping: Option<TurnCause>,
    /// How it ended.
    pub completed: Option<TurnCause>,
    /// The spark whose chat it is not shown; that learns what it was asked and answered.
    pub apart_from: Option<SparkId>,
}

impl Spark {
    /// True for one that talks with the person: a solo turn's, or the lead of a squad.
    pub fn talks(&self, lead: Option<&str>) -> bool {
        self.role == "solo" || Some(self.role.as_str()) == lead
    }

    /// The whole conversation, apart from the queue.
    pub fn transcript(&self) -> Vec<Item> {
        let mut items = self.said.items();
        items.extend(self.fresh.iter().cloned());
        items
    }

    /// Puts another conversation in place of what was said.
    pub fn set_transcript(&mut self, items: Vec<Item>) {
        self.said = Conversation::default();
        self.fresh = items;
    }

    /// Puts another persona and other instructions in front.
    pub fn set_head(&mut self, head: Vec<RequestPart>) {
        let said = self.transcript().into_iter().filter(|item| !item.is_pinned());
        let items = head.iter().cloned().map(Item::new).chain(said).collect();
        self.set_transcript(items);
        self.head = head;
    }

    /// Continues the conversation of an earlier spark.
    pub fn continue_from(&mut self, before: Spark) {
        let head = std::mem::take(&mut self.head);
        let is_same = head == before.head;
        let Spark { said, fresh, queue, sent, seen, written, head: its_head, .. } = before;
        (self.said, self.fresh, self.sent, self.head) = (said, fresh, sent, its_head);
        (self.seen, self.written) = (seen, written);
        if !is_same {
            self.set_head(head);
        }
        self.fresh.extend(queue);
    }

    /// What waits to be sent after these messages, which the next request keeps.
    pub fn take_pending(&mut self, kept: &Conversation) -> Vec<Item> {
        let mut pending = if self.said.is_same(kept) { Vec::new() } else { self.said.items() };
        pending.append(&mut self.fresh);
        pending.append(&mut self.queue);
        if self.said.is_same(kept) {
            return pending;
        }
        let mut pending = pending.into_iter().peekable();
        for item in kept.items() {
            pending.next_if(|waiting| waiting.part == item.part);
        }
        pending.collect()
    }

    /// Entries its next request needs.
    pub fn seqs(&self) -> Vec<u64> {
        let transcript = self.transcript();
        let items = transcript.iter().chain(&self.queue).map(|item| item.part.from.seq);
        let uses = self.uses.iter().flat_map(|one| {
            let end = match one.state {
                UseState::Closed(end) => Some(end.seq),
                _ => None,
            };
            [Some(one.id.answer.seq), one.plan.as_ref().map(|(at, _)| at.seq), end].into_iter().flatten()
        });
        items.chain(uses).chain(self.answer.map(|at| at.seq)).collect()
    }
}

/// One tool call on its way.
#[derive(Clone, Debug)]
pub struct Use {
    /// Which call of which answer.
    pub id: ToolUse,
    /// Tool name as written.
    pub tool: String,
    /// The most the tool may do; none for a tool that does not exist.
    pub risk: Option<Risk>,
    /// True when running it twice is as good as once.
    pub repeatable: bool,
    /// Where it is.
    pub state: UseState,
    /// What it would do, once prepared: the event and its digest.
    pub plan: Option<(EventRef, String)>,
    /// The strictest word on it so far, of the policy and of gates.
    pub ruling: Action,
    /// The event of the gate that was stricter than all before.
    pub stopped_by: Option<EventRef>,
}

impl Use {
    /// True when it may change the workspace.
    pub fn may_change(&self) -> bool {
        self.risk.is_some_and(|risk| !matches!(risk, Risk::Read | Risk::Network))
    }

    /// True once it has its one end.
    pub fn is_closed(&self) -> bool {
        matches!(self.state, UseState::Closed(_))
    }
}

/// Where a tool call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UseState {
    /// It waits for earlier calls.
    Waiting,
    /// Somebody looks what it would do.
    Preparing(CallId),
    /// It was looked at and waits for the policy's word.
    Prepared,
    /// Gates are asked.
    Gated,
    /// A person is asked.
    Asking(CallId),
    /// It may run once earlier calls have ended and the workspace is recorded.
    Allowed,
    /// It runs.
    Running(CallId),
    /// A subagent works on it.
    Delegated(SparkId),
    /// It has ended; the event that says how.
    Closed(EventRef),
}

/// A finished call, for loop detection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recent {
    /// Digest of tool and arguments.
    pub call: String,
    /// Digest of the result.
    pub result: String,
}

/// Where texts and definitions stand in the log.
#[derive(Clone, Debug, Default)]
pub struct TextLocations {
    /// Persona id → text.
    pub personas: BTreeMap<String, Selected>,
    /// Instruction texts, in order.
    pub instructions: Vec<Selected>,
    /// Tool name → definition and its place.
    pub tools: BTreeMap<String, OfferedTool>,
    /// Source of tools → digest of the list it gave last.
    pub listed: BTreeMap<String, String>,
}

impl TextLocations {
    /// Entries that hold them.
    pub fn seqs(&self) -> impl Iterator<Item = u64> + '_ {
        let personas = self.personas.values().chain(&self.instructions);
        personas.chain(self.tools.values().map(|tool| &tool.place)).map(|at| at.from.seq)
    }

    /// What a model is shown of the tool defined there.
    pub fn declaration(&self, place: &Selected) -> Option<&Arc<ToolDecl>> {
        self.tools.values().find(|tool| tool.place == *place).map(|tool| &tool.declaration)
    }
}

/// A tool that sparks may be offered, with what each of their requests needs of it.
#[derive(Clone, Debug)]
pub struct OfferedTool {
    /// The tool.
    pub spec: ToolSpec,
    /// Where it is defined.
    pub place: Selected,
    /// What a model is shown of it.
    pub declaration: Arc<ToolDecl>,
    /// Digest of the declaration.
    pub digest: String,
    /// Bytes of text in the declaration.
    pub bytes: u64,
}

impl OfferedTool {
    /// A tool defined there.
    pub fn new(spec: ToolSpec, place: Selected) -> Self {
        let declaration = Arc::new(ToolDecl::from(&spec));
        let (digest, bytes) = (of_tool(&declaration), bytes_of_tool(&declaration));
        OfferedTool { spec, place, declaration, digest, bytes }
    }
}

/// The workspace's recorded trees.
#[derive(Clone, Debug, Default)]
pub struct Checkpoints {
    /// The last recorded tree.
    pub tree: Option<String>,
    /// The checkpoint under way.
    pub pending: Option<CallId>,
    /// True when the workspace is as recorded, as far as this session knows.
    pub fresh: bool,
    /// True when it was recorded since the last prompt: an undo takes each turn back to a tree of its own, and people
    /// work on between two turns.
    pub in_turn: bool,
    /// True when something of this session may have changed the workspace since.
    pub touched: bool,
    /// The tree before a resume or fork, until the checkpoint ordered then has been compared with it.
    pub compare: Option<String>,
}

impl Checkpoints {
    /// Something that may change files has begun.
    pub fn touch(&mut self) {
        (self.fresh, self.touched) = (false, true);
    }

    /// True while nobody goes on before the workspace was compared with what it was.
    pub fn is_comparing(&self) -> bool {
        self.compare.is_some() && self.pending.is_some()
    }
}

/// Entries an event cites whose words a request may need with it.
pub fn cited_seqs(event: &ArenaEvent) -> Vec<u64> {
    match event {
        ArenaEvent::ToolResolved(data) => vec![data.body.tool_use.answer.seq],
        ArenaEvent::ToolRefused(data) => vec![data.tool_use.answer.seq],
        ArenaEvent::ToolAnswered(data) => vec![data.tool_use.answer.seq, data.from.seq],
        ArenaEvent::CallLost(data) => data.tool_use.map(|id| id.answer.seq).into_iter().collect(),
        ArenaEvent::ContextCompacted(data) => vec![data.summary.seq],
        ArenaEvent::SparkCompleted(data) => data.answer.iter().map(|at| at.seq).collect(),
        ArenaEvent::RoundOpened(data) => {
            let standing = data
                .debaters
                .iter()
                .flat_map(|one| [one.ballot, one.read, one.sealed, one.ratings].into_iter().flatten());
            let rest = data.propositions.iter().chain(&data.evidence).copied();
            standing.chain(rest).map(|at| at.seq).collect()
        }
        _ => Vec::new(),
    }
}
