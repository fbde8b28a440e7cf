//! Connections that a running call waits for: judged like a call, asked about where no rule speaks, and answered while it
//! runs.

use crate::protocol::effect::{Order, PreparedUse};
use crate::protocol::event::{ArenaEvent, HostAsked, HostJudged, ToolUse};
use crate::protocol::need::Need;
use crate::protocol::spec::Action;
use crate::protocol::{CallId, Choice, EventRef};

use super::{Session, policy};

impl Session {
    /// `Err` says why nothing waits for the answer.
    pub(super) fn admit_host(&self, data: &HostAsked) -> Result<(), String> {
        let Some(open) = self.calls.get(&data.call) else { return Err(format!("{} is not open", data.call)) };
        let runs = matches!(&open.order, Order::Tool(order) if order.tool_use == data.tool_use);
        match data.plan.connection() {
            None => Err("it asks for something else than a host".to_owned()),
            Some(host) if host.name().contains("[secret:") => {
                Err("the name of the host holds a secret".to_owned())
            }
            Some(_) if !runs => Err(format!("{} was ordered for something else", data.call)),
            Some(_) if open.attempt != data.attempt || open.cancelled => {
                Err(format!("attempt {} of {} is not under way", data.attempt, data.call))
            }
            Some(_) => Ok(()),
        }
    }

    /// What follows from a connection without a rule: a grant that was given meanwhile, or a question.
    pub(super) fn on_host_asked(&mut self, at: EventRef, data: &HostAsked) {
        let tool = self.asked(data.tool_use).map(|(name, _)| name.to_owned()).unwrap_or_default();
        let Some(spark) = self.owner(data.tool_use) else { return };
        let ruling = self.rights(spark).map(|rights| policy::judge(&rights, &tool, &data.plan));
        match ruling {
            Some(ruling) if ruling.action == Action::Ask => {
                self.ask(spark, data.tool_use, at, data.plan.digest.clone());
            }
            Some(ruling) => self.settle_host(at, ruling.action, ruling.rule, String::new()),
            None => {}
        }
    }

    /// What a person's answer means for the call that waits.
    pub(super) fn on_host_answered(&mut self, asked: EventRef, choice: &Choice, by: String) {
        let (action, why) = match choice {
            Choice::Deny(why) => (Action::Deny, why.clone()),
            Choice::Unknown(_) => (Action::Deny, String::new()),
            Choice::Once | Choice::Session | Choice::Rule(_) => (Action::Allow, String::new()),
        };
        self.settle_host(asked, action, by, why);
    }

    fn settle_host(&mut self, asked: EventRef, action: Action, rule: String, why: String) {
        let Some(ArenaEvent::HostAsked(data)) = self.event(asked) else { return };
        let need = data.plan.connection().map(Need::name).unwrap_or_default().into_owned();
        let (call, tool_use) = (data.call, data.tool_use);
        self.emit(ArenaEvent::HostJudged(HostJudged { call, tool_use, asked, need, action, rule, why }));
    }

    /// Withdraws what a call asks for that has ended.
    pub(super) fn withdraw_asks(&mut self, ended: ToolUse) {
        let of =
            |order: &Order| matches!(order, Order::Ask(PreparedUse { tool_use, .. }) if *tool_use == ended);
        let open: Vec<CallId> =
            self.calls.iter().filter(|(_, call)| of(&call.order)).map(|(id, _)| *id).collect();
        open.into_iter().for_each(|ask| self.cancel(ask, "the call that waited has ended"));
    }
}
