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
mod plans;
mod read_file;
mod seen;
mod tool;
pub mod unified;
mod write_file;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use crate::ports::{Preparation, RunContext, Sandbox, Tool, ToolEnd};
use crate::protocol::effect::ToolCall;
use crate::protocol::event::{Plan, PrepareResult, ToolPrepared, ToolStatus};
use crate::protocol::fit::did_you_mean;
use crate::protocol::spec::ToolSpec;
use crate::protocol::text::names_shown;
use check::ArgumentCheck;
pub use plans::Plans;

/// Most bytes a preview and the needs may have as JSON: they are never cut and must fit into a line of the log.
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
    tools: BTreeMap<String, Arc<Held>>,
}

struct Held {
    tool: Arc<dyn Tool>,
    spec: ToolSpec,
    check: ArgumentCheck,
    /// Digest of the schema, which an approval binds to.
    schema: String,
    /// Who offers it: `agon`, or the program that holds the arena.
    source: &'static str,
}

impl ToolVault {
    /// A vault with the built-in tools. Their schemas are compiled once in a process.
    pub fn builtin() -> Result<Self, VaultError> {
        static BUILTIN: OnceLock<Result<ToolVault, VaultError>> = OnceLock::new();
        BUILTIN.get_or_init(ToolVault::compiled).clone()
    }

    fn compiled() -> Result<Self, VaultError> {
        let mut vault = ToolVault::default();
        vault.add("agon", Arc::new(read_file::ReadFile))?;
        vault.add("agon", Arc::new(write_file::WriteFile))?;
        vault.add("agon", Arc::new(edit_file::EditFile))?;
        vault.add("agon", Arc::new(list_dir::ListDir))?;
        vault.add("agon", Arc::new(glob::Glob))?;
        vault.add("agon", Arc::new(grep::Grep))?;
        vault.add("agon", Arc::new(bash::Bash))?;
        Ok(vault)
    }

    /// Takes a tool in. Its spec is asked for once, here.
    pub fn register(&mut self, tool: Arc<dyn Tool>) -> Result<(), VaultError> {
        self.add("program", tool)
    }

    fn add(&mut self, source: &'static str, tool: Arc<dyn Tool>) -> Result<(), VaultError> {
        let spec = tool.spec();
        if !is_tool_name(&spec.name) {
            return Err(VaultError::BadName(spec.name));
        }
        if self.tools.contains_key(&spec.name) {
            return Err(VaultError::Duplicate(spec.name));
        }
        let check = ArgumentCheck::compile(&spec.schema)
            .map_err(|error| VaultError::BadSchema { name: spec.name.clone(), error })?;
        let (name, schema) = (spec.name.clone(), digest::of_schema(&spec.schema));
        self.tools.insert(name, Arc::new(Held { tool, spec, check, schema, source }));
        Ok(())
    }

    /// Every tool's spec, sorted by name.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.tools.values().map(|held| held.spec.clone()).collect()
    }

    /// Looks, without side effect, what a call would do, and keeps its run in `plans`. What a model can fix is `Unfit`
    /// with words for it.
    pub async fn prepare(&self, call: &ToolCall, sandbox: &dyn Sandbox, plans: &Plans) -> ToolPrepared {
        let result = match self.plan(call, sandbox).await {
            Ok((held, plan, preparation)) => {
                let bytes = preparation.held.saturating_add(plan.preview.len());
                plans.keep(held, call.clone(), plan.digest.clone(), bytes, preparation.run);
                PrepareResult::Ready(plan)
            }
            Err(words) => PrepareResult::Unfit(words),
        };
        ToolPrepared { tool_use: call.tool_use, result }
    }

    /// Runs a call, provided it still is what `digest` was given for: with its run from `plans`, else prepared again.
    ///
    /// The content is whole: cutting it to the call's cap and keeping the rest is the caller's work.
    pub async fn run(&self, call: &ToolCall, digest: &str, plans: &Plans, at: RunContext<'_>) -> ToolEnd {
        let waiting = self.tools.get(&call.tool).and_then(|held| plans.take(held, call, digest));
        let run = match waiting {
            Some(run) => run,
            None => match self.plan(call, at.sandbox).await {
                Ok((_, plan, preparation)) if plan.digest == digest => preparation.run,
                Ok(_) => {
                    return ToolEnd::failed(format!(
                        "{} was not run: what it would do has changed since it was approved; look again, then repeat \
                         the call",
                        call.tool
                    ));
                }
                Err(words) => return ToolEnd::failed(format!("{} was not run: {words}", call.tool)),
            },
        };
        if at.cancel.is_cancelled() {
            let words = format!("{} was cancelled before it started", call.tool);
            return ToolEnd { status: ToolStatus::Cancelled, ..ToolEnd::failed(words) };
        }
        run(at).await
    }

    async fn plan(
        &self,
        call: &ToolCall,
        sandbox: &dyn Sandbox,
    ) -> Result<(Arc<Held>, Plan, Preparation), String> {
        let held = self.tools.get(&call.tool).ok_or_else(|| self.unknown(&call.tool))?;
        held.check.accept(&call.args)?;
        let mut made = held.tool.prepare(call, sandbox).await?;
        let digest = digest::of(call, (held.source, &held.schema), &made, &sandbox.spec());
        let (needs, cwd) = (std::mem::take(&mut made.needs), std::mem::take(&mut made.cwd));
        let mut plan =
            Plan { needs, cwd, preview: std::mem::take(&mut made.preview), risk: made.risk, digest };
        // A grant covers what is shown, so what it would cover is shown.
        let others: Vec<String> = plan.other_needs().map(|need| need.name().into_owned()).collect();
        if !others.is_empty() {
            plan.preview = format!("{}\nneeds: {}", plan.preview.trim_end_matches('\n'), names_shown(others));
        }
        let shown =
            serde_json::to_string(&(&plan.preview, &plan.needs)).map_or(usize::MAX, |json| json.len());
        if shown > MAX_PREVIEW {
            return Err(format!(
                "what it would do takes {shown} bytes to show for approval; at most {MAX_PREVIEW} can be shown, so \
                 make smaller steps"
            ));
        }
        Ok((Arc::clone(held), plan, made))
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
