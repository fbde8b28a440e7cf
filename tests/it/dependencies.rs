//! Holds every dependency to the house: its licence, its reason in ARCHITECTURE.md, and no version twice.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use crate::house::source::blanked;
use crate::house::{package, sources};

/// Licences a dependency may be used under.
const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Crates that are there in more than one version, and why that is borne.
const TWICE: &[(&str, &str)] = &[
    ("base64", "tiktoken-rs still has 0.22"),
    ("darling", "cached, which brush-parser brings, still has 0.20; at compile time only"),
    ("darling_core", "cached, which brush-parser brings, still has 0.20; at compile time only"),
    ("darling_macro", "cached, which brush-parser brings, still has 0.20; at compile time only"),
    ("fancy-regex", "syntect still has 0.16; jsonschema has 0.19"),
    ("foldhash", "cached, which brush-parser brings, still has 0.1"),
    ("getrandom", "ring has 0.2 and ahash has 0.3; uuid has 0.4"),
    ("hashbrown", "cached, which brush-parser brings, still has 0.15"),
    ("io-lifetimes", "fs-set-times, which cap-std brings, still has 2"),
    ("miniz_oxide", "png still has 0.8; flate2 has 0.9"),
    ("similar", "insta has 2; in tests only"),
    ("syn", "divan's macros have 2; at compile time only"),
    ("thiserror", "portable-pty still has 1; in tests only"),
    ("thiserror-impl", "portable-pty still has 1; in tests only"),
    ("vte", "insta has 0.14 and vt100 0.15; in tests only"),
];

/// What `cargo metadata` says of the crates that are built here. `tests/run` asks as the caller and hands over a file,
/// because the user the tests run as may not see the caller's crates.
fn metadata() -> Value {
    let text = match std::env::var_os("AGON_CARGO_METADATA") {
        Some(file) => std::fs::read(&file).unwrap(),
        None => {
            let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
            let mut command = Command::new(cargo);
            command.args(["metadata", "--format-version", "1", "--locked"]).current_dir(package());
            if cfg!(all(target_os = "linux", target_env = "gnu")) {
                command.arg(format!("--filter-platform={}-unknown-linux-gnu", std::env::consts::ARCH));
            }
            let output = command.output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            output.stdout
        }
    };
    serde_json::from_slice(&text).unwrap()
}

/// Packages that the resolved graph really contains, by id.
fn packages(metadata: &Value) -> Vec<&Value> {
    let nodes = metadata["resolve"]["nodes"].as_array().unwrap();
    let used: BTreeSet<&str> = nodes.iter().filter_map(|node| node["id"].as_str()).collect();
    let all = metadata["packages"].as_array().unwrap();
    all.iter().filter(|package| package["id"].as_str().is_some_and(|id| used.contains(id))).collect()
}

/// Reads an SPDX expression: `OR` (or the old `/`) needs one side, `AND` needs both.
fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    let allowed = any(&mut words);
    allowed && words.next().is_none()
}

type Words<'a, 'b> = &'b mut std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any(words: Words<'_, '_>) -> bool {
    let mut allowed = all(words);
    while words.next_if_eq(&"OR").is_some() {
        allowed |= all(words);
    }
    allowed
}

fn all(words: Words<'_, '_>) -> bool {
    let mut allowed = one(words);
    while words.next_if_eq(&"AND").is_some() {
        allowed &= one(words);
    }
    allowed
}

fn one(words: Words<'_, '_>) -> bool {
    let Some(word) = words.next() else { return false };
    if word == "(" {
        let allowed = any(words);
        return allowed && words.next() == Some(")");
    }
    let name = match words.next_if_eq(&"WITH") {
        Some(_) => format!("{word} WITH {}", words.next().unwrap_or_default()),
        None => word.to_owned(),
    };
    LICENCES.contains(&name.as_str())
}

/// Names that stand with more than one version.
fn doubled(versions: &[(String, String)]) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut by_name: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, version) in versions {
        by_name.entry(name).or_default().insert(version);
    }
    by_name.retain(|_, versions| versions.len() > 1);
    by_name
}

/// Direct dependencies of a manifest, those of tests included.
fn direct(manifest: &str) -> BTreeSet<String> {
    let manifest: toml::Table = toml::from_str(manifest).unwrap();
    let sections = ["dependencies", "dev-dependencies", "build-dependencies"];
    let mut tables: Vec<&toml::Table> =
        sections.iter().filter_map(|key| manifest.get(*key)?.as_table()).collect();
    if let Some(targets) = manifest.get("target").and_then(toml::Value::as_table) {
        let per_target = targets.values().filter_map(toml::Value::as_table);
        tables.extend(per_target.flat_map(|t| sections.iter().filter_map(|key| t.get(*key)?.as_table())));
    }
    tables.iter().flat_map(|table| table.keys().cloned()).collect()
}

/// Names in the first column of the table beneath `heading`, each with a reason in the last column.
fn explained(page: &str, heading: &str) -> BTreeSet<String> {
    let section = page.split_once(heading).map_or("", |(_, rest)| rest);
    let section = section.split("\n## ").next().unwrap_or("");
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let reason = |line: &str| line.trim_end_matches('|').rsplit('|').next().unwrap_or("").trim().len();
    rows.filter(|line| reason(line) >= 10)
        .filter_map(|line| Some(line.split('`').nth(1)?.to_owned()))
        .collect()
}

#[test]
fn licences_are_allowed() {
    let metadata = metadata();
    let packages = packages(&metadata);
    assert!(packages.len() > 50, "only {} packages: the graph was not read", packages.len());
    let bad: Vec<String> = packages
        .iter()
        .filter(|package| !package["license"].as_str().is_some_and(is_allowed))
        .map(|package| format!("{} {}: {}", package["name"], package["version"], package["license"]))
        .collect();
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn licence_expressions_are_read() {
    for good in [
        "MIT",
        "MIT OR GPL-3.0",
        "MIT/Apache-2.0",
        "(MIT OR GPL-3.0) AND Unicode-3.0",
        "Apache-2.0 WITH LLVM-exception",
        "MIT AND (Zlib OR AGPL-3.0)",
    ] {
        assert!(is_allowed(good), "{good}");
    }
    for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT", "MIT Apache-2.0", "GPL-2.0 WITH LLVM-exception"] {
        assert!(!is_allowed(bad), "{bad}");
    }
}

#[test]
fn no_crate_is_there_twice_without_a_reason() {
    let metadata = metadata();
    let text = |package: &Value, key: &str| package[key].as_str().unwrap().to_owned();
    let versions: Vec<(String, String)> =
        packages(&metadata).into_iter().map(|p| (text(p, "name"), text(p, "version"))).collect();
    let doubled = doubled(&versions);
    let unexpected: Vec<_> =
        doubled.iter().filter(|(name, _)| !TWICE.iter().any(|(n, _)| n == *name)).collect();
    assert!(unexpected.is_empty(), "twice, without a reason in this test: {unexpected:?}");
    let gone: Vec<_> = TWICE.iter().filter(|(name, _)| !doubled.contains_key(name)).collect();
    assert!(gone.is_empty(), "no longer twice; take them off the list: {gone:?}");
}

#[test]
fn doubled_crates_are_found() {
    let versions = [("a", "1.0.0"), ("b", "1.0.0"), ("a", "2.0.0"), ("b", "1.0.0")]
        .map(|(name, version)| (name.to_owned(), version.to_owned()));
    assert_eq!(doubled(&versions).into_keys().collect::<Vec<_>>(), ["a"]);
}

#[test]
fn every_direct_dependency_has_its_reason() {
    let manifest = std::fs::read_to_string(package().join("Cargo.toml")).unwrap();
    let page = std::fs::read_to_string(package().join("ARCHITECTURE.md")).unwrap();
    let (direct, explained) = (direct(&manifest), explained(&page, "\n## Dependencies"));
    let missing: Vec<_> = direct.difference(&explained).collect();
    let stale: Vec<_> = explained.difference(&direct).collect();
    assert!(missing.is_empty(), "no row with a reason in ARCHITECTURE.md: {missing:?}");
    assert!(stale.is_empty(), "in ARCHITECTURE.md but no dependency: {stale:?}");
}

#[test]
fn every_direct_dependency_is_used() {
    let manifest = std::fs::read_to_string(package().join("Cargo.toml")).unwrap();
    let code: Vec<String> =
        ["src", "tests", "benches"].iter().flat_map(|f| sources(f)).map(|f| blanked(&f.text)).collect();
    let unused: Vec<String> = direct(&manifest).into_iter().filter(|name| !is_used(name, &code)).collect();
    assert!(unused.is_empty(), "no source names {unused:?}");
}

/// True when some code has the crate's name as a word.
fn is_used(name: &str, code: &[String]) -> bool {
    let word = name.replace('-', "_");
    let words = |text: &str| text.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|w| w == word);
    code.iter().any(|text| words(text))
}

#[test]
fn unused_dependencies_are_found() {
    let code = [blanked("use a_b::C; // c_d")];
    assert!(is_used("a-b", &code));
    assert!(!is_used("c-d", &code));
}

#[test]
fn missing_reasons_are_found() {
    let page =
        "\n## Dependencies\n| `a` | because it is good |\n| `b` | |\n\n## More\n| `c` | because it is good |";
    assert_eq!(explained(page, "\n## Dependencies").into_iter().collect::<Vec<_>>(), ["a"]);
    let manifest = "[dependencies]\na = \"1\"\n[dev-dependencies]\nb = \"1\"\n[target.'cfg(unix)'.dependencies]\nc = \"1\"";
    assert_eq!(direct(manifest).into_iter().collect::<Vec<_>>(), ["a", "b", "c"]);
}
