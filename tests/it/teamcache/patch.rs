//! A cached run is applied all or nothing, whatever goes wrong at whichever file.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use agon::ports::{FileChange, FileContent, FileError, Files};
use agon::sandbox::files::WorkspaceFiles;
use proptest::prelude::*;

use super::sha256;

/// Everything beneath a folder: path to content and mode; folders and links included.
fn snapshot(root: &Path) -> BTreeMap<String, (String, u32)> {
    let mut all = BTreeMap::new();
    for found in ignore::WalkBuilder::new(root).standard_filters(false).build().map(Result::unwrap) {
        let metadata = found.path().symlink_metadata().unwrap();
        let held = if metadata.is_dir() {
            "folder".to_owned()
        } else if metadata.is_symlink() {
            format!("link to {}", fs::read_link(found.path()).unwrap().display())
        } else {
            sha256(&fs::read(found.path()).unwrap())
        };
        let path = found.path().strip_prefix(root).unwrap().display().to_string();
        all.insert(path, (held, metadata.permissions().mode() & 0o777));
    }
    all
}

fn put(root: &Path, path: &str, text: &str, exec: bool) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(if exec { 0o755 } else { 0o644 })).unwrap();
}

/// One file of a run: its text and mode before and after.
type Side = Option<(String, bool)>;

#[derive(Clone, Debug)]
struct Planned {
    path: String,
    before: Side,
    after: Side,
}

fn content(side: &Side) -> Option<FileContent> {
    side.as_ref().map(|(text, exec)| FileContent { sha256: sha256(text.as_bytes()), exec: *exec })
}

fn changes(plan: &[Planned]) -> Vec<FileChange> {
    let change = |one: &Planned| FileChange {
        path: one.path.clone(),
        before: content(&one.before),
        after: content(&one.after),
    };
    plan.iter().map(change).collect()
}

fn contents(plan: &[Planned]) -> BTreeMap<String, Vec<u8>> {
    let texts = plan.iter().filter_map(|one| one.after.as_ref());
    texts.map(|(text, _)| (sha256(text.as_bytes()), text.clone().into_bytes())).collect()
}

fn apply(root: &Path, plan: &[Planned]) -> Result<Vec<String>, FileError> {
    let contents = contents(plan);
    let files = WorkspaceFiles::open(root).unwrap();
    files.patch(&changes(plan), &mut |sha256| contents.get(sha256).cloned().ok_or("not there".to_owned()))
}

/// The workspace before the run, with a file the run does not touch.
fn before(root: &Path, plan: &[Planned]) {
    put(root, "untouched", "stays", false);
    for one in plan {
        if let Some((text, exec)) = &one.before {
            put(root, &one.path, text, *exec);
        }
    }
}

fn is_as_after(root: &Path, plan: &[Planned]) -> bool {
    plan.iter().all(|one| match &one.after {
        None => !root.join(&one.path).exists(),
        Some((text, exec)) => {
            let is_exec = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o100 != 0;
            fs::read_to_string(root.join(&one.path)).is_ok_and(|now| now == *text)
                && is_exec(&root.join(&one.path)) == *exec
        }
    })
}

fn plans() -> impl Strategy<Value = Vec<Planned>> {
    let side = || proptest::option::of(("[a-z]{0,12}", any::<bool>()));
    let one = ("[a-c](/[a-c]){0,2}/[x-z]{1,2}", side(), side());
    proptest::collection::vec(one, 1..7).prop_map(|list| {
        let by_path: BTreeMap<String, (Side, Side)> =
            list.into_iter().filter(|(_, a, b)| a != b).map(|(path, a, b)| (path, (a, b))).collect();
        by_path.into_iter().map(|(path, (before, after))| Planned { path, before, after }).collect()
    })
}

/// What goes wrong at one file.
#[derive(Clone, Copy, Debug)]
enum Fault {
    OtherContent,
    OtherMode,
    Appeared,
    Vanished,
    TwoNames,
    Link,
    Folder,
    NoContent,
    WrongContent,
    /// Written by somebody else between the look and the exchange.
    ChangedMeanwhile,
}

fn faults() -> impl Strategy<Value = Fault> {
    use Fault::*;
    proptest::sample::select(vec![
        OtherContent,
        OtherMode,
        Appeared,
        Vanished,
        TwoNames,
        Link,
        Folder,
        NoContent,
        WrongContent,
        ChangedMeanwhile,
    ])
}

/// Brings a fault about in the workspace; false when it cannot befall this file.
fn befall(root: &Path, outside: &Path, one: &Planned, fault: Fault) -> bool {
    let path = root.join(&one.path);
    match (fault, &one.before) {
        (Fault::OtherContent | Fault::ChangedMeanwhile, Some((_, exec))) => {
            put(root, &one.path, "SOMEBODY ELSE", *exec);
        }
        (Fault::OtherMode, Some((text, exec))) => put(root, &one.path, text, !exec),
        (Fault::Appeared | Fault::ChangedMeanwhile, None) => put(root, &one.path, "SOMEBODY ELSE", false),
        (Fault::Vanished, Some(_)) => fs::remove_file(&path).unwrap(),
        (Fault::TwoNames, Some(_)) => fs::hard_link(&path, outside.join("other name")).unwrap(),
        (Fault::Link, _) => {
            let _ = fs::remove_file(&path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            symlink(outside.join("secret"), &path).unwrap();
        }
        (Fault::Folder, _) => {
            let _ = fs::remove_file(&path);
            fs::create_dir_all(&path).unwrap();
        }
        _ => return false,
    }
    // A file that vanished or changed may be what the run leads to; then there is no fault.
    true
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn a_patch_leads_to_the_tree_of_the_run_and_back(plan in plans()) {
        let folder = tempfile::tempdir().unwrap();
        before(folder.path(), &plan);
        let changed = apply(folder.path(), &plan).unwrap();
        prop_assert_eq!(changed.len(), plan.len());
        prop_assert!(is_as_after(folder.path(), &plan));
        prop_assert_eq!(apply(folder.path(), &plan).unwrap(), Vec::<String>::new(), "it is done already");
        let names = snapshot(folder.path());
        prop_assert!(!names.keys().any(|path| path.contains(".agon-")), "{:?}", names);
        let back: Vec<Planned> = plan.iter().cloned()
            .map(|one| Planned { path: one.path, before: one.after, after: one.before }).collect();
        apply(folder.path(), &back).unwrap();
        prop_assert!(is_as_after(folder.path(), &back));
    }

    #[test]
    fn a_patch_that_was_broken_off_is_finished(plan in plans(), done in any::<u8>()) {
        let folder = tempfile::tempdir().unwrap();
        before(folder.path(), &plan);
        let first: Vec<Planned> =
            plan.iter().enumerate().filter(|(i, _)| done >> i & 1 == 1).map(|(_, one)| one.clone()).collect();
        apply(folder.path(), &first).unwrap();
        prop_assert_eq!(apply(folder.path(), &plan).unwrap().len(), plan.len() - first.len());
        prop_assert!(is_as_after(folder.path(), &plan));
    }

    #[test]
    fn a_failure_at_any_file_changes_nothing(plan in plans(), at in any::<prop::sample::Index>(), fault in faults()) {
        prop_assume!(!plan.is_empty());
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (root, one) = (folder.path(), &plan[at.index(plan.len())]);
        fs::write(outside.path().join("secret"), "precious").unwrap();
        before(root, &plan);
        let in_content = matches!(fault, Fault::NoContent | Fault::WrongContent | Fault::ChangedMeanwhile);
        if in_content {
            // These come about while contents are asked for, or not at all.
            prop_assume!(plan.iter().any(|one| one.after.is_some()));
            prop_assume!(one.after.is_some() || matches!(fault, Fault::ChangedMeanwhile));
        } else {
            prop_assume!(befall(root, outside.path(), one, fault));
            let is_after = content(&one.after);
            let now = fs::read(root.join(&one.path)).ok().map(|bytes| sha256(&bytes));
            // What happens to be the outcome already is no failure.
            prop_assume!(now != is_after.map(|after| after.sha256) || matches!(fault, Fault::Link | Fault::TwoNames));
        }
        let as_it_was = snapshot(root);
        let (contents, wanted) = (contents(&plan), content(&one.after).map(|after| after.sha256));
        let mut befallen = None;
        let mut give = |sha256: &str| match fault {
            Fault::NoContent if wanted.as_deref() == Some(sha256) => Err("not there".to_owned()),
            Fault::WrongContent if wanted.as_deref() == Some(sha256) => Ok(b"WRONG".to_vec()),
            Fault::ChangedMeanwhile if befallen.is_none() => {
                befall(root, outside.path(), one, fault);
                befallen = Some(fs::read(root.join(&one.path)).unwrap());
                Ok(contents[sha256].clone())
            }
            _ => Ok(contents[sha256].clone()),
        };
        let error = WorkspaceFiles::open(root).unwrap().patch(&changes(&plan), &mut give).unwrap_err();
        prop_assert!(error.to_string().contains(&one.path) || in_content, "{}", error);
        let mut now = snapshot(root);
        if let Some(bytes) = befallen {
            // What somebody else wrote meanwhile stays as they wrote it; all else is as it was.
            prop_assert_eq!(now.remove(&one.path).map(|(held, _)| held), Some(sha256(&bytes)));
            let mut as_it_was = as_it_was;
            as_it_was.remove(&one.path);
            // The folders above it are theirs too.
            now.retain(|_, (held, _)| held != "folder");
            as_it_was.retain(|_, (held, _)| held != "folder");
            prop_assert_eq!(now, as_it_was);
        } else {
            prop_assert_eq!(now, as_it_was);
        }
        prop_assert_eq!(fs::read_to_string(outside.path().join("secret")).unwrap(), "precious");
    }
}

#[test]
fn a_patch_that_was_killed_leaves_nothing_beside_its_places_once_it_is_applied_again() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let sha = |text: &str| Some(FileContent { sha256: sha256(text.as_bytes()), exec: false });
    fs::create_dir(root.join("sub")).unwrap();
    fs::write(root.join("a"), "old").unwrap();
    let left = [agon::temp_names::name(), format!("sub/{}", agon::temp_names::name())];
    left.iter().for_each(|name| fs::write(root.join(name), "new").unwrap());
    let changes = [("a", sha("old")), ("sub/b", None)];
    let changes = changes.map(|(path, before)| FileChange { path: path.into(), before, after: sha("new") });
    let files = WorkspaceFiles::open(root).unwrap();
    files.patch(&changes, &mut |_| Ok(b"new".to_vec())).unwrap();
    let all = snapshot(root);
    assert_eq!(all.keys().map(String::as_str).collect::<Vec<_>>(), ["", "a", "sub", "sub/b"]);
}

#[test]
fn a_patch_writes_no_path_a_tool_could_not_write() {
    let folder = tempfile::tempdir().unwrap();
    for path in [
        "../x",
        "/etc/x",
        "a/../b",
        "./a",
        "",
        ".git/hooks/post-commit",
        ".agon/config.toml",
        "AGENTS.md",
        ".GIT/x",
    ] {
        let plan = [
            Planned { path: "a0".to_owned(), before: None, after: Some(("new".to_owned(), false)) },
            Planned { path: path.to_owned(), before: None, after: Some(("new".to_owned(), false)) },
        ];
        assert!(apply(folder.path(), &plan).is_err(), "{path}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{path}");
    }
    let twice = Planned { path: "a".to_owned(), before: None, after: Some(("new".to_owned(), false)) };
    assert!(apply(folder.path(), &[twice.clone(), twice]).unwrap_err().to_string().contains("twice"));
}

#[test]
fn a_link_on_the_way_is_not_followed() {
    let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    symlink(outside.path(), folder.path().join("dir")).unwrap();
    let plan = [
        Planned { path: "a".to_owned(), before: None, after: Some(("new".to_owned(), false)) },
        Planned { path: "dir/x".to_owned(), before: None, after: Some(("new".to_owned(), false)) },
    ];
    assert!(apply(folder.path(), &plan).is_err());
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    assert!(!folder.path().join("a").exists());
}

#[test]
fn permissions_of_others_are_kept_and_the_executable_bit_follows_the_run() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "tool", "old", false);
    fs::set_permissions(folder.path().join("tool"), fs::Permissions::from_mode(0o640)).unwrap();
    let old = || Some(("old".to_owned(), false));
    let plan = [Planned { path: "tool".to_owned(), before: old(), after: Some(("new".to_owned(), true)) }];
    apply(folder.path(), &plan).unwrap();
    assert_eq!(fs::metadata(folder.path().join("tool")).unwrap().permissions().mode() & 0o777, 0o750);
}
