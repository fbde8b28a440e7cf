//! Opens a session's log for writing: lock, check, fold, set a torn tail aside; decides nothing about it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::fs::{Access, LogFile, LogFs, read_full_at, write_all_at};
use super::reader::{Ending, EntryReader};
use super::writer::{Marks, SessionLog, Start};
use super::{LOCK_NAME, LOG_NAME, LogError};
use crate::protocol::Entry;
use crate::protocol::event::FaultRecovered;
use crate::protocol::expand::hex;

/// Who lists sessions has the lock for a moment while it is looked at: how often and how long that is waited for.
const LOOKS: usize = 4;
const LOOK: Duration = Duration::from_millis(1);

/// A log opened for writing.
pub struct Opened {
    /// The log.
    pub log: SessionLog,
    /// Set when a torn tail was set aside; to be appended as an entry of its own before anything else.
    pub recovered: Option<FaultRecovered>,
}

/// Where one session's files are.
#[derive(Clone)]
pub(super) struct Site {
    pub fs: Arc<dyn LogFs>,
    pub id: String,
    pub folder: PathBuf,
    pub blobs: PathBuf,
}

impl Site {
    pub fn log(&self) -> PathBuf {
        self.folder.join(LOG_NAME)
    }

    /// Takes the writer's lock and writes this process's id into it.
    pub fn lock(&self) -> Result<Arc<dyn LogFile>, LogError> {
        let path = self.folder.join(LOCK_NAME);
        let mut lock = self.fs.try_lock(&path);
        for _ in 0..LOOKS {
            if !matches!(lock, Ok(None)) {
                break;
            }
            std::thread::sleep(LOOK);
            lock = self.fs.try_lock(&path);
        }
        let Some(lock) = lock.map_err(LogError::io(&path))? else {
            return Err(LogError::Held { id: self.id.clone(), pid: self.holder(&path) });
        };
        // The id is for people; a lock file that cannot be written (a full disk) locks all the same.
        let pid = format!("{}\n", std::process::id());
        let _ = lock.set_len(0).and_then(|()| write_all_at(&*lock, pid.as_bytes(), 0));
        Ok(lock)
    }

    fn holder(&self, path: &Path) -> Option<u32> {
        let mut text = [0; 16];
        let read = read_full_at(&*self.fs.open(path, Access::Read).ok()?, &mut text, 0).ok()?;
        std::str::from_utf8(text.get(..read)?).ok()?.trim().parse().ok()
    }
}

/// Opens the log of an existing session for writing, handing every entry to `fold` on the way.
///
/// After an error `fold` has seen the entries before the bad place and should be thrown away.
pub(super) fn open(site: Site, fold: &mut dyn FnMut(Entry)) -> Result<Opened, LogError> {
    let lock = site.lock()?;
    let path = site.log();
    let file =
        site.fs.open(&path, Access::Write).map_err(|error| LogError::opening(&site.id, &path, error))?;
    let mut marks = Marks::default();
    let mut reader = EntryReader::new(path.clone(), Arc::clone(&file), &site.id, site.id.clone());
    read_all(&mut reader, &mut marks, fold)?;
    let ending = reader.ending().clone();
    let recovered = match ending.unfinished {
        0 => None,
        _ => Some(set_aside(&site, &*file, &ending)?),
    };
    // What is read as good must not vanish with the power after it was acted upon.
    file.sync_data().map_err(LogError::io(&path))?;
    let log = SessionLog::start(Start { site, file, lock, ending, marks })?;
    Ok(Opened { log, recovered })
}

/// Reads to the end; refuses a log that this program may read but not continue.
pub(super) fn read_all(
    reader: &mut EntryReader,
    marks: &mut Marks,
    fold: &mut dyn FnMut(Entry),
) -> Result<(), LogError> {
    let mut newer = None;
    loop {
        let offset = reader.ending().len;
        let Some(entry) = reader.next_entry()? else { break };
        marks.note(entry.seq, offset);
        newer = newer.or_else(|| LogError::newer(&entry));
        fold(entry);
    }
    newer.map_or(Ok(()), Err)
}

/// Copies the tail into a file of its own, durably, and only then cuts it off.
fn set_aside(site: &Site, file: &dyn LogFile, ending: &Ending) -> Result<FaultRecovered, LogError> {
    let name =
        (0u32..).map(|n| format!("torn-{n}.bin")).find(|name| !site.fs.exists(&site.folder.join(name)));
    let name = name.unwrap_or_default();
    let kept = site.folder.join(&name);
    let sha256 = copy_tail(site, file, ending, &kept).map_err(LogError::io(&kept))?;
    let path = site.log();
    file.set_len(ending.len).and_then(|()| file.sync_data()).map_err(LogError::io(&path))?;
    Ok(FaultRecovered { dropped_bytes: ending.unfinished, sha256, kept_in: name })
}

fn copy_tail(site: &Site, file: &dyn LogFile, ending: &Ending, kept: &Path) -> std::io::Result<String> {
    let copy = site.fs.open(kept, Access::CreateNew)?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    let mut done = 0;
    while done < ending.unfinished {
        let read = read_full_at(file, &mut buffer, ending.len + done)?;
        let bytes = buffer.get(..read).unwrap_or_default();
        if bytes.is_empty() {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        write_all_at(&*copy, bytes, done)?;
        digest.update(bytes);
        done += read as u64;
    }
    copy.sync_data()?;
    site.fs.sync_dir(&site.folder)?;
    Ok(hex(&digest.finalize()))
}
