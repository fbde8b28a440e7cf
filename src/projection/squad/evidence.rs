//! What stands behind a squad's answer: how its checks ended, what its reviewers left open; reads no answer.

use std::collections::{BTreeMap, BTreeSet};

use crate::projection::phrases;
use crate::protocol::effect::{CheckOrder, DiffOrder, Order};
use crate::protocol::event::{CodeProposed, DiffTaken, Finding, Judgement, PatchApplied};
use crate::protocol::spec::{Blueprint, Setting};
use crate::protocol::text::name_in_list;
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
    /// What the last diffs name, by path.
    diffs: BTreeMap<EventRef, BTreeMap<String, &'static str>>,
    /// What a check or another process changed while the checks ran.
    left: BTreeMap<String, &'static str>,
    /// What of each one's last work was undone by that.
    undone: BTreeMap<SparkId, Vec<String>>,
    /// What each one's last work changed.
    own: BTreeMap<SparkId, BTreeSet<String>>,
    /// Files that were written, by the comparisons that ask of them: true for one that was there before.
    written: BTreeMap<String, bool>,
    /// Those of them that were as before when the work was compared last.
    taken_back: Vec<String>,
    /// What somebody else changed meanwhile.
    foreign: BTreeSet<String>,
    /// True once the lead was asked for the answer: from here on diffs are last looks.
    answering: bool,
    /// Files of the work that the first of them found changed; absent before it.
    overwritten: Option<Vec<String>>,
    /// Whether any work that stood for review changed a file; absent before the first.
    changed: Option<bool>,
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
            E::EffectOrdered(data) => match &data.effect {
                Order::Check(CheckOrder { command }) => drop(self.running.insert(data.call, command.clone())),
                Order::Diff(DiffOrder { written, .. }) => {
                    let files = written.iter().map(|file| (file.path.clone(), file.sha256.is_some()));
                    self.written = files.collect();
                }
                _ => {}
            },
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
            E::PhaseShifted(data) => self.answering = data.to == "answer",
            E::DiffTaken(data) if self.answering => self.look(&data.body),
            E::DiffTaken(data) => {
                if self.diffs.is_empty() {
                    self.taken_back.clone_from(&data.body.undone);
                }
                self.diffs.insert(at, by_path(&data.body));
            }
            E::CodeProposed(data) => {
                self.left.extend(data.left.and_then(|left| self.diffs.remove(&left)).unwrap_or_default());
                let own = self.own_of(data);
                self.diffs.clear();
                self.foreign.extend(data.foreign.iter().cloned());
                self.undone.insert(data.spark, data.undone.clone());
                let changed = own.as_ref().map_or(data.diff.is_some(), |own| !own.is_empty());
                self.changed = Some(self.changed == Some(true) || changed);
                self.own.insert(data.spark, own.unwrap_or_default());
                self.steps.push(match data.diff.filter(|_| changed) {
                    Some(diff) => format!("{} did its work, the diff is {diff}", who(data.spark)),
                    None => format!("{} was done and changed nothing", who(data.spark)),
                });
            }
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

    /// What a diff shows that is the work of whoever proposes it; none without a diff.
    fn own_of(&self, proposed: &CodeProposed) -> Option<BTreeSet<String>> {
        let paths = self.diffs.get(&proposed.diff?)?.keys();
        Some(paths.filter(|path| !proposed.foreign.contains(path)).cloned().collect())
    }

    fn look(&mut self, taken: &DiffTaken) {
        let ours = |path: &&String| self.own.values().any(|own| own.contains(*path));
        let is_new = |path: &&String| !self.taken_back.contains(path) && !ours(path);
        let unseen = taken.undone.iter().filter(is_new);
        let lost = || taken.files.iter().filter(ours).chain(unseen).cloned().collect();
        self.overwritten.get_or_insert_with(lost);
    }

    /// Told beneath an answer when files were written and are as they were before.
    pub fn taken_back_words(&self) -> String {
        match listed(&self.taken_back) {
            files if files.is_empty() => files,
            files => format!("\n\nWritten, and as before again when the work was compared: {files}."),
        }
    }

    /// A file that was changed for nothing: of all that was written, nothing is left.
    fn lost(&self) -> Option<&String> {
        let is_left =
            self.changed == Some(true) || self.written.keys().any(|path| !self.taken_back.contains(path));
        let mut before = self.written.iter().filter(|(_, was_there)| **was_there);
        before.next().filter(|_| !is_left).map(|(path, _)| path)
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

    /// Told beneath an answer when no work changed a file, whatever the answer says.
    pub fn changes_words(&self) -> &'static str {
        match self.changed {
            Some(false) => "\n\nNo file that git looks at was changed.",
            Some(true) | None => "",
        }
    }

    /// Told beneath an answer when files changed that no tool of the squad wrote.
    pub fn foreign_words(&self) -> String {
        match listed(&self.foreign) {
            files if files.is_empty() => files,
            files => format!("\n\nChanged meanwhile by another process: {files}."),
        }
    }

    /// Told beneath an answer when the work is not any more what was checked.
    pub fn overwritten_words(&self) -> String {
        match listed(self.overwritten.iter().flatten()) {
            files if files.is_empty() => files,
            files => format!("\n\nChanged by another process after the {}: {files}.", self.shown_by()),
        }
    }

    /// What showed the work.
    fn shown_by(&self) -> &'static str {
        if self.checks.is_empty() { "work" } else { "checks" }
    }

    /// Told beneath an answer when files changed while the checks ran.
    pub fn left_words(&self) -> String {
        if self.left.is_empty() {
            return String::new();
        }
        let file = |(path, word): (&String, &&str)| format!("{} {word}", name_in_list(path));
        let files: Vec<String> = self.left.iter().map(file).collect();
        let undone = match listed(self.undone()) {
            none if none.is_empty() => none,
            files => format!("\nThat undid the work in {files}."),
        };
        format!("\n\nA check or another process changed while the checks ran: {}.{undone}", files.join(", "))
    }

    fn undone(&self) -> impl Iterator<Item = &String> {
        self.undone.values().flatten()
    }

    /// What agon itself says of the checks, beneath an answer: nothing where each of them passed.
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
    pub fn recorded_words(&self, stored_at: u64, applied: &PatchApplied) -> String {
        let when = format!("{} {} UTC", phrases::day(stored_at), phrases::time_of_day(stored_at));
        let checks: Vec<&str> = self.checks.iter().map(|check| check.command.as_str()).collect();
        let ran = match checks.is_empty() {
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
        lacks.extend(
            self.undone().map(|path| format!("a check or another process undid the work in `{path}`")),
        );
        let overwritten = self.overwritten.iter().flatten();
        lacks
            .extend(overwritten.map(|path| {
                format!("`{path}` was changed by another process after the {}", self.shown_by())
            }));
        let lost =
            self.lost().map(|path| format!("nothing that was written is left: `{path}` is as it was before"));
        lacks.extend(lost);
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

/// What a diff did to each of its paths.
fn by_path(taken: &DiffTaken) -> BTreeMap<String, &'static str> {
    let word = |path: &String| match path {
        path if taken.added.contains(path) => "added",
        path if taken.removed.contains(path) => "removed",
        _ => "changed",
    };
    taken.files.iter().map(|path| (path.clone(), word(path))).collect()
}

fn finding_line(finding: &Finding) -> String {
    let (severity, place) = (finding.severity.word(), finding.place());
    format!("\n- {} {severity}{place}: {}", finding.id, finding.problem.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_changed_nothing_is_told_until_some_does() {
        let mut evidence = Evidence::of(&[]);
        assert_eq!(evidence.changes_words(), "", "nobody has worked yet");
        let mut propose = |diff| {
            let proposed = CodeProposed {
                spark: SparkId(1),
                diff,
                checks: Vec::new(),
                left: None,
                undone: Vec::new(),
                foreign: Vec::new(),
            };
            evidence.apply(EventRef::fact(7), &ArenaEvent::CodeProposed(proposed), |_| "coder".to_owned());
            evidence.changes_words()
        };
        assert_eq!(propose(None), "\n\nNo file that git looks at was changed.");
        assert_eq!(propose(Some(EventRef::fact(6))), "");
        assert_eq!(propose(None), "", "what was changed before stands");
    }
}
