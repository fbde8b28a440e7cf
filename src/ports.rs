//! The traits through which the arena touches the world, each with its contract; holds no implementation.

mod background;
mod cache;
mod exec;
mod offered;
mod path_change;
mod tools;
mod workers;

pub use background::{Background, Glance};
pub use cache::{CacheMiss, CachedRun, Contents, FileChange, FileContent, FoundRun, TeamCache};
pub use exec::{Exec, ExecEnd, Opens, Wires};
pub use offered::OfferedModel;
pub use path_change::{PathChange, PathState};
pub use tools::{EndPart, Preparation, Run, RunContext, Tool, ToolEnd, ToolSource};
pub use workers::{Sink, Workers};

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use tokio_stream::Stream;
use tokio_util::sync::CancellationToken;

use crate::protocol::effect::DiffOrder;
use crate::protocol::event::{
    CheckRan, DiffTaken, ErrorKind, ModelFailed, ModelReply, PathBase, WorkspaceCheckpointed,
    WorkspaceFingerprinted,
};
use crate::protocol::message::Request;
use crate::protocol::need::Need;
use crate::protocol::spec::SandboxSpec;
use crate::protocol::{Entry, Lane, Signal};

/// Where a running call puts its live output.
///
/// Must never block and never fail: what is pushed may be dropped. The caller pushes raw text;
/// offsets and redaction are the receiver's work.
pub trait Live: Send + Sync {
    /// Hands over the next piece of a lane.
    fn push(&self, lane: Lane, text: &str);
    /// Where the call asks for more than it began with; none where no person can be asked.
    fn asks(&self) -> Option<Arc<dyn Asks>> {
        None
    }
}

/// No listener.
impl Live for () {
    fn push(&self, _: Lane, _: &str) {}
}

/// What a call is told that asked for something: yes, or no with a person's reason, which may be empty.
pub type Answer = Result<(), String>;

/// Asks for what a call turns out to need while it runs, and keeps its time meanwhile.
#[async_trait]
pub trait Asks: Send + Sync {
    /// Waits for the answer: no where the call ends before, none where it has asked about too many. What a call asks about
    /// twice is one question, which stays open when nothing waits for it. `words` say what would be done.
    async fn ask(&self, need: Need, words: String) -> Option<Answer>;
    /// Waits until the call has been at work for this long, which it is not while it waits for an answer.
    async fn worked(&self, time: Duration);
}

/// A source of model answers.
///
/// Must try exactly once (the session owns retries), must return promptly once `cancel` fires (kind
/// `cancelled`), must report usage when the provider billed anything. Must not touch files or clocks
/// that a decision could see. An empty answer is returned as it is; what it means is the session's matter.
#[async_trait]
pub trait Provider: Send + Sync {
    /// Sends one request and waits for the whole answer.
    async fn call(
        &self,
        request: &Request,
        live: &dyn Live,
        cancel: &CancellationToken,
    ) -> Result<ModelReply, ModelFailed>;

    /// The models its server lists, for people to choose from; no call depends on it.
    async fn models(&self) -> Result<Vec<OfferedModel>, ModelFailed> {
        Err(ModelFailed::new(ErrorKind::BadRequest, "it lists no models".to_owned()))
    }

    /// What its server says of one model; none where it says nothing.
    async fn model(&self, name: &str) -> Option<OfferedModel> {
        self.models().await.ok()?.into_iter().find(|model| model.id == name)
    }
}

/// Keeps what was learnt about a model for the sessions to come.
///
/// Blocking; what cannot be kept is learnt again.
pub trait Learnings: Send + Sync {
    /// A model refuses these parameters.
    fn refuses(&self, model: &str, names: &[String]);
}

/// Why a file operation is not done. The words are for the model and name the path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// It leads out of the workspace, by `..`, an absolute path or a link.
    #[error("`{0}` leads outside the workspace")]
    Outside(String),
    /// Its name is protected.
    #[error("`{path}` is protected and never written by a tool: {reason}")]
    Protected {
        /// The path.
        path: String,
        /// Why names like it are protected.
        reason: &'static str,
    },
    /// There is no such file.
    #[error("`{0}` does not exist")]
    Missing(String),
    /// It is a directory.
    #[error("`{0}` is a directory")]
    Directory(String),
    /// It is a device, a socket, a pipe, or has several names (hard links).
    #[error("`{0}` is not an ordinary file")]
    Special(String),
    /// It is larger than may be read at once.
    #[error("`{path}` has {bytes} bytes; at most {max} can be read at once")]
    TooLarge {
        /// The path.
        path: String,
        /// Its size.
        bytes: u64,
        /// The limit.
        max: u64,
    },
    /// It is not what it was when the spark last saw it.
    #[error("`{0}` has changed since you last read it; read it again before writing")]
    Changed(String),
    /// The system said no.
    #[error("`{path}`: {error}")]
    Io {
        /// The path.
        path: String,
        /// The system's words.
        error: String,
    },
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Path relative to the workspace, with `/`.
    pub path: String,
    /// What it is.
    pub kind: FileKind,
    /// Size in bytes, 0 for directories.
    pub bytes: u64,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, not followed.
    Link,
    /// Anything else.
    Special,
    /// Anything whose name is not UTF-8, so that no path can name it. `DirEntry::path` is how it is shown.
    Unnamed,
}

/// The workspace's files, as tools may see them.
///
/// Every path is relative to the workspace (an absolute one beneath the root is mapped) and is resolved
/// beneath it at each operation, never by string prefix. Writes are atomic. Blocking; callers on an
/// async thread use `spawn_blocking`.
pub trait Files: Send + Sync {
    /// The path as it stands in logs: relative, `/`, no `.` or `..`. Does not need to exist.
    fn canonical(&self, path: &str) -> Result<String, FileError>;
    /// When the workspace was opened.
    fn opened(&self) -> SystemTime;
    /// Whether ignore rules leave a directory out.
    fn is_ignored(&self, folder: &str) -> bool;
    /// The whole file, refused beyond `max` bytes.
    fn read(&self, path: &str, max: u64) -> Result<Vec<u8>, FileError>;
    /// SHA-256 of the content in hex, streaming; none when there is no such file.
    fn digest(&self, path: &str) -> Result<Option<String>, FileError>;
    /// Opens for streaming reads (a line range of a huge file).
    fn open(&self, path: &str) -> Result<std::fs::File, FileError>;
    /// Refuses what `write` would refuse for its name or kind, without writing.
    fn check_write(&self, path: &str) -> Result<(), FileError>;
    /// Replaces or creates the file, missing directories included, keeping an existing mode.
    /// `base` is what the file must still hold (`sha256: None`: must not exist); else `Changed`.
    fn write(&self, path: &str, content: &[u8], base: &PathBase) -> Result<(), FileError>;
    /// Changes several files, all or nothing; gives the paths it changed. Each file must be as its change
    /// says it was before, or already as it says it is after (a patch that was broken off is finished);
    /// anything else refuses the whole and is named. `content` gives the bytes of a digest.
    fn patch(
        &self,
        changes: &[FileChange],
        content: &mut dyn FnMut(&str) -> Result<Vec<u8>, String>,
    ) -> Result<Vec<String>, FileError>;
    /// Names in one directory, sorted.
    fn list(&self, path: &str) -> Result<Vec<DirEntry>, FileError>;
    /// Files beneath a directory, ignore rules honoured, sorted, at most `max`; true when there were more.
    fn walk(&self, path: &str, max: usize) -> Result<(Vec<DirEntry>, bool), FileError>;
    /// Hands on what is under a directory, ignore rules honoured, from several threads and in no order. A directory
    /// comes before what is in it, which is left out where `visit` says false. False when it took too long to finish.
    fn visit(&self, path: &str, visit: &(dyn Fn(Visited<'_>) -> bool + Sync)) -> Result<bool, FileError>;
}

/// Something that a walk has come by.
pub struct Visited<'a> {
    /// As it stands in logs; shown as far as it can be where its kind says that it has no name.
    pub path: &'a str,
    /// What it is.
    pub kind: FileKind,
    /// Opens an ordinary file for reading, in the directory that is being walked.
    pub open: &'a dyn Fn() -> Result<std::fs::File, FileError>,
}

/// Where tools touch files and run commands.
///
/// Must confine what its spec claims to confine and name every gap. `exec` ends the whole process group
/// on timeout and cancel, and never inherits agon's environment or descriptors.
#[async_trait]
pub trait Sandbox: Send + Sync {
    /// Kind and gaps.
    fn spec(&self) -> SandboxSpec;
    /// How commands get what they see, for people; none where there is one way only.
    fn way(&self) -> Option<String> {
        None
    }
    /// The workspace's files.
    fn files(&self) -> Arc<dyn Files>;
    /// Why it cannot open these for a call, for models and people; none when it can.
    fn cannot_open(&self, needs: &[Need]) -> Option<String> {
        let closed = needs.iter().find(|need| need.is_opened())?;
        Some(format!("`{}` is not available in the sandbox `{}`", closed.name(), self.spec().kind))
    }
    /// Whether commands leave the repository as it is unless a call opens it. Default: they do not.
    fn keeps_git(&self) -> bool {
        false
    }
    /// Whether a command can keep running while others reach the ports it listens on. Default: none can.
    fn keeps_background(&self) -> bool {
        false
    }
    /// Ports that such commands listen on, where the same is opened for them; those of others may be among them.
    async fn listening(&self, _: &Opens) -> BTreeSet<u16> {
        BTreeSet::new()
    }
    /// Runs a command to its end.
    async fn exec(&self, exec: Exec, live: &dyn Live, cancel: &CancellationToken) -> Result<ExecEnd, String>;
    /// Runs a command whose caller talks with it: a server. Default: it cannot.
    async fn converse(
        &self,
        _: Exec,
        _: Wires,
        _: &dyn Live,
        _: &CancellationToken,
    ) -> Result<ExecEnd, String> {
        Err(format!("no server can be started in the sandbox `{}`", self.spec().kind))
    }
    /// Gives back what the sandbox holds outside this process. Called once, after the last `exec`; a
    /// sandbox whose process was killed is cleared away by a later one.
    async fn close(&self) {}
}

/// Records and compares the whole content of a workspace.
///
/// Content is stored raw with mode 0600 outside the workspace and never shown. Ignore rules are honoured,
/// `.git` and `.agon` never included. The errors' words are for people.
#[async_trait]
pub trait Workspace: Send + Sync {
    /// Digests the content.
    async fn fingerprint(&self) -> Result<WorkspaceFingerprinted, String>;
    /// Records the content; the same content gives the same tree.
    async fn checkpoint(&self) -> Result<WorkspaceCheckpointed, String>;
    /// Compares the content with a recorded tree; names the written files, ignored ones too, that hold again what they
    /// are said to have held before, and what differs from the tree that was shown last.
    async fn diff(&self, order: &DiffOrder) -> Result<DiffTaken, String>;
    /// Records the content and lists every file that is not as a recorded tree has it, sorted by path.
    /// Refused when something changed, or could have, that is no recorded file: a link, a file that is
    /// too large, a name that is no text.
    async fn changes(&self, from: &str) -> Result<Vec<FileChange>, String>;
    /// The recorded content with this SHA-256, checked against it.
    async fn content(&self, sha256: &str) -> Result<Vec<u8>, String>;
}

/// Runs a blueprint's checks; implemented by the sandbox side.
#[async_trait]
pub trait Checks: Send + Sync {
    /// Runs one command and reports exit code and output.
    async fn run(
        &self,
        command: &str,
        timeout_ms: u64,
        live: &dyn Live,
        cancel: &CancellationToken,
    ) -> CheckRan;
}

/// Where a log ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Entries in the log.
    pub count: u64,
    /// Chain hash of the last line, base64url without padding; of the root when empty.
    pub hash: String,
}

/// Why an append gave no acknowledgement. The session must stop acting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The disk is full; the log is whole up to its last acknowledged entry.
    #[error("the disk is full: {0}")]
    Full(String),
    /// An entry serialises to more than a line may have (768 KiB).
    #[error("entry {seq} has {bytes} bytes; a log line may have {max}")]
    TooLong {
        /// The entry.
        seq: u64,
        /// Its size.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// Writing or syncing failed; nothing can be appended any more.
    #[error("the log can no longer be written: {0}")]
    Poisoned(String),
    /// What happened holds a secret that cannot be taken out of it, so it is not recorded.
    #[error("`{0}` holds a secret that cannot be replaced in it, so it is not recorded")]
    Secret(String),
    /// The entry does not follow the last one.
    #[error("entry {got} does not follow; the next is {expected}")]
    OutOfOrder {
        /// Next seq of the log.
        expected: u64,
        /// Seq that was offered.
        got: u64,
    },
}

/// The durable log of one session.
///
/// `append` takes a batch all or nothing, in order, and returns only when it is on disk. After an error no
/// later append succeeds, except after `Full` once there is room. Reading never needs the writer.
#[async_trait]
pub trait EventLog: Send + Sync {
    /// Appends and syncs.
    async fn append(&self, entries: Vec<Arc<Entry>>) -> Result<Head, AppendError>;
    /// Shows `visit` raw lines with their newline, from entry `from` to the last acknowledged one, until it says false.
    fn visit(&self, from: u64, visit: &mut dyn FnMut(&[u8]) -> bool) -> std::io::Result<()>;
    /// The same lines all at once, for a few of them.
    fn lines(&self, from: u64) -> std::io::Result<Vec<Vec<u8>>> {
        let mut lines = Vec::new();
        self.visit(from, &mut |line| {
            lines.push(line.to_vec());
            true
        })?;
        Ok(lines)
    }
    /// Keeps bytes next to the log, durable on return; gives their SHA-256 in hex.
    async fn put_blob(&self, bytes: Vec<u8>) -> std::io::Result<String>;
    /// Reads such bytes back; none where they are gone or are not what their name says. Blocking.
    fn blob(&self, sha256: &str) -> Option<Vec<u8>>;
    /// Where the log ends.
    fn head(&self) -> Head;
}

/// A live view on a session. Entries that were missed are read from the log.
pub struct Subscription {
    /// Acknowledged entries, in order; a subscriber too slow for them sees a gap in `seq`.
    pub entries: std::pin::Pin<Box<dyn Stream<Item = Arc<Entry>> + Send>>,
    /// Live pieces; any may be missing.
    pub signals: std::pin::Pin<Box<dyn Stream<Item = Signal> + Send>>,
}

/// Tells subscribers what happened. The log is the truth; this is a doorbell.
///
/// Publishing never waits and never fails: a subscriber that lags loses messages, not the publisher time.
pub trait SignalBus: Send + Sync {
    /// Announces an acknowledged entry.
    fn publish(&self, entry: Arc<Entry>);
    /// Hands a live piece to whoever listens.
    fn signal(&self, signal: Signal);
    /// Listens from now on.
    fn subscribe(&self) -> Subscription;
}

/// The time, at the edge only.
#[async_trait]
pub trait Clock: Send + Sync {
    /// Microseconds since the Unix epoch.
    fn now(&self) -> u64;
    /// Waits.
    async fn sleep(&self, ms: u64);
}
