//! Notes of calls that run, so that what a call made of protected names is set aside also when agon was ended in the
//! middle of it; knows no kind of sandbox.
//!
//! A note is held locked as long as its call runs. The kernel frees the lock however agon ends, and the next agon
//! that starts settles what the note says and takes it away.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::masks::Kind;
use super::protected::ProtectedNames;
use super::protected_snapshot::{Maker, ProtectedSnapshot, Same, SetAside, set_aside};

/// The folder of a state folder's notes.
pub fn notes_of(state: &Path) -> PathBuf {
    state.join("calls")
}

/// Makes the folder, which must be there before the first call. An error is one of the state folder.
pub fn make(folder: &Path) -> Result<(), String> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| {
        let folder = folder.display();
        format!("agon's own files cannot be kept in `{folder}`: {error}; let AGON_HOME name a folder you can write")
    })
}

/// What is written down: names need not be text.
#[derive(Serialize, Deserialize)]
struct Written {
    root: OsString,
    /// What the configuration protected besides.
    #[serde(default)]
    protected: Vec<String>,
    names: Vec<OsString>,
    links: Vec<(OsString, OsString)>,
    absent: Vec<OsString>,
    #[serde(default)]
    covered: Vec<(OsString, Kind, Same)>,
}

/// The note of one call. Dropped without [`Note::done`] it stays, for whoever starts next.
#[derive(Debug)]
pub struct Note {
    path: PathBuf,
    _file: File,
}

/// How the words begin that a note cannot be kept: no fault of the machine's or of a sandbox.
pub const NOT_KEPT: &str = "agon cannot write its own folder";

impl Note {
    /// Writes down how the names of a workspace stand before a call. An error is one of the state folder.
    pub fn write(folder: &Path, root: &Path, before: &ProtectedSnapshot) -> Result<Self, String> {
        let path = folder.join(format!("{}.json", uuid::Uuid::now_v7().simple()));
        let failed = |error: std::io::Error| {
            let folder = folder.display();
            format!("{NOT_KEPT} `{folder}`: {error}; make it writable, or set AGON_HOME to another folder")
        };
        let os = |path: &PathBuf| path.as_os_str().to_owned();
        let written = Written {
            root: root.as_os_str().to_owned(),
            protected: before.protected.added().to_vec(),
            names: before.names.iter().map(os).collect(),
            links: before.links.iter().map(|(path, to)| (os(path), os(to))).collect(),
            absent: before.absent.iter().map(os).collect(),
            covered: before.covered.iter().map(|(path, (kind, same))| (os(path), *kind, *same)).collect(),
        };
        let text = serde_json::to_vec(&written).map_err(|error| failed(error.into()))?;
        make(folder)?;
        // It gets its name once it is locked and whole: nobody else settles it before.
        let new = path.with_extension("new");
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new).map_err(failed)?;
        // A file system without locks: then the note of a running call may be settled early, which harms nothing
        // but what the call has made of protected names.
        let _ = flock(&file, FlockOperation::LockExclusive);
        let written = file.write_all(&text).and_then(|()| fs::rename(&new, &path));
        written.map_err(|error| {
            let _ = fs::remove_file(&new);
            failed(error)
        })?;
        Ok(Note { path, _file: file })
    }

    /// The call is over. What stands there still is settled by whoever starts next.
    pub fn done(self, set: &SetAside) {
        if set.stuck.is_empty() {
            // One that stays is settled once more, and finds nothing.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Settles what calls left whose agon is gone. Gives a line for each name that was set aside, for people. An error
/// where a name in `root` stands there still: what a command made must not be taken for the person's.
pub fn settle(folder: &Path, root: &Path) -> Result<Vec<String>, String> {
    let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    let mut lines = Vec::new();
    let notes = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    for path in notes.filter(|path| path.extension().is_some_and(|extension| extension == "json")) {
        let Some((there, done)) = one(&path) else { continue };
        let told = |line: String| format!("in {}: {line}", there.display());
        if !done.stuck.is_empty() && there == root {
            return Err(format!("{}; rename or remove it", done.lines.join("; ")));
        }
        lines.extend(done.lines.into_iter().map(told));
    }
    Ok(lines)
}

/// Settles one note. It stays as long as something of it stands there.
fn one(path: &Path) -> Option<(PathBuf, SetAside)> {
    let mut file = File::open(path).ok()?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(rustix::io::Errno::WOULDBLOCK) {
        return None;
    }
    let mut text = Vec::new();
    let read = file.read_to_end(&mut text).ok().and_then(|_| serde_json::from_slice::<Written>(&text).ok());
    let settled = read.map(|written| {
        let root = PathBuf::from(written.root);
        let before = ProtectedSnapshot {
            protected: ProtectedNames::with(&written.protected),
            names: written.names.into_iter().map(PathBuf::from).collect(),
            links: written.links.into_iter().map(|(path, to)| (path.into(), to.into())).collect(),
            absent: written.absent.into_iter().map(PathBuf::from).collect(),
            covered: written
                .covered
                .into_iter()
                .map(|(path, kind, same)| (path.into(), (kind, same)))
                .collect(),
        };
        let done = if root.is_dir() { set_aside(&root, &before, Maker::CutOff) } else { SetAside::default() };
        (root, done)
    });
    if settled.as_ref().is_none_or(|(_, done)| done.stuck.is_empty()) {
        let _ = fs::remove_file(path);
    }
    settled
}

#[cfg(test)]
mod tests {
    use super::super::masks::FoundPaths;
    use super::*;

    #[test]
    fn what_a_call_made_that_was_cut_off_is_set_aside_once_and_a_running_ones_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (notes, root) = (folder.path().join("calls"), folder.path().join("ws"));
        fs::create_dir(&root).unwrap();
        let note =
            Note::write(&notes, &root, &ProtectedSnapshot::now(&root, &FoundPaths::default())).unwrap();
        fs::write(root.join("AGENTS.md"), "evil").unwrap();
        assert_eq!(settle(&notes, &root).unwrap(), [] as [&str; 0], "it is running");
        drop(note);
        let told = settle(&notes, &root).unwrap();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("AGENTS.md.untrusted") && told[0].contains("cut off"), "{told:?}");
        assert!(!root.join("AGENTS.md").exists() && fs::read_dir(&notes).unwrap().next().is_none());
        fs::write(root.join("AGENTS.md"), "mine").unwrap();
        let note =
            Note::write(&notes, &root, &ProtectedSnapshot::now(&root, &FoundPaths::default())).unwrap();
        note.done(&SetAside::default());
        assert_eq!(settle(&notes, &root).unwrap(), [] as [&str; 0]);
        assert!(root.join("AGENTS.md").exists());
    }

    #[test]
    fn what_was_replaced_while_a_call_ran_that_was_cut_off_is_told_once() {
        let folder = tempfile::tempdir().unwrap();
        let (notes, root) = (folder.path().join("calls"), folder.path().join("ws"));
        fs::create_dir_all(root.join("sub")).unwrap();
        let names = [("AGENTS.md", Kind::Guarded), ("sub/.env", Kind::Masked), ("sub/same", Kind::Masked)];
        names.iter().for_each(|(name, _)| fs::write(root.join(name), "first").unwrap());
        let names = names.into_iter().map(|(name, kind)| (name.into(), kind)).collect();
        let before = ProtectedSnapshot::now(&root, &FoundPaths { names, ..FoundPaths::default() });
        drop(Note::write(&notes, &root, &before).unwrap());
        for name in ["AGENTS.md", "sub/.env"] {
            fs::write(root.join("new"), "second").unwrap();
            fs::rename(root.join("new"), root.join(name)).unwrap();
        }
        let told = settle(&notes, &root).unwrap();
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(
            told[0].contains("`AGENTS.md` was replaced since a command began that was cut off"),
            "{told:?}"
        );
        assert!(told[1].contains("could read and change it"), "{told:?}");
        assert_eq!(settle(&notes, &root).unwrap(), [] as [&str; 0]);
    }

    #[test]
    fn a_name_that_cannot_be_renamed_refuses_its_workspace_until_it_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let (notes, root) =
            (folder.path().join("calls"), fs::canonicalize(folder.path()).unwrap().join("ws"));
        fs::create_dir(&root).unwrap();
        // No longer name can be had than this.
        let long = "x".repeat(255);
        std::os::unix::fs::symlink(&long, root.join("AGENTS.md")).unwrap();
        drop(Note::write(&notes, &root, &ProtectedSnapshot::now(&root, &FoundPaths::default())).unwrap());
        fs::write(root.join(&long), "evil").unwrap();
        for _ in 0..2 {
            let refused = settle(&notes, &root).unwrap_err();
            assert!(
                refused.contains("stands there still") && refused.contains("rename or remove"),
                "{refused}"
            );
        }
        let told = settle(&notes, folder.path()).unwrap();
        assert!(
            told.len() == 1 && told[0].contains("stands there still"),
            "elsewhere it is only told: {told:?}"
        );
        fs::remove_file(root.join(&long)).unwrap();
        assert_eq!(settle(&notes, &root).unwrap(), [] as [&str; 0]);
        assert!(fs::read_dir(&notes).unwrap().next().is_none());
    }
}
