//! What a local sandbox shows of itself when it is started: facts looked at from within; knows no mount.

use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use super::{LocalSandbox, launch, mounts};
use crate::ports::{Exec, ExecEnd, Opens};
use crate::sandbox::{LocalError, crash_journal};

/// A fact in words, and a shell test that holds where it is one. `$1` is a file outside, `$2` a process outside.
/// Only what the shell has built in is used.
const FACTS: &[(&str, &str)] = &[
    ("files outside are not seen", "[ ! -e \"$1\" ]"),
    ("the system cannot be changed", "[ ! -w /usr ] && [ ! -w /etc ] && [ ! -w / ]"),
    ("`.git` and `.agon` cannot be changed", "[ ! -w .git ] && [ ! -w .agon ]"),
    ("other processes are not seen", "! kill -0 \"$2\""),
    ("there is no network", "{ read -r head; ! read -r route; } </proc/net/route"),
    ("no capability is left", "[ \"$caps\" = 0000000000000000 ]"),
    ("no right can be gained", "[ \"$nnp\" = 1 ]"),
    ("system calls are filtered", "[ \"$filter\" = 2 ]"),
    ("the workspace cannot be changed", "[ ! -w . ]"),
];

/// The command line that looks.
fn command(outside: &Path, process: u32) -> String {
    let mut script = format!(
        "set -- '{}' {process}\n\
         while read -r key value; do case $key in CapEff:) caps=$value;; NoNewPrivs:) nnp=$value;; \
         Seccomp:) filter=$value;; esac; done </proc/self/status\n",
        // The folder is ours, and its name holds no quote unless the temporary folder's does.
        outside.display().to_string().replace('\'', "'\\''")
    );
    for (i, (_, test)) in FACTS.iter().enumerate() {
        script.push_str(&format!("if {{ {test}; }} 2>/dev/null; then echo held {i}; fi\n"));
    }
    script
}

/// Facts that also hold without namespaces.
const EVERYWHERE: [usize; 3] = [5, 6, 7];

/// The one that only a workspace shown read-only claims.
const READ_ONLY: usize = 8;

/// The facts that held, or the words of those that did not.
fn read(output: &str, has_namespaces: bool, read_only: bool) -> Result<Vec<String>, String> {
    let counts = |i: usize| EVERYWHERE.contains(&i) || has_namespaces && (i != READ_ONLY || read_only);
    let held: Vec<usize> =
        output.lines().filter_map(|line| line.strip_prefix("held ")?.parse().ok()).collect();
    let missing: Vec<&str> = words(|i| counts(i) && !held.contains(&i)).collect();
    match missing.as_slice() {
        [] => Ok(words(counts).map(str::to_owned).collect()),
        missing => Err(format!("this does not hold in it: {}", missing.join("; "))),
    }
}

fn words(wanted: impl Fn(usize) -> bool) -> impl Iterator<Item = &'static str> {
    FACTS.iter().enumerate().filter(move |(i, _)| wanted(*i)).map(|(_, (words, _))| *words)
}

fn without_refused(why: &str) -> String {
    why.strip_prefix(launch::REFUSED).unwrap_or(why).to_owned()
}

impl LocalSandbox {
    /// A call that failed found the machine otherwise than it was seen, so the next start looks again; one that was
    /// cancelled found nothing.
    pub(super) fn as_proven(
        &self,
        ended: Result<ExecEnd, String>,
        cancel: &CancellationToken,
    ) -> Result<ExecEnd, String> {
        if ended.is_err() && !cancel.is_cancelled() {
            self.proof().iter().for_each(|kept| kept.forget());
        }
        ended
    }

    /// Where one cannot, the command that looks says which.
    pub(super) fn covers_can_be_reached(&self) -> bool {
        let closed = |name: &PathBuf| {
            let looked = std::fs::symlink_metadata(self.files.root().join(name));
            looked.is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
        };
        !self.found.names.keys().any(closed)
    }

    pub(super) async fn prove(&self) -> Result<Vec<String>, LocalError> {
        let outside = self.scratch.path().join("root");
        let command = command(&outside, std::process::id());
        let exec = Exec {
            command,
            cwd: String::new(),
            timeout_ms: 20_000,
            capture_cap: 4096,
            opens: Opens::default(),
            background: false,
        };
        // agon's own command: it connects to nothing, so it need not wait until the large folders are searched.
        let cancel = CancellationToken::new();
        let end = self.run(exec, (self.covers_of_sockets(), None), &(), &cancel).await;
        let end = self.as_proven(end, &cancel);
        let is_no_machines =
            |why: &str| why.contains(mounts::UNCOVERED) || why.contains(crash_journal::NOT_KEPT);
        let end = end.map_err(|why| match is_no_machines(&why) {
            true => LocalError::Unfit(without_refused(&why)),
            false => LocalError::Machine(without_refused(&why)),
        })?;
        let held = match end.exit {
            Some(0) => read(&end.stdout, self.has_namespaces, self.options.read_only),
            _ => {
                let how = end.exit.or(end.signal);
                Err(format!("a command in it ended with {how:?}: {}", end.stderr.trim()))
            }
        };
        held.map_err(LocalError::Machine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_fact_that_does_not_hold_is_named() {
        let all: String = (0..FACTS.len()).map(|i| format!("held {i}\n")).collect();
        assert_eq!(read(&all, true, true).unwrap().len(), FACTS.len());
        assert_eq!(
            read(&all, true, false).unwrap().len(),
            FACTS.len() - 1,
            "a writable workspace claims less"
        );
        let networked = all.replace("held 4\n", "");
        assert_eq!(
            read(&networked, true, true).unwrap_err(),
            "this does not hold in it: there is no network"
        );
        assert!(read("", true, false).is_err() && read("", false, false).is_err());
        assert_eq!(read(&networked, false, true).unwrap().len(), EVERYWHERE.len());
    }
}
