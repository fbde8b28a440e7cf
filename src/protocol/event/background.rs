//! Data of the end of a command that ran in the background.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ToolUse;

/// Body of `background_ended`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackgroundEnded {
    /// The call that started it.
    #[serde(rename = "use")]
    pub tool_use: ToolUse,
    /// Exit code; none when it was killed or never ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
    /// How it ended, in words.
    pub how: String,
    /// What it printed last.
    pub output: String,
    /// Milliseconds it ran.
    pub ms: u64,
    /// True where the result of the call that started it says so already.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub known: bool,
    /// What agon itself tells people of it, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl BackgroundEnded {
    /// How it ended, with what it printed last.
    pub fn words(&self) -> String {
        let how = format!("{}, after {} s", self.how, self.ms / 1000);
        match self.output.trim() {
            "" => how,
            output => format!("{how}. It printed last:\n{output}"),
        }
    }

    /// One that printed nothing.
    pub fn of(tool_use: ToolUse) -> Self {
        let (how, output, notes) = (String::new(), String::new(), Vec::new());
        BackgroundEnded { tool_use, exit: None, how, output, ms: 0, known: false, notes }
    }
}
