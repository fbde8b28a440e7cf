//! One running container: made, held by its standard input, swept of what a command left; knows no workspace rules.
//!
//! At most one command runs in a container at a time. That makes "everything the command left running" the same as
//! "everything but the keeper", which no command can hide from, whatever it detaches, renames or forks.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use bollard::container::{AttachContainerResults, LogOutput};
use bollard::errors::Error as EngineError;
use bollard::exec::StartExecResults;
use bollard::models::{ExecConfig, ExecInspectResponse};
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, CreateContainerOptionsBuilder, RemoveContainerOptionsBuilder,
    TopOptionsBuilder,
};
use futures_util::StreamExt;

use super::engine::Engine;
use super::error::{DockerError, RUNNING, Trouble, trouble, words};
use super::plan::ContainerPlan;

/// How long a started container may take to say its first word.
const FIRST_WORD: Duration = Duration::from_secs(30);
/// How often what a command left is killed before the container is given up.
const SWEEPS: usize = 40;
/// How long one killing may take.
const SWEEP: Duration = Duration::from_secs(5);
/// How long an engine may take over a small question about a container that runs.
pub(super) const ANSWER: Duration = Duration::from_secs(10);
/// How long the dead may take to be buried.
const BURIAL: Duration = Duration::from_millis(15);

/// What is done before a command has run at all.
const STARTING: &str = "a command was being started";

/// A running container. It ends, with all that runs in it, when this is dropped or the process dies.
pub struct Container {
    engine: Engine,
    id: String,
    /// The shell commands are run by.
    shell: String,
    user: String,
    /// What runs when no command does, as the engine numbers it.
    keepers: BTreeSet<String>,
    /// Its standard input; closing it ends the keeper. Nobody locks it: it only makes this shareable.
    _held: Mutex<AttachContainerResults>,
}

impl fmt::Debug for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Container").field("id", &self.id).field("shell", &self.shell).finish_non_exhaustive()
    }
}

impl Container {
    /// Makes and starts one.
    pub async fn start(engine: &Engine, plan: &ContainerPlan, claim: &Path) -> Result<Self, DockerError> {
        let order = plan.container(claim)?;
        let unique = uuid::Uuid::now_v7().simple().to_string();
        let name = format!("agon-{}-{}", last(&plan.session, 12), last(&unique, 8));
        let options = CreateContainerOptionsBuilder::new().name(&name).build();
        let made = engine.client.create_container(Some(options), order).await;
        let id = made.map_err(|error| not_made(engine, plan, &error))?.id;
        let started = Self::run_keeper(engine, plan, &id).await;
        if started.is_err() {
            remove(engine, &id).await;
        }
        started
    }

    async fn run_keeper(engine: &Engine, plan: &ContainerPlan, id: &str) -> Result<Self, DockerError> {
        let options =
            AttachContainerOptionsBuilder::new().stream(true).stdin(true).stdout(true).stderr(true).build();
        let attached = engine.client.attach_container(id, Some(options)).await;
        let mut held = attached.map_err(|error| engine.failure("attaching to a container", &error))?;
        let started = engine.client.start_container(id, None).await;
        started.map_err(|error| not_made(engine, plan, &error))?;
        let said = tokio::time::timeout(FIRST_WORD, first_word(&mut held)).await;
        let said = said.unwrap_or_else(|_| Err("it says nothing".to_owned()));
        let image = plan.settings.image.clone();
        let shell = said.map_err(|error| DockerError::NoShell { image, error })?;
        let mut container = Container {
            engine: engine.clone(),
            id: id.to_owned(),
            shell,
            user: plan.user(),
            keepers: BTreeSet::new(),
            _held: Mutex::new(held),
        };
        container.keepers = container.processes().await?;
        Ok(container)
    }

    /// The shell commands are run by: the image's `bash`, else its `sh`.
    pub fn shell(&self) -> &str {
        &self.shell
    }

    /// Orders a command as the caller: a script for the shell and what it is called with. Gives the number the engine
    /// has for it.
    pub async fn order(
        &self,
        command: &[&str],
        directory: Option<&str>,
        environment: Vec<String>,
    ) -> Result<String, DockerError> {
        let order = ExecConfig {
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            env: Some(environment),
            cmd: Some(
                [&[self.shell.as_str(), "-c"], command].concat().into_iter().map(str::to_owned).collect(),
            ),
            user: Some(self.user.clone()),
            working_dir: directory.map(str::to_owned),
            ..ExecConfig::default()
        };
        Ok(self
            .engine
            .client
            .create_exec(&self.id, order)
            .await
            .map_err(|error| self.failure(STARTING, &error))?
            .id)
    }

    /// Starts an ordered command; gives its output.
    pub async fn begin(&self, order: &str) -> Result<Output, DockerError> {
        let options =
            bollard::exec::StartExecOptions { output_capacity: Some(64 * 1024), ..Default::default() };
        match self.engine.client.start_exec(order, Some(options)).await {
            Ok(StartExecResults::Attached { output, .. }) => Ok(output),
            Ok(StartExecResults::Detached) => Err(DockerError::Failed {
                doing: "starting a command",
                error: "its output was not given".to_owned(),
            }),
            Err(error) => Err(self.failure(STARTING, &error)),
        }
    }

    /// How an ordered command stands: `None` while it runs, then its exit code.
    pub async fn ended(&self, order: &str) -> Result<Option<i64>, DockerError> {
        let looked = self.engine.client.inspect_exec(order).await;
        let looked: ExecInspectResponse = looked.map_err(|error| self.failure(RUNNING, &error))?;
        // An engine may say `Running: false` before it knows the code.
        Ok(looked.exit_code.filter(|_| looked.running != Some(true)))
    }

    /// Asks everything but the keeper to end.
    pub async fn ask_to_end(&self) {
        // Whoever does not end is killed next; so an order that fails changes nothing.
        let _ = tokio::time::timeout(SWEEP, self.kill("TERM")).await;
    }

    /// Kills everything but the keeper. Only when this gives `Ok` is nothing left.
    pub async fn sweep(&self) -> Result<(), DockerError> {
        for round in 0..SWEEPS {
            if self.within(ANSWER, self.processes()).await?.is_subset(&self.keepers) {
                return Ok(());
            }
            if round % 4 == 0 {
                let killed = tokio::time::timeout(SWEEP, self.kill("KILL")).await;
                killed.unwrap_or_else(|_| Err(self.stuck()))?;
            } else {
                tokio::time::sleep(BURIAL).await;
            }
        }
        Err(self.stuck())
    }

    /// What the engine answers in time; else it has stopped answering.
    pub(super) async fn within<T>(
        &self,
        limit: Duration,
        answer: impl Future<Output = Result<T, DockerError>>,
    ) -> Result<T, DockerError> {
        let answered = tokio::time::timeout(limit, answer).await;
        answered.unwrap_or_else(|_| Err(self.engine.failure(STARTING, &EngineError::RequestTimeoutError)))
    }

    /// One signal to every process of the caller's. The kernel sends it to all at once, so nobody can fork away.
    async fn kill(&self, signal: &str) -> Result<(), DockerError> {
        self.ask(&[&format!("kill -{signal} -1")]).await.map(drop)
    }

    fn stuck(&self) -> DockerError {
        DockerError::Failed {
            doing: "ending what a command left running",
            error: "it does not end; the container is given up".to_owned(),
        }
    }

    async fn processes(&self) -> Result<BTreeSet<String>, DockerError> {
        // Podman's own words for columns; without them it looks for a `ps` in the image, and says nothing if there is
        // none that it understands.
        let podman = self.engine.traits.podman.then(|| TopOptionsBuilder::new().ps_args("pid").build());
        let top = self.engine.client.top_processes(&self.id, podman).await;
        let top = top.map_err(|error| self.failure(RUNNING, &error))?;
        let titles = top.titles.unwrap_or_default();
        let column = titles.iter().position(|title| title == "PID").unwrap_or(1);
        let rows = top.processes.unwrap_or_default();
        Ok(rows
            .into_iter()
            .filter_map(|mut row| (column < row.len()).then(|| row.swap_remove(column)))
            .collect())
    }

    /// What a short script of ours prints, run as the caller.
    pub async fn ask(&self, script: &[&str]) -> Result<String, DockerError> {
        let order = self.order(script, None, Vec::new()).await?;
        let mut output = self.begin(&order).await?;
        let mut said = Vec::new();
        while let Some(Ok(piece)) = output.next().await {
            said.extend_from_slice(&piece.into_bytes());
        }
        Ok(String::from_utf8_lossy(&said).into_owned())
    }

    /// Ends it and waits until it is gone.
    pub async fn remove(self) {
        remove(&self.engine, &self.id).await;
    }

    fn failure(&self, doing: &'static str, error: &EngineError) -> DockerError {
        match trouble(error) {
            // Of a command whose container was stopped Podman answers nothing at all.
            Trouble::Missing | Trouble::Conflict | Trouble::Nonsense => {
                DockerError::Gone { doing, error: words(error) }
            }
            // Docker says so with a status of its own when a container has just stopped, Podman when it is gone.
            Trouble::Other
                if ["is not running", "no such container"].iter().any(|says| words(error).contains(says)) =>
            {
                DockerError::Gone { doing, error: words(error) }
            }
            _ => self.engine.failure(doing, error),
        }
    }
}

/// What a command prints, as the engine hands it over.
pub type Output = std::pin::Pin<Box<dyn futures_util::Stream<Item = Result<LogOutput, EngineError>> + Send>>;

/// Takes a container away by force. One that is gone already is what was wanted.
pub(super) async fn remove(engine: &Engine, id: &str) {
    let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
    // Where the engine does not answer, the container ends with its standard input once it does again.
    let _ = tokio::time::timeout(ANSWER, engine.client.remove_container(id, Some(options))).await;
}

/// The line the keeper begins with: the shell there is. What it says instead is the error.
async fn first_word(held: &mut AttachContainerResults) -> Result<String, String> {
    let mut said = Vec::new();
    while let Some(piece) = held.output.next().await {
        let piece = piece.map_err(|error| words(&error))?;
        said.extend_from_slice(&piece.into_bytes());
        if let Some(end) = said.iter().position(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(&said[..end]).trim().to_owned();
            let is_shell = line == "sh" || line.ends_with("/bash");
            return if is_shell { Ok(line) } else { Err(line) };
        }
    }
    let said = String::from_utf8_lossy(&said).trim().to_owned();
    Err(if said.is_empty() { "it ended at once".to_owned() } else { said })
}

/// Why a container was not made or started, by what the engine says of it.
fn not_made(engine: &Engine, plan: &ContainerPlan, error: &EngineError) -> DockerError {
    let image = plan.settings.image.clone();
    let error_words = words(error);
    let says = |part: &str| error_words.to_lowercase().contains(part);
    match trouble(error) {
        _ if let Some(path) = unfound(&error_words) => {
            DockerError::Unseen { address: engine.address().to_owned(), path }
        }
        Trouble::Missing if says("image") => DockerError::NoImage { image },
        _ if says("executable file not found")
            || says("exec format error")
            || says("no such file or directory: unknown") =>
        {
            DockerError::NoShell { image, error: error_words }
        }
        Trouble::Invalid | Trouble::Missing => {
            let keys = [("cpus", "cpus"), ("network", "network"), ("memory", "memory"), ("mounts", "mount")];
            let key = keys.into_iter().find(|(_, part)| says(part)).map(|(key, _)| format!("`{key}`: "));
            DockerError::BadSettings(key.unwrap_or_default() + &error_words)
        }
        _ => engine.failure("starting a container", error),
    }
}

/// The folder that the engine does not find although it is there for us.
fn unfound(error: &str) -> Option<String> {
    let (_, path) = error.split_once("bind source path does not exist: ")?;
    Path::new(path).exists().then(|| path.to_owned())
}

fn last(text: &str, count: usize) -> &str {
    let start = text.char_indices().rev().nth(count.saturating_sub(1)).map_or(0, |(at, _)| at);
    &text[start..]
}
