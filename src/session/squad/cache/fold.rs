//! The fold of events into what the team cache is to a squad; takes no decision.

use crate::protocol::effect::{Bare, CacheGetOrder, Order};
use crate::protocol::event::{
    ArenaEvent, CacheStep, EffectOrdered, Notice, SparkCompleted, ToolInvoked, TurnCause,
};
use crate::protocol::need::Need;
use crate::protocol::spec::{Action, Risk};
use crate::protocol::{CallId, Choice, EventRef};
use crate::session::Session;

use super::{Caching, Stage};

const UNCONFINED: &str = "a command ran outside a confining sandbox";

impl Session {
    /// Folds one event into the squad's caching, after the squad's own fold of it.
    pub(in crate::session::squad) fn fold_cache(&mut self, at: EventRef, event: &ArenaEvent) {
        use ArenaEvent as E;
        match event {
            E::EffectOrdered(data) => self.fold_cache_order(data),
            E::WorkspaceFingerprinted(data) => {
                self.when_awaited(data.call, |cache| cache.print = Some(data.body.clone()));
            }
            E::CacheHit(data) => self.when_awaited(data.call, |cache| cache.hit = Some(at)),
            E::CacheMissed(data) => self.when_awaited(data.call, |cache| cache.stage = Stage::Over),
            E::CacheStored(data) => self.when_awaited(data.call, |cache| cache.stage = Stage::Ended),
            E::PatchApplied(data) => self.when_awaited(data.call, |cache| cache.stage = Stage::Applied),
            E::PatchRefused(data) => self.when_awaited(data.call, |cache| {
                cache.stage = Stage::Over;
                // A run that is gone says nothing of the workspace.
                if !data.body.path.is_empty() {
                    cache.spoil("the workspace changed while the run was looked up");
                }
            }),
            E::EffectFailed(data) => self.fold_cache_failed(data.call),
            E::CallLost(data) => self.fold_cache_failed(data.call),
            E::PolicyDecided(data) if data.action == Action::Allow && self.is_hit(data.tool_use) => {
                self.with_cache(|cache| cache.approved = true);
            }
            E::ApprovalRequested(data) if self.is_hit(data.tool_use) => {
                self.with_cache(|cache| cache.awaited = Some(data.call));
            }
            E::ApprovalAnswered(data) => self.fold_hit_answered(data.call, &data.choice),
            E::CacheSkipped(data) => self.with_cache(|cache| {
                cache.awaited = None;
                cache.stage = if data.step == CacheStep::Store { Stage::Ended } else { Stage::Over };
            }),
            E::SparkCompleted(data) => self.fold_lead_done(data),
            E::SessionResumed(data) if data.foreign => {
                self.fold_cache_broken("the session was not begun here")
            }
            E::SessionResumed(data) => self.fold_cache_resumed(!data.changed.is_empty()),
            E::SessionForked(_) => self.fold_cache_broken("it goes on from a copy of another session"),
            other => self.fold_unfit(other),
        }
    }

    fn with_cache(&mut self, change: impl FnOnce(&mut Caching)) {
        let squad = self.squad.as_mut().filter(|squad| squad.cache.stage != Stage::Off);
        if let Some(squad) = squad {
            change(&mut squad.cache);
        }
    }

    fn when_awaited(&mut self, call: CallId, change: impl FnOnce(&mut Caching)) {
        self.with_cache(|cache| {
            if cache.awaited == Some(call) {
                cache.awaited = None;
                change(cache);
            }
        });
    }

    fn fold_cache_order(&mut self, data: &EffectOrdered) {
        let confined = self.spec.as_ref().is_some_and(|spec| spec.workspace.sandbox.confines());
        self.with_cache(|cache| match &data.effect {
            Order::Fingerprint(Bare) | Order::Patch(_) | Order::CachePut(_) => {
                cache.awaited = Some(data.call);
            }
            Order::CacheGet(CacheGetOrder { key }) => {
                (cache.awaited, cache.key) = (Some(data.call), Some(key.clone()));
            }
            Order::Check(_) if !confined => cache.spoil(UNCONFINED),
            _ => {}
        });
    }

    /// An effect for the cache failed, was stopped or was lost.
    fn fold_cache_failed(&mut self, call: CallId) {
        self.when_awaited(call, |cache| match cache.stage {
            Stage::Closing => cache.stage = Stage::Ended,
            _ if cache.approved => {
                cache.spoil("a recorded run could not be applied");
                cache.stage = Stage::Over;
            }
            _ if cache.key.is_some() => cache.stage = Stage::Over,
            _ => cache.spoil("the workspace could not be fingerprinted"),
        });
    }

    fn fold_hit_answered(&mut self, call: CallId, choice: &Choice) {
        let is_hit = self.squad.as_ref().is_some_and(|squad| squad.cache.awaited == Some(call));
        let denied = matches!(choice, Choice::Deny(_));
        self.when_awaited(call, |cache| cache.approved = !denied);
        if denied && !is_hit {
            self.with_cache(|cache| cache.spoil("a person refused a call"));
        }
    }

    fn fold_lead_done(&mut self, data: &SparkCompleted) {
        let is_lead = self.squad.as_ref().is_some_and(|squad| squad.role_of(data.spark) == Some(squad.lead));
        self.with_cache(|cache| {
            if is_lead && data.cause == TurnCause::Done && cache.stage == Stage::Over && cache.key.is_some() {
                cache.stage = Stage::Closing;
            }
        });
    }

    /// A lookup continues after a break, unless its key no longer holds; work that was broken off is not stored. A
    /// recorded yes may be anybody's: the run that was found is judged again, but for one that is being applied.
    fn fold_cache_resumed(&mut self, changed: bool) {
        self.with_cache(|cache| match cache.stage {
            Stage::Over => cache.spoil("the run was interrupted and resumed"),
            Stage::Looking if cache.approved && cache.awaited.is_some() => {}
            Stage::Looking if changed => cache.give_up("settings changed while the run was looked up"),
            Stage::Looking if cache.hit.is_some() => (cache.approved, cache.awaited) = (false, None),
            _ => {}
        });
    }

    fn fold_cache_broken(&mut self, reason: &str) {
        self.with_cache(|cache| match cache.stage {
            _ if cache.is_after_answer() => {
                (cache.stage, cache.awaited) = (Stage::Ended, None);
            }
            _ => cache.give_up(reason),
        });
    }

    /// What happens in a run that its key does not tell of.
    fn fold_unfit(&mut self, event: &ArenaEvent) {
        use ArenaEvent as E;
        let reason = match event {
            E::ToolInvoked(data) => return self.fold_invoked_tool(data),
            E::SteeringGiven(_) => "it was steered",
            E::SettingsChanged(_) => "settings changed while it worked",
            E::FallbackTaken(_) => "a fallback model was used",
            // What the prompt itself mentions is read before anybody begins, and is part of the key.
            E::MentionExpanded(_) if self.turn.as_ref().is_some_and(|turn| !turn.begun) => return,
            E::MentionExpanded(_) => "it was shown what was loaded while it worked",
            E::NoticeGiven(data) if matches!(data.notice, Notice::Workspace | Notice::Moved) => {
                "the workspace was changed by another process"
            }
            _ => return,
        };
        self.with_cache(|cache| cache.spoil(reason));
    }

    fn fold_invoked_tool(&mut self, data: &ToolInvoked) {
        let confined = self.rights(data.spark).is_some_and(|rights| rights.shelter.confines);
        let tool = self.asked(data.tool_use).map(|(tool, _)| tool.to_owned()).unwrap_or_default();
        let hosts = self.hosts_for(data.spark, &tool, data.prepared);
        let may_connect = hosts.iter().any(|rule| rule.action == Action::Allow);
        let leaves = self.plan(data.prepared).is_some_and(|plan| plan.needs.iter().any(Need::leaves_sandbox));
        let risk = self.use_mut(data.tool_use).and_then(|one| one.risk);
        self.with_cache(|cache| match risk {
            Some(Risk::Execute) if may_connect || leaves => cache.spoil("it may have used the network"),
            Some(Risk::Execute) if !confined => cache.spoil(UNCONFINED),
            Some(Risk::Network) => cache.spoil("it used the network"),
            _ => {}
        });
    }
}

impl Caching {
    /// The squad works without what was looked up.
    fn give_up(&mut self, reason: &str) {
        (self.stage, self.awaited) = (Stage::Over, None);
        self.spoil(reason);
    }
}
