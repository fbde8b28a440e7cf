//! A workspace that is a work tree of a repository elsewhere: one scene and one attack for each kind of sandbox.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use agon::ports::ExecEnd;

/// What a command tries on the repository, whose folder `main` lies beside the workspace.
pub const ATTACK: &str = "cat ../main/secret; cat ../main/.git/HEAD; for f in hooks/post-checkout config HEAD worktrees/side/config.worktree refs/heads/evil; do \
    echo EVIL >>../main/.git/$f; done; mv ../main/.git ../main/.other; mv ../main ../other; \
    echo EVIL >>../other/.git/config; mkdir -p ../main/new; chmod 777 ../main/.git; rm -rf ../main/.git/refs ../other/.git/refs; true";

/// A repository with a work tree `side`; gives the latter. None where git is missing.
pub fn set(base: &Path) -> Option<PathBuf> {
    let main = base.join("main");
    fs::create_dir_all(&main).unwrap();
    fs::write(main.join("file"), "one\n").unwrap();
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(arguments).current_dir(&main);
        git.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("GIT_CONFIG_NOSYSTEM", "1");
        git.output().is_ok_and(|output| output.status.success())
    };
    if !git(&["init", "-q", "-b", "trunk", "."]) {
        println!("skipped: no git");
        return None;
    }
    assert!(git(&["add", "."]) && git(&["commit", "-q", "-m", "the first"]));
    assert!(git(&["worktree", "add", "-q", "../side"]));
    fs::write(main.join("secret"), "TOP SECRET\n").unwrap();
    fs::write(base.join("side/file"), "two\n").unwrap();
    Some(base.join("side"))
}

/// The repository was read, nothing in it was changed, and nothing beside it was seen.
pub fn check(base: &Path, end: &ExecEnd) {
    let git = base.join("main/.git");
    assert_eq!(end.stdout, "ref: refs/heads/trunk\n", "{end:?}");
    assert_eq!(fs::read_to_string(git.join("HEAD")).unwrap(), "ref: refs/heads/trunk\n", "{end:?}");
    assert!(!fs::read_to_string(git.join("config")).unwrap().contains("EVIL"), "{end:?}");
    for name in ["hooks/post-checkout", "refs/heads/evil", "worktrees/side/config.worktree", "../new"] {
        assert!(!git.join(name).exists(), "{name}: {end:?}");
    }
    assert!(git.join("refs/heads/trunk").exists() && base.join("main/secret").exists(), "{end:?}");
}
