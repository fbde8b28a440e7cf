//! How a path of a workspace differs between two recorded trees.

/// What a recorded tree has at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathState {
    /// An ordinary file.
    File {
        /// SHA-256 of its content, hex.
        sha256: String,
        /// Its permission bits.
        mode: u32,
    },
    /// A symbolic link.
    Link {
        /// Where it points, as written.
        target: String,
    },
}

/// One path and what it is before and after; none is no file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathChange {
    /// Relative to the workspace, with `/`.
    pub path: String,
    /// What is there before.
    pub before: Option<PathState>,
    /// What is there after.
    pub after: Option<PathState>,
}
