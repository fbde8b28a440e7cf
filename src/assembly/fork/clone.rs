//! Gives a fork of a git workspace a repository of its own: a clone that borrows the parent's objects, at its head.

use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

use crate::assembly::git_head::git_by;
use crate::assembly::prepared::remove;

/// How long git may take for all steps.
const LONGEST: Duration = Duration::from_secs(60);

/// Makes the repository in a folder that holds the files already. None where the parent is no repository of its own; in
/// words why it could not be made. The files are as they were recorded; index and head are the parent's head.
pub(super) async fn repository(parent: &Path, folder: &Path, state: &Path) -> Option<String> {
    if !parent.join(".git").exists() || folder.join(".git").exists() {
        return None;
    }
    let apart = folder.with_extension("git-clone");
    let made = borrow(parent, (&apart, folder), state).await;
    // Empty when all went well.
    remove(&apart);
    made.err().map(|why| format!("the fork is no git repository: {why}"))
}

async fn borrow(parent: &Path, (apart, folder): (&Path, &Path), state: &Path) -> Result<(), String> {
    let deadline = Instant::now() + LONGEST;
    let (from, to) = (parent.to_string_lossy().into_owned(), apart.to_string_lossy().into_owned());
    let mut clone = vec!["clone", "-q", "--no-checkout", "--template="];
    // A fork of a fork has objects of its own: what borrows from a borrower is lost with either.
    clone.push(if parent.starts_with(state) { "--no-local" } else { "--shared" });
    clone.extend(["--", &from, &to]);
    git_by(parent, &clone, deadline).await?;
    git_by(apart, &["remote", "remove", "origin"], deadline).await?;
    // A repository without a commit has nothing to fill its index with.
    if git_by(apart, &["rev-parse", "-q", "--verify", "HEAD"], deadline).await.is_ok() {
        git_by(apart, &["read-tree", "HEAD"], deadline).await?;
    }
    std::fs::rename(apart.join(".git"), folder.join(".git")).map_err(|error| error.to_string())
}
