//! What a session remembers of a squad between facts: roles, stages, findings; changed only by the fold.

use std::collections::{BTreeMap, BTreeSet};

use crate::protocol::blueprint::{lead_of, writes};
use crate::protocol::event::{ClaimFlagged, Finding, Judgement, TurnCause, WorkJudged};
use crate::protocol::spec::{Blueprint, Risk, RoleSpec, Spec, ToolSpec, is_chosen};
use crate::protocol::{CallId, EventRef, SparkId};

use super::cache::Caching;

/// The squad of the open turn.
#[derive(Clone, Debug)]
pub struct Squad {
    /// Place of the role that plans first and answers last.
    pub lead: usize,
    /// The roles in the blueprint's order.
    pub roles: Vec<RoleState>,
    /// Commands run after each turn of a writer.
    pub checks: Vec<String>,
    /// The tree before any writer began.
    pub base: Option<String>,
    /// The step entered last.
    pub phase: Option<String>,
    /// Every finding so far.
    pub findings: Vec<Tracked>,
    /// Every command that was run, checks included, in the order of their ends.
    pub runs: Vec<Run>,
    /// The tree that was shown last: of the last comparison.
    pub shown: Option<String>,
    /// Files that tools of this squad wrote, or may have written.
    pub written: BTreeMap<String, Wrote>,
    /// True once a role ran a command: such may write files without saying so.
    pub ran_command: bool,
    /// Whose the changes are, as decided last.
    pub work: Option<WorkJudged>,
    /// Claims of the answer that the log does not support.
    pub flags: Vec<ClaimFlagged>,
    /// What the team cache is to this turn.
    pub cache: Caching,
}

/// One role and how far it is.
#[derive(Clone, Debug)]
pub struct RoleState {
    /// As the blueprint has it.
    pub spec: RoleSpec,
    /// What it is there for.
    pub kind: RoleKind,
    /// True when it has tools that may change the workspace.
    pub writes: bool,
    /// Tools it had when the turn began.
    pub tools: Vec<String>,
    /// Its spark, once it was given its first task.
    pub spark: Option<SparkId>,
    /// How far it is.
    pub stage: Stage,
    /// Tasks it was given.
    pub tasks: u32,
    /// Model calls of the present task.
    pub steps: u32,
    /// Its last usable answer.
    pub answer: Option<EventRef>,
    /// Every answer, check and critique of its tasks, for the lead.
    pub history: Vec<EventRef>,
    /// What shows the work of a writer's last task.
    pub proof: Proof,
    /// A reviewer's last judgement and the `critique_issued` that holds it.
    pub critique: Option<(EventRef, Judgement)>,
    /// Who got that critique.
    pub sent: BTreeSet<SparkId>,
    /// Critiques with which it sent somebody back.
    pub sent_back: u32,
    /// What this role was told.
    pub told: BTreeSet<EventRef>,
}

/// What a role is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleKind {
    /// Plans and answers.
    Lead,
    /// Changes the workspace.
    Writer,
    /// Judges the work of others and may send them back.
    Reviewer,
    /// Finds out and tells.
    Adviser,
}

/// How far a role is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It waits for others, or has to look again.
    Waiting,
    /// It has a task.
    Working,
    /// It has answered; diff and checks are taken.
    Proving,
    /// Its answer stands.
    Done,
    /// It ended without one.
    Failed(TurnCause),
}

/// What shows the work of a writer, and for the lead what is left of all work.
#[derive(Clone, Debug, Default)]
pub struct Proof {
    /// The effect under way, and which piece of the proof it brings.
    pub awaited: Option<(CallId, Piece)>,
    /// Each check that was tried: its `check_ran` and whether it exited 0; none when it could not be run.
    pub checks: Vec<Option<(EventRef, bool)>>,
    /// The comparison with the squad's beginning: absent until it was tried, then its `diff_taken` if there is one.
    pub diff: Option<Option<EventRef>>,
    /// What was decided from it.
    pub work: Option<WorkJudged>,
}

/// One piece of what shows the work of a writer, in the order they are taken: checks may change files too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// The next check.
    Check,
    /// The diff since the squad began.
    Diff,
}

/// What became of a file by the squad's tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wrote {
    /// Digest of what it held before; none when it was not there.
    pub before: Option<String>,
    /// Digest of what was written last; none while no call is known to have written it.
    pub after: Option<String>,
}

impl Proof {
    /// True when a check did not pass.
    pub fn fails(&self) -> bool {
        self.checks.iter().any(|ran| !ran.is_some_and(|(_, passed)| passed))
    }

    /// True when a check ran and did not pass, which more work may fix.
    pub fn was_failed(&self) -> bool {
        self.ran().any(|(_, passed)| !passed)
    }

    /// The comparison that is still to be judged.
    pub fn unjudged(&self) -> Option<EventRef> {
        self.diff.flatten().filter(|_| self.work.is_none())
    }

    /// The `check_ran`s.
    pub fn ran(&self) -> impl Iterator<Item = (EventRef, bool)> + '_ {
        self.checks.iter().flatten().copied()
    }
}

/// A finding and whether it is settled.
#[derive(Clone, Debug)]
pub struct Tracked {
    /// The finding.
    pub finding: Finding,
    /// Place of the reviewer's role.
    pub by: usize,
    /// False once it is settled.
    pub open: bool,
}

/// The end of a command that a role or a check ran.
#[derive(Clone, Debug)]
pub struct Run {
    /// The event that tells of it.
    pub at: EventRef,
    /// The whole command line.
    pub command: String,
    /// Where it ran, relative to the workspace.
    pub cwd: String,
    /// True when it ended with exit code 0.
    pub passed: bool,
}

impl Squad {
    /// The squad of a spec's blueprint before anybody works; none when the spec has no usable one.
    pub fn of(spec: &Spec) -> Option<Self> {
        let blueprint = spec.blueprint.as_ref()?;
        let lead = lead_of(blueprint)?;
        let roles = blueprint.roles.iter().enumerate();
        let roles = roles.map(|(i, role)| RoleState::new(role, i == lead, spec)).collect();
        Some(Squad {
            lead,
            roles,
            checks: blueprint.checks.clone(),
            base: None,
            phase: None,
            findings: Vec::new(),
            runs: Vec::new(),
            shown: None,
            written: BTreeMap::new(),
            ran_command: false,
            work: None,
            flags: Vec::new(),
            cache: Caching::of(spec),
        })
    }

    /// Takes over which commands run by themselves, and in which places, from a blueprint that replaces its own.
    pub fn follow(&mut self, blueprint: &Blueprint) {
        self.checks.clone_from(&blueprint.checks);
        for role in &mut self.roles {
            let new = blueprint.roles.iter().find(|new| new.name == role.spec.name);
            role.spec.sandbox = new.and_then(|new| new.sandbox.clone());
        }
    }

    /// The role a spark has.
    pub fn role_of(&self, spark: SparkId) -> Option<usize> {
        self.roles.iter().position(|role| role.spark == Some(spark))
    }

    /// Place of a role by name.
    pub fn named(&self, name: &str) -> Option<usize> {
        self.roles.iter().position(|role| role.spec.name == name)
    }

    /// The roles that must be done before one, their own predecessors included.
    pub fn before(&self, role: usize) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut waiting = vec![role];
        while let Some(next) = waiting.pop().and_then(|i| self.roles.get(i)) {
            let named = next.spec.after.iter().filter_map(|name| self.named(name));
            waiting.extend(named.filter(|i| found.insert(*i)));
        }
        found
    }

    /// True when nothing more is to be awaited of a role before those after it begin.
    pub fn is_settled(&self, role: usize) -> bool {
        self.roles.get(role).is_none_or(|state| match state.stage {
            Stage::Done => true,
            Stage::Failed(_) => !state.is_busy() && !self.is_unproven(role),
            Stage::Waiting => self.is_skipped(role),
            Stage::Working | Stage::Proving => false,
        })
    }

    /// True when the next piece of what shows a role's work is to be taken, or all are there and it is to be proposed. A
    /// writer that failed leaves its checks, where it changed anything, and its diff.
    pub fn is_unproven(&self, role: usize) -> bool {
        let Some(state) = self.roles.get(role) else { return false };
        match state.stage {
            _ if state.proof.awaited.is_some() => false,
            Stage::Proving => true,
            Stage::Failed(_) if state.kind == RoleKind::Writer && state.tasks > 0 => {
                self.next_piece(role).is_some() || state.proof.unjudged().is_some()
            }
            _ => false,
        }
    }

    /// The next piece of what shows a role's work; none once it is whole.
    pub fn next_piece(&self, role: usize) -> Option<Piece> {
        let state = self.roles.get(role)?;
        // A writer that failed before it changed anything leaves nothing to check.
        let touched = state.stage == Stage::Proving || self.ran_command || !self.written.is_empty();
        let checks = touched && state.proof.checks.len() < self.checks.len();
        match () {
            () if checks => Some(Piece::Check),
            () if state.proof.diff.is_none() && self.base.is_some() => Some(Piece::Diff),
            () => None,
        }
    }

    /// True for a reviewer with nobody left to review.
    pub fn is_skipped(&self, role: usize) -> bool {
        let failed = |name: &String| {
            let target = self.named(name).and_then(|i| self.roles.get(i));
            target.is_none_or(|target| matches!(target.stage, Stage::Failed(_)))
        };
        self.roles.get(role).is_some_and(|state| {
            state.kind == RoleKind::Reviewer
                && state.stage == Stage::Waiting
                && state.spec.revise.iter().all(failed)
        })
    }

    /// True when a role could begin, whoever else holds the workspace.
    pub fn is_ready(&self, role: usize) -> bool {
        self.roles.get(role).is_some_and(|state| {
            let named = |name: &String| self.named(name).is_none_or(|i| self.is_settled(i));
            state.stage == Stage::Waiting && !self.is_skipped(role) && state.spec.after.iter().all(named)
        })
    }

    /// True while a role that may change the workspace is at work or being proven.
    pub fn has_writer_at_work(&self) -> bool {
        self.roles.iter().any(|role| role.writes && role.is_busy())
    }

    /// True before any role that may change the workspace was given a task.
    pub fn is_unwritten(&self) -> bool {
        self.roles.iter().all(|role| !role.writes || role.tasks == 0)
    }

    /// The last run of the same command as one's.
    pub fn last_run_like(&self, run: &Run) -> Option<&Run> {
        let alike = |other: &&Run| (&other.command, &other.cwd) == (&run.command, &run.cwd);
        self.runs.iter().rev().find(alike)
    }

    /// True when a run's command passed when it ran last.
    pub fn stands(&self, run: &Run) -> bool {
        self.last_run_like(run).is_some_and(|last| last.passed)
    }

    /// True once the lead was asked for the answer.
    pub fn is_answering(&self) -> bool {
        self.roles.get(self.lead).is_some_and(|lead| lead.tasks > 1)
    }

    /// Open findings of one reviewer, or of all.
    pub fn open_findings(&self, by: Option<usize>) -> impl Iterator<Item = &Finding> {
        let open = self.findings.iter().filter(move |one| one.open && by.is_none_or(|by| one.by == by));
        open.map(|one| &one.finding)
    }

    /// Entries whose words may still be needed.
    pub fn seqs(&self) -> impl Iterator<Item = u64> + '_ {
        self.roles.iter().flat_map(|role| {
            let checks = role.proof.ran().map(|(at, _)| at);
            let diff = role.proof.diff.flatten();
            let one = [role.answer, diff, role.critique.map(|(at, _)| at), self.cache.hit];
            let all = one.into_iter().flatten().chain(checks).chain(role.history.iter().copied());
            all.map(|at| at.seq).collect::<Vec<_>>()
        })
    }
}

impl RoleState {
    fn new(spec: &RoleSpec, is_lead: bool, whole: &Spec) -> Self {
        let writes = writes(spec, &whole.tools);
        let kind = match (is_lead, spec.revise.is_empty(), writes) {
            (true, ..) => RoleKind::Lead,
            (_, false, _) => RoleKind::Reviewer,
            (_, _, true) => RoleKind::Writer,
            _ => RoleKind::Adviser,
        };
        RoleState {
            spec: spec.clone(),
            kind,
            writes,
            tools: tools_of(whole, spec),
            spark: None,
            stage: Stage::Waiting,
            tasks: 0,
            steps: 0,
            answer: None,
            history: Vec::new(),
            proof: Proof::default(),
            critique: None,
            sent: BTreeSet::new(),
            sent_back: 0,
            told: BTreeSet::new(),
        }
    }

    /// True while it has a task or is being proven, which goes on after it failed.
    pub fn is_busy(&self) -> bool {
        matches!(self.stage, Stage::Working | Stage::Proving) || self.proof.awaited.is_some()
    }

    /// True when its last judgement asks for changes.
    pub fn wants_changes(&self) -> bool {
        matches!(self.critique, Some((_, Judgement::RequestChanges)))
    }
}

/// Tools of a role: the blueprint's; else those of its persona, or all, that only look.
pub fn tools_of(spec: &Spec, role: &RoleSpec) -> Vec<String> {
    let persona = spec.personas.iter().find(|persona| persona.id == role.persona);
    let wanted = persona.and_then(|persona| persona.tools.as_deref());
    let is_given = |tool: &&ToolSpec| match role.tools.as_deref() {
        Some(given) => is_chosen(given, tool),
        None => tool.risk == Risk::Read && wanted.is_none_or(|list| is_chosen(list, tool)),
    };
    let offered = spec.offered.as_deref();
    let tools = spec.tools.iter().filter(is_given);
    tools
        .filter(|tool| offered.is_none_or(|list| is_chosen(list, tool)))
        .map(|tool| tool.name.clone())
        .collect()
}
