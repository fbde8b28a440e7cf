//! Routes each kind of fact to what decides upon it; the rules themselves are elsewhere.

use crate::protocol::effect::{Order, PrepareOrder, PreparedUse, TimerPurpose};
use crate::protocol::event::{
    ApprovalAnswered, ArenaEvent, FailStatus, HostAsked, InterruptRequested, LimitKind, LimitReached,
    ModelFailed, PrepareResult, RefusalReason, ToolUse, TurnRewound,
};
use crate::protocol::spec::{PermissionLevel, Setting};
use crate::protocol::{CallId, Choice, EventRef, SparkId};

use super::Session;
use super::model::AnsweredCall;
use super::resume::TakeUp;

/// What a decision needs to know of a fact, taken before the fold closes the call it answers.
pub(super) enum Due {
    Nothing,
    TakeUp { how: TakeUp, changed: Vec<Setting>, active_ms: u64 },
    Prompt,
    Steering { spark: Option<SparkId>, text: String },
    Planning,
    Mentioned(Option<SparkId>),
    Wind,
    Rewound(TurnRewound),
    Approval { tool_use: ToolUse, prepared: EventRef, answered: ApprovalAnswered },
    Connection(HostAsked),
    Replied(ToolUse),
    Gated(ToolUse),
    BackgroundEnded(Vec<ToolUse>),
    StopBackground(CallId),
    Answer(Box<AnsweredCall>),
    Failure { call: CallId, attempt: u32, failed: ModelFailed },
    Prepared { tool_use: ToolUse, result: PrepareResult },
    PrepareFailed { tool_use: ToolUse, error: String, cancelled: bool },
    Resolved(ToolUse),
    Checkpoint { before: Option<String>, now: Option<String> },
    Ended,
    RetryTimer(CallId),
    TurnTimer { active_ms: u64 },
}

impl Session {
    /// Reads off what will have to be decided, before the fact is folded.
    pub(super) fn due(&self, fact: &ArenaEvent) -> Due {
        use ArenaEvent as E;
        match fact {
            E::SessionResumed(data) => {
                Due::TakeUp { how: TakeUp::Resume, changed: data.changed.clone(), active_ms: data.active_ms }
            }
            E::SessionForked(data) => {
                let how = TakeUp::Fork { awaits: data.awaits, goes_on: data.goes_on };
                Due::TakeUp { how, changed: data.changed.clone(), active_ms: data.active_ms }
            }
            E::PromptGiven(_) => Due::Prompt,
            E::SettingsChanged(data) if self.begins_to_plan(&data.changed) => Due::Planning,
            E::SteeringGiven(data) => Due::Steering { spark: data.spark, text: data.text.clone() },
            E::MentionExpanded(data) => self.due_mentioned(data.call),
            E::ToolsListed(_) => Due::Mentioned(None),
            E::InterruptRequested(InterruptRequested { call: Some(call), .. }) => Due::StopBackground(*call),
            E::BackgroundEnded(data) => self.due_background(data.call),
            E::StopRequested(_) | E::InterruptRequested(_) => Due::Wind,
            E::TurnRewound(data) => Due::Rewound(data.clone()),
            E::ApprovalAnswered(data) => self.due_approval(data),
            E::HostAsked(data) => Due::Connection(data.clone()),
            E::QuestionAnswered(data) => self.due_reply(data),
            E::ModelAnswered(data) => AnsweredCall::before(self, data.call, data.attempt, &data.body)
                .map_or(Due::Nothing, |answered| Due::Answer(Box::new(answered))),
            E::ModelFailed(data) => {
                Due::Failure { call: data.call, attempt: data.attempt, failed: data.body.clone() }
            }
            E::ToolPrepared(data) => {
                Due::Prepared { tool_use: data.body.tool_use, result: data.body.result.clone() }
            }
            E::GateAnswered(data) => Due::Gated(data.body.tool_use),
            E::ToolResolved(data) => Due::Resolved(data.body.tool_use),
            E::WorkspaceCheckpointed(data) => self.due_checkpoint(data.call, Some(data.body.tree.clone())),
            E::EffectFailed(data) => self.due_effect_failed(data.call, data.body.status, &data.body.error),
            E::TimerFired(data) => self.due_timer(data.call, data.body.active_ms),
            other if other.answers().is_some() => Due::Ended,
            _ => Due::Nothing,
        }
    }

    /// True where an open turn becomes one that changes nothing.
    fn begins_to_plan(&self, changed: &[Setting]) -> bool {
        let plans = |setting: &Setting| matches!(setting, Setting::Permission(PermissionLevel::Plan));
        let before = self.spec.as_ref().map(|spec| spec.permission);
        before != Some(PermissionLevel::Plan) && self.turn.is_some() && changed.iter().any(plans)
    }

    fn on_planning(&mut self) {
        let open = self.sparks.iter().filter(|(_, spark)| spark.completed.is_none() && spark.talks(None));
        let open: Vec<SparkId> = open.map(|(id, _)| *id).collect();
        open.into_iter().for_each(|id| self.brief_on_plan(id));
    }

    fn due_approval(&self, data: &ApprovalAnswered) -> Due {
        match self.calls.get(&data.call).map(|call| &call.order) {
            Some(Order::Ask(PreparedUse { tool_use, prepared, .. })) => {
                Due::Approval { tool_use: *tool_use, prepared: *prepared, answered: data.clone() }
            }
            _ => Due::Nothing,
        }
    }

    fn due_checkpoint(&self, call: CallId, now: Option<String>) -> Due {
        match self.checkpoints.pending == Some(call) {
            true => Due::Checkpoint { before: self.checkpoints.compare.clone(), now },
            false => Due::Wind,
        }
    }

    fn due_effect_failed(&self, call: CallId, status: FailStatus, error: &str) -> Due {
        match self.calls.get(&call).map(|open| &open.order) {
            Some(Order::Prepare(PrepareOrder { tool_use })) => Due::PrepareFailed {
                tool_use: *tool_use,
                error: error.to_owned(),
                cancelled: status == FailStatus::Cancelled,
            },
            Some(Order::Gate(order)) => Due::Gated(order.tool_use),
            Some(Order::Checkpoint(_)) => self.due_checkpoint(call, None),
            Some(Order::Mention(_) | Order::Tools(_)) => self.due_mentioned(call),
            _ => Due::Ended,
        }
    }

    fn due_mentioned(&self, call: CallId) -> Due {
        Due::Mentioned(self.calls.get(&call).and_then(|open| open.spark))
    }

    fn due_timer(&self, timer: CallId, active_ms: u64) -> Due {
        match (self.timer_purpose(timer), self.waiting_for(timer)) {
            (Some(TimerPurpose::Retry), Some(call)) => Due::RetryTimer(call),
            (Some(TimerPurpose::TurnLimit), _) => Due::TurnTimer { active_ms },
            (Some(TimerPurpose::Loads), _) => Due::Mentioned(None),
            _ => Due::Nothing,
        }
    }

    /// Decides what follows from the fact that was just folded.
    pub(super) fn decide(&mut self, due: Due) {
        let at = EventRef::fact(self.next_seq);
        match due {
            Due::Nothing => {}
            Due::TakeUp { how, changed, active_ms } => self.take_up(how, &changed, active_ms),
            Due::Prompt => self.open_turn(),
            Due::Steering { spark, text } => self.read_for_steering(spark, &text),
            Due::Planning => self.on_planning(),
            Due::Mentioned(spark) => self.on_mentioned(spark),
            Due::Wind => self.wind_down(),
            Due::BackgroundEnded(stopped_by) => self.on_background_ended(at, stopped_by),
            Due::StopBackground(call) => self.cancel(call, "the person stopped it"),
            Due::Rewound(data) => self.on_rewound(&data),
            Due::Approval { tool_use, prepared, answered } => self.on_approval(tool_use, prepared, answered),
            Due::Connection(asked) => self.on_host_asked(at, &asked),
            Due::Gated(tool_use) => self.on_gated(tool_use),
            Due::Replied(tool_use) => self.on_replied(at, tool_use),
            Due::Answer(answered) => self.on_answer(at, &answered),
            Due::Failure { call, attempt, failed } => self.on_failure(at, call, attempt, &failed),
            Due::Prepared { tool_use, result } => self.on_prepared(at, tool_use, result),
            Due::PrepareFailed { tool_use, error, cancelled } => {
                let reason = if cancelled { RefusalReason::Cancelled } else { RefusalReason::Unfit };
                self.refuse(tool_use, reason, error);
                self.wind_down();
                self.advance();
            }
            Due::Resolved(tool_use) => self.on_resolved(tool_use),
            Due::Checkpoint { before: Some(before), now: Some(now) } => self.on_compared(&before, &now),
            Due::Checkpoint { before: Some(_), now: None } => self.go_on(),
            Due::Ended | Due::Checkpoint { before: None, .. } => {
                self.wind_down();
                self.advance();
            }
            Due::RetryTimer(call) => self.repeat_model_call(call),
            Due::TurnTimer { active_ms } => self.on_turn_timer(active_ms),
        }
    }

    fn on_approval(&mut self, tool_use: ToolUse, prepared: EventRef, answered: ApprovalAnswered) {
        if matches!(self.event(prepared), Some(ArenaEvent::HostAsked(_))) {
            return self.on_host_answered(prepared, &answered.choice, answered.by);
        }
        if self.is_hit(tool_use) {
            return self.on_hit_answered(&answered.choice, &answered.by);
        }
        if let Choice::Deny(words) = answered.choice {
            let words = if words.trim().is_empty() { "no reason was given".to_owned() } else { words };
            self.refuse(tool_use, RefusalReason::Denied, format!("{} said no: {words}", answered.by));
        }
        self.advance();
    }

    fn on_turn_timer(&mut self, active_ms: u64) {
        let max = self.spec.as_ref().and_then(|spec| spec.limits.max_seconds).unwrap_or_default();
        self.reach(LimitReached::new(LimitKind::Seconds, active_ms / 1000, max));
    }
}
