//! Changes several files beneath the root, all or nothing; knows no tool and no cache.
//!
//! First every file is looked at, then all new contents are written beside their places, and only then are
//! they exchanged with what stands there. An exchange needs no room and shows what was really replaced, so a
//! file that changed meanwhile is noticed, and whatever was exchanged before it is exchanged back.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, RenameFlags};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::beneath::{self, Beneath, io_error, open_file};
use super::files::digest;
use super::write::{replaceable, write_beside};
use crate::ports::{FileChange, FileContent, FileError};
use crate::protocol::expand::hex;
use crate::temp_names;

/// Gives the bytes of a digest.
pub type Source<'a> = &'a mut dyn FnMut(&str) -> Result<Vec<u8>, String>;

/// Applies `changes`, whose paths are canonical, sorted and allowed to be written; gives what was changed.
pub fn apply(
    beneath: &Beneath,
    changes: &[FileChange],
    content: Source<'_>,
) -> Result<Vec<String>, FileError> {
    changes.iter().for_each(|change| clear(beneath, beneath::split(&change.path).0));
    let mut open = Vec::new();
    for change in changes {
        match held(beneath, &change.path)? {
            // Done before it was broken off.
            now if now == change.after => {}
            now if now == change.before => open.push(change),
            _ => return Err(FileError::Changed(change.path.clone())),
        }
    }
    let mut steps = Steps(Vec::new());
    for change in &open {
        steps.0.push(Step::new(change, beneath)?);
        if let Some(step) = steps.0.last_mut() {
            step.stage(beneath, content)?;
        }
    }
    steps.commit()?;
    steps.0.iter().try_for_each(Step::sync)?;
    Ok(open.into_iter().map(|change| change.path.clone()).collect())
}

/// Removes what this very patch left beside its places when its process was killed: nobody else writes here now.
fn clear(beneath: &Beneath, directory: &str) {
    let Ok(directory) = beneath.directory(directory) else { return };
    let names = Dir::read_from(&directory).into_iter().flatten().flatten();
    for name in names.filter(|entry| entry.file_name().to_str().is_ok_and(temp_names::is_one)) {
        let _ = rustix::fs::unlinkat(&directory, name.file_name(), AtFlags::empty());
    }
}

/// All steps of a patch. Let go from the last to the first, so that a directory is empty when its turn comes.
struct Steps<'c>(Vec<Step<'c>>);

impl Steps<'_> {
    fn commit(&mut self) -> Result<(), FileError> {
        for at in 0..self.0.len() {
            let Err(error) = self.0[at].exchange() else { continue };
            let stuck = self.0[..at].iter_mut().rev().filter_map(|step| step.put_back().err());
            let stuck: Vec<String> = stuck.map(|error| error.to_string()).collect();
            return Err(match stuck.is_empty() {
                true => error,
                false => FileError::Io {
                    path: self.0[at].change.path.clone(),
                    error: format!("{error}; before it, {}", stuck.join(", ")),
                },
            });
        }
        Ok(())
    }
}

impl Drop for Steps<'_> {
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
}

/// What an ordinary file holds; none when there is none.
fn held(beneath: &Beneath, path: &str) -> Result<Option<FileContent>, FileError> {
    let (parent, name) = beneath::split(path);
    match beneath.directory(parent) {
        Ok(directory) => held_in(&directory, name, path),
        Err(FileError::Missing(_)) => Ok(None),
        Err(error) => Err(beneath::renamed(error, path)),
    }
}

fn held_in(directory: &OwnedFd, name: &str, path: &str) -> Result<Option<FileContent>, FileError> {
    let Some(stat) = replaceable(directory.as_fd(), name, path)? else { return Ok(None) };
    let file = open_file(directory.as_fd(), name, path)?;
    let sha256 = digest(file).map_err(|error| io_error(path, error))?;
    Ok(Some(FileContent { sha256, exec: stat.st_mode & 0o100 != 0 }))
}

/// One file on its way.
struct Step<'c> {
    change: &'c FileChange,
    directory: OwnedFd,
    /// Directories above the file that were made for it, deepest last.
    made: Vec<(OwnedFd, String)>,
    /// The name beside it: the new content at first, the old one after the exchange.
    beside: String,
    exchanged: bool,
    /// True when the old content could not be put back; it then stays beside its place.
    stuck: bool,
}

impl<'c> Step<'c> {
    fn new(change: &'c FileChange, beneath: &Beneath) -> Result<Self, FileError> {
        let beside = temp_names::name();
        // The real directory follows once it is there.
        let directory = beneath.directory("")?;
        Ok(Step { change, directory, made: Vec::new(), beside, exchanged: false, stuck: false })
    }

    /// Makes its directory and writes the new content beside its place.
    fn stage(&mut self, beneath: &Beneath, content: Source<'_>) -> Result<(), FileError> {
        let path = &self.change.path;
        let (parent, _) = beneath::split(path);
        let Some(after) = &self.change.after else {
            self.directory = beneath.directory(parent).map_err(|error| beneath::renamed(error, path))?;
            return Ok(());
        };
        let bytes = checked(path, after, content)?;
        self.make_missing(beneath, parent).map_err(|error| beneath::renamed(error, path))?;
        self.directory = beneath.directory(parent).map_err(|error| beneath::renamed(error, path))?;
        self.fill(&bytes, after.exec).map_err(|error| io_error(path, error))
    }

    /// Makes the directories of a path that are not there yet and remembers each with its parent.
    fn make_missing(&mut self, beneath: &Beneath, directory: &str) -> Result<(), FileError> {
        let mut at = String::new();
        for name in directory.split('/').filter(|name| !name.is_empty()) {
            let parent = at.clone();
            at = if at.is_empty() { name.to_owned() } else { format!("{at}/{name}") };
            match beneath.directory(&at) {
                Err(FileError::Missing(_)) => {
                    let parent = beneath.directory(&parent)?;
                    beneath.make_directory(&at)?;
                    self.made.push((parent, name.to_owned()));
                }
                found => found.map(drop)?,
            }
        }
        Ok(())
    }

    fn fill(&self, bytes: &[u8], exec: bool) -> std::io::Result<()> {
        // What an existing file lets others do, it goes on letting them; a new one gets what the umask leaves.
        let kept = replaceable(self.directory.as_fd(), self.name(), &self.change.path).ok().flatten();
        let readable = kept.as_ref().map_or(0o666, |stat| stat.st_mode & 0o666);
        let mode = if exec { readable | (readable & 0o444) >> 2 } else { readable };
        write_beside(self.directory.as_fd(), &self.beside, bytes, (kept.as_ref(), mode))
    }

    fn name(&self) -> &str {
        beneath::split(&self.change.path).1
    }

    fn rename(&self, from: &str, to: &str, flags: RenameFlags) -> Result<(), FileError> {
        let done = rustix::fs::renameat_with(&self.directory, from, &self.directory, to, flags);
        done.map_err(|errno| match errno {
            Errno::EXIST | Errno::NOENT => FileError::Changed(self.change.path.clone()),
            errno => io_error(&self.change.path, errno),
        })
    }

    /// Puts the new content in its place and looks at what came out of it.
    fn exchange(&mut self) -> Result<(), FileError> {
        let (name, beside) = (self.name().to_owned(), self.beside.clone());
        match (&self.change.before, &self.change.after) {
            (None, _) => self.rename(&beside, &name, RenameFlags::NOREPLACE)?,
            (Some(_), Some(_)) => self.rename(&beside, &name, RenameFlags::EXCHANGE)?,
            (Some(_), None) => self.rename(&name, &beside, RenameFlags::NOREPLACE)?,
        }
        self.exchanged = true;
        if self.change.before.is_none() {
            return Ok(());
        }
        let out = held_in(&self.directory, &beside, &self.change.path);
        if out.as_ref().is_ok_and(|out| *out == self.change.before) {
            return Ok(());
        }
        self.put_back()?;
        out.and(Err(FileError::Changed(self.change.path.clone())))
    }

    /// Undoes the exchange.
    fn put_back(&mut self) -> Result<(), FileError> {
        let (name, beside) = (self.name().to_owned(), self.beside.clone());
        let undone = match (&self.change.before, &self.change.after) {
            (None, _) => self.rename(&name, &beside, RenameFlags::NOREPLACE),
            (Some(_), Some(_)) => self.rename(&beside, &name, RenameFlags::EXCHANGE),
            (Some(_), None) => self.rename(&beside, &name, RenameFlags::NOREPLACE),
        };
        self.stuck = undone.is_err();
        self.exchanged = self.stuck;
        undone.map_err(|error| FileError::Io {
            path: self.change.path.clone(),
            error: format!("it is not put back ({error}); what it held is in `{beside}` beside it"),
        })
    }

    fn sync(&self) -> Result<(), FileError> {
        let made = self.made.iter().map(|(parent, _)| parent);
        for directory in made.chain([&self.directory]) {
            rustix::fs::fsync(directory).map_err(|errno| io_error(&self.change.path, errno))?;
        }
        Ok(())
    }
}

impl Drop for Step<'_> {
    fn drop(&mut self) {
        if self.stuck {
            return;
        }
        // After the exchange this is the old content, before it the new one, and for a new file nothing.
        let _ = rustix::fs::unlinkat(&self.directory, self.beside.as_str(), AtFlags::empty());
        if !self.exchanged {
            for (parent, name) in self.made.iter().rev() {
                // Only if it is empty: others may use it by now.
                let _ = rustix::fs::unlinkat(parent, name.as_str(), AtFlags::REMOVEDIR);
            }
        }
    }
}

/// The bytes of the new content, held against their digest.
fn checked(path: &str, after: &FileContent, content: Source<'_>) -> Result<Vec<u8>, FileError> {
    let failed = |error: String| FileError::Io { path: path.to_owned(), error };
    let bytes = content(&after.sha256).map_err(failed)?;
    match hex(&Sha256::digest(&bytes)) == after.sha256 {
        true => Ok(bytes),
        false => Err(failed("its new content is not what its digest says".to_owned())),
    }
}
