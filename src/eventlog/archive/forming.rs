//! A session that is being copied together: it gets its name when it is whole, or is cleared away.

use std::path::PathBuf;
use std::sync::Arc;

use crate::eventlog::fs::{Access, LogFile, write_all_at};
use crate::eventlog::open::Site;
use crate::eventlog::reader::{Ending, EntryReader};
use crate::eventlog::writer::{Marks, SessionLog, Start};
use crate::eventlog::{LogError, SessionStore};
use crate::protocol::Entry;

/// Bytes gathered before they are written.
const CHUNK: usize = 256 * 1024;

/// The unfinished session under its temporary name.
pub(super) struct Forming<'a> {
    store: &'a SessionStore,
    id: &'a str,
    folder: PathBuf,
    file: Arc<dyn LogFile>,
    lock: Arc<dyn LogFile>,
    buffer: Vec<u8>,
    written: u64,
    marks: Marks,
    named: bool,
}

impl<'a> Forming<'a> {
    pub fn new(store: &'a SessionStore, id: &'a str) -> Result<Self, LogError> {
        if store.fs().exists(&store.site(id).folder) {
            return Err(LogError::Exists(id.to_owned()));
        }
        let folder = store.sessions().join(format!(".forming-{id}"));
        store.create_folder(&folder)?;
        let site = Site { folder: folder.clone(), ..store.site(id) };
        let lock = site.lock()?;
        let path = site.log();
        if store.fs().exists(&path) {
            // Nobody holds the lock: left by a process that died.
            store.fs().remove_file(&path).map_err(LogError::io(&path))?;
        }
        let file = store.fs().open(&path, Access::CreateNew).map_err(LogError::io(&path))?;
        let (buffer, marks) = (Vec::new(), Marks::default());
        Ok(Forming { store, id, folder, file, lock, buffer, written: 0, marks, named: false })
    }

    /// Takes over the reader's next line; gives its entry, none at the end.
    pub fn copy(&mut self, reader: &mut EntryReader) -> Result<Option<Entry>, LogError> {
        let offset = reader.ending().len;
        let Some(line) = reader.next_line()? else { return Ok(None) };
        let entry = line.entry()?;
        self.marks.note(line.header.seq, offset);
        self.buffer.extend_from_slice(line.bytes);
        if self.buffer.len() >= CHUNK {
            self.flush()?;
        }
        Ok(Some(entry))
    }

    fn flush(&mut self) -> Result<(), LogError> {
        write_all_at(&*self.file, &self.buffer, self.written).map_err(LogError::io(&self.folder))?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Makes it durable and gives it its name.
    pub fn finish(mut self, ending: &Ending) -> Result<Formed, LogError> {
        self.flush()?;
        self.file.sync_data().map_err(LogError::io(&self.folder))?;
        let fs = self.store.fs();
        fs.sync_dir(&self.folder).map_err(LogError::io(&self.folder))?;
        let site = self.store.site(self.id);
        if fs.exists(&site.folder) {
            return Err(LogError::Exists(self.id.to_owned()));
        }
        fs.rename(&self.folder, &site.folder).map_err(LogError::io(&site.folder))?;
        self.named = true;
        self.store.sync_folder(&site.folder)?;
        let (file, lock) = (Arc::clone(&self.file), Arc::clone(&self.lock));
        let ending = Ending { unfinished: 0, ..ending.clone() };
        Ok(Formed(Start { site, file, lock, ending, marks: std::mem::take(&mut self.marks) }))
    }
}

impl Drop for Forming<'_> {
    fn drop(&mut self) {
        if !self.named {
            // Best effort: a leftover is never listed and is replaced by the next attempt.
            let _ = self.store.fs().remove_dir(&self.folder);
        }
    }
}

/// A copied session that stands under its name, locked.
pub(super) struct Formed(Start);

impl Formed {
    pub fn start(self) -> Result<SessionLog, LogError> {
        SessionLog::start(self.0)
    }
}
