//! A repository that agents have written: agon's own git runs nothing that stands in it.

use std::path::Path;
use std::process::Command;

use crate::support::env::Env;

/// A way in which a repository makes git run something: what it is, and the lines of `.git/config`. `EVIL` stands
/// for a program that leaves a mark.
const WAYS: &[(&str, &str)] = &[
    ("fsmonitor", "[core]\n\tfsmonitor = EVIL\n"),
    ("hooks by a path", "[core]\n\thooksPath = evil-hooks\n"),
    (
        "clean and smudge filters",
        "[filter \"evil\"]\n\tclean = EVIL\n\tsmudge = EVIL\n\tprocess = EVIL\n\trequired = true\n",
    ),
    (
        "textconv and external diff",
        "[diff]\n\texternal = EVIL\n[diff \"evil\"]\n\ttextconv = EVIL\n\tcommand = EVIL\n",
    ),
    ("credential helper", "[credential]\n\thelper = !EVIL\n"),
    (
        "pager and editor",
        "[core]\n\tpager = EVIL\n\teditor = EVIL\n[pager]\n\trev-parse = EVIL\n\tdiff = EVIL\n",
    ),
    ("include", "[include]\n\tpath = ../evil-include\n"),
    ("alias", "[alias]\n\trev-parse = !EVIL\n\tdiff = !EVIL\n\tstatus = !EVIL\n"),
    ("ssh, proxy and askpass", "[core]\n\tsshCommand = EVIL\n\tgitProxy = EVIL\n\taskPass = EVIL\n"),
    ("signatures", "[gpg]\n\tprogram = EVIL\n[commit]\n\tgpgSign = true\n[log]\n\tshowSignature = true\n"),
    (
        ONLY_GIT,
        "[core]\n\tfsmonitor = EVIL\n\thooksPath = evil-hooks\n\tpager = EVIL\n\tsshCommand = EVIL\n\
         [remote \"origin\"]\n\turl = ext::EVIL\n\tuploadpack = EVIL\n\tpromisor = true\n\
         [protocol \"ext\"]\n\tallow = always\n[extensions]\n\tpartialClone = origin\n\
         [alias]\n\trev-parse = !EVIL\n",
    ),
    ("another working tree", "[core]\n\tworktree = /\n\tfsmonitor = EVIL\n"),
];

/// agon reads the head itself but for repositories whose references only git can read.
const ONLY_GIT: &str = "references that agon has git read";

const HOOKS: &[&str] =
    &["post-checkout", "pre-commit", "post-index-change", "reference-transaction", "fsmonitor-watchman"];

fn git(root: &Path, arguments: &[&str]) -> bool {
    let mut git = Command::new("git");
    git.args(arguments).current_dir(root).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    for (name, value) in [
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_AUTHOR_NAME", "a"),
        ("GIT_AUTHOR_EMAIL", "a@b"),
        ("GIT_COMMITTER_NAME", "a"),
        ("GIT_COMMITTER_EMAIL", "a@b"),
    ] {
        git.env(name, value);
    }
    git.stdin(std::process::Stdio::null()).output().is_ok_and(|output| output.status.success())
}

/// A repository in the workspace with one commit and a hostile configuration; none where git is missing.
fn plant(env: &Env, config: &str) -> Option<()> {
    let (root, evil) = (env.work(), env.home().join("evil"));
    if !git(&root, &["init", "-q", "."]) {
        println!("skipped: no git");
        return None;
    }
    env.write("work/file", "1\n");
    assert!(git(&root, &["add", "."]) && git(&root, &["commit", "-q", "-m", "one"]));
    env.write("home/evil", &format!("#!/bin/sh\necho ran >>'{}'\ncat\n", env.home().join("mark").display()));
    executable(&evil);
    env.write("work/.gitattributes", "* filter=evil diff=evil\n");
    env.write("work/evil-include", &format!("[core]\n\tfsmonitor = {}\n", evil.display()));
    for folder in ["work/.git/hooks", "work/evil-hooks"] {
        for hook in HOOKS {
            env.write(&format!("{folder}/{hook}"), &format!("#!/bin/sh\nexec '{}'\n", evil.display()));
            executable(&root.join(folder.strip_prefix("work/").unwrap()).join(hook));
        }
    }
    let old = std::fs::read_to_string(root.join(".git/config")).unwrap();
    let config = config.replace("EVIL", &evil.display().to_string());
    env.write("work/.git/config", &format!("{old}{config}"));
    env.write("work/file", "2\n");
    Some(())
}

fn executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// All at once: a demo of a debate takes its time, and each has a place of its own.
#[test]
fn nothing_that_stands_in_a_repository_is_run() {
    std::thread::scope(|scope| {
        for (what, config) in WAYS {
            scope.spawn(move || runs_nothing(what, config));
        }
    });
}

fn runs_nothing(what: &str, config: &str) {
    let env = Env::new();
    if plant(&env, config).is_none() {
        return;
    }
    if what == ONLY_GIT {
        // With a commit that is not there, which would have to be fetched.
        env.write("work/.git/reftable/tables.list", "");
        env.write("work/.git/HEAD", &"1".repeat(40));
    }
    // Opening takes the head, checkpoints and diffs follow: the whole of what agon does with a repository.
    let work = env.work();
    let ran = env.run(&["demo", "debate", "--json"]);
    assert_eq!(ran.code, 0, "{what}: {ran}");
    env.config("model = \"mock/any\"\n[providers.mock]\nkind = \"script\"\nfile = \"script.toml\"\n");
    env.write("home/script.toml", "[[answer]]\ncalls = [{ tool = \"write_file\", args = { path = \"made\", content = \"x\" } }]\n\n[[answer]]\ntext = \"done\"\n");
    let ran = env.run(&["run", "do it", "--yes", "--workspace", work.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{what}: {ran}");
    assert!(work.join("made").exists(), "{what}: {ran}");
    let ran = env.run(&["doctor"]);
    assert!(ran.stdout.contains("git version"), "{ran}");
    assert!(!env.home().join("mark").exists(), "{what}: something of the repository was run");
}

/// The mark is one that a careless git leaves, or its absence would prove nothing.
#[test]
fn a_careless_git_runs_what_stands_there() {
    let mut ran = 0;
    for (what, config) in
        WAYS.iter().filter(|(what, _)| ["fsmonitor", "include", "clean and smudge filters"].contains(what))
    {
        let env = Env::new();
        if plant(&env, config).is_none() {
            return;
        }
        git(&env.work(), &["status"]);
        git(&env.work(), &["diff"]);
        assert!(env.home().join("mark").exists(), "{what}");
        ran += 1;
    }
    assert_eq!(ran, 3);
}
