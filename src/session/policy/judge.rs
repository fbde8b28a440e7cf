//! The order in which a call is judged: the first line that speaks decides.

use serde::Serialize;

use super::{covers, matches, names, restored, understood};
use crate::protocol::event::Plan;
use crate::protocol::need::Need;
use crate::protocol::spec::{Action, PermissionLevel, Policy, Risk, Rule};

/// What is decided, and by what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ruling {
    /// What follows.
    pub action: Action,
    /// Name of the rule.
    pub rule: String,
    /// Why, for people and models.
    pub why: Option<String>,
    /// The line of the order that decided.
    pub line: Line,
}

/// The lines of the order of judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Line {
    /// A rule that denies.
    Denied,
    /// What the level `plan` and a read-only role do not do.
    ReadOnly,
    /// A rule that asks.
    Asked,
    /// A rule or a grant that allows all of it.
    Allowed,
    /// What the level does with everything else.
    Level,
}

/// What calls are judged by.
#[derive(Clone, Copy, Debug)]
pub struct Rights<'a> {
    /// The rules.
    pub policy: &'a Policy,
    /// What people granted for the session.
    pub grants: &'a [Grant],
    /// The permission level.
    pub level: PermissionLevel,
    /// True for a role that only looks, whatever the level.
    pub read_only: bool,
    /// What confines the commands of the call.
    pub shelter: Shelter,
}

/// What a sandbox does for a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Shelter {
    /// It keeps commands from everything but the workspace.
    pub confines: bool,
    /// It can keep them from changing the workspace.
    pub holds_plans: bool,
}

/// What a person granted for the session, and what confined the call that was shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Grant {
    /// What is allowed.
    pub rule: Rule,
    /// It counts only where commands are confined as much.
    pub shelter: Shelter,
}

impl<'a> Rights<'a> {
    /// The grants that count here.
    pub(super) fn granted(&self) -> impl Iterator<Item = &'a Rule> + use<'a> {
        let here = self.shelter;
        let counts = move |of: Shelter| here.confines >= of.confines && here.holds_plans >= of.holds_plans;
        self.grants.iter().filter(move |grant| counts(grant.shelter)).map(|grant| &grant.rule)
    }
}

/// Judges a prepared call.
pub fn judge(rights: &Rights<'_>, tool: &str, plan: &Plan) -> Ruling {
    let speaks = lines(rights, tool, plan).find_map(|(_, ruling)| ruling);
    speaks.unwrap_or_else(|| default(Action::Deny, "no line of the order speaks", Line::Level))
}

/// What each line of the order says, the first one first; the last one always speaks.
pub fn lines(rights: &Rights<'_>, tool: &str, plan: &Plan) -> impl Iterator<Item = (Line, Option<Ruling>)> {
    type Says = fn(&Rights<'_>, &str, &Plan) -> Option<Ruling>;
    let all: [(Line, Says); 5] = [
        (Line::Denied, denied),
        (Line::ReadOnly, read_only),
        (Line::Asked, asked),
        (Line::Allowed, allowed),
        (Line::Level, |rights, tool, plan| Some(by_level(rights, tool, plan))),
    ];
    all.into_iter().map(move |(line, says)| (line, says(rights, tool, plan)))
}

/// The needs of a call that leave the sandbox and that no rule and no grant names.
pub fn opens<'a>(rights: &Rights<'_>, tool: &str, plan: &'a Plan) -> Vec<&'a Need> {
    doors(rights, tool, plan).filter(|(_, by)| by.is_none()).map(|(need, _)| need).collect()
}

/// The needs of a call that leave the sandbox, each with the rule or the grant that names it.
fn doors<'a, 'r>(
    rights: &Rights<'r>,
    tool: &str,
    plan: &'a Plan,
) -> impl Iterator<Item = (&'a Need, Option<&'r Rule>)> {
    let by = move |need: &Need| {
        let mut rules = rights.policy.rules.iter().chain(rights.granted());
        rules.find(|rule| names(rule, need, tool, plan))
    };
    plan.needs.iter().filter(|need| need.leaves_sandbox()).map(move |need| (need, by(need)))
}

/// The rule with this action that names the decision.
fn strongest<'a>(rights: &Rights<'a>, action: Action, tool: &str, plan: &Plan) -> Option<&'a Rule> {
    let rules = rights.policy.rules.iter().filter(|rule| rule.action == action && matches(rule, tool, plan));
    rules.max_by_key(|rule| rule.priority)
}

fn by(rule: &Rule, line: Line) -> Ruling {
    Ruling { action: rule.action, rule: rule.name.clone(), why: rule.why.clone(), line }
}

fn default(action: Action, rule: impl Into<String>, line: Line) -> Ruling {
    Ruling { action, rule: rule.into(), why: None, line }
}

fn denied(rights: &Rights<'_>, tool: &str, plan: &Plan) -> Option<Ruling> {
    let known = strongest(rights, Action::Deny, tool, plan).map(|rule| by(rule, Line::Denied));
    let is_unknown = || plan.needs.iter().any(|need| matches!(need, Need::Unknown(_)));
    known.or_else(|| {
        is_unknown().then(|| default(Action::Deny, "default: an unknown need is denied", Line::Denied))
    })
}

fn read_only(rights: &Rights<'_>, _: &str, plan: &Plan) -> Option<Ruling> {
    let is_planning = matches!(rights.level, PermissionLevel::Plan | PermissionLevel::Unknown(_));
    if !is_planning && !rights.read_only {
        return None;
    }
    let changes = |need: &Need| matches!(need, Need::Write(_) | Need::Git | Need::Unconfined);
    let runs = plan.needs.iter().any(|need| matches!(need, Need::Command(_)));
    let elsewhere = plan.risk == Risk::Execute && !runs;
    let why = match () {
        () if plan.risk == Risk::Write || elsewhere || plan.needs.iter().any(changes) => {
            "the workspace is read-only"
        }
        () if runs && !rights.shelter.holds_plans => {
            "no sandbox here keeps commands from changing the workspace"
        }
        () => return None,
    };
    let who = if is_planning { "level plan" } else { "read-only role" };
    let advice =
        if is_planning { "put it into your plan instead" } else { "say what should be changed instead" };
    let ruling = default(Action::Deny, format!("{who}: {why}"), Line::ReadOnly);
    Some(Ruling { why: Some(advice.to_owned()), ..ruling })
}

/// Such a rule is answered for the session by a grant of this very call. One by a pattern was not shown the rule.
fn asked(rights: &Rights<'_>, tool: &str, plan: &Plan) -> Option<Ruling> {
    let rule = strongest(rights, Action::Ask, tool, plan)?;
    let is_granted = rights.granted().any(|grant| *grant == Rule::granting(&grant.name, tool, plan));
    (!is_granted).then(|| by(rule, Line::Asked))
}

/// True where these rules allow a call, whatever else there is.
pub fn allows(policy: &Policy, tool: &str, plan: &Plan) -> bool {
    let (level, shelter) = (PermissionLevel::Ask, Shelter::default());
    allowed(&Rights { policy, grants: &[], level, read_only: false, shelter }, tool, plan).is_some()
}

/// One rule or grant for the whole call, or one for each simple command of its line.
fn allowed(rights: &Rights<'_>, tool: &str, plan: &Plan) -> Option<Ruling> {
    let one = |plan: &Plan| {
        let granted = || rights.granted().find(|grant| covers(grant, tool, plan));
        strongest(rights, Action::Allow, tool, plan).or_else(granted)
    };
    if let Some(rule) = one(plan) {
        return Some(by(rule, Line::Allowed));
    }
    let commands = plan.command().and_then(understood).filter(|commands| commands.len() > 1)?;
    // What is allowed in a folder is not allowed where such a line goes.
    let moves = |command: &String| MOVES.iter().any(|name| command.split(' ').next() == Some(name));
    let cwd = if commands.iter().any(moves) { ELSEWHERE } else { &plan.cwd };
    let mut names: Vec<&str> = Vec::new();
    for command in &commands {
        let name = one(&with_command(plan, command, cwd))?.name.as_str();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Some(default(Action::Allow, names.join("; "), Line::Allowed))
}

/// Commands after which the others of their line run in another folder, and the folder of such a line, which no rule names.
const MOVES: [&str; 3] = ["cd", "pushd", "popd"];
const ELSEWHERE: &str = "\0";

/// The same call with one command of its line.
fn with_command(plan: &Plan, command: &str, cwd: &str) -> Plan {
    let needs = plan.needs.iter().map(|need| match need {
        Need::Command(_) => Need::Command(command.to_owned()),
        need => need.clone(),
    });
    Plan { needs: needs.collect(), cwd: cwd.to_owned(), ..plan.clone() }
}

fn by_level(rights: &Rights<'_>, tool: &str, plan: &Plan) -> Ruling {
    let risk = plan.needs.iter().filter_map(Need::risk).fold(plan.risk, Risk::max);
    let (action, rule) = match risk {
        Risk::Unknown(_) => (Action::Deny, "default: an unknown risk is denied"),
        Risk::Read => (Action::Allow, "default: reading is allowed"),
        _ => match is_free(rights, tool, plan) {
            Some(rule) => (Action::Allow, rule),
            // Hosts that a rule names are not what is asked about.
            None if opens(rights, tool, plan).is_empty() => (Action::Ask, question(plan.risk, rights, plan)),
            None => (Action::Ask, question(risk, rights, plan)),
        },
    };
    let opened = doors(rights, tool, plan).filter_map(|(need, by)| Some((need.name(), &by?.name)));
    let opened: String = opened.map(|(need, by)| format!("; `{need}` by `{by}`")).collect();
    default(action, format!("{rule}{opened}"), Line::Level)
}

fn question(risk: Risk, rights: &Rights<'_>, plan: &Plan) -> &'static str {
    match risk {
        _ if plan.needs.iter().any(|need| matches!(need, Need::Tool(_))) => {
            "default: tools of servers are asked about"
        }
        Risk::Write => "default: writing is asked about",
        Risk::Network => "default: the network is asked about",
        _ if rights.level == PermissionLevel::Auto && !rights.shelter.confines => {
            "level auto: commands that no sandbox confines are asked about"
        }
        _ => "default: running commands is asked about",
    }
}

/// What the levels `edits` and `auto` do without a question, though it does more than read.
fn is_free(rights: &Rights<'_>, tool: &str, plan: &Plan) -> Option<&'static str> {
    let is_edit = |need: &Need| need.path().is_some();
    let edits = matches!(plan.risk, Risk::Read | Risk::Write) && plan.needs.iter().all(is_edit);
    let is_confined = |need: &Need| match need {
        Need::Read(_) | Need::Write(_) => true,
        Need::Command(_) | Need::Git => rights.shelter.confines,
        // Named by a rule, or it is asked about.
        Need::Host(_) | Need::Port(_) | Need::Unconfined => opens(rights, tool, plan).is_empty(),
        Need::Tool(_) | Need::Confirm(_) | Need::Unknown(_) => false,
    };
    let has_command = plan.command().is_some();
    let confined = (has_command || edits) && plan.needs.iter().all(is_confined);
    match rights.level {
        PermissionLevel::Edits | PermissionLevel::Auto if edits && !plan.needs.is_empty() => {
            Some("level edits: edits in the workspace are allowed")
        }
        PermissionLevel::Edits if confined && puts_back(plan) => {
            Some("level edits: files that were last written here may be put back")
        }
        PermissionLevel::Auto if confined && has_command => {
            Some("level auto: what the sandbox confines is allowed")
        }
        _ => None,
    }
}

/// True for a command that only puts files back to what git has of them, each of which its tool knows as it is now.
pub(super) fn puts_back(plan: &Plan) -> bool {
    let files = plan.command().and_then(restored).map_or(0, |files| files.len());
    let is_of_it = |need: &Need| matches!(need, Need::Write(_) | Need::Command(_) | Need::Git);
    files > 0 && plan.paths().count() == files && plan.needs.iter().all(is_of_it)
}
