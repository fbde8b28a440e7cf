//! The repository of a workspace as a call may change it: the folder that its overlay covers, and what is in the way.

use std::fs;
use std::path::{Path, PathBuf};

use super::super::super::link_targets::small_text;
use super::super::super::protected_snapshot::NO_REPOSITORY;
use super::super::super::repository;

/// What an unfinished operation leaves in the folder of a work tree. It could not be continued from a call.
pub const UNFINISHED: [&str; 4] = ["rebase-merge", "rebase-apply", "sequencer", "BISECT_LOG"];

/// The function that names a repository's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashKind {
    Sha1,
    Sha256,
}

impl HashKind {
    /// Bytes of a name.
    pub fn bytes(self) -> usize {
        match self {
            HashKind::Sha1 => 20,
            HashKind::Sha256 => 32,
        }
    }
}

/// A repository that a call may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitPlace {
    /// The folder that all work trees of the repository share.
    pub common: PathBuf,
    /// This work tree's folder in it; empty for the main one.
    pub own: PathBuf,
    pub hash: HashKind,
}

/// Why there is no git in a clone that was made with `--shared` or `--reference`.
const BORROWS: &str = "its objects are borrowed from a folder that commands do not see; `git repack -a -d` outside, and then \
                       removing `.git/objects/info/alternates`, makes it whole";

/// Whether objects are in a folder outside of the workspace.
fn borrows(common: &Path, root: &Path) -> bool {
    let objects = common.join("objects");
    let named = small_text(&objects.join("info/alternates")).unwrap_or_default();
    let is_outside =
        |line: &str| !fs::canonicalize(objects.join(line)).is_ok_and(|path| path.starts_with(root));
    named.lines().filter(|line| !line.is_empty()).any(is_outside)
}

fn not_a_top_folder(root: &Path) -> String {
    match root.ancestors().skip(1).find(|above| above.join(".git").exists()) {
        None => NO_REPOSITORY.to_owned(),
        Some(top) => format!(
            "the workspace is a folder of the repository {}, which commands do not see; to use git, the user starts agon \
             there, or with `--workspace {0}`",
            top.display()
        ),
    }
}

impl GitPlace {
    /// The repository whose top folder a workspace is; else why there is none to open. `apart` are agon's own folders.
    pub fn of(root: &Path, apart: &[PathBuf], home: Option<&Path>) -> Result<Self, String> {
        let file = root.join(".git");
        let data = fs::symlink_metadata(&file).ok();
        let (common, git) = match data {
            Some(data) if data.is_dir() => (file.clone(), file),
            Some(data) if data.is_file() => {
                let outside = repository::folders_outside(root, apart, home);
                outside.ok_or("the repository that `.git` names is not one that this workspace may change")?
            }
            _ => return Err(not_a_top_folder(root)),
        };
        let is_shown = repository::outside(root, apart, home).filter(|shown| *shown != common).is_some();
        if !is_shown && borrows(&common, root) {
            return Err(BORROWS.to_owned());
        }
        let is_folder = |path: PathBuf| fs::symlink_metadata(path).is_ok_and(|data| data.is_dir());
        if !["objects", "refs"].iter().all(|name| is_folder(common.join(name))) {
            return Err("`.git` has no `objects` and `refs` of its own".to_owned());
        }
        if is_folder(common.join("reftable")) {
            return Err("its references are kept in `reftable`, which cannot be taken over".to_owned());
        }
        if let Some(name) = UNFINISHED.iter().find(|name| git.join(name).exists()) {
            let words = format!("an operation that somebody began is not finished (`.git/{name}`)");
            return Err(format!("{words}: the user has to continue or abort it first"));
        }
        let own = git.strip_prefix(&common).map_err(|_| "its work tree is elsewhere")?.to_owned();
        let settings = small_text(&common.join("config")).unwrap_or_default().to_lowercase();
        let is_long = settings.lines().any(|line| line.replace(' ', "").trim() == "objectformat=sha256");
        Ok(GitPlace { common, own, hash: if is_long { HashKind::Sha256 } else { HashKind::Sha1 } })
    }
}
