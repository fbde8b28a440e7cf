//! Calls that may change the repository: git's everyday commands work, and nothing else of what a call leaves in `.git`
//! arrives there.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use agon::ports::{Exec, ExecEnd, Opens, Sandbox};
use agon::protocol::need::Need;
use agon::sandbox::LocalSandbox;
use tokio_util::sync::CancellationToken;

use super::contract::{Heard, Opened, exec};
use super::local::{can_be_had, options};
use super::worktree;
use crate::cli::run::scripted;

/// The user's git, with nothing but the repository's own settings.
pub fn git(root: &Path, arguments: &[&str]) -> String {
    let mut git = Command::new("git");
    git.args(arguments).current_dir(root).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    git.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_EDITOR", "true").stdin(Stdio::null());
    let output = git.output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn set(root: &Path) {
    git(root, &["init", "-q", "-b", "trunk"]);
    git(root, &["config", "user.name", "A User"]);
    git(root, &["config", "user.email", "user@example.org"]);
    git(root, &["config", "commit.gpgSign", "true"]);
    fs::write(root.join("a"), "one\n").unwrap();
    git(root, &["add", "."]);
    git(root, &["-c", "commit.gpgSign=false", "commit", "-qm", "first"]);
}

/// A repository with one commit; none where no call can change one here.
pub async fn open() -> Option<Opened> {
    if !can_be_had().await {
        return None;
    }
    Some(Opened::new(|root| {
        set(root);
        Arc::new(LocalSandbox::open(root, options()).unwrap())
    }))
}

fn with_git(command: &str) -> Exec {
    Exec { opens: Opens::of(&[Need::Git]), ..exec(command) }
}

pub async fn run(opened: &Opened, command: &str) -> ExecEnd {
    opened.run(with_git(command)).await
}

pub async fn works(opened: &Opened, command: &str) -> ExecEnd {
    let end = run(opened, command).await;
    assert!(end.exit == Some(0) && !end.stderr.contains("[agon:"), "{command}: {end:?}");
    end
}

/// Every file of a folder but those of objects, with its content.
pub fn all(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut waiting) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(at) = waiting.pop() {
        for entry in fs::read_dir(at).unwrap().map(Result::unwrap) {
            let path = entry.path();
            match entry.file_type().unwrap() {
                kind if kind.is_dir() && !path.ends_with(".git/objects") => waiting.push(path),
                kind if kind.is_file() => drop(found.insert(path.clone(), fs::read(path).unwrap())),
                _ => {}
            }
        }
    }
    found
}

/// What runs programs at the user's next git command.
fn steering(git: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let is_name = |path: &PathBuf| {
        let rest = path.strip_prefix(git).unwrap();
        ["config", "hooks", "info", "description"].iter().any(|name| rest.starts_with(name))
    };
    all(git).into_iter().filter(|(path, _)| is_name(path)).collect()
}

pub fn clean(root: &Path) {
    let words = git(root, &["fsck", "--full", "--strict", "--no-dangling"]);
    assert!(words.trim().is_empty(), "{words}");
    let left = git(root, &["status", "--porcelain", "--ignored"]);
    assert!(!left.contains(".lock"), "{left}");
    let locks: Vec<PathBuf> = all(&root.join(".git")).into_keys().collect();
    assert!(!locks.iter().any(|path| path.extension().is_some_and(|end| end == "lock")), "{locks:?}");
}

/// The first thing in a new folder.
#[tokio::test]
async fn an_empty_folder_becomes_a_repository_by_the_need_that_is_named() {
    if !can_be_had().await {
        return;
    }
    let opened = Opened::new(|root| Arc::new(LocalSandbox::open(root, options()).unwrap()));
    let end = opened.run(exec("git init -q -b trunk")).await;
    assert!(end.exit != Some(0) && end.stderr.contains("needs: [\"unconfined\"]"), "{end:?}");
    assert!(!end.stderr.contains("commit message"), "{end:?}");
    let unconfined = Opens::of(&[Need::Unconfined]);
    let end = opened.run(Exec { opens: unconfined, ..exec("git init -q -b trunk") }).await;
    assert_eq!(end.exit, Some(0), "{end:?}");
    works(&opened, "echo one >a && git add a && git -c user.name=t -c user.email=t@t commit -qm first").await;
    let end = opened.run(exec("echo x >.git/config")).await;
    assert!(end.exit != Some(0), "what steers git stays as it is: {end:?}");
    clean(&opened.root);
}

#[tokio::test]
async fn everyday_commands_of_git_work_and_leave_what_they_would_leave_outside() {
    let Some(opened) = open().await else { return };
    let root = &opened.root;
    let before = steering(&root.join(".git"));
    works(&opened, "echo two >>a && git add -A && git commit -qm second").await;
    works(&opened, "git switch -qc side && echo side >s && git add s && git commit -qm side").await;
    works(&opened, "git checkout -q trunk && echo three >>a && git commit -qam third").await;
    works(&opened, "git merge -q --no-edit side && git tag v1 && git tag -a v2 -m two").await;
    works(&opened, "git checkout -qb other HEAD~1 && echo o >o && git add . && git commit -qm other").await;
    works(&opened, "git rebase -q trunk").await;
    works(&opened, "git branch -d side && git branch feature/deep && git branch -f feature/deep HEAD~1")
        .await;
    works(&opened, "echo dirty >>a && git stash -q").await;
    assert_eq!(git(root, &["stash", "list"]).lines().count(), 1);
    works(&opened, "git stash pop -q && git restore a && git diff --exit-code").await;
    works(
        &opened,
        "git mv a b && git commit -qm moved && git revert --no-edit HEAD && git reset -q --hard HEAD~1",
    )
    .await;
    works(&opened, "git switch -q trunk && git cherry-pick other && git rm -q b && git commit -qm gone")
        .await;
    works(&opened, "git commit -q --amend -m 'gone again' && git notes add -m note && git pack-refs --all")
        .await;
    works(&opened, "git branch -D feature/deep && git branch feature && git tag -d v1").await;
    let subjects = git(root, &["log", "--format=%an <%ae> %s", "-3"]);
    assert_eq!(subjects.lines().next(), Some("A User <user@example.org> gone again"));
    assert_eq!(git(root, &["branch", "--format=%(refname:short)"]), "feature\nother\ntrunk\n");
    assert_eq!(git(root, &["tag"]), "v2\n");
    assert_eq!(git(root, &["status", "--porcelain"]), "", "index and files fit together");
    assert_eq!(git(root, &["reflog", "-1", "--format=%gs"]), "commit (amend): gone again\n");
    assert_eq!(steering(&root.join(".git")), before);
    clean(root);
}

#[tokio::test]
async fn without_the_need_the_repository_stays_as_it_is_and_the_words_say_how_to_ask() {
    let Some(opened) = open().await else { return };
    let before = all(&opened.root.join(".git"));
    let end = opened.sh("echo two >>a; git commit -qam second; git status").await;
    assert!(end.stderr.contains("repeat the call with `needs: [\"git\"]`"), "{end:?}");
    assert_eq!(all(&opened.root.join(".git")), before);
}

#[tokio::test]
async fn hooks_of_the_repository_run_inside() {
    let Some(opened) = open().await else { return };
    let hook = opened.root.join(".git/hooks/pre-commit");
    fs::write(&hook, "#!/bin/sh\necho \"in the hook: $(cat ../ws-evil/secret 2>&1)\" >&2\n").unwrap();
    fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let end = works(&opened, "git commit -q --allow-empty -m x").await;
    assert!(end.stderr.contains("in the hook: cat: ../ws-evil/secret: No such file"), "{end:?}");
}

#[tokio::test]
async fn a_work_tree_commits_and_the_other_work_trees_stay() {
    let folder = tempfile::tempdir().unwrap();
    let base = fs::canonicalize(folder.path()).unwrap();
    let Some(side) = worktree::set(&base).filter(|_| true) else { return };
    if !can_be_had().await {
        return;
    }
    git(&side, &["config", "user.name", "a"]);
    git(&side, &["config", "user.email", "a@b"]);
    let shared = base.join("main/.git");
    let main = |name: &str| fs::read(shared.join(name)).unwrap();
    let before = (main("HEAD"), main("index"), main("config"));
    let sandbox = LocalSandbox::open(&side, options()).unwrap();
    let command = "git commit -qam side && git branch new && echo evil >../main/.git/HEAD; echo x >../main/.git/index; \
                   mkdir ../main/.git/worktrees/evil && echo . >../main/.git/worktrees/evil/commondir; \
                   echo evil >../main/.git/worktrees/side/commondir; true";
    let end = sandbox.exec(with_git(command), &Heard::default(), &CancellationToken::new()).await.unwrap();
    assert_eq!((main("HEAD"), main("index"), main("config")), before, "{end:?}");
    assert!(!shared.join("worktrees/evil").exists(), "{end:?}");
    assert_eq!(fs::read_to_string(shared.join("worktrees/side/commondir")).unwrap(), "../..\n");
    for name in [".git/HEAD", ".git/index", ".git/worktrees/evil/", ".git/worktrees/side/commondir"] {
        assert!(end.said().contains(name), "{name}: {end:?}");
    }
    assert_eq!(git(&side, &["log", "-1", "--format=%s", "side"]), "side\n", "{end:?}");
    assert_eq!(git(&side, &["rev-parse", "new"]), git(&side, &["rev-parse", "side"]));
    assert_eq!(git(&side, &["status", "--porcelain"]), "");
    git(&side, &["fsck", "--full"]);
}

/// Two branches that change the same line.
async fn diverged() -> Option<Opened> {
    let opened = open().await?;
    works(&opened, "git switch -qc side && echo side >a && git commit -qam side").await;
    works(&opened, "git switch -q trunk && echo trunk >a && git commit -qam trunk").await;
    Some(opened)
}

#[tokio::test]
async fn a_merge_may_wait_for_a_later_call_and_a_rebase_that_stops_is_aborted() {
    let Some(opened) = diverged().await else { return };
    let root = &opened.root;
    let end = run(&opened, "git merge side").await;
    assert!(end.exit == Some(1) && !end.stderr.contains("[agon:"), "{end:?}");
    assert!(git(root, &["status"]).contains("You have unmerged paths"));
    works(&opened, "echo both >a && git add a && git commit -qm merged").await;
    assert_eq!(git(root, &["log", "-1", "--format=%s %p"]).split(' ').count(), 3, "a merge");
    let head = git(root, &["rev-parse", "HEAD", "trunk", "side"]);
    for (command, what) in [
        ("git switch -q side; git rebase trunk~1", "the rebase"),
        (
            "git switch -q side; GIT_SEQUENCE_EDITOR='printf \"exec false\\n\" >>' git rebase -i trunk~1",
            "the rebase",
        ),
        ("git switch -q side; git cherry-pick trunk~1 HEAD~1", "the cherry-pick or revert"),
    ] {
        let end = run(&opened, command).await;
        let words = format!("[agon: {what} stopped before its end and was aborted");
        assert!(end.exit != Some(0) && end.stderr.contains(&words), "{command}: {end:?}");
        assert_eq!(git(root, &["status", "--porcelain"]), "", "{command}");
        works(&opened, "git switch -q trunk").await;
        assert_eq!(git(root, &["rev-parse", "HEAD", "trunk", "side"]), head, "{command}");
        assert!(!root.join(".git/rebase-merge").exists() && !root.join(".git/sequencer").exists());
    }
    clean(root);
}

#[tokio::test]
async fn what_the_user_began_is_not_continued_from_a_call() {
    let Some(opened) = diverged().await else { return };
    let mut rebase = Command::new("git");
    rebase.args(["rebase", "side"]).current_dir(&opened.root).stdout(Stdio::null()).stderr(Stdio::null());
    assert!(!rebase.status().unwrap().success());
    let why = opened.sandbox.cannot_open(&[Need::Git]).unwrap();
    assert!(why.contains("`.git/rebase-merge`") && why.contains("continue or abort"), "{why}");
    let end = opened.sandbox.exec(with_git("true"), &Heard::default(), &CancellationToken::new()).await;
    assert_eq!(end.unwrap_err(), why);
}

#[tokio::test]
async fn what_a_command_plants_is_dropped_and_named_while_its_commit_stays() {
    let Some(opened) = open().await else { return };
    let root = &opened.root;
    let before = steering(&root.join(".git"));
    let evil = "echo two >>a && git commit -qam second && cd .git && git config core.fsmonitor evil && \
        git config filter.x.smudge evil && echo /tmp/evil >commondir && printf '#!/bin/sh\\ntouch /tmp/x\\n' >hooks/post-checkout && chmod 755 hooks/post-checkout && rm -f hooks/*.sample && \
        echo '* filter=x' >info/attributes && \
        echo /tmp >objects/info/alternates && echo evil >config.worktree && mkdir -p worktrees/evil modules/evil/hooks rebase-merge && \
        echo 'exec evil' >rebase-merge/git-rebase-todo && ln -s /etc/passwd refs/heads/link && ln -s ../config MERGE_MSG && \
        ln -s /tmp refs/tags/folder && mkfifo FETCH_HEAD && touch sharedindex.x objects/pack/pack-1.idx";
    let end = run(&opened, evil).await;
    assert_eq!(git(root, &["log", "-1", "--format=%s"]), "second\n", "{end:?}");
    assert_eq!(steering(&root.join(".git")), before, "{end:?}");
    let gone = [
        "commondir",
        "config.worktree",
        "worktrees",
        "modules",
        "rebase-merge",
        "refs/heads/link",
        "MERGE_MSG",
        "refs/tags/folder",
        "FETCH_HEAD",
        "sharedindex.x",
        "objects/info/alternates",
        "objects/pack/pack-1.idx",
    ];
    for name in gone {
        assert!(fs::symlink_metadata(root.join(".git").join(name)).is_err(), "{name}: {end:?}");
    }
    assert!(
        end.stderr.contains("agon does not take over: ") && end.stderr.contains(".git/commondir"),
        "{end:?}"
    );
    clean(root);
}

#[tokio::test]
async fn names_that_git_would_not_write_take_nothing_over() {
    let Some(opened) = open().await else { return };
    let root = &opened.root;
    let index = "printf 'DIRC\\0\\0\\0\\2\\0\\0\\0\\1' >i; head -c 24 /dev/zero >>i; printf '\\0\\0\\201\\244' >>i; \
         head -c 12 /dev/zero >>i; git rev-parse HEAD:a | tr -d '\\n' | sed 's/../\\\\x&/g' | xargs -0 printf >>i; \
         printf '\\0\\7.git/xy\\0' >>i; head -c 20 /dev/zero >>i; mv i .git/index";
    let commit = "echo two >>a && git commit -qam second";
    for (evil, why) in [
        ("echo nonsense >.git/refs/heads/x", "`refs/heads/x`: it does not say what git writes there"),
        ("echo ref: ../../x >.git/HEAD", "`HEAD`: it does not say"),
        ("echo ref: refs/heads/x >.git/refs/heads/y", "`refs/heads/y`: it does not say"),
        ("echo 1234 x >.git/packed-refs", "`packed-refs`: it does not say"),
        ("echo junk >.git/index", "`index`: it is too short"),
        (index, "`index`: an entry names a place that git never writes to"),
        ("echo 0123456789012345678901234567890123456789 >.git/refs/heads/x", "objects are missing: "),
        (
            "o=$(git rev-parse HEAD); rm -f .git/objects/$(echo $o | sed 's,..,&/,'); p=$(echo y | git hash-object -w --stdin); \
          f=.git/objects/$(echo $p | sed 's,..,&/,'); chmod 600 $f; echo x >$f",
            "is not the object that its name says",
        ),
    ] {
        let before = all(&root.join(".git"));
        let end = run(&opened, &format!("{commit}; {evil}")).await;
        assert!(
            end.stderr.contains("nothing of this command was taken over") && end.stderr.contains(why),
            "{evil}: {end:?}"
        );
        assert_ne!(end.exit, Some(0), "{end:?}");
        assert_eq!(all(&root.join(".git")), before, "{evil}");
        git(root, &["fsck", "--full", "--no-dangling"]);
        git(root, &["checkout", "-q", "a"]);
    }
}

#[tokio::test]
async fn a_repository_that_is_removed_or_made_again_stays_as_it_is() {
    let Some(opened) = open().await else { return };
    let root = &opened.root;
    git(root, &["pack-refs", "--all"]);
    works(&opened, "echo two >>a && git commit -qam second && git branch other").await;
    let before = all(&root.join(".git"));
    for evil in [
        "rm -rf .git",
        "mv .git /tmp/x; git init -q",
        "rm -rf .git/refs && mkdir -p .git/refs/heads",
        "rm .git/HEAD",
        "rm -rf .git/objects; mkdir .git/objects",
    ] {
        let end = run(&opened, evil).await;
        let why = "which is no work of git's in a repository";
        assert!(end.stderr.contains(why) && end.exit != Some(0), "{evil}: {end:?}");
        assert_eq!(all(&root.join(".git")), before, "{evil}");
    }
    // One object for another, and a checkout of some files only, would be seen by the user's git alone.
    let end = run(&opened, "git replace HEAD HEAD~1").await;
    assert!(
        end.stderr.contains("agon does not take over: ") && end.stderr.contains("refs/replace"),
        "{end:?}"
    );
    let end = run(&opened, "git sparse-checkout set nothing").await;
    assert!(end.stderr.contains("a command made the checkout sparse"), "{end:?}");
    assert_eq!(all(&root.join(".git")), before);
    git(root, &["fsck", "--full", "--no-dangling"]);
}

#[tokio::test]
async fn thousands_of_packed_references_are_taken_over() {
    let Some(opened) = open().await else { return };
    let root = &opened.root;
    let head = git(root, &["rev-parse", "HEAD"]);
    let mut packed: String = "# pack-refs with: peeled fully-peeled sorted \n".to_owned();
    let mut names: Vec<String> = (0..4000).map(|nth| format!("refs/tags/t{nth}")).collect();
    names.sort();
    names.iter().for_each(|name| packed.push_str(&format!("{} {name}\n", head.trim())));
    fs::write(root.join(".git/packed-refs"), packed).unwrap();
    works(&opened, "git tag -d t7 && git tag t7000").await;
    let tags = git(root, &["tag"]);
    assert!(tags.lines().count() == 4000 && tags.contains("t7000") && !tags.lines().any(|tag| tag == "t7"));
}

#[tokio::test]
async fn what_agon_puts_into_a_workspace_is_in_gits_way_neither_for_stash_nor_for_clean() {
    let Some(opened) = open().await else { return };
    works(
        &opened,
        "echo new >new && git stash -u && [ ! -e new ] && git stash pop -q && git clean -fdq && [ ! -e new ]",
    )
    .await;
    assert_eq!(git(&opened.root, &["status", "--porcelain"]), "");
}

#[tokio::test]
async fn a_pipe_in_place_of_the_index_holds_no_call_up() {
    let Some(opened) = open().await else { return };
    let index = opened.root.join(".git/index");
    fs::remove_file(&index).unwrap();
    assert!(Command::new("mkfifo").arg(&index).status().unwrap().success());
    let end = tokio::time::timeout(std::time::Duration::from_secs(60), run(&opened, "echo over")).await;
    assert_eq!(end.expect("nothing waits for the pipe").stdout, "over\n");
}

#[tokio::test]
async fn a_lock_of_the_users_git_and_what_it_changed_meanwhile_keep_a_call_out() {
    let Some(opened) = open().await else { return };
    let root = &opened.root;
    let lock = root.join(".git/refs/heads/trunk.lock");
    fs::write(&lock, "").unwrap();
    let before = all(&root.join(".git"));
    // In the layer the lock is away, as if the user's git began after the call.
    let end = run(&opened, "rm .git/refs/heads/trunk.lock; git commit -q --allow-empty -m x").await;
    let why = "another git holds `.git/refs/heads/trunk.lock`; try again";
    assert!(end.stderr.contains(why) && end.exit == Some(1), "{end:?}");
    assert_eq!(all(&root.join(".git")), before);
    fs::remove_file(&lock).unwrap();
    let call = async {
        let command =
            "git commit -q --allow-empty -m theirs; touch begun; while [ ! -e over ]; do sleep 0.02; done";
        run(&opened, command).await
    };
    let meanwhile = async {
        while !root.join("begun").exists() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        git(root, &["-c", "commit.gpgSign=false", "commit", "-q", "--allow-empty", "-m", "mine"]);
        fs::write(root.join("over"), "").unwrap();
    };
    let (end, ()) = tokio::join!(call, meanwhile);
    assert!(end.stderr.contains("another program changed `.git/"), "{end:?}");
    assert_eq!(git(root, &["log", "-1", "--format=%s"]), "mine\n");
    // Whoever only refreshes the index is in nobody's way.
    let call =
        run(&opened, "rm -f over; git add begun; touch begun2; while [ ! -e over ]; do sleep 0.02; done");
    let refresh = async {
        while !root.join("begun2").exists() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        fs::File::options()
            .append(true)
            .open(root.join("a"))
            .unwrap()
            .set_modified(std::time::SystemTime::now())
            .unwrap();
        git(root, &["update-index", "--refresh"]);
        fs::write(root.join("over"), "").unwrap();
    };
    let (end, ()) = tokio::join!(call, refresh);
    assert!(end.exit == Some(0) && git(root, &["diff", "--cached", "--name-only"]) == "begun\n", "{end:?}");
    clean(root);
}

/// Runs agon where `.git` is a small file system of its own, and says what it left there.
const ON_A_FULL_DISK: &str = "set -e; cd \"$1\"; mkdir .git; mount -t tmpfs -o size=400k full .git; git init -q -b trunk --template= .; \
    git config user.name a; git config user.email a@b; echo one >a; git add a; git commit -qm first; head -c 300000 /dev/urandom >big; \
    dd if=/dev/zero of=.git/fill bs=4k 2>/dev/null || true; \"$0\" run go --yes --sandbox local; rm .git/fill; \
    git log --format=%s; git fsck; git status --short; find .git -name '*.lock' -o -name 'tmp_*'";

#[tokio::test]
async fn a_full_disk_takes_nothing_over() {
    let apart = |program: &str| {
        let mut apart = Command::new("unshare");
        apart.args(["-Urm", "sh", "-c"]).arg(program).stdin(Stdio::null());
        apart
    };
    let is_there = apart("mount -t tmpfs x /mnt").status().is_ok_and(|status| status.success());
    if !can_be_had().await || !is_there {
        return println!("skipped: no file system can be mounted here");
    }
    let call = "[[answer]]\nspark = \"solo\"\ncalls = [{ tool = \"bash\", args = { command = \"git add -A && git commit -qm second\" } }]\n";
    let env = scripted(&format!("{call}[[answer]]\nspark = \"solo\"\ntext = \"done\"\n"));
    let (plain, mut command) = (env.command(&[]), apart(ON_A_FULL_DISK));
    command.arg(plain.get_program()).arg(env.work()).env_clear();
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.output().unwrap();
    let (out, words) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(
        words.contains("nothing of this command was taken over into `.git`: the disk is full"),
        "{out} {words}"
    );
    assert_eq!(out, "done\nfirst\n?? big\n", "{words}");
}

#[tokio::test]
async fn in_a_folder_of_a_repository_the_words_say_where_to_begin() {
    if !can_be_had().await {
        return;
    }
    let opened = Opened::new(|root| {
        let sub = root.join("sub");
        fs::create_dir(&sub).unwrap();
        set(root);
        Arc::new(LocalSandbox::open(&sub, options()).unwrap())
    });
    let top = format!("a folder of the repository {}, which commands do not see", opened.root.display());
    let end = opened.sh("git log | head -1").await;
    assert!(end.stderr.contains(&top) && end.stderr.contains("[agon: `git` is not available"), "{end:?}");
    let why = opened.sandbox.cannot_open(&[Need::Git]).unwrap();
    assert!(
        why.contains(&top) && why.ends_with(&format!("`--workspace {}`", opened.root.display())),
        "{why}"
    );
    assert_eq!(git(&opened.root, &["log", "--format=%s"]), "first\n");
}
