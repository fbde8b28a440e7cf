//! The chat with the user across turns: which spark holds it, and what of it a squad is given.

use crate::protocol::event::{Notice, RequestPart, SparkIgnited};
use crate::protocol::message::Role;
use crate::protocol::{EventRef, SparkId};

use super::Session;

/// Tokens of a chat that a squad is given unasked.
const SHORT: u64 = 8_000;

const APART: &str = "What the user said in this session before this task is not shown to you. If the task cannot be \
understood without it, say what is missing.";

impl Session {
    /// The spark that talked with the user in the turn before.
    pub(super) fn last_talker(&self) -> Option<SparkId> {
        let lead = self.lead_name();
        self.sparks.iter().rev().find(|(_, s)| s.completed.is_some() && s.talks(lead)).map(|(id, _)| *id)
    }

    /// The spark that holds the chat. What a squad apart from it was asked and answered is in it too.
    pub(super) fn chat(&self) -> Option<SparkId> {
        let last = self.last_talker()?;
        let chat = self.sparks.get(&last)?.apart_from;
        chat.filter(|chat| self.sparks.contains_key(chat)).or(Some(last))
    }

    /// What a lead continues: the squad before it, else the chat where that is short.
    pub(super) fn give_earlier(&self, ignited: &mut SparkIgnited) {
        let Some(id) = self.last_talker() else { return };
        let Some(before) = self.sparks.get(&id) else { return };
        let mut said = before.transcript();
        said.retain(|item| !item.is_pinned());
        said.extend(before.queue.iter().cloned());
        let tokens = self.ledger.estimate(&ignited.model, self.bytes_in(&said), said.len() as u64);
        ignited.earlier_tokens = Some(tokens);
        match before.role == ignited.role || tokens <= SHORT {
            true => (ignited.continues, ignited.apart_from) = (Some(id), before.apart_from),
            false => ignited.apart_from = Some(id),
        }
    }

    /// Tells a lead that it was not given the chat.
    pub(super) fn say_apart(&mut self, lead: SparkId) {
        self.notice(lead, Notice::Apart, APART);
    }

    /// Drops the conversations that no later turn continues. The chat outlives turns in which it is not continued; a
    /// squad apart from it lasts until the next talk with the user.
    pub(super) fn drop_ended(&mut self, by: &SparkIgnited) {
        let lead = self.lead_name().map(str::to_owned);
        let talks = by.role == "solo" || lead.as_ref() == Some(&by.role);
        self.sparks.retain(|_, spark| {
            let is_over = talks && spark.apart_from.is_some();
            spark.completed.is_none() || (spark.talks(lead.as_deref()) && !is_over)
        });
    }

    /// The chat learns what a squad apart from it was asked and answered.
    pub(super) fn fold_apart(&mut self, ended: SparkId, answer: Option<EventRef>) {
        let Some(chat) = self.sparks.get(&ended).and_then(|spark| spark.apart_from) else { return };
        let asked: Vec<EventRef> = self.turn.iter().flat_map(|turn| turn.asked()).collect();
        asked.into_iter().for_each(|from| self.hear(chat, from));
        if let Some(from) = answer {
            self.enqueue(chat, RequestPart { role: Role::Assistant, from, sel: None });
        }
    }
}
