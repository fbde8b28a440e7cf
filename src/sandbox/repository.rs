//! The git folder outside of a workspace that its `.git` file names, where that repository names the workspace back;
//! shows nothing to anybody.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::link_targets::small_text;
use crate::host_files::real;

/// Folders of the system whose content is not everybody's.
const CLOSED: [&str; 4] = ["/etc", "/proc", "/dev", "/sys"];

/// The folder that has to be read for git to find the repository of a workspace that is a work tree or a submodule: a
/// real path, outside of the workspace. None where the `.git` file or the folder is somebody else's, where the
/// repository does not say that this is a work tree of its own (so that a file that was merely unpacked here opens
/// nothing), and for folders that hold the home, or agon's own files, or lie in these. Of a fork it is the folder of the
/// objects it borrows.
pub fn outside(root: &Path, own: &[PathBuf], home: Option<&Path>) -> Option<PathBuf> {
    match root.join(".git").is_dir() {
        true => borrowed(root, own, home),
        false => folders_outside(root, own, home).map(|(shown, _)| shown),
    }
}

/// The same with the work tree's own folder, which lies in it or is it.
pub fn folders_outside(root: &Path, own: &[PathBuf], home: Option<&Path>) -> Option<(PathBuf, PathBuf)> {
    let file = root.join(".git");
    let named = small_text(&file).filter(|_| is_callers(&file))?;
    let git = fs::canonicalize(root.join(named.strip_prefix("gitdir: ")?.trim_end())).ok()?;
    let shown = match small_text(&git.join("commondir")) {
        Some(common) => {
            let common = fs::canonicalize(git.join(common.trim_end())).ok()?;
            let back = small_text(&git.join("gitdir"))?;
            let is_ours = fs::canonicalize(git.join(back.trim_end())).ok()? == file;
            (is_ours && git.parent()? == common.join("worktrees")).then_some(common)?
        }
        None => {
            let config = small_text(&git.join("config"))?;
            let back = fs::canonicalize(git.join(work_tree(&config)?)).ok()?;
            (back == root).then(|| git.clone())?
        }
    };
    let is_repository = is_callers(&shown)
        && is_callers(&git)
        && git.join("HEAD").is_file()
        && shown.join("HEAD").is_file()
        && shown.join("objects").is_dir()
        && shown.join("refs").is_dir();
    (is_repository && is_apart(&shown, root, own, home)).then_some((shown, git))
}

/// The objects that a fork borrows from its parent's repository. Only in a folder that agon made is git's own word for it
/// believed: anywhere else an unpacked archive could name any folder.
fn borrowed(root: &Path, own: &[PathBuf], home: Option<&Path>) -> Option<PathBuf> {
    let forks = root.parent().filter(|forks| forks.ends_with("forks"))?;
    let state = real(forks.parent()?);
    own.iter().find(|own| real(own) == state)?;
    let named = small_text(&root.join(".git/objects/info/alternates"))?;
    let mut lines = named.lines();
    let (Some(path), None) = (lines.next(), lines.next()) else { return None };
    let objects = fs::canonicalize(path).ok()?;
    let is_repository = objects.ends_with("objects") && objects.parent()?.join("HEAD").is_file();
    (is_repository && is_callers(&objects) && is_apart(&objects, root, own, home)).then_some(objects)
}

/// Whether a folder is neither in the workspace nor closed for what it holds.
fn is_apart(folder: &Path, root: &Path, own: &[PathBuf], home: Option<&Path>) -> bool {
    let holds_home = home.is_some_and(|home| real(home).starts_with(folder));
    let mut own = own.iter().map(|own| real(own));
    folder.parent().is_some()
        && !folder.starts_with(root)
        && !holds_home
        && !CLOSED.iter().any(|closed| folder.starts_with(closed))
        && !own.any(|own| own.starts_with(folder) || folder.starts_with(&own))
}

/// What `core.worktree` says, as git itself writes it.
fn work_tree(config: &str) -> Option<&str> {
    let mut is_core = false;
    for line in config.lines().map(str::trim) {
        if line.starts_with('[') {
            is_core = line == "[core]";
        } else if let Some((_, value)) =
            line.split_once('=').filter(|(key, _)| is_core && key.trim() == "worktree")
        {
            return Some(value.trim().trim_matches('"'));
        }
    }
    None
}

fn is_callers(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|data| data.uid() == rustix::process::geteuid().as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(path: PathBuf, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A repository `main` with a work tree `side` and a submodule `main/sub`, as git lays them out.
    fn laid_out(base: &Path) {
        let git = base.join("main/.git");
        for folder in [git.clone(), git.join("modules/sub")] {
            fs::create_dir_all(folder.join("objects")).unwrap();
            fs::create_dir_all(folder.join("refs")).unwrap();
            put(folder.join("HEAD"), "ref: refs/heads/main\n");
        }
        put(git.join("worktrees/side/HEAD"), "ref: refs/heads/side\n");
        put(git.join("worktrees/side/commondir"), "../..\n");
        put(git.join("worktrees/side/gitdir"), &format!("{}\n", base.join("side/.git").display()));
        put(base.join("side/.git"), &format!("gitdir: {}\n", git.join("worktrees/side").display()));
        put(git.join("modules/sub/config"), "[core]\n\tbare = false\n\tworktree = ../../../sub\n");
        put(base.join("main/sub/.git"), "gitdir: ../.git/modules/sub\n");
    }

    #[test]
    fn a_repository_is_shown_where_it_names_the_workspace_back() {
        let folder = tempfile::tempdir().unwrap();
        let base = &fs::canonicalize(folder.path()).unwrap();
        laid_out(base);
        let of = |name: &str| outside(&base.join(name), &[], None);
        assert_eq!(of("side"), Some(base.join("main/.git")));
        assert_eq!(of("main/sub"), Some(base.join("main/.git/modules/sub")));
        assert_eq!(of("main"), None, "a folder of its own");
        let text = fs::read_to_string(base.join("side/.git")).unwrap();
        put(base.join("unpacked/.git"), &text);
        assert_eq!(of("unpacked"), None, "nobody has made that work tree");
        put(base.join("forged/g/HEAD"), "ref: refs/heads/main\n");
        put(base.join("forged/g/commondir"), &format!("{}\n", base.join("main/.git").display()));
        put(base.join("forged/g/gitdir"), "../work/.git\n");
        put(base.join("forged/work/.git"), "gitdir: ../g\n");
        assert_eq!(of("forged/work"), None, "the repository does not know that folder");
        fs::rename(base.join("side/.git"), base.join("side/file")).unwrap();
        std::os::unix::fs::symlink("file", base.join("side/.git")).unwrap();
        assert_eq!(of("side"), None, "a link is no plain file");
    }

    #[test]
    fn agons_own_files_and_what_holds_the_home_are_never_shown() {
        let folder = tempfile::tempdir().unwrap();
        let base = &fs::canonicalize(folder.path()).unwrap();
        laid_out(base);
        let of = |own: &str, home: &str| {
            outside(&base.join("side"), &[base.join(own)], Some(&base.join(home))).is_some()
        };
        assert!(of("own/not/yet", "home") && of("own", ""), "elsewhere, and in the home");
        assert!(!of("main/.git/agon", "home") && !of("main", "home") && !of("main/.git", "home"));
        assert!(!of("own", "main/.git") && !of("own", "main/.git/home"));
    }
}
