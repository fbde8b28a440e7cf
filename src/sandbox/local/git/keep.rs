//! Takes over into a repository what a call left in its layer: objects first, then everything that names them, under
//! git's own lock files. Either all of the names are taken over or none.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flate2::read::ZlibDecoder;
use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::place::{GitPlace, HashKind};
use super::scan::{self, Change, Layer, Mark};

/// Most bytes of an object: git itself keeps larger ones with trouble.
const MOST_OBJECT: u64 = 4 << 30;
/// How long a lock of the user's git is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

fn at(path: &Path, error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "the disk is full".to_owned(),
        _ => format!("`.git/{}`: {error}", path.display()),
    }
}

/// Copies new objects, each after a look whether its name is that of its content. What is there already stays.
pub fn objects(place: &GitPlace, upper: &Path, layer: &Layer) -> Result<(), String> {
    for path in &layer.objects {
        let target = place.common.join(path);
        if fs::symlink_metadata(&target).is_err() {
            object(place.hash, &upper.join(path), &target, path)?;
        }
    }
    Ok(())
}

fn object(hash: HashKind, source: &Path, target: &Path, path: &Path) -> Result<(), String> {
    let mut file = scan::open(source).map_err(|error| at(path, &error))?;
    let is_of_lfs = path.starts_with(scan::LFS);
    let before_name = if is_of_lfs { 4 } else { 1 };
    let name: String = path.iter().skip(before_name).map(|part| part.to_string_lossy()).collect();
    // What is larger has another digest, and is refused by that.
    let inflated = || ZlibDecoder::new(BufReader::new(&file)).take(MOST_OBJECT);
    let found = match hash {
        _ if is_of_lfs => hashed::<Sha256>((&file).take(MOST_OBJECT)),
        HashKind::Sha1 => hashed::<Sha1>(inflated()),
        HashKind::Sha256 => hashed::<Sha256>(inflated()),
    };
    if found.ok() != Some(name) {
        return Err(format!("`.git/{}` is not the object that its name says", path.display()));
    }
    let mut copy = || {
        let folder = target.parent().unwrap_or(target);
        fs::create_dir_all(folder)?;
        // Git clears such names away, should this be cut off.
        let mut new = tempfile::Builder::new().prefix("tmp_obj_").tempfile_in(folder)?;
        file.rewind()?;
        io::copy(&mut file, &mut new)?;
        new.as_file().set_permissions(fs::Permissions::from_mode(0o444))?;
        new.as_file().sync_data()?;
        match new.persist_noclobber(target) {
            Err(lost) if lost.error.kind() != ErrorKind::AlreadyExists => Err(lost.error),
            _ => Ok(()),
        }
    };
    copy().map_err(|error| at(path, &error))
}

fn hashed<D: Digest>(mut from: impl Read) -> io::Result<String> {
    let (mut digest, mut block) = (D::new(), vec![0; 64 * 1024]);
    while let read @ 1.. = from.read(&mut block)? {
        digest.update(&block[..read]);
    }
    Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A lock file of git's. It is removed unless it became what it locks.
struct Lock {
    /// What it locks, in the repository's folder.
    path: PathBuf,
    target: PathBuf,
    lock: PathBuf,
    file: File,
    /// False once the name is another git's to take.
    is_ours: Cell<bool>,
}

impl Lock {
    fn take(place: &GitPlace, path: &Path) -> Result<Self, String> {
        let target = place.common.join(path);
        let mut lock = target.clone().into_os_string();
        lock.push(".lock");
        let lock = PathBuf::from(lock);
        let make = || {
            fs::create_dir_all(target.parent().unwrap_or(&target))?;
            File::options().write(true).create_new(true).open(&lock)
        };
        let begun = Instant::now();
        loop {
            match make() {
                Ok(file) => {
                    return Ok(Lock { path: path.to_owned(), target, lock, file, is_ours: Cell::new(true) });
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists && begun.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    let name = path.display();
                    return Err(format!("another git holds `.git/{name}.lock`; try again when it has ended"));
                }
                Err(error) => return Err(at(path, &error)),
            }
        }
    }

    fn fill(&mut self, bytes: &[u8]) -> Result<(), String> {
        let written = self.file.write_all(bytes).and_then(|()| self.file.sync_data());
        written.map_err(|error| at(&self.path, &error))
    }

    fn become_target(&self) -> Result<(), String> {
        // Empty folders of references that are gone are in the way of one of their name.
        let _ = fs::remove_dir(&self.target);
        fs::rename(&self.lock, &self.target).map_err(|error| at(&self.path, &error))?;
        self.is_ours.set(false);
        Ok(())
    }

    fn let_go(&self) {
        if self.is_ours.replace(false) {
            let _ = fs::remove_file(&self.lock);
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// Replaces and removes what names objects. An error leaves every name as it was, unless the system refuses a rename in
/// between.
pub fn names(
    place: &GitPlace,
    upper: &Path,
    layer: &Layer,
    before: &BTreeMap<PathBuf, Mark>,
) -> Result<(), String> {
    let mut locks = BTreeMap::new();
    for (path, change) in &layer.files {
        let mut lock = Lock::take(place, path)?;
        if scan::mark(place, path).as_ref() != before.get(path) {
            let name = path.display();
            return Err(format!("another program changed `.git/{name}` while the command ran"));
        }
        if let Change::Write(bytes) = change {
            lock.fill(bytes)?;
        }
        locks.insert(path, lock);
    }
    logs(place, upper, layer)?;
    let first = Path::new("packed-refs");
    let last = [place.own.join("HEAD"), place.own.join("index")];
    let rank =
        |path: &Path| match (path == first, layer.files.get(path), last.iter().any(|last| last == path)) {
            (true, ..) => 0,
            (_, Some(Change::Remove), _) => 1,
            (.., false) => 2,
            (.., true) => 3,
        };
    let mut ordered: Vec<&Lock> = locks.values().collect();
    ordered.sort_by_key(|lock| rank(&lock.path));
    for lock in ordered {
        match layer.files.get(&lock.path) {
            Some(Change::Remove) => remove(place, lock)?,
            _ => lock.become_target()?,
        }
    }
    Ok(())
}

/// Removes a file, the log of a reference, and folders that became empty, as git does.
fn remove(place: &GitPlace, lock: &Lock) -> Result<(), String> {
    let gone = |path: &Path| match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(at(&lock.path, &error)),
        _ => Ok(()),
    };
    gone(&lock.target)?;
    if lock.path.starts_with("refs") {
        gone(&place.common.join("logs").join(&lock.path))?;
        lock.let_go();
        for top in [place.common.clone(), place.common.join("logs")] {
            let above = lock.path.ancestors().skip(1).filter(|above| above.iter().count() > 2);
            let is_removed = |above: &Path| fs::remove_dir(top.join(above)).is_ok();
            above.take_while(|above| is_removed(above)).for_each(drop);
        }
    }
    Ok(())
}

/// Adds to logs of references what was added inside; one that was written again replaces its own.
fn logs(place: &GitPlace, upper: &Path, layer: &Layer) -> Result<(), String> {
    for path in &layer.logs {
        let write = || {
            let (text, target) = (scan::read_log(&upper.join(path))?, place.common.join(path));
            let now = match fs::symlink_metadata(&target) {
                Ok(_) => scan::read_log(&target)?,
                Err(_) => Vec::new(),
            };
            fs::create_dir_all(target.parent().unwrap_or(&target))?;
            let Some(added) = text.strip_prefix(now.as_slice()) else {
                let mut new = tempfile::NamedTempFile::new_in(target.parent().unwrap_or(&target))?;
                new.as_file().set_permissions(fs::Permissions::from_mode(0o644))?;
                new.write_all(&text)?;
                return new.persist(&target).map(drop).map_err(|lost| lost.error);
            };
            let mut file = File::options().append(true).create(true).open(&target)?;
            file.write_all(added).inspect_err(|_| {
                // A line that was cut off would spoil the log.
                let _ = file.set_len(now.len() as u64);
            })
        };
        write().map_err(|error| at(path, &error))?;
    }
    Ok(())
}
