//! Commands in the background: ordered with the call that starts them, waited for by no spark, ended with the session.

use crate::protocol::CallId;
use crate::protocol::effect::{BackgroundOrder, Order};
use crate::protocol::event::{
    ArenaEvent, BackgroundEnded, InterruptRequested, Notice, RefusalReason, ToolStatus, ToolUse,
};
use crate::protocol::inside::{Inside, InsideCall};
use crate::protocol::message::Args;
use crate::protocol::spec::Mode;
use crate::protocol::text::cut_middle;
use crate::protocol::{EventRef, SparkId};

use super::Session;
use super::state::{Call, Use, UseState};

/// Most of them at once.
const MOST: usize = 8;
/// Most ends that wait for a turn in which they can be told.
const MOST_TOLD: usize = 16;
/// Bytes of a command line that people see of it.
const SHOWN: usize = 200;

pub(super) const GONE: &str =
    "agon was stopped or the session was copied, so it does not run here; start it again if it is needed";

impl Session {
    /// True for a call that is to keep running.
    fn keeps_running(&self, tool_use: ToolUse) -> bool {
        matches!(self.asked(tool_use), Some(("bash", Args::Json(args))) if args["background"] == true)
    }

    /// Those that run: the call, and what was ordered.
    fn in_background(&self) -> impl Iterator<Item = (CallId, &BackgroundOrder, &Call)> {
        self.calls.iter().filter_map(|(id, call)| match &call.order {
            Order::Background(order) => Some((*id, order, call)),
            _ => None,
        })
    }

    /// Why a call may not keep running, if so.
    pub(super) fn may_not_stay(&self, one: &Use) -> Option<(RefusalReason, String)> {
        if !self.keeps_running(one.id) {
            return None;
        }
        if self.turn.as_ref().is_some_and(|turn| turn.mode != Mode::Solo) {
            let text = "in a squad or a debate no command runs in the background; run it to its end";
            return Some((RefusalReason::Unfit, text.to_owned()));
        }
        let text = format!("at most {MOST} commands run in the background; end one with `bash_stop` first");
        (self.in_background().count() >= MOST).then_some((RefusalReason::Limit, text))
    }

    /// Orders what a call that is invoked now starts.
    pub(super) fn order_background(&mut self, spark: SparkId, one: &Use) {
        let Some((_, Args::Json(args))) = self.asked(one.id) else { return };
        if self.keeps_running(one.id) {
            let command = cut_middle(args["command"].as_str().unwrap_or_default().trim(), SHOWN).0;
            let order = BackgroundOrder { tool_use: one.id, command, place: self.place_of(spark) };
            self.order(None, Order::Background(order));
        }
    }

    /// A call that did not start its command leaves nothing that waits for it.
    pub(super) fn end_unstarted(&mut self, tool_use: ToolUse) {
        let end = self.use_mut(tool_use).map(|one| one.state);
        let Some(UseState::Closed(end)) = end else { return };
        let is_started = matches!(self.event(end), Some(ArenaEvent::ToolResolved(end)) if end.body.status == ToolStatus::Ok);
        let of = self.in_background().find(|(_, order, _)| order.tool_use == tool_use).map(|(id, ..)| id);
        if let Some(call) = of.filter(|_| !is_started) {
            self.cancel(call, "it was not started");
        }
    }

    /// A call of `bash_stop`: its result is the end of what it names.
    pub(super) fn stop_background(&mut self, one: &Use, id: u64) {
        let call = CallId(id);
        if self.in_background().any(|(running, ..)| running == call) {
            return self.cancel(call, "the agent stopped it");
        }
        let running: Vec<String> =
            self.in_background().map(|(id, order, _)| format!("{} (`{}`)", id.0, order.command)).collect();
        let running = if running.is_empty() { "nothing".to_owned() } else { running.join(", ") };
        let text = format!("no command runs in the background as {id}; running: {running}");
        self.refuse(one.id, RefusalReason::BadArguments, text);
    }

    /// A person stops one.
    pub(super) fn admit_stop(&self, data: &InterruptRequested) -> Option<Result<(), String>> {
        let call = data.call?;
        let runs = self.in_background().any(|(id, _, of)| id == call && !of.cancelled);
        Some(if runs { Ok(()) } else { Err(format!("no command runs in the background as {}", call.0)) })
    }

    /// The calls of `bash_stop` that wait for one to end.
    fn stops_of(&self, call: CallId) -> Vec<ToolUse> {
        let uses = self.sparks.values().flat_map(|spark| &spark.uses);
        let names = |one: &&Use| {
            one.state == UseState::Waiting
                && self.inside(one) == Some(Inside::BashStop)
                && matches!(self.asked(one.id).map(|(_, args)| Inside::BashStop.read(args)),
                    Some(Ok(InsideCall::BashStop(stop))) if stop.id == call.0)
        };
        uses.filter(names).map(|one| one.id).collect()
    }

    /// The end of one is folded: what is to be told of it.
    pub(super) fn fold_background(&mut self, call: CallId, end: &BackgroundEnded) {
        if let Some(Call { order: Order::Background(order), .. }) = self.calls.remove(&call)
            && !end.known
            && self.stops_of(call).is_empty()
        {
            self.tell_later(call, &order.command, &end.words());
        }
    }

    /// One that a resume or a copy finds is gone.
    pub(super) fn fold_background_lost(&mut self, call: CallId, order: &BackgroundOrder) {
        self.tell_later(call, &order.command, GONE);
    }

    fn tell_later(&mut self, call: CallId, command: &str, how: &str) {
        let text = format!("Command {} in the background (`{command}`) has ended: {how}", call.0);
        self.ended.push(text);
        let surplus = self.ended.len().saturating_sub(MOST_TOLD);
        self.ended.drain(..surplus);
    }

    /// One has ended: whoever stopped it has its result, and the agent that talks with the person hears of it.
    pub(super) fn on_background_ended(&mut self, at: EventRef, stopped_by: Vec<ToolUse>) {
        stopped_by.into_iter().for_each(|stop| self.answer_use(stop, at));
        self.tell_of_ended();
        self.wind_down();
        self.advance();
    }

    /// The calls that wait for the end of a call.
    pub(super) fn due_background(&self, call: CallId) -> super::decide::Due {
        super::decide::Due::BackgroundEnded(self.stops_of(call))
    }

    /// Says which have ended since, to the agent of an open turn.
    pub(super) fn tell_of_ended(&mut self) {
        let open = self.sparks.iter().find(|(_, spark)| spark.completed.is_none() && spark.talks(None));
        let Some(id) = open.map(|(id, _)| *id).filter(|_| self.turn.is_some()) else { return };
        for text in std::mem::take(&mut self.ended) {
            self.notice(id, Notice::Background, &text);
        }
    }
}
