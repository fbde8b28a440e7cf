//! What a call's git knows of the user's own settings, and what agon says where git cannot work inside.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use agon::ports::{RunContext, Sandbox};
use agon::protocol::event::{PathBase, PrepareResult, ToolStatus};
use agon::protocol::need::Need;
use agon::sandbox::LocalSandbox;
use agon::toolvault::{Plans, ToolVault};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::contract::{Heard, exec};
use super::git::{all, clean, git, open, run, works};
use super::local::{can_be_had, options};
use crate::cli::run::scripted;
use crate::support::tool_call;

/// A stand-in that keeps what it is given as git-lfs does.
const LFS: &str = "#!/bin/sh\ncat >/tmp/it; sum=$(sha256sum </tmp/it | cut -c1-64)\n\
    to=.git/lfs/objects/$(echo $sum | sed 's,\\(..\\)\\(..\\).*,\\1/\\2,')\n\
    mkdir -p $to && mv /tmp/it $to/$sum && echo oid sha256:$sum\n";

#[tokio::test]
async fn filters_and_hooks_of_the_users_own_settings_are_not_left_out() {
    if !can_be_had().await {
        return;
    }
    let call = |command: &str| {
        format!(
            "[[answer]]\nspark = \"solo\"\ncalls = [{{ tool = \"bash\", args = {{ command = '''{command}''' }} }}]\n"
        )
    };
    let script = [
        call("git add -A ':!*.up' && git commit -qm kept"),
        call("git add a.up"),
        call("echo x >refused; git commit -q --allow-empty -m refused"),
        // What one call changes there, the next would believe.
        call(
            "rm -rf /tmp/* /tmp/.[a-z]*; for at in /tmp/.gitconfig /run/agon/config; do printf '[user]\\nname=Boss\\n' >$at; done",
        ),
        call("git commit -q --allow-empty -m last"),
        "[[answer]]\nspark = \"solo\"\ntext = \"done\"\n".to_owned(),
    ];
    let mut env = scripted(&script.concat());
    let (user, work) = (env.temporary().join("user"), env.work());
    let settings = "[user]\n\tname = A User\n\temail = user@example.org\n[core]\n\thooksPath = ~/hooks\n\
        [filter \"up\"]\n\tclean = tr a-z A-Z\n[filter \"lfs\"]\n\tclean = git-lfs clean -- %f\n\trequired = true\n";
    let hook = "#!/bin/sh\n[ ! -e refused ] || { echo 'the hook refuses' >&2; rm refused; exit 1; }\n";
    for (name, text) in [(".gitconfig", settings), ("hooks/pre-commit", hook), ("bin/git-lfs", LFS)] {
        fs::create_dir_all(user.join(name).parent().unwrap()).unwrap();
        fs::write(user.join(name), text).unwrap();
        fs::set_permissions(user.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    git(&work, &["init", "-q", "-b", "trunk"]);
    fs::write(work.join(".gitattributes"), "*.up filter=up\n*.big filter=lfs\n").unwrap();
    fs::write(work.join("a.up"), "words\n").unwrap();
    fs::write(work.join("a.big"), "big\n").unwrap();
    let path = format!("{}:{}", user.join("bin").display(), std::env::var("PATH").unwrap());
    env.set("HOME", user.to_str().unwrap()).set("PATH", &path);
    let ran = env.run(&["run", "go", "--yes", "--sandbox", "local"]);
    let log = crate::cli::run::log(&env);
    assert!(log.contains("a.up: clean filter 'up' failed") && log.contains("name a filter"), "{ran} {log}");
    assert!(log.contains("the hook refuses"), "{ran} {log}");
    assert_eq!(git(&work, &["log", "--format=%an %s"]), "A User last\nA User kept\n", "{ran} {log}");
    let pointer = git(&work, &["show", "HEAD:a.big"]);
    let sum = pointer.trim().strip_prefix("oid sha256:").unwrap();
    let object = work.join(".git/lfs/objects").join(&sum[..2]).join(&sum[2..4]).join(sum);
    assert_eq!(fs::read_to_string(object).unwrap(), "big\n", "what a pointer stands for is kept");
    git(&work, &["fsck", "--full"]);
}

#[tokio::test]
async fn what_would_hide_changes_and_what_git_cannot_read_is_refused_in_words() {
    let Some(opened) = open().await else { return };
    let before = all(&opened.root.join(".git"));
    let end = run(&opened, "echo two >>a; git add a; git update-index --assume-unchanged a").await;
    assert!(end.stderr.contains("changes of `a` would be hidden"), "{end:?}");
    assert_eq!(all(&opened.root.join(".git")), before);
    let end = opened.sh("sleep 100 & sleep 100 & true").await;
    assert!(
        end.exit == Some(0) && end.stderr.contains("[agon: 2 processes that the command left"),
        "{end:?}"
    );
    let lone = opened.root.with_file_name("lone");
    git(&opened.root, &["clone", "-q", "--shared", ".", lone.to_str().unwrap()]);
    let sandbox = LocalSandbox::open(&lone, options()).unwrap();
    let why = sandbox.cannot_open(&[Need::Git]).unwrap();
    assert!(why.contains("its objects are borrowed"), "{why}");
    let end = sandbox.exec(exec("git log"), &Heard::default(), &CancellationToken::new()).await.unwrap();
    assert!(end.said().contains("its objects are borrowed"), "{end:?}");
    fs::remove_dir_all(lone).unwrap();
}

#[tokio::test]
async fn the_branch_that_is_checked_out_stays_and_others_that_are_gone_are_named() {
    let Some(opened) = open().await else { return };
    let root = &opened.root;
    git(root, &["pack-refs", "--all"]);
    works(&opened, "echo two >>a && git commit -qam second && git branch other").await;
    let before = all(&root.join(".git"));
    for evil in
        ["rm .git/refs/heads/trunk", "git pack-refs --all; rm .git/packed-refs", "git update-ref -d HEAD"]
    {
        let end = run(&opened, evil).await;
        assert!(end.stderr.contains("nothing of this command was taken over"), "{evil}: {end:?}");
        assert_eq!(all(&root.join(".git")), before, "{evil}");
    }
    let end = run(&opened, "git branch -q gone && git branch -D gone; rm .git/refs/heads/other").await;
    let was = format!(
        "removed in the repository: refs/heads/other (was {}",
        git(root, &["rev-parse", "HEAD"]).trim()
    );
    assert!(end.stderr.contains(&was) && !end.stderr.contains("gone (was"), "{end:?}");
    clean(root);
}

#[tokio::test]
async fn what_was_saved_before_a_restore_runs_is_not_thrown_away() {
    let Some(opened) = open().await else { return };
    let (vault, plans, cancel) = (ToolVault::builtin().unwrap(), Plans::default(), CancellationToken::new());
    for (saved, status, left) in
        [("edited\n", ToolStatus::Ok, "one\n"), ("a person's\n", ToolStatus::Failed, "a person's\n")]
    {
        opened.put("a", "edited\n");
        let seen = PathBase { path: "a".to_owned(), sha256: opened.sandbox.files().digest("a").unwrap() };
        let call = tool_call("bash", json!({"command": "git restore a"}), &[seen]);
        let prepared = vault.prepare(&call, &*opened.sandbox, &plans).await.result;
        let PrepareResult::Ready(plan) = prepared else { panic!("{prepared:?}") };
        opened.put("a", saved);
        let sandbox = &*opened.sandbox;
        let context = RunContext { sandbox, hosts: &[], live: &(), cancel: &cancel, background: &() };
        let end = vault.run(&call, &plan.digest, &plans, context).await;
        assert_eq!(end.status, status, "{end:?}");
        assert_eq!(fs::read_to_string(opened.root.join("a")).unwrap(), left, "{end:?}");
    }
}
