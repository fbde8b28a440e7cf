//! What a call left in its layer of a repository, sorted into what is taken over and what is dropped. Nothing in the layer
//! is followed: a command has written it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::super::super::git_index;
use super::place::{GitPlace, UNFINISHED};
use super::refs;
use crate::protocol::text::name_shown;

/// Most bytes of a file that is no object: of one that lists what there is, of a log, and of any other.
const MOST_LIST: u64 = 512 * 1024 * 1024;
const MOST_LOG: u64 = 64 * 1024 * 1024;
const MOST_TEXT: u64 = 16 * 1024 * 1024;
/// What no command of git takes away from a repository, and no folder that it makes again.
const ITSELF: [&str; 5] = ["HEAD", "config", "objects", "refs", "refs/heads"];
/// Files of a work tree that name one object a line.
const OBJECTS_NAMED: [&str; 6] =
    ["AUTO_MERGE", "CHERRY_PICK_HEAD", "MERGE_AUTOSTASH", "MERGE_HEAD", "ORIG_HEAD", "REVERT_HEAD"];
/// Files of a work tree with text.
const TEXTS: [&str; 5] = ["COMMIT_EDITMSG", "FETCH_HEAD", "MERGE_MODE", "MERGE_MSG", "SQUASH_MSG"];
/// What git leaves there and does not need.
const LEFTOVERS: [&str; 6] =
    ["MERGE_RR", "TAG_EDITMSG", "gc.log", "gc.pid", "objects/maintenance.lock", "rr-cache"];

/// Where git-lfs keeps what its pointers stand for.
pub const LFS: &str = "lfs";

/// What a path in a repository's folder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Object,
    Reference,
    Head,
    Index,
    Packed,
    ObjectsNamed,
    Text,
    Log,
    /// Dropped without a word.
    Leftover,
    Foreign,
}

/// What becomes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Write(Vec<u8>),
    Remove,
}

/// What is taken over, by paths in the repository's folder.
#[derive(Debug, Default)]
pub struct Layer {
    pub objects: Vec<PathBuf>,
    /// References, the index and what stands with them.
    pub files: BTreeMap<PathBuf, Change>,
    pub logs: Vec<PathBuf>,
    /// Objects that the files name.
    pub named: BTreeSet<String>,
    /// What is dropped.
    pub dropped: BTreeSet<String>,
}

/// How a file stands: what a later look has to find for it to be replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    File {
        number: u64,
        bytes: u64,
        changed: (i64, i64),
    },
    /// The digest of what an index stages: refreshing it changes nothing that counts.
    Staged([u8; 32]),
}

/// How a file stands now; none where it is not there.
pub fn mark(place: &GitPlace, path: &Path) -> Option<Mark> {
    let file = place.common.join(path);
    let data = fs::symlink_metadata(&file).ok()?;
    if kind(path, place) == Kind::Index
        && let Ok(bytes) = read(&file, MOST_LIST)
        && let Ok(staged) = git_index::staged(&bytes, place.hash.bytes())
    {
        return Some(Mark::Staged(staged));
    }
    Some(Mark::File { number: data.ino(), bytes: data.len(), changed: (data.ctime(), data.ctime_nsec()) })
}

/// How everything stands that a call could change, before it begins.
pub fn marks(place: &GitPlace) -> BTreeMap<PathBuf, Mark> {
    let mut marks = BTreeMap::new();
    let own = ["HEAD", "index"].iter().chain(&OBJECTS_NAMED).chain(&TEXTS).map(|name| place.own.join(name));
    let mut waiting: Vec<PathBuf> =
        own.chain([PathBuf::from("packed-refs"), PathBuf::from("refs")]).collect();
    while let Some(path) = waiting.pop() {
        let file = place.common.join(&path);
        if fs::symlink_metadata(&file).is_ok_and(|data| data.is_dir()) {
            let entries = fs::read_dir(&file).into_iter().flatten().flatten();
            waiting.extend(entries.map(|entry| path.join(entry.file_name())));
        } else if let Some(mark) = mark(place, &path) {
            marks.insert(path, mark);
        }
    }
    marks
}

fn kind(path: &Path, place: &GitPlace) -> Kind {
    let Some(text) = path.to_str() else { return Kind::Foreign };
    if let Some(kind) = path.strip_prefix(&place.own).ok().and_then(Path::to_str).and_then(of_the_work_tree) {
        return kind;
    }
    let parts: Vec<&str> = text.split('/').collect();
    match parts.as_slice() {
        ["packed-refs"] => Kind::Packed,
        ["refs", "bisect" | "rewritten" | "worktree", ..] => Kind::Leftover,
        // Whoever reads the repository afterwards would see one object for another.
        ["refs", "replace", ..] => Kind::Foreign,
        ["refs", _, ..] if refs::is_name(text) => Kind::Reference,
        ["logs", "refs", _, ..] if text.strip_prefix("logs/").is_some_and(refs::is_name) => Kind::Log,
        ["objects", "info", name] if name.starts_with("commit-graph") => Kind::Leftover,
        [LFS, "objects", one, two, name] if is_hex(name, 64) => {
            match [one, two] == [&&name[..2], &&name[2..4]] {
                true => Kind::Object,
                false => Kind::Foreign,
            }
        }
        [LFS, ..] => Kind::Leftover,
        ["objects", folder, name] if is_hex(folder, 2) => match name.len() {
            38 | 62 if is_hex(name, name.len()) => Kind::Object,
            _ if name.starts_with("tmp_obj_") => Kind::Leftover,
            _ => Kind::Foreign,
        },
        _ if LEFTOVERS.contains(&text) || text.ends_with(".lock") => Kind::Leftover,
        _ => Kind::Foreign,
    }
}

/// What a name in the folder of a work tree is, where it belongs to that work tree.
fn of_the_work_tree(name: &str) -> Option<Kind> {
    Some(match name {
        "HEAD" => Kind::Head,
        "index" => Kind::Index,
        "logs/HEAD" => Kind::Log,
        _ if OBJECTS_NAMED.contains(&name) => Kind::ObjectsNamed,
        _ if TEXTS.contains(&name) => Kind::Text,
        _ if LEFTOVERS.contains(&name) || name.ends_with(".lock") => Kind::Leftover,
        _ => return None,
    })
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether a folder can hold what is taken over.
fn is_way(path: &Path, place: &GitPlace) -> bool {
    let leads = path.to_str().is_some_and(|text| {
        let parts: Vec<&str> = text.split('/').collect();
        matches!(
            parts.as_slice(),
            [""] | ["objects" | "refs" | "logs" | LFS]
                | ["objects", _]
                | ["refs", _, ..]
                | ["logs", "refs", ..]
                | [LFS, "objects", ..]
        )
    });
    leads || place.own.starts_with(path) || place.own.join("logs") == path
}

/// Sorts a layer; an error names a file that is taken over and does not say what git writes there.
pub fn layer(place: &GitPlace, upper: &Path, before: &BTreeMap<PathBuf, Mark>) -> Result<Layer, String> {
    let mut layer = Layer::default();
    let mut waiting = vec![PathBuf::new()];
    while let Some(folder) = waiting.pop() {
        let entries =
            fs::read_dir(upper.join(&folder)).map_err(|error| format!("`{}`: {error}", folder.display()))?;
        for entry in entries {
            let entry = entry.map_err(|error| format!("`{}`: {error}", folder.display()))?;
            let path = folder.join(entry.file_name());
            let data = entry.metadata().map_err(|error| format!("`{}`: {error}", path.display()))?;
            let (is_folder, sort) = (data.is_dir(), kind(&path, place));
            if is_folder && is_way(&path, place) {
                if is_opaque(&entry.path()) {
                    is_still_itself(&path)?;
                    layer.remove_beneath(&path, before);
                }
                waiting.push(path);
            } else if is_removal(&data) {
                is_still_itself(&path)?;
                layer.removed(&path, sort, before);
            } else if data.is_file() {
                layer.written(&path, sort, &entry.path(), place)?;
            } else if !is_unfinished_and_empty(&path, &entry.path(), place) && sort != Kind::Leftover {
                half_done(&path, &entry.path())?;
                layer.drop_named(&path, is_folder);
            }
        }
    }
    Ok(layer)
}

/// An error where the repository was taken away, whatever is in its place now.
fn is_still_itself(gone: &Path) -> Result<(), String> {
    match ITSELF.iter().any(|name| gone == Path::new(name)) {
        true => {
            Err(format!("`.git/{}` was removed, which is no work of git's in a repository", gone.display()))
        }
        false => Ok(()),
    }
}

/// What a folder that is dropped whole would leave half done: commits in a submodule, and an index without the files that
/// nothing names.
fn half_done(path: &Path, folder: &Path) -> Result<(), String> {
    if path.ends_with("info") && folder.join("sparse-checkout").exists() {
        return Err("a command made the checkout sparse, which no call may".to_owned());
    }
    let has_objects = || {
        let all = fs::read_dir(folder).into_iter().flatten().flatten();
        all.flat_map(|one| ["objects", "refs"].map(|name| one.path().join(name))).any(|path| path.is_dir())
    };
    match path == Path::new("modules") && has_objects() {
        true => {
            Err("a submodule was changed, whose commits only an agon that is started in it takes over"
                .to_owned())
        }
        false => Ok(()),
    }
}

/// How an overlay says that a name is gone.
fn is_removal(data: &fs::Metadata) -> bool {
    data.file_type().is_char_device() && data.rdev() == 0
}

/// A folder that was removed and made again: nothing of the one below is seen in it.
fn is_opaque(folder: &Path) -> bool {
    let mut value = [0_u8; 4];
    let read = rustix::fs::lgetxattr(folder, c"user.overlay.opaque", &mut value[..]);
    read.is_ok_and(|length| value.get(..length) == Some(b"y"))
}

/// What an operation that was aborted leaves behind.
fn is_unfinished_and_empty(path: &Path, folder: &Path, place: &GitPlace) -> bool {
    let is_its = UNFINISHED.iter().any(|name| place.own.join(name) == path);
    is_its && fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

/// Whether the layer holds an operation that has stopped before its end.
pub fn unfinished(place: &GitPlace, upper: &Path) -> Option<&'static str> {
    let is_there = |name: &&&str| {
        let path = upper.join(&place.own).join(name);
        fs::symlink_metadata(path).is_ok_and(|data| data.is_dir() || data.is_file())
    };
    UNFINISHED.iter().find(is_there).copied()
}

impl Layer {
    fn drop_named(&mut self, path: &Path, is_folder: bool) {
        let slash = if is_folder { "/" } else { "" };
        self.dropped.insert(format!("{}{slash}", path.display()));
    }

    fn remove_beneath(&mut self, path: &Path, before: &BTreeMap<PathBuf, Mark>) {
        for gone in before.keys().filter(|known| known.starts_with(path)) {
            self.files.entry(gone.clone()).or_insert(Change::Remove);
        }
    }

    fn removed(&mut self, path: &Path, sort: Kind, before: &BTreeMap<PathBuf, Mark>) {
        match sort {
            Kind::Reference | Kind::ObjectsNamed | Kind::Text => self.remove_beneath(path, before),
            // A log goes with its reference, objects stay, and what is packed was packed by the user.
            Kind::Log | Kind::Object | Kind::Leftover => {}
            _ if path.starts_with("objects") => {}
            _ => self.drop_named(path, false),
        }
    }

    fn written(&mut self, path: &Path, sort: Kind, file: &Path, place: &GitPlace) -> Result<(), String> {
        match sort {
            Kind::Object => self.objects.push(path.to_owned()),
            Kind::Log => self.logs.push(path.to_owned()),
            Kind::Leftover => {}
            // Git writes its configuration again where nothing in it changes.
            Kind::Foreign if is_same(file, &place.common.join(path)) => {}
            Kind::Foreign => self.drop_named(path, false),
            _ => {
                let most = if matches!(sort, Kind::Index | Kind::Packed) { MOST_LIST } else { MOST_TEXT };
                let bytes = read(file, most).map_err(|error| format!("`{}`: {error}", path.display()))?;
                let named = self.check(sort, path, &bytes, place);
                self.named.extend(named.map_err(|why| format!("`{}`: {why}", path.display()))?);
                self.files.insert(path.to_owned(), Change::Write(bytes));
            }
        }
        Ok(())
    }

    /// The objects that a file names, if it says what git would say in its place.
    fn check(&self, sort: Kind, path: &Path, bytes: &[u8], place: &GitPlace) -> Result<Vec<String>, String> {
        let odd = || "it does not say what git writes there".to_owned();
        let text = || std::str::from_utf8(bytes).map_err(|_| odd());
        match sort {
            Kind::Index => {
                let hidden = hidden(bytes, place)?;
                let before = read(&place.common.join(path), MOST_LIST).unwrap_or_default();
                let before = self::hidden(&before, place).unwrap_or_default();
                match hidden.difference(&before).next() {
                    None => Ok(Vec::new()),
                    Some(name) => {
                        let name = String::from_utf8_lossy(name);
                        Err(format!("changes of `{}` would be hidden from the user", name_shown(&name)))
                    }
                }
            }
            Kind::Text => Ok(Vec::new()),
            Kind::Packed => {
                let named = refs::packed(text()?, place.hash).ok_or_else(odd)?;
                Ok(named.into_iter().map(|(_, object)| object).collect())
            }
            _ => {
                let may_be_symbolic = sort == Kind::Head || path.ends_with("HEAD") && sort == Kind::Reference;
                if may_be_symbolic && refs::symbolic(text()?).is_some() {
                    return Ok(Vec::new());
                }
                let objects = refs::objects(text()?, place.hash).ok_or_else(odd)?;
                let fits = sort == Kind::ObjectsNamed || objects.len() == 1;
                if fits { Ok(objects) } else { Err(odd()) }
            }
        }
    }
}

/// The names of an index that git looks for no change of. In a sparse checkout some are left out by themselves.
fn hidden(index: &[u8], place: &GitPlace) -> Result<BTreeSet<Vec<u8>>, String> {
    let is_sparse = place.common.join(&place.own).join("info/sparse-checkout").exists();
    let mut names = BTreeSet::new();
    git_index::entries(index, place.hash.bytes(), &mut |entry| {
        if entry.is_assumed || (entry.is_skipped && !is_sparse) {
            names.insert(entry.name.to_vec());
        }
    })?;
    Ok(names)
}

fn is_same(one: &Path, other: &Path) -> bool {
    let text = |path: &Path| crate::host_files::head(path, 1024 * 1024);
    text(one).is_some_and(|one| text(other) == Some(one))
}

/// An ordinary file that was not exchanged for something else meanwhile.
pub fn open(path: &Path) -> std::io::Result<File> {
    let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits();
    let file = File::options().read(true).custom_flags(flags.cast_signed()).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(std::io::Error::other("it is no ordinary file")),
    }
}

/// The whole content of an index or of packed references.
pub fn read_list(path: &Path) -> std::io::Result<Vec<u8>> {
    read(path, MOST_LIST)
}

/// The whole content of a log.
pub fn read_log(path: &Path) -> std::io::Result<Vec<u8>> {
    read(path, MOST_LOG)
}

/// The whole content of a file that is no larger than this.
fn read(path: &Path, most: u64) -> std::io::Result<Vec<u8>> {
    let (file, mut bytes) = (open(path)?, Vec::new());
    if file.take(most + 1).read_to_end(&mut bytes)? as u64 > most {
        return Err(std::io::Error::other("it is too large"));
    }
    Ok(bytes)
}
