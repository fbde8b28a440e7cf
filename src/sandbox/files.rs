//! The workspace's files as tools may see them: every operation resolved beneath the root; knows no policy.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{AtFlags, Dir, FileType, Stat};
use sha2::{Digest, Sha256};

use super::beneath::{self, Beneath, io_error, shown};
use super::link_targets::Leads;
use super::protected::ProtectedNames;
use super::{patch, protected, protected_snapshot, walk, write};
use crate::ports::{DirEntry, FileChange, FileError, FileKind, Files, Visited};
use crate::protocol::event::PathBase;
use crate::protocol::expand::hex;
use crate::protocol::text::quoted;

/// One workspace, held open.
#[derive(Debug)]
pub struct WorkspaceFiles {
    root: PathBuf,
    aliases: Vec<PathBuf>,
    beneath: Beneath,
    protected: ProtectedNames,
    opened: SystemTime,
}

impl WorkspaceFiles {
    /// Opens a workspace. The root may be a link; it is resolved here, once.
    pub fn open(root: &Path) -> Result<Self, FileError> {
        let failed = |error: std::io::Error| FileError::Io {
            path: root.display().to_string(),
            error: format!("the workspace cannot be opened: {error}"),
        };
        let real = std::fs::canonicalize(root).map_err(failed)?;
        let beneath = Beneath::open(&real).map_err(failed)?;
        let aliases = vec![real.clone(), root.to_owned()];
        let (protected, opened) = (ProtectedNames::default(), SystemTime::now());
        Ok(WorkspaceFiles { root: real, aliases, beneath, protected, opened })
    }

    /// The same with these names protected.
    pub fn protecting(self, protected: ProtectedNames) -> Self {
        WorkspaceFiles { protected, ..self }
    }

    /// The real path of the root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The real path of a directory in the workspace, after it was opened beneath the root.
    pub fn directory(&self, path: &str) -> Result<PathBuf, FileError> {
        let path = self.canonical(path)?;
        self.beneath.directory(&path)?;
        Ok(self.root.join(path))
    }

    /// Refuses the root, protected names, and what they lead to; gives directory and last name.
    fn refuse_name<'p>(&self, path: &'p str) -> Result<(&'p str, &'p str), FileError> {
        let split = refuse_name(path, &self.protected)?;
        let asked = Path::new(path);
        let is_end = |end: &PathBuf| asked.starts_with(end);
        let leads = protected_snapshot::protected_now(&self.root, &self.protected)
            .into_iter()
            .map(|name| Leads::of(&self.root, &name));
        let is_led_to = leads.into_iter().any(|leads| leads.targets.iter().chain(&leads.absent).any(is_end));
        if is_led_to {
            return Err(FileError::Protected { path: path.to_owned(), reason: protected::LED_TO });
        }
        self.refuse_repository(&[path]).map(|()| split)
    }

    /// Refuses what lies in a repository that is not called `.git`, and what would make one: nobody has looked at its
    /// configuration, and git runs what stands there.
    fn refuse_repository(&self, paths: &[&str]) -> Result<(), FileError> {
        let mut made: BTreeMap<&Path, BTreeSet<&OsStr>> = BTreeMap::new();
        for path in paths {
            for at in Path::new(path).ancestors() {
                if let (Some(folder), Some(name)) = (at.parent(), at.file_name()) {
                    made.entry(folder).or_default().insert(name);
                }
            }
        }
        let is_repository = |(folder, made): &(&Path, BTreeSet<&OsStr>)| {
            protected_snapshot::is_repository_with(&self.root.join(folder), &|name| {
                made.contains(OsStr::new(name))
            })
        };
        let Some((folder, _)) = made.into_iter().find(is_repository) else { return Ok(()) };
        let path = paths.iter().rfind(|path| Path::new(path).starts_with(folder)).unwrap_or(&"");
        Err(FileError::Protected { path: (*path).to_owned(), reason: protected::REPOSITORY })
    }
}

impl Files for WorkspaceFiles {
    fn opened(&self) -> SystemTime {
        self.opened
    }

    fn is_ignored(&self, folder: &str) -> bool {
        walk::is_left_out(&self.root, folder)
    }

    fn canonical(&self, path: &str) -> Result<String, FileError> {
        let asked = Path::new(path);
        // `strip_prefix` compares whole components, so `/work-evil` is not beneath `/work`.
        let relative = match asked.is_absolute() {
            false => asked,
            true => self
                .aliases
                .iter()
                .find_map(|root| asked.strip_prefix(root).ok())
                .ok_or_else(|| FileError::Outside(path.to_owned()))?,
        };
        let mut parts: Vec<&str> = Vec::new();
        for component in relative.components() {
            match component {
                Component::CurDir => {}
                // Exact, because no operation ever goes through a link.
                Component::ParentDir => {
                    parts.pop().ok_or_else(|| FileError::Outside(path.to_owned()))?;
                }
                Component::Normal(name) => parts.extend(name.to_str()),
                Component::RootDir | Component::Prefix(_) => return Err(FileError::Outside(path.to_owned())),
            }
        }
        Ok(parts.join("/"))
    }

    fn read(&self, path: &str, max: u64) -> Result<Vec<u8>, FileError> {
        let file = self.open(path)?;
        let bytes = file.metadata().map_err(|e| io_error(path, e))?.len();
        let mut content = Vec::new();
        if bytes <= max {
            file.take(max.saturating_add(1)).read_to_end(&mut content).map_err(|e| io_error(path, e))?;
        }
        let bytes = bytes.max(content.len() as u64);
        match bytes > max {
            true => Err(FileError::TooLarge { path: path.to_owned(), bytes, max }),
            false => Ok(content),
        }
    }

    fn digest(&self, path: &str) -> Result<Option<String>, FileError> {
        match self.open(path) {
            Ok(file) => digest(file).map(Some).map_err(|e| io_error(path, e)),
            Err(FileError::Missing(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn open(&self, path: &str) -> Result<File, FileError> {
        self.beneath.file(&self.canonical(path)?)
    }

    fn check_write(&self, path: &str) -> Result<(), FileError> {
        let path = self.canonical(path)?;
        let (parent, name) = self.refuse_name(&path)?;
        match self.beneath.directory(parent) {
            Ok(directory) => write::replaceable(directory.as_fd(), name, &path).map(|_| ()),
            Err(FileError::Missing(_)) => Ok(()),
            Err(error) => Err(beneath::renamed(error, &path)),
        }
    }

    fn write(&self, path: &str, content: &[u8], base: &PathBase) -> Result<(), FileError> {
        let path = self.canonical(path)?;
        let (parent, name) = self.refuse_name(&path)?;
        let directory =
            self.beneath.make_directory(parent).map_err(|error| beneath::renamed(error, &path))?;
        write::replace(directory.as_fd(), name, &path, content, base.sha256.as_deref())
    }

    fn patch(
        &self,
        changes: &[FileChange],
        content: &mut dyn FnMut(&str) -> Result<Vec<u8>, String>,
    ) -> Result<Vec<String>, FileError> {
        for change in changes {
            if self.canonical(&change.path)? != change.path {
                return Err(FileError::Outside(change.path.clone()));
            }
            self.refuse_name(&change.path)?;
        }
        self.refuse_repository(&changes.iter().map(|change| change.path.as_str()).collect::<Vec<_>>())?;
        match changes.windows(2).find(|pair| pair[0].path >= pair[1].path) {
            Some(pair) => {
                Err(FileError::Io { path: pair[1].path.clone(), error: "it is changed twice".to_owned() })
            }
            None => patch::apply(&self.beneath, changes, content),
        }
    }

    fn list(&self, path: &str) -> Result<Vec<DirEntry>, FileError> {
        let path = self.canonical(path)?;
        let directory = self.beneath.directory(&path)?;
        let mut entries = Vec::new();
        for entry in Dir::read_from(&directory).map_err(|e| io_error(&path, e))? {
            let entry = entry.map_err(|e| io_error(&path, e))?;
            let name = match entry.file_name().to_str() {
                Ok("." | "..") => continue,
                Ok(name) => name,
                Err(_) => {
                    let shown = quoted(entry.file_name().to_bytes());
                    entries.push(DirEntry { path: join(&path, &shown), kind: FileKind::Unnamed, bytes: 0 });
                    continue;
                }
            };
            // A name that vanished in between is no longer there to be listed.
            let Ok(stat) = rustix::fs::statat(&directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
            else {
                continue;
            };
            entries.push(entry_of(join(&path, name), &stat));
        }
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(entries)
    }

    fn walk(&self, path: &str, max: usize) -> Result<(Vec<DirEntry>, bool), FileError> {
        let path = self.canonical(path)?;
        walk::files((&self.root, &self.beneath), &path, max)
    }

    fn visit(&self, path: &str, visit: &(dyn Fn(Visited<'_>) -> bool + Sync)) -> Result<bool, FileError> {
        walk::visit((&self.root, &self.beneath), &self.canonical(path)?, visit)
    }
}

/// SHA-256 of what is left in a reader, in hex.
pub fn digest(mut reader: impl Read) -> std::io::Result<String> {
    let mut hasher = Sha256::new();
    let mut block = vec![0; 64 * 1024];
    loop {
        match reader.read(&mut block) {
            Ok(0) => return Ok(hex(&hasher.finalize())),
            Ok(n) => hasher.update(&block[..n]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Refuses the root and protected names; gives directory and last name.
fn refuse_name<'p>(path: &'p str, protected: &ProtectedNames) -> Result<(&'p str, &'p str), FileError> {
    if path.is_empty() {
        return Err(FileError::Directory(shown(path)));
    }
    match protected.reason(path) {
        Some(reason) => Err(FileError::Protected { path: path.to_owned(), reason }),
        None => Ok(beneath::split(path)),
    }
}

fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

fn entry_of(path: String, stat: &Stat) -> DirEntry {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Link,
        _ => FileKind::Special,
    };
    let bytes = if kind == FileKind::Directory { 0 } else { u64::try_from(stat.st_size).unwrap_or(0) };
    DirEntry { path, kind, bytes }
}
