//! Names of a workspace that every sandbox treats alike: which are secret, which are protected, and what becomes of
//! protected ones that a command has made; knows no kind of sandbox.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use super::chmod_guard::Opened;
use super::link_targets::Leads;
use super::masks::{FoundPaths, Kind};
use super::mount_stubs::Placeholder;
use super::protected::ProtectedNames;
use crate::ports::ExecEnd;
use crate::protocol::text::name_shown;

/// Protected names directly in a workspace, and one folder further down in hidden folders, where CI keeps its own, and
/// in those that the names say.
/// Where such a folder is a repository itself, its `HEAD` is one of them. Relative to the root.
pub fn protected_now(root: &Path, protected: &ProtectedNames) -> BTreeSet<PathBuf> {
    let mut opened = Opened::default();
    let mut entries = |folder: &Path| {
        opened.open(&root.join(folder));
        fs::read_dir(root.join(folder)).into_iter().flatten().flatten().collect::<Vec<_>>()
    };
    let hidden = entries(Path::new("")).into_iter().filter(|entry| {
        let name = entry.file_name();
        entry.file_type().is_ok_and(|kind| kind.is_dir())
            && (name.as_encoded_bytes().starts_with(b".")
                || protected.holds_protected(&name.to_string_lossy()))
    });
    let folders: Vec<PathBuf> =
        std::iter::once(PathBuf::new()).chain(hidden.map(|entry| entry.file_name().into())).collect();
    let mut paths = Vec::new();
    for folder in &folders {
        paths.extend(entries(folder).into_iter().map(|entry| folder.join(entry.file_name())));
    }
    let heads = folders.iter().filter(|folder| is_repository(&root.join(folder)));
    let heads: Vec<PathBuf> = heads.map(|folder| folder.join(HEAD)).collect();
    paths.into_iter().filter(|path| is_protected(root, path, protected)).chain(heads).collect()
}

/// What no folder is a repository without.
const HEAD: &str = "HEAD";

/// True for a protected name, and for a link that stands where only a folder with protected names is expected.
pub fn is_protected(root: &Path, path: &Path, protected: &ProtectedNames) -> bool {
    let name = path.to_string_lossy();
    protected.reason(&name).is_some()
        || (protected.holds_protected(&name)
            && fs::symlink_metadata(root.join(path)).is_ok_and(|data| data.is_symlink()))
}

/// How the protected names of a workspace stand before a command runs. Paths are relative to the root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProtectedSnapshot {
    /// Which names are protected.
    pub protected: ProtectedNames,
    /// Names that are there.
    pub names: BTreeSet<PathBuf>,
    /// Links that names are or lead through, with what they say.
    pub links: BTreeMap<PathBuf, PathBuf>,
    /// Where names lead to and nothing is.
    pub absent: BTreeSet<PathBuf>,
    /// Which file or folder each covered name is. A cover lies on what is there: on what a person puts in its place
    /// while a command runs lies none.
    pub covered: BTreeMap<PathBuf, (Kind, Same)>,
}

/// Device, number and time of birth: what is still the same.
pub type Same = (u64, u64, Option<SystemTime>);

/// Which file or folder is there now; none for a link.
pub(super) fn same(path: &Path) -> Option<Same> {
    let data = fs::symlink_metadata(path).ok().filter(|data| !data.is_symlink())?;
    Some((data.dev(), data.ino(), data.created().ok()))
}

impl ProtectedSnapshot {
    /// As it is now, with what was found further down before.
    pub fn now(root: &Path, found: &FoundPaths) -> Self {
        let protected = found.protected.clone();
        let names = protected_now(root, &protected);
        let mut standing = ProtectedSnapshot { protected, names, ..ProtectedSnapshot::default() };
        standing.links.extend(found.links.iter().cloned());
        let is_somebodys =
            |name: &&PathBuf| is_outermost(name, &found.protected) && !Placeholder::stands(&root.join(name));
        let top = standing.names.iter().filter(is_somebodys).map(|name| (name, Kind::Guarded));
        let covered = top.chain(found.names.iter().map(|(name, kind)| (name, *kind)));
        let covered =
            covered.filter_map(|(name, kind)| Some((name.clone(), (kind, same(&root.join(name))?))));
        standing.covered = covered.collect();
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

    /// Nobody knows who made a name after agon had ended.
    fn cure(self) -> &'static str {
        match self {
            Maker::ThisCommand => "",
            Maker::CutOff => "; if it is yours, rename it back",
        }
    }
}

/// What was set aside.
#[derive(Debug, Default)]
pub struct SetAside {
    /// A line for each name, for people and, noted, for the model.
    pub lines: Vec<String>,
    /// Names that stand there still, because the system refused.
    pub stuck: Vec<PathBuf>,
}

/// Renames protected names that a command has made, and puts links back that it has replaced, so that nobody takes
/// them for what they are not. Folders that it closed are opened for that.
///
/// What lies in a protected folder is left alone: no command can write there, so it is the person's, and a folder that
/// a command made goes as a whole.
pub fn set_aside(root: &Path, before: &ProtectedSnapshot, maker: Maker) -> SetAside {
    let mut done = SetAside::default();
    let mut opened = Opened::default();
    let outermost = |path: &&PathBuf| is_outermost(path, &before.protected);
    for path in before.links.keys().chain(&before.absent).filter(outermost) {
        opened.open_way(root, path);
    }
    for (path, to) in before.links.iter().filter(|(path, _)| is_outermost(path, &before.protected)) {
        if !fs::read_link(root.join(path)).is_ok_and(|now| now == *to) {
            put_back(root, (path, to), maker, &mut done);
        }
    }
    let made = protected_now(root, &before.protected).into_iter().filter(|path| !before.names.contains(path));
    let filled = before.absent.iter().filter(|path| exists(&root.join(path))).cloned();
    for path in made.chain(filled).filter(|path| is_outermost(path, &before.protected)) {
        opened.open_way(root, &path);
        let line = match aside(root, &path) {
            Ok(name) => format!("is now `{}`{}", shown(&name), maker.cure()),
            // Another agon's call in the same workspace has set it aside.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => {
                done.stuck.push(path.clone());
                format!("stands there still, because it cannot be renamed: {error}")
            }
        };
        let is_head = path.file_name().is_some_and(|name| name == HEAD);
        let why = if is_head { "makes a git repository of its folder" } else { "is a protected name" };
        done.lines.push(format!("`{}` {why}; {} {line}", shown(&path), maker.words()));
    }
    for (path, (kind, then)) in &before.covered {
        if same(&root.join(path)).is_some_and(|now| now != *then) {
            let could = if *kind == Kind::Masked { "read and change it" } else { "change it" };
            let when = match maker {
                Maker::ThisCommand => "while this command ran",
                Maker::CutOff => "since a command began that was cut off",
            };
            done.lines.push(format!(
                "`{}` was replaced {when}, and the command could {could}: look at it",
                shown(path)
            ));
        }
    }
    done
}

/// True for what lies in no protected folder.
fn is_outermost(path: &Path, protected: &ProtectedNames) -> bool {
    path.parent().is_none_or(|parent| protected.reason(&parent.to_string_lossy()).is_none())
}

fn put_back(root: &Path, (path, to): (&Path, &Path), maker: Maker, done: &mut SetAside) {
    let moved = match aside(root, path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        moved => Ok(moved.ok()),
    };
    let back = |moved| std::os::unix::fs::symlink(to, root.join(path)).map(|()| moved);
    let line = match moved.and_then(back) {
        Ok(Some(aside)) => format!("{} of it is now `{}`{}", maker.words(), shown(&aside), maker.cure()),
        Ok(None) => "a command had removed it".to_owned(),
        Err(error) => {
            if exists(&root.join(path)) {
                done.stuck.push(path.to_owned());
            }
            format!("it was replaced and cannot be put back: {error}")
        }
    };
    done.lines.push(format!("`{}` is a protected link to `{}`; {line}", shown(path), shown(to)));
}

/// Renames what stands at a path, or what has become of a folder on the way to it.
fn aside(root: &Path, path: &Path) -> std::io::Result<PathBuf> {
    let path = first_no_folder(root, path).unwrap_or(path);
    let aside = free_name(root, path);
    fs::rename(root.join(path), root.join(&aside)).map(|()| aside)
}

/// The first on the way to a path that is there and no folder: what lies behind it is not where it seems to be.
fn first_no_folder<'p>(root: &Path, path: &'p Path) -> Option<&'p Path> {
    let mut above: Vec<&Path> =
        path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()).collect();
    above.reverse();
    above.into_iter().find(|above| fs::symlink_metadata(root.join(above)).is_ok_and(|data| !data.is_dir()))
}

fn shown(path: &Path) -> String {
    name_shown(&path.to_string_lossy()).into_owned()
}

/// Why the need `git` is not available where there is no repository.
pub const NO_REPOSITORY: &str = "the workspace is no git repository; `git init` makes one outside the sandbox: call it \
                                 alone with `needs: [\"unconfined\"]` and `why`, or leave it to the user";

/// What a command's own complaint does not say: why `.git`, or a whole workspace, cannot be written, and what to do.
/// `git` says why the need of that name is not available, if so.
pub fn told_of_closed(
    end: &ExecEnd,
    git: impl FnOnce() -> Option<String>,
    read_only: bool,
) -> Option<String> {
    let lines = || end.stderr.lines().chain(end.stdout.lines());
    let is_closed = |line: &&str| line.contains("Read-only file system");
    let is_git = |line: &str| line.contains(".git/") || line.contains(".git'");
    let names_git = lines().filter(is_closed).any(is_git);
    let is_unseen = ["fatal: not a git repository", "error: unable to normalize alternate object path"];
    if lines().any(|line| is_unseen.iter().any(|words| line.starts_with(words))) {
        return git();
    }
    if (end.exit == Some(0) && !names_git) || !lines().any(|line| is_closed(&line)) {
        return None;
    }
    match (names_git, read_only) {
        (_, true) => Some(
            "the workspace cannot be changed from here: say what should be changed; what you need to write for yourself goes to /tmp".to_owned(),
        ),
        (true, false) => Some(match git() {
            None => "`.git` is read-only for this command; to change the workspace's own repository, repeat the call with `needs: [\"git\"]` and `why`; another one is changed by an agon that is started in it".to_owned(),
            Some(why) if why.ends_with(NO_REPOSITORY) => why,
            Some(why) => format!(
                "`.git` is read-only for this command, and {why}; leave the change in the files and propose a commit \
                 message: the user commits"
            ),
        }),
        (false, false) => None,
    }
}

/// What a command's complaint about a hidden file does not say.
pub fn told_of_hidden(end: &ExecEnd, found: &FoundPaths) -> Option<String> {
    let lines = end.stderr.lines().chain(end.stdout.lines());
    let refused: Vec<&str> = lines.filter(|line| line.contains("ermission denied")).take(50).collect();
    let masked = found.names.iter().filter(|(_, kind)| **kind == Kind::Masked).map(|(path, _)| path);
    let masked = masked.chain(found.as_tracked.keys());
    let is_met = |path: &&PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        refused.iter().any(|line| line.contains(&*name))
    };
    // The longest name: another may be its beginning.
    let met =
        masked.filter(|_| !refused.is_empty()).filter(is_met).max_by_key(|path| path.as_os_str().len())?;
    Some(format!(
        "`{}` is hidden from commands, because files with such names hold secrets (setting `names.secret`; \
         `names.except` leaves a name out); ask the user for what you need of it",
        shown(met)
    ))
}

/// A name beside it that nobody has.
fn free_name(root: &Path, path: &Path) -> PathBuf {
    let name = |i: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(if i == 0 { ".untrusted".to_owned() } else { format!(".untrusted{i}") });
        PathBuf::from(name)
    };
    // A command may have taken them all.
    let chosen = || name(uuid::Uuid::now_v7().as_fields().0);
    (0..1000).map(name).find(|name| !exists(&root.join(name))).unwrap_or_else(chosen)
}

/// The patterns as one set, read as policy reads them. Where one cannot be read, everything matches.
pub fn globs(patterns: &[String]) -> GlobSet {
    let read =
        |pattern: &str| GlobBuilder::new(pattern).empty_alternates(true).case_insensitive(true).build();
    let whole = |patterns: &[&str]| {
        let mut set = GlobSetBuilder::new();
        for pattern in patterns {
            set.add(read(pattern)?);
        }
        set.build()
    };
    let wanted: Vec<&str> = patterns.iter().map(String::as_str).collect();
    whole(&wanted).or_else(|_| whole(&["**"])).unwrap_or_else(|_| GlobSet::empty())
}

/// True for a folder that git would take for a repository's own, whatever its name.
pub fn is_repository(folder: &Path) -> bool {
    is_repository_with(folder, &|_| false)
}

/// The same once some names have been made in it.
pub fn is_repository_with(folder: &Path, made: &dyn Fn(&str) -> bool) -> bool {
    let has = |name: &str| made(name) || exists(&folder.join(name));
    has(HEAD) && (has("commondir") || (has("objects") && has("refs")))
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
        let before = ProtectedSnapshot::now(root, &FoundPaths::default());
        fs::create_dir_all(root.join(".github/workflows")).unwrap();
        fs::write(root.join("CLAUDE.md"), "evil").unwrap();
        fs::write(root.join("CLAUDE.md.untrusted"), "in the way").unwrap();
        let lines = set_aside(root, &before, Maker::ThisCommand).lines;
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(
            lines[1].contains("`CLAUDE.md` is a protected name") && lines[1].contains("CLAUDE.md.untrusted1")
        );
        assert!(root.join(".github/workflows.untrusted").is_dir() && root.join("AGENTS.md").exists());
        assert_eq!(ProtectedSnapshot::now(root, &FoundPaths::default()), before);
    }

    #[test]
    fn a_folder_that_a_command_makes_a_repository_of_is_none_when_it_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir(root.join(".hidden")).unwrap();
        fs::write(root.join("config"), "[core]").unwrap();
        let before = ProtectedSnapshot::now(root, &FoundPaths::default());
        for at in [root.to_owned(), root.join(".hidden")] {
            ["objects", "refs"].iter().for_each(|name| fs::create_dir(at.join(name)).unwrap());
            fs::write(at.join("HEAD"), "ref: refs/heads/main").unwrap();
        }
        let lines = set_aside(root, &before, Maker::ThisCommand).lines;
        assert!(lines.len() == 2 && lines[1].contains("`HEAD` makes a git repository"), "{lines:?}");
        assert!(root.join("HEAD.untrusted").exists() && !is_repository(root), "{lines:?}");
        assert!(!is_repository(&root.join(".hidden")));
        // One that was there is the person's.
        fs::rename(root.join("HEAD.untrusted"), root.join("HEAD")).unwrap();
        let before = ProtectedSnapshot::now(root, &FoundPaths::default());
        assert!(set_aside(root, &before, Maker::ThisCommand).lines.is_empty() && is_repository(root));
    }

    #[test]
    fn a_pattern_that_cannot_be_read_covers_everything() {
        let set = globs(&["*.key".to_owned(), "[z-a".to_owned()]);
        assert!(set.is_match("src/main.rs"));
        let set = globs(&["*.key".to_owned()]);
        assert!(set.is_match("A.KEY") && !set.is_match("src/main.rs"));
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
        let before = ProtectedSnapshot::now(root, &FoundPaths::default());
        fs::remove_file(root.join("AGENTS.md")).unwrap();
        fs::write(root.join("AGENTS.md"), "evil").unwrap();
        fs::write(root.join("docs/none.md"), "evil").unwrap();
        symlink("docs", root.join(".github")).unwrap();
        let lines = set_aside(root, &before, Maker::CutOff).lines;
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[0].contains("protected link") && lines[0].contains("cut off"), "{lines:?}");
        assert_eq!(fs::read_to_string(root.join("AGENTS.md")).unwrap(), "rules");
        assert_eq!(fs::read_to_string(root.join("AGENTS.md.untrusted")).unwrap(), "evil");
        assert!(!root.join("docs/none.md").exists() && !exists(&root.join(".github")));
        assert_eq!(ProtectedSnapshot::now(root, &FoundPaths::default()), before);
    }
}
