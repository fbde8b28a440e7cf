//! A squad and the team cache: look up, apply, store if no other change interfered; touches no cache itself.
//!
//! Workspace recorded → fingerprinted → key looked up. A run that is found is judged by the policy and applied; else the
//! squad works, and its run is stored under the key.

mod fit;
mod fold;
pub mod key;

use crate::protocol::effect::{Bare, CacheGetOrder, CachePutOrder, Order, PatchOrder, PreparedUse};
use crate::protocol::event::{
    ArenaEvent, CacheSkipped, CacheStep, Plan, PolicyDecided, SparkCompleted, ToolUse, TurnCause,
    WorkspaceFingerprinted,
};
use crate::protocol::need::Need;
use crate::protocol::spec::{Action, Risk, Spec};
use crate::protocol::{CallId, Choice, EventRef, SparkId};
use crate::session::Session;
use crate::session::policy::{self, Ruling};

use super::state::Squad;

/// What the team cache is to the squad of the open turn.
#[derive(Clone, Debug, Default)]
pub struct Caching {
    /// How far it is.
    pub stage: Stage,
    /// The call that is awaited: an effect, or the ask whether the run that was found may be applied.
    pub awaited: Option<CallId>,
    /// What the workspace adds to the key.
    pub print: Option<WorkspaceFingerprinted>,
    /// The key.
    pub key: Option<String>,
    /// The `cache_hit`.
    pub hit: Option<EventRef>,
    /// True once the run that was found may be applied.
    pub approved: bool,
    /// The first reason why the run in this turn says nothing about the next one of its key.
    pub unfit: Option<String>,
}

/// How far a squad is with the team cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// The cache is not used in this turn.
    #[default]
    Off,
    /// The run is looked up, and judged where one is found.
    Looking,
    /// The run that was found was applied.
    Applied,
    /// The squad works.
    Over,
    /// The lead has answered; the run is stored.
    Closing,
    /// It was stored or not.
    Ended,
}

/// What is done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Fingerprint the workspace.
    Print,
    /// Look the run up.
    LookUp(String),
    /// Judge what was found.
    Judge,
    /// Apply it.
    Patch,
    /// Take it as this turn's answer.
    Use,
    /// Do without the cache here.
    Skip(CacheStep, String),
    /// Store the run.
    Store(Order),
    /// Close the turn.
    Close,
}

impl Caching {
    /// That of a squad that has not begun.
    pub fn of(spec: &Spec) -> Self {
        let stage = if spec.cache.is_some() { Stage::Looking } else { Stage::Off };
        Caching { stage, ..Caching::default() }
    }

    /// True while no role may begin: the run may not have to be made.
    pub fn is_looking(&self) -> bool {
        matches!(self.stage, Stage::Looking | Stage::Applied)
    }

    /// True once the lead has answered: what is left concerns the next run only.
    pub fn is_after_answer(&self) -> bool {
        matches!(self.stage, Stage::Closing | Stage::Ended)
    }

    /// True when the run may be stored, as far as is known.
    pub fn may_store(&self) -> bool {
        self.stage == Stage::Over && self.key.is_some() && self.unfit.is_none()
    }

    /// Keeps the first reason against storing the run.
    pub fn spoil(&mut self, reason: impl Into<String>) {
        self.unfit.get_or_insert_with(|| reason.into());
    }
}

impl Session {
    /// What is to be done about the cache before anything else, even in a turn that is being stopped: a squad
    /// whose answer is there has done its work.
    pub(super) fn last_cache_step(&self) -> Option<Next> {
        let cache = &self.squad.as_ref()?.cache;
        let closes = match cache.stage {
            Stage::Ended => true,
            Stage::Closing => cache.awaited.is_none() && self.turn_stop().is_some(),
            _ => false,
        };
        closes.then_some(Next::Close)
    }

    /// True when the turn ends only once its run was stored, or was found not to be fit for it.
    pub(super) fn is_to_be_stored(&self) -> bool {
        self.squad.as_ref().is_some_and(|squad| squad.cache.stage == Stage::Closing)
    }

    /// What is to be done about the cache now.
    pub(super) fn cache_step(&self) -> Option<Next> {
        let squad = self.squad.as_ref()?;
        let cache = &squad.cache;
        if cache.awaited.is_some() {
            return None;
        }
        match (cache.stage, cache.hit, &cache.unfit) {
            (Stage::Looking, Some(_), Some(reason)) => Some(Next::Skip(CacheStep::Use, reason.clone())),
            (Stage::Looking, Some(_), None) if cache.approved => Some(Next::Patch),
            (Stage::Looking, Some(_), None) => Some(Next::Judge),
            (Stage::Looking, None, Some(reason)) => Some(Next::Skip(CacheStep::Lookup, reason.clone())),
            (Stage::Looking, None, None) => self.lookup_step(squad),
            (Stage::Applied, ..) => Some(Next::Use),
            (Stage::Closing, ..) => Some(self.store_step(squad)),
            _ => None,
        }
    }

    fn lookup_step(&self, squad: &Squad) -> Option<Next> {
        let skip = |reason: &str| Some(Next::Skip(CacheStep::Lookup, reason.to_owned()));
        match (self.never_fit(), &squad.base, &squad.cache.print) {
            (Some(reason), ..) => skip(&reason),
            (_, None, _) if self.checkpoints.pending.is_some() => None,
            (_, None, _) => skip("the workspace could not be recorded"),
            (.., None) => Some(Next::Print),
            (.., Some(print)) => match self.this_key(print) {
                Some(key) => Some(Next::LookUp(key)),
                None => skip("what was said before is no longer known"),
            },
        }
    }

    fn store_step(&self, squad: &Squad) -> Next {
        if let Some(reason) = self.unfit_now(squad) {
            return Next::Skip(CacheStep::Store, reason);
        }
        let cache = &squad.cache;
        let lead = squad.roles.get(squad.lead);
        let seen = lead.filter(|lead| lead.proof.diff.flatten().is_some()).and(squad.shown.clone());
        match (&cache.key, &squad.base, seen, lead.and_then(|lead| lead.answer)) {
            (Some(key), Some(before), Some(after), Some(answer)) => {
                let git = cache.print.as_ref().and_then(|print| print.git.clone());
                let (key, before) = (key.clone(), before.clone());
                Next::Store(Order::CachePut(CachePutOrder { key, before, after, git, answer }))
            }
            _ => Next::Skip(CacheStep::Store, "the workspace could not be recorded".to_owned()),
        }
    }

    /// Does the next thing about the cache.
    pub(super) fn take_cache_step(&mut self, next: Next) {
        let lead = self.lead_spark();
        match next {
            Next::Print => drop(self.order(lead, Order::Fingerprint(Bare))),
            Next::LookUp(key) => drop(self.order(lead, Order::CacheGet(CacheGetOrder { key }))),
            Next::Judge => self.judge_hit(),
            Next::Patch => self.order_patch(),
            Next::Use => self.use_hit(),
            Next::Skip(step, reason) => self.skip_cache(step, reason),
            Next::Store(order) => drop(self.order(None, order)),
            Next::Close => {
                let answer = self.squad.as_ref().and_then(|squad| squad.roles.get(squad.lead)?.answer);
                self.close_turn(self.squad_cause(), answer);
            }
        }
    }

    /// Tells a put under way to stop when the turn is to end: its work is done without it.
    pub(in crate::session) fn stop_storing(&mut self) {
        let storing = self.squad.as_ref().filter(|squad| squad.cache.stage == Stage::Closing);
        if let Some(call) = storing.and_then(|squad| squad.cache.awaited)
            && self.turn_stop().is_some()
        {
            self.cancel(call, "the turn is to end");
        }
    }

    fn skip_cache(&mut self, step: CacheStep, reason: String) {
        self.emit(ArenaEvent::CacheSkipped(CacheSkipped { step, reason }));
        self.record_base();
    }

    /// Holds what was found against the policy, as the writes that it is.
    fn judge_hit(&mut self) {
        let Some((hit, plan)) = self.hit_plan() else { return };
        if plan.needs.is_empty() {
            return self.use_hit();
        }
        let tool_use = of_hit(hit);
        let (path, ruling) = self.ruling_on(&plan);
        let (action, rule) = (ruling.action, ruling.rule.clone());
        self.emit(ArenaEvent::PolicyDecided(PolicyDecided { tool_use, prepared: hit, action, rule }));
        match action {
            Action::Allow => {}
            Action::Ask => {
                let Some(lead) = self.lead_spark() else { return };
                self.ask(lead, tool_use, hit, plan.digest);
            }
            Action::Deny | Action::Unknown(_) => {
                let reason = format!("the policy forbids to write `{path}` (rule `{}`)", ruling.rule);
                self.skip_cache(CacheStep::Use, reason);
            }
        }
    }

    /// The strictest ruling on a path of the patch. Each path is judged by the mildest word on any tool with
    /// which this squad writes: what one of them may do unasked, a patch may.
    fn ruling_on(&self, plan: &Plan) -> (String, Ruling) {
        let (rule, line) = (String::new(), policy::Line::Level);
        let asks = Ruling { action: Action::Ask, rule, why: None, line };
        let rights = self.lead_spark().and_then(|lead| self.rights(lead));
        let (Some(spec), Some(squad), Some(rights)) = (&self.spec, &self.squad, rights) else {
            return (String::new(), asks);
        };
        // A role that writes does, whatever the lead may do.
        let rights = policy::Rights { read_only: false, ..rights };
        let writing = spec.tools.iter().filter(|tool| tool.risk == Risk::Write);
        let writing = writing.filter(|tool| squad.roles.iter().any(|role| role.tools.contains(&tool.name)));
        let names: Vec<&str> = writing.map(|tool| tool.name.as_str()).collect();
        let rulings = plan.paths().map(|path| {
            let alone = Plan { needs: vec![Need::Write(path.clone())], ..plan.clone() };
            let words = names.iter().map(|tool| policy::judge(&rights, tool, &alone));
            (path.path.clone(), words.min_by_key(|ruling| ruling.action).unwrap_or_else(|| asks.clone()))
        });
        rulings.max_by_key(|(_, ruling)| ruling.action).unwrap_or((String::new(), asks.clone()))
    }

    fn order_patch(&mut self) {
        let lead = self.lead_spark();
        let key = self.squad.as_ref().and_then(|squad| squad.cache.key.clone());
        if let (Some((_, plan)), Some(key)) = (self.hit_plan(), key) {
            self.order(lead, Order::Patch(PatchOrder { key, digest: plan.digest }));
        }
    }

    /// The recorded answer is this turn's. What was applied is recorded, beside whatever comes next.
    fn use_hit(&mut self) {
        let (Some((hit, plan)), Some(spark)) = (self.hit_plan(), self.lead_spark()) else { return };
        if !plan.needs.is_empty() && self.stopping.is_none() {
            self.record_workspace();
        }
        let (cause, answer) = (TurnCause::Done, Some(hit));
        self.emit(ArenaEvent::SparkCompleted(SparkCompleted { spark, cause, answer }));
        self.close_turn(cause, answer);
    }

    /// True for the tool call that stands for applying the run that was found.
    pub(in crate::session) fn is_hit(&self, tool_use: ToolUse) -> bool {
        let hit = self.squad.as_ref().and_then(|squad| squad.cache.hit);
        hit.is_some_and(|hit| of_hit(hit) == tool_use)
    }

    /// A person has said whether the run that was found may be applied.
    pub(in crate::session) fn on_hit_answered(&mut self, choice: &Choice, by: &str) {
        if let Choice::Deny(words) = choice {
            let words = if words.trim().is_empty() { "no reason was given" } else { words.trim() };
            self.skip_cache(CacheStep::Use, format!("{by} said no: {words}"));
        }
        self.advance();
    }

    /// True for a call that concerns the cache and that nothing waits for any more.
    pub(in crate::session) fn is_stale_cache_call(&self, call: CallId) -> bool {
        let concerns = match self.calls.get(&call).map(|open| &open.order) {
            Some(Order::Ask(PreparedUse { prepared, .. })) => {
                matches!(self.event(*prepared), Some(ArenaEvent::CacheHit(_)))
            }
            Some(Order::Fingerprint(_) | Order::CacheGet(_) | Order::CachePut(_) | Order::Patch(_)) => true,
            _ => false,
        };
        concerns && self.squad.as_ref().is_none_or(|squad| squad.cache.awaited != Some(call))
    }

    fn hit_plan(&self) -> Option<(EventRef, Plan)> {
        let hit = self.squad.as_ref()?.cache.hit?;
        Some((hit, self.plan(hit)?.clone()))
    }

    fn lead_spark(&self) -> Option<SparkId> {
        let squad = self.squad.as_ref()?;
        squad.roles.get(squad.lead)?.spark
    }
}

/// What a patch is called where tool calls are named.
fn of_hit(hit: EventRef) -> ToolUse {
    ToolUse { answer: hit, part: 0 }
}
