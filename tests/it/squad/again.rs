//! The same squad again, over HTTP: what it costs nothing, and what makes it work anew.

use std::path::Path;

use serde_json::{Value, json};

use super::program::{role_of, turns};
use crate::support::env::{Env, Ran};
use crate::support::server::{Reply, Server};

pub const TASK: &str = "Greet the world in `greeting.txt`.";
pub const BEFORE: &str = "hello\n";
pub const AFTER: &str = "hello, world\n";

/// A squad that edits one file with one tool call and runs no command.
pub fn play(request: &Value, _: usize) -> Reply {
    match (role_of(request), turns(request)) {
        ("coordinator", 0) => Reply::text("Plan: greet the world."),
        ("coder", 0) => Reply::calls([("read_file", json!({"path": "greeting.txt"}))]),
        ("coder", 1) => Reply::calls([(
            "edit_file",
            json!({"path": "greeting.txt", "edits": [{"old": "hello", "new": "hello, world"}]}),
        )]),
        ("coder", _) => Reply::text("It greets the world."),
        ("reviewer", _) => {
            Reply::text(&json!({"verdict": "approve", "findings": [], "closed": []}).to_string())
        }
        ("coordinator", _) => {
            let claim = json!({"kind": "observed", "text": "it is warm", "evidence": []});
            Reply::text(&json!({"answer": "Greeted.", "claims": [claim], "open": []}).to_string())
        }
        (role, turns) => panic!("{role} asks after {turns} answers"),
    }
}

/// Calls such a squad makes.
pub const CALLS: usize = 6;

/// A blueprint whose roles can look and edit files, and run nothing.
pub const FILERS: &str = "name = \"filers\"\n\
    [[role]]\nname = \"coordinator\"\npersona = \"coordinator\"\n\
    [[role]]\nname = \"coder\"\npersona = \"coder\"\nafter = [\"coordinator\"]\ntools = [\"read_file\", \"edit_file\"]\n\
    [[role]]\nname = \"reviewer\"\npersona = \"reviewer\"\nafter = [\"coder\"]\nrevise = [\"coder\"]\n";

pub fn project(server: &Server) -> Env {
    let env = Env::new();
    configure(&env, server, "");
    env.write("home/blueprints/filers.toml", FILERS);
    env.write("work/greeting.txt", BEFORE);
    env
}

fn configure(env: &Env, server: &Server, more: &str) {
    // A window that is written down is not asked for: some of these servers answer one request at a time.
    let models = "[models.\"mock/any\"]\ncontext = 128000\n";
    let url = server.url();
    env.config(&format!("[providers.mock]\nkind = \"openai\"\nbase_url = \"{url}\"\n{more}\n{models}"));
}

pub fn squad(env: &Env, more: &[&str]) -> Ran {
    let args = ["squad", TASK, "-v", "--blueprint", "filers", "--yes", "--sandbox", "none"];
    let model: &[&str] = if more.contains(&"-m") { &[] } else { &["-m", "mock/any"] };
    env.run(&[&args[..], model, more].concat())
}

fn greeting(env: &Env) -> String {
    std::fs::read_to_string(env.work().join("greeting.txt")).unwrap()
}

/// Runs the squad on the tree as it was and gives the calls it made.
pub fn calls_of(env: &Env, server: &Server, more: &[&str]) -> usize {
    env.write("work/greeting.txt", BEFORE);
    let before = server.requests().len();
    let ran = squad(env, more);
    assert_eq!(ran.code, 0, "{ran}");
    assert_eq!(greeting(env), AFTER, "{ran}");
    server.requests().len() - before
}

#[test]
fn with_the_tree_put_back_the_same_squad_makes_no_call_and_leaves_the_same_tree() {
    let server = Server::start(play);
    let env = project(&server);
    let first = squad(&env, &[]);
    assert_eq!(first.code, 0, "{first}");
    assert_eq!(server.requests().len(), CALLS);
    assert!(first.stderr.contains("cache    stored, "), "{first}");
    env.write("work/greeting.txt", BEFORE);
    let again = squad(&env, &[]);
    assert_eq!((again.code, greeting(&env).as_str()), (0, AFTER), "{again}");
    assert_eq!(server.requests().len(), CALLS, "{again}");
    // What the recorded run's log did not bear out is told again.
    let said = |ran: &Ran, beneath: &str| ran.stdout.split_once(beneath).unwrap().0.to_owned();
    assert_eq!(said(&again, "\n\nFrom the team cache: "), said(&first, "\n\nNo check ran: "));
    assert!(again.stdout.contains("\"it is warm\": it cites nothing"), "{again}");
    for words in
        ["the recorded run of session ", "saved 6 model calls, ", "0 in, 0 out", "changed: greeting.txt"]
    {
        assert!(again.stderr.contains(words), "`{words}` is missing: {again}");
    }
    let verified = env.run(&["verify", "latest", "--strict"]);
    assert_eq!(verified.code, 0, "{verified}");
    // A replay needs no cache.
    std::fs::remove_dir_all(env.home().join("cache")).unwrap();
    let replayed = env.run(&["replay", "latest"]);
    assert!(replayed.code == 0 && replayed.stdout.contains("the recorded run of session"), "{replayed}");
    // What was applied from the cache is a turn's change like any other.
    let undone = env.run(&["undo"]);
    assert_eq!((undone.code, greeting(&env).as_str()), (0, BEFORE), "{undone}");
}

#[test]
fn a_squad_whose_checks_ran_in_a_sandbox_is_recorded_and_one_whose_checks_ran_in_none_is_not() {
    let server = Server::start(play);
    let env = project(&server);
    let run = |sandbox| {
        env.write("work/greeting.txt", BEFORE);
        let before = server.requests().len();
        let check = ["--check", "grep -q world greeting.txt", "--sandbox", sandbox];
        let args = ["squad", TASK, "-v", "--blueprint", "filers", "--yes", "-m", "mock/any"];
        let ran = env.run(&[&args[..], &check].concat());
        (ran, server.requests().len() - before)
    };
    let (ran, _) = run("none");
    assert!(ran.code == 0 && ran.stderr.contains("cache    not asked: its checks run outside"), "{ran}");
    let (ran, _) = run("local");
    if ran.code == 2 && std::env::var_os("AGON_NEEDS_LOCAL").is_none() {
        println!("skipped: no sandbox `local` here: {ran}");
        return;
    }
    assert!(ran.code == 0 && ran.stderr.contains("cache    stored, "), "{ran}");
    let (ran, calls) = run("local");
    assert_eq!((ran.code, calls, greeting(&env).as_str()), (0, 0, AFTER), "{ran}");
}

#[test]
fn whatever_decides_the_result_makes_it_work_anew() {
    let (server, other) = (Server::start(play), Server::start(play));
    let env = project(&server);
    env.write("work/.gitignore", "*.local\n");
    assert_eq!(calls_of(&env, &server, &[]), CALLS);
    let policy = "[[rules]]\nname = \"mine\"\ntool = \"edit_file\"\naction = \"allow\"\n";
    env.write("policy.toml", policy);
    let policy = env.work().parent().unwrap().join("policy.toml");
    let policy = policy.to_str().unwrap();
    type Change<'a> = (&'a str, &'a dyn Fn(), &'a dyn Fn(), &'a [&'a str]);
    let remove = |path: &str| std::fs::remove_file(env.work().parent().unwrap().join(path)).unwrap();
    let persona = env.run(&["personas", "show", "coder"]).stdout;
    let none = || {};
    let changes: &[Change<'_>] = &[
        (
            "another file",
            &|| {
                env.write("work/new.txt", "");
            },
            &|| remove("work/new.txt"),
            &[],
        ),
        (
            "a small file that git ignores",
            &|| {
                env.write("work/settings.local", "loud\n");
            },
            &|| remove("work/settings.local"),
            &[],
        ),
        ("the model", &none, &none, &["-m", "mock/other"]),
        ("the policy", &none, &none, &["--policy", policy]),
        ("a limit", &none, &none, &["--max-steps", "40"]),
        (
            "a persona's word",
            &|| {
                env.write(
                    "home/personas/coder.md",
                    &persona.replace("You are the coder", "You are the coder, friend"),
                );
            },
            &|| remove("home/personas/coder.md"),
            &[],
        ),
        (
            "a role's tools",
            &|| {
                env.write(
                    "home/blueprints/filers.toml",
                    &FILERS.replace("\"edit_file\"]", "\"edit_file\", \"grep\"]"),
                );
            },
            &|| {
                env.write("home/blueprints/filers.toml", FILERS);
            },
            &[],
        ),
        ("a new look", &none, &none, &["--refresh"]),
        ("no cache", &none, &none, &["--no-cache"]),
    ];
    for (what, change, undo, more) in changes {
        change();
        assert_eq!(calls_of(&env, &server, more), CALLS, "{what}");
        undo();
        assert_eq!(calls_of(&env, &server, &[]), 0, "after {what}");
    }
    configure(&env, &other, "");
    assert_eq!(calls_of(&env, &other, &[]), CALLS, "another address answers under the name");
}

#[test]
fn a_model_that_a_solo_turn_brings_into_a_squads_session_is_known_to_the_cache() {
    let server = Server::start(|request: &Value, n| match request["model"].as_str() {
        Some("other") => Reply::text("Hello."),
        _ => play(request, n),
    });
    let env = project(&server);
    assert_eq!(calls_of(&env, &server, &[]), CALLS);
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.config(&format!("{config}[providers.second]\nkind = \"openai\"\nbase_url = \"{}\"\n", server.url()));
    let ran = env.run(&["run", "--resume", "latest", "-m", "second/other", "hello", "--json"]);
    assert_eq!(ran.code, 0, "{ran}");
    let resumed = ran.stdout.lines().find(|line| line.contains("session_resumed")).unwrap();
    let resumed: Value = serde_json::from_str(resumed).unwrap();
    let changed = resumed["events"][0]["data"]["changed"].as_array().unwrap();
    let cache = changed.iter().find_map(|one| one.get("cache")).unwrap_or(&Value::Null);
    assert!(cache["providers"]["second"].is_string(), "{changed:?}");
}

#[test]
fn a_cache_that_cannot_be_used_fails_no_run_and_is_told() {
    let server = Server::start(play);
    let env = project(&server);
    std::fs::create_dir(env.home().join("cache")).unwrap();
    std::fs::create_dir(env.home().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(env.home().join("elsewhere"), env.home().join("cache/team")).unwrap();
    for _ in 0..2 {
        env.write("work/greeting.txt", BEFORE);
        let ran = squad(&env, &[]);
        assert_eq!((ran.code, greeting(&env).as_str()), (0, AFTER), "{ran}");
        let told = "\ncache    neither looked up nor stored: `[HOME]/cache/team` is a symbolic link\n";
        assert!(ran.stderr.contains(told), "once is enough: {ran}");
    }
    assert_eq!(server.requests().len(), 2 * CALLS);
    assert_eq!(std::fs::read_dir(env.home().join("elsewhere")).unwrap().count(), 0);
    std::fs::remove_file(env.home().join("cache/team")).unwrap();
    env.write("home/cache/team", "not a folder");
    assert_eq!(calls_of(&env, &server, &[]), CALLS);
}

#[test]
fn a_cache_that_may_hold_nothing_is_off() {
    let server = Server::start(play);
    let env = project(&server);
    assert_eq!(calls_of(&env, &server, &[]), CALLS);
    for setting in ["max_mib = 0", "ttl_hours = 0"] {
        configure(&env, &server, &format!("[cache]\n{setting}\n"));
        env.write("work/greeting.txt", BEFORE);
        let ran = squad(&env, &[]);
        assert_eq!(ran.code, 0, "{ran}");
        assert!(!ran.stderr.contains("\ncache "), "{ran}");
        let stats = env.run(&["cache", "stats"]);
        assert!(stats.stdout.contains("switched off in the configuration"), "{stats}");
        assert!(!stats.stdout.contains("of 0 B"), "{stats}");
        env.write("work/greeting.txt", BEFORE);
        let ran = squad(&env, &["--refresh"]);
        let told =
            "warning: `--refresh` stores nothing: the team cache is switched off in the configuration\n";
        assert!(ran.code == 0 && ran.stderr.contains(told), "{ran}");
    }
    assert_eq!(server.requests().len(), 5 * CALLS, "what is stored is not used");
    configure(&env, &server, "");
    assert_eq!(calls_of(&env, &server, &[]), 0, "and is kept");
}

#[test]
fn a_cache_that_cannot_be_written_serves_what_it_has_and_says_what_it_cannot_take() {
    let server = Server::start(play);
    let env = project(&server);
    if rustix::process::geteuid().is_root() {
        println!("skipped: nothing is read-only for this user");
        return;
    }
    assert_eq!(calls_of(&env, &server, &[]), CALLS);
    let team = env.home().join("cache/team");
    let set = |mode| {
        std::fs::set_permissions(&team, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    set(0o500);
    assert_eq!(calls_of(&env, &server, &[]), 0);
    env.write("work/greeting.txt", BEFORE);
    env.write("work/other.txt", "another tree, another key\n");
    let ran = squad(&env, &[]);
    set(0o700);
    assert_eq!((ran.code, greeting(&env).as_str()), (0, AFTER), "{ran}");
    assert!(ran.stderr.contains("\ncache    not stored: `[HOME]/cache/team/"), "{ran}");
    assert!(ran.stderr.contains("Permission denied"), "{ran}");
}

#[test]
fn a_damaged_run_is_told_removed_and_made_again() {
    let server = Server::start(play);
    let env = project(&server);
    assert_eq!(calls_of(&env, &server, &[]), CALLS);
    let runs = walk(&env.home().join("cache/team"));
    let record = runs.iter().max_by_key(|path| std::fs::metadata(path).unwrap().len()).unwrap();
    let mut bytes = std::fs::read(record).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(record, bytes).unwrap();
    env.write("work/greeting.txt", BEFORE);
    let ran = squad(&env, &[]);
    assert!(ran.code == 0 && ran.stderr.contains("no recorded run: damaged: "), "{ran}");
    assert_eq!(calls_of(&env, &server, &[]), 0);
}

fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[test]
fn a_command_that_nothing_confined_is_told_as_the_reason_not_to_store() {
    let server = Server::start(|request: &Value, n| match (role_of(request), turns(request)) {
        ("coder", 0) => Reply::calls([("bash", json!({"command": "true"}))]),
        ("coder", _) => Reply::text("Nothing to do."),
        _ => play(request, n),
    });
    let env = project(&server);
    env.write("home/blueprints/filers.toml", &FILERS.replace("\"edit_file\"]", "\"edit_file\", \"bash\"]"));
    let ran = squad(&env, &[]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stderr.contains("cache    not stored: a command ran outside a confining sandbox"), "{ran}");
}
