//! Instruction files of subfolders: shown with the first file that is read there.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::ports::{FileError, Files, ToolEnd};
use crate::protocol::event::PathBase;
use crate::protocol::names::INSTRUCTION_FILES;
use crate::protocol::spec::DeniedPaths;

/// Bytes of one that are read; a longer one is named.
const MAX: u64 = 16 * 1024;

/// Folders that hold what others published: their instructions are for other projects.
const OF_OTHERS: [&str; 9] = [
    "node_modules",
    "site-packages",
    "dist-packages",
    "vendor",
    "target",
    ".venv",
    "venv",
    ".tox",
    "__pycache__",
];

/// True for a file that was made or changed since the workspace was opened: a command may have written it.
fn is_newer(files: &dyn Files, path: &str) -> bool {
    let changed = files.open(path).map(|file| file.metadata().ok());
    let since = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let Ok(Some(data)) = changed else { return true };
    let opened = since(files.opened());
    (data.ctime().cast_unsigned(), data.ctime_nsec().cast_unsigned())
        > (opened.as_secs(), opened.subsec_nanos().into())
}

/// Adds the instruction files of the folders that lead to a file, the outermost first. The workspace's own was read when
/// the session was opened; what the spark has seen is not shown again. A file in an ignored folder brings none.
pub fn add(end: &mut ToolEnd, files: &dyn Files, path: &str, (seen, denied): (&[PathBase], &DeniedPaths)) {
    let above = Path::new(path).ancestors().skip(1).filter_map(Path::to_str);
    let mut folders: Vec<&str> = above.filter(|folder| !folder.is_empty()).collect();
    let is_of_others = Path::new(path).iter().any(|name| OF_OTHERS.iter().any(|other| name == *other));
    if is_of_others || folders.first().is_some_and(|folder| files.is_ignored(folder)) {
        return;
    }
    folders.reverse();
    for folder in folders {
        for name in INSTRUCTION_FILES {
            let file = format!("{folder}/{name}");
            let is_known = |base: &PathBase| base.path == file && base.sha256.is_some();
            if file == path || seen.iter().any(is_known) || denied.holds(&file) {
                break;
            }
            let read = files.read(&file, MAX);
            let refused = match &read {
                Err(FileError::Missing(_)) => continue,
                Ok(_) | Err(FileError::TooLarge { .. }) if is_newer(files, &file) => {
                    Some(format!("`{file}` was made or changed in this session, so it gives no instructions"))
                }
                Err(FileError::TooLarge { bytes, .. }) => Some(format!(
                    "`{file}` has {bytes} bytes; as instructions at most {MAX} are read: read it yourself"
                )),
                Err(_) => break,
                Ok(_) => None,
            };
            let (words, note) = refused.map(|why| (format!("[{why}]"), why)).unwrap_or_else(|| {
                let bytes = read.unwrap_or_default();
                let text = String::from_utf8_lossy(&bytes);
                let words = format!("[instructions for `{folder}/`, from `{file}`]\n{}", text.trim_end());
                (words, format!("instructions of `{file}` are followed in `{folder}/`"))
            });
            end.content.push_str(&format!("\n{words}\n"));
            end.notes.push(note);
            let sha256 = files.digest(&file).ok().flatten();
            end.seen.push(PathBase { path: file, sha256 });
            break;
        }
    }
}
