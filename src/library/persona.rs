//! Personas: Markdown with front matter; one broken file never hides the others.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::library::front_matter::{self, Pair, Value};
use crate::library::{Texts, texts};
use crate::protocol::fit::did_you_mean;
use crate::protocol::message::Effort;
use crate::protocol::spec::PersonaSpec;

/// The most a persona file may hold, in bytes.
const MAX_PERSONA: u64 = 64 * 1024;

/// The personas of the binary: id and file.
const EMBEDDED: &[(&str, &str)] = &[
    ("solo", include_str!("../../personas/solo.md")),
    ("coordinator", include_str!("../../personas/coordinator.md")),
    ("coder", include_str!("../../personas/coder.md")),
    ("reviewer", include_str!("../../personas/reviewer.md")),
    ("pragmatist", include_str!("../../personas/pragmatist.md")),
    ("security-maximalist", include_str!("../../personas/security-maximalist.md")),
    ("performance-extremist", include_str!("../../personas/performance-extremist.md")),
    ("elegance-purist", include_str!("../../personas/elegance-purist.md")),
    ("future-architect", include_str!("../../personas/future-architect.md")),
    ("devils-advocate", include_str!("../../personas/devils-advocate.md")),
    ("moderator", include_str!("../../personas/moderator.md")),
];

/// Who debates when nobody is named.
pub const DEBATERS: [&str; 6] = [
    "pragmatist",
    "security-maximalist",
    "performance-extremist",
    "elegance-purist",
    "future-architect",
    "devils-advocate",
];

/// Who moderates when nobody is named.
pub const MODERATOR: &str = "moderator";

/// Who works, and takes no side: the built-in personas of single sparks and of squads.
const WORKERS: [&str; 4] = ["solo", "coordinator", "coder", "reviewer"];

/// What front matter may say.
const KEYS: &[&str] =
    &["id", "description", "stance", "model", "fallbacks", "tools", "temperature", "effort"];

/// Where a persona comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PersonaOrigin {
    /// The binary.
    Embedded,
    /// A file of the user or the project.
    File(PathBuf),
}

impl std::fmt::Display for PersonaOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PersonaOrigin::Embedded => f.write_str("built in"),
            PersonaOrigin::File(path) => write!(f, "{}", path.display()),
        }
    }
}

/// A persona file that cannot be used, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPersona {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub error: String,
    /// The id it gives, where that can be read.
    pub id: Option<String>,
}

/// All personas by id, each from the last place that names it.
#[derive(Clone, Debug, Default)]
pub struct Library {
    personas: BTreeMap<String, (PersonaSpec, PersonaOrigin)>,
    broken: Vec<BadPersona>,
}

/// Reads the persona files of a folder.
pub fn read(folder: &Path) -> Texts {
    texts(folder, "md", MAX_PERSONA)
}

impl Library {
    /// The built-in personas, covered by those of each folder in turn. A broken file is listed by
    /// [`Library::broken`], and the others still load.
    pub fn load(folders: &[Texts]) -> Self {
        let mut library = Library::default();
        for (id, text) in EMBEDDED {
            library.add(id, text, PersonaOrigin::Embedded);
        }
        for (path, text) in folders.iter().flatten() {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            match text {
                Ok(text) => library.add(&stem, text, PersonaOrigin::File(path.clone())),
                Err(error) => {
                    let (path, error) = (path.clone(), error.to_string());
                    library.broken.push(BadPersona { path, error, id: None });
                }
            }
        }
        library
    }

    /// A persona by id.
    pub fn get(&self, id: &str) -> Option<&PersonaSpec> {
        self.personas.get(id).map(|(spec, _)| spec)
    }

    /// Every persona with its origin, by id.
    pub fn all(&self) -> impl Iterator<Item = (&PersonaSpec, &PersonaOrigin)> {
        self.personas.values().map(|(spec, origin)| (spec, origin))
    }

    /// True for a built-in persona that is made for work and not for debates; one of the same id in a file of
    /// somebody's own is what they made it.
    pub fn is_worker(&self, id: &str) -> bool {
        WORKERS.contains(&id)
            && self.personas.get(id).is_some_and(|(_, origin)| *origin == PersonaOrigin::Embedded)
    }

    /// The files that could not be used.
    pub fn broken(&self) -> &[BadPersona] {
        &self.broken
    }

    /// A file and another of the same folder that gives the same id.
    fn rival(&self, id: &str, origin: &PersonaOrigin) -> Option<(PathBuf, PathBuf)> {
        let PersonaOrigin::File(file) = origin else { return None };
        let known = self.personas.get(id).and_then(|(_, origin)| match origin {
            PersonaOrigin::File(known) => Some(known),
            PersonaOrigin::Embedded => None,
        });
        let aside = self.broken.iter().filter(|one| one.id.as_deref() == Some(id)).map(|one| &one.path);
        let rival = known.into_iter().chain(aside).find(|other| other.parent() == file.parent())?;
        Some((file.clone(), rival.clone()))
    }

    /// Which of two is meant nobody can tell, so neither is used, nor what they would cover.
    fn set_aside(&mut self, id: &str, file: PathBuf, rival: PathBuf) {
        self.personas.remove(id);
        for (path, other) in [(&rival, &file), (&file, &rival)] {
            if self.broken.iter().all(|one| one.path != *path) {
                let error = format!("its id `{id}` is also that of `{}`", other.display());
                self.broken.push(BadPersona { path: path.clone(), error, id: Some(id.to_owned()) });
            }
        }
    }

    fn add(&mut self, stem: &str, text: &str, origin: PersonaOrigin) {
        match parse(stem, text) {
            Ok(spec) => match self.rival(&spec.id, &origin) {
                Some((file, rival)) => self.set_aside(&spec.id, file, rival),
                None => drop(self.personas.insert(spec.id.clone(), (spec, origin))),
            },
            Err(error) => {
                let path = match origin {
                    PersonaOrigin::File(path) => path,
                    PersonaOrigin::Embedded => PathBuf::from(format!("personas/{stem}.md")),
                };
                self.broken.push(BadPersona { path, error, id: None });
            }
        }
    }
}

/// Reads one persona; `stem` is its id unless the front matter says otherwise.
pub fn parse(stem: &str, text: &str) -> Result<PersonaSpec, String> {
    let (pairs, body) = front_matter::read(text)?;
    let mut spec = PersonaSpec {
        id: stem.to_owned(),
        description: String::new(),
        stance: None,
        model: None,
        fallbacks: None,
        tools: None,
        temperature_pm: None,
        effort: None,
        text: body.trim().to_owned(),
    };
    for Pair { line, key, value } in pairs {
        set(&mut spec, &key, value).map_err(|error| format!("line {line}: {error}"))?;
    }
    check(spec)
}

fn set(spec: &mut PersonaSpec, key: &str, value: Value) -> Result<(), String> {
    match key {
        "fallbacks" => spec.fallbacks = Some(list(value)),
        "tools" => spec.tools = Some(list(value)),
        "id" => spec.id = one(key, value)?,
        "description" => spec.description = one(key, value)?,
        "stance" => spec.stance = Some(one(key, value)?),
        "model" => spec.model = Some(one(key, value)?),
        "temperature" => spec.temperature_pm = Some(thousandths(&one(key, value)?)?),
        "effort" => spec.effort = Some(effort(&one(key, value)?)?),
        _ => return Err(format!("unknown key `{key}`{}", did_you_mean(key, KEYS))),
    }
    Ok(())
}

fn one(key: &str, value: Value) -> Result<String, String> {
    match value {
        Value::Text(text) => Ok(text),
        Value::List(_) => {
            Err(format!("`{key}` is one text, not a list; put a text that begins with `[` in quotes"))
        }
    }
}

/// A list, or its items as one text: `a, b`.
fn list(value: Value) -> Vec<String> {
    let items = match value {
        Value::Text(text) => text.split(',').map(|item| item.trim().to_owned()).collect(),
        Value::List(items) => items,
    };
    items.into_iter().filter(|item| !item.is_empty()).collect()
}

fn check(spec: PersonaSpec) -> Result<PersonaSpec, String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if spec.id.is_empty() || !spec.id.chars().all(plain) {
        return Err(format!("`{}` is not an id of lowercase letters, digits and hyphens", spec.id));
    }
    if spec.text.is_empty() {
        return Err("there is no text after the front matter".to_owned());
    }
    let is_bad = |model: &&str| {
        model.split_once('/').is_none_or(|(provider, name)| provider.is_empty() || name.is_empty())
    };
    if let Some(model) = spec.models().find(is_bad) {
        return Err(format!("`{model}` is not a model name of the form `PROVIDER/MODEL`"));
    }
    Ok(spec)
}

fn effort(text: &str) -> Result<Effort, String> {
    Effort::named(text).ok_or_else(|| format!("`{text}` is no effort: write `low`, `medium` or `high`"))
}

/// A temperature from 0 to 2 with at most three decimals, in thousandths.
fn thousandths(text: &str) -> Result<u32, String> {
    let bad = || format!("`{text}` is not a temperature from 0 to 2 with at most three decimals");
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    if decimals.len() > 3 || !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(bad());
    }
    let whole: u32 = whole.parse().map_err(|_| bad())?;
    let part: u32 = format!("{decimals:0<3}").parse().map_err(|_| bad())?;
    whole.checked_mul(1000).map(|units| units + part).filter(|units| *units <= 2000).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_files_of_one_folder_with_one_id_are_both_named_and_neither_is_used() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.md", "b.md", "c.md"] {
            std::fs::write(folder.path().join(name), "---\nid: pragmatist\n---\nMine.\n").unwrap();
        }
        let library = Library::load(&[read(folder.path())]);
        assert!(library.get("pragmatist").is_none(), "nor the built-in one they would cover");
        let told: Vec<_> = library.broken().iter().map(|one| one.error.as_str()).collect();
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(told[0].contains("`pragmatist` is also that of") && told[0].contains("b.md"), "{told:?}");
        assert!(told[1].contains("a.md"), "{told:?}");
    }

    const WHOLE: &str = "---\nid: critic\ndescription: \"Finds: faults\"\nstance: against\nmodel: a/b/c\nfallbacks: d/e, f/g\n\
                         tools: [read_file, 'grep']\ntemperature: 0.25\n---\n\nYou find faults.\n\n--- \nAll.\n";

    #[test]
    fn front_matter_is_read_whole() {
        let spec = parse("file", WHOLE).unwrap();
        assert_eq!(
            spec,
            PersonaSpec {
                id: "critic".into(),
                description: "Finds: faults".into(),
                stance: Some("against".into()),
                model: Some("a/b/c".into()),
                fallbacks: Some(vec!["d/e".into(), "f/g".into()]),
                tools: Some(vec!["read_file".into(), "grep".into()]),
                temperature_pm: Some(250),
                effort: None,
                text: "You find faults.\n\n--- \nAll.".into(),
            }
        );
        assert_eq!(parse("plain", "Only text").unwrap().id, "plain");
        assert_eq!(parse("crlf", "---\r\ntools: \r\n---\r\nText").unwrap().tools, Some(vec![]));
    }

    #[test]
    fn lists_in_block_form_and_texts_of_several_lines_are_read() {
        let text = "---\n# as other programs write it\ndescription: >-\n  Finds\n  faults: all\nstance: for  # why\n\
                    tools:\n  - read_file\n  - 'grep'\nmodel: a/\n  b\n---\nYou.\n";
        let spec = parse("file", text).unwrap();
        assert_eq!((spec.description.as_str(), spec.stance.as_deref()), ("Finds faults: all", Some("for")));
        assert_eq!(spec.tools, Some(vec!["read_file".into(), "grep".into()]));
        assert_eq!((spec.model.as_deref(), spec.text.as_str()), (Some("a/ b"), "You."));
    }

    #[test]
    fn each_fault_is_named() {
        for (text, fault) in [
            ("---\nid: a\n", "not closed"),
            ("---\nid: A b\n---\nx", "`A b` is not an id"),
            ("---\nid: a\n---\n \n", "no text"),
            ("---\ndescripton: a\n---\nx", "line 2: unknown key `descripton`, did you mean `description`?"),
            ("---\n\nwords\n---\nx", "line 3: `words` is not of the form `key: value`"),
            ("---\nid: a\nwords\n---\nx", "line 3: expected `key: value`"),
            ("---\ndescription: [oops\n---\nx", "line 2: a list that begins with `[` is not closed by `]`"),
            ("---\ndescription: [a, b]\n---\nx", "line 2: `description` is one text, not a list"),
            ("---\nstance: {a: b}\n---\nx", "line 2: `stance` must be text or a list of texts"),
            ("---\ntools: [[a]]\n---\nx", "line 2: `tools` must be text or a list of texts"),
            ("---\nid: a\ndescription: \"oops\n---\nx", "line 3: a quote is not closed"),
            ("---\ndescription: @all\n---\nx", "line 2: not valid YAML: "),
            ("---\ndescription: Finds: faults\n---\nx", "line 2: text with a colon and a space"),
            ("---\nid: a\nid: b\n---\nx", "line 3: `id` is there twice"),
            ("---\nid: &a b\nstance: *a\n---\nx", "line 3: `stance` must be text"),
            ("---\ntemperature: 2.5\n---\nx", "not a temperature"),
            ("---\ntemperature: -1\n---\nx", "not a temperature"),
            ("---\nmodel: gpt\n---\nx", "not a model name"),
        ] {
            let error = parse("a", text).unwrap_err();
            assert!(error.contains(fault), "{error}");
        }
    }

    #[test]
    fn folders_cover_the_binary_and_a_broken_file_is_listed_beside_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let (user, project) = (folder.path().join("user"), folder.path().join("project"));
        for (path, text) in [
            (user.join("solo.md"), "mine"),
            (user.join("broken.md"), "---\n"),
            (user.join("notes.txt"), "---\n"),
            (project.join("extra.md"), "extra"),
        ] {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let library = Library::load(&[super::read(&user), super::read(&project)]);
        assert_eq!(library.get("solo").unwrap().text, "mine");
        assert_eq!(library.get("extra").unwrap().text, "extra");
        assert_eq!(library.broken().iter().map(|b| &b.path).collect::<Vec<_>>(), [&user.join("broken.md")]);
    }

    #[test]
    fn the_built_in_personas_are_whole() {
        let library = Library::load(&[]);
        assert_eq!(library.broken(), []);
        assert_eq!(library.all().count(), EMBEDDED.len());
        assert!(library.all().all(|(spec, _)| !spec.description.is_empty()));
    }
}
