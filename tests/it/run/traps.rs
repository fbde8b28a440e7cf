//! What a workspace may hold to hang whoever reads it: pipes in place of the files agon reads by itself.

use std::path::Path;

use rustix::fs::{CWD, FileType, Mode};
use serde_json::json;

use super::kit::*;
use crate::support::server::{Reply, Server};

fn pipe(path: &Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

/// A model that names files, searches them and writes one, and then answers with what it was given.
fn curious() -> Server {
    Server::start(|request, _| match results(request).len() {
        0 => call("x1", "glob", json!({"pattern": "**/*.txt"})),
        1 => call("x2", "grep", json!({"pattern": "needle"})),
        2 => call("x3", "write_file", json!({"path": "new.txt", "content": "new\n"})),
        _ => Reply::text(&results(request).join(" ")),
    })
}

#[test]
fn pipes_in_place_of_what_agon_reads_hold_nothing_up() {
    let places = [
        ".ignore",
        ".gitignore",
        "sub/.ignore",
        "sub/.gitignore",
        ".git/info/exclude",
        ".git/HEAD",
        ".git/refs/heads/main",
        "sub/.git",
    ];
    let server = curious();
    let env = served(&server);
    places.iter().for_each(|place| pipe(&env.work().join(place)));
    env.write("work/a.txt", "a needle\n").write("work/sub/b.txt", "a needle\n");
    let ran = env.ends(&["run", "look around", "--yes", "--sandbox", "none", "--max-seconds", "50"]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stdout.contains("sub/b.txt") && ran.stdout.contains("a.txt:1:a needle"), "{ran}");
    nothing_lost(&env);
}

#[test]
fn pipes_that_a_command_makes_hang_neither_this_session_nor_the_next() {
    let make = "mkfifo .ignore && mkdir sub && mkfifo sub/.gitignore && echo made";
    let server = Server::start(move |request, _| match results(request).len() {
        0 => call("x1", "bash", json!({"command": make})),
        1 => call("x2", "glob", json!({"pattern": "*"})),
        _ => Reply::text(&results(request).join(" ")),
    });
    let env = served(&server);
    for _ in 0..2 {
        let ran = env.ends(&["run", "make pipes", "--yes", "--sandbox", "none", "--max-seconds", "50"]);
        assert_eq!(ran.code, 0, "{ran}");
        assert_eq!(env.run(&["verify", "latest"]).code, 0);
    }
}

/// git itself opens its configuration whatever it is, and is asked where references are kept in tables.
#[test]
fn a_pipe_that_git_waits_for_costs_the_commit_and_not_the_session() {
    let server = Server::start(|_, _| Reply::text("hello"));
    let env = served(&server);
    env.write("work/.git/HEAD", "ref: refs/heads/.invalid\n").write("work/.git/reftable/tables.list", "");
    std::fs::create_dir(env.work().join(".git/objects")).unwrap();
    std::fs::create_dir(env.work().join(".git/refs")).unwrap();
    pipe(&env.work().join(".git/config"));
    let ran = env.ends(&["run", "greet", "--sandbox", "none"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "hello\n"), "{ran}");
}

/// In the sandbox `local` git is asked for the user's own settings where the session works.
#[test]
fn a_repository_of_pipes_costs_the_settings_of_git_and_not_the_session() {
    for place in ["HEAD", "config", "commondir"] {
        let server = Server::start(|_, _| Reply::text("hello"));
        let env = served(&server);
        let git = env.work().join(".git");
        std::fs::create_dir_all(git.join("objects")).unwrap();
        std::fs::create_dir(git.join("refs")).unwrap();
        if place != "HEAD" {
            env.write("work/.git/HEAD", "ref: refs/heads/main\n");
        }
        pipe(&git.join(place));
        let ran = env.ends(&["run", "greet", "--sandbox", "local"]);
        // Where nothing confines it is refused, and as fast.
        assert!((ran.code, ran.stdout.as_str()) == (0, "hello\n") || ran.code == 2, "{place}: {ran}");
    }
}

#[test]
fn a_pipe_in_place_of_instructions_personas_or_configuration_is_named() {
    for (place, code) in [("AGENTS.md", 2), (".agon/config.toml", 2), (".agon/personas/x.md", 2)] {
        let server = Server::start(|_, _| Reply::text("hello"));
        let env = served(&server);
        pipe(&env.work().join(place));
        let ran = env.ends(&["run", "greet", "--sandbox", "none"]);
        assert_eq!(ran.code, code, "{place}: {ran}");
        assert!(ran.stderr.contains("is not an ordinary file"), "{place}: {ran}");
    }
}

#[test]
fn a_pipe_in_place_of_cargos_settings_holds_nothing_up() {
    let server = Server::start(|_, _| Reply::text("hello"));
    let mut env = served(&server);
    let cargo = env.home().join("cargo");
    pipe(&cargo.join("config.toml"));
    env.set("CARGO_HOME", cargo.to_str().unwrap());
    let ran = env.ends(&["run", "greet", "--sandbox", "local"]);
    // Where nothing confines it is refused, and as fast.
    assert!((ran.code, ran.stdout.as_str()) == (0, "hello\n") || ran.code == 2, "{ran}");
}
