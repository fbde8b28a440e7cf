//! Whether a squad can follow a blueprint at all: pure, and the same for files, programs and logs; reads nothing.

use std::collections::BTreeSet;

use crate::protocol::spec::{Blueprint, Risk, RoleSpec, Spec, ToolSpec, is_chosen, names_tools};

/// Why something cannot be had, and what one may try.
pub type Complaint = (String, Option<String>);

/// What a blueprint may name.
pub struct Known<'a> {
    /// The tools there are.
    pub tools: &'a [ToolSpec],
    /// True for the id of a persona there is.
    pub persona: &'a dyn Fn(&str) -> bool,
    /// Why a model cannot be called and what one may try, if so.
    pub model: &'a dyn Fn(&str) -> Option<Complaint>,
}

/// Where in a blueprint a fault is. Roles and lists are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultAt {
    /// Nowhere in particular.
    Whole,
    /// Its `lead`, or the role that leads because it is the first.
    Lead,
    /// One of its checks.
    Check(usize),
    /// The name of a role.
    Name(usize),
    /// The persona of a role.
    Persona(usize),
    /// A model that a role names, its own first.
    Model(usize, usize),
    /// The limit of steps of a role.
    Steps(usize),
    /// The sandbox of a role.
    Sandbox(usize),
    /// One of the tools of a role.
    Tool(usize, usize),
    /// One of the names in a role's `after`.
    After(usize, usize),
    /// One of the names in a role's `revise`.
    Revise(usize, usize),
}

/// Why a blueprint cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{words}")]
pub struct Fault {
    /// Where.
    pub place: FaultAt,
    /// What is wrong.
    pub words: String,
    /// What one may try.
    pub hint: Option<String>,
    /// A name that is not there, and those that are.
    pub meant: Option<(String, Vec<String>)>,
}

impl Fault {
    fn new(place: FaultAt, words: impl Into<String>) -> Self {
        Fault { place, words: words.into(), hint: None, meant: None }
    }

    fn hint(self, hint: impl Into<String>) -> Self {
        Fault { hint: Some(hint.into()), ..self }
    }

    fn no_role(place: FaultAt, name: &str, blueprint: &Blueprint) -> Self {
        let names = blueprint.roles.iter().map(|role| role.name.clone()).collect();
        let meant = Some((name.to_owned(), names));
        Fault { meant, ..Fault::new(place, format!("no role is called `{name}`")) }
    }
}

/// Holds a spec's blueprint, if it has one, against its own tools, personas and models.
pub fn check_spec(spec: &Spec) -> Result<(), Fault> {
    let Some(blueprint) = &spec.blueprint else { return Ok(()) };
    let unknown = |name: &str| {
        let is_known = spec.models.iter().any(|model| model.name == name);
        (!is_known).then(|| (format!("the session has no model `{name}`"), None))
    };
    let persona = |id: &str| spec.personas.iter().any(|persona| persona.id == id);
    check(blueprint, &Known { tools: &spec.tools, persona: &persona, model: &unknown })
}

/// Holds a blueprint against what there is: every name stands for something, nobody waits in a circle, and one
/// role leads without writing. Gives the first fault.
pub fn check(blueprint: &Blueprint, known: &Known<'_>) -> Result<(), Fault> {
    faults(blueprint, known).into_iter().next().map_or(Ok(()), Err)
}

/// Everything that is wrong with a blueprint; what follows from another fault is left out.
pub fn faults(blueprint: &Blueprint, known: &Known<'_>) -> Vec<Fault> {
    let mut faults = Vec::new();
    check_names(blueprint, &mut faults);
    for (i, role) in blueprint.roles.iter().enumerate() {
        check_role(blueprint, i, role, known, &mut faults);
    }
    check_order(blueprint, &mut faults);
    faults.extend(check_lead(blueprint, known.tools).err());
    let empty = blueprint.checks.iter().enumerate().filter(|(_, check)| check.trim().is_empty());
    faults.extend(empty.map(|(i, _)| {
        Fault::new(FaultAt::Check(i), "a check is empty")
            .hint("name a command, such as \"cargo test\", or leave it out")
    }));
    faults
}

/// Refuses a blueprint in which nobody may write, unless that is on purpose; then nobody may. A program may want a
/// squad that only talks; in a file that does not say so it is a slip.
pub fn check_writer(blueprint: &Blueprint, read_only: bool, tools: &[ToolSpec]) -> Result<(), Fault> {
    let writer = blueprint.roles.iter().position(|role| writes(role, tools));
    match (writer, read_only) {
        (Some(i), true) => {
            let words = format!("the squad is read-only, and `{}` may write", blueprint.roles[i].name);
            Err(Fault::new(FaultAt::Name(i), words)
                .hint("take the top `read_only` out, or make this role `read_only`"))
        }
        (None, true) if !blueprint.checks.is_empty() => {
            let words = "checks run after a role that writes, and the squad is read-only";
            Err(Fault::new(FaultAt::Check(0), words).hint("take the checks out"))
        }
        (None, false) => {
            let words = "no role may write; give one a tool that does, such as `edit_file`";
            Err(Fault::new(FaultAt::Name(0), words).hint(
                "tools = [\"read_file\", \"edit_file\"] in a role that does not lead; or `read_only = true` at the \
                 top where nobody is to write",
            ))
        }
        _ => Ok(()),
    }
}

/// FaultAt of the role that leads: the named one, else the first.
pub fn lead_of(blueprint: &Blueprint) -> Option<usize> {
    match &blueprint.lead {
        Some(lead) => place_of(blueprint, lead),
        None => (!blueprint.roles.is_empty()).then_some(0),
    }
}

/// True when the blueprint gives a role a tool that may change the workspace. A persona cannot: only the
/// blueprint says who writes; a role that is read-only has commands and changes nothing by them.
pub fn writes(role: &RoleSpec, tools: &[ToolSpec]) -> bool {
    let given = role.tools.iter().flatten().filter(|_| !role.read_only);
    let given: Vec<String> = given.cloned().collect();
    tools.iter().any(|tool| tool.risk != Risk::Read && is_chosen(&given, tool))
}

fn place_of(blueprint: &Blueprint, name: &str) -> Option<usize> {
    blueprint.roles.iter().position(|role| role.name == name)
}

fn check_names(blueprint: &Blueprint, faults: &mut Vec<Fault>) {
    let mut seen = BTreeSet::new();
    for (i, role) in blueprint.roles.iter().enumerate() {
        let name = role.name.as_str();
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')) {
            let words = format!("`{name}` is not a name of letters, digits, hyphens and underscores");
            faults.push(Fault::new(FaultAt::Name(i), words));
        }
        if !seen.insert(name) {
            let fault = Fault::new(FaultAt::Name(i), format!("two roles are called `{name}`"));
            faults.push(fault.hint("give one of them another name; two roles may share a persona"));
        }
    }
}

fn check_role(blueprint: &Blueprint, i: usize, role: &RoleSpec, known: &Known<'_>, faults: &mut Vec<Fault>) {
    let persona = &role.persona;
    if !(known.persona)(persona) {
        let fault = Fault::new(FaultAt::Persona(i), format!("no persona is called `{persona}`"));
        faults.push(fault.hint("`agon personas list` shows them all"));
    }
    for (n, name) in role.tools.iter().flatten().enumerate() {
        if !names_tools(name, known.tools.iter()) {
            let names = known.tools.iter().map(|tool| tool.name.clone()).collect();
            let fault = Fault::new(FaultAt::Tool(i, n), format!("there is no tool `{name}`"));
            faults.push(Fault { meant: Some((name.clone(), names)), ..fault });
        }
    }
    faults.extend(check_sandbox(i, role, known.tools).err());
    if role.max_steps == Some(0) {
        let words = format!("`{}` may make no model call at all", role.name);
        let fault = Fault::new(FaultAt::Steps(i), words);
        faults.push(fault.hint("leave `max_steps` out, or allow at least 1"));
    }
    let after = role.after.iter().enumerate().map(|(n, name)| (FaultAt::After(i, n), name));
    let revise = role.revise.iter().enumerate().map(|(n, name)| (FaultAt::Revise(i, n), name));
    let unknown = after.chain(revise).filter(|(_, name)| place_of(blueprint, name).is_none());
    faults.extend(unknown.map(|(place, name)| Fault::no_role(place, name, blueprint)));
    faults.extend(role.models().enumerate().filter_map(|(n, model)| check_model((i, n), model, known).err()));
}

/// A role may be held closer than its session, and one that is to change nothing has no tool that does.
fn check_sandbox(i: usize, role: &RoleSpec, tools: &[ToolSpec]) -> Result<(), Fault> {
    let name = &role.name;
    match role.sandbox.as_deref() {
        None | Some("local" | "docker") => {}
        Some("none") => {
            let words = format!("`{name}` cannot be confined less than its session");
            let fault = Fault::new(FaultAt::Sandbox(i), words);
            return Err(fault.hint("name `local` or `docker`, or leave `sandbox` out"));
        }
        Some(kind) => {
            let meant = Some((kind.to_owned(), vec!["local".to_owned(), "docker".to_owned()]));
            let fault = Fault::new(FaultAt::Sandbox(i), format!("there is no sandbox `{kind}`"));
            return Err(Fault { meant, ..fault });
        }
    }
    let writes = |entry: &String| {
        tools.iter().any(|tool| tool.risk == Risk::Write && is_chosen(std::slice::from_ref(entry), tool))
    };
    let given = role.tools.iter().flatten().enumerate();
    match given.into_iter().find(|(_, tool)| role.read_only && writes(tool)) {
        Some((n, tool)) => {
            let words = format!("`{name}` is read-only, so it cannot have `{tool}`");
            let fault = Fault::new(FaultAt::Tool(i, n), words);
            Err(fault.hint("take the tool out, or take `read_only` out"))
        }
        None => Ok(()),
    }
}

fn check_model((i, n): (usize, usize), model: &str, known: &Known<'_>) -> Result<(), Fault> {
    let parts = model.split_once('/');
    if parts.is_none_or(|(provider, name)| provider.is_empty() || name.is_empty()) {
        let words = format!("`{model}` is not a model name of the form `PROVIDER/MODEL`");
        return Err(Fault::new(FaultAt::Model(i, n), words).hint("such as `openai/gpt-5`"));
    }
    match (known.model)(model) {
        Some((words, hint)) => Err(Fault { hint, ..Fault::new(FaultAt::Model(i, n), words) }),
        None => Ok(()),
    }
}

/// Roles wait for each other without a circle, and nobody sends back whom they do not come after.
fn check_order(blueprint: &Blueprint, faults: &mut Vec<Fault>) {
    let found =
        (0..blueprint.roles.len()).find_map(|i| circle(blueprint, &mut vec![i], &mut BTreeSet::new()));
    if let Some((circle, place)) = found {
        let fault = Fault::new(place, format!("roles wait for each other in a circle: {circle}"));
        faults.push(fault.hint("take one of these names out of an `after`"));
    }
    for (i, role) in blueprint.roles.iter().enumerate() {
        let before = before(blueprint, i);
        for (n, target) in role.revise.iter().enumerate() {
            if place_of(blueprint, target).is_some_and(|at| !before.contains(&at)) {
                let name = &role.name;
                let words = format!("`{name}` cannot send `{target}` back without coming after it");
                let hint = format!("add \"{target}\" to the `after` of `{name}`");
                faults.push(Fault::new(FaultAt::Revise(i, n), words).hint(hint));
            }
        }
    }
}

/// A circle through the last role of the path, in words, and the `after` that closes it.
fn circle(
    blueprint: &Blueprint,
    path: &mut Vec<usize>,
    done: &mut BTreeSet<usize>,
) -> Option<(String, FaultAt)> {
    let last = *path.last()?;
    for (n, next) in blueprint.roles.get(last)?.after.iter().enumerate() {
        let place = place_of(blueprint, next)?;
        if let Some(start) = path.iter().position(|seen| *seen == place) {
            let circle = path.get(start..)?.iter().chain([&place]);
            let names = circle.filter_map(|i| blueprint.roles.get(*i)).map(|role| role.name.as_str());
            return Some((names.collect::<Vec<_>>().join(" → "), FaultAt::After(last, n)));
        }
        if !done.insert(place) {
            continue;
        }
        path.push(place);
        if let Some(found) = circle(blueprint, path, done) {
            return Some(found);
        }
        path.pop();
    }
    None
}

fn before(blueprint: &Blueprint, role: usize) -> BTreeSet<usize> {
    let (mut found, mut waiting) = (BTreeSet::new(), vec![role]);
    while let Some(role) = waiting.pop().and_then(|i| blueprint.roles.get(i)) {
        let named = role.after.iter().filter_map(|name| place_of(blueprint, name));
        waiting.extend(named.filter(|i| found.insert(*i)));
    }
    found
}

fn check_lead(blueprint: &Blueprint, tools: &[ToolSpec]) -> Result<(), Fault> {
    if let Some(name) = blueprint.lead.as_ref().filter(|name| place_of(blueprint, name).is_none()) {
        return Err(Fault::no_role(FaultAt::Lead, name, blueprint));
    }
    let Some(lead) = lead_of(blueprint).and_then(|i| blueprint.roles.get(i)) else {
        let fault = Fault::new(FaultAt::Whole, "there is no `[[role]]`");
        return Err(
            fault.hint("each role is a `[[role]]` with a `name` and a `persona`; the first one leads")
        );
    };
    let name = &lead.name;
    if !lead.after.is_empty() {
        let words = format!("`{name}` leads, so it cannot come after another role");
        return Err(Fault::new(FaultAt::Lead, words).hint("name another `lead`, or take its `after` out"));
    }
    if writes(lead, tools) {
        let fault = Fault::new(FaultAt::Lead, format!("`{name}` leads, so it can have no tool that writes"));
        return Err(fault.hint("give the tool to a role that comes after it"));
    }
    for (i, role) in blueprint.roles.iter().enumerate() {
        if let Some(n) = role.revise.iter().position(|target| target == name) {
            let words = format!("`{name}` leads, so no role can send it back");
            return Err(Fault::new(FaultAt::Revise(i, n), words).hint("name a role that writes"));
        }
    }
    Ok(())
}
