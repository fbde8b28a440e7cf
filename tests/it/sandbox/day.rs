//! A day's work on a real package of a registry: read, edit, add a dependency, test, commit on a branch, with nothing granted
//! but the hosts of its package tool and `git`. Which hosts those are is the tool's own word: it is asked first, without any.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use agon::sandbox::proxy::SystemWire;
use serde_json::Value;

use super::packages::{open, with_hosts};
use crate::cli::run::{log, scripted};
use crate::support::env::Env;

/// What one language's day is made of.
struct Day {
    /// Its name in `AGON_TEST_REQUIRE`, where `days` names all of them.
    name: &'static str,
    /// Looks whether its tools work inside.
    needs: &'static str,
    /// Fetches the dependency in an empty folder, so that the tool names its hosts.
    fetch: &'static str,
    /// Puts the package into the present folder, outside of any sandbox.
    unpack: &'static str,
    /// A file of the package that is edited, and how a line of comment in it begins.
    edited: (&'static str, &'static str),
    /// The test that is written: path and text.
    test: (&'static str, &'static str),
    /// Adds the dependency, then runs the test.
    adds: String,
    tests: &'static str,
}

/// Says why nothing is tried, unless it has to be here.
fn skipped(day: &Day, why: &str) {
    let required = std::env::var("AGON_TEST_REQUIRE").unwrap_or_default();
    let is_required = required.split([',', ' ']).any(|name| name == day.name || name == "days");
    assert!(!is_required, "a day with {} is required: {why}", day.name);
    println!("skipped: {}: {why}", day.name);
}

fn sh(folder: &Path, command: &str) -> bool {
    let mut sh = Command::new("sh");
    let sh = sh.args(["-c", command]).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
    sh.status().unwrap().success()
}

fn git(env: &Env, arguments: &[&str]) -> String {
    let mut git = Command::new("git");
    git.args(arguments).current_dir(env.work()).env("HOME", user(env)).env_remove("XDG_CONFIG_HOME");
    let output = git.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The home of who works here.
fn user(env: &Env) -> PathBuf {
    env.temporary().join("user")
}

/// What runs or steers git, of the repository and of the user.
fn steering(env: &Env) -> BTreeMap<PathBuf, Vec<u8>> {
    let (git, mut all) = (env.work().join(".git"), BTreeMap::new());
    let mut waiting =
        vec![git.join("hooks"), git.join("info"), git.join("config"), user(env).join(".gitconfig")];
    while let Some(path) = waiting.pop() {
        match fs::read_dir(&path) {
            Ok(entries) => waiting.extend(entries.map(|entry| entry.unwrap().path())),
            Err(_) => drop(all.insert(path.clone(), fs::read(path).unwrap_or_default())),
        }
    }
    all
}

fn call(tool: &str, args: &[(&str, &str)]) -> String {
    call_with(tool, &table(args))
}

fn table(args: &[(&str, &str)]) -> String {
    let args: Vec<String> = args.iter().map(|(name, value)| format!("{name} = '''{value}'''")).collect();
    args.join(", ")
}

fn call_with(tool: &str, args: &str) -> String {
    format!("[[answer]]\nspark = \"solo\"\ncalls = [{{ tool = \"{tool}\", args = {{ {args} }} }}]\n")
}

/// The first line of the file that begins so and is there once.
fn anchor<'t>(text: &'t str, comment: &str) -> &'t str {
    let is_one = |line: &&str| line.starts_with(comment) && text.matches(*line).count() == 1;
    text.lines().find(is_one).expect("a line of comment")
}

/// A workspace with the package in a repository, whose agent works through its day.
fn at_work(day: &Day) -> Option<Env> {
    let env = scripted("");
    if !sh(&env.work(), day.unpack) {
        return None;
    }
    fs::create_dir(user(&env)).unwrap();
    fs::write(user(&env).join(".gitconfig"), "[user]\n\tname = A User\n\temail = user@example.org\n")
        .unwrap();
    git(&env, &["init", "-q", "-b", "main"]);
    fs::write(env.work().join(".gitignore"), "target/\n.venv/\n__pycache__/\nnode_modules/\n").unwrap();
    git(&env, &["add", "."]);
    git(&env, &["commit", "-qm", "as published"]);
    let (file, comment) = day.edited;
    let text = fs::read_to_string(env.work().join(file)).unwrap();
    let old = anchor(&text, comment);
    let edit = table(&[("old", old), ("new", &format!("{old} Edited."))]);
    let script = [
        call("read_file", &[("path", file)]),
        call_with("edit_file", &format!("path = '{file}', edits = [{{ {edit} }}]")),
        call("write_file", &[("path", day.test.0), ("content", day.test.1)]),
        call("bash", &[("command", &day.adds)]),
        call("bash", &[("command", day.tests)]),
        call("bash", &[("command", "git switch -qc work && git add -A && git commit -qm 'A day of work'")]),
        "[[answer]]\nspark = \"solo\"\ntext = \"done\"\n".to_owned(),
    ];
    env.write("home/mock.toml", &script.concat());
    Some(env)
}

/// The program for the user whose home this is, with the tools of who runs the tests.
fn with_tools(env: &mut Env) {
    let home = std::env::var("HOME").unwrap_or_default();
    let folder = user(env).display().to_string();
    for (name, beneath) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup"), ("PYENV_ROOT", ".pyenv")] {
        let place = std::env::var(name).unwrap_or_else(|_| format!("{home}/{beneath}"));
        if Path::new(&place).is_dir() {
            env.set(name, &place);
        }
    }
    env.set("HOME", &folder);
}

async fn is_done(day: Day) {
    let Some(opened) = open(Arc::new(SystemWire)).await else { return skipped(&day, "there is no `local`") };
    let Some((end, hosts)) = with_hosts(&opened, day.needs, day.fetch).await else {
        return skipped(&day, "its tools do not work here, or reach no registry");
    };
    assert_eq!(end.exit, Some(0), "{end:?}");
    let Some(mut env) = at_work(&day) else { return skipped(&day, "its package is not here") };
    with_tools(&mut env);
    let before = steering(&env);
    let hosts: Vec<String> = hosts.iter().map(|host| format!("host:{host}")).collect();
    let mut arguments = vec!["run", "a day's work", "--sandbox", "local", "--permission", "auto"];
    hosts.iter().for_each(|host| arguments.extend(["--allow", host]));
    let ran = env.run(&arguments);
    let log = log(&env);
    assert_eq!(ran.code, 0, "{ran}");
    let bodies = |kind: &str| -> Vec<Value> {
        let entries = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let events = entries.flat_map(|entry| entry["events"].as_array().unwrap().clone());
        events.filter(|event| event["kind"] == *kind).map(|event| event["data"]["body"].clone()).collect()
    };
    let ends = bodies("tool_resolved");
    assert_eq!(ends.len(), 6, "{ends:#?}");
    assert!(ends.iter().all(|end| end["status"] == "ok"), "{ends:#?}");
    assert!(!log.contains("approval_requested") && !log.contains("tool_refused"), "{log}");
    // The log names each need: git by the plan, hosts by what was connected to.
    let needs: Vec<String> =
        bodies("tool_prepared").iter().map(|body| body["result"]["ready"]["needs"].to_string()).collect();
    assert!(needs[5].contains("\"git\"") && !needs[4].contains("\"git\""), "{needs:#?}");
    for host in &hosts {
        let line = format!("network: {}:443: ", host.trim_start_matches("host:"));
        assert!(ends[3]["notes"].to_string().contains(&line), "{line} {}", ends[3]);
    }
    // Everything is in a commit on its branch, the repository is whole, and what steers git is as it was.
    assert_eq!(git(&env, &["status", "--porcelain"]), "");
    assert_eq!(git(&env, &["log", "--format=%D %an", "-1"]).trim(), "HEAD -> work A User");
    let changed = git(&env, &["diff", "--name-only", "main", "work"]);
    assert!(changed.contains(day.edited.0) && changed.contains(day.test.0), "{changed}");
    assert_eq!(git(&env, &["fsck", "--full", "--strict", "--no-dangling"]), "");
    assert_eq!(steering(&env), before);
    let verified = env.run(&["verify", "latest"]);
    assert_eq!(verified.code, 0, "{verified}");
}

#[tokio::test]
async fn a_day_with_rust() {
    let unpack = "p=$(find \"${CARGO_HOME:-$HOME/.cargo}\" -maxdepth 5 -type d -name 'strsim-[0-9]*' | head -1) && \
                  cp -r \"$p\"/. . && mv Cargo.toml.orig Cargo.toml && \
                  rm -f Cargo.lock .cargo-ok .cargo_vcs_info.json";
    let test = "#[test]\nfn a_dependency_is_used() {\n    assert_eq!(hex::encode([strsim::levenshtein(\"ab\", \"cd\") as u8]), \
                \"02\");\n}\n";
    is_done(Day {
        name: "rust",
        needs: "cargo --version && cargo test --help >/dev/null",
        fetch: "cargo init -q --vcs none --name probe p && cd p && cargo add -q hex && cargo fetch -q; e=$?; cd ..; rm -rf p; exit $e",
        unpack,
        edited: ("src/lib.rs", "//!"),
        test: ("tests/day.rs", test),
        adds: "cargo add -q hex && cargo fetch -q".to_owned(),
        tests: "cargo test -q --offline --test day",
    })
    .await;
}

#[tokio::test]
async fn a_day_with_python() {
    let unpack = "python3 -m venv ../v && ../v/bin/pip -q download --no-deps -d ../w six && \
                  python3 -m zipfile -e ../w/six-*.whl . && rm -rf ../v ../w";
    let test = "import unittest\n\nimport iniconfig\nimport six\n\n\nclass Day(unittest.TestCase):\n    \
                def test_dependency(self):\n        self.assertTrue(six.PY3 and iniconfig.IniConfig)\n";
    let install = "python3 -m venv .venv && .venv/bin/pip install -q -r requirements.txt";
    is_done(Day {
        name: "python",
        needs: "python3 -c 'import venv, ensurepip'",
        fetch: "python3 -m venv .venv && .venv/bin/pip install -q --no-cache-dir iniconfig; e=$?; rm -rf .venv; exit $e",
        unpack,
        edited: ("six.py", "#"),
        test: ("test_day.py", test),
        adds: format!("echo iniconfig >requirements.txt && {install}"),
        tests: ".venv/bin/python -m unittest -q test_day",
    })
    .await;
}

#[tokio::test]
async fn a_day_with_node() {
    let unpack = "npm pack --silent is-number@6.0.0 && tar xzf is-number-*.tgz --strip-components=1 && rm is-number-*.tgz";
    let test = "const test = require('node:test');\nconst assert = require('node:assert');\n\n\
                test('a dependency is used', () => {\n  assert.ok(require('./index.js')(3) && require('is-odd')(3));\n});\n";
    is_done(Day {
        name: "node",
        needs: "npm --version && node --version",
        fetch: "mkdir p && cd p && npm install --no-audit --no-fund --prefer-online is-odd; e=$?; cd ..; rm -rf p; exit $e",
        unpack,
        edited: ("README.md", "#"),
        test: ("day.test.js", test),
        adds: "npm install --no-audit --no-fund is-odd".to_owned(),
        tests: "node --test day.test.js",
    })
    .await;
}
