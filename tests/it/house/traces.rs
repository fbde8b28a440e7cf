//! Finds what a build machine leaves behind in tracked files: its paths, its registry, its mirrors.

use std::path::Path;

use super::{Source, files, none_broken, package, snippet};

/// What only the machine of a build knows has no place in a tracked file.
fn check_traces(file: &Source) -> Vec<String> {
    let own = package().to_string_lossy().into_owned();
    let mut traces: Vec<String> = [
        ["/registry", "/src/"],
        ["sparse", "+http"],
        ["/root/", ".cargo"],
        ["/home/", "runner"],
        ["/work", "/wt"],
        ["/work", "/shared"],
        ["/work", "/main"],
        ["artifact", "ory"],
    ]
    .iter()
    .map(|halves| halves.concat())
    .collect();
    if Path::new(&own).components().count() > 2 {
        traces.push(own);
    }
    let mut broken = Vec::new();
    for (i, line) in file.text.lines().enumerate() {
        let foreign_source = file.path == "Cargo.lock"
            && line.starts_with("source = ")
            && line != "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
        if foreign_source || traces.iter().any(|trace| line.contains(trace.as_str())) {
            broken.push(format!("{}:{}: a trace of a build machine or a registry", file.path, i + 1));
        }
    }
    broken
}

#[test]
fn no_file_knows_the_machine_it_was_built_on() {
    let all = files(&package());
    assert!(all.iter().any(|path| path == "Cargo.lock"), "the walk found no Cargo.lock");
    let texts = all.into_iter().filter_map(|path| {
        let text = std::fs::read_to_string(package().join(&path)).ok()?;
        Some(Source { path, text })
    });
    none_broken(texts.flat_map(|file| check_traces(&file)).collect());
}

#[test]
fn traces_of_a_machine_are_found() {
    let own = format!("see {}/src", package().display());
    assert_eq!(check_traces(&snippet("README.md", &own)).len(), 1);
    assert_eq!(check_traces(&snippet("Cargo.lock", "source = \"registry+https://mirror/\"")).len(), 1);
    assert_eq!(check_traces(&snippet("README.md", "see https://docs.rs/serde")), Vec::<String>::new());
}
