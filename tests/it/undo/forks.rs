//! Forks: a repository of their own that borrows the parent's objects, a name, and their changes brought home.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::{content, git, mode, runs, scripted, task};
use crate::support::env::Env;

/// A repository with a commit and a turn on a dirty tree, and a fork of it; gives the fork's folder.
fn forked() -> (Env, PathBuf) {
    let env = scripted(&runs("echo agon >> a.txt"));
    for (path, text) in
        [("a.txt", "1\n2\n3\n4\n5\n"), ("b.txt", "b\n"), ("gone.txt", "g\n"), ("run.sh", "#!/bin/sh\n")]
    {
        env.write(&format!("work/{path}"), text);
    }
    std::fs::write(env.work().join("bin"), [0, 1, 2]).unwrap();
    git(&env, &["init", "-q"]);
    git(&env, &["add", "."]);
    git(&env, &["commit", "-qm", "first"]);
    env.write("work/untracked.txt", "mine\n");
    task(&env);
    let made = env.run(&["fork", "latest", "--no-run"]);
    assert_eq!(made.code, 0, "{made}");
    let folder = env.home().join("forks").join(made.stdout.trim());
    (env, folder)
}

fn apply(env: &Env, arguments: &[&str], code: i32) -> String {
    let ran = env.run(&[&["apply", "fork-1"], arguments].concat());
    assert_eq!(ran.code, code, "{ran}");
    ran.stdout
}

#[test]
fn a_fork_of_a_repository_is_one_that_borrows_its_objects_and_comes_home_under_its_name() {
    let (env, fork) = forked();
    let in_fork = |arguments: &[&str]| git(&env, &[&["-C", fork.to_str().unwrap()], arguments].concat());
    assert_eq!(in_fork(&["log", "--format=%s"]), "first\n");
    assert_eq!(in_fork(&["status", "--short"]), git(&env, &["status", "--short"]));
    assert_eq!(
        (in_fork(&["remote"]), in_fork(&["count-objects"])),
        (String::new(), "0 objects, 0 kilobytes\n".into())
    );
    let alternates = std::fs::read_to_string(fork.join(".git/objects/info/alternates")).unwrap();
    assert!(alternates.trim().ends_with("work/.git/objects"), "{alternates}");
    let theirs = content(&env.work());
    let mut copy = content(&fork);
    copy.retain(|path, _| !path.starts_with(".git"));
    assert_eq!(copy, theirs);

    let write = |path: &str, text: &str| std::fs::write(fork.join(path), text).unwrap();
    write("a.txt", "one\n2\n3\n4\n5\nagon\n");
    in_fork(&["commit", "-qam", "in the fork"]);
    std::fs::remove_file(fork.join("gone.txt")).unwrap();
    std::fs::set_permissions(fork.join("run.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    env.write("work/a.txt", "1\n2\n3\n4\nfive\nagon\n");
    let index = || std::fs::read(env.work().join(".git/index")).unwrap();
    let (index_before, head) = (index(), git(&env, &["rev-parse", "HEAD"]));
    let before = content(&env.work());
    let shown = apply(&env, &["--preview"], 0);
    assert!(shown.contains("would apply: fork-1") && content(&env.work()) == before, "{shown}");
    let said = apply(&env, &[], 0);
    for words in ["merged    a.txt", "removed   gone.txt", "changed   run.sh"] {
        assert!(said.contains(words), "`{words}`: {said}");
    }
    let read = |path: &str| std::fs::read_to_string(env.work().join(path)).unwrap();
    assert_eq!(read("a.txt"), "one\n2\n3\n4\nfive\nagon\n");
    let rights = std::fs::metadata(env.work().join("run.sh")).unwrap().permissions().mode() & 0o777;
    assert_eq!((env.work().join("gone.txt").exists(), rights), (false, 0o755));
    assert_eq!((index(), git(&env, &["rev-parse", "HEAD"])), (index_before, head), "nothing of git is moved");
    assert!(apply(&env, &[], 0).contains("no file changes"), "a second time there is nothing to do");
    assert_eq!(env.run(&["sessions", "rm", "fork-1"]).code, 0);
    assert!(!fork.exists());
}

#[test]
fn what_does_not_merge_is_named_and_nothing_of_ours_is_lost() {
    let (env, fork) = forked();
    let write = |path: &str, bytes: &[u8]| std::fs::write(fork.join(path), bytes).unwrap();
    write("a.txt", b"theirs\n2\n3\n4\n5\nagon\n");
    write("b.txt", b"theirs\n");
    write("bin", &[0, 9]);
    write("both.txt", b"theirs\n");
    std::fs::remove_file(fork.join("gone.txt")).unwrap();
    env.write("work/a.txt", "ours\n2\n3\n4\n5\nagon\n")
        .write("work/gone.txt", "edited\n")
        .write("work/both.txt", "ours\n");
    std::fs::write(env.work().join("bin"), [0, 7]).unwrap();
    std::fs::remove_file(env.work().join("b.txt")).unwrap();
    mode(&env, "a.txt", 0o600);
    let said = apply(&env, &[], 1);
    for words in [
        "conflict  a.txt: both changed the same lines",
        "conflict  b.txt: it was removed here, and the fork changed it",
        "conflict  bin: both changed it, and it is no text",
        "conflict  both.txt: both added it",
        "conflict  gone.txt: the fork removed it, and it was changed here",
    ] {
        assert!(said.contains(words), "`{words}`: {said}");
    }
    let read = |path: &str| std::fs::read(env.work().join(path)).ok();
    let marked = String::from_utf8(read("a.txt").unwrap()).unwrap();
    assert!(
        marked.contains("<<<<<<<") && marked.contains("ours\n") && marked.contains("theirs\n"),
        "{marked}"
    );
    let rights = std::fs::metadata(env.work().join("a.txt")).unwrap().permissions().mode() & 0o777;
    assert_eq!(rights, 0o600);
    assert_eq!(
        [read("b.txt"), read("bin"), read("both.txt"), read("gone.txt")],
        [None, Some(vec![0, 7]), Some(b"ours\n".to_vec()), Some(b"edited\n".to_vec())]
    );
}

#[test]
fn a_fork_changes_one_thing_and_needs_no_git() {
    let env = scripted(&runs("echo 2 > a.txt"));
    env.write("work/a.txt", "1\n");
    task(&env);
    let two = env.run(&["fork", "latest", "--prompt", "other", "--model", "mock/other"]);
    assert_eq!(two.code, 2, "{two}");
    assert!(two.stderr.contains("a fork changes one thing, and --model and --prompt were given"), "{two}");
    let made = env.run(&["fork", "latest", "--no-run"]);
    let fork = env.home().join("forks").join(made.stdout.trim());
    assert!(!fork.join(".git").exists());
    std::fs::write(fork.join("a.txt"), "3\n").unwrap();
    apply(&env, &[], 0);
    assert_eq!(std::fs::read_to_string(env.work().join("a.txt")).unwrap(), "3\n");
    let parent = env.run(&["sessions", "list", "--json"]).stdout;
    let rows: Vec<serde_json::Value> = serde_json::from_str(&parent).unwrap();
    let parent = rows.iter().find(|row| row["parent"].is_null()).unwrap()["id"].as_str().unwrap();
    assert!(env.run(&["apply", parent]).stderr.contains("it is no fork"));
    assert_eq!(env.run(&["apply", "nothing"]).code, 2);
}
