//! Reads the sources and says which rule of the house broke where; compiles and runs nothing of agon.

mod events;
pub(crate) mod source;
mod stored;
mod traces;
mod words;

use std::path::{Path, PathBuf};

use source::{from_root, paths, production};

/// Every module of `src/` with its floor. A module imports from lower floors only.
pub(crate) const FLOORS: &[(&str, u8)] = &[
    ("protocol", 0),
    ("session", 1),
    ("projection", 1),
    ("ports", 2),
    ("host_files", 2),
    ("temp_names", 2),
    ("eventlog", 3),
    ("bus", 3),
    ("provider", 3),
    ("sandbox", 3),
    ("toolvault", 3),
    ("workspace", 3),
    ("teamcache", 3),
    ("library", 3),
    ("mcp", 3),
    ("nats", 3),
    ("arena", 4),
    ("config", 5),
    ("assembly", 5),
    ("host", 6),
    ("cli", 7),
    ("tui", 7),
    ("serve", 7),
    ("main", 8),
];

/// Imports that the floors alone would refuse.
const ALLOWED: &[(&str, &str)] = &[("assembly", "config"), ("cli", "tui"), ("cli", "serve")];

/// Front ends and all they may import: what is on the other floors reaches them through `host`, so that no use case is
/// written twice.
const FRONT_ENDS: &[(&str, &[&str])] = &[
    ("cli", &["host", "protocol", "projection", "config", "library", "tui", "serve"]),
    ("tui", &["host", "protocol", "projection"]),
    ("serve", &["host", "protocol", "projection", "config", "library"]),
];

/// Above floor 3 only `assembly` names adapters; the arena holds the tool vault.
const ADAPTERS_IN: &[(&str, Option<&str>)] =
    &[("arena", Some("toolvault")), ("config", None), ("host", None), ("main", None)];

/// Modules of floor 3 that stand behind no port: data and readers that any higher floor may use.
const NO_ADAPTERS: &[&str] = &["library"];

/// What floors 0 and 1 may not name: paths, and words wherever they stand.
const IMPURE_PATHS: &[&str] = &[
    "tokio",
    "tokio_util",
    "rand",
    "std::fs",
    "std::net",
    "std::env",
    "std::time",
    "std::process",
    "std::thread",
    "std::io::stdin",
    "std::io::stdout",
    "std::io::stderr",
];
const IMPURE_WORDS: &[&str] = &["async", "await", "SystemTime", "Instant", "HashMap", "HashSet"];

/// Starting a task; only `arena` does.
const SPAWNS: &[&str] = &["tokio::spawn", "tokio::task::spawn", "tokio::task::spawn_local"];

const MAX_LINES: usize = 500;

/// One source file: its path relative to the package, with `/`, and its text.
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    /// The modules down to this file, `["session", "budget"]`; none for `lib.rs`, `["main"]` for `main.rs`.
    fn module(&self) -> Vec<&str> {
        let inside = self.path.strip_prefix("src/").and_then(|p| p.strip_suffix(".rs")).unwrap_or("");
        inside.split('/').filter(|part| !part.is_empty() && *part != "lib").collect()
    }

    fn top(&self) -> &str {
        self.module().first().copied().unwrap_or("")
    }
}

pub(crate) fn package() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every file beneath `folder` that ends with `.rs`, sorted by path.
pub(crate) fn sources(folder: &str) -> Vec<Source> {
    let mut found: Vec<Source> = files(&package().join(folder))
        .into_iter()
        .filter(|path| path.ends_with(".rs"))
        .map(|path| Source { text: std::fs::read_to_string(package().join(&path)).unwrap(), path })
        .collect();
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// Files beneath `root` that are not ignored, relative to the package.
pub(crate) fn files(root: &Path) -> Vec<String> {
    let walk = ignore::WalkBuilder::new(root).hidden(false).filter_entry(|e| e.file_name() != ".git").build();
    walk.filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()))
        .map(|entry| entry.path().strip_prefix(package()).unwrap().to_string_lossy().replace('\\', "/"))
        .collect()
}

fn floor(module: &str) -> Option<u8> {
    FLOORS.iter().find(|(name, _)| *name == module).map(|(_, floor)| *floor)
}

/// Says why `from` may not import `to`, if it may not.
fn import_refused(from: &str, to: &str) -> Option<String> {
    let high = floor(from)?;
    let Some(low) = floor(to) else {
        return (from != "main").then(|| format!("`crate::{to}` is no module; name the module it is from"));
    };
    let client = FRONT_ENDS.iter().find(|(name, _)| *name == from);
    match client {
        Some((_, allowed)) if from != to && !allowed.contains(&to) => {
            return Some(format!("`{from}` is a client of `host` and imports `{to}`"));
        }
        _ if from == to || ALLOWED.contains(&(from, to)) => return None,
        _ => {}
    }
    if low >= high {
        return Some(format!("`{from}` (floor {high}) imports `{to}` (floor {low})"));
    }
    let adapters = ADAPTERS_IN.iter().find(|(name, _)| *name == from);
    match adapters {
        Some((_, allowed)) if low == 3 && *allowed != Some(to) && !NO_ADAPTERS.contains(&to) => {
            Some(format!("`{from}` names the adapter `{to}`; only `assembly` does"))
        }
        _ => None,
    }
}

fn check_floors(file: &Source) -> Vec<String> {
    let module = file.module();
    let Some(top) = module.first() else { return Vec::new() };
    if floor(top).is_none() {
        return vec![format!("{}: `{top}` has no floor in tests/it/house.rs", file.path)];
    }
    paths(&production(&file.text))
        .iter()
        .filter_map(|path| {
            let target = from_root(path, &module)?;
            let why = import_refused(top, &target[0])?;
            Some(format!("{}:{}: {why}", file.path, path.line))
        })
        .collect()
}

fn check_purity(file: &Source) -> Vec<String> {
    if floor(file.top()).is_none_or(|floor| floor > 1) {
        return Vec::new();
    }
    let named = paths(&production(&file.text));
    let impure = named.iter().filter(|path| {
        IMPURE_PATHS.iter().any(|prefix| path.starts_with(prefix))
            || path.segments.iter().any(|word| IMPURE_WORDS.contains(&word.as_str()))
    });
    impure.map(|path| format!("{}:{}: `{}` on floor 0 or 1", file.path, path.line, path.text())).collect()
}

fn check_spawns(file: &Source) -> Vec<String> {
    if file.top() == "arena" {
        return Vec::new();
    }
    let named = paths(&production(&file.text));
    let spawns = named.iter().filter(|path| SPAWNS.iter().any(|spawn| path.starts_with(spawn)));
    spawns.map(|path| format!("{}:{}: `{}` outside `arena`", file.path, path.line, path.text())).collect()
}

/// The first paragraph of `//!` lines is one real sentence, at the very top. A file without code is yet to come.
fn check_opening(file: &Source) -> Vec<String> {
    if source::blanked(&file.text).trim().is_empty() && !file.text.is_empty() {
        return Vec::new();
    }
    let opening: Vec<&str> = file
        .text
        .lines()
        .map_while(|line| line.strip_prefix("//! "))
        .map(str::trim)
        .take_while(|line| !line.is_empty())
        .collect();
    let sentence = opening.join(" ");
    let words = sentence.split_whitespace().filter(|word| word.chars().any(char::is_alphanumeric)).count();
    match words >= 5 && sentence.ends_with('.') {
        true => Vec::new(),
        false => {
            vec![format!("{}:1: does not open with `//! ` and a sentence of five words or more", file.path)]
        }
    }
}

fn check_size(file: &Source) -> Vec<String> {
    let mut broken = Vec::new();
    let lines = file.text.lines().count();
    if lines > MAX_LINES {
        broken.push(format!("{}: {lines} lines, at most {MAX_LINES}", file.path));
    }
    if file.path.ends_with("/mod.rs") {
        broken.push(format!("{}: `noun.rs` + `noun/`, never `mod.rs`", file.path));
    }
    broken
}

/// An empty `///` stands between two lines of text and nowhere else.
fn check_empty_docs(file: &Source) -> Vec<String> {
    let lines: Vec<&str> = file.text.lines().map(str::trim).collect();
    let has_text = |i: Option<usize>| {
        i.and_then(|i| lines.get(i)).and_then(|l| l.strip_prefix("///")).is_some_and(|l| !l.trim().is_empty())
    };
    (0..lines.len())
        .filter(|&i| lines[i] == "///" && !(has_text(i.checked_sub(1)) && has_text(Some(i + 1))))
        .map(|i| format!("{}:{}: an empty `///`", file.path, i + 1))
        .collect()
}

/// A file `noun/name.rs` that its parent does not declare is never compiled.
fn check_declared(file: &Source, parent: &Source) -> Vec<String> {
    let name = Path::new(&file.path).file_stem().unwrap().to_string_lossy().into_owned();
    let code = source::blanked(&parent.text);
    let words: Vec<&str> = code.split(|c: char| !(c.is_alphanumeric() || c == '_')).collect();
    match words.windows(2).any(|pair| pair == ["mod", name.as_str()]) {
        true => Vec::new(),
        false => vec![format!("{}: not declared by a `mod {name};` in {}", file.path, parent.path)],
    }
}

/// Lints are silenced with a reason, and nothing is named after having no name.
fn check_habits(file: &Source) -> Vec<String> {
    let code = production(&file.text);
    let silenced = (1..).zip(code.lines()).filter(|(_, line)| line.contains("[allow("));
    let silenced = silenced.map(|(i, _)| (i, "`#[expect(lint, reason = …)]` instead of `allow`".to_owned()));
    let vague = paths(&code).into_iter().filter_map(|path| {
        let word = path.segments.last()?;
        let vague = ["Manager", "Helper", "Util", "Utils"].iter().any(|end| word.ends_with(end));
        vague.then(|| (path.line, format!("`{word}` says nothing of its job")))
    });
    silenced.chain(vague).map(|(line, why)| format!("{}:{line}: {why}", file.path)).collect()
}

fn none_broken(broken: Vec<String>) {
    assert!(broken.is_empty(), "{} broken:\n{}", broken.len(), broken.join("\n"));
}

fn over(folders: &[&str], check: fn(&Source) -> Vec<String>) {
    let all: Vec<Source> = folders.iter().flat_map(|folder| sources(folder)).collect();
    assert!(!all.is_empty(), "no sources found");
    none_broken(all.iter().flat_map(check).collect());
}

fn snippet(path: &str, text: &str) -> Source {
    Source { path: path.to_owned(), text: text.to_owned() }
}

#[test]
fn imports_go_down() {
    over(&["src"], check_floors);
}

#[test]
fn imports_that_go_up_or_sideways_are_found() {
    let bad = [
        ("src/protocol/event.rs", "use crate::session::Session;"),
        ("src/session/budget.rs", "fn f() { let x = crate::projection::board::new(); }"),
        ("src/session/budget.rs", "use super::super::ports::Clock;"),
        ("src/projection.rs", "use crate::{protocol::Entry, session};"),
        ("src/eventlog.rs", "use crate::bus::Bus;"),
        ("src/arena/driver.rs", "use crate::eventlog::FileLog;"),
        ("src/config.rs", "use crate::provider::OpenAi;"),
        ("src/cli/run.rs", "use crate::sandbox::Local;"),
        ("src/cli/run.rs", "use crate::assembly::open;"),
        ("src/cli/watch.rs", "fn f(_: crate::arena::Arena) {}"),
        ("src/cli/sessions.rs", "use crate::eventlog::SessionStore;"),
        ("src/tui.rs", "use crate::session::Session;"),
        ("src/tui.rs", "use crate::config::Config;"),
        ("src/tui.rs", "use crate::cli::output::Output;"),
        ("src/host.rs", "use crate::eventlog::SessionStore;"),
        ("src/host/handle.rs", "use crate::cli::output::Output;"),
        ("src/main.rs", "use agon::eventlog::FileLog;"),
        ("src/session.rs", "use crate::Arena;"),
        ("src/novelty.rs", "fn f() {}"),
    ];
    for (path, text) in bad {
        assert_eq!(check_floors(&snippet(path, text)).len(), 1, "{path}: {text}");
    }
    let good = [
        (
            "src/session/budget.rs",
            "use super::limits; use crate::protocol::Entry; use crate::session::Session;",
        ),
        ("src/session.rs", "// crate::projection\nconst A: &str = \"crate::projection\";"),
        ("src/session.rs", "#[cfg(test)]\nmod tests { use crate::projection::Board; }"),
        ("src/arena.rs", "use crate::toolvault::ToolVault;"),
        ("src/cli/personas.rs", "use crate::library::persona;"),
        ("src/assembly.rs", "use crate::{config::Config, eventlog::FileLog};"),
        ("src/host/handle.rs", "use crate::{arena::Arena, assembly::Prepared, config::Config};"),
        ("src/cli/watch.rs", "use crate::{host::Handle, tui::State};"),
    ];
    for (path, text) in good {
        assert_eq!(check_floors(&snippet(path, text)), Vec::<String>::new(), "{path}: {text}");
    }
}

#[test]
fn the_core_is_pure() {
    over(&["src"], check_purity);
}

#[test]
fn impurities_are_found() {
    let bad = [
        "use std::{collections::HashMap, fmt};",
        "async fn f() {}",
        "fn f() { x.await }",
        "fn f() { std::time::now() }",
        "use std::env;",
        "fn f() { tokio::spawn(g()) }",
        "use rand::Rng;",
    ];
    for text in bad {
        assert_eq!(check_purity(&snippet("src/session/a.rs", text)).len(), 1, "{text}");
        assert_eq!(check_purity(&snippet("src/eventlog.rs", text)), Vec::<String>::new(), "{text}");
    }
    let good = "//! async\nuse std::collections::BTreeMap; fn rand_free(instant: u64) {}";
    assert_eq!(check_purity(&snippet("src/protocol.rs", good)), Vec::<String>::new());
}

#[test]
fn only_the_arena_starts_tasks() {
    over(&["src"], check_spawns);
}

#[test]
fn tasks_started_elsewhere_are_found() {
    for text in
        ["fn f() { tokio::spawn(g()); }", "use tokio::{spawn, time};", "use tokio::task::spawn_local;"]
    {
        assert_eq!(check_spawns(&snippet("src/bus.rs", text)).len(), 1, "{text}");
        assert_eq!(check_spawns(&snippet("src/arena/driver.rs", text)), Vec::<String>::new());
    }
    let good = snippet("src/bus.rs", "fn f() { tokio::task::spawn_blocking(g); }");
    assert_eq!(check_spawns(&good), Vec::<String>::new());
}

#[test]
fn files_open_with_their_job() {
    over(&["src", "tests", "benches"], check_opening);
}

#[test]
fn bad_openings_are_found() {
    for text in [
        "",
        "use a;\n//! Says what it is for here.",
        "//! Tests of house.\nuse a;",
        "//! No full stop at the end\nuse a;",
    ] {
        assert_eq!(check_opening(&snippet("src/a.rs", text)).len(), 1, "{text}");
    }
    let good = "//! Says what this file is for,\n//! over two lines.\n\nuse a;";
    assert_eq!(check_opening(&snippet("src/a.rs", good)), Vec::<String>::new());
}

#[test]
fn files_stay_small_and_flat() {
    over(&["src", "tests", "benches"], check_size);
}

#[test]
fn large_files_and_mod_files_are_found() {
    assert_eq!(check_size(&snippet("src/a.rs", &"x\n".repeat(500))), Vec::<String>::new());
    assert_eq!(check_size(&snippet("src/a.rs", &"x\n".repeat(501))).len(), 1);
    assert_eq!(check_size(&snippet("src/a/mod.rs", "x")).len(), 1);
}

#[test]
fn no_doc_comment_is_empty() {
    over(&["src", "tests", "benches"], check_empty_docs);
}

#[test]
fn empty_doc_comments_are_found() {
    for text in ["///\nfn f() {}", "/// a\n///\nfn f() {}", "///\n/// a\nfn f() {}"] {
        assert_eq!(check_empty_docs(&snippet("src/a.rs", text)).len(), 1, "{text}");
    }
    assert_eq!(check_empty_docs(&snippet("src/a.rs", "/// a\n///\n/// b\nfn f() {}")), Vec::<String>::new());
}

#[test]
fn lints_and_names_follow_the_habits() {
    over(&["src"], check_habits);
}

#[test]
fn bad_habits_are_found() {
    for text in [
        "#[allow(dead_code)]\nfn f() {}",
        "#![allow(dead_code)]",
        "struct SessionManager;",
        "mod x { use y::Utils; }",
    ] {
        assert_eq!(check_habits(&snippet("src/a.rs", text)).len(), 1, "{text}");
    }
    let good = "#[expect(dead_code, reason = \"allow\")]\nfn allow() { allow() }";
    assert_eq!(check_habits(&snippet("src/a.rs", good)), Vec::<String>::new());
}

/// The file that must declare `path`: `src/a/b.rs` by `src/a.rs`, `src/a.rs` by `src/lib.rs`.
fn parent_of(path: &str) -> String {
    let folder = Path::new(path).parent().unwrap().to_string_lossy().into_owned();
    match folder.as_str() {
        "src" => "src/lib.rs".to_owned(),
        "tests/it" => "tests/it/main.rs".to_owned(),
        folder => format!("{folder}.rs"),
    }
}

#[test]
fn every_file_is_compiled() {
    let all: Vec<Source> = sources("src").into_iter().chain(sources("tests/it")).collect();
    let mut broken = Vec::new();
    for file in
        all.iter().filter(|f| !["src/lib.rs", "src/main.rs", "tests/it/main.rs"].contains(&f.path.as_str()))
    {
        match all.iter().find(|parent| parent.path == parent_of(&file.path)) {
            Some(parent) => broken.extend(check_declared(file, parent)),
            None => broken.push(format!("{}: {} does not exist", file.path, parent_of(&file.path))),
        }
    }
    none_broken(broken);
}

#[test]
fn undeclared_files_are_found() {
    let parent = snippet("src/a.rs", "//! mod b;\npub mod c;\nmod d {}");
    assert_eq!(check_declared(&snippet("src/a/b.rs", ""), &parent).len(), 1);
    assert_eq!(check_declared(&snippet("src/a/c.rs", ""), &parent), Vec::<String>::new());
}

/// `tests/run` hands over a file; whoever sees it must have given up being root.
#[cfg(unix)]
#[test]
fn the_suite_runs_without_privileges() {
    if std::env::var_os("AGON_CARGO_METADATA").is_some() {
        assert!(!rustix::process::geteuid().is_root(), "a test binary runs as root");
    }
}
