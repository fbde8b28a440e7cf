//! Why an arena cannot be put together; the words name the part that is missing.

use std::path::{Path, PathBuf};

use crate::arena::ArenaError;
use crate::assembly::taken_up::listed;
use crate::config::ConfigError;
use crate::eventlog::LogError;
use crate::library::FileError;
use crate::library::blueprint::BlueprintError;
use crate::ports::AppendError;
use crate::protocol::blueprint;
use crate::protocol::text::name_shown;
use crate::sandbox::docker::DockerError;
use crate::teamcache::StockError;

/// Why an arena cannot be put together.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are named by the messages")]
pub enum WireError {
    /// The configuration does not say enough.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A file that belongs to the session cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A session cannot be found, opened or read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The arena did not open.
    #[error(transparent)]
    Arena(#[from] ArenaError),
    /// A provider cannot be connected.
    #[error("{0}")]
    Provider(String),
    /// This program was built without what the provider needs.
    #[error(
        "provider `{provider}`: this agon was built without `{feature}`, which `kind = \"{kind}\"` needs"
    )]
    NotBuilt { provider: String, kind: &'static str, feature: &'static str },
    /// A server of tools cannot be used.
    #[error("server `{name}`: {why}")]
    Server { name: String, why: String },
    /// The workspace cannot be opened.
    #[error("{0}")]
    Workspace(String),
    /// The workspace holds the state or the configuration of agon itself, or is in it.
    #[error("`{}` holds agon's own files or is among them (`{}`), which no tool may touch", workspace.display(), own.display())]
    HoldsOwn {
        /// The workspace.
        workspace: PathBuf,
        /// The folder of agon in it.
        own: PathBuf,
    },
    /// The workspace is a home or belongs to the system, and no person said that agents may work there.
    #[error("`{}` is no workspace without your consent: {why}", workspace.display())]
    Wide {
        /// The workspace.
        workspace: PathBuf,
        /// What it is.
        why: &'static str,
    },
    /// A recorded run cannot be found or the cache not be used.
    #[error(transparent)]
    Cache(#[from] StockError),
    /// No persona has this id.
    #[error("no persona is called `{id}`")]
    NoPersona { id: String, suggestion: Option<String> },
    /// The file of a persona cannot be used.
    #[error("`{}` cannot be used: {error}", .path.display())]
    BadPersona { path: PathBuf, error: String },
    /// What was named is in a project that nobody trusts yet.
    #[error("the {what} `{id}` is this project's, and `{}` is not trusted", .root.display())]
    Untrusted { what: &'static str, id: String, root: PathBuf },
    /// A persona names a tool that is not there.
    #[error("the persona `{persona}` names the tool `{tool}`, which there is not")]
    NoTool { persona: String, tool: String, suggestion: Option<String> },
    /// A limit in dollars cannot be kept.
    #[error("a limit in dollars is set, and the price of `{0}` is not known: its server tells none")]
    NoPrice(String),
    /// A tool cannot be taken in.
    #[error("{0}")]
    Tool(String),
    /// A pattern of a rule cannot be read.
    #[error("policy: {0}")]
    Policy(String),
    /// A sandbox is not to be had.
    #[error("the sandbox `{kind}` is not available on this machine: {why}")]
    NoSandbox { kind: &'static str, why: String },
    /// The workspace, or the folder for temporary files, has to be mended before anything can be confined.
    #[error("{0}")]
    Uncovered(String),
    /// A log names a sandbox that this program does not know.
    #[error("sandbox {} is unknown", listed([.0.as_str()]))]
    UnknownSandbox(String),
    /// The key that marks this user's sessions cannot be used.
    #[error("cannot use the key `{}`, which marks your sessions: {why}", path.display())]
    OwnKey {
        /// The key's file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A log from elsewhere names a folder to work in.
    #[error("session `{id}` was not begun here, and its log names the folder `{}`", name_shown(&root.to_string_lossy()))]
    ForeignRoot { id: String, root: PathBuf },
    /// None of the sandboxes that `auto` may choose is to be had.
    #[error("nothing here can confine the tools: {why}")]
    NothingConfines { why: String, gaps: Vec<&'static str> },
    /// The place of a squad's role is not to be had.
    #[error("the role `{role}` has no place to work: {error}")]
    Role { role: String, error: Box<WireError> },
    /// A role is to change nothing, and its session's commands are not confined.
    #[error("the role `{0}` is to change nothing, and nothing confines the commands of this session")]
    NothingHolds(String),
    /// A container, its engine or its image cannot be had.
    #[error(transparent)]
    Docker(#[from] DockerError),
    /// What a session is opened with does not fit into a line of the log.
    #[error("the session's settings have {bytes} bytes; {part} is the largest part")]
    SpecTooLarge { bytes: usize, part: &'static str },
    /// The blueprint cannot be used.
    #[error(transparent)]
    Blueprint(#[from] BlueprintError),
    /// A blueprint that a program gave cannot be followed.
    #[error("the blueprint: {0}")]
    Unfit(#[from] blueprint::Fault),
    /// A check without a command.
    #[error("a `--check` names no command")]
    EmptyCheck,
    /// Another process writes in the workspace.
    #[error("another agon{} is at work in `{}`", .pid.map(|pid: u32| format!(" (pid {pid})")).unwrap_or_default(), .root.display())]
    Busy { root: PathBuf, pid: Option<u32> },
    /// The recorded workspace is gone.
    #[error("the session's workspace `{}` is not there any more", .0.display())]
    WorkspaceGone(PathBuf),
    /// A fork is to replace what is not there.
    #[error("{0}")]
    NothingToReplace(String),
    /// A session takes no task while its last one is open.
    #[error("{}", if .asks.is_empty() { "the session's last turn is still open".to_owned() } else { format!("an approval is open: {asks}") })]
    OpenTurn { id: String, asks: String },
    /// The demo's script would have to answer.
    #[error("the demo's script answers no other task than its own")]
    OnlyDemo,
    /// A task does not fit into a line of the log.
    #[error("the prompt has {bytes} bytes; a prompt may have {max}")]
    LongPrompt { bytes: usize, max: usize },
    /// Nothing is taken back.
    #[error("{why}")]
    Undo { why: String, hint: Option<String> },
    /// A value that the program wants hidden cannot be.
    #[error("secret `{name}` cannot be kept out of the log: {why}")]
    UnfitSecret { name: String, why: &'static str },
    /// A log from elsewhere would read another session.
    #[error(
        "`{0}` answers as another session of yours did, and a log that was not begun here cannot ask for that"
    )]
    Replays(String),
    /// A provider's secret would reach the log of a running session.
    #[error("`{0}` was configured after this session began, so its log would hold that secret")]
    LateSecret(String),
    /// There is nothing to change any more.
    #[error("the session has ended")]
    Ended,
    /// The session would not take the settings.
    #[error("the settings were not taken: {0}")]
    Set(String),
    /// agon contradicts itself: a bug.
    #[error("internal: {0}")]
    Internal(String),
}

/// What to do where a sandbox is not available.
const NO_SANDBOX: &str = if cfg!(target_os = "linux") {
    "`--sandbox landlock-only` needs no namespaces and leaves more open (`agon doctor --sandbox landlock-only`); `agon \
     doctor --sandbox local` and `agon doctor --sandbox docker` say what each needs here; where neither is available, \
     `--sandbox none` runs the tools with your own rights, and nothing confines them"
} else {
    "use `--sandbox docker` (`agon doctor --sandbox docker` says what it needs here); `--sandbox none` runs the tools with \
     your own rights, and nothing confines them"
};

impl WireError {
    /// What the person may try.
    pub fn hint(&self) -> Option<String> {
        match self {
            WireError::Config(error) => error.hint(),
            WireError::Log(error) => error.hint(),
            WireError::Cache(StockError::NoRun(_) | StockError::NoKey) => Some("`agon cache list` shows every run".to_owned()),
            WireError::NoTool { suggestion: Some(name), .. } => Some(format!("did you mean `{name}`?")),
            WireError::NoPersona { suggestion: Some(id), .. } => Some(format!("did you mean `{id}`?")),
            WireError::NoPersona { .. } => Some("`agon personas list` shows them all".to_owned()),
            WireError::Untrusted { .. } => {
                Some("read its `.agon` folder, then run `agon config trust` there".to_owned())
            }
            WireError::NoPrice(model) => Some(format!(
                "set it at the top of the configuration: \
                     models.\"{model}\".price = {{ input = \"1.25\", output = \"10\" }}"
            )),
            WireError::WorkspaceGone(_) => Some(
                "if it was moved, name it: `--workspace DIR`; `agon fork` makes a folder from the files as they were \
                 recorded"
                    .to_owned(),
            ),
            WireError::OwnKey { path, .. } => Some(format!(
                "remove it, and agon makes a new one: rm {} (sessions begun before will count as begun elsewhere)",
                in_shell(path)
            )),
            WireError::Blueprint(BlueprintError::Fault { hint, .. }) => hint.clone(),
            WireError::Blueprint(BlueprintError::Unknown { known, .. }) => {
                Some(format!("there are: {}", known.join(", ")))
            }
            WireError::Unfit(fault) => fault.hint.clone(),
            WireError::Undo { hint, .. } => hint.clone(),
            WireError::EmptyCheck => Some("such as --check \"cargo test\"".to_owned()),
            WireError::Busy { .. } => Some(
                "wait for it to end, work in a copy (`--copy`, /fork), or only look and plan (`--permission plan`, \
                 Shift-Tab)"
                    .to_owned(),
            ),
            WireError::Arena(ArenaError::NoScorer(..)) => Some(
                "take it up with the program that registered that scorer (`ArenaBuilder::scorer`)".to_owned(),
            ),
            WireError::HoldsOwn { .. } => Some(
                "work in a folder of its own (`--workspace DIR`), or keep agon's files elsewhere (`AGON_HOME`)".to_owned(),
            ),
            WireError::Wide { workspace, .. } => Some(format!(
                "work in a project's folder (`--workspace DIR`), or allow this one in your config.toml: \
                 [workspace] allow = [{}]",
                toml::Value::from(workspace.display().to_string())
            )),
            WireError::NothingToReplace(_) => {
                Some("`agon replay S --full` shows every entry with its number".to_owned())
            }
            WireError::Docker(error) => error.hint(),
            WireError::Role { error, .. } => error.hint(),
            WireError::LateSecret(_) => Some("start a new session (/new), or resume this one".to_owned()),
            WireError::UnknownSandbox(_) => Some("name the one to use: `--sandbox auto`".to_owned()),
            WireError::ForeignRoot { root, .. } => Some(format!(
                "name the folder to work in: `--workspace .` is the present one, `--workspace {}` that of the log",
                in_shell(root)
            )),
            WireError::NothingHolds(_) => Some(
                "choose a sandbox for the session (`--sandbox`), or one for the role (`sandbox = \"local\"`)".to_owned(),
            ),
            WireError::NoSandbox { .. } | WireError::NothingConfines { .. } => Some(NO_SANDBOX.to_owned()),
            _ => self.hint_on_task(),
        }
    }

    /// The same for a task that a session does not take.
    fn hint_on_task(&self) -> Option<String> {
        match self {
            WireError::NotBuilt { feature, .. } => {
                Some(format!("in agon's sources: cargo install --path . --features {feature}"))
            }
            WireError::OpenTurn { id, asks } if asks.is_empty() => {
                Some(format!("continue it: agon resume {id}"))
            }
            WireError::OpenTurn { id, .. } => {
                Some(format!("answer it first: agon resume {id} (--yes says yes)"))
            }
            WireError::OnlyDemo => {
                Some("/model PROVIDER/MODEL names a model that does; /demo plays it again".to_owned())
            }
            WireError::LongPrompt { .. } => {
                Some("put what is long into a file of the workspace and name the file".to_owned())
            }
            _ => None,
        }
    }

    /// True when a log is damaged.
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            WireError::Log(
                LogError::Corrupt { .. }
                    | LogError::NeverOpened(_)
                    | LogError::Unfinished { .. }
                    | LogError::Unreadable { .. }
                    | LogError::BadBlob(_)
            ) | WireError::Arena(ArenaError::OutOfOrder(_))
        )
    }

    /// True when this is a bug in agon.
    pub fn is_bug(&self) -> bool {
        matches!(
            self,
            WireError::Internal(_)
                | WireError::Config(ConfigError::Internal(_))
                | WireError::Arena(
                    ArenaError::Refused(_) | ArenaError::Append(AppendError::OutOfOrder { .. })
                )
        )
    }
}

/// A path as a shell takes it for one word, whatever is in it.
pub(crate) fn in_shell(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+' | '@' | ':' | ',');
    match text {
        text if !text.is_empty() && text.chars().all(is_plain) => text,
        text if text.contains(char::is_control) => "DIR".to_owned(),
        text => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_a_hint_is_one_word_of_a_shell() {
        for (path, word) in [
            ("/a/b-c.d", "/a/b-c.d"),
            ("/a b", "'/a b'"),
            ("/x; rm -rf ~", "'/x; rm -rf ~'"),
            ("/it's $(id)", r"'/it'\''s $(id)'"),
            ("/a\nerror: b", "DIR"),
            ("", "''"),
        ] {
            assert_eq!(in_shell(Path::new(path)), word);
        }
    }
}
