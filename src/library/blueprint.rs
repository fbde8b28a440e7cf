//! Blueprints: TOML files read and held against tools and personas; every fault names its line.

mod written;

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::library::{FileError, Texts, read_text, texts};
use crate::protocol::blueprint::{self, Known};
use crate::protocol::complaint;
use crate::protocol::spec::Blueprint;
use written::Written;

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
    /// Several things are, in the order of their lines.
    #[error("`{place}` has {} faults{}", .faults.len(), .faults.concat())]
    Faults { place: String, faults: Vec<String> },
}

/// Reads the blueprint files of a folder.
pub fn read(folder: &Path) -> Texts {
    texts(folder, "toml", MAX_BLUEPRINT)
}

/// Finds a blueprint: a path to a file, or a name looked up in the folders, the last first, then built in.
pub fn find(wanted: &str, folders: &[Texts], known: &Known<'_>) -> Result<Blueprint, BlueprintError> {
    if wanted.contains('/') || wanted.ends_with(".toml") {
        let path = Path::new(wanted);
        let text = read_text(path, MAX_BLUEPRINT)?;
        return parse(wanted, &text.ok_or_else(|| BlueprintError::NoFile(path.to_owned()))?, known);
    }
    let file = format!("{wanted}.toml");
    if let Some((path, text)) = folders.iter().rev().flatten().find(|(path, _)| path.ends_with(&file)) {
        return parse(&path.display().to_string(), text.as_ref().map_err(FileError::clone)?, known);
    }
    if wanted == DEFAULT {
        return parse("the built-in blueprint", EMBEDDED, known);
    }
    Err(BlueprintError::Unknown { name: wanted.to_owned(), known: names(folders) })
}

/// Names of the blueprints there are, sorted; a folder that cannot be read has none.
pub fn names(folders: &[Texts]) -> Vec<String> {
    let files = folders.iter().flat_map(Texts::keys).filter(|path| path.extension().is_some());
    let names = files.filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned()));
    names.chain([DEFAULT.to_owned()]).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Reads a blueprint and holds it against what there is. `place` is for messages.
pub fn parse(place: &str, text: &str, known: &Known<'_>) -> Result<Blueprint, BlueprintError> {
    let fault = |at: Range<usize>, fault: String, hint: Option<String>| BlueprintError::Fault {
        place: place.to_owned(),
        line: text.get(..at.start).map_or(1, |before| before.matches('\n').count() + 1),
        fault,
        hint,
    };
    let told =
        |error: toml::de::Error| fault(error.span().unwrap_or(0..0), complaint::plain(error.message()), None);
    let mut written = Written::read(text).map_err(told)?;
    let blueprint = written.to_blueprint();
    let mut faults = blueprint::faults(&blueprint, known);
    faults.retain(|found| written.is_certain(found.place));
    if faults.is_empty() && written.slips.is_empty() {
        faults.extend(blueprint::check_writer(&blueprint, written.read_only, known.tools).err());
    }
    let slips = std::mem::take(&mut written.slips).into_iter();
    let slips = slips.map(|slip| {
        let names = slip.meant.map(|(wrong, known)| meant(&wrong, known));
        (slip.at, slip.words, names)
    });
    let faults = faults.into_iter().map(|found| {
        let names = found.meant.map(|(wrong, names)| meant(&wrong, &names));
        (written.span(found.place), found.words, found.hint.or(names))
    });
    let mut all: Vec<_> = slips.chain(faults).collect();
    all.sort_by_key(|(at, ..)| at.start);
    let told = all.into_iter().map(|(at, words, hint)| fault(at, words, hint)).collect();
    in_one(place, told).map_or(Ok(blueprint), Err)
}

/// All faults as one error; each keeps its hint.
fn in_one(place: &str, mut faults: Vec<BlueprintError>) -> Option<BlueprintError> {
    if faults.len() < 2 {
        return faults.pop();
    }
    let line = |fault: BlueprintError| match fault {
        BlueprintError::Fault { line, fault, hint, .. } => {
            let hint = hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
            format!("\n  line {line}: {fault}{hint}")
        }
        other => format!("\n  {other}"),
    };
    let faults = faults.into_iter().map(line).collect();
    Some(BlueprintError::Faults { place: place.to_owned(), faults })
}

/// The name that looks most like a wrong one, and all there are.
fn meant<T: AsRef<str>>(wrong: &str, names: &[T]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    let near = names.iter().map(|name| (strsim::normalized_damerau_levenshtein(wrong, name), name));
    let best = near.max_by(|(a, _), (b, _)| a.total_cmp(b)).filter(|(likeness, _)| *likeness > 0.6);
    let guess = best.map(|(_, name)| format!("did you mean `{name}`? ")).unwrap_or_default();
    format!("{guess}there are: {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::spec::{Risk, ToolSpec};

    fn tool(name: &str, risk: Risk) -> ToolSpec {
        ToolSpec::new(name, "", serde_json::Value::Null, risk)
    }

    fn read(text: &str) -> Result<Blueprint, String> {
        let tools = [tool("look", Risk::Read), tool("edit", Risk::Write)];
        let model = |name: &str| name.starts_with("no/").then(|| ("no such provider".to_owned(), None));
        let known = Known { tools: &tools, persona: &|id| id.len() == 1, model: &model };
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
            (with("read_only = \"yes\"\n"), "line 10: "),
            (with("revise = [\"z\"]\n"), "line 10: no role is called `z`"),
            (with("revise = [\"a\"]\n"), "line 10: `a` leads, so no role can send it back"),
            (with(&format!("{third}revise = [\"b\"]")), "line 13: `c` cannot send `b` back without"),
            (
                GOOD.replace("[\"a\"]", "[\"c\"]") + third + "after = [\"b\"]\n",
                "roles wait for each other in a circle: b → c → b",
            ),
            (format!("lead = \"b\"\n{GOOD}"), "line 1: `b` leads, so it cannot come after another role"),
            (format!("lead = \"z\"\n{GOOD}"), "line 1: no role is called `z`"),
            (GOOD.replace("\"edit\"", "\"edit\"]\nmodle = [\"x\""), "line 9: unknown field `modle`"),
            (with("model = \"no/gpt\"\n"), "line 10: no such provider"),
            (with("max_steps = 0\n"), "line 10: `b` may make no model call at all"),
            (format!("checks = [\"make\",\n\" \"]\n{GOOD}"), "line 2: a check is empty"),
            (with("model = \"gpt\"\n"), "line 10: `gpt` is not a model name"),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.contains(fault), "{error}\n(wanted: {fault})\n{text}");
        }
    }

    #[test]
    fn all_faults_are_told_at_once_each_with_its_line_and_its_hint() {
        let bad =
            GOOD.replace("\"q\"", "\"who\"").replace("\"edit\"", "\"edot\"").replace("[\"a\"]", "[\"z\"]");
        assert_eq!(
            read(&bad).unwrap_err(),
            "`b.toml` has 3 faults\n  line 7: no persona is called `who` (`agon personas list` shows them all)\n  \
             line 8: there is no tool `edot` (did you mean `edit`? there are: look, edit)\n  \
             line 9: no role is called `z` (there are: a, b)"
        );
    }

    #[test]
    fn a_slip_in_the_writing_hides_no_other_fault() {
        let bad = GOOD.replace("name = \"x\"\n", "").replace("name = \"b\"\n", "read_only = 1\n");
        let bad = bad.replace("\"q\"", "\"who\"").replace("\"edit\"", "\"edot\"") + "modle = \"a/b\"\n";
        let told = read(&bad).unwrap_err();
        let lines: Vec<&str> = told.lines().map(|line| line.split(" (").next().unwrap()).collect();
        assert_eq!(
            lines,
            [
                "`b.toml` has 6 faults",
                "  line 1: `name` is missing",
                "  line 4: `name` is missing",
                "  line 5: `1` is not `true` or `false`",
                "  line 6: no persona is called `who`",
                "  line 7: there is no tool `edot`",
                "  line 9: unknown field `modle`",
            ]
        );
        assert!(told.contains("(did you mean `model`? there are: name, persona, model"), "{told}");
        let one = read("name = \"x\"\n[role]\nname = \"a\"\npersona = \"p\"\n").unwrap_err();
        assert!(
            one.ends_with("line 2: a role is written `[[role]]`, with two brackets on each side"),
            "{one}"
        );
    }

    #[test]
    fn a_squad_that_only_looks_is_had_on_purpose() {
        let looks = GOOD.replace("\"edit\"", "\"look\"");
        assert!(read(&looks).unwrap_err().contains("no role may write"));
        assert!(read(&format!("read_only = true\n{looks}")).is_ok());
        let writes = read(&format!("read_only = true\n{GOOD}")).unwrap_err();
        assert!(writes.contains("line 7: the squad is read-only, and `b` may write"), "{writes}");
        let checks = read(&format!("read_only = true\nchecks = [\"make\"]\n{looks}")).unwrap_err();
        assert!(checks.contains("line 2: checks run after a role that writes"), "{checks}");
    }

    #[test]
    fn names_are_looked_up_in_folders_and_paths_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("mine.toml"), GOOD).unwrap();
        let tools = [tool("edit", Risk::Write)];
        let known = Known { tools: &tools, persona: &|_| true, model: &|_| None };
        let folders = [super::read(folder.path())];
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
