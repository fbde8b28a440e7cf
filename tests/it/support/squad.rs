//! What a pure world needs for squads: blueprints, typed answers, diffs and checks.

use agon::protocol::effect::DiffOrder;
use agon::protocol::effect::{Effect, MentionedPlace, OutcomeBody};
use agon::protocol::event::{ArenaEvent, CheckRan, DiffTaken, MentionExpanded, ModelReply, PathBase};
use agon::protocol::message::Request;
use agon::protocol::spec::*;
use serde_json::{Value, json};

use super::world::{Dice, World, text, well_formed};

impl World {
    /// Answers the one outstanding model call. After a squad's answer the workspace is looked at once more: nobody
    /// else has changed anything.
    pub fn model_says(&mut self, reply: ModelReply) -> Vec<ArenaEvent> {
        let mut decided = self.model_only_says(reply);
        let phase = |event: &ArenaEvent| match event {
            ArenaEvent::PhaseShifted(data) => Some(data.to.clone()),
            _ => None,
        };
        let last = self.log.iter().rev().find_map(|entry| entry.events.iter().rev().find_map(phase));
        if last.as_deref() == Some("answer") {
            let look = self.session.outstanding().into_iter().find_map(|open| {
                let Effect::Diff { order: DiffOrder { shown, .. }, .. } = self.session.effect(open.call)?
                else {
                    return None;
                };
                Some((open, unchanged(&shown.unwrap_or_else(|| "tree".to_owned()))))
            });
            if let Some((open, taken)) = look {
                decided.extend(self.answer(open.call.0, open.attempt, OutcomeBody::DiffTaken(taken)));
            }
        }
        decided
    }

    /// Answers the one outstanding model call, and leaves open what follows.
    pub fn model_only_says(&mut self, reply: ModelReply) -> Vec<ArenaEvent> {
        let (call, attempt, request) = self.model();
        well_formed(&request);
        self.answer(call, attempt, OutcomeBody::ModelAnswered(reply))
    }
}

/// A persona that says who it is.
pub fn persona(id: &str) -> PersonaSpec {
    PersonaSpec {
        id: id.to_owned(),
        description: String::new(),
        stance: None,
        model: None,
        fallbacks: None,
        tools: None,
        temperature_pm: None,
        effort: None,
        text: format!("You are the {id}."),
    }
}

/// A role whose persona has its name.
pub fn role(name: &str, after: &[&str]) -> RoleSpec {
    RoleSpec {
        name: name.to_owned(),
        persona: name.to_owned(),
        model: None,
        fallbacks: None,
        tools: None,
        effort: None,
        after: after.iter().map(|s| (*s).to_owned()).collect(),
        revise: vec![],
        sandbox: None,
        read_only: false,
        revisions: 2,
        max_steps: None,
    }
}

/// Coordinator, coder with `look`, `put` and `run`, reviewer.
pub fn blueprint(checks: &[&str]) -> Blueprint {
    let coder = RoleSpec {
        tools: Some(vec!["look".into(), "put".into(), "run".into()]),
        ..role("coder", &["coordinator"])
    };
    let reviewer = RoleSpec { revise: vec!["coder".into()], ..role("reviewer", &["coder"]) };
    Blueprint {
        name: "test".to_owned(),
        lead: None,
        roles: vec![role("coordinator", &[]), coder, reviewer],
        checks: checks.iter().map(|s| (*s).to_owned()).collect(),
    }
}

/// Gives a spec a blueprint and the personas it names.
pub fn with_blueprint(mut spec: Spec, blueprint: Blueprint) -> Spec {
    spec.personas.extend(blueprint.roles.iter().map(|role| persona(&role.persona)));
    spec.blueprint = Some(blueprint);
    spec
}

/// Gives a spec a random blueprint: advisers, a second writer, a second reviewer, limits.
pub fn staff(spec: &mut Spec, dice: &mut Dice) {
    let checks: &[&str] =
        [&[][..], &["make test"][..], &["make lint", "make test"][..]][dice.roll(3) as usize];
    let mut plan = blueprint(checks);
    if dice.roll(3) == 0 {
        plan.roles.push(role("scout", &[]));
        plan.roles[1].after.push("scout".into());
    }
    if dice.roll(3) == 0 {
        let tools = Some(vec!["put".into()]);
        plan.roles.push(RoleSpec { tools, ..role("writer", &["coordinator"]) });
    }
    if dice.roll(3) == 0 {
        plan.roles.push(RoleSpec { revise: vec!["coder".into()], ..role("guard", &["coder"]) });
    }
    plan.roles[2].revisions = dice.roll(3) as u32;
    // One that reviews but once has commands, and changes nothing by them.
    if plan.roles[2].revisions == 1 {
        plan.roles[2].tools = Some(vec!["look".into(), "run".into()]);
        plan.roles[2].read_only = true;
    }
    if dice.roll(4) == 0 {
        plan.roles[1].max_steps = Some(1 + dice.roll(3) as u32);
    }
    *spec = with_blueprint(spec.clone(), plan);
}

/// True when a request asks for a critique, none when it asks for no typed answer.
fn asks_for_critique(request: &Request) -> Option<bool> {
    let schema = request.params.schema.as_ref()?;
    Some(schema.schema.pointer("/properties/verdict").is_some())
}

/// An answer that fits whatever is asked for, and that approves.
pub fn fitting(request: &Request) -> ModelReply {
    match asks_for_critique(request) {
        None => text("all done"),
        Some(true) => approve(&[]),
        Some(false) => answer("all done", &[], &[]),
    }
}

/// A random typed answer, now and then one that contradicts itself.
pub fn typed(request: &Request, dice: &mut Dice) -> ModelReply {
    match (asks_for_critique(request), dice.roll(4)) {
        (Some(true), 0) => approve(&["F1"]),
        (Some(true), 1) => approve(&[]),
        (Some(true), _) => request_changes(&[("major", "it is wrong")], &[]),
        _ => answer("done", &[("checks_pass", "e3"), ("observed", "e999")], &["nothing"]),
    }
}

pub fn approve(closed: &[&str]) -> ModelReply {
    say(json!({"verdict": "approve", "findings": [], "closed": closed}))
}

/// Findings: severity and problem, all in line 3 of `f`.
pub fn request_changes(findings: &[(&str, &str)], closed: &[&str]) -> ModelReply {
    let findings: Vec<Value> = findings
        .iter()
        .map(|(severity, problem)| json!({"severity": severity, "file": "f", "line": 3, "problem": problem, "fix": "mend it"}))
        .collect();
    say(json!({"verdict": "request_changes", "findings": findings, "closed": closed}))
}

/// Claims: kind and one reference.
pub fn answer(words: &str, claims: &[(&str, &str)], open: &[&str]) -> ModelReply {
    let claims: Vec<Value> = claims
        .iter()
        .map(|(kind, evidence)| json!({"kind": kind, "text": "so it is", "evidence": [evidence]}))
        .collect();
    say(json!({"answer": words, "claims": claims, "open": open}))
}

fn say(value: Value) -> ModelReply {
    text(&value.to_string())
}

/// What stands in a file that is mentioned.
pub fn mentioned(place: &MentionedPlace) -> MentionExpanded {
    MentionExpanded {
        mention: place.mention.clone(),
        text: format!("     1\twords of {}\n", place.path),
        seen: vec![PathBase { path: place.path.clone(), sha256: Some("seen".to_owned()) }],
        parts: vec![],
    }
}

/// A workspace that is as it was recorded.
pub fn unchanged(tree: &str) -> DiffTaken {
    DiffTaken { from: tree.to_owned(), to: tree.to_owned(), ..DiffTaken::default() }
}

/// A workspace in which `f` was changed, once.
pub fn diff(from: &str) -> DiffTaken {
    if from == "tree2" {
        return DiffTaken { from: from.to_owned(), to: from.to_owned(), ..DiffTaken::default() };
    }
    DiffTaken {
        from: from.to_owned(),
        to: "tree2".to_owned(),
        diff: "--- a/f\n+++ b/f\n-old\n+new\n".to_owned(),
        files: vec!["f".to_owned()],
        ..DiffTaken::default()
    }
}

pub fn check(command: &str, exit: i32) -> CheckRan {
    let output = if exit == 0 { "7 passed" } else { "1 of 7 failed" };
    CheckRan {
        command: command.to_owned(),
        exit: Some(exit),
        output: output.to_owned(),
        ms: 5,
        notes: Vec::new(),
    }
}
