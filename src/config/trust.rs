//! Which projects' files count in full, and what an untrusted one may say; asks nobody.

use std::borrow::Cow;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use toml::Value;

use crate::config::layer::{KeyPath, Layer, Leaf, read_bounded};
use crate::config::{Config, ConfigError, Places, places};
use crate::library::{FileError, Texts, blueprint, persona};
use crate::protocol::expand::hex;
use crate::protocol::message::Effort;
use crate::protocol::spec::PermissionLevel;

/// Whether a project's own files count in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The project has no files of agon's.
    Nothing,
    /// They were trusted as they are.
    Trusted,
    /// They were not, or have changed since.
    Untrusted,
}

/// What a project's own files hold: its path and content, so that a copy elsewhere or a change asks again. What is used
/// of them is what was digested, whatever is in the files by then.
#[derive(Debug)]
pub struct ProjectDigest {
    /// The configuration's text.
    pub config: Option<String>,
    /// Its personas.
    pub personas: Texts,
    /// Its blueprints.
    pub blueprints: Texts,
    hex: String,
    root: PathBuf,
}

impl ProjectDigest {
    /// Digests the files; `None` when there are none.
    pub fn of(workspace: &Path) -> Result<Option<Self>, ConfigError> {
        let root = workspace.canonicalize().map_err(|error| ConfigError::read(workspace, error))?;
        let mut digest = ProjectDigest {
            config: read_bounded(&places::project_file(&root))?,
            personas: persona::read(&places::project_personas(&root)),
            blueprints: blueprint::read(&places::project_blueprints(&root)),
            hex: String::new(),
            root,
        };
        let unread =
            digest.personas.values().chain(digest.blueprints.values()).filter_map(|it| it.as_ref().err());
        if let Some(error) = unread.into_iter().find(|error| matches!(error, FileError::Special { .. })) {
            return Err(ConfigError::File(error.clone()));
        }
        let mut hasher = Sha256::new();
        hasher.update(b"agon-trust-1\0");
        hasher.update(digest.root.as_os_str().as_encoded_bytes());
        let mut is_empty = true;
        for (path, text) in digest.pieces() {
            for piece in [path.as_os_str().as_encoded_bytes(), text.as_bytes()] {
                hasher.update((piece.len() as u64).to_be_bytes());
                hasher.update(piece);
            }
            is_empty = false;
        }
        digest.hex = hex(&hasher.finalize());
        Ok((!is_empty).then_some(digest))
    }

    /// Each file with its text, or with why it has none.
    fn pieces(&self) -> impl Iterator<Item = (PathBuf, Cow<'_, str>)> {
        let config = self.config.iter().map(|text| (places::project_file(&self.root), text.into()));
        let others = self.personas.iter().chain(&self.blueprints).map(|(path, text)| {
            let unread = |error: &FileError| Cow::from(format!("\0{error}"));
            (path.clone(), text.as_ref().map_or_else(unread, Cow::from))
        });
        config.chain(others)
    }

    /// The files that count: the configuration, the personas and the blueprints.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        self.pieces().map(|(path, _)| path)
    }

    /// True when exactly this content was trusted at this place.
    pub fn is_recorded(&self, places: &Places) -> bool {
        places.trust().join(&self.hex).is_file()
    }

    /// Records that it is trusted, or that it is not any more.
    pub fn record(&self, places: &Places, trusted: bool) -> std::io::Result<()> {
        let path = places.trust().join(&self.hex);
        if trusted {
            DirBuilder::new().recursive(true).mode(0o700).create(places.trust())?;
            return std::fs::write(path, format!("{}\n", self.root.display()));
        }
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl Config {
    /// The persona files that count here: the user's, then, where it is trusted, the project's as it was trusted.
    pub fn personas(&self) -> Vec<Texts> {
        let project = self.project_if(Trust::Trusted).map(|project| project.personas.clone());
        std::iter::once(persona::read(&self.places.personas())).chain(project).collect()
    }

    /// The same for blueprints. Their checks are commands, so a project that is not trusted brings none.
    pub fn blueprints(&self) -> Vec<Texts> {
        let project = self.project_if(Trust::Trusted).map(|project| project.blueprints.clone());
        std::iter::once(blueprint::read(&self.places.blueprints())).chain(project).collect()
    }

    /// What the project had when this was loaded, if that is trusted, or not, as is said.
    pub fn project_if(&self, trust: Trust) -> Option<&ProjectDigest> {
        self.project.as_deref().filter(|_| self.trust == trust)
    }
}

/// Whether the project's files count in full, what they hold, and its layer.
pub(super) fn read_project(
    workspace: &Path,
    places: &Places,
) -> Result<(Trust, Option<ProjectDigest>, Layer), ConfigError> {
    let Some(digest) = ProjectDigest::of(workspace)? else {
        return Ok((Trust::Nothing, None, Layer::default()));
    };
    let parsed = digest.config.as_deref().map(|text| Layer::parse(text, &places::project_file(workspace)));
    let layer = parsed.transpose()?.unwrap_or_default();
    let trust = if digest.is_recorded(places) { Trust::Trusted } else { Trust::Untrusted };
    Ok((trust, Some(digest), layer))
}

/// Keeps of an untrusted project's layer what only tightens or names what the user already has.
/// Gives the rest as warnings that name key, place and reason.
pub fn restrict(project: Layer, below: &Layer) -> (Layer, Vec<String>) {
    let mut kept = Layer::default();
    let mut warnings = Vec::new();
    for (key, leaf) in project.0 {
        match judge(&key, leaf, below) {
            Ok((leaf, dropped)) => {
                warnings.extend(dropped);
                kept.0.extend(leaf.map(|leaf| (key, leaf)));
            }
            Err(warning) => warnings.push(warning),
        }
    }
    (kept, warnings)
}

/// Takes a level that is not stricter than the one below out of a project's layer, trusted or not: it lies in the
/// workspace, where others write.
pub fn hold_level(mut project: Layer, below: &Layer) -> (Layer, Vec<String>) {
    let mut warnings = Vec::new();
    project.0.retain(|key, leaf| {
        let loosens = key.words()[..] == ["permission"] && !is_stricter(&leaf.value, below.0.get(key));
        if loosens {
            let place = leaf.sources.first().map(ToString::to_string).unwrap_or_default();
            warnings.push(format!(
                "`{key}` ({place}) is ignored: a project can only set a stricter level; use `--permission` or your own \
                 configuration"
            ));
        }
        !loosens
    });
    (project, warnings)
}

/// Puts back a project's level that is stricter than the one above it.
pub fn keep_level(project: &Layer, above: &mut Layer) {
    let level = project.0.iter().find(|(key, _)| key.words()[..] == ["permission"]);
    if let Some((key, leaf)) = level.filter(|(key, leaf)| is_stricter(&leaf.value, above.0.get(key))) {
        above.0.insert(key.clone(), leaf.clone());
    }
}

/// A word that is no level is left for the check of the whole file to name.
fn is_stricter(value: &Value, below: Option<&Leaf>) -> bool {
    let level = |value: &Value| value.as_str().and_then(PermissionLevel::named);
    let below = below.and_then(|leaf| level(&leaf.value)).unwrap_or_default();
    level(value).is_none_or(|level| level.stricter(below) == level)
}

/// One value of an untrusted project: what is kept of it and what is said of the rest.
fn judge(key: &KeyPath, leaf: Leaf, below: &Layer) -> Result<(Option<Leaf>, Option<String>), String> {
    let place = leaf.sources.first().map(ToString::to_string).unwrap_or_default();
    let refused = |reason: &str| Err(format!("`{key}` ({place}) is ignored: {reason}"));
    match key.words()[..] {
        ["persona"] => Ok((Some(leaf), None)),
        ["model"] if is_configured(&leaf.value, below) => Ok((Some(leaf), None)),
        ["model"] => refused("an untrusted project may only name a model you have configured yourself"),
        ["effort"] if effort_of(Some(&leaf.value)) <= effort_of(below.0.get(key).map(|leaf| &leaf.value)) => {
            Ok((Some(leaf), None))
        }
        ["effort"] => refused("an untrusted project may only lower the effort"),
        ["limits", ..] if is_tighter(&leaf.value, below.0.get(key)) => Ok((Some(leaf), None)),
        ["limits", ..] => refused("an untrusted project may only tighten limits"),
        // Held to a stricter level whether the project is trusted or not.
        ["permission"] | ["names", "protected" | "secret"] => Ok((Some(leaf), None)),
        ["policy", "rules"] => Ok(keep_strict_rules(leaf, &place)),
        _ => refused("this project is not trusted"),
    }
}

/// An effort as far as it can be compared; without one a model does about as much as with `medium`.
fn effort_of(value: Option<&Value>) -> Option<Effort> {
    value.map_or(Some(Effort::Medium), |value| value.as_str().and_then(Effort::named))
}

/// The user named this model: as the default, or with a row of its own.
fn is_configured(value: &Value, below: &Layer) -> bool {
    let Some(name) = value.as_str() else { return false };
    below.0.iter().any(|(key, leaf)| match key.words()[..] {
        ["model"] => leaf.value.as_str() == Some(name),
        ["models", row, ..] => row == name,
        _ => false,
    })
}

/// No larger than what holds below, where nothing means no limit.
fn is_tighter(value: &Value, below: Option<&Leaf>) -> bool {
    let Some(below) = below else { return true };
    let units = |value: &Value| value.clone().try_into::<crate::config::number::Dollars>().ok();
    matches!((units(value), units(&below.value)), (Some(new), Some(old)) if new <= old)
}

fn keep_strict_rules(leaf: Leaf, place: &str) -> (Option<Leaf>, Option<String>) {
    let Value::Array(rules) = leaf.value else { return (None, None) };
    let is_strict = |rule: &Value| matches!(rule.get("action").and_then(Value::as_str), Some("ask" | "deny"));
    let (strict, loose): (Vec<_>, Vec<_>) = rules.into_iter().partition(is_strict);
    let names: Vec<_> =
        loose.iter().filter_map(|rule| rule.get("name")?.as_str()).map(|name| format!("`{name}`")).collect();
    let warning = (!loose.is_empty()).then(|| {
        let names = names.join(", ");
        format!("`policy.rules` {names} ({place}) is ignored: an untrusted project may only add ask and deny rules")
    });
    let kept = (!strict.is_empty()).then_some(Leaf { value: Value::Array(strict), sources: leaf.sources });
    (kept, warning)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn restricted(project: &str, user: &str) -> (Vec<String>, Vec<String>) {
        let mut below = Layer::defaults().unwrap();
        below.cover(Layer::parse(user, Path::new("user")).unwrap());
        let (kept, warnings) = restrict(Layer::parse(project, Path::new("project")).unwrap(), &below);
        (kept.0.keys().map(ToString::to_string).collect(), warnings)
    }

    #[test]
    fn limits_may_only_be_tightened() {
        let user = "[limits]\nmax_usd = \"1.50\"\n";
        let (kept, warnings) = restricted("[limits]\nmax_usd = 1.5\nmax_steps = 99\nmax_tokens = 7\n", user);
        assert_eq!(kept, ["limits.max_steps", "limits.max_tokens", "limits.max_usd"]);
        assert_eq!(warnings, [] as [&str; 0]);
        let (kept, warnings) = restricted("[limits]\nmax_usd = 1.51\nmax_steps = 101\n", user);
        assert_eq!(kept, [] as [&str; 0]);
        assert_eq!(warnings.len(), 2);
    }

    #[test]
    fn effort_may_only_be_lowered() {
        for (user, project, allowed) in [
            ("", "low", true),
            ("", "medium", true),
            ("", "high", false),
            ("effort = \"low\"\n", "medium", false),
            ("effort = \"high\"\n", "high", true),
        ] {
            let (kept, warnings) = restricted(&format!("effort = \"{project}\"\n"), user);
            assert_eq!((kept.len() == 1, warnings.is_empty()), (allowed, allowed), "{user} {project}");
        }
    }

    #[test]
    fn only_a_model_the_user_has_configured_may_be_named() {
        let user = "model = \"a/b\"\n[models.\"c/d\"]\ncontext = 5\n";
        for (name, allowed) in [("a/b", true), ("c/d", true), ("e/f", false)] {
            let (kept, warnings) = restricted(&format!("model = \"{name}\"\n"), user);
            assert_eq!((kept.len() == 1, warnings.is_empty()), (allowed, allowed), "{name}");
        }
    }

    #[test]
    fn a_level_is_only_made_stricter_whether_the_project_is_trusted_or_not() {
        for (user, project, is_kept) in
            [("ask", "plan", true), ("ask", "edits", false), ("auto", "edits", true), ("plan", "ask", false)]
        {
            let (user, project) =
                (format!("permission = \"{user}\"\n"), format!("permission = \"{project}\"\n"));
            let below = Layer::parse(&user, Path::new("user")).unwrap();
            let (kept, warnings) = hold_level(Layer::parse(&project, Path::new("p")).unwrap(), &below);
            assert_eq!((kept.0.len() == 1, warnings.is_empty()), (is_kept, is_kept), "{user}{project}");
        }
    }

    #[test]
    fn everything_else_is_refused_and_named() {
        let project = "[providers.openai]\nbase_url = \"http://evil\"\n[models.\"a/b\"]\nprice = { input = 0, output = 0 }\n\
                       [sandbox]\nkind = \"none\"\n[retry]\nattempts = 1\n";
        let (kept, warnings) = restricted(project, "");
        assert_eq!(kept, [] as [&str; 0]);
        assert_eq!(warnings.len(), 4);
        assert_eq!(
            warnings[1],
            "`providers.openai.base_url` (project:2) is ignored: this project is not trusted"
        );
    }

    #[test]
    fn of_policy_rules_only_ask_and_deny_are_kept() {
        let rule = |name, action| format!("[[policy.rules]]\nname = \"{name}\"\naction = \"{action}\"\n");
        let project = [rule("a", "allow"), rule("b", "ask"), rule("c", "deny")].concat();
        let below = Layer::defaults().unwrap();
        let (kept, warnings) = restrict(Layer::parse(&project, Path::new("p")).unwrap(), &below);
        let rules = kept.typed().unwrap().policy.unwrap().rules;
        assert_eq!(rules.iter().map(|r| r.name.as_str()).collect::<Vec<_>>(), ["b", "c"]);
        assert!(warnings[0].contains("`a`"), "{warnings:?}");
    }
}
