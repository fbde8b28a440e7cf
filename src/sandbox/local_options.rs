//! What a sandbox of this machine's kernel is opened with; needs no such kernel.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::protected::ProtectedNames;
use super::proxy::{SystemWire, Wire};
use crate::protocol::spec::DeniedPath;

/// What a local sandbox is opened with.
#[derive(Clone, Debug)]
pub struct LocalOptions {
    /// The program that becomes the sandbox: one whose `main` begins with `local::enter`.
    pub program: PathBuf,
    /// The files that cannot be read inside.
    pub secrets: Vec<DeniedPath>,
    /// The names that no command changes.
    pub protected: ProtectedNames,
    /// True for a workspace that commands cannot change.
    pub read_only: bool,
    /// Limits of each call.
    pub limits: Limits,
    /// Where calls are noted that run ([`super::crash_journal::notes_of`]); none where they are not settled.
    pub notes: Option<PathBuf>,
    /// Folders that are never shown: agon's own.
    pub own: Vec<PathBuf>,
    /// The file in which it is kept what a sandbox was seen to hold; none where it is looked at each time.
    pub proofs: Option<PathBuf>,
    /// How agon's proxy reaches the network.
    pub wire: Arc<dyn Wire>,
}

impl Default for LocalOptions {
    /// This very program, no secrets, a workspace that can be changed.
    fn default() -> Self {
        // Unlike its path, this stays right when the program is replaced while it runs.
        let program = PathBuf::from("/proc/self/exe");
        LocalOptions {
            program,
            secrets: Vec::new(),
            protected: ProtectedNames::default(),
            read_only: false,
            limits: Limits::default(),
            notes: None,
            own: Vec::new(),
            proofs: None,
            wire: Arc::new(SystemWire),
        }
    }
}

/// Limits of one call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Processes and threads at once.
    pub processes: u64,
    /// Open files of one process.
    pub open_files: u64,
    /// Bytes of one file.
    pub file_bytes: u64,
}

impl Default for Limits {
    /// 1,024 processes, 8,192 open files, files of 16 GiB.
    fn default() -> Self {
        Limits { processes: 1024, open_files: 8192, file_bytes: 16 << 30 }
    }
}
