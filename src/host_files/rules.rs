//! The ignore rules of a workspace, read by agon itself: the `ignore` crate opens a rule file whatever it is.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::{head, text};

/// The most that is read of one file of rules, in bytes.
const MAX_RULES: u64 = 256 * 1024;

/// The most that a `.git` or `commondir` file may hold, in bytes.
const MAX_POINTER: u64 = 4096;

/// The rules of one file in `folder`; a file that cannot be read, or is none, has no rules.
pub fn of_file(folder: &Path, file: &Path) -> Gitignore {
    of_text(folder, &head(file, MAX_RULES).unwrap_or_default())
}

/// The rules that a file in `folder` with this content has.
pub fn of_text(folder: &Path, bytes: &[u8]) -> Gitignore {
    let mut builder = GitignoreBuilder::new(folder);
    for line in bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).split(|byte| *byte == b'\n') {
        let Ok(line) = std::str::from_utf8(line) else { break };
        // A line that is no pattern is passed over, as git does.
        let _ = builder.add_line(None, line.strip_suffix('\r').unwrap_or(line));
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// The rules that apply in a folder: its own, then those of the folders above it.
#[derive(Debug)]
pub struct Rules {
    above: Option<Arc<Rules>>,
    /// `.ignore`, `.gitignore` and `.git/info/exclude`, the strongest first.
    own: [Gitignore; 3],
}

impl Rules {
    /// The rules in `folder`, beneath those `above`. A folder without files of rules shares those above it.
    pub fn within(above: Option<Arc<Rules>>, folder: &Path) -> Arc<Rules> {
        let of = |file: PathBuf| of_file(folder, &file);
        let exclude = match git_folder(folder) {
            Some(git) => of(git.join("info/exclude")),
            None => Gitignore::empty(),
        };
        let own = [of(folder.join(".ignore")), of(folder.join(".gitignore")), exclude];
        match above {
            Some(above) if own.iter().all(Gitignore::is_empty) => above,
            above => Arc::new(Rules { above, own }),
        }
    }

    /// True for what the rules leave out. Of one kind of file the nearest rule counts; of the kinds, `.ignore` is
    /// stronger than `.gitignore`, and that than `.git/info/exclude`.
    pub fn ignore(&self, path: &Path, is_folder: bool) -> bool {
        let strongest =
            (0..self.own.len()).map(|kind| self.nearest(kind, path, is_folder)).find(|it| !it.is_none());
        strongest.is_some_and(|found| found.is_ignore())
    }

    fn nearest(&self, kind: usize, path: &Path, is_folder: bool) -> Match<()> {
        let folders = std::iter::successors(Some(self), |rules| rules.above.as_deref());
        let found = folders.map(|rules| rules.own[kind].matched(path, is_folder).map(|_| ()));
        found.into_iter().find(|found| !found.is_none()).unwrap_or(Match::None)
    }
}

/// The folder of git's that has `info/exclude`; of a work tree, the one it shares.
fn git_folder(folder: &Path) -> Option<PathBuf> {
    let dot_git = folder.join(".git");
    if dot_git.metadata().ok()?.is_dir() {
        return Some(dot_git);
    }
    let first = |path: &Path| Some(text(path, MAX_POINTER)?.lines().next()?.to_owned());
    let git = folder.join(first(&dot_git)?.strip_prefix("gitdir: ")?);
    Some(git.join(first(&git.join("commondir"))?))
}
