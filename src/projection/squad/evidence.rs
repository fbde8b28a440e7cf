//! What stands behind a squad's answer: how its checks ended, what its reviewers left open; reads no answer.

use std::collections::BTreeMap;

use crate::projection::phrases;
use crate::protocol::effect::{CheckOrder, Order};
use crate::protocol::event::{Finding, Judgement, PatchApplied, WorkJudged};
use crate::protocol::spec::{Blueprint, Setting};
use crate::protocol::{ArenaEvent, CallId, EventRef, SparkId};

/// Checks and findings of one turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Evidence {
    checks: Vec<Check>,
    /// Checks that run.
    running: BTreeMap<CallId, String>,
    findings: Vec<Finding>,
    /// The role and the last judgement of each reviewer.
    judged: BTreeMap<SparkId, (String, Judgement)>,
    /// What came of the work, in the order it came.
    steps: Vec<String>,
    /// Whose the changes are, as decided last.
    work: Option<WorkJudged>,
}

/// One check and how it ended last.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Check {
    command: String,
    last: Last,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Last {
    Never,
    Ended(EventRef, Option<i32>),
    CouldNot(String),
}

impl Check {
    fn passed(&self) -> bool {
        matches!(self.last, Last::Ended(_, Some(0)))
    }

    fn words(&self) -> String {
        let ended = match &self.last {
            Last::Never => "never ran".to_owned(),
            Last::Ended(at, Some(exit)) => format!("exit {exit} ({at})"),
            Last::Ended(at, None) => format!("did not end by itself ({at})"),
            Last::CouldNot(why) => format!("could not be run: {why}"),
        };
        format!("`{}`: {ended}", self.command)
    }
}

/// The blueprint a list of settings brings in.
pub(super) fn blueprint_in(changed: &[Setting]) -> Option<&Blueprint> {
    changed.iter().rev().find_map(|setting| match setting {
        Setting::Blueprint(blueprint) => Some(blueprint),
        _ => None,
    })
}

impl Evidence {
    /// That of a turn with these checks before anybody worked.
    pub fn of(checks: &[String]) -> Self {
        let check = |command: &String| Check { command: command.clone(), last: Last::Never };
        Evidence { checks: checks.iter().map(check).collect(), ..Evidence::default() }
    }

    /// Folds one event; `who` names a spark's role.
    pub fn apply(&mut self, at: EventRef, event: &ArenaEvent, who: impl Fn(SparkId) -> String) {
        use ArenaEvent as E;
        match event {
            E::EffectOrdered(data) => {
                if let Order::Check(CheckOrder { command }) = &data.effect {
                    self.running.insert(data.call, command.clone());
                }
            }
            E::CheckRan(data) => {
                self.running.remove(&data.call);
                self.ended(&data.body.command, Last::Ended(at, data.body.exit));
            }
            E::EffectFailed(data) => {
                if let Some(command) = self.running.remove(&data.call) {
                    self.ended(&command, Last::CouldNot(data.body.error.clone()));
                }
            }
            E::PlanStated(data) => {
                self.steps.push(format!("{} stated the plan ({})", who(data.spark), data.source))
            }
            E::WorkJudged(data) => self.work = Some(data.clone()),
            E::CodeProposed(data) => self.steps.push(match data.diff.filter(|_| self.has_changed()) {
                Some(diff) => format!("{} did its work, the diff is {diff}", who(data.spark)),
                None => format!("{} was done and changed nothing", who(data.spark)),
            }),
            E::CritiqueIssued(data) => {
                let word = match data.verdict {
                    Judgement::Approve if self.has_failed_check() => "approved it against a failed check",
                    Judgement::Approve => "approved it",
                    Judgement::RequestChanges => "asked for changes",
                    Judgement::Unknown(_) => phrases::NEWER,
                };
                self.steps.push(format!("{} {word} ({at})", who(data.spark)));
                self.judged.insert(data.spark, (who(data.spark), data.verdict));
                for finding in &data.findings {
                    self.findings.retain(|known| known.id != finding.id);
                    self.findings.push(finding.clone());
                }
            }
            E::FindingClosed(data) => self.findings.retain(|finding| finding.id != data.id),
            _ => {}
        }
    }

    fn has_changed(&self) -> bool {
        self.work.as_ref().is_some_and(|work| work.changed().next().is_some())
    }

    /// What agon decided of the work, under an answer: nothing of work that is the squad's and still there.
    pub fn work_words(&self) -> String {
        let Some(work) = &self.work else { return String::new() };
        let mut out = String::new();
        if !self.has_changed() {
            out.push_str("\n\nNo file that git looks at was changed.");
        }
        for (files, words) in [
            (&work.foreign, "Changed meanwhile by another process"),
            (&work.unknown, "Changed by a check or by another process"),
            (&work.restored, "Written, and as before again"),
            (&work.undone, "Work that was undone"),
        ] {
            if !files.is_empty() {
                out.push_str(&format!("\n\n{words}: {}.", listed(files)));
            }
        }
        out
    }

    fn has_failed_check(&self) -> bool {
        self.checks.iter().any(|check| matches!(check.last, Last::Ended(_, exit) if exit != Some(0)))
    }

    /// Reviewers whose last word is that the work can stand, while a check says that it cannot.
    fn approved_all_the_same(&self) -> String {
        let approves = |(name, verdict): &(String, Judgement)| {
            (*verdict == Judgement::Approve).then(|| format!("`{name}`"))
        };
        let names: Vec<String> = self.judged.values().filter_map(approves).collect();
        match names.as_slice() {
            names if names.is_empty() || !self.has_failed_check() => String::new(),
            names => format!("\n{} approved the work all the same.", names.join(" and ")),
        }
    }

    fn ended(&mut self, command: &str, last: Last) {
        match self.checks.iter_mut().find(|check| check.command == command) {
            Some(check) => check.last = last,
            None => self.checks.push(Check { command: command.to_owned(), last }),
        }
    }

    /// What agon itself says of the checks, under an answer: nothing where each of them passed.
    pub fn checks_words(&self) -> String {
        if self.checks.is_empty() {
            return "\n\nNo check ran: this squad has none.".to_owned();
        }
        if self.checks.iter().all(Check::passed) {
            return String::new();
        }
        let lines = self.checks.iter().map(|check| format!("\n- {}", check.words()));
        let approved = self.approved_all_the_same();
        format!("\n\nChecks, as agon ran them:{}{approved}", lines.collect::<String>())
    }

    /// What is said of the checks of a run that was recorded at a time and is only applied now. It was recorded
    /// because they passed.
    pub fn recorded_words(&self, stored_at: u64, ran_commands: bool, applied: &PatchApplied) -> String {
        let when = format!("{} {} UTC", phrases::day(stored_at), phrases::time_of_day(stored_at));
        let checks: Vec<&str> = self.checks.iter().map(|check| check.command.as_str()).collect();
        let ran = match checks.is_empty() {
            true if ran_commands => format!(
                "\n\nFrom the team cache: the run of {when}; its commands were not run again, and may depend on more than \
                 was compared."
            ),
            true => format!("\n\nFrom the team cache: the run of {when}; no check ran then or now."),
            false => format!(
                "\n\nFrom the team cache: the run of {when}; the checks were not run again. Then each ended with \
                 exit 0: `{}`.",
                checks.join("`, `")
            ),
        };
        ran + &applied_words(applied)
    }

    /// What the reviewers left open and an answer does not name by its id, beneath that answer.
    pub fn findings_words(&self, said: &str) -> String {
        let names = |id: &str| said.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == id);
        let unsaid = self.findings.iter().filter(|finding| !names(&finding.id));
        match unsaid.map(finding_line).collect::<String>() {
            none if none.is_empty() => none,
            lines => format!("\n\nFindings still open:{lines}"),
        }
    }

    /// What keeps the work from being done, each in a few words.
    pub fn lacks(&self) -> Vec<String> {
        let failed = self.checks.iter().filter(|check| !check.passed());
        let mut lacks: Vec<String> = failed.map(|check| format!("check {}", check.words())).collect();
        lacks.extend(self.work.iter().flat_map(WorkJudged::faults));
        let refused = self.judged.values().any(|(_, verdict)| *verdict == Judgement::RequestChanges);
        let ids: Vec<&str> = self.findings.iter().map(|finding| finding.id.as_str()).collect();
        if refused && !ids.is_empty() {
            lacks.push(format!(
                "{} open ({})",
                phrases::counted(ids.len() as u64, "finding"),
                ids.join(", ")
            ));
        }
        lacks
    }

    /// What the roles came to so far, a line each.
    pub fn steps(&self) -> String {
        self.steps.iter().map(|step| format!("\n- {step}")).collect()
    }
}

fn listed<'a>(paths: impl IntoIterator<Item = &'a String>) -> String {
    paths.into_iter().map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", ")
}

/// What applying a recorded run did to files; nothing where there was nothing to do.
fn applied_words(applied: &PatchApplied) -> String {
    let (gone, kept): (Vec<&String>, Vec<&String>) =
        applied.paths.iter().partition(|path| applied.removed.contains(path));
    let line = |word: &str, paths: &[&String]| match paths {
        [] => String::new(),
        paths => format!(" {word} just now: {}.", listed(paths.iter().copied())),
    };
    line("Written", &kept) + &line("Removed", &gone)
}

fn finding_line(finding: &Finding) -> String {
    let (severity, place) = (finding.severity.word(), finding.place());
    format!("\n- {} {severity}{place}: {}", finding.id, finding.problem.trim())
}
