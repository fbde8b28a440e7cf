//! The fold of sparks: given their task, ended; decides nothing.

use crate::protocol::event::{ArenaEvent, RequestPart, SparkCompleted, SparkIgnited, ToolUse};
use crate::protocol::inside::Spawn;
use crate::protocol::message::Role;
use crate::protocol::spec::Mode;
use crate::protocol::subagent::Delegated;
use crate::protocol::{EventRef, SparkId};
use crate::session::Session;
use crate::session::delegate::DEEPEST;
use crate::session::state::{Conversation, Spark, UseState};

impl Session {
    pub(super) fn fold_ignited(&mut self, data: &SparkIgnited) {
        self.next_spark = self.next_spark.max(data.spark.0.saturating_add(1));
        let before = data.continues.and_then(|id| self.sparks.remove(&id));
        self.drop_ended(data);
        let mut spark = Spark {
            role: data.role.clone(),
            persona: data.persona.clone(),
            model: data.model.clone(),
            given_up: Vec::new(),
            head: Vec::new(),
            said: Conversation::default(),
            fresh: Vec::new(),
            queue: Vec::new(),
            sent: None,
            uses: Vec::new(),
            recent: Default::default(),
            steps: 0,
            delegated: self.held(data),
            warned: false,
            rejected: 0,
            called_in_summary: false,
            compacted: 0,
            seen: Default::default(),
            written: Default::default(),
            answer: None,
            stopping: None,
            completed: None,
            apart_from: data.apart_from,
        };
        spark.set_head(self.head(&data.persona));
        if let Some(before) = before {
            spark.continue_from(before);
        }
        self.sparks.insert(data.spark, spark);
        self.fold_debater(data);
        match self.delegated(data.spark).cloned() {
            Some(delegated) => self.fold_delegated(data.spark, &delegated),
            None => self.fold_asked_for(data.spark),
        }
    }

    /// A log that was made by hand may say anything: a subagent works for the spark that made the call, which began before
    /// it, so that no question about those above it goes on for ever.
    fn held(&self, data: &SparkIgnited) -> Option<Box<Delegated>> {
        let of = data.delegated.as_deref()?;
        let parent = self.owner(of.tool_use).filter(|parent| *parent < data.spark)?;
        let depth = self.delegated(parent).map_or(0, |above| above.depth) + 1;
        (depth <= DEEPEST).then(|| Box::new(Delegated { parent, depth, ..of.clone() }))
    }

    /// A subagent hears its task and nothing of what was said before.
    fn fold_delegated(&mut self, id: SparkId, delegated: &Delegated) {
        if let Some(turn) = self.turn.as_mut() {
            turn.subagents += 1;
        }
        self.set_use(delegated.tool_use, UseState::Delegated(id));
        let ToolUse { answer: from, part } = delegated.tool_use;
        self.enqueue(id, RequestPart { role: Role::User, from, sel: Some(Spawn::pointer(part)) });
    }

    /// The prompt and what was said with it.
    fn fold_asked_for(&mut self, id: SparkId) {
        let Some(turn) = self.turn.as_mut() else { return };
        turn.begun = true;
        if !matches!(turn.mode, Mode::Solo | Mode::Squad) {
            return;
        }
        let asked: Vec<EventRef> = turn.asked().collect();
        for from in asked {
            self.hear(id, from);
        }
    }

    pub(super) fn fold_completed(&mut self, data: &SparkCompleted) {
        if let Some(spark) = self.sparks.get_mut(&data.spark) {
            spark.completed = Some(data.cause);
        }
        // A recorded answer is what the next turn's conversation goes on from.
        if let Some(at) = data.answer.filter(|at| matches!(self.event(*at), Some(ArenaEvent::CacheHit(_)))) {
            self.enqueue(data.spark, RequestPart { role: Role::Assistant, from: at, sel: None });
        }
        self.fold_apart(data.spark, data.answer);
        self.fold_debater_completed(data.spark);
    }
}
