//! The workspace store: what is recorded comes back, what changed is noticed, what is unchanged is not read.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use agon::ports::Workspace;
use agon::protocol::effect::DiffOrder;
use agon::protocol::event::PathBase;
use agon::protocol::expand::hex;
use agon::workspace::WorkspaceStore;
use futures_util::FutureExt;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

/// A comparison with a tree.
fn since(from: &str, written: &[PathBase]) -> DiffOrder {
    DiffOrder { from: from.to_owned(), written: written.to_vec(), shown: None }
}

struct Place {
    folder: TempDir,
    store: WorkspaceStore,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("ws")).unwrap();
        let store = reopened(folder.path());
        Place { folder, store }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("ws")
    }

    fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    async fn fingerprint(&self) -> String {
        self.store.fingerprint().await.unwrap().fingerprint
    }

    async fn tree(&self) -> String {
        self.store.checkpoint().await.unwrap().tree
    }
}

fn reopened(folder: &Path) -> WorkspaceStore {
    WorkspaceStore::open(&folder.join("ws"), &folder.join("state")).unwrap()
}

#[tokio::test]
async fn a_workspace_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let error = WorkspaceStore::open(&folder.path().join("gone"), folder.path()).unwrap_err();
    assert!(error.contains("the workspace") && error.contains("gone"), "{error}");
}

#[tokio::test]
async fn what_is_recorded_comes_back() {
    let place = Place::new();
    place.put("README.md", "hello\n");
    place.put("bin/run", "#!/bin/sh\n");
    fs::set_permissions(place.root().join("bin/run"), fs::Permissions::from_mode(0o755)).unwrap();
    place.put("data/raw", [0_u8, 255, 10, 13]);
    place.put(".hidden/deep/empty", "");
    symlink("../README.md", place.root().join("data/link")).unwrap();
    symlink("/nowhere", place.root().join("dangling")).unwrap();
    let recorded = place.store.checkpoint().await.unwrap();
    assert_eq!((recorded.files, recorded.skipped), (6, Vec::<String>::new()));

    let target = place.folder.path().join("fork/ws");
    place.store.restore_into(&recorded.tree, &target).await.unwrap();
    assert_eq!(fs::read_to_string(target.join("README.md")).unwrap(), "hello\n");
    assert_eq!(fs::metadata(target.join("bin/run")).unwrap().mode() & 0o100, 0o100);
    assert_eq!(fs::metadata(target.join("README.md")).unwrap().mode() & 0o111, 0);
    assert_eq!(fs::read(target.join("data/raw")).unwrap(), [0, 255, 10, 13]);
    assert_eq!(fs::read(target.join(".hidden/deep/empty")).unwrap(), b"");
    assert_eq!(fs::read_link(target.join("data/link")).unwrap(), Path::new("../README.md"));
    assert_eq!(fs::read_link(target.join("dangling")).unwrap(), Path::new("/nowhere"));

    let copy = WorkspaceStore::open(&target, &place.folder.path().join("other state")).unwrap();
    assert_eq!(copy.checkpoint().await.unwrap().tree, recorded.tree, "equal content, equal tree");
    assert_eq!(copy.fingerprint().await.unwrap().fingerprint, place.fingerprint().await);
    let error = place.store.restore_into(&recorded.tree, &target).await.unwrap_err();
    assert!(error.contains("is not empty"), "{error}");

    // Once it is given up nothing more is written.
    let gone = place.folder.path().join("gone");
    let _ = place.store.restore_into(&recorded.tree, &gone).now_or_never();
    let _ = fs::remove_dir_all(&gone);
    for _ in 0..20 {
        assert!(!gone.exists());
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// A diff that came upon what a checkpoint beside it was still storing could not read it.
#[tokio::test]
async fn a_diff_beside_a_checkpoint_reads_what_both_record() {
    let place = Place::new();
    place.put("a.txt", "0");
    let before = place.tree().await;
    for round in 0..20 {
        for file in 0..20 {
            place.put(&format!("{file}.txt"), format!("{round} {file}"));
        }
        let order = since(&before, &[]);
        let (tree, diff) = tokio::join!(place.store.checkpoint(), place.store.diff(&order));
        assert_eq!(diff.unwrap().to, tree.unwrap().tree);
    }
}

#[tokio::test]
async fn every_kind_of_change_changes_the_fingerprint() {
    let place = Place::new();
    place.put("a", "1");
    place.put("b", "1");
    let mut seen = vec![place.fingerprint().await];
    let mut step = |print: String| {
        assert!(!seen.contains(&print), "step {}", seen.len());
        seen.push(print);
    };
    place.put("a", "2");
    step(place.fingerprint().await);
    fs::set_permissions(place.root().join("a"), fs::Permissions::from_mode(0o755)).unwrap();
    step(place.fingerprint().await);
    fs::rename(place.root().join("b"), place.root().join("c")).unwrap();
    step(place.fingerprint().await);
    fs::remove_file(place.root().join("c")).unwrap();
    step(place.fingerprint().await);
    symlink("a", place.root().join("c")).unwrap();
    step(place.fingerprint().await);
    fs::remove_file(place.root().join("c")).unwrap();
    symlink("b", place.root().join("c")).unwrap();
    step(place.fingerprint().await);
    let same = place.fingerprint().await;
    assert_eq!(same, place.fingerprint().await);
    assert_eq!(same, reopened(place.folder.path()).fingerprint().await.unwrap().fingerprint);
}

#[tokio::test]
async fn an_edit_of_the_same_size_right_after_is_noticed() {
    let place = Place::new();
    let path = place.root().join("a");
    let mut previous = String::new();
    for round in 0..200 {
        place.put("a", format!("{:04}", round));
        let print = place.fingerprint().await;
        assert_ne!(print, previous, "round {round}");
        previous = print;
    }
    // The modification time set back to what it was: the change time gives it away.
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    place.put("a", "9999");
    fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    assert_ne!(place.fingerprint().await, previous);
}

#[tokio::test]
async fn ignore_rules_hold_without_git_and_private_folders_stay_out() {
    let place = Place::new();
    place.put(".gitignore", "target/\n*.log\n!keep.log\n");
    place.put("sub/.gitignore", "local\n");
    for path in
        ["target/big", "x.log", "keep.log", "sub/local", "sub/kept", ".git/config", ".agon/x", "sub/.git"]
    {
        place.put(path, "1");
    }
    let print = place.fingerprint().await;
    assert_eq!(place.store.fingerprint().await.unwrap().files, 4, ".gitignore twice, keep.log, sub/kept");
    for path in ["target/big", "x.log", "sub/local", ".git/config", ".agon/x", "sub/.git"] {
        place.put(path, "2");
        assert_eq!(place.fingerprint().await, print, "{path}");
    }
    place.put("keep.log", "2");
    assert_ne!(place.fingerprint().await, print);
}

#[tokio::test]
async fn what_a_killed_write_left_beside_its_place_is_no_content_and_is_removed_when_it_is_old() {
    let place = Place::new();
    place.put("a", "1");
    let print = place.fingerprint().await;
    let (new, old) = (agon::temp_names::name(), ".agon-01900000000070008000000000000000.tmp");
    place.put(&new, "half");
    place.put(&format!("sub/{old}"), "half");
    assert_eq!(place.fingerprint().await, print);
    assert!(place.root().join("sub").join(old).exists(), "who only looks removes nothing");
    assert_eq!(place.store.checkpoint().await.unwrap().files, 1);
    assert!(place.root().join(&new).exists(), "it may still be exchanged");
    assert!(!place.root().join("sub").join(old).exists());
}

#[tokio::test]
async fn the_state_folder_may_lie_in_the_workspace() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), "1").unwrap();
    let store = WorkspaceStore::open(folder.path(), &folder.path().join("my state")).unwrap();
    assert_eq!(store.checkpoint().await.unwrap().files, 1);
    assert_eq!(store.checkpoint().await.unwrap().files, 1);
}

#[tokio::test]
async fn a_diff_names_every_changed_path() {
    let place = Place::new();
    place.put("changed.txt", "one\ntwo\nthree\n");
    place.put("removed.txt", "gone\n");
    place.put("binary", [0_u8, 1, 2]);
    place.put("mode", "x\n");
    place.put("same", "same\n");
    let from = place.tree().await;
    place.put("changed.txt", "one\n2\nthree\n");
    fs::remove_file(place.root().join("removed.txt")).unwrap();
    place.put("binary", [0_u8, 1, 3]);
    fs::set_permissions(place.root().join("mode"), fs::Permissions::from_mode(0o755)).unwrap();
    place.put("added/new.txt", "fresh\n");
    let taken = place.store.diff(&since(&from, &[])).await.unwrap();
    assert_eq!(taken.files, ["added/new.txt", "binary", "changed.txt", "mode", "removed.txt"]);
    assert_eq!((taken.from, taken.to), (from.clone(), place.tree().await));
    for piece in [
        "added file: added/new.txt\n--- /dev/null\n+++ b/added/new.txt\n@@ -0,0 +1 @@\n+fresh\n",
        "changed: binary\nbinary or large content: 3 bytes",
        "--- a/changed.txt\n+++ b/changed.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n",
        "changed from file to executable file: mode\nremoved file: removed.txt\n",
        "+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n",
    ] {
        assert!(taken.diff.contains(piece), "{piece}\nin\n{}", taken.diff);
    }
    assert!(!taken.diff.contains("same"));
    let nothing = place.store.diff(&since(&place.tree().await, &[])).await.unwrap();
    assert_eq!((nothing.diff.as_str(), nothing.files.len()), ("", 0));
}

#[tokio::test]
async fn a_written_file_that_holds_again_what_it_held_is_told_whether_git_ignores_it_or_not() {
    let place = Place::new();
    place.put(".gitignore", "out\n");
    place.put("kept", "old");
    let from = place.tree().await;
    let base = |path: &str, held: Option<&[u8]>| PathBase {
        path: path.to_owned(),
        sha256: held.map(|bytes| hex(&Sha256::digest(bytes))),
    };
    let written =
        [base("kept", Some(b"old")), base("out", None), base("out", Some(b"was")), base("new", None)];
    place.put("out", "made");
    place.put("new", "made");
    let undone = place.store.diff(&since(&from, &written)).await.unwrap().restored;
    assert_eq!(undone, ["kept"]);
    place.put("kept", "changed");
    place.put("out", "was");
    fs::remove_file(place.root().join("new")).unwrap();
    let undone = place.store.diff(&since(&from, &written)).await.unwrap().restored;
    assert_eq!(undone, ["out", "new"]);
}

#[tokio::test]
async fn what_differs_from_the_tree_that_was_shown_is_named_and_nothing_where_nothing_does() {
    let place = Place::new();
    place.put("a", "old");
    place.put("b", "old");
    let from = place.tree().await;
    place.put("a", "work");
    let order = DiffOrder { shown: Some(place.tree().await), ..since(&from, &[]) };
    let same = place.store.diff(&order).await.unwrap();
    assert_eq!((Some(&same.to), same.files.len(), same.diff.as_str()), (order.shown.as_ref(), 0, ""));
    place.put("b", "touched");
    let taken = place.store.diff(&order).await.unwrap();
    assert_eq!((taken.files, taken.touched), (vec!["a".to_owned(), "b".to_owned()], vec!["b".to_owned()]));
}

#[tokio::test]
async fn small_files_that_git_ignores_have_a_digest_and_ignored_folders_have_none() {
    let place = Place::new();
    place.put(".gitignore", "*.log\ntarget/\n");
    place.put("src/kept", "x");
    let ignored = async || place.store.fingerprint().await.unwrap();
    let first = ignored().await;
    assert_eq!(first.ignored, None);
    place.put("target/made", "1");
    place.put("large.log", "x".repeat(300 * 1024));
    assert_eq!(ignored().await, first);
    place.put("src/a.log", "1");
    let second = ignored().await;
    assert_eq!((&second.fingerprint, second.ignored.is_some()), (&first.fingerprint, true));
    place.put("src/a.log", "2");
    assert_ne!(ignored().await.ignored, second.ignored);
}

#[tokio::test]
async fn a_device_or_a_pipe_in_place_of_an_ignored_file_is_not_read_without_end() {
    let place = Place::new();
    place.put(".gitignore", "out*\n");
    let from = place.tree().await;
    symlink("/dev/zero", place.root().join("out")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, place.root().join("out.pipe"), rustix::fs::Mode::RWXU).unwrap();
    let held = Some("0".repeat(64));
    let written = ["out", "out.pipe"].map(|path| PathBase { path: path.to_owned(), sha256: held.clone() });
    assert_eq!(place.store.diff(&since(&from, &written)).await.unwrap().restored, [] as [&str; 0]);
}

#[tokio::test]
async fn a_long_diff_is_cut_in_its_middle() {
    let place = Place::new();
    let from = place.tree().await;
    for n in 0..20 {
        place.put(&format!("f{n:02}"), format!("line of {n}\n").repeat(1_000));
    }
    let taken = place.store.diff(&since(&from, &[])).await.unwrap();
    assert_eq!(taken.files.len(), 20);
    assert!(taken.diff.len() < 65 * 1024 && taken.diff.contains("bytes left out"));
    assert!(taken.diff.starts_with("added file: f00") && taken.diff.ends_with("+line of 19\n"));
}

#[tokio::test]
async fn large_and_unreadable_files_are_named() {
    let place = Place::new();
    place.put("small", "1");
    let large = fs::File::create(place.root().join("large")).unwrap();
    large.set_len(64 * 1024 * 1024 + 1).unwrap();
    let recorded = place.store.checkpoint().await.unwrap();
    assert_eq!((recorded.files, recorded.skipped), (1, vec!["large".to_owned()]));
    let print = place.fingerprint().await;
    large.set_len(64 * 1024 * 1024 + 2).unwrap();
    assert_ne!(place.fingerprint().await, print, "its size counts");
    fs::set_permissions(place.root().join("small"), fs::Permissions::from_mode(0o000)).unwrap();
    // Root reads everything.
    if fs::File::open(place.root().join("small")).is_err() {
        let recorded = reopened(place.folder.path()).checkpoint().await.unwrap();
        assert_eq!(recorded.skipped, ["large", "small"]);
    }
}

#[tokio::test]
async fn objects_are_private_and_checked() {
    let place = Place::new();
    place.put("a", "content");
    let tree = place.tree().await;
    let mut objects = Vec::new();
    for folder in fs::read_dir(place.folder.path().join("state/objects")).unwrap() {
        let folder = folder.unwrap().path();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        objects.extend(fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()));
    }
    assert_eq!(objects.len(), 2);
    for object in &objects {
        assert_eq!(fs::metadata(object).unwrap().mode() & 0o777, 0o600);
    }
    let content = objects.iter().find(|object| fs::read(object).unwrap() == b"content").unwrap();
    fs::write(content, "c0ntent").unwrap();
    let error = place.store.restore_into(&tree, &place.folder.path().join("fork")).await.unwrap_err();
    assert!(error.contains("is damaged"), "{error}");
    fs::remove_file(content).unwrap();
    assert!(place.store.restore_into(&tree, &place.folder.path().join("fork2")).await.is_err());
    assert_eq!(place.tree().await, tree, "recorded again because it was missing");
    place.store.restore_into(&tree, &place.folder.path().join("fork3")).await.unwrap();
    for id in ["", "../../ws/a", "abc", &"g".repeat(64), &"0".repeat(64)] {
        assert!(place.store.diff(&since(id, &[])).await.is_err(), "{id}");
    }
}

#[tokio::test]
async fn a_link_to_outside_is_recorded_as_a_link() {
    let place = Place::new();
    fs::create_dir(place.folder.path().join("outside")).unwrap();
    fs::write(place.folder.path().join("outside/secret"), "secret").unwrap();
    symlink(place.folder.path().join("outside"), place.root().join("dir")).unwrap();
    symlink(place.folder.path().join("outside/secret"), place.root().join("file")).unwrap();
    let before = place.fingerprint().await;
    fs::write(place.folder.path().join("outside/secret"), "other").unwrap();
    assert_eq!(place.fingerprint().await, before);
    assert_eq!(place.store.checkpoint().await.unwrap().files, 2);
}

/// Counts the files beneath a folder.
fn count_files(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { count_files(&path) } else { 1 }).sum()
}

#[tokio::test]
async fn five_thousand_files_are_read_once() {
    let place = Place::new();
    for n in 0..5_000 {
        place.put(&format!("d{:02}/f{n:04}", n % 50), format!("{}\n", n % 100));
    }
    // Old enough that a second look need not read them again.
    tokio::time::sleep(std::time::Duration::from_millis(120)).await;
    let first = place.store.checkpoint().await.unwrap();
    assert_eq!(first.files, 5_000);
    let stored = count_files(&place.folder.path().join("state/objects"));
    assert_eq!(stored, 100 + 1, "equal contents are stored once, beside the tree");
    let index =
        fs::read_dir(place.folder.path().join("state/index")).unwrap().next().unwrap().unwrap().path();
    let written = fs::metadata(&index).unwrap().modified().unwrap();
    // Hashing anything again would note a new time in the index and write it anew.
    assert_eq!(reopened(place.folder.path()).checkpoint().await.unwrap().tree, first.tree);
    assert_eq!(fs::metadata(&index).unwrap().modified().unwrap(), written, "nothing was hashed again");
    place.put("d00/f0000", "changed\n");
    assert_eq!(place.store.diff(&since(&first.tree, &[])).await.unwrap().files, ["d00/f0000"]);
}

#[tokio::test]
async fn a_name_with_a_line_in_it_forges_no_line_of_a_diff() {
    let place = Place::new();
    let before = place.tree().await;
    place.put("odd\n+++ b/safe.rs", "new\n");
    let taken = place.store.diff(&since(&before, &[])).await.unwrap();
    assert_eq!(taken.files, ["odd\n+++ b/safe.rs"]);
    let heads: Vec<&str> = taken.diff.lines().filter(|line| line.contains("safe.rs")).collect();
    assert_eq!(
        heads,
        [r#"added file: "odd\n+++ b/safe.rs""#, r#"+++ "b/odd\n+++ b/safe.rs""#],
        "{}",
        taken.diff
    );
}
