//! Squad turns: which role begins, what its answer leads to, when the work is done; knows no model and no file.

mod brief;
pub mod cache;
mod claims;
mod flow;
mod fold;
mod judged;
pub mod state;
mod typed;

use serde_json::Value;

use crate::protocol::blueprint::lead_of;
use crate::protocol::effect::{CheckOrder, Order};
use crate::protocol::event::{
    ArenaEvent, CodeProposed, InsightSurfaced, PlanStated, RoleFailed, SparkIgnited, TurnCause, WorkJudged,
};
use crate::protocol::spec::{Risk, RoleSpec};
use crate::protocol::{EventRef, SparkId};

use super::Session;
use super::state::Spark;
use state::{Piece, RoleKind, RoleState, Squad, Stage};

impl Session {
    /// Records the workspace, so that every diff has a beginning and the team cache a tree to look up, and lets the
    /// first roles begin. With the cache the lead is there from the start: it listens to people.
    pub(super) fn begin_squad(&mut self) {
        self.order_time_limit(0);
        let Some(squad) = &self.squad else { return };
        let (lead, cached) = (squad.lead, squad.cache.is_looking());
        if cached {
            self.ignite(lead);
        }
        self.record_base();
        self.advance_squad();
    }

    /// Records the workspace where that is still missing and a step needs it.
    pub(in crate::session) fn record_base(&mut self) {
        let lacks = self.squad.as_ref().is_some_and(|squad| {
            let needs = squad.cache.is_looking() || squad.roles.iter().any(|role| role.writes);
            needs && squad.base.is_none() && squad.is_unwritten()
        });
        if lacks {
            self.record_workspace();
        }
    }

    /// A role gave a usable answer: what it is depends on what the role is there for.
    pub(super) fn role_answered(&mut self, spark: SparkId) {
        let Some((squad, i)) = self.role(spark) else { return };
        let (lead, role) = (squad.lead, &squad.roles[i]);
        let (kind, tasks) = (role.kind, role.tasks);
        let teller = squad.roles.get(lead).and_then(|role| role.spark);
        let Some(source) = self.sparks.get(&spark).and_then(|spark| spark.answer) else { return };
        match kind {
            RoleKind::Lead if tasks < 2 => {
                self.emit(ArenaEvent::PlanStated(PlanStated { spark, source }));
            }
            RoleKind::Lead => return self.finish(spark, source),
            RoleKind::Writer => self.prove(i),
            RoleKind::Reviewer => self.judge(i, spark, source),
            RoleKind::Adviser => match teller {
                Some(to) => {
                    let insight = InsightSurfaced { from: spark, to, source };
                    self.emit(ArenaEvent::InsightSurfaced(insight));
                }
                None => return self.end_spark(spark, TurnCause::Incomplete),
            },
        }
        self.advance_squad();
    }

    /// The lead has answered: its answer stands once the workspace was looked at for the last time.
    pub(super) fn finish(&mut self, spark: SparkId, source: EventRef) {
        match self.squad.as_ref().and_then(Squad::next_look) {
            Some(look) => drop(self.order(Some(spark), look)),
            None => {
                self.judge_work(spark);
                self.flag_claims(source);
                self.end_spark(spark, TurnCause::Done);
            }
        }
    }

    /// A role's spark has ended. What others did stands; without the lead the turn ends.
    pub(super) fn role_ended(&mut self, spark: SparkId, cause: TurnCause, answer: Option<EventRef>) {
        let Some((squad, i)) = self.role(spark) else { return };
        let is_lead = i == squad.lead;
        let role = squad.roles[i].spec.name.clone();
        if self.turn_stop().is_none() {
            match (cause, is_lead) {
                (TurnCause::Done, true) if self.is_to_be_stored() => return self.advance_squad(),
                (TurnCause::Done, true) => return self.close_turn(self.squad_cause(), answer),
                (TurnCause::Done, false) => return,
                _ => {
                    self.emit(ArenaEvent::RoleFailed(RoleFailed { role, spark, cause }));
                }
            }
            match is_lead {
                true => self.wind_down(),
                false => return self.advance_squad(),
            }
        }
        self.close_stopped_squad();
    }

    /// Closes a turn that is being stopped once every spark has ended and what proves their work has too. A squad
    /// that has answered is closed by what is done about its run.
    pub(super) fn close_stopped_squad(&mut self) {
        let all_ended = self.sparks.values().all(|spark| spark.completed.is_some());
        let answered = self.squad.as_ref().is_some_and(|squad| squad.cache.is_after_answer());
        if !all_ended || answered || !self.is_turn_quiet() {
            return;
        }
        if let Some(cause) = self.turn_stop() {
            // Where only the lead is missing, the last writer's own account is what there is to read.
            let account = self.squad.as_ref().and_then(writers_account);
            self.close_turn(cause, account.filter(|_| cause == TurnCause::Incomplete));
        }
    }

    /// Done only when nothing is lacking.
    fn squad_cause(&self) -> TurnCause {
        let at_limit = |role: &RoleState| role.stage == Stage::Failed(TurnCause::Limit);
        match self.squad_lacks() {
            None => TurnCause::Done,
            Some(_) if self.squad.as_ref().is_some_and(|squad| squad.roles.iter().any(at_limit)) => {
                TurnCause::Limit
            }
            Some(_) => TurnCause::Incomplete,
        }
    }

    /// The first thing that keeps the work from being done: a role that did not do its part or still asks for
    /// changes, a last check that did not pass, work that was undone, a claim that the log contradicts.
    fn squad_lacks(&self) -> Option<String> {
        let Some(squad) = &self.squad else { return Some("there is no squad".to_owned()) };
        let of_role = |role: &RoleState| {
            let name = &role.spec.name;
            match role {
                _ if role.stage != Stage::Done => Some(format!("`{name}` did not do its part")),
                _ if role.wants_changes() => Some(format!("`{name}` asks for changes")),
                _ if role.proof.fails() => Some("a check did not pass".to_owned()),
                _ => None,
            }
        };
        let undone = || squad.work.as_ref().and_then(|work| work.faults().next());
        squad.roles.iter().find_map(of_role).or_else(undone).or_else(|| {
            let contradicted = squad.flags.iter().any(|flag| flag.contradicted);
            contradicted.then(|| "the log contradicts what the answer claims".to_owned())
        })
    }

    /// The squad and the place of a spark's role.
    pub(super) fn role(&self, spark: SparkId) -> Option<(&Squad, usize)> {
        let squad = self.squad.as_ref()?;
        squad.role_of(spark).map(|i| (squad, i))
    }

    /// True when a role has a task, so that its spark may think.
    pub(super) fn role_is_at_work(&self, spark: SparkId) -> bool {
        self.role(spark).is_some_and(|(squad, i)| squad.roles[i].stage == Stage::Working)
    }

    /// The role a person's words go to: whoever is at work, else the lead.
    pub(super) fn listening_role(&self) -> Option<SparkId> {
        let squad = self.squad.as_ref()?;
        let working = squad.roles.iter().find(|role| role.stage == Stage::Working);
        working.or_else(|| squad.roles.get(squad.lead)).and_then(|role| role.spark)
    }

    /// Why a role may not make one more model call, if so.
    pub(super) fn role_limit(&self, spark: SparkId) -> Option<TurnCause> {
        let (squad, i) = self.role(spark)?;
        let role = &squad.roles[i];
        role.spec.max_steps.filter(|max| role.steps >= *max).map(|_| TurnCause::Limit)
    }

    /// True for a role with a tool that writes files.
    pub(super) fn role_may_write(&self, spark: SparkId) -> Option<bool> {
        let (squad, i) = self.role(spark)?;
        let writes =
            |name: &String| self.places.tools.get(name).is_some_and(|tool| tool.spec.risk == Risk::Write);
        Some(squad.roles[i].tools.iter().any(writes))
    }

    /// The schema of a role's present task.
    pub(super) fn role_schema(&self, spark: SparkId) -> Option<Value> {
        let (squad, i) = self.role(spark)?;
        self.typed_schema(&squad.roles[i], squad.roles[i].tasks)
    }

    /// Tools of a role, by the settings as they are now.
    pub(super) fn role_tools(&self, spark: &Spark) -> Option<Vec<String>> {
        let squad = self.squad.as_ref()?;
        let role = squad.named(&spark.role).and_then(|i| squad.roles.get(i))?;
        let persona = RoleSpec { persona: spark.persona.clone(), ..role.spec.clone() };
        let spec = self.spec.as_ref()?;
        let mut names = state::tools_of(spec, &persona);
        // What a source lists late makes no role a writer.
        let late = spec.tools.iter().filter(|tool| tool.source.is_some() && tool.risk != Risk::Read);
        let late: Vec<&str> = late.filter(|_| !role.writes).map(|tool| tool.name.as_str()).collect();
        names.retain(|name| !late.contains(&name.as_str()));
        Some(names)
    }

    /// Gives a role its spark.
    fn ignite(&mut self, i: usize) -> Option<SparkId> {
        let squad = self.squad.as_ref()?;
        let role = squad.roles.get(i)?;
        if let Some(spark) = role.spark {
            return Some(spark);
        }
        let spec = self.spec.as_ref()?;
        // Settings may have changed since the turn began.
        let now = spec.blueprint.as_ref().and_then(|b| b.roles.iter().find(|r| r.name == role.spec.name));
        let persona = &role.spec.persona;
        let model = spec.model_for(now.and_then(|now| now.model.as_deref()), persona).unwrap_or_default();
        let model = model.to_owned();
        let is_lead = i == squad.lead;
        let (spark, role, persona) = (SparkId(self.next_spark), role.spec.name.clone(), persona.clone());
        let mut ignited = SparkIgnited { spark, role, persona, model, ..SparkIgnited::default() };
        if is_lead {
            self.give_earlier(&mut ignited);
        }
        let is_apart = ignited.continues.is_none() && ignited.apart_from.is_some();
        self.emit(ArenaEvent::SparkIgnited(ignited));
        if is_apart {
            self.say_apart(spark);
        }
        Some(spark)
    }

    /// The role that leads the squads of this session.
    pub(super) fn lead_name(&self) -> Option<&str> {
        let blueprint = self.spec.as_ref()?.blueprint.as_ref()?;
        lead_of(blueprint).and_then(|i| blueprint.roles.get(i)).map(|role| role.name.as_str())
    }

    /// Takes the next piece of a writer's proof, or proposes the work once it is whole: one check after another, since
    /// two at once might be in each other's way, then the diff.
    fn prove(&mut self, i: usize) {
        let Some(squad) = &self.squad else { return };
        let Some(spark) = squad.roles[i].spark else { return };
        let effect = match squad.next_piece(i) {
            Some(Piece::Diff) => squad.look(None),
            Some(Piece::Check) => {
                let command =
                    squad.checks.get(squad.roles[i].proof.checks.len()).cloned().unwrap_or_default();
                self.shift_phase("check");
                Some(Order::Check(CheckOrder { command }))
            }
            None => return self.propose(i, spark),
        };
        if let Some(effect) = effect {
            self.order(Some(spark), effect);
        }
    }

    fn propose(&mut self, i: usize, spark: SparkId) {
        self.judge_work(spark);
        let Some(role) = self.squad.as_ref().and_then(|squad| squad.roles.get(i)) else { return };
        if matches!(role.stage, Stage::Failed(_)) {
            return;
        }
        let diff = role.proof.work.as_ref().and_then(WorkJudged::shown);
        let checks = role.proof.ran().map(|(at, _)| at).collect();
        self.emit(ArenaEvent::CodeProposed(CodeProposed { spark, diff, checks }));
    }
}

fn writers_account(squad: &Squad) -> Option<EventRef> {
    let writers = squad.roles.iter().rev().filter(|role| role.kind == RoleKind::Writer);
    writers.into_iter().find_map(|role| role.answer)
}
