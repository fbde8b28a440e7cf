//! Personas, blueprints and instructions read from files and from the binary; knows no configuration and no session.

pub mod blueprint;
pub mod demo;
pub mod persona;

use std::io::Read;
use std::path::{Path, PathBuf};

pub use persona::{BadPersona, Library, PersonaOrigin};

use crate::protocol::spec::Instruction;

/// The most an instruction file may hold, in bytes.
pub const MAX_INSTRUCTION: u64 = 64 * 1024;

/// Name of instruction files, in the workspace and among the user's own files.
pub const INSTRUCTION_FILE: &str = "AGENTS.md";

/// Why a text file is not read.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are named by the messages")]
pub enum FileError {
    /// The system said no.
    #[error("cannot read `{}`", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    /// A device, a pipe or a folder.
    #[error("`{}` is not an ordinary file", path.display())]
    Special { path: PathBuf },
    /// Larger than a file of this kind may be.
    #[error("`{}` has more than {max} bytes, the most such a file may have", path.display())]
    TooLarge { path: PathBuf, max: u64 },
    /// Not text.
    #[error("`{}` is not UTF-8 text", path.display())]
    NotText { path: PathBuf },
}

/// Reads a whole text file of at most `max` bytes. `None` when there is none.
pub fn read_text(path: &Path, max: u64) -> Result<Option<String>, FileError> {
    let io = |source| FileError::Io { path: path.to_owned(), source };
    match std::fs::metadata(path) {
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(io(error)),
        // Opening a pipe would wait for a writer, so the kind is looked at first.
        Ok(found) if !found.is_file() => return Err(FileError::Special { path: path.to_owned() }),
        Ok(_) => {}
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(io)?;
    file.take(max.saturating_add(1)).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > max {
        return Err(FileError::TooLarge { path: path.to_owned(), max });
    }
    let text = String::from_utf8(bytes).map_err(|_| FileError::NotText { path: path.to_owned() })?;
    Ok(Some(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)))
}

/// The `*.md` files of a folder, sorted by name; empty when there is no such folder.
pub fn markdown_files(folder: &Path) -> Result<Vec<PathBuf>, FileError> {
    let io = |source| FileError::Io { path: folder.to_owned(), source };
    let entries = match std::fs::read_dir(folder) {
        Err(error) if is_absent(&error) => return Ok(Vec::new()),
        entries => entries.map_err(io)?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(io)?.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

/// Reads the instruction files whole: the user's own first, then the workspace's, which has the last word.
pub fn instructions(user_file: &Path, workspace: &Path) -> Result<Vec<Instruction>, FileError> {
    let mut found = Vec::new();
    let files =
        [(user_file.to_owned(), "user's AGENTS.md"), (workspace.join(INSTRUCTION_FILE), INSTRUCTION_FILE)];
    for (file, name) in files {
        if let Some(text) = read_text(&file, MAX_INSTRUCTION)?
            && !text.trim().is_empty()
        {
            found.push(Instruction { path: name.to_owned(), text });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_read_whole_and_the_workspace_has_the_last_word() {
        let folder = tempfile::tempdir().unwrap();
        let (user, workspace) = (folder.path().join("mine.md"), folder.path().join("work"));
        std::fs::create_dir(&workspace).unwrap();
        assert_eq!(instructions(&user, &workspace).unwrap(), []);
        std::fs::write(&user, "be brief\n").unwrap();
        std::fs::write(workspace.join("AGENTS.md"), "be long\n").unwrap();
        let texts: Vec<_> = instructions(&user, &workspace).unwrap().into_iter().map(|i| i.text).collect();
        assert_eq!(texts, ["be brief\n", "be long\n"]);
    }

    #[test]
    fn a_file_that_is_too_large_or_no_text_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("AGENTS.md");
        std::fs::write(&file, vec![b'a'; 64 * 1024]).unwrap();
        assert!(instructions(Path::new("/nowhere"), folder.path()).is_ok());
        std::fs::write(&file, vec![b'a'; 64 * 1024 + 1]).unwrap();
        let error = instructions(Path::new("/nowhere"), folder.path()).unwrap_err();
        assert!(error.to_string().contains("AGENTS.md") && error.to_string().contains("65536"), "{error}");
        std::fs::write(&file, [0xff, 0xfe]).unwrap();
        assert!(matches!(instructions(Path::new("/nowhere"), folder.path()), Err(FileError::NotText { .. })));
    }
}
