//! What a local sandbox shows of itself when it is started: facts looked at from within; knows no mount.

use std::path::Path;

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
pub fn command(outside: &Path, process: u32) -> String {
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
pub fn read(output: &str, has_namespaces: bool, read_only: bool) -> Result<Vec<String>, String> {
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
