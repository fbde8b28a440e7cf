//! The workspace's files (paths that try to leave, writes that must be atomic), and what every kind of sandbox
//! has to keep.

#[cfg(target_os = "linux")]
mod attacks;
#[cfg(target_os = "linux")]
mod builds;
#[cfg(target_os = "linux")]
mod consent;
pub(crate) mod contract;
#[cfg(target_os = "linux")]
mod day;
pub(crate) mod escapes;
#[cfg(target_os = "linux")]
mod git;
mod git_settings;
#[cfg(target_os = "linux")]
mod holder;
mod hostile_git;
#[cfg(target_os = "linux")]
mod left;
pub(crate) mod linked;
#[cfg(target_os = "linux")]
mod local;
#[cfg(target_os = "linux")]
mod machine;
#[cfg(target_os = "linux")]
mod named;
#[cfg(target_os = "linux")]
mod network;
mod odd_names;
#[cfg(target_os = "linux")]
mod packages;
pub(crate) mod person;
mod proxy;
#[cfg(target_os = "linux")]
mod together;
#[cfg(target_os = "linux")]
mod toolchains;
pub(crate) mod worktree;

pub(crate) mod docker;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agon::ports::{FileError, FileKind, Files};
use agon::protocol::event::PathBase;
use agon::sandbox::Unconfined;
use agon::sandbox::files::WorkspaceFiles;
use agon::sandbox::proof::{self, ACTS, Stage, Verdict};
use tempfile::TempDir;

/// A workspace `ws` with something secret beside it.
struct Place {
    folder: TempDir,
    files: WorkspaceFiles,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("ws")).unwrap();
        fs::create_dir(folder.path().join("ws-evil")).unwrap();
        fs::write(folder.path().join("ws-evil/secret"), "secret").unwrap();
        let files = WorkspaceFiles::open(&folder.path().join("ws")).unwrap();
        Place { folder, files }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("ws")
    }

    fn secret(&self) -> PathBuf {
        self.folder.path().join("ws-evil/secret")
    }

    fn put(&self, path: &str, content: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn write(&self, path: &str, content: &str) -> Result<(), FileError> {
        let base = PathBase { path: path.into(), sha256: self.files.digest(path)? };
        self.files.write(path, content.as_bytes(), &base)
    }

    fn text(&self, path: &str) -> Result<String, FileError> {
        self.files.read(path, 1 << 20).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    /// No temporary file may stay behind, whatever happened.
    fn assert_no_leftovers(&self) {
        let (entries, _) = self.files.walk("", 100_000).unwrap();
        let leftovers: Vec<_> = entries.iter().filter(|e| e.path.contains(".agon-")).collect();
        assert!(leftovers.is_empty(), "{leftovers:?}");
    }
}

fn base(sha256: Option<String>) -> PathBase {
    PathBase { path: String::new(), sha256 }
}

#[test]
fn a_workspace_that_is_not_there_is_named() {
    let error = WorkspaceFiles::open(Path::new("/nowhere/at all")).unwrap_err().to_string();
    assert!(error.contains("/nowhere/at all") && error.contains("the workspace cannot be opened"), "{error}");
    let file = tempfile::NamedTempFile::new().unwrap();
    assert!(WorkspaceFiles::open(file.path()).is_err());
}

#[test]
fn paths_are_written_in_one_way() {
    let place = Place::new();
    let root = place.root();
    let real = fs::canonicalize(&root).unwrap();
    for (asked, expected) in [
        ("", ""),
        (".", ""),
        ("a//b/./c/", "a/b/c"),
        ("a/../b", "b"),
        (root.to_str().unwrap(), ""),
        (&format!("{}/x/y", root.display()), "x/y"),
        (&format!("{}/x", real.display()), "x"),
    ] {
        assert_eq!(place.files.canonical(asked).unwrap(), expected, "{asked}");
    }
    for asked in [
        "..",
        "a/../../b",
        "/",
        "/etc/passwd",
        &format!("{}-evil/secret", root.display()),
        "../ws-evil/secret",
    ] {
        assert_eq!(place.files.canonical(asked), Err(FileError::Outside(asked.to_owned())), "{asked}");
        assert!(place.files.read(asked, 100).is_err(), "{asked}");
        assert!(place.write(asked, "x").is_err(), "{asked}");
    }
}

#[test]
fn the_root_may_be_a_link() {
    let place = Place::new();
    place.put("a", "1");
    let alias = place.folder.path().join("alias");
    symlink(place.root(), &alias).unwrap();
    let files = WorkspaceFiles::open(&alias).unwrap();
    assert_eq!(files.read(alias.join("a").to_str().unwrap(), 10).unwrap(), b"1");
    assert_eq!(files.read(&place.root().join("a").to_string_lossy(), 10).unwrap(), b"1");
}

#[test]
fn links_are_never_followed() {
    let place = Place::new();
    place.put("inside/file", "1");
    let root = place.root();
    symlink(place.secret(), root.join("to_file")).unwrap();
    symlink(place.folder.path().join("ws-evil"), root.join("to_dir")).unwrap();
    symlink("../ws-evil", root.join("relative")).unwrap();
    symlink("/nowhere", root.join("dangling")).unwrap();
    symlink(place.folder.path().join("ws-evil/new"), root.join("to_new")).unwrap();
    for path in ["to_file", "to_dir/secret", "relative/secret", "dangling", "to_new"] {
        assert_eq!(place.files.read(path, 100), Err(FileError::Outside(path.into())), "read {path}");
        let written = place.files.write(path, b"x", &base(None));
        assert_eq!(written, Err(FileError::Outside(path.into())), "write {path}");
        assert_eq!(place.files.check_write(path), Err(FileError::Outside(path.into())), "check {path}");
    }
    assert!(place.files.write("to_dir/made/new", b"x", &base(None)).is_err());
    assert!(place.files.list("to_dir").is_err() && place.files.walk("to_dir", 10).is_err());
    symlink("inside/file", root.join("harmless")).unwrap();
    let error = place.text("harmless").unwrap_err().to_string();
    assert!(error.contains("symbolic link to `inside/file`"), "{error}");
    assert_eq!(fs::read_dir(place.folder.path().join("ws-evil")).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(place.secret()).unwrap(), "secret");
    place.assert_no_leftovers();
}

#[test]
fn a_file_with_two_names_is_read_but_not_written() {
    let place = Place::new();
    fs::hard_link(place.secret(), place.root().join("hard")).unwrap();
    assert_eq!(place.text("hard").unwrap(), "secret");
    assert_eq!(place.write("hard", "x"), Err(FileError::Special("hard".into())));
    assert_eq!(place.files.check_write("hard"), Err(FileError::Special("hard".into())));
    assert_eq!(fs::read_to_string(place.secret()).unwrap(), "secret");
}

#[test]
fn special_files_are_refused_without_waiting() {
    let place = Place::new();
    let root = place.root();
    let made = std::process::Command::new("mkfifo").arg(root.join("pipe")).status().unwrap();
    assert!(made.success());
    let _socket = UnixListener::bind(root.join("socket")).unwrap();
    let mut special = vec!["pipe", "socket"];
    // Only root may make a device.
    let device = std::process::Command::new("mknod").arg(root.join("null")).args(["c", "1", "3"]).output();
    if device.is_ok_and(|output| output.status.success()) {
        special.push("null");
    }
    for path in special {
        assert_eq!(place.files.read(path, 100), Err(FileError::Special(path.into())), "{path}");
        let written = place.files.write(path, b"x", &base(None));
        assert_eq!(written, Err(FileError::Special(path.into())), "{path}");
    }
    assert_eq!(place.files.read("", 100), Err(FileError::Directory(".".into())));
    assert_eq!(place.files.read("missing/file", 100), Err(FileError::Missing("missing/file".into())));
    place.put("file", "1");
    let error = place.text("file/x").unwrap_err().to_string();
    assert!(error.contains("`file` is not a directory"), "{error}");
}

#[test]
fn protected_names_are_refused_in_any_case_present_or_not() {
    let place = Place::new();
    place.put(".git/config", "[core]");
    for path in [
        ".git/config",
        ".GIT/config",
        ".Git/hooks/pre-commit",
        "deep/.git",
        ".agon/config.toml",
        ".Agon/x",
        ".github/workflows/ci.yml",
        ".GitHub/Workflows/new.yml",
        "AGENTS.md",
        "sub/agents.MD",
        "CLAUDE.md",
        "a/../.git/config",
        "./.git/config",
    ] {
        let refused = place.files.write(path, b"x", &base(None)).unwrap_err();
        assert!(matches!(refused, FileError::Protected { .. }), "{path}: {refused}");
        assert!(matches!(place.files.check_write(path), Err(FileError::Protected { .. })), "{path}");
    }
    assert_eq!(fs::read_to_string(place.root().join(".git/config")).unwrap(), "[core]");
    assert!(!place.root().join(".agon").exists() && !place.root().join("sub").exists());
    assert_eq!(place.text(".git/config").unwrap(), "[core]");
}

#[test]
fn writes_make_directories_keep_modes_and_check_their_base() {
    let place = Place::new();
    place.write("a/b/c", "one").unwrap();
    assert_eq!(place.text("a/b/c").unwrap(), "one");
    place.put("tool", "old");
    let tool = place.root().join("tool");
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o750)).unwrap();
    place.write("tool", "new").unwrap();
    assert_eq!(fs::metadata(&tool).unwrap().mode() & 0o7777, 0o750);
    let stale = place.files.digest("tool").unwrap();
    place.put("tool", "other");
    let changed = Err(FileError::Changed("tool".into()));
    assert_eq!(place.files.write("tool", b"mine", &base(stale.clone())), changed);
    assert_eq!(place.files.write("tool", b"mine", &base(None)), changed);
    assert_eq!(place.text("tool").unwrap(), "other");
    fs::remove_file(&tool).unwrap();
    assert_eq!(place.files.write("tool", b"mine", &base(stale)), changed);
    assert!(!tool.exists());
    assert_eq!(place.write("a", "x"), Err(FileError::Directory("a".into())));
    assert_eq!(place.files.write("", b"x", &base(None)), Err(FileError::Directory(".".into())));
    place.assert_no_leftovers();
}

#[test]
fn a_directory_that_is_swapped_for_a_link_lets_nothing_out() {
    let place = Place::new();
    let (root, evil) = (place.root(), place.folder.path().join("ws-evil"));
    fs::create_dir(root.join("swap")).unwrap();
    symlink(&evil, root.join("link")).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let swapper = std::thread::spawn({
        let (stop, root) = (stop.clone(), root.clone());
        move || {
            let mut swaps = 0_u32;
            while !stop.load(Ordering::Relaxed) {
                // One exchange per round: `swap` is the directory, then the link, and so on.
                let at = rustix::fs::CWD;
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                if rustix::fs::renameat_with(at, root.join("swap"), at, root.join("link"), flags).is_ok() {
                    swaps += 1;
                }
            }
            swaps
        }
    });
    let (mut inside, mut refused) = (0, 0);
    for round in 0..2_000 {
        let path = format!("swap/file{}", round % 7);
        match place.write(&path, "mine") {
            Ok(()) => inside += 1,
            Err(_) => refused += 1,
        }
        if let Ok(text) = place.text("swap/secret") {
            panic!("read {text} in round {round}");
        }
    }
    stop.store(true, Ordering::Relaxed);
    let swaps = swapper.join().unwrap();
    assert_eq!(inside + refused, 2_000);
    assert!(swaps > 0, "the file system cannot exchange names");
    let outside: Vec<_> = fs::read_dir(&evil).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(outside, ["secret"]);
}

#[test]
fn reading_is_bounded_and_listing_sorted() {
    let place = Place::new();
    place.put("b", "12345");
    place.put("a/x", "1");
    symlink("b", place.root().join("c")).unwrap();
    let too_large = FileError::TooLarge { path: "b".into(), bytes: 5, max: 4 };
    assert_eq!(place.files.read("b", 4), Err(too_large));
    assert_eq!(place.files.read("b", 5).unwrap(), b"12345");
    let listed: Vec<_> = place
        .files
        .list("")
        .unwrap()
        .into_iter()
        .map(|entry| (entry.path, entry.kind, entry.bytes))
        .collect();
    assert_eq!(listed[0], ("a".into(), FileKind::Directory, 0));
    assert_eq!(listed[1], ("b".into(), FileKind::File, 5));
    assert_eq!((listed[2].0.as_str(), listed[2].1), ("c", FileKind::Link));
    assert_eq!(place.files.list("a").unwrap()[0].path, "a/x");
    assert_eq!(place.files.digest("nothing"), Ok(None));
}

#[test]
fn walking_honours_ignore_rules_and_hides_private_folders() {
    let place = Place::new();
    for path in
        [".gitignore", "src/a.rs", "src/.hidden", "target/x", ".git/config", ".agon/x", "src/b.log", "z"]
    {
        place.put(path, "");
    }
    place.put(".gitignore", "target\n*.log\n");
    let walk = |path: &str, max| {
        let (entries, more) = place.files.walk(path, max).unwrap();
        (entries.into_iter().map(|entry| entry.path).collect::<Vec<_>>(), more)
    };
    assert_eq!(walk("", 100).0, [".gitignore", "src/.hidden", "src/a.rs", "z"]);
    assert_eq!(walk("src", 100).0, ["src/.hidden", "src/a.rs"]);
    assert_eq!(walk("target", 100).0, ["target/x"], "named outright");
    assert_eq!(walk("", 2), (vec![".gitignore".into(), "src/.hidden".into()], true));
}

/// The kind `none`: the contract holds, and every forbidden act succeeds, or the table would prove nothing.
mod unconfined {
    use super::contract::{Opened, contract};
    use super::*;

    async fn open() -> Option<Opened> {
        Some(Opened::new(|root| Arc::new(Unconfined::open(root).unwrap())))
    }

    contract!(open);

    #[tokio::test]
    async fn every_forbidden_act_succeeds_and_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let _alone = super::escapes::TABLE.lock().await;
        let stage = Stage::set(folder.path()).unwrap();
        let sandbox = Unconfined::open(&stage.workspace()).unwrap();
        for act in ACTS {
            let is_possible = match act.id {
                // 1,500 processes are too many for a machine that does other things; a network and the right
                // to write the system's folders are not everywhere.
                "fork_bomb" | "dns" | "write_system" => continue,
                // Yama and the absence of perl decide.
                "ptrace" => continue,
                _ => true,
            };
            let proof = proof::attempt(act, &stage, &sandbox).await;
            let succeeded = matches!(proof.verdict, Verdict::Succeeded(_));
            let lacks = matches!(proof.verdict, Verdict::NotTried(_));
            assert!(succeeded == is_possible || lacks, "{proof:?}");
            put_back(&stage);
        }
    }

    /// Later acts need what earlier ones have broken.
    fn put_back(stage: &Stage) {
        fs::write(stage.outside().join("secret"), stage.token()).unwrap();
        let _ = fs::remove_file(stage.outside().join("made"));
        for folder in [".git/hooks", ".agon"] {
            fs::create_dir_all(stage.workspace().join(folder)).unwrap();
        }
        for (name, text) in [
            (".git/config", "[core]\n"),
            (".agon/config.toml", "# of the proof\n"),
            ("AGENTS.md", "Be kind.\n"),
        ] {
            let _ = fs::remove_file(stage.workspace().join(name));
            fs::write(stage.workspace().join(name), text).unwrap();
        }
        let _ = fs::remove_file(stage.workspace().join(".git/hooks/pre-commit"));
    }
}
