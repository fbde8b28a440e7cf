//! Data of the events of a tool call: prepared, judged, asked about, run, ended.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ArenaEvent;
use crate::protocol::message::ImagePart;
use crate::protocol::need::Need;
use crate::protocol::spec::{Action, Risk, ToolSpec};
use crate::protocol::stored::stored;
use crate::protocol::{CallId, EventRef, SparkId};

/// Names one tool call of one answer; the provider's id is data, never a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct ToolUse {
    /// The `model_answered` that asked; the `cache_hit` when it is a recorded run that would be applied.
    pub answer: EventRef,
    /// Which part of its message.
    pub part: u16,
}

/// What a path held when somebody looked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PathBase {
    /// Relative to the workspace, with `/`.
    pub path: String,
    /// SHA-256 of its content in hex; none when there was no such file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// Body of `tool_prepared`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolPrepared {
    /// The call.
    #[serde(rename = "use")]
    pub tool_use: ToolUse,
    /// What would be done, or why it cannot be.
    pub result: PrepareResult,
}

stored! {
    /// What came of looking.
    #[derive(Eq)]
    pub enum PrepareResult of Foreign {
        /// It can be done.
        Ready(Plan),
        /// It cannot; the words are for the model.
        Unfit(String),
    }
}

/// What a tool call would do, exactly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// Every resource it touches; files with what they hold now, folders without a digest.
    pub needs: Vec<Need>,
    /// Directory it runs in, relative to the workspace; empty is the root.
    #[serde(default)]
    pub cwd: String,
    /// The diff or command as a person should see it, never cut.
    pub preview: String,
    /// What it may do.
    pub risk: Risk,
    /// SHA-256 over tool, its source and schema, arguments, needs, cwd and sandbox: what an approval binds to.
    pub digest: String,
}

impl Plan {
    /// The files and folders it touches, with what they hold now.
    pub fn paths(&self) -> impl Iterator<Item = &PathBase> + Clone {
        self.needs.iter().filter_map(Need::path)
    }

    /// The command line, for a call that runs one.
    pub fn command(&self) -> Option<&str> {
        self.needs.iter().find_map(|need| match need {
            Need::Command(line) => Some(line.as_str()),
            _ => None,
        })
    }

    /// The host, for a call that already runs and does nothing more than connect to it.
    pub fn connection(&self) -> Option<&Need> {
        match self.needs.as_slice() {
            [need @ Need::Host(_)] => Some(need),
            _ => None,
        }
    }

    /// What it touches beside files and commands.
    pub fn other_needs(&self) -> impl Iterator<Item = &Need> + Clone {
        self.needs.iter().filter(|need| need.path().is_none() && !matches!(need, Need::Command(_)))
    }
}

impl ArenaEvent {
    /// What would be done, for an event a person may be asked about: a prepared call, a connection of a running one, or a
    /// recorded run.
    pub fn plan(&self) -> Option<&Plan> {
        match self {
            ArenaEvent::ToolPrepared(data) => match &data.body.result {
                PrepareResult::Ready(plan) => Some(plan),
                PrepareResult::Unfit(_) | PrepareResult::Unknown(_) => None,
            },
            ArenaEvent::HostAsked(data) => Some(&data.plan),
            ArenaEvent::CacheHit(data) => Some(&data.body.plan),
            _ => None,
        }
    }

    /// What agon itself tells people of a call that has ended, a line each. Never words of the call.
    pub fn told(&self) -> &[String] {
        match self {
            ArenaEvent::ToolResolved(data) => &data.body.notes,
            ArenaEvent::CheckRan(data) => &data.body.notes,
            ArenaEvent::ToolsListed(data) => &data.body.faults,
            _ => &[],
        }
    }
}

/// Body of `tools_listed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolsListed {
    /// The source.
    pub source: String,
    /// SHA-256 over the list.
    pub digest: String,
    /// What it offers; absent when that is what was known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<ToolSpec>>,
    /// What it offers and is not taken, and why, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
}

/// Body of `gate_answered`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GateAnswered {
    /// The tool call.
    #[serde(rename = "use")]
    pub tool_use: ToolUse,
    /// The gate.
    pub gate: String,
    /// What it judged: the digest of the prepared call.
    pub digest: String,
    /// What it said.
    pub verdict: Verdict,
}

stored! {
    /// What a gate says of a call.
    #[derive(Eq)]
    pub enum Verdict of Foreign {
        /// Nothing against it.
        Pass,
        /// A person decides, for this reason.
        Ask(String),
        /// It is not run, for this reason.
        Deny(String),
    }
}

impl Verdict {
    /// What follows at least. A gate allows nothing that is asked about otherwise.
    pub fn action(&self) -> Action {
        match self {
            Verdict::Pass => Action::Allow,
            Verdict::Ask(_) => Action::Ask,
            Verdict::Deny(_) | Verdict::Unknown(_) => Action::Deny,
        }
    }

    /// Why.
    pub fn why(&self) -> &str {
        match self {
            Verdict::Pass => "",
            Verdict::Ask(why) | Verdict::Deny(why) => why,
            Verdict::Unknown(unknown) => unknown.name(),
        }
    }
}

/// Data of `policy_decided`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyDecided {
    /// The call.
    #[serde(rename = "use")]
    pub tool_use: ToolUse,
    /// The `tool_prepared` it judged.
    pub prepared: EventRef,
    /// What follows.
    pub action: Action,
    /// Name of the rule that decided.
    pub rule: String,
}

/// Data of `approval_requested`; orders the ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalRequested {
    /// The ask's call.
    pub call: CallId,
    /// Always 1.
    pub attempt: u32,
    /// The spark that wants it.
    pub spark: SparkId,
    /// The tool call.
    #[serde(rename = "use")]
    pub tool_use: ToolUse,
    /// What a person should look at: the `tool_prepared`, or the `host_asked`.
    pub prepared: EventRef,
    /// What an answer binds to.
    pub digest: String,
    /// The needs that leave the sandbox and that no rule names: `host:NAME`, `unconfined`. `--yes` does not answer them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub opens: Vec<String>,
}

/// Data of `host_asked`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostAsked {
    /// The running call.
    pub call: CallId,
    /// The attempt.
    pub attempt: u32,
    /// The tool call it is.
    #[serde(rename = "use")]
    pub tool_use: ToolUse,
    /// The connection: its one need is the host.
    pub plan: Plan,
}

/// Data of `host_judged`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostJudged {
    /// The running call.
    pub call: CallId,
    /// The tool call it is.
    #[serde(rename = "use")]
    pub tool_use: ToolUse,
    /// The `host_asked`.
    pub asked: EventRef,
    /// The need it is about: `host:NAME`.
    pub need: String,
    /// What follows.
    pub action: Action,
    /// Name of the rule that decided, or who did.
    pub rule: String,
}

/// Data of `tool_invoked`; orders the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolInvoked {
    /// The call.
    pub call: CallId,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The spark.
    pub spark: SparkId,
    /// The tool call.
    #[serde(rename = "use")]
    pub tool_use: ToolUse,
    /// The `tool_prepared` that was allowed.
    pub prepared: EventRef,
    /// What was allowed.
    pub digest: String,
}

/// Body of `tool_resolved`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolResolved {
    /// The tool call.
    #[serde(rename = "use")]
    pub tool_use: ToolUse,
    /// How it ended.
    pub status: ToolStatus,
    /// What the model is told, without its own reference.
    pub content: String,
    /// Exit code of a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
    /// Milliseconds it ran.
    #[serde(default)]
    pub ms: u64,
    /// The files as they are now, for what this spark has seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seen: Vec<PathBase>,
    /// What came with the text: pictures and links.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<ResultPart>,
    /// The whole output, when `content` was cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<Blob>,
    /// What agon itself tells people of it, a line each: protected names that were set aside or replaced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// `fork` when a fork put it in the place of what the tool said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// The pictures among parts.
pub(super) fn images(parts: &[ResultPart]) -> impl Iterator<Item = &ImagePart> {
    parts.iter().filter_map(|part| match part {
        ResultPart::Image(image) => Some(image),
        ResultPart::Link(_) | ResultPart::Unknown(_) => None,
    })
}

impl ToolResolved {
    /// The names of the blobs it speaks of: the whole output and pictures.
    pub fn blobs(&self) -> impl Iterator<Item = &str> {
        let whole = self.blob.iter().map(|blob| blob.sha256.as_str());
        whole.chain(self.images().map(|image| image.sha256.as_str()))
    }

    /// Its pictures.
    pub fn images(&self) -> impl Iterator<Item = &ImagePart> {
        images(&self.parts)
    }

    /// Its text with its links.
    pub fn text(&self) -> Cow<'_, str> {
        self.with(&|part| match part {
            ResultPart::Image(_) => None,
            ResultPart::Link(link) => Some(format!("[{}]({})", link.title, link.url)),
            ResultPart::Unknown(unknown) => Some(format!("[{}]", unknown.name())),
        })
    }

    /// The whole result for readers without pictures.
    pub fn words(&self) -> Cow<'_, str> {
        match self.images().next() {
            None => self.text(),
            Some(_) => {
                let pictures: Vec<String> = self.images().map(ImagePart::shown_as_words).collect();
                Cow::Owned(format!("{}\n{}", self.text(), pictures.join("\n")))
            }
        }
    }

    fn with(&self, line: &dyn Fn(&ResultPart) -> Option<String>) -> Cow<'_, str> {
        let mut text = Cow::Borrowed(self.content.as_str());
        for more in self.parts.iter().filter_map(line) {
            let text = text.to_mut();
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(&more);
        }
        text
    }
}

stored! {
    /// A part of a result that is no text.
    #[derive(Eq)]
    pub enum ResultPart of Foreign {
        /// A picture.
        Image(ImagePart),
        /// Something that is elsewhere.
        Link(LinkPart),
    }
}

/// A link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LinkPart {
    /// Where it leads.
    pub url: String,
    /// What is there.
    pub title: String,
}

/// A full capture kept beside the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Blob {
    /// SHA-256 of its bytes, hex; its name.
    pub sha256: String,
    /// Its length in bytes.
    pub bytes: u64,
}

stored! {
    /// How a started tool call ended.
    #[derive(Copy, Eq)]
    pub enum ToolStatus of Word {
        /// It did what was asked.
        Ok,
        /// It did not.
        Failed,
        /// It was told to stop.
        Cancelled,
        /// Its executor vanished; nobody knows.
        Lost,
    }
}

/// Data of `tool_refused`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolRefused {
    /// The tool call.
    #[serde(rename = "use")]
    pub tool_use: ToolUse,
    /// Why.
    pub reason: RefusalReason,
    /// What the model is told.
    pub text: String,
}

stored! {
    /// Why a tool call is not run.
    #[derive(Copy, Eq)]
    pub enum RefusalReason of Word {
        /// No such tool, or not for this spark.
        UnknownTool,
        /// The arguments do not fit.
        BadArguments,
        /// The arguments name a redacted secret.
        Placeholder,
        /// It cannot be done as asked.
        Unfit,
        /// The policy says no.
        Policy,
        /// A person said no.
        Denied,
        /// Cancelled before it started.
        Cancelled,
        /// A limit was reached.
        Limit,
    }
}

/// Data of `tool_answered`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolAnswered {
    /// The tool call.
    #[serde(rename = "use")]
    pub tool_use: ToolUse,
    /// The event that holds what the result says: the `question_answered`, or the `model_answered` with a kept list.
    pub from: EventRef,
}

/// Data of `call_lost`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallLost {
    /// The call.
    pub call: CallId,
    /// The tool call it was, if it was one.
    #[serde(rename = "use", default, skip_serializing_if = "Option::is_none")]
    pub tool_use: Option<ToolUse>,
    /// What the model is told.
    pub text: String,
}

/// Body of `check_ran`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckRan {
    /// The command line.
    pub command: String,
    /// Exit code; none when it was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
    /// Standard output and error, the middle cut at 64 KiB.
    pub output: String,
    /// Milliseconds it ran.
    pub ms: u64,
    /// What agon itself tells people of it, a line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}
