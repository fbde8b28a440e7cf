//! The real program takes turns back: files byte for byte with their permission bits, words, and the undo itself.

mod after_the_fact;
mod forks;
mod session;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::env::{Env, Ran};

/// Every file of a folder but `.git`: its permission bits and bytes; a link's target.
fn content(root: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            let name = path.strip_prefix(root).unwrap().to_owned();
            if kind.is_dir() {
                folders.extend(Some(path).filter(|path| !path.ends_with(".git")));
            } else if kind.is_symlink() {
                let target = std::fs::read_link(&path).unwrap();
                found.insert(name, (0, target.into_os_string().into_encoded_bytes()));
            } else {
                let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
                found.insert(name, (mode, std::fs::read(&path).unwrap()));
            }
        }
    }
    found
}

fn git(env: &Env, arguments: &[&str]) -> String {
    let who = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main"];
    let mut git = Command::new("git");
    git.args(who).args(arguments).current_dir(env.work()).env("GIT_CONFIG_GLOBAL", "/dev/null");
    let output = git.output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn mode(env: &Env, path: &str, mode: u32) {
    std::fs::set_permissions(env.work().join(path), std::fs::Permissions::from_mode(mode)).unwrap();
}

/// An environment whose model answers by this script.
fn scripted(script: &str) -> Env {
    let env = Env::new();
    env.config("model = \"mock/any\"\n[providers.mock]\nkind = \"script\"\nfile = \"mock.toml\"\n");
    env.write("home/mock.toml", script);
    env
}

/// One turn of a solo spark that runs a command, then ends.
fn runs(command: &str) -> String {
    format!(
        "[[answer]]\nspark = \"solo\"\ncalls = [{{ tool = \"bash\", args = {{ command = '''{command}''' }} }}]\n\
         [[answer]]\nspark = \"solo\"\ntext = \"done\"\n"
    )
}

/// Gives a task in a new session.
fn task(env: &Env) -> Ran {
    let ran = env.run(&["run", "change things", "--sandbox", "none", "--yes"]);
    assert_eq!(ran.code, 0, "{ran}");
    ran
}

/// Gives a further task in the newest session.
fn more(env: &Env) -> Ran {
    let ran = env.run(&["run", "more", "--resume", "latest", "--sandbox", "none", "--yes"]);
    assert_eq!(ran.code, 0, "{ran}");
    ran
}

fn undo(env: &Env, arguments: &[&str], code: i32) -> Ran {
    let ran = env.run(&[&["undo"], arguments].concat());
    assert_eq!(ran.code, code, "{ran}");
    ran
}

/// Changes files of every kind: content, permission bits, a rename, a removal, new ones in a new folder, a link.
const MESS: &str = "echo changed >> tracked.txt; chmod 755 script.sh; mv moved.txt elsewhere.txt; rm gone.txt; \
mkdir -p deep/er && echo new > deep/er/new.txt; ln -sfn script.sh link; printf '\\\\000\\\\001' > binary.bin; \
chmod 644 private.txt; rm -rf folder && echo file > folder; echo built > out/built.o";

const SQUAD: &str = r#"
[[answer]]
spark = "coordinator"
text = "Plan: a mess."
[[answer]]
spark = "coder"
calls = [{ tool = "bash", args = { command = '''MESS''' } }]
[[answer]]
spark = "coder"
calls = [{ tool = "write_file", args = { path = "written.txt", content = "w\n" } }]
[[answer]]
spark = "coder"
text = "All done."
[[answer]]
spark = "reviewer"
text = '{"verdict":"approve","findings":[],"closed":[]}'
[[answer]]
spark = "coordinator"
text = '{"answer":"Done.","claims":[],"open":[]}'
"#;

/// A repository with a commit, a stash, staged and unstaged work, ignored files and unusual permission bits.
fn dirty() -> Env {
    let env = scripted(&SQUAD.replace("MESS", MESS));
    for (path, text) in [
        ("tracked.txt", "tracked\n"),
        ("script.sh", "#!/bin/sh\n"),
        ("moved.txt", "moved\n"),
        ("gone.txt", "gone\n"),
        ("folder/inner.txt", "inner\n"),
        (".gitignore", "out/\n"),
        ("out/built.o", "old\n"),
        ("staged.txt", "1\n"),
    ] {
        env.write(&format!("work/{path}"), text);
    }
    std::fs::write(env.work().join("binary.bin"), [0, 159, 146, 150]).unwrap();
    std::os::unix::fs::symlink("tracked.txt", env.work().join("link")).unwrap();
    git(&env, &["init", "-q"]);
    git(&env, &["add", "."]);
    git(&env, &["commit", "-qm", "first"]);
    env.write("work/tracked.txt", "stashed\n");
    git(&env, &["stash", "-q"]);
    env.write("work/staged.txt", "2\n");
    git(&env, &["add", "staged.txt"]);
    env.write("work/tracked.txt", "tracked\nand dirty\n").write("work/untracked.txt", "mine\n");
    env.write("work/private.txt", "secret\n");
    mode(&env, "private.txt", 0o600);
    mode(&env, "script.sh", 0o640);
    mode(&env, "untracked.txt", 0o755);
    env
}

#[test]
fn after_a_squad_on_a_dirty_tree_every_file_is_as_it_was_and_a_redo_restores_its_work() {
    let env = dirty();
    let not_ignored = || {
        let mut files = content(&env.work());
        files.retain(|path, _| !path.starts_with("out"));
        files
    };
    let git_state = || {
        let kept = |path: &str| std::fs::read(env.work().join(".git").join(path)).unwrap();
        let status = git(&env, &["stash", "list"]) + &git(&env, &["rev-parse", "HEAD"]);
        (kept("index"), status)
    };
    let (before, git_before) = (not_ignored(), git_state());
    let ran = env.run(&["squad", "make a mess", "--sandbox", "none", "--yes"]);
    assert_eq!(ran.code, 0, "{ran}");
    let after = not_ignored();
    assert_ne!(before, after);

    let shown = undo(&env, &["--preview"], 0);
    assert_eq!(not_ignored(), after, "a preview changes nothing: {shown}");
    assert!(shown.stdout.contains("would undo: turn 1 (make a mess)"), "{shown}");
    assert!(shown.stdout.contains("-changed"), "the diff: {shown}");

    let undone = undo(&env, &[], 0);
    assert_eq!(not_ignored(), before, "{undone}");
    assert_eq!(git_state(), git_before, "index, stash and head stay");
    for words in [
        "undone: turn 1",
        "removed   deep/er/new.txt",
        "restored  gone.txt",
        "out/",
        "commands ran",
        "mv moved.txt",
    ] {
        assert!(undone.stdout.contains(words), "`{words}`: {undone}");
    }
    assert!(!env.work().join("deep").exists(), "folders that are empty are gone");
    assert_eq!(
        std::fs::read_to_string(env.work().join("out/built.o")).unwrap(),
        "built\n",
        "ignored ones stay"
    );

    assert!(undo(&env, &[], 2).stderr.contains("nothing is left to undo"));
    let redone = undo(&env, &["--redo"], 0);
    assert_eq!(not_ignored(), after, "{redone}");
    assert!(undo(&env, &["--redo"], 2).stderr.contains("nothing to redo"));
    undo(&env, &[], 0);
    assert_eq!((not_ignored(), git_state()), (before, git_before));
    assert_eq!(env.run(&["verify", "latest"]).code, 0);
}

#[test]
fn what_was_changed_since_is_named_and_left_until_it_is_forced() {
    let env = scripted(&runs("echo 2 > a.txt; echo 2 > b.txt; mv c.txt d.txt"));
    for name in ["a.txt", "b.txt", "c.txt"] {
        env.write(&format!("work/{name}"), "1\n");
    }
    task(&env);
    env.write("work/a.txt", "mine\n").write("work/d.txt", "renamed and mine\n");
    let ran = undo(&env, &[], 1);
    assert!(ran.stdout.contains("because they were changed since:\n  a.txt\n  d.txt\n"), "{ran}");
    let text = |name: &str| std::fs::read_to_string(env.work().join(name)).ok();
    assert_eq!(
        ["a.txt", "b.txt", "c.txt", "d.txt"].map(text),
        [Some("mine\n".into()), Some("1\n".into()), Some("1\n".into()), Some("renamed and mine\n".into())]
    );
    let hint = ran.stderr.lines().find(|line| line.contains("--force")).unwrap();
    let arguments: Vec<&str> = hint.split("agon undo ").nth(1).unwrap().split(' ').collect();
    undo(&env, &arguments, 0);
    assert_eq!(["a.txt", "d.txt"].map(text), [Some("1\n".into()), None]);
    undo(&env, &["--redo"], 0);
    assert_eq!(["a.txt", "d.txt"].map(text)[0], Some("mine\n".into()), "what was forced is not lost");
}

#[test]
fn what_people_changed_between_two_turns_is_theirs() {
    let script = runs("echo agon > a.txt") + &runs("echo agon > b.txt; cat theirs.txt > c.txt");
    let env = scripted(&script);
    env.write("work/a.txt", "1\n").write("work/b.txt", "1\n").write("work/theirs.txt", "1\n");
    task(&env);
    env.write("work/a.txt", "by hand\n").write("work/theirs.txt", "2\n").write("work/new.txt", "new\n");
    more(&env);
    undo(&env, &[], 0);
    let text = |name: &str| std::fs::read_to_string(env.work().join(name)).ok();
    let theirs =
        [Some("by hand\n".into()), Some("1\n".into()), None, Some("2\n".into()), Some("new\n".into())];
    let names = ["a.txt", "b.txt", "c.txt", "theirs.txt", "new.txt"];
    assert_eq!(names.map(text), theirs);
    let ran = undo(&env, &[], 1);
    assert!(ran.stdout.contains("undone: turn 1") && ran.stdout.contains("changed since:\n  a.txt"), "{ran}");
    assert_eq!(names.map(text), theirs);
    undo(&env, &["--redo"], 0);
    undo(&env, &["--redo"], 0);
    assert_eq!(text("b.txt").as_deref(), Some("agon\n"));
    let both = undo(&env, &["--turn", "1"], 1);
    assert!(both.stdout.contains("undone: turns 1 to 2"), "{both}");
    assert_eq!(names.map(text), theirs);
}

#[test]
fn what_a_turn_took_out_of_the_ignore_rules_is_not_removed() {
    let env = scripted(&runs("echo > .gitignore; echo 2 > a.txt"));
    env.write("work/.gitignore", ".env\n").write("work/.env", "KEY=1\n").write("work/a.txt", "1\n");
    task(&env);
    undo(&env, &[], 0);
    assert_eq!(std::fs::read_to_string(env.work().join(".env")).unwrap(), "KEY=1\n");
    assert_eq!(std::fs::read_to_string(env.work().join(".gitignore")).unwrap(), ".env\n");
}

#[test]
fn a_commit_of_the_turn_is_named_with_the_command_that_drops_it() {
    let commit = "echo 2 > a.txt; git -c user.name=t -c user.email=t@t commit -qam 'by agon'";
    let env = scripted(&runs(commit));
    env.write("work/a.txt", "1\n");
    git(&env, &["init", "-q"]);
    git(&env, &["add", "."]);
    git(&env, &["commit", "-qm", "mine"]);
    let first = git(&env, &["rev-parse", "HEAD"]);
    task(&env);
    let ran = undo(&env, &[], 0);
    assert!(ran.stdout.contains("by agon") && !ran.stdout.contains("mine"), "{ran}");
    assert_eq!(std::fs::read_to_string(env.work().join("a.txt")).unwrap(), "1\n");
    assert_ne!(git(&env, &["rev-parse", "HEAD"]), first, "no reference is moved");
    let to = ran.stdout.lines().find_map(|line| line.split("to drop them: git -C [WORK] reset ").nth(1));
    git(&env, &["reset", "-q", to.unwrap()]);
    assert_eq!(
        (git(&env, &["rev-parse", "HEAD"]), git(&env, &["status", "--short"])),
        (first, String::new())
    );
}

#[test]
fn no_command_is_advised_that_would_drop_a_commit_of_the_user() {
    let commit = "git -c user.name=t -c user.email=t@t commit --allow-empty -qm";
    let env = scripted(&runs(&format!("{commit} one; git switch -q other; {commit} two")));
    env.write("work/a.txt", "1\n");
    git(&env, &["init", "-q"]);
    git(&env, &["add", "."]);
    git(&env, &["commit", "-qm", "mine"]);
    git(&env, &["switch", "-qc", "other"]);
    git(&env, &["commit", "-q", "--allow-empty", "-m", "mine too"]);
    git(&env, &["switch", "-q", "main"]);
    task(&env);
    let ran = undo(&env, &[], 0);
    assert!(ran.stdout.contains("one\n") && ran.stdout.contains("two\n"), "{ran}");
    assert!(!ran.stdout.contains("mine") && !ran.stdout.contains("to drop them"), "{ran}");
}
