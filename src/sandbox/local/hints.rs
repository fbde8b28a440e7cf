//! What a command's complaint does not say: that the sandbox has no such folder, port or size, and what changes that.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::ports::ExecEnd;

/// Lines of output that are looked at.
const MOST: usize = 200;
/// Folders that are the sandbox's own or the system's: what is missing there is missing.
const SEEN: [&str; 11] =
    ["/bin", "/dev", "/etc", "/lib", "/lib64", "/opt", "/proc", "/sbin", "/tmp", "/usr", "/var"];

/// What commands complain about, and what that means here.
const LIMITS: [(&[&str], &str); 3] = [
    (
        &["File size limit exceeded", "File too large"],
        "a file of a command has at most 16 GiB; `needs: [\"unconfined\"]` with `why` runs it without limits",
    ),
    (
        &["clean filter '", "smudge filter '"],
        "the user's git settings name a filter for such files, whose program or keys are not shown to commands; \
         `needs: [\"unconfined\"]` with `why` runs git as the user does",
    ),
    (
        &[
            "Could not read from remote repository",
            "could not read Username for",
            "could not read Password for",
        ],
        "commands have no SSH, no passwords and no repositories of other folders; to reach that remote, repeat the call \
         with `needs: [\"unconfined\"]` and `why`",
    ),
];

/// A line for each limit of the sandbox that a failed command has met.
pub fn of_limits(end: &ExecEnd, command: &str, root: &Path) -> Vec<String> {
    let lines = || end.stderr.lines().chain(end.stdout.lines()).take(MOST);
    let is_refused = |line: &str| {
        let line = line.to_ascii_lowercase();
        line.contains("connection refused") || line.contains("connect to")
    };
    let is_absent = |line: &&str| line.contains("o such file or directory") || line.contains("can't cd to");
    let mut words = Vec::new();
    if end.exit == Some(0) {
        return words;
    }
    if lines().any(is_refused)
        && let Some(port) = std::iter::once(command).chain(lines()).find_map(port_of_this_machine)
    {
        words.push(format!(
            "a command has a loopback of its own; to reach what listens on port {port} of this machine, repeat the call \
             with `needs: [\"port:{port}\"]` and `why`"
        ));
    }
    if lines().filter(is_absent).any(|line| names_another_folder(line, root)) {
        words.push(
            "commands see the workspace, the system and tools, and no other folder of this machine; to reach one, repeat \
             the call with `needs: [\"unconfined\"]` and `why`"
                .to_owned(),
        );
    }
    let is_refused_to =
        |line: &str| line.contains("ermission denied") || line.contains("insufficient permission");
    if lines().any(is_refused_to) && is_of_another_user(root) {
        words.push(
            "files of other users cannot be changed from a sandbox, not even by root: start agon as the user that owns this \
             folder"
                .to_owned(),
        );
    }
    let is_met = |complaints: &[&str]| lines().any(|line| complaints.iter().any(|of| line.contains(of)));
    words.extend(LIMITS.iter().filter(|(of, _)| is_met(of)).map(|(_, words)| (*words).to_owned()));
    words
}

/// Root inside has no rights over what others own.
fn is_of_another_user(root: &Path) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    is_root && std::fs::metadata(root).is_ok_and(|data| data.uid() != 0)
}

/// The port that a text names on the loopback.
fn port_of_this_machine(text: &str) -> Option<u16> {
    ["127.0.0.1:", "localhost:", "[::1]:", "127.0.0.1 port ", "localhost port "].iter().find_map(|name| {
        let rest = text.split_once(name)?.1;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..digits].parse().ok().filter(|port| *port != 0)
    })
}

fn names_another_folder(line: &str, root: &Path) -> bool {
    let words = line.split(|c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '`' | ':' | '(' | ')'));
    let is_seen = |path: &Path| path.starts_with(root) || SEEN.iter().any(|seen| path.starts_with(seen));
    words.map(Path::new).any(|path| path.starts_with("..") || (path.is_absolute() && !is_seen(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_sandbox_has_not_is_named_with_what_changes_it() {
        let told = |command: &str, stderr: &str| {
            let end = ExecEnd { exit: Some(1), stderr: stderr.to_owned(), ..ExecEnd::default() };
            of_limits(&end, command, Path::new("/home/me/ws")).concat()
        };
        for (command, stderr, words) in [
            ("curl http://127.0.0.1:8917", "curl: (7) Failed to connect to 127.0.0.1 port 8917", "port:8917"),
            ("psql", "connection to server at localhost:5432: Connection refused", "port:5432"),
            ("cat ../x", "cat: ../x: No such file or directory", "unconfined"),
            (
                "ls /home/me/other",
                "ls: cannot access '/home/me/other': No such file or directory",
                "unconfined",
            ),
            ("cd /srv", "sh: 1: cd: can't cd to /srv", "unconfined"),
            ("dd", "File size limit exceeded", "16 GiB"),
            ("git add .", "fatal: x: clean filter 'lfs' failed", "a filter"),
            ("git push", "fatal: Could not read from remote repository.", "no SSH"),
        ] {
            assert!(told(command, stderr).contains(words), "{command}: {}", told(command, stderr));
        }
        for (command, stderr) in [
            ("cat x", "cat: x: No such file or directory"),
            ("cat /etc/x", "cat: /etc/x: No such file or directory"),
            ("cat /home/me/ws/x", "cat: /home/me/ws/x: No such file or directory"),
            ("curl http://x.example:80", "curl: (7) Failed to connect to x.example port 80"),
        ] {
            assert_eq!(told(command, stderr), "", "{command}");
        }
    }
}
