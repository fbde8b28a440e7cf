//! Whether a fact can be taken now: late outcomes are ignored, wishes that make no sense are refused.

use std::borrow::Cow;

use crate::protocol::blueprint;
use crate::protocol::effect::{Order, PreparedUse};
use crate::protocol::event::{
    ApprovalAnswered, ArenaEvent, InputRefused, OutcomeIgnored, Plan, PromptGiven, ToolUse,
};
use crate::protocol::spec::{Mode, PermissionLevel, Policy, Rule, Setting};
use crate::protocol::{CallId, Choice, EventRef, SparkId};

use super::{Session, policy};

impl Session {
    /// `Err` says why the fact is void.
    pub(super) fn admit(&self, fact: &ArenaEvent) -> Result<(), Void> {
        match fact.answers() {
            Some((call, attempt)) => self.admit_outcome(call, attempt, fact).map_err(Void::Late),
            None => match fact {
                ArenaEvent::HostAsked(data) => self.admit_host(data).map_err(Void::Late),
                wish => self.admit_wish(wish).map_err(Void::Refused),
            },
        }
    }

    fn admit_outcome(&self, call: CallId, attempt: u32, fact: &ArenaEvent) -> Result<(), String> {
        let Some(open) = self.calls.get(&call) else { return Err(format!("{call} is not open")) };
        if open.is_waiting() || open.attempt != attempt {
            return Err(format!("attempt {attempt} of {call} is not under way"));
        }
        if let (Order::Gate(order), ArenaEvent::GateAnswered(data)) = (&open.order, fact)
            && order.digest != data.body.digest
        {
            return Err("the verdict is on another call".to_owned());
        }
        match open.order.takes(fact) {
            true => Ok(()),
            false => Err(format!("{call} was ordered for something else")),
        }
    }

    fn admit_wish(&self, fact: &ArenaEvent) -> Result<(), String> {
        use ArenaEvent as E;
        let opens = matches!(fact, E::SessionOpened(_));
        if opens != self.spec.is_none() && !matches!(fact, E::FaultRecovered(_)) {
            let state = if opens { "already" } else { "not" };
            return Err(format!("the session is {state} open"));
        }
        let fits_sealed = matches!(
            fact,
            E::SessionResumed(_) | E::SessionForked(_) | E::FaultRecovered(_) | E::TurnRewound(_)
        );
        if self.sealed.is_some() && !fits_sealed {
            return Err("the session is sealed; resume it first".to_owned());
        }
        match fact {
            E::PromptGiven(data) if data.text.trim().is_empty() => Err("the prompt is empty".to_owned()),
            E::PromptGiven(_) if self.turn.is_some() => {
                Err("a turn is open; steer it, or interrupt it first".to_owned())
            }
            E::PromptGiven(_) if self.stopping.is_some() => Err("the session is stopping".to_owned()),
            E::PromptGiven(data) => self.admit_mode(data),
            E::SteeringGiven(data) => self.admit_spark(data.spark, "steer"),
            E::InterruptRequested(data) => {
                self.admit_stop(data).unwrap_or_else(|| self.admit_spark(data.spark, "interrupt"))
            }
            E::TurnRewound(data) => self.admit_rewound(data),
            E::ApprovalAnswered(data) => self.admit_approval(data),
            E::QuestionAnswered(data) => self.admit_reply(data),
            E::SessionOpened(data) if data.spec.personas.is_empty() || data.spec.models.is_empty() => {
                Err("a session needs a persona and a model".to_owned())
            }
            E::SettingsChanged(data)
                if self.squad.is_some() && self.turn.is_some() && plans(&data.changed) =>
            {
                Err("a squad is at work; the level `plan` can be set once its turn is over".to_owned())
            }
            E::SettingsChanged(data) => admit_settings(&data.changed),
            E::StopRequested(_) if self.stopping.is_some() => {
                Err("the session is stopping already".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn admit_mode(&self, data: &PromptGiven) -> Result<(), String> {
        let Some(spec) = self.spec.as_deref() else { return Ok(()) };
        let mut spec = Cow::Borrowed(spec);
        data.changed.iter().for_each(|setting| spec.to_mut().set(setting));
        match (&data.mode, &spec.blueprint) {
            (Mode::Solo, _) => Ok(()),
            (Mode::Squad, _) if spec.permission == PermissionLevel::Plan => {
                Err("a squad writes, and the permission level is `plan`; raise it first".to_owned())
            }
            // A squad can only follow a blueprint that fits the session, whoever made it.
            (Mode::Squad, Some(_)) => {
                blueprint::check_spec(&spec).map_err(|fault| format!("the blueprint: {fault}"))
            }
            (Mode::Squad, None) => Err("the session has no blueprint for a squad".to_owned()),
            (Mode::Debate(plan), _) => self.admit_debate(plan, &spec),
            (Mode::Unknown(_), _) => Err("this agon does not know the mode".to_owned()),
        }
    }

    fn admit_spark(&self, spark: Option<SparkId>, verb: &str) -> Result<(), String> {
        match spark {
            Some(id) if self.sparks.get(&id).is_none_or(|spark| spark.completed.is_some()) => {
                Err(format!("there is no {id} at work to {verb}"))
            }
            None if self.turn.is_none() => Err(format!("no turn is open; there is nothing to {verb}")),
            _ => Ok(()),
        }
    }

    /// A rule granted with an answer must allow, be readable, and cover the very call it answers.
    fn admit_rule(&self, rule: &Rule, tool_use: ToolUse, prepared: EventRef) -> Result<(), String> {
        let alone = Policy { rules: vec![rule.clone()] };
        policy::check(&alone)?;
        let tool = self.asked(tool_use).map(|(name, _)| name).unwrap_or_default();
        let plan = self.plan(prepared);
        // What leaves the sandbox is granted as it was shown; hosts by a pattern as well.
        let shown = plan.map(|plan| Rule::granting("", tool, plan).needs).unwrap_or_default();
        let hosts = shown.iter().any(|need| need.starts_with("host:"));
        let is_shown = |need: &&String| shown.contains(need) || (hosts && need.starts_with("host:"));
        if let Some(need) = rule.needs.iter().find(|need| !is_shown(need)) {
            return Err(format!("the rule `{}` speaks of `{need}`, which was not asked about", rule.name));
        }
        if plan.is_some_and(|plan| policy::allows(&alone, tool, plan)) {
            return Ok(());
        }
        let line = plan.and_then(Plan::command);
        let why = match line.is_none_or(|line| policy::understood(line).is_some()) {
            true => "",
            false => {
                ": a pattern allows plain commands, and this line does more; allow the whole line as it is"
            }
        };
        Err(format!("the rule `{}` does not allow the call it answers{why}", rule.name))
    }

    fn admit_approval(&self, data: &ApprovalAnswered) -> Result<(), String> {
        match self.calls.get(&data.call).map(|call| &call.order) {
            Some(Order::Ask(PreparedUse { digest, tool_use, prepared })) if *digest == data.digest => {
                match &data.choice {
                    Choice::Rule(rule) => self.admit_rule(rule, *tool_use, *prepared),
                    Choice::Once | Choice::Session | Choice::Deny(_) => Ok(()),
                    Choice::Unknown(_) => Err("this agon does not know the answer".to_owned()),
                }
            }
            Some(Order::Ask(_)) => {
                Err(format!("the answer is for other content than {} asks about", data.call))
            }
            _ => Err(format!("{} asks for nothing", data.call)),
        }
    }
}

fn plans(changed: &[Setting]) -> bool {
    changed.iter().any(|setting| matches!(setting, Setting::Permission(PermissionLevel::Plan)))
}

fn admit_settings(changed: &[Setting]) -> Result<(), String> {
    changed.iter().try_for_each(|setting| match setting {
        Setting::Policy(wanted) => policy::check(wanted),
        _ => Ok(()),
    })
}

/// Why a fact changes nothing.
pub(super) enum Void {
    /// An outcome nobody waits for.
    Late(String),
    /// A wish that makes no sense now.
    Refused(String),
}

impl Void {
    /// The decision that says so.
    pub fn into_event(self) -> ArenaEvent {
        match self {
            Void::Late(reason) => ArenaEvent::OutcomeIgnored(OutcomeIgnored { reason }),
            Void::Refused(reason) => ArenaEvent::InputRefused(InputRefused { reason }),
        }
    }
}
