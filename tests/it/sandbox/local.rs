//! The sandbox `local`: the contract, the forbidden acts, and what it alone promises.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agon::ports::Sandbox;
use agon::sandbox::{LocalOptions, LocalSandbox};
use agon::session::policy;
use tokio_util::sync::CancellationToken;

use super::contract::{Heard, Opened, contract, exec, run};
use super::person::person;
use super::{escapes, linked, worktree};

/// The options of these tests: the test binary is no sandbox, the program is.
pub fn options() -> LocalOptions {
    LocalOptions {
        program: PathBuf::from(env!("CARGO_BIN_EXE_agon")),
        secrets: policy::denied_to_all(&policy::standard()),
        ..LocalOptions::default()
    }
}

/// Whether namespaces can be had here. CI sets `AGON_NEEDS_LOCAL`, and then they must be.
pub async fn can_be_had() -> bool {
    let folder = tempfile::tempdir().unwrap();
    let sandbox = LocalSandbox::open(folder.path(), options()).unwrap();
    match sandbox.start().await {
        Ok(()) => true,
        Err(error) if std::env::var_os("AGON_NEEDS_LOCAL").is_some() => panic!("{error}"),
        Err(error) => {
            println!("skipped: {error}");
            false
        }
    }
}

pub async fn open() -> Option<Opened> {
    if !can_be_had().await {
        return None;
    }
    Some(Opened::new(|root| Arc::new(LocalSandbox::open(root, options()).unwrap())))
}

contract!(open);

/// A workspace that is as somebody wants it before it is opened.
async fn open_on(set: fn(&Path)) -> Option<Opened> {
    if !can_be_had().await {
        return None;
    }
    Some(Opened::new(|root| {
        set(root);
        Arc::new(LocalSandbox::open(root, options()).unwrap())
    }))
}

person!(open_on);

#[tokio::test]
async fn every_forbidden_act_is_refused() {
    if !can_be_had().await {
        return;
    }
    // In /tmp, which is another folder inside, and beside it, where nothing but the view protects.
    for base in [std::env::temp_dir(), PathBuf::from("/var/tmp")] {
        let open =
            async |root: &Path| Arc::new(LocalSandbox::open(root, options()).unwrap()) as Arc<dyn Sandbox>;
        // The last two need folders outside that can be written; `machine` makes them.
        let may_lack = ["read_home", "tool_credentials", "shown_socket"];
        escapes::every_forbidden_act_is_refused(&base, &may_lack, open).await;
    }
}

#[tokio::test]
async fn protected_names_that_are_absent_stay_absent() {
    let Some(opened) = open().await else { return };
    let command = "mkdir -p .git/hooks && echo evil >.git/hooks/pre-commit; mkdir -p .agon && echo evil >.agon/config.toml; \
                   echo evil >AGENTS.md; mkdir -p .github/workflows && echo evil >.github/workflows/ci.yml; echo ok >free";
    let end = opened.sh(command).await;
    let there = |name: &str| std::fs::symlink_metadata(opened.root.join(name)).is_ok();
    assert!(there("free") && !there(".git") && !there(".agon"), "{end:?}");
    assert!(!there("AGENTS.md") && there("AGENTS.md.untrusted"), "{end:?}");
    assert!(!there(".github/workflows") && there(".github/workflows.untrusted/ci.yml"), "{end:?}");
    assert!(end.stderr.contains("[agon: `AGENTS.md` is a protected name;"), "{end:?}");
    // What the caller made is theirs, and from then on it cannot be changed.
    opened.put("CLAUDE.md", "ours");
    opened.sh("echo evil >CLAUDE.md; rm -f CLAUDE.md; echo evil >new; mv -f new CLAUDE.md").await;
    assert_eq!(std::fs::read_to_string(opened.root.join("CLAUDE.md")).unwrap(), "ours");
}

#[tokio::test]
async fn what_protected_links_and_git_files_lead_to_cannot_be_changed() {
    let Some(opened) = open_on(linked::set).await else { return };
    let end = opened.sh(linked::ATTACK).await;
    linked::check(&opened.root, &end);
    linked::check_files(&*opened.sandbox.files());
}

#[tokio::test]
async fn a_workspace_that_a_command_makes_a_repository_is_none_and_one_that_was_there_is_held() {
    let Some(opened) = open_on(linked::set_bare).await else { return };
    let end = opened.sh(linked::BARE).await;
    linked::check_bare(&opened.root, &end, &*opened.sandbox.files());
}

#[tokio::test]
async fn files_that_commonly_hold_secrets_cannot_be_read() {
    let Some(opened) = open_on(linked::put_secrets).await else { return };
    linked::check_secrets(&opened.sh(linked::READ_ALL).await);
}

#[tokio::test]
async fn a_sandbox_that_cannot_be_started_leaves_no_note_of_a_command() {
    if !can_be_had().await {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (root, notes) = (folder.path().join("ws"), folder.path().join("calls"));
    std::fs::create_dir_all(root.join("a")).unwrap();
    std::fs::write(root.join("a/.env"), "seen").unwrap();
    // A folder that its own owner cannot enter: what it holds is masked all the same, for a command can open it.
    std::fs::set_permissions(root.join("a"), Permissions::from_mode(0o600)).unwrap();
    for (program, begins) in [("/nowhere/agon", false), (env!("CARGO_BIN_EXE_agon"), true)] {
        let options = LocalOptions { program: program.into(), notes: Some(notes.clone()), ..options() };
        let sandbox = LocalSandbox::open(&root, options).unwrap();
        let command = exec("chmod 700 a; ! cat a/.env 2>/dev/null");
        let end = sandbox.exec(command, &Heard::default(), &CancellationToken::new()).await;
        let is_hidden = end.as_ref().map(|end| (end.exit, end.stdout.as_str())).ok();
        assert_eq!(is_hidden, begins.then_some((Some(0), "")), "{end:?}");
        assert_eq!(std::fs::read_dir(&notes).unwrap().count(), 0, "{end:?}");
    }
    std::fs::set_permissions(root.join("a"), Permissions::from_mode(0o700)).unwrap();
}

#[tokio::test]
async fn a_linked_repository_is_held_and_not_taken_for_a_weaker_machine() {
    if !can_be_had().await {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("real/hooks")).unwrap();
    std::os::unix::fs::symlink("real", folder.path().join(".git")).unwrap();
    let sandbox = LocalSandbox::open(folder.path(), options()).unwrap();
    sandbox.start().await.unwrap();
    run(
        &sandbox,
        "echo evil >.git/hooks/x; echo evil >real/hooks/x; mv real r; rm .git; mkdir .git; echo x >.git/y",
    )
    .await;
    assert!(!folder.path().join("real/hooks/x").exists() && !folder.path().join(".git/y").exists());
    assert_eq!(std::fs::read_link(folder.path().join(".git")).unwrap(), Path::new("real"));
}

#[tokio::test]
async fn a_nested_repository_cannot_be_moved_away_with_the_folder_it_is_in() {
    let set = |root: &Path| {
        std::fs::create_dir_all(root.join("deep/sub/.git")).unwrap();
        std::fs::write(root.join("deep/sub/.git/HEAD"), "ref: refs/heads/main\n").unwrap();
        std::fs::write(root.join("deep/sub/.env"), "KEY=secret-of-the-project").unwrap();
    };
    let Some(opened) = open_on(set).await else { return };
    let command = "mv deep/sub deep/other; mv deep other; mkdir -p deep/sub/.git/hooks && echo evil >deep/sub/.git/hooks/x; \
                   rm -rf deep; cat deep/sub/.env other/sub/.env deep/other/.env; ln deep/sub/.env free && cat free; \
                   mv deep/sub/.env free && cat free; echo x >deep/sub/free";
    let end = opened.sh(command).await;
    assert!(!end.stdout.contains("secret-of-the-project"), "{end:?}");
    assert_eq!(
        std::fs::read_to_string(opened.root.join("deep/sub/.git/HEAD")).unwrap(),
        "ref: refs/heads/main\n"
    );
    assert!(opened.root.join("deep/sub/.env").exists() && !opened.root.join("deep/sub/.git/hooks").exists());
    assert!(opened.root.join("deep/sub/free").exists(), "everything else can be worked on: {end:?}");
}

#[tokio::test]
async fn a_workspace_may_be_closed_to_writing() {
    if !can_be_had().await {
        return;
    }
    let read_only = LocalOptions { read_only: true, ..options() };
    let opened = Opened::new(|root| {
        std::fs::write(root.join("file"), "1").unwrap();
        Arc::new(LocalSandbox::open(root, read_only).unwrap())
    });
    let end =
        opened.sh("cat file; echo 2 >file; echo 2 >new; rm -f file; echo ok >/tmp/new; cat /tmp/new").await;
    assert_eq!(end.stdout, "1ok\n", "{end:?}");
    let local = LocalSandbox::open(&opened.root, LocalOptions { read_only: true, ..options() }).unwrap();
    local.start().await.unwrap();
    assert!(local.spec().proven.iter().any(|fact| fact == "the workspace cannot be changed"));
    local.close().await;
    assert_eq!(std::fs::read_to_string(opened.root.join("file")).unwrap(), "1");
    assert!(!opened.root.join("new").exists());
}

/// Memory is not limited: where the machine runs short of it, these go first.
#[tokio::test]
async fn a_command_is_ended_before_agon_where_memory_runs_out() {
    let Some(opened) = open().await else { return };
    assert_eq!(
        opened.sh("cat /proc/self/oom_score_adj; sh -c 'cat /proc/$$/oom_score_adj'").await.stdout,
        "1000\n1000\n"
    );
    assert!(opened.sandbox.spec().gaps.iter().any(|gap| gap.contains("they are ended first")));
}

/// What is written there would be gone with the call, and its writer would not know.
#[tokio::test]
async fn what_leads_to_the_workspace_cannot_be_written() {
    if !can_be_had().await {
        return;
    }
    let mut bases = vec![std::env::temp_dir()];
    bases.extend(std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_dir()));
    for base in bases {
        let folder = tempfile::tempdir_in(base).unwrap();
        let root = folder.path().join("above/ws");
        std::fs::create_dir_all(&root).unwrap();
        let sandbox = LocalSandbox::open(&root, options()).unwrap();
        let end =
            run(&sandbox, "echo x >../w; echo x >../../w; mkdir ../new; echo y >here; ls -A .. ../..").await;
        assert_eq!(end.stderr.matches("Read-only file system").count(), 3, "{end:?}");
        assert!(root.join("here").exists() && end.exit == Some(0), "{end:?}");
    }
}

#[tokio::test]
async fn temporary_files_are_kept_between_calls_and_are_not_the_systems() {
    let Some(opened) = open().await else { return };
    let end = opened.sh("echo kept >/tmp/agon-kept; echo kept >/var/tmp/agon-kept").await;
    assert_eq!(end.exit, Some(0), "{end:?}");
    assert_eq!(opened.sh("cat /tmp/agon-kept /var/tmp/agon-kept").await.stdout, "kept\nkept\n");
    assert!(!Path::new("/tmp/agon-kept").exists() && !Path::new("/var/tmp/agon-kept").exists());
}

#[tokio::test]
async fn servers_and_builds_work_inside() {
    let Some(opened) = open().await else { return };
    let server = "perl -MIO::Socket::INET -e '$l = IO::Socket::INET->new(Listen => 1, LocalAddr => \"127.0.0.1\") or die; \
                  if (!fork) { $c = IO::Socket::INET->new(PeerAddr => \"127.0.0.1\", PeerPort => $l->sockport) or die; \
                  print $c \"hello\\n\"; exit } $s = $l->accept; print scalar <$s>'";
    let end = opened.sh(&format!("command -v perl >/dev/null || {{ echo hello; exit; }}; {server}")).await;
    assert_eq!(end.stdout, "hello\n", "{end:?}");
    opened.put("Cargo.toml", "[package]\nname = \"inside\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    opened.put("src/main.rs", "fn main() { println!(\"built inside\"); }\n");
    let end =
        opened.sh("cargo --version >/dev/null 2>&1 || { echo built inside; exit; }; cargo run -q").await;
    assert_eq!(end.stdout, "built inside\n", "{end:?}");
}

#[tokio::test]
async fn tools_of_the_system_work_inside() {
    let Some(opened) = open().await else { return };
    let end =
        opened.sh("id -u; echo $HOME; ls -a $HOME | wc -l; cat /proc/self/status | grep -c CapEff").await;
    assert_eq!(end.exit, Some(0), "{end:?}");
    let end = opened.run(exec("test -w $HOME && test -w /tmp && : >/dev/null && echo ok; ls /")).await;
    assert!(end.stdout.starts_with("ok\n"), "{end:?}");
}

#[tokio::test]
async fn git_works_in_a_work_tree_and_its_repository_elsewhere_cannot_be_changed() {
    if !can_be_had().await {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let base = &std::fs::canonicalize(folder.path()).unwrap();
    let Some(side) = worktree::set(base) else { return };
    let heard = super::contract::Heard::default();
    let sandboxes =
        [LocalSandbox::open(&side, options()), LocalSandbox::open_without_namespaces(&side, options())];
    for sandbox in sandboxes.into_iter().flatten() {
        let run =
            async |command: &str| sandbox.exec(exec(command), &heard, &Default::default()).await.unwrap();
        let end = run("git status --porcelain && git log --format=%s && git diff --shortstat").await;
        let said = " M file\nthe first\n 1 file changed, 1 insertion(+), 1 deletion(-)\n";
        assert_eq!((end.stdout.as_str(), end.exit), (said, Some(0)), "{end:?}");
        worktree::check(base, &run(worktree::ATTACK).await);
        sandbox.close().await;
    }
    let own = vec![base.join("main/.git/state")];
    let sandbox = LocalSandbox::open(&side, LocalOptions { own, ..options() }).unwrap();
    let end = sandbox.exec(exec("git status; ls ../main"), &heard, &Default::default()).await.unwrap();
    assert!(end.stdout.is_empty() && end.stderr.contains("not a git repository"), "{end:?}");
}

/// What is left where namespaces are refused: it is named, and these acts are refused all the same.
#[tokio::test]
async fn landlock_alone_holds_what_it_says() {
    use agon::sandbox::proof::{self, Stage, Verdict};
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let _alone = super::escapes::TABLE.lock().await;
    let stage = Stage::set(folder.path()).unwrap();
    let sandbox = match LocalSandbox::open_without_namespaces(&stage.workspace(), options()) {
        Ok(sandbox) => sandbox,
        Err(error) => return println!("skipped: {error}"),
    };
    sandbox.start().await.unwrap();
    let spec = sandbox.spec();
    assert_eq!(
        (spec.kind.as_str(), spec.gaps.len(), spec.proven.len()),
        ("landlock-only", 5 + usize::from(rustix::process::geteuid().is_root()), 3)
    );
    let run = exec("cat /etc/passwd >/dev/null && echo read; cat /etc/shadow /etc/gshadow && echo OPEN");
    let end = sandbox.exec(run, &Heard::default(), &Default::default()).await.unwrap();
    assert_eq!(end.stdout, "read\n", "closed to others is closed here, also for root: {end:?}");
    let proofs = proof::prove(&stage, &sandbox).await;
    let succeeded: Vec<&str> = proofs
        .iter()
        .filter(|proof| matches!(proof.verdict, Verdict::Succeeded(_)))
        .map(|proof| proof.id)
        .filter(|id| !["dns", "fork_bomb"].contains(id))
        .collect();
    // The first three gaps in other words; everything else is refused.
    assert_eq!(
        succeeded,
        ["read_secret", "git_hooks", "git_moved", "own_settings", "instructions", "device"]
    );
}
