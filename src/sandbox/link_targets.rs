//! Where protected names lead: links to be followed, and the repository that a `.git` file names; changes nothing.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::protected_snapshot::exists;
use crate::host_files;

/// Links that are followed at most for one name.
const MOST_LINKS: usize = 40;
/// Bytes of the largest file that is read for where it leads.
const MOST_BYTES: u64 = 4096;

/// Where names lead, every path relative to the workspace. What lies outside of it is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leads {
    /// Links on the way, each with what it says.
    pub links: Vec<(PathBuf, PathBuf)>,
    /// Files and folders at the end of a way.
    pub targets: Vec<PathBuf>,
    /// Ends of ways where nothing is yet.
    pub absent: Vec<PathBuf>,
}

impl Leads {
    /// Where one name leads. Nothing for a name that is no link and no repository's.
    pub fn of(root: &Path, path: &Path) -> Self {
        let mut leads = Leads::default();
        let Some(end) = leads.follow(root, Path::new(""), path) else { return leads };
        if end != path {
            leads.reach(root, end.clone());
        }
        if path.file_name().is_some_and(|name| name == ".git") {
            leads.repository(root, &end);
        }
        leads
    }

    /// The folders that git takes for the repository: the one a file names, and the one it shares with others.
    fn repository(&mut self, root: &Path, git: &Path) {
        let mut folder = git.to_owned();
        if let Some(text) = small_text(&root.join(git)) {
            let Some(named) = text.strip_prefix("gitdir:") else { return };
            let beside = git.parent().unwrap_or(Path::new(""));
            let Some(end) = self.follow(root, beside, Path::new(named.trim())) else { return };
            self.reach(root, end.clone());
            folder = end;
        }
        let common = small_text(&root.join(&folder).join("commondir"));
        let end = common.and_then(|text| self.follow(root, &folder, Path::new(text.trim())));
        if let Some(end) = end {
            self.reach(root, end);
        }
    }

    fn reach(&mut self, root: &Path, end: PathBuf) {
        match exists(&root.join(&end)) {
            // The workspace itself cannot be held still.
            _ if end.as_os_str().is_empty() => {}
            true => self.targets.push(end),
            false => self.absent.push(end),
        }
    }

    /// Follows a path from a folder to what is no link. None when it leads outside, or in a circle.
    fn follow(&mut self, root: &Path, from: &Path, path: &Path) -> Option<PathBuf> {
        let (mut at, mut waiting) = begin(root, from, path)?;
        for _ in 0..1000 {
            let Some(name) = waiting.pop_front() else { return Some(at) };
            if name == ".." {
                if !at.pop() {
                    let rest: PathBuf = waiting.iter().collect();
                    return beneath(root, &root.join("..").join(rest));
                }
                continue;
            }
            at.push(name);
            if let Ok(to) = fs::read_link(root.join(&at)) {
                if self.links.len() >= MOST_LINKS {
                    return None;
                }
                self.links.push((at.clone(), to.clone()));
                at.pop();
                let (next, more) = begin(root, &at, &to)?;
                at = next;
                more.into_iter().rev().for_each(|name| waiting.push_front(name));
            }
        }
        None
    }
}

/// Where to begin, and the names to go through from there.
fn begin(root: &Path, from: &Path, path: &Path) -> Option<(PathBuf, VecDeque<OsString>)> {
    let (at, path) = match path.is_absolute() {
        false => (from.to_owned(), path.to_owned()),
        true => (
            PathBuf::new(),
            path.strip_prefix(root).map(Path::to_owned).ok().or_else(|| beneath(root, path))?,
        ),
    };
    let names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    Some((at, names.collect()))
}

/// A path outside that leads back into the workspace.
fn beneath(root: &Path, path: &Path) -> Option<PathBuf> {
    fs::canonicalize(path).ok()?.strip_prefix(root).map(Path::to_owned).ok()
}

/// The text of a small ordinary file.
pub(super) fn small_text(path: &Path) -> Option<String> {
    let data = fs::symlink_metadata(path).ok()?;
    data.is_file().then(|| host_files::text(path, MOST_BYTES))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_followed_step_by_step_and_repositories_to_what_they_share() {
        let folder = tempfile::tempdir().unwrap();
        let root = &fs::canonicalize(folder.path()).unwrap();
        let path = |name: &str| PathBuf::from(name);
        fs::create_dir_all(root.join("docs")).unwrap();
        fs::create_dir_all(root.join(".bare/worktrees/main")).unwrap();
        fs::create_dir_all(root.join("main")).unwrap();
        fs::write(root.join("docs/RULES.md"), "x").unwrap();
        symlink("docs/step", root.join("AGENTS.md")).unwrap();
        symlink(root.join("docs/RULES.md"), root.join("docs/step")).unwrap();
        let leads = Leads::of(root, Path::new("AGENTS.md"));
        assert_eq!(leads.targets, [path("docs/RULES.md")]);
        assert_eq!(leads.links.len(), 2, "{leads:?}");
        symlink("docs/none", root.join("CLAUDE.md")).unwrap();
        assert_eq!(Leads::of(root, Path::new("CLAUDE.md")).absent, [path("docs/none")]);
        symlink("/etc/passwd", root.join("GEMINI.md")).unwrap();
        let outside = Leads::of(root, Path::new("GEMINI.md"));
        assert_eq!((outside.targets.len(), outside.links.len()), (0, 1));
        symlink("circle", root.join("circle")).unwrap();
        assert_eq!(Leads::of(root, Path::new("circle")).targets, [] as [&Path; 0]);
        fs::write(root.join("main/.git"), "gitdir: ../.bare/worktrees/main\n").unwrap();
        fs::write(root.join(".bare/worktrees/main/commondir"), "../..\n").unwrap();
        let leads = Leads::of(root, Path::new("main/.git"));
        assert_eq!(leads.targets, [path(".bare/worktrees/main"), path(".bare")]);
        assert_eq!(Leads::of(root, Path::new("docs/RULES.md")), Leads::default());
    }
}
