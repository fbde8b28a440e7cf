//! Where a session stops by itself, and how failed model calls are repeated.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// As many model calls as a turn asks for.
pub const ANY_STEPS: u32 = u32::MAX;

/// Tokens and money that a part of a session may use; no limit when absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Budget {
    /// Tokens, input and output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Millionths of a dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_micro_usd: Option<u64>,
}

impl Budget {
    /// True where it limits nothing.
    pub fn is_open(&self) -> bool {
        *self == Budget::default()
    }

    /// Of each limit the lower one.
    #[must_use]
    pub fn stricter(self, other: Self) -> Self {
        let lower = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        Budget {
            max_tokens: lower(self.max_tokens, other.max_tokens),
            max_micro_usd: lower(self.max_micro_usd, other.max_micro_usd),
        }
    }
}

/// Where a session stops by itself; per turn, but money and tokens per session unless a part has a budget of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    /// Model calls of one turn; [`ANY_STEPS`] for no limit.
    pub max_steps: u32,
    /// Tokens of the session, input and output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Millionths of a dollar of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_micro_usd: Option<u64>,
    /// What one turn may use: a squad, a debate or a spark on its own.
    #[serde(default, skip_serializing_if = "Budget::is_open")]
    pub turn: Budget,
    /// What one spark may use, with all that it begins.
    #[serde(default, skip_serializing_if = "Budget::is_open")]
    pub spark: Budget,
    /// Active seconds of one turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_seconds: Option<u64>,
    /// Milliseconds one model call may take in all.
    pub model_timeout_ms: u64,
    /// Milliseconds one tool call may take when it names no time.
    pub tool_timeout_ms: u64,
    /// Milliseconds a command may ask for; default ten minutes.
    #[serde(default = "most_tool_ms")]
    pub tool_timeout_max_ms: u64,
    /// How far sparks may delegate.
    #[serde(default, skip_serializing_if = "SubagentLimits::is_usual")]
    pub subagents: SubagentLimits,
}

/// How far sparks may delegate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SubagentLimits {
    /// Subagents of one turn.
    pub total: u32,
    /// Subagents that one spark has at work at once; its further ones wait.
    pub at_once: u32,
    /// How often a task is passed on: 1 lets the sparks that work for the person delegate, 0 none.
    pub depth: u32,
    /// Model calls of one subagent.
    pub max_steps: u32,
}

impl Default for SubagentLimits {
    /// 32 subagents a turn, four at once, none of them with its own, 50 steps each.
    fn default() -> Self {
        SubagentLimits { total: 32, at_once: 4, depth: 1, max_steps: 50 }
    }
}

impl SubagentLimits {
    fn is_usual(&self) -> bool {
        *self == SubagentLimits::default()
    }

    /// Of each limit the lower one.
    #[must_use]
    pub fn stricter(&self, other: &Self) -> Self {
        SubagentLimits {
            total: self.total.min(other.total),
            at_once: self.at_once.min(other.at_once),
            depth: self.depth.min(other.depth),
            max_steps: self.max_steps.min(other.max_steps),
        }
    }
}

fn most_tool_ms() -> u64 {
    600_000
}

impl Limits {
    /// What the whole session may use.
    pub fn session(&self) -> Budget {
        Budget { max_tokens: self.max_tokens, max_micro_usd: self.max_micro_usd }
    }

    /// True where a part of the session, or all of it, may cost no more than so much.
    pub fn has_money(&self) -> bool {
        [self.session(), self.turn, self.spark].iter().any(|budget| budget.max_micro_usd.is_some())
    }

    /// Milliseconds a command may take that asks for so many, or for none.
    pub fn command_ms(&self, asked: Option<u64>) -> u64 {
        let most = self.tool_timeout_max_ms.max(self.tool_timeout_ms);
        asked.map_or(self.tool_timeout_ms, |asked| asked.min(most))
    }
}

impl Default for Limits {
    /// 100 steps, ten minutes a model call, two minutes a tool call, ten for one that asks, no other limit.
    fn default() -> Self {
        Limits {
            max_steps: 100,
            max_tokens: None,
            max_micro_usd: None,
            turn: Budget::default(),
            spark: Budget::default(),
            max_seconds: None,
            model_timeout_ms: 600_000,
            tool_timeout_ms: 120_000,
            tool_timeout_max_ms: most_tool_ms(),
            subagents: SubagentLimits::default(),
        }
    }
}

/// How failed model calls are repeated: delays double from `base_ms` to `cap_ms`, with jitter of up to half.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RetrySpec {
    /// Attempts of one call, the first included.
    pub attempts: u32,
    /// First delay in milliseconds.
    pub base_ms: u64,
    /// Longest delay in milliseconds; a provider that asks for more ends the call.
    pub cap_ms: u64,
}

impl Default for RetrySpec {
    /// Five attempts, from half a second to one minute.
    fn default() -> Self {
        RetrySpec { attempts: 5, base_ms: 500, cap_ms: 60_000 }
    }
}
