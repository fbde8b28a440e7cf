//! What an earlier session saw a sandbox hold, kept as long as everything it hangs on is the same.
//!
//! It saves the start of a session the command that looks. Every call is still set up in full, and one that cannot be
//! is refused and throws the proof away.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// Most proofs that are kept.
const MOST: usize = 32;

/// Settings of the kernel that decide about namespaces. One that is not there counts as such.
const SETTINGS: [&str; 11] = [
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/user/max_mnt_namespaces",
    "/proc/sys/user/max_pid_namespaces",
    "/proc/sys/user/max_net_namespaces",
    "/proc/sys/user/max_ipc_namespaces",
    "/proc/sys/user/max_uts_namespaces",
    "/proc/sys/user/max_cgroup_namespaces",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_unconfined",
    "/proc/self/attr/current",
];

/// A place for one proof.
#[derive(Debug)]
pub struct KeptProof {
    file: PathBuf,
    key: String,
}

impl KeptProof {
    /// The place in a file for a sandbox that `program` becomes and that was opened with `options`. None where it
    /// cannot be said what the machine is.
    pub fn of(file: &Path, program: &Path, options: &str) -> Option<Self> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let data = fs::metadata(program).ok()?;
        let program = (data.dev(), data.ino(), data.len(), data.mtime(), data.mtime_nsec(), data.ctime());
        let user = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let settings = SETTINGS.map(|file| fs::read_to_string(file).ok());
        let spaces = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"];
        let spaces = spaces.map(|space| fs::read_link(format!("/proc/self/ns/{space}")).ok());
        let rights = fs::read_to_string("/proc/self/status").ok()?;
        let rights: Vec<&str> = rights.lines().filter(|line| is_right(line)).collect();
        let kernel = rustix::system::uname().release().to_owned();
        let all = format!("{:?}", (boot, program, user, settings, spaces, rights, kernel, options));
        let key = Sha256::digest(all).iter().map(|byte| format!("{byte:02x}")).collect();
        Some(KeptProof { file: file.to_owned(), key })
    }

    /// What was seen to hold.
    pub fn facts(&self) -> Option<Vec<String>> {
        self.all().remove(&self.key)
    }

    /// Keeps what was seen. Where it cannot be kept the next session looks again.
    pub fn keep(&self, facts: &[String]) {
        let mut all = self.all();
        if all.len() >= MOST {
            // The next that needs one of them looks again.
            all.clear();
        }
        all.insert(self.key.clone(), facts.to_vec());
        self.write(&all);
    }

    /// Throws it away.
    pub fn forget(&self) {
        let mut all = self.all();
        if all.remove(&self.key).is_some() {
            self.write(&all);
        }
    }

    fn all(&self) -> BTreeMap<String, Vec<String>> {
        let text = fs::read(&self.file).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    fn write(&self, all: &BTreeMap<String, Vec<String>>) {
        let written = serde_json::to_vec(all).map_err(std::io::Error::from).and_then(|text| {
            let folder = self.file.parent().unwrap_or(Path::new("."));
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(&text)?;
            file.persist(&self.file).map_err(std::io::Error::from)
        });
        // An old one must not outlive the reason to throw it away.
        if written.is_err() {
            let _ = fs::remove_file(&self.file);
        }
    }
}

fn is_right(line: &str) -> bool {
    ["Cap", "NoNewPrivs", "Seccomp", "Groups"].iter().any(|name| line.starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_found_by_the_same_program_with_the_same_options_until_it_is_thrown_away() {
        let folder = tempfile::tempdir().unwrap();
        let (file, program) = (folder.path().join("proofs"), folder.path().join("program"));
        fs::write(&program, "1").unwrap();
        let of = |options: &str| KeptProof::of(&file, &program, options).unwrap();
        let facts = vec!["it holds".to_owned()];
        of("a").keep(&facts);
        assert_eq!((of("a").facts(), of("b").facts()), (Some(facts.clone()), None));
        of("b").keep(&[]);
        of("a").forget();
        assert_eq!((of("a").facts(), of("b").facts()), (None, Some(Vec::new())));
        fs::write(&program, "another").unwrap();
        assert_eq!(of("b").facts(), None, "another program has shown nothing yet");
        fs::write(&file, "broken").unwrap();
        of("a").keep(&facts);
        assert_eq!(of("a").facts(), Some(facts));
    }

    #[test]
    fn no_more_are_kept_than_are_needed() {
        let folder = tempfile::tempdir().unwrap();
        let (file, program) = (folder.path().join("proofs"), Path::new("/proc/self/exe"));
        for i in 0..=MOST {
            KeptProof::of(&file, program, &i.to_string()).unwrap().keep(&[]);
        }
        assert_eq!(KeptProof::of(&file, program, "").unwrap().all().len(), 1);
    }
}
