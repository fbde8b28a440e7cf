//! What agon says to a role when it gives it a task: its place in the squad, and what the next messages hold.

use std::fmt::Write as _;

use crate::protocol::event::ArenaEvent;
use crate::protocol::message::Structured;
use crate::protocol::{EventRef, SparkId};
use crate::session::Session;

use super::state::{RoleKind, RoleState, Squad, Stage};

/// Files that a brief names at most: switching a branch may change thousands.
const MOST_NAMED: usize = 20;

impl Session {
    /// The task of a role that begins, or that looks again.
    pub(super) fn task_brief(&self, i: usize, sources: &[(SparkId, EventRef)]) -> Option<String> {
        let squad = self.squad.as_ref()?;
        let role = squad.roles.get(i)?;
        let mut text = match (role.kind, role.tasks) {
            (RoleKind::Lead, _) => plan_task(squad),
            (RoleKind::Writer, _) => format!(
                "You are `{}` in a squad. Do the work the request asks for, by the plan if there is one. Your last \
                 message goes to those who review it, beside the real diff{}.",
                role.spec.name,
                checked(squad)
            ),
            (RoleKind::Reviewer, 0) => format!(
                "You are `{}` in a squad. Review the work of {} against the request and the plan.",
                role.spec.name,
                list(&role.spec.revise)
            ),
            (RoleKind::Reviewer, _) => self.second_look(i, squad, role),
            (RoleKind::Adviser, _) => format!(
                "You are `{}` in a squad. Find out what the others need to know for this request; your last \
                 message goes to them. You can look, and change nothing.",
                role.spec.name
            ),
        };
        if role.kind == RoleKind::Reviewer {
            text.push_str(&unseen(squad, role));
        }
        self.finish_brief(&mut text, role, sources);
        Some(text)
    }

    fn second_look(&self, i: usize, squad: &Squad, role: &RoleState) -> String {
        let open: Vec<String> = squad.open_findings(Some(i)).map(|finding| finding.id.clone()).collect();
        let open = if open.is_empty() { "none".to_owned() } else { open.join(", ") };
        format!(
            "The work of {} was revised. Look again. Your open findings: {open}. Put the ids of those that are \
             settled into `closed`; list as findings only what is new, or what you now say differently (with its id).",
            list(&role.spec.revise)
        )
    }

    /// The task of a role that is sent back.
    pub(super) fn revision_brief(&self, i: usize, sources: &[(SparkId, EventRef)]) -> String {
        let Some(squad) = &self.squad else { return String::new() };
        let Some(role) = squad.roles.get(i) else { return String::new() };
        let critics =
            squad.roles.iter().filter(|critic| sources.iter().any(|(by, _)| critic.spark == Some(*by)));
        let mut text = match critics.into_iter().any(RoleState::wants_changes) {
            true => "Your work came back from review. Settle every finding, or say in your answer why it is none. \
                     Change nothing else. End with what you did about each finding, by its id.",
            false => "Your work came back, although its review approves it.",
        }
        .to_owned();
        if role.proof.was_failed() {
            text.push_str(
                " A check did not pass: fix what makes it fail, or say in your answer why that is not in this work.",
            );
        }
        self.finish_brief(&mut text, role, sources);
        text
    }

    /// The lead's last task.
    pub(super) fn answer_brief(&self, i: usize, sources: &[(SparkId, EventRef)]) -> String {
        let Some(squad) = &self.squad else { return String::new() };
        let mut text =
            "The squad has finished. Write the answer for the person who asked: what was done and what \
                        came of it, with evidence. Cite entries by their reference, such as `e42`."
                .to_owned();
        let open: Vec<&str> = squad.open_findings(None).map(|finding| finding.id.as_str()).collect();
        if !open.is_empty() {
            let _ = write!(text, "\nFindings still open: {}. Say so in `open`.", open.join(", "));
        }
        for role in &squad.roles {
            let name = &role.spec.name;
            if let Stage::Failed(_) = role.stage {
                let _ =
                    write!(text, "\n`{name}` failed and did not do its part. Say in `open` what is missing.");
            } else if role.stage == Stage::Waiting {
                let _ = write!(text, "\n`{name}` did not get to work. Say in `open` what is missing.");
            }
            if role.wants_changes() {
                let _ = write!(text, "\n`{name}` has not approved the work. Say so.");
            }
            if role.proof.fails() {
                let _ = write!(
                    text,
                    "\nThe last checks after `{name}` did not pass, whatever a review says. Say so; do not claim \
                     otherwise."
                );
            }
        }
        if squad.checks.is_empty() {
            text.push_str("\nNo check ran. Do not claim that any passed.");
        }
        text.push_str(&unseen(squad, &squad.roles[i]));
        if let Some(role) = squad.roles.get(i) {
            self.finish_brief(&mut text, role, sources);
        }
        text
    }

    /// Names what follows, and the form of the answer where the provider cannot be held to it.
    fn finish_brief(&self, text: &mut String, role: &RoleState, sources: &[(SparkId, EventRef)]) {
        if !sources.is_empty() {
            text.push_str("\nThe messages that follow hold, in this order:");
            for (from, source) in sources {
                let _ = write!(text, "\n- {} [{source}]", self.what_is(*from, *source));
            }
        }
        let task = role.tasks + 1;
        let Some(schema) = self.typed_schema(role, task) else { return };
        let model = role.spark.and_then(|id| self.sparks.get(&id)).map(|spark| spark.model.clone());
        let row = model.as_deref().and_then(|model| self.model_spec(model));
        if row.is_none_or(|row| row.structured != Structured::ResponseFormat) {
            let _ = write!(
                text,
                "\nWhen you are done, answer with JSON only, fitting this JSON Schema:\n{schema}"
            );
        }
    }

    /// What an event is, in the words of a list.
    fn what_is(&self, from: SparkId, source: EventRef) -> String {
        let squad = self.squad.as_ref();
        let role = squad.and_then(|squad| squad.role_of(from).and_then(|i| squad.roles.get(i)));
        let name = role.map(|role| role.spec.name.as_str()).unwrap_or_default();
        match self.event(source) {
            Some(ArenaEvent::DiffTaken(_)) => {
                "the whole diff of the workspace since the squad began".to_owned()
            }
            Some(ArenaEvent::CheckRan(ran)) => format!("the check `{}` and its output", ran.body.command),
            Some(ArenaEvent::CritiqueIssued(_)) => format!("the review of `{name}`"),
            _ if role.is_some_and(|role| role.kind == RoleKind::Lead) => format!("the plan of `{name}`"),
            _ => format!("the answer of `{name}`"),
        }
    }
}

fn plan_task(squad: &Squad) -> String {
    let mut text =
        format!("You are `{}` and lead a squad. Its other roles:", squad.roles[squad.lead].spec.name);
    for role in squad.roles.iter().filter(|role| role.kind != RoleKind::Lead) {
        let does = match role.kind {
            RoleKind::Reviewer => format!("reviews {}", list(&role.spec.revise)),
            RoleKind::Writer => "does the work and may change files".to_owned(),
            RoleKind::Adviser | RoleKind::Lead => "looks and reports".to_owned(),
        };
        let _ = write!(text, "\n- `{}` {does}", role.spec.name);
    }
    match squad.checks.is_empty() {
        true => text.push_str("\nNo checks are configured."),
        false => {
            let _ = write!(text, "\nChecks that run after the work: {}.", list(&squad.checks));
        }
    }
    text.push_str(
        "\nState the plan now: what is to be done, in which order, and how one will see that it is done. Look at the \
         workspace first. Do not do the work yourself. Your answer goes to the others as it is.",
    );
    text
}

fn checked(squad: &Squad) -> String {
    match squad.checks.is_empty() {
        true => String::new(),
        false => format!(" and what these checks print: {}", list(&squad.checks)),
    }
}

/// What cannot be shown, so that silence is not taken for a clean diff.
fn unseen(squad: &Squad, reader: &RoleState) -> String {
    let mut text = String::new();
    let concerns =
        |role: &&RoleState| reader.kind == RoleKind::Lead || reader.spec.revise.contains(&role.spec.name);
    for role in squad.roles.iter().filter(|role| role.kind == RoleKind::Writer).filter(concerns) {
        let name = &role.spec.name;
        let Some(work) = &role.proof.work else {
            let _ = write!(
                text,
                "\nThere is no diff: the workspace before and after `{name}` could not be compared."
            );
            continue;
        };
        for (files, words) in [
            (&work.foreign, format!("Not the work of `{name}`, changed meanwhile by another process")),
            (&work.unknown, "Changed by a check or by another process".to_owned()),
            (
                &work.restored,
                format!("Written by `{name}`, and again as it was before when the work was compared"),
            ),
        ] {
            if !files.is_empty() {
                let _ = write!(text, "\n{words}: {}.", some(files));
            }
        }
        if work.shown().is_none() {
            let _ = write!(text, "\nThere is no diff: `{name}` left the workspace as it was.");
        }
    }
    text
}

/// As many names as a reader takes in.
fn some(paths: &[String]) -> String {
    match paths.split_at_checked(MOST_NAMED) {
        Some((first, rest)) if !rest.is_empty() => format!("{} and {} more files", list(first), rest.len()),
        _ => list(paths),
    }
}

fn list(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
