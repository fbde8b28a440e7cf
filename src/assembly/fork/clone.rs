//! Gives a fork of a git workspace a repository of its own: a clone that borrows the parent's objects, at its head.

use std::path::Path;
use std::time::Duration;

use crate::assembly::git_head;

/// How long git may take for one step.
const LONGEST: Duration = Duration::from_secs(60);

/// Makes the repository in a folder that holds the files already. None where the parent is no repository of its own; in
/// words why it could not be made. The files are as they were recorded; index and head are the parent's head.
pub(super) fn repository(parent: &Path, folder: &Path, state: &Path) -> Option<String> {
    if !parent.join(".git").exists() || folder.join(".git").exists() {
        return None;
    }
    let made = borrow(parent, folder, state);
    made.err().map(|why| format!("the fork is no git repository: {why}"))
}

fn borrow(parent: &Path, folder: &Path, state: &Path) -> Result<(), String> {
    let apart = folder.with_extension("git-clone");
    let (from, to) = (parent.to_string_lossy().into_owned(), apart.to_string_lossy().into_owned());
    let mut clone = vec!["clone", "-q", "--no-checkout", "--template="];
    // A fork of a fork has objects of its own: what borrows from a borrower is lost with either.
    clone.push(if parent.starts_with(state) { "--no-local" } else { "--shared" });
    clone.extend(["--", &from, &to]);
    let git = |root: &Path, arguments: &[&str]| git_head::git(root, arguments, LONGEST);
    let made = git(parent, &clone).and_then(|_| {
        git(&apart, &["remote", "remove", "origin"])?;
        // A repository without a commit has nothing to fill its index with.
        if git(&apart, &["rev-parse", "-q", "--verify", "HEAD"]).is_ok() {
            git(&apart, &["read-tree", "HEAD"])?;
        }
        std::fs::rename(apart.join(".git"), folder.join(".git")).map_err(|error| error.to_string())
    });
    // Empty when all went well.
    let _ = std::fs::remove_dir_all(&apart);
    made
}
