//! What a local sandbox leaves open on this machine, in words.

use std::ffi::OsString;

use super::confine;
use crate::protocol::spec::SandboxSpec;

/// The gaps of a sandbox on this kernel, for this user.
pub fn of(has_namespaces: bool, read_only: bool, has_filters: bool) -> Vec<String> {
    let is_root = rustix::process::geteuid().is_root();
    if !has_namespaces {
        let mut gaps = LANDLOCK_ONLY.map(str::to_owned).to_vec();
        gaps.push(SandboxSpec::SHARED_MEMORY.to_owned());
        if is_root {
            gaps.push("for root the number of processes is not limited".to_owned());
        }
        return gaps;
    }
    let mut gaps = vec![SandboxSpec::NEW_INSTRUCTIONS.to_owned(), SandboxSpec::SHARED_MEMORY.to_owned()];
    if read_only {
        gaps.remove(0);
    }
    if !has_filters {
        gaps.push("no system call is refused on this processor".to_owned());
    }
    if !confine::landlock_works() {
        gaps.push("this kernel has no Landlock; only the mounts hold".to_owned());
    }
    if !confine::landlock_refuses_sockets() {
        gaps.push(SandboxSpec::MOVED_SOCKETS.to_owned());
    }
    if is_root && !limits_root(&kernel()) {
        gaps.push("for root this kernel does not limit the number of processes".to_owned());
    }
    gaps
}

/// What Landlock and seccomp alone leave open.
const LANDLOCK_ONLY: [&str; 4] = [
    "commands can change `.git`, settings and instructions in the workspace",
    "commands can read the workspace's secrets",
    "commands can see that files and processes outside exist, and change mode and times of their user's files and of \
     devices",
    "the network is refused altogether, so servers cannot be tested",
];

fn kernel() -> OsString {
    use std::os::unix::ffi::OsStringExt;
    OsString::from_vec(rustix::system::uname().release().to_bytes().to_vec())
}

/// Since 6.14 each process namespace has a largest process number of its own.
fn limits_root(release: &std::ffi::OsStr) -> bool {
    let release = release.to_string_lossy();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(14))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_told_apart_by_their_release() {
        for (release, limits) in
            [("6.18.44-x", true), ("6.14.0", true), ("6.9.1", false), ("7.0", true), ("?", false)]
        {
            assert_eq!(limits_root(release.as_ref()), limits, "{release}");
        }
    }
}
