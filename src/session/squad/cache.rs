//! A squad and the team cache: its run is looked up before it works and stored afterwards; touches no cache itself.
//!
//! Workspace fingerprinted → key looked up → workspace recorded → fingerprinted again. Only when both
//! fingerprints are alike is the recorded tree the one the key speaks of: a run that was found is then judged
//! by the policy and applied, and a run that is made from here on may be stored under the key.

mod fit;
mod fold;
pub mod key;

use std::collections::BTreeSet;

use crate::protocol::effect::{Bare, CacheGetOrder, CachePutOrder, Order, PatchOrder, PreparedUse};
use crate::protocol::event::{
    ArenaEvent, CacheSkipped, CacheStep, PathBase, Plan, PolicyDecided, SparkCompleted, ToolUse, TurnCause,
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
    /// Fingerprint and state of `.git` that the key is made of.
    pub print: Option<(String, Option<String>)>,
    /// The key.
    pub key: Option<String>,
    /// The `cache_hit`.
    pub hit: Option<EventRef>,
    /// True once a person allowed the run that was found.
    pub approved: bool,
    /// The first reason why the run in this turn says nothing about the next one of its key.
    pub unfit: Option<String>,
    /// The tree as it was seen last, as long as nobody of the squad may have changed it since.
    pub known: Option<String>,
    /// Calls under way whose tree no call of the squad can have changed meanwhile.
    pub looking: BTreeSet<CallId>,
    /// True when time has passed since the tree was seen, so that a call that writes needs another look first.
    pub stale: bool,
    /// Every tree that was recorded in this turn.
    pub trees: BTreeSet<String>,
    /// What the squad's own file tools looked at or wrote, with what each held then.
    pub held: BTreeSet<(String, Option<String>)>,
}

/// How far a squad is with the team cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// The cache is not used in this turn.
    #[default]
    Off,
    /// Nothing is done yet.
    Begun,
    /// The workspace is fingerprinted.
    Printing,
    /// It was, or could not be.
    Printed,
    /// The run is looked up.
    Looking,
    /// It was found or not; the workspace is to be recorded.
    Looked,
    /// The workspace is recorded.
    Recording,
    /// It was; the fingerprint is to be taken again.
    Recorded,
    /// It is taken again.
    Binding,
    /// The run that was found is to be judged.
    Bound,
    /// A person is asked.
    Asking,
    /// The run that was found may be applied.
    Allowed,
    /// It is applied.
    Patching,
    /// It was applied.
    Patched,
    /// The squad works.
    Over,
    /// The lead has answered.
    Closing,
    /// The run is stored.
    Storing,
    /// It was stored or not.
    Ended,
}

/// What is done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Fingerprint the workspace.
    Print,
    /// Look the run up.
    LookUp,
    /// Record the workspace.
    Record,
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
        let stage = if spec.cache.is_some() { Stage::Begun } else { Stage::Off };
        Caching { stage, ..Caching::default() }
    }

    /// True while no role may begin: the run may not have to be made.
    pub fn holds_roles(&self) -> bool {
        match self.stage {
            Stage::Off | Stage::Over | Stage::Closing | Stage::Storing | Stage::Ended => false,
            Stage::Begun | Stage::Printing | Stage::Printed | Stage::Looking => true,
            _ => self.hit.is_some(),
        }
    }

    /// True while nobody may write: what the workspace holds is still being found out.
    pub fn holds_writers(&self) -> bool {
        self.holds_roles()
            || matches!(self.stage, Stage::Looked | Stage::Recording | Stage::Recorded | Stage::Binding)
    }

    /// True once the lead has answered: what is left concerns the next run only.
    pub fn is_after_answer(&self) -> bool {
        matches!(self.stage, Stage::Closing | Stage::Storing | Stage::Ended)
    }

    /// True when the workspace is to be looked at before somebody of the squad changes it: what changed since the
    /// last look, nobody of the squad did.
    pub fn wants_look(&self) -> bool {
        self.stale && self.stage == Stage::Over && self.key.is_some() && self.unfit.is_none()
    }

    /// What the squad's own file tools looked at or wrote.
    pub fn held(&self) -> Vec<PathBase> {
        let base = |(path, sha256): &(String, Option<String>)| PathBase {
            path: path.clone(),
            sha256: sha256.clone(),
        };
        self.held.iter().map(base).collect()
    }

    /// True when the run may be stored, as far as is known.
    pub fn may_store(&self) -> bool {
        self.stage == Stage::Over && self.key.is_some() && self.unfit.is_none()
    }

    /// Keeps the first reason against storing the run.
    fn spoil(&mut self, reason: impl Into<String>) {
        self.unfit.get_or_insert_with(|| reason.into());
    }
}

impl Session {
    /// Begins with the lookup when the cache is on. The lead is there from the start, so that whoever steers or
    /// interrupts a lookup has somebody to talk to.
    pub(super) fn begin_lookup(&mut self) {
        let Some(squad) = self.squad.as_ref().filter(|squad| squad.cache.stage == Stage::Begun) else {
            return;
        };
        let lead = squad.lead;
        self.ignite(lead);
    }

    /// What is to be done about the cache before anything else, even in a turn that is being stopped: a squad
    /// whose answer is there has done its work.
    pub(super) fn last_cache_step(&self) -> Option<Next> {
        let squad = self.squad.as_ref()?;
        match squad.cache.stage {
            Stage::Ended => Some(Next::Close),
            Stage::Closing if self.turn_stop().is_some() => Some(Next::Close),
            _ => None,
        }
    }

    /// True when the turn ends only once its run was stored, or was found not to be fit for it.
    pub(super) fn is_to_be_stored(&self) -> bool {
        self.squad.as_ref().is_some_and(|squad| squad.cache.stage == Stage::Closing)
    }

    /// What is to be done about the cache now.
    pub(super) fn cache_step(&self) -> Option<Next> {
        let squad = self.squad.as_ref()?;
        let cache = &squad.cache;
        let skip = |step, reason: &str| Some(Next::Skip(step, reason.to_owned()));
        match cache.stage {
            Stage::Begun => match self.never_fit() {
                Some(reason) => Some(Next::Skip(CacheStep::Lookup, reason)),
                None => Some(Next::Print),
            },
            Stage::Printed if cache.print.is_none() => {
                skip(CacheStep::Lookup, "the workspace could not be fingerprinted")
            }
            Stage::Printed => Some(Next::LookUp),
            Stage::Looked if self.checkpoints.pending.is_none() => Some(Next::Record),
            Stage::Recorded => Some(Next::Print),
            Stage::Bound => match &cache.unfit {
                Some(reason) => skip(CacheStep::Use, reason),
                None => Some(Next::Judge),
            },
            Stage::Allowed => Some(Next::Patch),
            Stage::Patched => Some(Next::Use),
            Stage::Closing => self.store_step(squad),
            _ => None,
        }
    }

    fn store_step(&self, squad: &Squad) -> Option<Next> {
        if let Some(reason) = self.unfit_now(squad) {
            return Some(Next::Skip(CacheStep::Store, reason));
        }
        match squad.last_look() {
            Some(left) => Some(self.store_order(squad, &left.to)),
            None => Some(Next::Skip(CacheStep::Store, "the workspace could not be recorded".to_owned())),
        }
    }

    fn store_order(&self, squad: &Squad, after: &str) -> Next {
        let answer = squad.roles.get(squad.lead).and_then(|lead| lead.answer);
        match (&squad.cache.key, &squad.base, answer) {
            (Some(key), Some(before), Some(answer)) => Next::Store(Order::CachePut(CachePutOrder {
                key: key.clone(),
                before: before.clone(),
                after: after.to_owned(),
                git: squad.cache.print.as_ref().and_then(|(_, git)| git.clone()),
                answer,
                cause: TurnCause::Done,
            })),
            _ => Next::Skip(CacheStep::Store, "the workspace before it was not recorded".to_owned()),
        }
    }

    /// Does the next thing about the cache.
    pub(super) fn take_cache_step(&mut self, next: Next) {
        let lead = self.lead_spark();
        match next {
            Next::Print => drop(self.order(lead, Order::Fingerprint(Bare))),
            Next::LookUp => match self.this_key() {
                Ok(key) => drop(self.order(lead, Order::CacheGet(CacheGetOrder { key }))),
                Err(reason) => self.skip_cache(CacheStep::Lookup, reason),
            },
            Next::Record => drop(self.order(None, Order::Checkpoint(Bare))),
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
        let storing = self.squad.as_ref().filter(|squad| squad.cache.stage == Stage::Storing);
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

    /// Without a lookup the workspace is recorded at once, so that every diff has a beginning.
    pub(in crate::session) fn record_base(&mut self) {
        let lacks = self.squad.as_ref().is_some_and(|squad| {
            squad.cache.stage == Stage::Over && squad.base.is_none() && squad.is_unwritten()
        });
        if lacks {
            self.record_workspace();
        }
    }

    /// Holds what was found against the policy, as the writes that it is.
    fn judge_hit(&mut self) {
        let Some((hit, plan)) = self.hit_plan() else { return };
        if plan.needs.is_empty() {
            return self.use_hit();
        }
        let tool_use = of_hit(hit);
        let (path, ruling) = self.ruling_on(&plan);
        let approved = self.squad.as_ref().is_some_and(|squad| squad.cache.approved);
        if approved && ruling.action == Action::Ask {
            return self.order_patch();
        }
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
