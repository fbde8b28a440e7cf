//! Copies logs: into a fork, out of the store, into the store; every copied line is the same bytes.
//!
//! An export is the log's bytes in one file, which every verb that reads a log takes as it is. The blobs it
//! names, if any, go into a folder beside it, `<file>.blobs/<sha256>`. An import takes both back, after the
//! chain and every blob's digest were checked.

mod forming;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use self::forming::Forming;
use super::fs::{Access, LogFile, read_full_at, write_all_at};
use super::store::{SessionPath, SessionStore, checked_id};
use super::writer::SessionLog;
use super::{LogError, blobs};
use crate::protocol::expand::is_sha256;
use crate::protocol::{ArenaEvent, Entry};

/// What was copied out of or into the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The session.
    pub session: SessionPath,
    /// Whole entries.
    pub entries: u64,
    /// Blobs that came along.
    pub blobs: u64,
    /// SHA-256 of blobs the log names that were not there or not whole.
    pub missing: Vec<String>,
}

impl SessionStore {
    /// Makes session `id` of entries 0..=`seq` of another, byte for byte, and opens it for writing. Each
    /// copied entry is handed to `fold`. Appending `session_forked` is left to the caller; the chain goes
    /// on from the copied head. What stands in the other log after `seq` is not looked at.
    pub fn fork(
        &self,
        from: &SessionPath,
        seq: u64,
        id: &str,
        fold: &mut dyn FnMut(Entry),
    ) -> Result<SessionLog, LogError> {
        let mut forming = Forming::new(self, checked_id(id)?)?;
        let mut reader = self.read(from)?;
        while reader.ending().count <= seq {
            let Some(entry) = forming.copy(&mut reader)? else {
                return Err(LogError::NoSuchEntry { seq, count: reader.ending().count });
            };
            LogError::newer(&entry).map_or(Ok(()), Err)?;
            fold(entry);
        }
        forming.finish(reader.ending())?.start()
    }

    /// Writes the log's bytes as they are, damaged or not, to the new file `target`, and its blobs beside it. When that
    /// fails, no file is left.
    pub fn export(&self, session: &SessionPath, target: &Path) -> Result<Copied, LogError> {
        let source = self.fs().open(&session.log, Access::Read);
        let source = source.map_err(|error| LogError::opening(&session.id, &session.log, error))?;
        let copy = self.fs().open(target, Access::CreateNew).map_err(LogError::io(target))?;
        let exported = self.export_into(session, (&*source, &*copy), target);
        if exported.is_err() {
            // The first error is the one to tell.
            let _ = self.fs().remove_file(target);
        }
        exported
    }

    fn export_into(
        &self,
        session: &SessionPath,
        (source, copy): (&dyn LogFile, &dyn LogFile),
        target: &Path,
    ) -> Result<Copied, LogError> {
        let size = source.size().map_err(LogError::io(&session.log))?;
        let mut buffer = vec![0; 256 * 1024];
        let mut done = 0;
        while done < size {
            let read = read_full_at(source, &mut buffer, done).map_err(LogError::io(&session.log))?;
            let bytes = buffer.get(..read).filter(|bytes| !bytes.is_empty());
            let Some(bytes) = bytes else { break };
            write_all_at(copy, bytes, done).map_err(LogError::io(target))?;
            done += read as u64;
        }
        copy.sync_data().map_err(LogError::io(target))?;
        let mut names = BTreeSet::new();
        let mut reader = self.read(session)?;
        // Damage ends the search for names, not the export: the bytes are already there.
        while let Ok(Some(entry)) = reader.next_entry() {
            names.extend(named_blobs(&entry));
        }
        let (blobs, missing) = self.copy_blobs_out(&names, &beside(target))?;
        Ok(Copied { session: session.clone(), entries: reader.ending().count, blobs, missing })
    }

    /// Takes an exported log into the store under its own id, which must be free. Its chain must be whole.
    pub fn import(&self, source: &Path) -> Result<Copied, LogError> {
        let found = SessionPath { id: String::new(), log: source.to_owned(), stored: false };
        let (id, names) = self.identify(&found)?;
        let mut forming = Forming::new(self, checked_id(&id)?)?;
        let mut reader = self.read(&found)?;
        while forming.copy(&mut reader)?.is_some() {}
        let ending = reader.ending();
        if ending.unfinished > 0 {
            return Err(LogError::Unfinished { seq: ending.count, bytes: ending.unfinished });
        }
        let (blobs, missing) = self.copy_blobs_in(&names, &beside(source))?;
        forming.finish(ending)?;
        Ok(Copied { session: self.stored(&id), entries: ending.count, blobs, missing })
    }

    /// The id a log goes by, its last fork's or its opening's, and the blobs it names.
    fn identify(&self, found: &SessionPath) -> Result<(String, BTreeSet<String>), LogError> {
        let mut id = None;
        let mut names = BTreeSet::new();
        for entry in self.read(found)? {
            let entry = entry?;
            match entry.fact() {
                Some(ArenaEvent::SessionOpened(opened)) => id = Some(opened.id.clone()),
                Some(ArenaEvent::SessionForked(forked)) => id = Some(forked.id.clone()),
                _ => {}
            }
            names.extend(named_blobs(&entry));
        }
        let empty = || LogError::NotALog(found.log.clone());
        Ok((id.ok_or_else(empty)?, names))
    }

    fn copy_blobs_out(
        &self,
        names: &BTreeSet<String>,
        folder: &Path,
    ) -> Result<(u64, Vec<String>), LogError> {
        let mut missing = Vec::new();
        let mut copied = 0;
        for name in names {
            let Ok(bytes) = self.blob(name) else {
                missing.push(name.clone());
                continue;
            };
            if copied == 0 {
                self.fs().create_dir(folder).map_err(LogError::io(folder))?;
            }
            let path = folder.join(name);
            let write = || -> io::Result<()> {
                let file = self.fs().open(&path, Access::CreateNew)?;
                write_all_at(&*file, &bytes, 0)?;
                file.sync_data()
            };
            write().map_err(LogError::io(&path))?;
            copied += 1;
        }
        Ok((copied, missing))
    }

    fn copy_blobs_in(&self, names: &BTreeSet<String>, folder: &Path) -> Result<(u64, Vec<String>), LogError> {
        let mut missing = Vec::new();
        let mut copied = 0;
        for name in names.iter().filter(|name| self.blob(name).is_err()) {
            let bytes = match is_sha256(name) {
                true => blobs::get(&**self.fs(), &folder.join(name), name).ok().flatten(),
                false => None,
            };
            match bytes {
                None => missing.push(name.clone()),
                Some(bytes) => {
                    let folder = self.blobs();
                    blobs::put(&**self.fs(), &folder, &bytes).map_err(LogError::io(&folder))?;
                    copied += 1;
                }
            }
        }
        Ok((copied, missing))
    }
}

fn named_blobs(entry: &Entry) -> impl Iterator<Item = String> {
    entry.events.iter().flat_map(|event| match event {
        ArenaEvent::ToolResolved(resolved) => resolved.body.blobs().map(str::to_owned).collect(),
        ArenaEvent::MentionExpanded(read) => read.body.images().map(|image| image.sha256.clone()).collect(),
        _ => Vec::new(),
    })
}

fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".blobs");
    PathBuf::from(name)
}
