//! Tool calls that the session answers itself: a list that is kept, a question that a person answers, a subagent's task.

use crate::protocol::effect::{Order, QuestionOrder};
use crate::protocol::event::{ArenaEvent, QuestionAnswered, RefusalReason, ToolAnswered, ToolUse};
use crate::protocol::inside::{Inside, InsideCall};
use crate::protocol::{EventRef, SparkId};

use super::Session;
use super::decide::Due;
use super::state::Use;

impl Session {
    /// How a call is answered without a worker, if it is.
    pub(super) fn inside(&self, one: &Use) -> Option<Inside> {
        self.places.tools.get(&one.tool)?.spec.inside
    }

    pub(super) fn answer_inside(&mut self, id: SparkId, one: &Use, inside: Inside) {
        let Some(call) = self.asked(one.id).map(|(_, args)| inside.read(args)) else { return };
        match call {
            Ok(InsideCall::Todo(_)) => self.answer_use(one.id, one.id.answer),
            Ok(InsideCall::AskUser(_)) => {
                self.order(Some(id), Order::Question(QuestionOrder { tool_use: one.id }));
            }
            Ok(InsideCall::BashStop(stop)) => self.stop_background(one, stop.id),
            Ok(InsideCall::Spawn(wanted)) => self.delegate(id, one, &wanted),
            Err(why) => self.refuse(one.id, RefusalReason::BadArguments, why),
        }
    }

    pub(super) fn answer_use(&mut self, tool_use: ToolUse, from: EventRef) {
        self.emit(ArenaEvent::ToolAnswered(ToolAnswered { tool_use, from }));
    }

    /// Why an answer to a question cannot be taken, if so.
    pub(super) fn admit_reply(&self, data: &QuestionAnswered) -> Result<(), String> {
        match self.calls.get(&data.call) {
            Some(call) if matches!(call.order, Order::Question(_)) => match data.text.trim() {
                "" => Err("the answer is empty".to_owned()),
                _ => Ok(()),
            },
            _ => Err(format!("{} asks for nothing", data.call)),
        }
    }

    pub(super) fn due_reply(&self, data: &QuestionAnswered) -> Due {
        match self.calls.get(&data.call).map(|call| &call.order) {
            Some(Order::Question(order)) => Due::Replied(order.tool_use),
            _ => Due::Nothing,
        }
    }

    /// A person answered: the call has its result.
    pub(super) fn on_replied(&mut self, at: EventRef, tool_use: ToolUse) {
        self.answer_use(tool_use, at);
        self.wind_down();
        self.advance();
    }
}
