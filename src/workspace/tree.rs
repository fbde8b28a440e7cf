//! A recorded tree: the sorted list of paths with what each holds; knows no live workspace.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::objects::Objects;

/// Every recorded path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    /// By path, sorted.
    pub entries: Vec<TreeEntry>,
}

/// One path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeEntry {
    /// Relative to the workspace, with `/`.
    pub path: String,
    /// What it is.
    pub kind: Kind,
}

/// What a path is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A file.
    File {
        /// Whether its owner may execute it.
        exec: bool,
        /// SHA-256 of its content in hex.
        sha256: String,
        /// Its size in bytes.
        size: u64,
        /// Its permission bits where they are not the usual ones of its kind, so that equal content in usual places
        /// has equal trees.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<u32>,
    },
    /// A symbolic link.
    Link {
        /// Where it points, as written.
        target: String,
    },
}

impl Kind {
    /// The permission bits of a file.
    pub fn mode(exec: bool, mode: Option<u32>) -> u32 {
        mode.unwrap_or(if exec { 0o755 } else { 0o644 })
    }

    /// The same without its permission bits but whether its owner may execute it.
    pub fn content(&self) -> Kind {
        match self.clone() {
            Kind::File { exec, sha256, size, .. } => Kind::File { exec, sha256, size, mode: None },
            link @ Kind::Link { .. } => link,
        }
    }
}

impl Tree {
    /// Puts the tree into the store, to be flushed with its contents; equal trees have equal ids.
    pub fn store(&self, objects: &Objects) -> Result<String, String> {
        let json = serde_json::to_vec(&self.entries).map_err(|error| error.to_string())?;
        objects.put_bytes(&json)
    }

    /// Reads a tree, its digest checked.
    pub fn load(objects: &Objects, id: &str) -> Result<Self, String> {
        let json = objects.read(id)?;
        let entries =
            serde_json::from_slice(&json).map_err(|error| format!("`{id}` is not a tree: {error}"))?;
        Ok(Tree { entries })
    }

    /// The entries by path.
    pub fn by_path(&self) -> BTreeMap<&str, &Kind> {
        self.entries.iter().map(|entry| (entry.path.as_str(), &entry.kind)).collect()
    }
}
