//! What was typed: the command line as clap reads it; what it means is for `plan`.

mod cache;
mod chat;
mod mcp;
mod order;
mod policy;
mod records;
mod sandbox;
mod setup;
mod teams;
mod undo;

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::cli::complete;
use crate::config::SandboxKind;
use crate::config::number::Dollars;
use crate::protocol::message::Effort;
use crate::protocol::spec::{ANY_STEPS, PermissionLevel};

pub use cache::CacheCommand;
pub use chat::{ChatArgs, LookArgs};
pub use mcp::{McpAddArgs, McpCommand};
pub use order::in_order;
pub use policy::{ExplainArgs, PolicyArgs, PolicyCommand};
pub use records::{
    ContextArgs, CostArgs, DebatesArgs, DebatesCommand, ReplayArgs, ReportArgs, ReportFormat, SessionsArgs,
    SessionsCommand, VerifyArgs, WhyArgs,
};
pub use sandbox::SandboxCommand;
pub use setup::{InitArgs, KeysArgs, KeysCommand, ModelsArgs, ModelsCommand, ModelsListArgs};
pub use teams::{DebateArgs, DemoArgs, DemoKind, SquadArgs};
pub use undo::{ApplyArgs, UndoArgs, UndoPart};

/// An arena for AI agents in your terminal
///
/// Every action of an agent is an event in one log; the screen, the replay, the resume after a crash, the fork and the cost sheet are all read from it. Start with `agon demo`: it needs no key, no network and no model.
#[derive(Debug, Parser)]
#[command(name = "agon", version, args_conflicts_with_subcommands = true, max_term_width = 100)]
#[command(after_help = EXIT_CODES)]
pub struct Typed {
    /// What to do; mission control when absent.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// How mission control begins.
    #[command(flatten)]
    pub chat: ChatArgs,
}

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    the agents failed the task
  2    bad usage or configuration
  3    a limit was reached
  4    paused for an approval nobody could give
  5    a replay diverged or a log is damaged
  70   a bug in agon
  130  interrupted

SESSION is the beginning or the end of a session's id, its name, `latest`, or a path to a log file.
Options that several commands share may come before or after the command.";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Give one task to one agent and print its answer; `agon -p` is the same
    #[command(visible_alias = "exec")]
    Run(Box<RunArgs>),
    /// Give one task to a squad: coordinator, coder and reviewer, or the roles of a blueprint
    Squad(Box<SquadArgs>),
    /// Let personas debate a question in phases, and get a verdict beside their sealed votes
    Debate(Box<DebateArgs>),
    /// Watch agon work on its built-in script, without a key, a network or a model
    Demo(Box<DemoArgs>),
    /// List, search, show, rename, remove, export and import sessions
    Sessions(SessionsArgs),
    /// Resume a session where it stopped
    Resume(Box<ResumeArgs>),
    /// Copy a session up to an entry and go on differently
    Fork(Box<ForkArgs>),
    /// Bring what a fork changed into the folder of its parent
    Apply(ApplyArgs),
    /// Take back what the last turn changed and said; `--redo` takes that back
    Undo(UndoArgs),
    /// Show a recorded session; never calls a model or a tool
    Replay(ReplayArgs),
    /// Write down what a session came to: a page, Markdown or JSON
    Report(ReportArgs),
    /// List debates, show how one ended, write its report
    Debates(DebatesArgs),
    /// Check a log: is the chain intact, do the same facts give the same decisions?
    Verify(VerifyArgs),
    /// Show what a session cost, by spark, role and model
    Cost(CostArgs),
    /// Show what fills the context window of each agent of a session's last turn
    Context(ContextArgs),
    /// Show who allowed each tool call, or what led to one event
    Why(WhyArgs),
    /// Find keys and servers, choose a model, try it and write a configuration
    Init(InitArgs),
    /// List what the models of your providers are called, hold and cost
    Models(ModelsArgs),
    /// List, store and remove keys of providers
    Keys(KeysArgs),
    /// Show, locate and trust configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print the JSON Schema of agon's own data
    Schema(SchemaArgs),
    /// Add, list, look at and remove servers of tools (Model Context Protocol)
    #[command(subcommand)]
    Mcp(McpCommand),
    /// List, explain and remove rules of who may do what
    Policy(PolicyArgs),
    /// List, show and make personas
    Personas(PersonasArgs),
    /// Count, list, show and remove recorded runs of squads
    #[command(subcommand)]
    Cache(CacheCommand),
    /// List and remove containers, and get the image they are made from
    #[command(subcommand)]
    Sandbox(SandboxCommand),
    /// Check that everything agon needs is in order
    Doctor(DoctorArgs),
    /// Print the completion script of a shell
    Completions(CompletionsArgs),
}

/// The workspace.
#[derive(Debug, Clone, Default, Args)]
pub struct WorkspaceArgs {
    /// Folder to work in; default the current one
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
}

/// What `run` and `demo` share.
#[derive(Debug, Clone, Default, Args)]
pub struct ArenaArgs {
    /// Where to work.
    #[command(flatten)]
    pub workspace: WorkspaceArgs,
    /// Print the log's lines as they become durable instead of the answer
    #[arg(long)]
    pub json: bool,
    /// With --json, print live text and progress as `{"signal":...}` lines as well
    #[arg(long, requires = "json")]
    pub signals: bool,
    /// Write the answer to a file as well
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// What the session is held to.
    #[command(flatten)]
    pub held: HeldArgs,
    /// How much is said.
    #[command(flatten)]
    pub loud: LoudArgs,
}

/// How much is said next to the answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Args)]
pub struct LoudArgs {
    /// Show every event and every line, and at the end the whole summary
    #[arg(short, long, conflicts_with = "quiet")]
    pub verbose: bool,
    /// Print the answer and, if there is one, why it failed
    #[arg(short, long)]
    pub quiet: bool,
}

/// An earlier session to continue.
#[derive(Debug, Clone, Default, Args)]
pub struct EarlierArgs {
    /// Continue an earlier session instead of a new one
    #[arg(short, long, value_name = "SESSION", add = complete::sessions())]
    pub resume: Option<String>,
    /// Continue the newest session of this workspace
    #[arg(short = 'c', long = "continue", conflicts_with = "resume")]
    pub newest: bool,
}

/// How much tools do without a question.
#[derive(Debug, Clone, Default, Args)]
pub struct PermissionArgs {
    /// Let tools do this much without asking: plan (nothing is changed), ask, edits or auto; default `ask`
    #[arg(long = "permission", value_name = "LEVEL", value_parser = levels(), hide_possible_values = true)]
    pub level: Option<PermissionLevel>,
    /// Allow what leaves the sandbox: `host:NAME`, `port:N`, `git` or `unconfined`; can be repeated
    #[arg(long, value_name = "NEED")]
    pub allow: Vec<String>,
}

fn levels() -> impl TypedValueParser<Value = PermissionLevel> {
    let words = PermissionLevel::ALL.map(PermissionLevel::word);
    PossibleValuesParser::new(words).map(|word| PermissionLevel::named(&word).unwrap_or_default())
}

/// What a session is held to: who answers, by which rules, in which sandbox, where it stops by itself.
#[derive(Debug, Clone, Default, Args)]
pub struct HeldArgs {
    /// Answer approvals with yes, except for what leaves the sandbox; what policy denies stays denied
    #[arg(long)]
    pub yes: bool,
    /// Who asks and when.
    #[command(flatten)]
    pub permission: PermissionArgs,
    /// Add the policy rules of a TOML file
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// Confine the tools with this sandbox; default `auto`
    #[arg(long, value_name = "KIND", hide_possible_values = false)]
    pub sandbox: Option<SandboxKind>,
    /// Let models think this much: low, medium or high; default as the provider does
    #[arg(long, value_name = "EFFORT", value_parser = effort)]
    pub effort: Option<Effort>,
    /// Stop after this many tokens of the session, input and output
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = at_least_one::<u64>)]
    pub max_tokens: Option<u64>,
    /// Stop before the session costs more than this many dollars; needs a model with a known price
    #[arg(long, value_name = "DOLLARS", allow_negative_numbers = true)]
    pub max_usd: Option<Dollars>,
    /// Stop a turn after this many seconds of work
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = at_least_one::<u64>)]
    pub max_seconds: Option<u64>,
    /// Stop a turn after this many model calls, or `none`; default 100, in a debate 600
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = steps)]
    pub max_steps: Option<u32>,
}

/// A limit: the parser of numbers would call a sign an invalid digit.
fn at_least_one<T: std::str::FromStr + PartialOrd + From<u8>>(text: &str) -> Result<T, String> {
    let number = text.parse().ok().filter(|number| *number >= T::from(1));
    number.ok_or_else(|| "it must be a whole number of 1 or more".to_owned())
}

fn effort(text: &str) -> Result<Effort, String> {
    Effort::named(text).ok_or_else(|| "it must be `low`, `medium` or `high`".to_owned())
}

/// A limit of model calls, which has a default and so a word that lifts it.
fn steps(text: &str) -> Result<u32, String> {
    match text {
        "none" => Ok(ANY_STEPS),
        text => {
            at_least_one(text).map_err(|_| "it must be a whole number of 1 or more, or `none`".to_owned())
        }
    }
}

/// Arguments of `run`.
#[derive(Debug, Clone, Default, Args)]
pub struct RunArgs {
    /// The task, or `-` for standard input; what comes through a pipe is appended to it
    #[arg(value_name = "PROMPT")]
    pub prompt: Option<String>,
    /// Use this model, as PROVIDER/MODEL
    #[arg(short, long, value_name = "PROVIDER/MODEL", add = complete::models())]
    pub model: Option<String>,
    /// Work as this persona; default `solo`
    #[arg(long, value_name = "ID", add = complete::personas())]
    pub persona: Option<String>,
    /// Require an answer that fits the JSON Schema in a file
    #[arg(long, value_name = "FILE")]
    pub output_schema: Option<PathBuf>,
    /// The session to continue.
    #[command(flatten)]
    pub earlier: EarlierArgs,
    /// What `run` and `demo` share.
    #[command(flatten)]
    pub arena: ArenaArgs,
}

/// What a log never decides: policy, sandbox and folder of a session that is resumed or forked.
#[derive(Debug, Clone, Default, Args)]
pub struct HereArgs {
    /// Who asks and when.
    #[command(flatten)]
    pub permission: PermissionArgs,
    /// Add the policy rules of a TOML file to those of your configuration
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// Confine the tools with this sandbox; default that of your configuration
    #[arg(long, value_name = "KIND", hide_possible_values = false)]
    pub sandbox: Option<SandboxKind>,
    /// Work with this folder's files instead of those where the session was begun
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
}

/// Arguments of `resume`.
#[derive(Debug, Clone, Args)]
pub struct ResumeArgs {
    /// The session; without one, choose from the newest
    #[arg(add = complete::sessions())]
    pub session: Option<String>,
    /// Where to work and what holds it.
    #[command(flatten)]
    pub here: HereArgs,
    /// How much is said.
    #[command(flatten)]
    pub loud: LoudArgs,
    /// Answer the question that the agent asks; a number chooses
    #[arg(long, value_name = "TEXT")]
    pub answer: Option<String>,
    /// Answer open approvals with yes, except for what leaves the sandbox
    #[arg(long)]
    pub yes: bool,
    /// Print the new lines of the log instead of the answer
    #[arg(long)]
    pub json: bool,
    /// Write the answer to a file as well
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Arguments of `fork`.
#[derive(Debug, Clone, Args)]
pub struct ForkArgs {
    /// The session to copy
    #[arg(add = complete::sessions())]
    pub session: String,
    /// Copy up to and with this entry; default the last one
    #[arg(long, value_name = "SEQ")]
    pub at: Option<u64>,
    /// Use this model from here on, as PROVIDER/MODEL
    #[arg(short, long, value_name = "PROVIDER/MODEL", add = complete::models())]
    pub model: Option<String>,
    /// Work as this persona from here on
    #[arg(long, value_name = "ID", add = complete::personas())]
    pub persona: Option<String>,
    /// Where to work and what holds it.
    #[command(flatten)]
    pub here: HereArgs,
    /// Give this prompt in place of the last one up to `--at`; the copy ends before that prompt
    #[arg(long, value_name = "TEXT")]
    pub prompt: Option<String>,
    /// Put the text of a file in the place of a tool's result, such as `e42=fixed.txt`; the copy ends before it
    #[arg(long, value_name = "ENTRY=FILE", conflicts_with_all = ["at", "prompt"])]
    pub set_result: Option<String>,
    /// How much is said.
    #[command(flatten)]
    pub loud: LoudArgs,
    /// Only make the copy and print its id
    #[arg(long)]
    pub no_run: bool,
    /// Answer approvals with yes, except for what leaves the sandbox
    #[arg(long)]
    pub yes: bool,
}

/// Commands on configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Show every value in force and where it comes from; keys are never shown
    Show {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
    /// Print the path of your configuration file
    Path,
    /// Print the JSON Schema of configuration files
    Schema,
    /// Trust this workspace's own configuration, personas and blueprints as they are now
    Trust {
        /// Take the trust back
        #[arg(long)]
        revoke: bool,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
}

/// Arguments of `schema`.
#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// Whose schema
    #[arg(value_enum, default_value = "events")]
    pub of: SchemaKind,
}

/// What has a JSON Schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SchemaKind {
    /// Entries of a log, one per line
    Events,
    /// Commands to a running session
    Commands,
    /// Live signals of `--json --signals`
    Signals,
    /// Configuration files
    Config,
    /// Policy files of `--policy`
    Policy,
    /// What `agon report --format json` prints
    Report,
}

/// Arguments of `personas`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct PersonasArgs {
    /// What to do; default `list`
    #[command(subcommand)]
    pub command: Option<PersonasCommand>,
    /// Print the list as JSON
    #[arg(long)]
    pub json: bool,
    /// Where to work.
    #[command(flatten)]
    pub workspace: WorkspaceArgs,
}

/// Commands on personas.
#[derive(Debug, Subcommand)]
pub enum PersonasCommand {
    /// List the personas and where each comes from
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
    /// Make a persona of your own from a template, and say where it lies
    New {
        /// Its id: small letters, digits and hyphens
        id: String,
        /// Begin with the text of this persona
        #[arg(long, value_name = "ID")]
        from: Option<String>,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
    /// Show a persona's whole text
    Show {
        /// The persona's id
        #[arg(add = complete::personas())]
        id: String,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
}

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Start this sandbox and try what it must refuse, a row for each
    #[arg(long, value_name = "KIND")]
    pub sandbox: Option<SandboxKind>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Where to work.
    #[command(flatten)]
    pub workspace: WorkspaceArgs,
}

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}
