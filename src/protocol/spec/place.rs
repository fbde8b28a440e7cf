//! Where the work happens and what confines it, as a log records it; starts nothing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the work happens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkspaceSpec {
    /// Absolute path of the root.
    pub root: String,
    /// Commit the work tree was on, when it is a git repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_head: Option<String>,
    /// What confines the tools.
    pub sandbox: SandboxSpec,
    /// Squad roles whose commands are confined otherwise, each started before it was recorded here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<RolePlace>,
}

impl WorkspaceSpec {
    /// The place in which commands run at the permission level `plan`; no role has a name with a blank.
    pub const PLANNING: &str = "level plan";

    /// True when something holds commands back from changing the workspace at the level `plan`.
    pub fn holds_plans(&self) -> bool {
        self.place_of(Self::PLANNING).is_some_and(|place| place.read_only)
    }

    /// The place a squad's role has for itself; the session's serves every other.
    pub fn place_of(&self, role: &str) -> Option<&RolePlace> {
        self.places.iter().find(|place| place.role == role)
    }
}

/// Where one role of a squad works.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RolePlace {
    /// The role.
    pub role: String,
    /// True when its commands cannot change the workspace.
    pub read_only: bool,
    /// What confines its tools.
    pub sandbox: SandboxSpec,
}

/// What confines the tools.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxSpec {
    /// `none`, `landlock-only`, `local` or `docker`.
    pub kind: String,
    /// What it does not confine, in words, empty when nothing is left open.
    #[serde(default)]
    pub gaps: Vec<String>,
    /// Image, for kinds that have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// What it showed of itself when it was started, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proven: Vec<String>,
    /// Who let the tools work all the same where nothing could confine them; none where nobody was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consent: Option<Consent>,
}

impl SandboxSpec {
    /// A gap that lies within the workspace: what a command does through it is part of what the workspace holds.
    pub const NEW_INSTRUCTIONS: &str = "new instruction files below the workspace's top are not kept out";

    /// A gap that leads nowhere: a command may slow its machine down, as it may by what it computes.
    pub const SHARED_MEMORY: &str =
        "the memory of commands is not limited; where the machine runs out of it, they are ended first";

    /// The same in logs of earlier programs, which limited it for each process.
    const MEMORY_BY_PROCESS: &str =
        "memory is limited for each process of a command, not for all of them together";

    /// A gap that needs another process of the machine's to help.
    pub const MOVED_SOCKETS: &str = "a unix socket that another process moves into or makes in a folder commands see while the session is open can be reached (Linux 7.1 closes this)";

    /// The gaps that every sandbox may have.
    const USUAL: [&str; 4] =
        [Self::NEW_INSTRUCTIONS, Self::SHARED_MEMORY, Self::MEMORY_BY_PROCESS, Self::MOVED_SOCKETS];

    /// The kinds that confine something. Any other kind, `none` or unknown, counts as confining nothing.
    const CONFINING: [&str; 3] = ["local", "landlock-only", "docker"];

    /// True for a kind that confines something, whatever it leaves open.
    pub fn is_confining(&self) -> bool {
        Self::CONFINING.contains(&self.kind.as_str())
    }

    /// True when commands are kept from everything but the workspace, with nothing left open to the outside.
    pub fn confines(&self) -> bool {
        let is_usual = |gap: &String| Self::USUAL.contains(&gap.as_str());
        self.is_confining() && self.gaps.iter().all(is_usual)
    }
}

/// A person's answer to the question whether the tools may work although nothing confines them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Consent {
    /// Who said yes.
    pub by: String,
    /// Why no sandbox was to be had, as they were told.
    pub why: String,
}
