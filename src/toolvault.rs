//! The tools a spark may hold: looked up, checked, prepared, run; knows no policy and no session.

mod background;
mod bash;
mod check;
mod digest;
mod edit_file;
mod edits;
mod git_line;
mod glob;
mod grep;
mod inside;
mod instructions;
mod list_dir;
pub mod mention;
pub mod picture;
mod plans;
mod read_file;
mod seen;
mod tool;
pub mod unified;
mod write_file;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::ports::{Preparation, RunContext, Sandbox, Tool, ToolEnd, ToolSource};
use crate::protocol::effect::{ToolCall, ToolsOrder};
use crate::protocol::event::{Plan, PrepareResult, ToolPrepared, ToolStatus, ToolsListed};
use crate::protocol::expand::digest_of;
use crate::protocol::fit::did_you_mean;
use crate::protocol::inside::Inside;
use crate::protocol::need::Need;
use crate::protocol::spec::{Family, ToolSpec};
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
    #[error(
        "`{0}` is not a tool name: 1 to 64 letters, digits, `_` or `-`, a letter first, and no family of tools"
    )]
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

/// The tools by name, and the sources of more.
#[derive(Default)]
pub struct ToolVault(RwLock<Table>);

#[derive(Clone, Default)]
struct Table {
    tools: BTreeMap<String, Arc<Held>>,
    sources: BTreeMap<String, Arc<dyn ToolSource>>,
    /// Sources that were asked in this process.
    asked: BTreeSet<String>,
}

struct Held {
    tool: Arc<dyn Tool>,
    spec: ToolSpec,
    check: ArgumentCheck,
    /// Digest of the schema, which an approval binds to.
    schema: String,
}

impl Held {
    /// Takes a tool for what it says it is. Its spec is asked for once, here.
    fn of(tool: Arc<dyn Tool>, source: Option<&str>) -> Result<Held, VaultError> {
        let spec = ToolSpec { source: source.map(str::to_owned), ..tool.spec() };
        if !is_tool_name(&spec.name) {
            return Err(VaultError::BadName(spec.name));
        }
        let check = ArgumentCheck::compile(&spec.schema)
            .map_err(|error| VaultError::BadSchema { name: spec.name.clone(), error })?;
        let schema = digest::of_schema(&spec.schema);
        Ok(Held { tool, spec, check, schema })
    }

    fn source(&self) -> &str {
        self.spec.source.as_deref().unwrap_or_default()
    }
}

impl Clone for ToolVault {
    /// A vault of its own with the same tools and sources.
    fn clone(&self) -> Self {
        ToolVault(RwLock::new(self.table().clone()))
    }
}

impl ToolVault {
    /// A vault with the built-in tools. Their schemas are compiled once in a process.
    pub fn builtin() -> Result<Self, VaultError> {
        static BUILTIN: OnceLock<Result<ToolVault, VaultError>> = OnceLock::new();
        BUILTIN.get_or_init(ToolVault::compiled).clone()
    }

    fn compiled() -> Result<Self, VaultError> {
        let vault = ToolVault::default();
        vault.register(Arc::new(read_file::ReadFile))?;
        vault.register(Arc::new(write_file::WriteFile))?;
        vault.register(Arc::new(edit_file::EditFile))?;
        vault.register(Arc::new(list_dir::ListDir))?;
        vault.register(Arc::new(glob::Glob))?;
        vault.register(Arc::new(grep::Grep))?;
        vault.register(Arc::new(bash::Bash))?;
        vault.register(Arc::new(background::BashOutput))?;
        for inside in Inside::ALL {
            vault.register(Arc::new(inside::AnsweredInside(inside)))?;
        }
        Ok(vault)
    }

    fn table(&self) -> RwLockReadGuard<'_, Table> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn table_mut(&self) -> RwLockWriteGuard<'_, Table> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a tool in for as long as the vault is there.
    pub fn register(&self, tool: Arc<dyn Tool>) -> Result<(), VaultError> {
        self.table_mut().add(Held::of(tool, None)?)
    }

    /// Every tool's spec, sorted by name.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.table().tools.values().map(|held| held.spec.clone()).collect()
    }

    /// Takes a source in. Its tools are there once it was asked for its list.
    pub fn add_source(&self, name: impl Into<String>, source: Arc<dyn ToolSource>) {
        self.table_mut().sources.insert(name.into(), source);
    }

    /// The sources, each with its name.
    pub fn sources(&self) -> Vec<(String, Arc<dyn ToolSource>)> {
        self.table().sources.iter().map(|(name, source)| (name.clone(), Arc::clone(source))).collect()
    }

    /// Takes a source out with its tools. A call of one that was prepared is not run.
    pub fn remove_source(&self, name: &str) {
        let mut table = self.table_mut();
        table.sources.remove(name);
        table.tools.retain(|_, held| held.source() != name);
    }

    /// Asks a source for its list and takes what can be taken. Where it gives none its tools are taken out.
    pub async fn list(&self, order: ToolsOrder) -> Result<ToolsListed, String> {
        let ToolsOrder { source, known } = order;
        let there = self.table().sources.get(&source).cloned();
        let listed = match there {
            Some(there) => there.tools().await,
            None => Err(format!("the source of tools `{source}` is not there")),
        };
        let mut table = self.table_mut();
        table.tools.retain(|_, held| held.source() != source);
        table.asked.insert(source.clone());
        let mut faults = Vec::new();
        for tool in listed? {
            let taken = Held::of(tool, Some(&source)).and_then(|held| table.add(held));
            faults.extend(taken.err().map(|error| error.to_string()));
        }
        let of_it = table.tools.values().filter(|held| held.source() == source);
        let tools: Vec<ToolSpec> = of_it.map(|held| held.spec.clone()).collect();
        let digest = digest_of(&tools);
        let tools = (known.as_ref() != Some(&digest)).then_some(tools);
        Ok(ToolsListed { source, digest, tools, faults })
    }

    /// A tool by name. Sources that this process has not asked yet are asked before it is said to be none.
    async fn held(&self, name: &str) -> Result<Arc<Held>, String> {
        let missing: Vec<String> = {
            let table = self.table();
            if let Some(held) = table.tools.get(name) {
                return Ok(Arc::clone(held));
            }
            table.sources.keys().filter(|source| !table.asked.contains(*source)).cloned().collect()
        };
        for source in missing {
            // One that cannot be asked offers nothing.
            let _ = self.list(ToolsOrder { source, known: None }).await;
        }
        self.table().tools.get(name).cloned().ok_or_else(|| self.unknown(name))
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
        let held = self.table().tools.get(&call.tool).cloned();
        let waiting = held.and_then(|held| plans.take(&held, call, digest));
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
        let held = self.held(&call.tool).await?;
        held.check.accept(&call.args)?;
        let mut made = held.tool.prepare(call, sandbox).await?;
        if let Some(source) = &held.spec.source {
            // A source may know its tool by another name.
            let own =
                |need: &Need| matches!(need, Need::Tool(tool) if tool.split('/').next() == Some(source));
            if !made.needs.iter().any(own) {
                made.needs.push(Need::Tool(format!("{source}/{}", call.tool)));
            }
        }
        let digest = digest::of(call, (held.source(), &held.schema), &made, &sandbox.spec());
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
        Ok((held, plan, made))
    }

    fn unknown(&self, name: &str) -> String {
        let table = self.table();
        let known: Vec<&str> = table.tools.keys().map(String::as_str).collect();
        let hint = did_you_mean(name, &known);
        format!("there is no tool `{name}`{hint}; the tools are {}", known.join(", "))
    }
}

impl Table {
    fn add(&mut self, held: Held) -> Result<(), VaultError> {
        if self.tools.contains_key(&held.spec.name) {
            return Err(VaultError::Duplicate(held.spec.name));
        }
        self.tools.insert(held.spec.name.clone(), Arc::new(held));
        Ok(())
    }
}

/// A family's name chooses its tools in lists, so no tool has it.
fn is_tool_name(name: &str) -> bool {
    name.len() <= 64
        && Family::named(name).is_none()
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}
