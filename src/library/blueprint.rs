//! Blueprints: TOML files read and held against tools and personas; every fault names its line.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use crate::library::{FileError, read_text};
use crate::protocol::spec::{Blueprint, Risk, RoleSpec, ToolSpec};

/// The most a blueprint may hold, in bytes.
const MAX_BLUEPRINT: u64 = 64 * 1024;

/// Name of the blueprint that is built in.
pub const DEFAULT: &str = "default";

/// The blueprint that is built in.
const EMBEDDED: &str = include_str!("blueprints/default.toml");

/// Why a blueprint cannot be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are named by the messages")]
pub enum BlueprintError {
    /// It cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// There is no such file.
    #[error("there is no file `{}`", .0.display())]
    NoFile(PathBuf),
    /// No folder has one of this name.
    #[error("no blueprint is called `{name}`")]
    Unknown { name: String, known: Vec<String> },
    /// Something in it is wrong.
    #[error("`{place}` line {line}: {fault}")]
    Fault { place: String, line: usize, fault: String, hint: Option<String> },
}

/// What a blueprint may name.
pub struct Known<'a> {
    /// The tools there are.
    pub tools: &'a [ToolSpec],
    /// True for the id of a persona there is.
    pub persona: &'a dyn Fn(&str) -> bool,
}

/// Finds a blueprint: a path to a file, or a name looked up in the folders, the last first, then built in.
pub fn find(wanted: &str, folders: &[PathBuf], known: &Known<'_>) -> Result<Blueprint, BlueprintError> {
    if wanted.contains('/') || wanted.ends_with(".toml") {
        let path = Path::new(wanted);
        let text = read_text(path, MAX_BLUEPRINT)?.ok_or_else(|| BlueprintError::NoFile(path.to_owned()))?;
        return parse(wanted, &text, known);
    }
    for folder in folders.iter().rev() {
        let path = folder.join(format!("{wanted}.toml"));
        if let Some(text) = read_text(&path, MAX_BLUEPRINT)? {
            return parse(&path.display().to_string(), &text, known);
        }
    }
    if wanted == DEFAULT {
        return parse("the built-in blueprint", EMBEDDED, known);
    }
    Err(BlueprintError::Unknown { name: wanted.to_owned(), known: names(folders) })
}

/// Names of the blueprints there are, sorted.
pub fn names(folders: &[PathBuf]) -> Vec<String> {
    let mut names = BTreeSet::from([DEFAULT.to_owned()]);
    for entry in folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    names.into_iter().collect()
}

/// The files of a folder that may be blueprints, sorted; a folder that is not there has none.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    files
}

/// Reads a blueprint and holds it against what there is. `place` is for messages.
pub fn parse(place: &str, text: &str, known: &Known<'_>) -> Result<Blueprint, BlueprintError> {
    let fault = |fault: Fault| BlueprintError::Fault {
        place: place.to_owned(),
        line: text.get(..fault.at.start).map_or(1, |before| before.matches('\n').count() + 1),
        fault: fault.words,
        hint: fault.hint,
    };
    let written: Written = toml::from_str(text).map_err(|error| {
        fault(Fault::new(error.span().unwrap_or(0..0), error.message().trim().to_owned()))
    })?;
    written.check(known).map_err(fault)?;
    Ok(written.into_blueprint())
}

/// A fault, where it stands, and what one may try.
struct Fault {
    at: Range<usize>,
    words: String,
    hint: Option<String>,
}

impl Fault {
    fn new(at: Range<usize>, words: impl Into<String>) -> Self {
        Fault { at, words: words.into(), hint: None }
    }

    fn hint(self, hint: impl Into<String>) -> Self {
        Fault { hint: Some(hint.into()), ..self }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    lead: Option<Spanned<String>>,
    #[serde(default)]
    checks: Vec<Spanned<String>>,
    #[serde(default, rename = "role")]
    roles: Vec<WrittenRole>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRole {
    name: Spanned<String>,
    persona: Spanned<String>,
    model: Option<Spanned<String>>,
    tools: Option<Vec<Spanned<String>>>,
    sandbox: Option<Spanned<String>>,
    #[serde(default)]
    read_only: bool,
    #[serde(default)]
    after: Vec<Spanned<String>>,
    #[serde(default)]
    revise: Vec<Spanned<String>>,
    #[serde(default = "two")]
    revisions: u32,
    max_steps: Option<u32>,
}

fn two() -> u32 {
    2
}

impl Written {
    fn check(&self, known: &Known<'_>) -> Result<(), Fault> {
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        for (i, role) in self.roles.iter().enumerate() {
            let name = role.name.get_ref().as_str();
            if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')) {
                let words = format!("`{name}` is not a name of letters, digits, hyphens and underscores");
                return Err(Fault::new(role.name.span(), words));
            }
            if places.insert(name, i).is_some() {
                let fault = Fault::new(role.name.span(), format!("two roles are called `{name}`"));
                return Err(fault.hint("give one of them another name; two roles may share a persona"));
            }
        }
        for role in &self.roles {
            role.check(&places, known)?;
        }
        self.check_order(&places)?;
        self.check_lead(&places, known)?;
        if !self.roles.iter().any(|role| role.writes(known.tools)) {
            let words = "no role may write; give one a tool that does, such as `edit_file`";
            let fault = Fault::new(self.roles.first().map_or(0..0, |role| role.name.span()), words);
            return Err(fault.hint("tools = [\"read_file\", \"edit_file\"] in a role that does not lead"));
        }
        if let Some(check) = self.checks.iter().find(|check| check.get_ref().trim().is_empty()) {
            let fault = Fault::new(check.span(), "a check is empty");
            return Err(fault.hint("name a command, such as \"cargo test\", or leave `checks` out"));
        }
        Ok(())
    }

    /// Roles wait for each other without a circle, and nobody sends back whom they do not come after.
    fn check_order(&self, places: &BTreeMap<&str, usize>) -> Result<(), Fault> {
        for (i, role) in self.roles.iter().enumerate() {
            let mut path = vec![i];
            if let Some((circle, at)) = self.circle(places, &mut path, &mut BTreeSet::new()) {
                let fault = Fault::new(at, format!("roles wait for each other in a circle: {circle}"));
                return Err(fault.hint("take one of these names out of an `after`"));
            }
            let before = self.before(places, i);
            for target in &role.revise {
                if !places.get(target.get_ref().as_str()).is_some_and(|at| before.contains(at)) {
                    let (name, target_name) = (role.name.get_ref(), target.get_ref());
                    let words = format!("`{name}` cannot send `{target_name}` back without coming after it");
                    let hint = format!("add \"{target_name}\" to the `after` of `{name}`");
                    return Err(Fault::new(target.span(), words).hint(hint));
                }
            }
        }
        Ok(())
    }

    /// A circle through the last role of the path, in words, and the `after` that closes it.
    fn circle(
        &self,
        places: &BTreeMap<&str, usize>,
        path: &mut Vec<usize>,
        done: &mut BTreeSet<usize>,
    ) -> Option<(String, Range<usize>)> {
        let last = *path.last()?;
        for next in &self.roles.get(last)?.after {
            let place = *places.get(next.get_ref().as_str())?;
            if let Some(start) = path.iter().position(|seen| *seen == place) {
                let circle = path.get(start..)?.iter().chain([&place]);
                let names =
                    circle.filter_map(|i| self.roles.get(*i)).map(|role| role.name.get_ref().as_str());
                return Some((names.collect::<Vec<_>>().join(" → "), next.span()));
            }
            if !done.insert(place) {
                continue;
            }
            path.push(place);
            if let Some(found) = self.circle(places, path, done) {
                return Some(found);
            }
            path.pop();
        }
        None
    }

    fn before(&self, places: &BTreeMap<&str, usize>, role: usize) -> BTreeSet<usize> {
        let (mut found, mut waiting) = (BTreeSet::new(), vec![role]);
        while let Some(role) = waiting.pop().and_then(|i| self.roles.get(i)) {
            let named = role.after.iter().filter_map(|name| places.get(name.get_ref().as_str()));
            waiting.extend(named.filter(|i| found.insert(**i)));
        }
        found
    }

    fn check_lead(&self, places: &BTreeMap<&str, usize>, known: &Known<'_>) -> Result<(), Fault> {
        let (lead, at) = match &self.lead {
            Some(name) => match places.get(name.get_ref().as_str()) {
                Some(place) => (self.roles.get(*place), name.span()),
                None => return Err(no_role(name, places)),
            },
            None => (self.roles.first(), self.roles.first().map_or(0..0, |role| role.name.span())),
        };
        let Some(lead) = lead else {
            let fault = Fault::new(0..0, "there is no `[[role]]`");
            return Err(
                fault.hint("each role is a `[[role]]` with a `name` and a `persona`; the first one leads")
            );
        };
        let name = lead.name.get_ref();
        if !lead.after.is_empty() {
            let fault = Fault::new(at, format!("`{name}` leads, so it cannot come after another role"));
            return Err(fault.hint("name another `lead`, or take its `after` out"));
        }
        if lead.writes(known.tools) {
            let fault = Fault::new(at, format!("`{name}` leads, so it can have no tool that writes"));
            return Err(fault.hint("give the tool to a role that comes after it"));
        }
        for role in &self.roles {
            let back = role.revise.iter().find(|target| target.get_ref() == name);
            if let Some(back) = back {
                let fault = Fault::new(back.span(), format!("`{name}` leads, so nobody can send it back"));
                return Err(fault.hint("name a role that writes"));
            }
        }
        Ok(())
    }

    fn into_blueprint(self) -> Blueprint {
        Blueprint {
            name: self.name,
            lead: self.lead.map(Spanned::into_inner),
            roles: self.roles.into_iter().map(WrittenRole::into_role).collect(),
            checks: self.checks.into_iter().map(Spanned::into_inner).collect(),
        }
    }
}

impl WrittenRole {
    fn check(&self, places: &BTreeMap<&str, usize>, known: &Known<'_>) -> Result<(), Fault> {
        let persona = self.persona.get_ref();
        if !(known.persona)(persona) {
            let fault = Fault::new(self.persona.span(), format!("no persona is called `{persona}`"));
            return Err(fault.hint("`agon personas list` shows them all"));
        }
        for tool in self.tools.iter().flatten() {
            if !known.tools.iter().any(|known| known.name == *tool.get_ref()) {
                let names: Vec<&str> = known.tools.iter().map(|tool| tool.name.as_str()).collect();
                let fault = Fault::new(tool.span(), format!("there is no tool `{}`", tool.get_ref()));
                return Err(fault.hint(meant(tool.get_ref(), &names)));
            }
        }
        self.check_place(known)?;
        if let Some(model) = &self.model {
            let parts = model.get_ref().split_once('/');
            if parts.is_none_or(|(provider, name)| provider.is_empty() || name.is_empty()) {
                let words = format!("`{}` is not a model name of the form `PROVIDER/MODEL`", model.get_ref());
                return Err(Fault::new(model.span(), words).hint("such as `openai/gpt-5`"));
            }
        }
        for name in self.after.iter().chain(&self.revise) {
            if !places.contains_key(name.get_ref().as_str()) {
                return Err(no_role(name, places));
            }
        }
        Ok(())
    }

    /// A role may be held closer than its session, and one that is to change nothing has no tool that does.
    fn check_place(&self, known: &Known<'_>) -> Result<(), Fault> {
        let name = self.name.get_ref();
        match self.sandbox.as_ref().map(|kind| (kind.get_ref().as_str(), kind.span())) {
            None | Some(("local" | "docker", _)) => {}
            Some(("none", at)) => {
                let fault = Fault::new(at, format!("`{name}` cannot be confined less than its session"));
                return Err(fault.hint("name `local` or `docker`, or leave `sandbox` out"));
            }
            Some((kind, at)) => {
                let fault = Fault::new(at, format!("there is no sandbox `{kind}`"));
                return Err(fault.hint(meant(kind, &["local", "docker"])));
            }
        }
        let writes =
            |name: &str| known.tools.iter().any(|tool| tool.name == name && tool.risk == Risk::Write);
        match self.tools.iter().flatten().find(|tool| self.read_only && writes(tool.get_ref())) {
            Some(tool) => {
                let words = format!("`{name}` is read-only, so it cannot have `{}`", tool.get_ref());
                Err(Fault::new(tool.span(), words).hint("take the tool out, or take `read_only` out"))
            }
            None => Ok(()),
        }
    }

    fn writes(&self, tools: &[ToolSpec]) -> bool {
        let changes = |name: &str| tools.iter().any(|tool| tool.name == name && tool.risk != Risk::Read);
        !self.read_only && self.tools.iter().flatten().any(|name| changes(name.get_ref()))
    }

    fn into_role(self) -> RoleSpec {
        let plain = |names: Vec<Spanned<String>>| names.into_iter().map(Spanned::into_inner).collect();
        RoleSpec {
            name: self.name.into_inner(),
            persona: self.persona.into_inner(),
            model: self.model.map(Spanned::into_inner),
            tools: self.tools.map(plain),
            sandbox: self.sandbox.map(Spanned::into_inner),
            read_only: self.read_only,
            after: plain(self.after),
            revise: plain(self.revise),
            revisions: self.revisions,
            max_steps: self.max_steps,
        }
    }
}

fn no_role(name: &Spanned<String>, places: &BTreeMap<&str, usize>) -> Fault {
    let names: Vec<&str> = places.keys().copied().collect();
    let fault = Fault::new(name.span(), format!("no role is called `{}`", name.get_ref()));
    fault.hint(meant(name.get_ref(), &names))
}

/// The name that looks most like a wrong one, and all there are.
fn meant(wrong: &str, names: &[&str]) -> String {
    let near = names.iter().map(|name| (strsim::normalized_damerau_levenshtein(wrong, name), *name));
    let best = near.max_by(|(a, _), (b, _)| a.total_cmp(b)).filter(|(likeness, _)| *likeness > 0.6);
    let guess = best.map(|(_, name)| format!("did you mean `{name}`? ")).unwrap_or_default();
    format!("{guess}there are: {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, risk: Risk) -> ToolSpec {
        ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            schema: serde_json::json!({}),
            risk,
            repeatable: false,
            output_cap: 0,
        }
    }

    fn read(text: &str) -> Result<Blueprint, String> {
        let tools = [tool("look", Risk::Read), tool("edit", Risk::Write)];
        let known = Known { tools: &tools, persona: &|id| id.len() == 1 };
        parse("b.toml", text, &known).map_err(|error| error.to_string())
    }

    const GOOD: &str = "name = \"x\"\n[[role]]\nname = \"a\"\npersona = \"p\"\n[[role]]\nname = \"b\"\n\
                        persona = \"q\"\ntools = [\"edit\"]\nafter = [\"a\"]\n";

    #[test]
    fn a_good_blueprint_is_read_whole() {
        let blueprint = read(GOOD).unwrap();
        assert_eq!(blueprint.roles[1].tools, Some(vec!["edit".to_owned()]));
        assert_eq!((blueprint.roles[1].revisions, blueprint.lead), (2, None));
    }

    #[test]
    fn each_fault_is_named_with_its_line() {
        let with = |more: &str| format!("{GOOD}{more}");
        let third = "[[role]]\nname = \"c\"\npersona = \"p\"\n";
        for (text, fault) in [
            ("name = \"x\"\n".to_owned(), "line 1: there is no `[[role]]`"),
            (GOOD.replace("\"b\"", "\"a\""), "line 6: two roles are called `a`"),
            (GOOD.replace("\"q\"", "\"who\""), "line 7: no persona is called `who`"),
            (GOOD.replace("\"edit\"", "\"fly\""), "line 8: there is no tool `fly`"),
            (GOOD.replace("\"edit\"", "\"look\""), "line 3: no role may write"),
            (GOOD.replace("[\"a\"]", "[\"z\"]"), "line 9: no role is called `z`"),
            (with("sandbox = \"none\"\n"), "line 10: `b` cannot be confined less than its session"),
            (with("sandbox = \"dokcer\"\n"), "line 10: there is no sandbox `dokcer`"),
            (with("read_only = true\n"), "line 8: `b` is read-only, so it cannot have `edit`"),
            (with("read_only = \"yes\"\n"), "line 10: invalid type"),
            (with("revise = [\"z\"]\n"), "line 10: no role is called `z`"),
            (with("revise = [\"a\"]\n"), "line 10: `a` leads, so nobody can send it back"),
            (with(&format!("{third}revise = [\"b\"]")), "line 13: `c` cannot send `b` back without"),
            (
                GOOD.replace("[\"a\"]", "[\"c\"]") + third + "after = [\"b\"]\n",
                "roles wait for each other in a circle: b → c → b",
            ),
            (format!("lead = \"b\"\n{GOOD}"), "line 1: `b` leads, so it cannot come after another role"),
            (format!("lead = \"z\"\n{GOOD}"), "line 1: no role is called `z`"),
            (GOOD.replace("\"edit\"", "\"edit\"]\nmodle = [\"x\""), "line 9: unknown field `modle`"),
            (with("model = \"gpt\"\n"), "line 10: `gpt` is not a model name"),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.contains(fault), "{error}\n(wanted: {fault})\n{text}");
        }
    }

    #[test]
    fn names_are_looked_up_in_folders_and_paths_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("mine.toml"), GOOD).unwrap();
        let tools = [tool("edit", Risk::Write)];
        let known = Known { tools: &tools, persona: &|_| true };
        let folders = [folder.path().to_owned()];
        assert_eq!(find("mine", &folders, &known).unwrap().name, "x");
        let path = folder.path().join("mine.toml").display().to_string();
        assert_eq!(find(&path, &[], &known).unwrap().name, "x");
        assert!(matches!(find("/no/b.toml", &[], &known), Err(BlueprintError::NoFile(_))));
        match find("none", &folders, &known) {
            Err(BlueprintError::Unknown { known, .. }) => assert_eq!(known, ["default", "mine"]),
            other => panic!("{other:?}"),
        }
    }
}
