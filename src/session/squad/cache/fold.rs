//! The fold of events into what the team cache is to a squad; takes no decision.

use crate::protocol::effect::{Bare, CacheGetOrder, Order};
use crate::protocol::event::{
    ArenaEvent, CacheStep, EffectOrdered, Notice, PathBase, PrepareResult, SparkCompleted, ToolInvoked,
    TurnCause, WorkspaceFingerprinted,
};
use crate::protocol::message::Args;
use crate::protocol::need::Need;
use crate::protocol::spec::{Action, Risk};
use crate::protocol::{CallId, Choice, EventRef};
use crate::session::Session;

use super::fit::AFTER_DIFF;
use super::{Caching, Stage};

const CHANGED: &str = "the workspace changed while the run was looked up";
const UNCONFINED: &str = "a command ran outside a confining sandbox";

impl Session {
    /// Folds one event into the squad's caching, after the squad's own fold of it.
    pub(in crate::session::squad) fn fold_cache(&mut self, at: EventRef, event: &ArenaEvent) {
        use ArenaEvent as E;
        self.fold_look(at, event);
        self.fold_held(event);
        match event {
            E::EffectOrdered(data) => self.fold_cache_order(data),
            E::WorkspaceFingerprinted(data) => self.fold_print(data.call, &data.body),
            E::CacheHit(data) => self.when_awaited(data.call, |cache| {
                cache.hit = Some(at);
                cache.stage = Stage::Looked;
            }),
            E::CacheMissed(data) => self.when_awaited(data.call, |cache| cache.stage = Stage::Looked),
            E::CacheStored(data) => self.when_awaited(data.call, |cache| cache.stage = Stage::Ended),
            E::PatchApplied(data) => self.when_awaited(data.call, |cache| cache.stage = Stage::Patched),
            E::PatchRefused(data) => self.when_awaited(data.call, |cache| {
                cache.stage = Stage::Over;
                // A run that is gone says nothing of the workspace.
                if !data.body.path.is_empty() {
                    cache.spoil(CHANGED);
                }
            }),
            E::WorkspaceCheckpointed(data) => self.fold_recorded(data.call, Some(&data.body.tree)),
            E::EffectFailed(data) => self.fold_cache_failed(data.call),
            E::CallLost(data) => self.fold_cache_failed(data.call),
            E::PolicyDecided(data) if data.action == Action::Allow && self.is_hit(data.tool_use) => {
                self.with_cache(|cache| cache.stage = Stage::Allowed);
            }
            E::ApprovalRequested(data) if self.is_hit(data.tool_use) => self.with_cache(|cache| {
                (cache.stage, cache.awaited) = (Stage::Asking, Some(data.call));
            }),
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

    /// What the trees recorded on the way say of others: between two calls of the squad nothing changes by itself.
    fn fold_look(&mut self, at: EventRef, event: &ArenaEvent) {
        use ArenaEvent as E;
        match event {
            E::EffectOrdered(data) => match data.effect {
                Order::Checkpoint(Bare) => self.with_cache(|cache| {
                    cache.stale = false;
                    cache.looking.insert(data.call);
                }),
                Order::Diff(_) => self.with_cache(|cache| {
                    cache.looking.insert(data.call);
                }),
                Order::Check(_) | Order::Patch(_) => self.with_cache(Caching::look_away),
                _ => {}
            },
            E::ToolInvoked(data) if self.use_mut(data.tool_use).is_some_and(|one| one.may_change()) => {
                self.with_cache(Caching::look_away);
            }
            E::ModelAnswered(_) => self.with_cache(|cache| cache.stale = true),
            E::WorkspaceCheckpointed(data) => self.with_cache(|cache| {
                cache.trees.insert(data.body.tree.clone());
                cache.see(data.call, &data.body.tree);
            }),
            E::DiffTaken(data) => {
                self.with_cache(|cache| {
                    cache.trees.insert(data.body.to.clone());
                    cache.see(data.call, &data.body.to);
                });
                let left = self
                    .squad
                    .as_ref()
                    .is_some_and(|squad| squad.roles.iter().any(|role| role.proof.left_at() == Some(at)))
                    && !data.body.files.is_empty();
                if left {
                    self.with_cache(|cache| cache.spoil(AFTER_DIFF));
                }
            }
            _ => {}
        }
    }

    /// What file tools looked at or wrote. What a call that cannot be done was about, only its arguments tell.
    fn fold_held(&mut self, event: &ArenaEvent) {
        use ArenaEvent as E;
        let of = |base: &PathBase| (base.path.clone(), base.sha256.clone());
        let held: Vec<(String, Option<String>)> = match event {
            E::ToolPrepared(data) => match &data.body.result {
                PrepareResult::Ready(plan) => plan.paths().map(of).collect(),
                PrepareResult::Unfit(_) => {
                    let path = match self.asked(data.body.tool_use) {
                        Some((_, Args::Json(args))) => args.get("path").and_then(|path| path.as_str()),
                        _ => None,
                    };
                    path.and_then(|path| self.beneath(path)).map(|path| (path, None)).into_iter().collect()
                }
                PrepareResult::Unknown(_) => Vec::new(),
            },
            E::ToolResolved(data) => data.body.seen.iter().map(of).collect(),
            _ => return,
        };
        self.with_cache(|cache| cache.held.extend(held));
    }

    /// A path as a model wrote it, relative to the workspace.
    pub(in crate::session::squad) fn beneath(&self, path: &str) -> Option<String> {
        let root = &self.spec.as_ref()?.workspace.root;
        let path = path.strip_prefix(root.as_str()).map_or(path, |rest| rest.trim_start_matches('/'));
        let parts: Vec<&str> = path.split('/').filter(|part| *part != ".").collect();
        (!path.starts_with('/') && !parts.contains(&"..")).then(|| parts.join("/"))
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
        self.with_cache(|cache| {
            let next = match (&data.effect, cache.stage) {
                (Order::Fingerprint(Bare), Stage::Begun) => Stage::Printing,
                (Order::Fingerprint(Bare), Stage::Recorded) => Stage::Binding,
                (Order::CacheGet(CacheGetOrder { key }), Stage::Printed) => {
                    cache.key = Some(key.clone());
                    Stage::Looking
                }
                (Order::Checkpoint(Bare), Stage::Looked) => Stage::Recording,
                (Order::Patch(_), Stage::Allowed | Stage::Bound) => Stage::Patching,
                (Order::CachePut(_), Stage::Closing) => Stage::Storing,
                (Order::Check(_), _) => {
                    if !confined {
                        cache.spoil(UNCONFINED);
                    }
                    return;
                }
                _ => return,
            };
            cache.stage = next;
            cache.awaited = Some(data.call);
        });
    }

    fn fold_print(&mut self, call: CallId, taken: &WorkspaceFingerprinted) {
        self.when_awaited(call, |cache| match (cache.stage, &cache.print) {
            (Stage::Printing, _) => {
                cache.print = Some((taken.fingerprint.clone(), taken.git.clone()));
                cache.stage = Stage::Printed;
            }
            (Stage::Binding, Some((first, git))) => {
                let same = (first, git) == (&taken.fingerprint, &taken.git);
                cache.stage = if cache.hit.is_some() { Stage::Bound } else { Stage::Over };
                if !same {
                    cache.spoil(CHANGED);
                }
            }
            _ => {}
        });
    }

    fn fold_recorded(&mut self, call: CallId, tree: Option<&String>) {
        let recording = self.squad.as_ref().is_some_and(|squad| squad.cache.stage == Stage::Recording);
        if recording {
            let mut bound = None;
            self.when_awaited(call, |cache| match tree {
                Some(tree) => {
                    cache.stage = Stage::Recorded;
                    bound = Some(tree.clone());
                }
                None => cache.unbound("the workspace could not be recorded"),
            });
            // Nobody may write before this tree, and the key speaks of no other.
            if let (Some(squad), Some(_)) = (self.squad.as_mut(), &bound) {
                squad.base = bound;
            }
        }
    }

    /// An effect for the cache failed, was stopped or was lost.
    fn fold_cache_failed(&mut self, call: CallId) {
        self.fold_recorded(call, None);
        self.when_awaited(call, |cache| match cache.stage {
            Stage::Printing => cache.stage = Stage::Printed,
            Stage::Looking => cache.stage = Stage::Looked,
            Stage::Binding => cache.unbound("the workspace could not be fingerprinted again"),
            Stage::Patching => {
                cache.spoil("a recorded run could not be applied");
                cache.stage = Stage::Over;
            }
            Stage::Storing => cache.stage = Stage::Ended,
            _ => {}
        });
    }

    /// A yes may come days later: the workspace is looked at once more before anything is applied.
    fn fold_hit_answered(&mut self, call: CallId, choice: &Choice) {
        let is_hit = self.squad.as_ref().is_some_and(|squad| squad.cache.awaited == Some(call));
        let denied = matches!(choice, Choice::Deny(_));
        self.when_awaited(call, |cache| {
            cache.approved = !denied;
            cache.stage = if denied { Stage::Bound } else { Stage::Recorded };
        });
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

    /// A lookup goes on after a break, unless its key no longer holds; work that was broken off is not stored.
    fn fold_cache_resumed(&mut self, changed: bool) {
        self.with_cache(|cache| match cache.stage {
            Stage::Closing | Stage::Storing | Stage::Ended | Stage::Patching | Stage::Patched => {}
            Stage::Over => cache.spoil("the run was interrupted and resumed"),
            _ if changed => cache.give_up("settings changed while the run was looked up"),
            // A recorded yes may have been written by anybody: the workspace is looked at and the run judged again.
            Stage::Asking | Stage::Recorded | Stage::Binding | Stage::Bound | Stage::Allowed
                if cache.hit.is_some() =>
            {
                (cache.approved, cache.awaited, cache.stage) = (false, None, Stage::Recorded);
            }
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
        let own = self.place_of(data.spark);
        let confined = self.spec.as_ref().is_some_and(|spec| {
            let workspace = &spec.workspace;
            let own = own.as_deref().and_then(|role| workspace.place_of(role));
            own.map_or(&workspace.sandbox, |place| &place.sandbox).confines()
        });
        let tool = self.asked(data.tool_use).map(|(tool, _)| tool.to_owned()).unwrap_or_default();
        let hosts = self.hosts_for(&tool, data.prepared);
        let may_connect = hosts.iter().any(|rule| rule.action == Action::Allow);
        let leaves = match self.event(data.prepared) {
            Some(ArenaEvent::ToolPrepared(prepared)) => match &prepared.body.result {
                PrepareResult::Ready(plan) => plan.needs.iter().any(Need::leaves_sandbox),
                _ => false,
            },
            _ => false,
        };
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
    /// The squad may change the workspace from here on.
    fn look_away(&mut self) {
        self.known = None;
        self.looking.clear();
    }

    /// A tree was recorded.
    fn see(&mut self, call: CallId, tree: &str) {
        if !self.looking.remove(&call) {
            return;
        }
        if self.stage == Stage::Over && self.known.as_ref().is_some_and(|known| known != tree) {
            self.spoil("the workspace was changed by another process while the squad worked");
        }
        self.known = Some(tree.to_owned());
    }

    /// Nobody knows whether the recorded tree is the one the key speaks of.
    fn unbound(&mut self, reason: &str) {
        self.spoil(reason);
        self.stage = if self.hit.is_some() { Stage::Bound } else { Stage::Over };
    }

    /// The squad works without what was looked up.
    fn give_up(&mut self, reason: &str) {
        (self.stage, self.awaited) = (Stage::Over, None);
        self.spoil(reason);
    }
}
