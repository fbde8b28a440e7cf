//! What the parent hands to the process that becomes the sandbox: everything decided, nothing left to look up.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use serde::{Deserialize, Serialize};

use crate::sandbox::Limits;

/// What stays the same for every call of a session: read once by the process that holds it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HeldPlan {
    /// Whether there are namespaces. Without them nothing is mounted, and calls are confined by rules alone.
    pub has_namespaces: bool,
    /// Whether the holder serves one call only, in its own mounts: the slower way, where a copy of them is refused.
    pub is_single: bool,
    /// An empty folder of ours on which everything is put together.
    pub base: OsString,
    /// What is mounted once, with targets from that folder, ancestors before what lies under them.
    pub mounts: Vec<Mount>,
    /// Folders to be made in it, on which calls mount something of their own.
    pub points: Vec<OsString>,
    /// Where Landlock lets a command read.
    pub readable: Vec<OsString>,
    /// Where Landlock lets a command read and write.
    pub writable: Vec<OsString>,
    /// The program that reads command lines; looked up in the environment's `PATH` unless it is a path.
    pub shell: OsString,
    /// A command's whole environment.
    pub environment: BTreeMap<String, OsString>,
    /// Programs for the kernel's system call filter, as four numbers an instruction.
    pub filters: Vec<Vec<[u32; 4]>>,
    /// Limits.
    pub limits: Limits,
}

/// One call, ready to be carried out.
#[derive(Debug, Serialize, Deserialize)]
pub struct StagePlan {
    /// What the call mounts for itself, ancestors before what lies under them.
    pub mounts: Vec<Mount>,
    /// The workspace.
    pub workspace: OsString,
    /// Names in the workspace that get a cover, relative to it, ancestors first.
    pub covers: Vec<Cover>,
    /// Directory the command starts in.
    pub cwd: OsString,
    /// Command line for `sh -c`.
    pub command: String,
    /// The command's variables besides those of the session.
    pub environment: BTreeMap<String, OsString>,
    /// Ports of the call's loopback on which sockets are handed out; unused without namespaces.
    pub listened: Vec<u16>,
}

impl StagePlan {
    /// Folders that this call sees under a layer of its own.
    pub fn layers(&self) -> impl Iterator<Item = &OsStr> {
        let layers = self.mounts.iter().filter(|mount| matches!(mount.kind, MountKind::Overlay { .. }));
        layers.map(|mount| mount.target.as_os_str())
    }
}

/// One piece of the new root; targets are absolute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Where it is to be seen.
    pub target: OsString,
    /// What is to be seen there.
    pub kind: MountKind,
}

/// What is to be seen at a place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MountKind {
    /// The same files as outside, with everything mounted beneath them.
    Bind {
        /// Where they are outside.
        source: OsString,
        /// Whether they may be changed.
        writable: bool,
    },
    /// The same files as outside under a layer of the session that takes every change; read-only where this machine
    /// has no such layers.
    Layered {
        /// Where they are outside.
        source: OsString,
        /// The layer: two folders, `upper` and `work`, are in it.
        layer: OsString,
    },
    /// A new file system in memory.
    Memory {
        /// Its size in mebibytes.
        mib: u64,
        /// Permission bits of its root.
        mode: u32,
        /// Whether it can only be changed while the new root is put together.
        sealed: bool,
    },
    /// Nothing: an empty file or folder nobody may open.
    Nothing,
    /// An empty file that can be read, so that a tool finds its settings empty instead of failing.
    Blank,
    /// The device that is at the same place outside: it can be used, and its owner, mode and times not be changed.
    Device {
        /// Where it is outside.
        source: OsString,
    },
    /// What the holder has mounted under this number, with everything mounted under it.
    Held {
        /// The number.
        number: usize,
    },
    /// What is there already, under a layer that takes every change.
    Overlay {
        /// The layer, outside.
        upper: OsString,
        /// An empty folder on the same file system.
        work: OsString,
    },
    /// A symbolic link.
    Link {
        /// Where it leads.
        to: OsString,
    },
    /// The processes of this sandbox.
    Processes,
    /// Pseudo-terminals of this sandbox.
    Terminals,
}

impl MountKind {
    /// Where the files are outside that are shown here and that no command changes there.
    pub fn shown(&self) -> Option<&OsString> {
        match self {
            MountKind::Bind { source, writable: false } | MountKind::Layered { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// How a name in the workspace is covered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cover {
    /// Components beneath the workspace, at least one.
    pub path: Vec<OsString>,
    /// What the cover does.
    pub kind: CoverKind,
}

/// What a cover does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum CoverKind {
    /// The folder stays as it is, but can no longer be renamed.
    Pinned,
    /// It can be read and not changed.
    ReadOnly,
    /// It cannot be read.
    Masked,
}
