//! Names of a workspace that every sandbox treats alike: which are secret, which are protected, and what becomes of
//! protected ones that a command has made; knows no kind of sandbox.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use super::leads::Leads;
use super::protected;
use crate::ports::ExecEnd;
use crate::protocol::text::name_shown;

/// Protected names directly in a workspace, and one folder further down in hidden folders, where CI keeps its own.
/// Relative to the root.
pub fn protected_now(root: &Path) -> BTreeSet<PathBuf> {
    let entries = |folder: &Path| fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
    let hidden = entries(Path::new("")).filter(|entry| {
        entry.file_type().is_ok_and(|kind| kind.is_dir())
            && entry.file_name().as_encoded_bytes().starts_with(b".")
    });
    let folders: Vec<PathBuf> =
        std::iter::once(PathBuf::new()).chain(hidden.map(|entry| entry.file_name().into())).collect();
    let paths =
        folders.iter().flat_map(|folder| entries(folder).map(move |entry| folder.join(entry.file_name())));
    paths.filter(|path| is_protected(root, path)).collect()
}

/// True for a protected name, and for a link that stands where only a folder with protected names is expected.
pub fn is_protected(root: &Path, path: &Path) -> bool {
    let name = path.to_string_lossy();
    protected::reason(&name).is_some()
        || (protected::holds_protected(&name)
            && fs::symlink_metadata(root.join(path)).is_ok_and(|data| data.is_symlink()))
}

/// How the protected names of a workspace stand before a command runs. Paths are relative to the root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Names that are there.
    pub names: BTreeSet<PathBuf>,
    /// Links that names are or lead through, with what they say.
    pub links: BTreeMap<PathBuf, PathBuf>,
    /// Where names lead to and nothing is.
    pub absent: BTreeSet<PathBuf>,
}

impl Standing {
    /// As it is now. `deep` are links further down that somebody has found before.
    pub fn now(root: &Path, deep: &[(PathBuf, PathBuf)]) -> Self {
        let mut standing = Standing { names: protected_now(root), ..Standing::default() };
        standing.links.extend(deep.iter().cloned());
        for leads in standing.names.iter().map(|name| Leads::of(root, name)) {
            standing.links.extend(leads.links);
            standing.absent.extend(leads.absent);
        }
        standing
    }
}

/// Who made what is set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// The command that has just ended.
    ThisCommand,
    /// A command whose agon ended before it.
    CutOff,
}

impl Maker {
    fn words(self) -> &'static str {
        match self {
            Maker::ThisCommand => "what this command made",
            Maker::CutOff => "what a command made that was cut off",
        }
    }
}

/// Renames protected names that a command has made, and puts links back that it has replaced, so that nobody takes
/// them for what they are not. Gives a line for each, for people and, noted, for the model.
pub fn set_aside(root: &Path, before: &Standing, maker: Maker) -> Vec<String> {
    let mut lines = Vec::new();
    for (path, to) in &before.links {
        if !fs::read_link(root.join(path)).is_ok_and(|now| now == *to) {
            lines.push(put_back(root, path, to, maker));
        }
    }
    let made = protected_now(root).into_iter().filter(|path| !before.names.contains(path));
    let filled = before.absent.iter().filter(|path| exists(&root.join(path))).cloned();
    for path in made.chain(filled) {
        let line = match is_plain(root, &path).then(|| aside(root, &path)) {
            Some(Ok(name)) => format!("is now `{}`", shown(&name)),
            // Another agon's call in the same workspace has set it aside.
            Some(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Some(Err(error)) => format!("should not be there and cannot be renamed: {error}"),
            None => "should not be there and lies behind a link".to_owned(),
        };
        lines.push(format!("`{}` is a protected name; {} {line}", shown(&path), maker.words()));
    }
    lines
}

/// A line of agon's own in what a command wrote.
pub fn noted(line: &str) -> String {
    format!("[agon: {line}]\n")
}

fn put_back(root: &Path, path: &Path, to: &Path, maker: Maker) -> String {
    let done = match is_plain(root, path) {
        false => Err("the way to it has become a link".to_owned()),
        true => match aside(root, path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.to_string()),
            moved => std::os::unix::fs::symlink(to, root.join(path))
                .map(|()| moved.ok())
                .map_err(|error| error.to_string()),
        },
    };
    let (name, to) = (shown(path), shown(to));
    let line = match done {
        Ok(Some(aside)) => format!("{} of it is now `{}`", maker.words(), shown(&aside)),
        Ok(None) => "a command had removed it".to_owned(),
        Err(error) => format!("it was replaced and cannot be put back: {error}"),
    };
    format!("`{name}` is a protected link to `{to}`; {line}")
}

fn aside(root: &Path, path: &Path) -> std::io::Result<PathBuf> {
    let aside = free_name(root, path);
    fs::rename(root.join(path), root.join(&aside)).map(|()| aside)
}

/// True when no folder on the way to a path is a link: what is renamed is then where it seems to be.
fn is_plain(root: &Path, path: &Path) -> bool {
    let above = path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
    let is_folder = |above: &Path| fs::symlink_metadata(root.join(above)).is_ok_and(|data| data.is_dir());
    above.into_iter().all(is_folder)
}

fn shown(path: &Path) -> String {
    name_shown(&path.to_string_lossy()).into_owned()
}

/// What a command's own complaint does not say: why `.git`, or a whole workspace, cannot be written, and what to do.
pub fn told_of_closed(end: &ExecEnd, read_only: bool) -> Vec<String> {
    if end.exit == Some(0) {
        return Vec::new();
    }
    let lines = || end.stderr.lines().chain(end.stdout.lines());
    let is_closed = |line: &&str| line.contains("Read-only file system");
    let is_git = |line: &str| line.contains(".git/") || line.contains(".git'");
    let words = match (lines().find(is_closed), lines().filter(is_closed).any(is_git), read_only) {
        (None, ..) => return Vec::new(),
        (Some(_), _, true) => {
            "the workspace cannot be changed from here: say what should be changed; what you need to write for yourself goes to /tmp"
        }
        (Some(_), true, false) => {
            "`.git` cannot be changed by a command, so `git add`, `git commit`, `git stash` and the like fail here; leave the change in the files and propose a commit message: the person commits"
        }
        _ => return Vec::new(),
    };
    vec![format!("[agon: {words}]\n")]
}

/// A name beside it that nobody has.
fn free_name(root: &Path, path: &Path) -> PathBuf {
    let name = |i: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(if i == 0 { ".untrusted".to_owned() } else { format!(".untrusted{i}") });
        PathBuf::from(name)
    };
    (0..1000).map(name).find(|name| !exists(&root.join(name))).unwrap_or_else(|| name(0))
}

/// The patterns as one set, read as policy reads them; one that cannot be read matches nothing.
pub fn globs(patterns: &[String]) -> GlobSet {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let mut glob = GlobBuilder::new(pattern);
        if let Ok(glob) = glob.empty_alternates(true).case_insensitive(true).build() {
            set.add(glob);
        }
    }
    set.build().unwrap_or_else(|_| GlobSet::empty())
}

/// True for anything of this name, a broken link included.
pub fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protected_names_that_were_made_are_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::write(root.join("AGENTS.md"), "before").unwrap();
        let before = Standing::now(root, &[]);
        fs::create_dir_all(root.join(".github/workflows")).unwrap();
        fs::write(root.join("CLAUDE.md"), "evil").unwrap();
        fs::write(root.join("CLAUDE.md.untrusted"), "in the way").unwrap();
        let lines = set_aside(root, &before, Maker::ThisCommand);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(
            lines[1].contains("`CLAUDE.md` is a protected name") && lines[1].contains("CLAUDE.md.untrusted1")
        );
        assert!(root.join(".github/workflows.untrusted").is_dir() && root.join("AGENTS.md").exists());
        assert_eq!(Standing::now(root, &[]), before);
    }

    #[test]
    fn a_link_that_was_replaced_is_put_back_and_what_it_led_to_may_not_appear() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let root = &fs::canonicalize(folder.path()).unwrap();
        fs::create_dir_all(root.join("docs")).unwrap();
        fs::write(root.join("docs/RULES.md"), "rules").unwrap();
        symlink("docs/RULES.md", root.join("AGENTS.md")).unwrap();
        symlink("docs/none.md", root.join("CLAUDE.md")).unwrap();
        let before = Standing::now(root, &[]);
        fs::remove_file(root.join("AGENTS.md")).unwrap();
        fs::write(root.join("AGENTS.md"), "evil").unwrap();
        fs::write(root.join("docs/none.md"), "evil").unwrap();
        symlink("docs", root.join(".github")).unwrap();
        let lines = set_aside(root, &before, Maker::CutOff);
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[0].contains("protected link") && lines[0].contains("cut off"), "{lines:?}");
        assert_eq!(fs::read_to_string(root.join("AGENTS.md")).unwrap(), "rules");
        assert_eq!(fs::read_to_string(root.join("AGENTS.md.untrusted")).unwrap(), "evil");
        assert!(!root.join("docs/none.md").exists() && !exists(&root.join(".github")));
        assert_eq!(Standing::now(root, &[]), before);
    }
}
