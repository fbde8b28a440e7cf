//! Personas, blueprints and instructions read from files and from the binary; knows no configuration and no session.

pub mod blueprint;
pub mod demo;
mod front_matter;
pub mod persona;

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use persona::{BadPersona, Library, PersonaOrigin};

use crate::host_files;
use crate::protocol::names::INSTRUCTION_FILES;
use crate::protocol::spec::Instruction;

/// The most an instruction file may hold, in bytes.
pub const MAX_INSTRUCTION: u64 = 64 * 1024;

/// Why a text file is not read.
#[derive(Clone, Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are named by the messages")]
pub enum FileError {
    /// The system said no.
    #[error("cannot read `{}`", path.display())]
    Io { path: PathBuf, source: Arc<std::io::Error> },
    /// A device, a pipe or a folder.
    #[error("`{}` is not an ordinary file", path.display())]
    Special { path: PathBuf },
    /// Larger than a file of this kind may be.
    #[error("`{}` has more than {max} bytes, the most such a file may have", path.display())]
    TooLarge { path: PathBuf, max: u64 },
    /// A link of a project to a place that is not the project's.
    #[error("`{}` is a link that leads outside `{}`, so it is not read", path.display(), folder.display())]
    Outside { path: PathBuf, folder: PathBuf },
    /// Not text.
    #[error("`{}` is not UTF-8 text", path.display())]
    NotText { path: PathBuf },
}

/// Personas or blueprints of a folder as they were read: each file with its text, or why it has none.
pub type Texts = BTreeMap<PathBuf, Result<String, FileError>>;

/// Reads a whole text file of at most `max` bytes. `None` when there is none.
pub fn read_text(path: &Path, max: u64) -> Result<Option<String>, FileError> {
    let io = |source| FileError::Io { path: path.to_owned(), source: Arc::new(source) };
    let file = match host_files::open(path) {
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(io(error)),
        Ok(None) => return Err(FileError::Special { path: path.to_owned() }),
        Ok(Some(file)) => file,
    };
    let mut bytes = Vec::new();
    file.take(max.saturating_add(1)).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > max {
        return Err(FileError::TooLarge { path: path.to_owned(), max });
    }
    let text = String::from_utf8(bytes).map_err(|_| FileError::NotText { path: path.to_owned() })?;
    Ok(Some(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)))
}

/// Reads a file that came with a project, as [`read_text`] does. Whoever made the project decides what its files are,
/// not what else of this machine is read in their place, so that no link may lead out of `folder`.
pub fn read_within(folder: &Path, path: &Path, max: u64) -> Result<Option<String>, FileError> {
    let outside = || FileError::Outside { path: path.to_owned(), folder: folder.to_owned() };
    if path.symlink_metadata().is_ok() {
        let io = |source| FileError::Io { path: path.to_owned(), source: Arc::new(source) };
        let (real, within) = (path.canonicalize().map_err(io)?, folder.canonicalize().map_err(io)?);
        if !real.starts_with(&within) {
            return Err(outside());
        }
    }
    read_text(path, max)
}

/// Reads a file of a folder of personas or blueprints: a project's, `.agon/…`, is held to itself, links and all.
fn read_of(folder: &Path, path: &Path, max: u64) -> Result<Option<String>, FileError> {
    let Some(own) = folder.parent().filter(|parent| parent.ends_with(".agon")) else {
        return read_text(path, max);
    };
    let (Some(root), Some(name)) = (own.parent(), folder.file_name()) else { return read_text(path, max) };
    let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    if folder.canonicalize().is_ok_and(|real| real != root.join(".agon").join(name)) {
        return Err(FileError::Outside { path: folder.to_owned(), folder: root });
    }
    read_within(folder, path, max)
}

/// Reads the files of a folder with this ending; a folder that cannot be read is listed with the reason.
fn texts(folder: &Path, ending: &str, max: u64) -> Texts {
    let files = match files_ending(folder, ending) {
        Ok(files) => files,
        Err(error) => return Texts::from([(folder.to_owned(), Err(error))]),
    };
    let read = |path: PathBuf| Some((path.clone(), read_of(folder, &path, max).transpose()?));
    files.into_iter().filter_map(read).collect()
}

/// The files of a folder with this ending, sorted by name; empty when there is no such folder.
fn files_ending(folder: &Path, ending: &str) -> Result<Vec<PathBuf>, FileError> {
    let io = |source| FileError::Io { path: folder.to_owned(), source: Arc::new(source) };
    let entries = match std::fs::read_dir(folder) {
        Err(error) if is_absent(&error) => return Ok(Vec::new()),
        entries => entries.map_err(io)?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(io)?.path();
        if path.extension().is_some_and(|extension| extension == ending) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

/// Reads the instruction files whole: the user's own first, then those of the folders from the repository's root down to
/// the workspace, which has the last word. In each folder `AGENTS.md` is read, else `CLAUDE.md`.
pub fn instructions(user_file: &Path, workspace: &Path) -> Result<Vec<Instruction>, FileError> {
    let mut found = Vec::new();
    let mut take = |path: String, text: Option<String>| {
        let text = text.filter(|text| !text.trim().is_empty());
        found.extend(text.map(|text| Instruction { path, text }));
    };
    take("user's AGENTS.md".to_owned(), read_text(user_file, MAX_INSTRUCTION)?);
    let above = folders_above(workspace);
    for (levels, folder) in above.iter().enumerate().rev() {
        for name in INSTRUCTION_FILES {
            let text = read_within(folder, &folder.join(name), MAX_INSTRUCTION)?;
            let is_there = text.is_some();
            take(format!("{}{name}", "../".repeat(levels)), text);
            if is_there {
                break;
            }
        }
    }
    Ok(found)
}

/// The workspace and, within a repository, the folders above it up to the repository's root. Folders of another user are
/// left out: what they hold was not put there for this project.
fn folders_above(workspace: &Path) -> Vec<PathBuf> {
    let owner = |path: &Path| path.metadata().map(|meta| meta.uid()).ok();
    let mine = owner(workspace);
    let mut folders = Vec::new();
    for folder in workspace.ancestors().take_while(|folder| owner(folder) == mine) {
        folders.push(folder.to_owned());
        if folder.join(".git").symlink_metadata().is_ok() {
            return folders;
        }
    }
    folders.truncate(1);
    if folders.is_empty() { vec![workspace.to_owned()] } else { folders }
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
    fn instructions_come_from_the_repositorys_root_down_and_claude_md_where_agents_md_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let repository = folder.path().join("repository");
        let work = repository.join("a/b");
        std::fs::create_dir_all(&work).unwrap();
        let write = |path: &str| std::fs::write(folder.path().join(path), path).unwrap();
        for path in ["AGENTS.md", "repository/CLAUDE.md", "repository/a/AGENTS.md", "repository/a/CLAUDE.md"]
        {
            write(path);
        }
        write("repository/a/b/CLAUDE.md");
        let names = || {
            let found = instructions(Path::new("/nowhere"), &work).unwrap();
            found.into_iter().map(|one| (one.path, one.text)).collect::<Vec<_>>()
        };
        let pair = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        assert_eq!(
            names(),
            [pair("CLAUDE.md", "repository/a/b/CLAUDE.md")],
            "no repository, no folder above"
        );
        std::fs::create_dir(repository.join(".git")).unwrap();
        assert_eq!(
            names(),
            [
                pair("../../CLAUDE.md", "repository/CLAUDE.md"),
                pair("../AGENTS.md", "repository/a/AGENTS.md"),
                pair("CLAUDE.md", "repository/a/b/CLAUDE.md"),
            ]
        );
    }

    #[test]
    fn a_link_of_a_project_to_somewhere_else_is_named_and_not_read() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let (secret, work) = (folder.path().join("secret"), folder.path().join("work"));
        std::fs::write(&secret, "the moonlit number\n").unwrap();
        for name in ["personas", "blueprints"] {
            std::fs::create_dir_all(work.join(".agon").join(name)).unwrap();
        }
        symlink(&secret, work.join("AGENTS.md")).unwrap();
        let error = instructions(Path::new("/nowhere"), &work).unwrap_err().to_string();
        assert!(error.contains("AGENTS.md` is a link that leads outside"), "{error}");
        std::fs::remove_file(work.join("AGENTS.md")).unwrap();
        symlink("AGENTS.md", work.join("AGENTS.md")).unwrap();
        let error = instructions(Path::new("/nowhere"), &work).unwrap_err().to_string();
        assert!(error.contains("cannot read") && !error.contains("outside"), "a link to itself: {error}");
        let personas = work.join(".agon/personas");
        symlink(&secret, personas.join("coder.md")).unwrap();
        let library = Library::load(&[persona::read(&personas)]);
        assert!(!library.get("coder").unwrap().text.contains("moonlit"), "the built-in one stays");
        assert!(library.broken()[0].error.contains("leads outside"), "{:?}", library.broken());
        // The whole folder as a link leads as far.
        std::fs::remove_dir_all(&personas).unwrap();
        std::fs::create_dir(folder.path().join("elsewhere")).unwrap();
        std::fs::write(folder.path().join("elsewhere/coder.md"), "the moonlit number").unwrap();
        symlink(folder.path().join("elsewhere"), &personas).unwrap();
        let library = Library::load(&[persona::read(&personas)]);
        assert!(!library.get("coder").unwrap().text.contains("moonlit"));
        // A link that stays in the project is the project's own.
        std::fs::remove_file(work.join("AGENTS.md")).unwrap();
        std::fs::write(work.join("CLAUDE.md"), "be kind\n").unwrap();
        symlink("CLAUDE.md", work.join("AGENTS.md")).unwrap();
        assert_eq!(instructions(Path::new("/nowhere"), &work).unwrap()[0].text, "be kind\n");
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
