//! The tools a spark may hold: looked up, checked, prepared, run; knows no policy and no session.

mod bash;
mod check;
mod digest;
mod edit_file;
mod edits;
mod glob;
mod grep;
mod list_dir;
pub mod mention;
mod read_file;
mod seen;
mod tool;
pub mod unified;
mod write_file;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

use crate::ports::{Live, Sandbox, Tool, ToolEnd};
use crate::protocol::effect::ToolCall;
use crate::protocol::event::{Plan, PrepareResult, ToolPrepared, ToolStatus};
use crate::protocol::fit::did_you_mean;
use crate::protocol::spec::ToolSpec;
use check::ArgumentCheck;

/// Most bytes a preview and its command may have as JSON: they are never cut and must fit into a line of the log.
const MAX_PREVIEW: usize = 600 * 1024;

/// Why a tool is not taken into the vault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VaultError {
    /// Another tool has the name.
    #[error("there is already a tool named `{0}`")]
    Duplicate(String),
    /// The name is not what models and policies can use.
    #[error("`{0}` is not a tool name: 1 to 64 letters, digits, `_` or `-`, a letter first")]
    BadName(String),
    /// The schema of its arguments is no JSON Schema for an object.
    #[error("the arguments of tool `{name}` have no usable schema: {error}")]
    BadSchema {
        /// The tool.
        name: String,
        /// What is wrong with it.
        error: String,
    },
}

/// The tools, by name.
#[derive(Clone, Default)]
pub struct ToolVault {
    tools: BTreeMap<String, Held>,
}

#[derive(Clone)]
struct Held {
    tool: Arc<dyn Tool>,
    spec: ToolSpec,
    check: Arc<ArgumentCheck>,
}

impl ToolVault {
    /// A vault with the built-in tools. Their schemas are compiled once in a process.
    pub fn builtin() -> Result<Self, VaultError> {
        static BUILTIN: OnceLock<Result<ToolVault, VaultError>> = OnceLock::new();
        BUILTIN.get_or_init(ToolVault::compiled).clone()
    }

    fn compiled() -> Result<Self, VaultError> {
        let mut vault = ToolVault::default();
        vault.register(Arc::new(read_file::ReadFile))?;
        vault.register(Arc::new(write_file::WriteFile))?;
        vault.register(Arc::new(edit_file::EditFile))?;
        vault.register(Arc::new(list_dir::ListDir))?;
        vault.register(Arc::new(glob::Glob))?;
        vault.register(Arc::new(grep::Grep))?;
        vault.register(Arc::new(bash::Bash))?;
        Ok(vault)
    }

    /// Takes a tool in. Its spec is asked for once, here.
    pub fn register(&mut self, tool: Arc<dyn Tool>) -> Result<(), VaultError> {
        let spec = tool.spec();
        if !is_tool_name(&spec.name) {
            return Err(VaultError::BadName(spec.name));
        }
        if self.tools.contains_key(&spec.name) {
            return Err(VaultError::Duplicate(spec.name));
        }
        let check = ArgumentCheck::compile(&spec.schema)
            .map(Arc::new)
            .map_err(|error| VaultError::BadSchema { name: spec.name.clone(), error })?;
        self.tools.insert(spec.name.clone(), Held { tool, spec, check });
        Ok(())
    }

    /// Every tool's spec, sorted by name.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.tools.values().map(|held| held.spec.clone()).collect()
    }

    /// Looks, without side effect, what a call would do. What a model can mend is `Unfit` with words for it.
    pub async fn prepare(&self, call: &ToolCall, sandbox: &dyn Sandbox) -> ToolPrepared {
        let result = match self.plan(call, sandbox).await {
            Ok(plan) => PrepareResult::Ready(plan),
            Err(words) => PrepareResult::Unfit(words),
        };
        ToolPrepared { tool_use: call.tool_use, result }
    }

    /// Prepares once more and runs the call, provided it still is what `digest` was given for.
    ///
    /// The content is whole: cutting it to the call's cap and keeping the rest is the caller's work.
    pub async fn run(
        &self,
        call: &ToolCall,
        digest: &str,
        sandbox: &dyn Sandbox,
        live: &dyn Live,
        cancel: &CancellationToken,
    ) -> ToolEnd {
        let plan = match self.plan(call, sandbox).await {
            Ok(plan) => plan,
            Err(words) => return ToolEnd::failed(format!("{} was not run: {words}", call.tool)),
        };
        if plan.digest != digest {
            return ToolEnd::failed(format!(
                "{} was not run: what it would do has changed since it was approved; look again, then repeat the call",
                call.tool
            ));
        }
        if cancel.is_cancelled() {
            let words = format!("{} was cancelled before it started", call.tool);
            return ToolEnd { status: ToolStatus::Cancelled, ..ToolEnd::failed(words) };
        }
        match self.tools.get(&call.tool) {
            Some(held) => held.tool.run(call, sandbox, live, cancel).await,
            None => ToolEnd::failed(self.unknown(&call.tool)),
        }
    }

    async fn plan(&self, call: &ToolCall, sandbox: &dyn Sandbox) -> Result<Plan, String> {
        let held = self.tools.get(&call.tool).ok_or_else(|| self.unknown(&call.tool))?;
        held.check.accept(&call.args)?;
        let preparation = held.tool.prepare(call, sandbox).await?;
        let digest = digest::of(call, &preparation, &sandbox.spec());
        let written = |text: &str| serde_json::to_string(text).map(|json| json.len()).unwrap_or(usize::MAX);
        let command = preparation.command.as_deref().map(written).unwrap_or_default();
        let shown = written(&preparation.preview).saturating_add(command);
        if shown > MAX_PREVIEW {
            return Err(format!(
                "what it would do takes {shown} bytes to show for approval; at most {MAX_PREVIEW} can be shown, so \
                 make smaller steps"
            ));
        }
        Ok(Plan {
            paths: preparation.paths,
            command: preparation.command,
            cwd: preparation.cwd,
            preview: preparation.preview,
            risk: preparation.risk,
            digest,
        })
    }

    fn unknown(&self, name: &str) -> String {
        let known: Vec<&str> = self.tools.keys().map(String::as_str).collect();
        let hint = did_you_mean(name, &known);
        format!("there is no tool `{name}`{hint}; the tools are {}", known.join(", "))
    }
}

fn is_tool_name(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}
