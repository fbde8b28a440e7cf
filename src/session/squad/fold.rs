//! The fold of single events into a squad's state; takes no decision.

use crate::protocol::effect::Order;
use crate::protocol::event::{
    ArenaEvent, CheckRan, CritiqueIssued, DiffTaken, EffectOrdered, InsightSurfaced, Notice, PathBase,
    PromptGiven, Purpose, RequestPart, SparkCompleted, ToolResolved, ToolStatus, ToolUse, TurnCause,
    WorkJudged,
};
use crate::protocol::message::Role;
use crate::protocol::spec::{Mode, Risk};
use crate::protocol::{CallId, EventRef, SparkId};

use super::super::Session;
use super::state::{Piece, Proof, RoleKind, RoleState, Run, Squad, Stage, Tracked};

impl Session {
    /// Folds one event into the squad, after the session's own fold of it.
    pub(in crate::session) fn fold_squad(&mut self, at: EventRef, event: &ArenaEvent) {
        use ArenaEvent as E;
        self.fold_role(at, event);
        if self.squad.is_some() && !matches!(event, E::PromptGiven(_)) {
            self.fold_cache(at, event);
        }
    }

    fn fold_role(&mut self, at: EventRef, event: &ArenaEvent) {
        use ArenaEvent as E;
        match event {
            E::PromptGiven(data) => self.fold_squad_prompt(data),
            E::TurnClosed(_) => self.squad = None,
            _ if self.squad.is_none() => {}
            E::PhaseShifted(data) => self.with_squad(|squad| squad.phase = Some(data.to.clone())),
            E::SparkIgnited(data) => self.with_squad(|squad| {
                if let Some(role) = squad.named(&data.role).and_then(|i| squad.roles.get_mut(i)) {
                    role.spark = Some(data.spark);
                }
            }),
            E::NoticeGiven(data) if data.notice == Notice::Brief => self.fold_task(data.spark),
            E::ModelCalled(data) if data.attempt == 1 && data.purpose == Purpose::Think => {
                self.with_role(data.spark, |role| role.steps += 1);
            }
            E::EffectOrdered(data) => self.fold_proving(data),
            E::DiffTaken(data) => self.fold_diff(at, data.call, &data.body),
            E::CheckRan(data) => self.fold_check(at, data.call, &data.body),
            E::WorkJudged(data) => self.fold_judged(data),
            E::EffectFailed(data) => self.fold_proof(data.call, None),
            E::CallLost(data) => {
                // What was lost is ordered again.
                self.with_proof(data.call, |_, _| {});
                data.tool_use.into_iter().for_each(|tool_use| self.fold_written(tool_use, &[]));
            }
            E::WorkspaceCheckpointed(data) => self.fold_base(&data.body.tree),
            E::ToolResolved(data) => {
                self.fold_work(at, &data.body);
                let wrote = if data.body.status == ToolStatus::Ok { &data.body.seen[..] } else { &[] };
                self.fold_written(data.body.tool_use, wrote);
            }
            E::ToolInvoked(data) => self.fold_invoked_command(data.tool_use),
            E::PlanStated(data) => self.fold_stands(data.spark, data.source),
            E::CodeProposed(data) => self.fold_proposed(data.spark),
            E::CritiqueIssued(data) => self.fold_critique(at, data),
            E::FindingClosed(data) => self.with_squad(|squad| {
                squad.findings.iter_mut().filter(|one| one.finding.id == data.id).for_each(|one| {
                    one.open = false;
                });
            }),
            E::InsightSurfaced(data) => self.fold_insight(data),
            E::ClaimFlagged(data) => self.with_squad(|squad| squad.flags.push(data.clone())),
            E::SparkCompleted(data) => self.fold_role_ended(data),
            E::RoleFailed(data) => self.fold_role_failed(data.spark),
            _ => {}
        }
    }

    fn with_squad(&mut self, change: impl FnOnce(&mut Squad)) {
        if let Some(squad) = self.squad.as_mut() {
            change(squad);
        }
    }

    pub(in crate::session) fn with_role(&mut self, spark: SparkId, change: impl FnOnce(&mut RoleState)) {
        self.with_squad(|squad| {
            if let Some(role) = squad.role_of(spark).and_then(|i| squad.roles.get_mut(i)) {
                change(role);
            }
        });
    }

    fn fold_squad_prompt(&mut self, data: &PromptGiven) {
        self.squad = match data.mode {
            Mode::Squad => self.spec.as_ref().and_then(|spec| Squad::of(spec)),
            Mode::Solo | Mode::Debate(_) | Mode::Unknown(_) => None,
        };
    }

    /// A brief is a task. When it is not the first, whoever builds on this role's work has to look again.
    fn fold_task(&mut self, spark: SparkId) {
        if let Some(spark) = self.sparks.get_mut(&spark) {
            spark.rejected = 0;
            spark.warned = false;
            spark.recent.clear();
        }
        self.with_squad(|squad| {
            let Some(i) = squad.role_of(spark) else { return };
            let later: Vec<usize> =
                (0..squad.roles.len()).filter(|other| squad.before(*other).contains(&i)).collect();
            let Some(role) = squad.roles.get_mut(i) else { return };
            role.stage = Stage::Working;
            role.tasks += 1;
            role.steps = 0;
            role.proof = Proof::default();
            if role.tasks < 2 || role.kind == RoleKind::Lead {
                return;
            }
            for other in later {
                if let Some(role) = squad.roles.get_mut(other).filter(|role| role.stage == Stage::Done) {
                    role.stage = Stage::Waiting;
                }
            }
        });
    }

    fn fold_proving(&mut self, data: &EffectOrdered) {
        let Some(spark) = data.spark else { return };
        let piece = match data.effect {
            Order::Diff(_) => Piece::Diff,
            Order::Check(_) => Piece::Check,
            _ => return,
        };
        let answer = self.sparks.get(&spark).and_then(|spark| spark.answer);
        self.with_role(spark, |role| {
            if !matches!(role.stage, Stage::Failed(_)) {
                role.stage = Stage::Proving;
                if role.answer != answer {
                    role.history.extend(answer);
                }
                role.answer = answer;
            }
            role.proof.awaited = Some((data.call, piece));
        });
    }

    fn fold_diff(&mut self, at: EventRef, call: CallId, taken: &DiffTaken) {
        let mut of = None;
        self.with_proof(call, |role, _| {
            role.proof.diff = Some(Some(at));
            of = Some(role.kind);
        });
        let Some(of) = of else { return };
        self.with_squad(|squad| {
            let before = squad.shown.replace(taken.to.clone());
            if of == RoleKind::Lead && before.is_some_and(|before| before != taken.to) {
                squad.cache.spoil("the workspace was changed by another process while the squad worked");
            }
        });
    }

    fn fold_judged(&mut self, data: &WorkJudged) {
        self.with_role(data.spark, |role| role.proof.work = Some(data.clone()));
        self.with_squad(|squad| squad.work = Some(data.clone()));
    }

    fn fold_check(&mut self, at: EventRef, call: CallId, ran: &CheckRan) {
        let passed = ran.exit == Some(0);
        let run = Run { at, command: ran.command.clone(), cwd: String::new(), passed };
        self.with_squad(|squad| squad.runs.push(run));
        // A check may leave files behind.
        self.checkpoints.touch();
        self.fold_proof(call, Some((at, passed)));
    }

    /// A check was run, or an effect of a proof failed.
    fn fold_proof(&mut self, call: CallId, ran: Option<(EventRef, bool)>) {
        self.with_proof(call, |role, piece| match piece {
            Piece::Diff => role.proof.diff = Some(None),
            Piece::Check => {
                role.proof.checks.push(ran);
                role.history.extend(ran.map(|(at, _)| at));
            }
        });
    }

    fn with_proof(&mut self, call: CallId, change: impl FnOnce(&mut RoleState, Piece)) {
        self.with_squad(|squad| {
            for role in &mut squad.roles {
                if let Some((_, piece)) = role.proof.awaited.take_if(|(id, _)| *id == call) {
                    return change(role, piece);
                }
            }
        });
    }

    /// The first tree recorded in the turn is what every diff starts from, as long as nobody has written.
    fn fold_base(&mut self, tree: &str) {
        self.with_squad(|squad| {
            if squad.base.is_none() && squad.is_unwritten() {
                squad.base = Some(tree.to_owned());
            }
        });
    }

    /// What a tool did, as far as claims may rest on it: a command's end outlives what the session keeps of the
    /// log, so that a compaction does not make it unheard.
    fn fold_work(&mut self, at: EventRef, end: &ToolResolved) {
        let Some(one) = self.use_mut(end.tool_use) else { return };
        let prepared = one.plan.as_ref().map(|(at, _)| *at);
        let plan = prepared.and_then(|at| self.plan(at));
        let passed = end.exit == Some(0) && end.status == ToolStatus::Ok;
        let run = plan.and_then(|plan| {
            Some(Run { at, command: plan.command()?.to_owned(), cwd: plan.cwd.clone(), passed })
        });
        self.with_squad(|squad| squad.runs.extend(run));
    }

    /// What a tool wrote, or may have written before it was lost.
    fn fold_written(&mut self, tool_use: ToolUse, wrote: &[PathBase]) {
        let prepared = self.use_mut(tool_use).filter(|one| one.risk == Some(Risk::Write));
        let prepared = prepared.and_then(|one| one.plan.as_ref()).map(|(at, _)| *at);
        let plan = prepared.and_then(|at| self.plan(at));
        let bases: Vec<PathBase> = plan.into_iter().flat_map(|plan| plan.paths().cloned()).collect();
        self.with_squad(|squad| {
            for PathBase { path, sha256 } in bases {
                let after = wrote.iter().find(|base| base.path == path).and_then(|base| base.sha256.clone());
                let file = squad.written.entry(path).or_default();
                if file.after.is_none() {
                    file.before = sha256;
                }
                file.after = after.or(file.after.take());
            }
        });
    }

    fn fold_invoked_command(&mut self, tool_use: ToolUse) {
        let risk = self.use_mut(tool_use).and_then(|one| one.risk);
        let says = matches!(risk, Some(Risk::Read | Risk::Write));
        self.with_squad(|squad| squad.ran_command |= !says);
    }

    fn fold_proposed(&mut self, spark: SparkId) {
        if let Some(answer) = self.sparks.get(&spark).and_then(|spark| spark.answer) {
            self.fold_stands(spark, answer);
        }
    }

    fn fold_stands(&mut self, spark: SparkId, answer: EventRef) {
        self.with_role(spark, |role| {
            role.stage = Stage::Done;
            if role.answer != Some(answer) && role.kind != RoleKind::Reviewer {
                role.history.push(answer);
            }
            role.answer = Some(answer);
        });
    }

    fn fold_critique(&mut self, at: EventRef, data: &CritiqueIssued) {
        self.fold_stands(data.spark, data.source);
        self.with_role(data.spark, |role| {
            role.critique = Some((at, data.verdict));
            role.history.push(at);
            role.sent.clear();
        });
        self.with_squad(|squad| {
            let Some(by) = squad.role_of(data.spark) else { return };
            for finding in &data.findings {
                squad.findings.retain(|one| one.finding.id != finding.id);
                squad.findings.push(Tracked { finding: finding.clone(), by, open: true });
            }
        });
    }

    /// What one role says reaches another with its next request.
    fn fold_insight(&mut self, data: &InsightSurfaced) {
        self.enqueue(data.to, RequestPart { role: Role::User, from: data.source, sel: None });
        self.with_role(data.to, |role| {
            role.told.insert(data.source);
        });
        let answer = self.sparks.get(&data.from).and_then(|spark| spark.answer);
        let told = self.squad.as_ref().and_then(|squad| squad.roles.get(squad.role_of(data.to)?));
        let told = told.map(|role| role.spec.name.clone()).unwrap_or_default();
        self.with_role(data.from, |role| {
            let is_critique = role.critique.is_some_and(|(at, _)| at == data.source);
            if is_critique && role.spec.revise.contains(&told) {
                role.sent_back += u32::from(role.sent.is_empty());
                role.sent.insert(data.to);
            } else if role.kind == RoleKind::Adviser && answer == Some(data.source) {
                role.stage = Stage::Done;
                role.answer = answer;
                role.history.extend(answer);
            }
        });
    }

    fn fold_role_ended(&mut self, data: &SparkCompleted) {
        if data.cause != TurnCause::Done {
            self.with_role(data.spark, |role| {
                role.stage = Stage::Failed(data.cause);
                role.proof.awaited = None;
            });
        } else {
            self.with_role(data.spark, |role| {
                role.stage = Stage::Done;
                role.answer = data.answer;
            });
        }
    }

    /// Without its lead a squad has nobody to answer: the turn ends with what there is.
    fn fold_role_failed(&mut self, spark: SparkId) {
        let is_lead = self.squad.as_ref().is_some_and(|squad| squad.role_of(spark) == Some(squad.lead));
        if let Some(turn) = self.turn.as_mut().filter(|_| is_lead) {
            turn.stopping.get_or_insert(TurnCause::Incomplete);
        }
    }
}
