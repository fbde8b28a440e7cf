//! Data of the events around the workspace, its recorded trees, the team cache and what is loaded from files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tool::{ResultPart, images};
use super::{ClaimFlagged, PathBase, Plan};
use crate::protocol::message::ImagePart;
use crate::protocol::stored::stored;

/// Body of `workspace_fingerprinted`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkspaceFingerprinted {
    /// SHA-256 over paths, modes and contents, hex.
    pub fingerprint: String,
    /// Files counted.
    pub files: u64,
    /// SHA-256 over what `.git` holds beside its objects and its index (head, references,
    /// configuration, hooks), hex; absent without git.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<String>,
    /// SHA-256 over the small files that git ignores, outside ignored folders, hex; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignored: Option<String>,
}

/// Body of `workspace_checkpointed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkspaceCheckpointed {
    /// Digest of the recorded tree.
    pub tree: String,
    /// Files in it.
    pub files: u64,
    /// Files left out because they are too large, by path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
}

/// Body of `diff_taken`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiffTaken {
    /// The tree it starts from.
    pub from: String,
    /// The tree it leads to.
    pub to: String,
    /// Unified diff, the middle cut at 64 KiB.
    pub diff: String,
    /// Changed paths.
    pub files: Vec<String>,
    /// Those that are new.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<String>,
    /// Those that are gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
    /// Files that were written and hold again what they held before, those that git ignores among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restored: Vec<String>,
    /// Paths that differ from the tree that was shown last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub touched: Vec<String>,
}

/// Body of `cache_hit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CacheHit {
    /// The key.
    pub key: String,
    /// Session the run comes from.
    pub session: String,
    /// Microseconds since the Unix epoch when it was stored.
    pub stored_at: u64,
    /// The answer, as the lead gave it.
    pub answer: String,
    /// Model calls it saves.
    pub calls: u32,
    /// Tokens it saves.
    pub tokens: u64,
    /// Millionths of a dollar it saves.
    pub micro_usd: u64,
    /// True when commands ran in it, which may depend on more than the key tells.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ran_commands: bool,
    /// Claims of the answer that the recorded run's own log did not bear out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<ClaimFlagged>,
    /// What its patch would do here; its digest is the recorded run's, to which the patch is bound.
    pub plan: Plan,
}

/// Data of `cache_skipped`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CacheSkipped {
    /// What is not done.
    pub step: CacheStep,
    /// Why, in words.
    pub reason: String,
}

stored! {
    /// What a squad does with the team cache.
    #[derive(Copy, Eq)]
    pub enum CacheStep of Word {
        /// Looking its run up.
        Lookup,
        /// Using the run that was found.
        Use,
        /// Storing its own run.
        Store,
    }
}

/// Body of `cache_missed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CacheMissed {
    /// The key.
    pub key: String,
    /// Why: `absent`, `expired`, `refreshed`, `disabled`, or `damaged` or `unusable` with what is wrong.
    pub reason: String,
}

/// Body of `cache_stored`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CacheStored {
    /// The key.
    pub key: String,
    /// Bytes it takes.
    pub bytes: u64,
}

/// Body of `patch_applied`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PatchApplied {
    /// Paths that were changed.
    pub paths: Vec<String>,
    /// Those that were removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
}

/// Body of `patch_refused`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PatchRefused {
    /// The path that does not fit.
    pub path: String,
    /// Why.
    pub reason: String,
}

/// Body of `mention_expanded`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MentionExpanded {
    /// As written, `@src/main.rs:1-20`.
    pub mention: String,
    /// What stands for it, at most 64 KiB: numbered lines of a file, or the names beneath a folder.
    pub text: String,
    /// The file as it is, for what the spark has now seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seen: Vec<PathBase>,
    /// A picture that was mentioned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<ResultPart>,
}

impl MentionExpanded {
    /// Its pictures.
    pub fn images(&self) -> impl Iterator<Item = &ImagePart> {
        images(&self.parts)
    }
}
