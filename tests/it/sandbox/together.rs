//! Several agons at once in one folder: what keeps absent names absent is shared, and goes with the last.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use agon::ports::Sandbox;
use agon::sandbox::LocalSandbox;

use super::docker::program::command_script;
use super::local::{can_be_had, options};
use crate::support::env::Env;

fn left(root: &Path) -> usize {
    std::fs::read_dir(root).unwrap().count()
}

#[test]
fn many_agons_start_at_once_in_a_folder_without_git() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = folder.path().join("ws");
    std::fs::create_dir(&workspace).unwrap();
    let place = || {
        let env = Env::new();
        env.config("model = \"mock/any\"\n[providers.mock]\nkind = \"script\"\nfile = \"mock.toml\"\n");
        env.write("home/mock.toml", &command_script("mkdir -p .git/hooks; echo evil >.agon/x; [ -d .git ]"));
        env
    };
    // States of their own, as users of one folder have them: one state lets only one at a time write there.
    let places: Vec<Env> = (0..8).map(|_| place()).collect();
    let words =
        ["run", "go", "--yes", "--json", "--sandbox", "local", "--workspace", workspace.to_str().unwrap()];
    let start = |env: &Env| {
        env.command(&words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .stdin(Stdio::null())
            .spawn()
            .unwrap()
    };
    let running: Vec<_> = places.iter().map(start).collect();
    for child in running {
        let ran = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        if said.contains("namespaces are refused") && std::env::var_os("AGON_NEEDS_LOCAL").is_none() {
            return println!("skipped: {said}");
        }
        assert!(ran.status.success(), "{said}");
    }
    assert_eq!(left(&workspace), 0, "what kept names absent is gone with the last");
}

#[tokio::test]
async fn places_that_come_and_go_do_not_take_each_others_covers_away() {
    if !can_be_had().await {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("ws");
    std::fs::create_dir(&root).unwrap();
    let rounds = (0..6).map(|_| {
        let root = root.clone();
        tokio::spawn(async move {
            for _ in 0..4 {
                let sandbox = Arc::new(LocalSandbox::open(&root, options()).unwrap());
                sandbox.start().await.unwrap();
                let command = "(mkdir .git/x || echo x >.agon/x) 2>/dev/null && echo ESCAPED; ls -A";
                let end = super::contract::run(&*sandbox, command).await;
                assert_eq!(end.stdout, ".agon\n.git\n", "{end:?}");
                sandbox.close().await;
            }
        })
    });
    for round in futures_util::future::join_all(rounds).await {
        round.unwrap();
    }
    assert_eq!(left(&root), 0);
}

#[tokio::test]
async fn a_repository_that_is_made_meanwhile_is_its_makers() {
    if !can_be_had().await {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let sandbox = LocalSandbox::open(folder.path(), options()).unwrap();
    let held = super::contract::run(&sandbox, "until [ -e go ]; do sleep 0.02; done; ls -A .git");
    let make = async {
        while !folder.path().join(".git").exists() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        std::fs::write(folder.path().join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        std::fs::write(folder.path().join("go"), "").unwrap();
    };
    let (end, ()) = tokio::join!(held, make);
    assert_eq!(end.exit, Some(0), "{end:?}");
    sandbox.close().await;
    let names = |path: &str| std::fs::read_dir(folder.path().join(path)).unwrap().count();
    assert_eq!((names(""), names(".git")), (2, 1), "{end:?}");
}
