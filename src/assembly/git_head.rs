//! The commit a work tree is on and those made in it, read from what git keeps; runs git where reading is not enough.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::time::Instant;

use crate::host_files;

/// The most that one of git's own files may hold, in bytes.
const MAX_FILE: u64 = 32 << 20;

/// How long git may take to name a commit.
const LONGEST: Duration = Duration::from_secs(5);

/// The commit a work tree is on; none outside of a repository and before the first commit. Nothing in the
/// repository is executed.
pub async fn git_head(root: &Path) -> Option<String> {
    let dot = root.ancestors().map(|folder| folder.join(".git")).find(|dot| dot.exists())?;
    let own = git_folder(dot)?;
    let common = match text(&own.join("commondir")) {
        Some(path) => own.join(path.trim()),
        None => own.clone(),
    };
    if common.join("reftable").exists() {
        let asked = git_by(root, &["rev-parse", "--verify", "HEAD"], Instant::now() + LONGEST).await;
        return commit(asked.ok()?.trim());
    }
    let head = text(&own.join("HEAD"))?;
    match head.trim().strip_prefix("ref: ") {
        None => commit(head.trim()),
        Some(name) => reference(&own, &common, name.trim()),
    }
}

/// The branch a work tree is on, without a branch where its head is detached; none outside of a repository.
pub fn branch(root: &Path) -> Option<Option<String>> {
    let dot = root.ancestors().map(|folder| folder.join(".git")).find(|dot| dot.exists())?;
    let head = text(&git_folder(dot)?.join("HEAD"))?;
    Some(head.trim().strip_prefix("ref: refs/heads/").map(str::to_owned))
}

/// A commit that was made in a work tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeCommit {
    /// The commit before it; none for the first one.
    pub parent: Option<String>,
    /// Its id.
    pub id: String,
    /// The first line of its message.
    pub subject: String,
}

/// The commits made in a work tree while commands ran, as git's own record of its head has them: `spans` are their times
/// in microseconds since the Unix epoch. Git records whole seconds, so what led to `head` before they end is left out.
pub fn commits_within(root: &Path, head: Option<&str>, spans: &[(u64, u64)]) -> Vec<MadeCommit> {
    let dot = root.ancestors().map(|folder| folder.join(".git")).find(|dot| dot.exists());
    let record = dot.and_then(git_folder).and_then(|own| text(&own.join("logs/HEAD"))).unwrap_or_default();
    let second = |at: u64| at / 1_000_000;
    let first = spans.iter().map(|(from, _)| second(*from)).min().unwrap_or_default();
    let is_within = |at: u64| spans.iter().any(|(from, to)| (second(*from)..=second(*to)).contains(&at));
    let moved = |line: &str| {
        let (moved, why) = line.split_once('\t')?;
        let (ids, who) = moved.split_at_checked(moved.match_indices(' ').nth(1)?.0)?;
        let at: u64 = who.rsplit(' ').nth(1)?.parse().ok()?;
        let (verb, subject) = why.split_once(": ").unwrap_or((why, ""));
        let (parent, id) = ids.split_once(' ')?;
        let parent = commit(parent).filter(|id| id.bytes().any(|byte| byte != b'0'));
        let made = MadeCommit { parent, id: commit(id)?, subject: subject.to_owned() };
        Some((at, verb.starts_with("commit"), made))
    };
    let moves: Vec<_> = record.lines().filter_map(moved).collect();
    let known = moves.iter().rposition(|(at, _, made)| *at <= first && Some(made.id.as_str()) == head);
    let since = moves.into_iter().skip(known.map_or(0, |place| place + 1));
    since.filter(|(at, is_commit, _)| *is_commit && is_within(*at)).map(|(.., made)| made).collect()
}

/// A work tree of its own has a file that says where git keeps it.
fn git_folder(dot: PathBuf) -> Option<PathBuf> {
    if dot.is_dir() {
        return Some(dot);
    }
    let said = text(&dot)?;
    Some(dot.parent()?.join(said.trim().strip_prefix("gitdir: ")?))
}

fn reference(own: &Path, common: &Path, name: &str) -> Option<String> {
    let is_plain = name.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
    if !is_plain || !name.starts_with("refs/") {
        return None;
    }
    let loose = [own, common].into_iter().find_map(|folder| text(&folder.join(name)));
    if let Some(loose) = loose {
        return commit(loose.trim());
    }
    let packed = text(&common.join("packed-refs"))?;
    let mut lines = packed.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(_, packed)| *packed == name).and_then(|(id, _)| commit(id))
}

fn commit(id: &str) -> Option<String> {
    let is_id = matches!(id.len(), 40 | 64) && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| id.to_owned())
}

fn text(path: &Path) -> Option<String> {
    host_files::text(path, MAX_FILE)
}

/// What git says until `deadline`. It ends with everything it started as soon as nothing waits for it any more.
pub async fn git_by(root: &Path, arguments: &[&str], deadline: Instant) -> Result<String, String> {
    let mut git = tokio::process::Command::from(git(root, arguments));
    let child = git.process_group(0).kill_on_drop(true).spawn();
    let child = child.map_err(|error| format!("git cannot be started: {error}"))?;
    let mut group = Group(child.id().and_then(|id| Pid::from_raw(id.cast_signed())));
    let output = tokio::time::timeout_at(deadline, child.wait_with_output()).await;
    let output = output.map_err(|_| "git took too long")?.map_err(|error| error.to_string())?;
    group.0 = None;
    said(&output)
}

/// A process group that is killed with this value.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        // One that is gone is what was wanted.
        let _ = self.0.map(|leader| kill_process_group(leader, Signal::KILL));
    }
}

/// Git with a configuration that executes nothing and reaches nothing but this machine's files.
fn git(root: &Path, arguments: &[&str]) -> Command {
    let mut git = Command::new("git");
    git.args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "protocol.allow=never"]);
    git.args(["-c", "protocol.file.allow=always"]).args(arguments).current_dir(root).env_clear();
    git.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_OPTIONAL_LOCKS", "0");
    git.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("LC_ALL", "C");
    git.env("GIT_NO_LAZY_FETCH", "1");
    git.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    git
}

fn said(output: &Output) -> Result<String, String> {
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            let words = String::from_utf8_lossy(&output.stderr);
            Err(words.lines().find(|line| !line.trim().is_empty()).unwrap_or("git failed").trim().to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "1111111111111111111111111111111111111111";
    const TWO: &str = "2222222222222222222222222222222222222222";

    fn place(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    #[tokio::test]
    async fn every_way_git_keeps_a_head_is_read() {
        let packed =
            format!("# pack-refs with: peeled\n{TWO} refs/heads/side\n{ONE} refs/heads/main\n^{TWO}\n");
        let loose = [(".git/HEAD", "ref: refs/heads/main\n"), (".git/refs/heads/main", &*format!("{ONE}\n"))];
        let in_pack = [(".git/HEAD", "ref: refs/heads/main\n"), (".git/packed-refs", &*packed)];
        let detached = [(".git/HEAD", ONE)];
        for files in [&loose[..], &in_pack[..], &detached[..]] {
            let folder = place(files);
            assert_eq!(git_head(folder.path()).await.as_deref(), Some(ONE), "{files:?}");
            std::fs::create_dir(folder.path().join("inner")).unwrap();
            assert_eq!(git_head(&folder.path().join("inner")).await.as_deref(), Some(ONE));
        }
    }

    #[tokio::test]
    async fn a_work_tree_of_its_own_reads_the_common_references() {
        let folder = place(&[
            ("main/.git/refs/heads/side", TWO),
            ("main/.git/worktrees/side/HEAD", "ref: refs/heads/side"),
            ("main/.git/worktrees/side/commondir", "../..\n"),
            ("side/.git", "gitdir: ../main/.git/worktrees/side\n"),
        ]);
        assert_eq!(git_head(&folder.path().join("side")).await.as_deref(), Some(TWO));
    }

    #[test]
    fn only_commits_made_while_commands_ran_are_theirs() {
        let id = |digit: char| digit.to_string().repeat(40);
        let line = |(from, to, at, why): &(char, char, u64, &str)| {
            format!("{} {} t t <t@t> {at} +0000\t{why}\n", id(*from), id(*to))
        };
        let moves = [
            ('0', '1', 99, "commit (initial): mine"),
            ('1', '2', 100, "checkout: moving from main to other"),
            ('2', '3', 100, "commit: mine of the same second"),
            ('3', '1', 100, "checkout: moving from other to main"),
            ('1', '4', 102, "commit: by agon"),
            ('4', '5', 105, "commit: mine between two commands"),
            ('5', '6', 107, "commit (amend): by agon too"),
            ('6', '7', 109, "commit: mine afterwards"),
        ];
        let record: String = moves.iter().map(line).collect();
        let folder = place(&[(".git/logs/HEAD", &record)]);
        let spans = [(100_400_000, 102_500_000), (107_100_000, 107_900_000)];
        let made = commits_within(folder.path(), Some(&id('1')), &spans);
        let subjects: Vec<&str> = made.iter().map(|made| made.subject.as_str()).collect();
        assert_eq!(subjects, ["by agon", "by agon too"]);
        assert_eq!(made[0].parent, Some(id('1')));
        assert_eq!(commits_within(folder.path(), Some(&id('1')), &[]), []);
    }

    #[tokio::test]
    async fn what_is_no_commit_is_none() {
        let cases: [&[(&str, &str)]; 4] = [
            &[(".git/HEAD", "ref: refs/heads/unborn")],
            &[(".git/HEAD", "ref: ../../secret"), ("secret", ONE)],
            &[(".git/HEAD", "ref: refs/../../secret"), ("secret", ONE)],
            &[(".git/HEAD", "hello")],
        ];
        for files in cases {
            assert_eq!(git_head(place(files).path()).await, None, "{files:?}");
        }
    }
}
