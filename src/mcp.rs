//! Servers of the Model Context Protocol as sources of tools: each is started, watched, talked with and started again.

mod definition;
mod pins;
mod process;
mod result;
mod talk;
mod tool;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use rmcp::RoleClient;
use rmcp::transport::IntoTransport;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::ports::{Sandbox, Tool, ToolSource};
use crate::protocol::expand::digest_of;
pub use definition::{Definition, Standing};
use pins::Pins;
use talk::Talk;
use tool::ServerTool;

/// Starts in a row that fail before a server is left alone, and the waits between two of them, which double.
const MOST_FAILURES: u32 = 6;
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Makes the sandbox of a server when it is started.
pub type OpenSandbox = Box<dyn Fn() -> BoxFuture<'static, Result<Arc<dyn Sandbox>, String>> + Send + Sync>;

/// How a server is started.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Its name in the configuration.
    pub name: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Variables it gets besides those of its sandbox.
    pub environment: BTreeMap<String, String>,
    /// Hosts it can reach.
    pub hosts: Vec<String>,
    /// Milliseconds it may take until it has listed its tools.
    pub start_ms: u64,
    /// Whether its sandbox shows the workspace writable.
    pub may_write: bool,
    /// The file of the definitions that were accepted.
    pub pins: PathBuf,
}

impl Launch {
    /// What the accepted definitions are bound to: another command, or other variables, is another server.
    fn identity(&self) -> String {
        digest_of(&(&self.command, self.environment.keys().collect::<Vec<_>>()))
    }
}

/// How a server is.
#[derive(Clone)]
pub enum State {
    /// It was started and has not listed its tools yet.
    Starting,
    /// It has listed its tools.
    Ready(Arc<Talk>),
    /// It cannot be reached: why.
    Failed(String),
}

/// One server. Its tools are those it lists, or those that were accepted before, while it is starting.
pub struct Server(Arc<Shared>);

/// What a server shares with its tools.
pub(crate) struct Shared {
    launch: Launch,
    open: OpenSandbox,
    state: watch::Sender<State>,
    /// Whether it was ready since it was last started.
    was_ready: AtomicBool,
    pins: Mutex<Pins>,
}

impl Server {
    /// A server that is not started yet.
    pub fn new(launch: Launch, open: OpenSandbox) -> Self {
        let pins = Mutex::new(Pins::read(&launch.pins, launch.identity()));
        let state = watch::Sender::new(State::Starting);
        Server(Arc::new(Shared { launch, open, state, was_ready: AtomicBool::new(false), pins }))
    }

    /// Waits until it has listed its tools, each with whether it is as it was accepted.
    pub async fn listed(&self) -> Result<Vec<(Definition, Standing)>, String> {
        let talk = self.0.ready(&CancellationToken::new()).await?;
        let pins = self.0.pins();
        Ok(talk.tools().iter().map(|tool| (tool.clone(), pins.standing(tool))).collect())
    }

    /// Accepts its tools as they are now.
    pub async fn accept(&self) -> Result<(), String> {
        let talk = self.0.ready(&CancellationToken::new()).await?;
        self.0.pins().accept_all(talk.tools().iter().cloned())
    }
}

impl Shared {
    fn pins(&self) -> MutexGuard<'_, Pins> {
        self.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it is ready, or says why it is not.
    async fn ready(&self, cancel: &CancellationToken) -> Result<Arc<Talk>, String> {
        let mut state = self.state.subscribe();
        let wait = state.wait_for(|state| !matches!(state, State::Starting));
        tokio::select! {
            known = wait => match known.as_deref() {
                Ok(State::Ready(talk)) => Ok(Arc::clone(talk)),
                Ok(State::Failed(why)) => Err(why.clone()),
                _ => Err("it was not started".to_owned()),
            },
            () = cancel.cancelled() => Err("cancelled".to_owned()),
        }
    }

    /// A tool as the server lists it now; none where it is not ready or has no such tool.
    fn now(&self, name: &str) -> Option<Definition> {
        match &*self.state.borrow() {
            State::Ready(talk) => talk.tools().iter().find(|tool| tool.name == name).cloned(),
            _ => None,
        }
    }

    /// Talks with a server until it ends; gives why.
    async fn talk<T, E, A>(&self, transport: T) -> String
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let listed = |talk: Arc<Talk>| {
            self.pins().first_seen(talk.tools())?;
            self.was_ready.store(true, Ordering::Relaxed);
            self.state.send_replace(State::Ready(talk));
            Ok(())
        };
        let why = talk::run(transport, Duration::from_millis(self.launch.start_ms), listed).await;
        self.lose();
        why
    }

    /// From here on calls wait for the next start; true for a server that was ready.
    fn lose(&self) -> bool {
        self.state.send_if_modified(|state| {
            let was_ready = matches!(state, State::Ready(_));
            if was_ready {
                *state = State::Starting;
            }
            was_ready
        })
    }

    /// Starts it again and again, until `stop` fires or it fails too often.
    async fn supervise(&self, sandbox: &dyn Sandbox, stop: &CancellationToken) {
        let (mut failures, mut wait) = (0, Duration::ZERO);
        loop {
            let begun = Instant::now();
            let why = self.live(sandbox, stop).await;
            self.lose();
            if stop.is_cancelled() {
                return;
            }
            // One that was ready is waited for by its callers; the first of its ends is made up for at once.
            let was_ready = self.was_ready.swap(false, Ordering::Relaxed);
            if was_ready && begun.elapsed() > LONGEST_WAIT {
                (failures, wait) = (0, Duration::ZERO);
            }
            failures += 1;
            if failures == MOST_FAILURES {
                self.state.send_replace(State::Failed(format!("{why}; agon no longer starts it")));
                return;
            }
            if !was_ready {
                self.state.send_replace(State::Failed(why));
                wait = wait.max(FIRST_WAIT);
            }
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = stop.cancelled() => return,
            }
            wait = (wait * 2).clamp(FIRST_WAIT, LONGEST_WAIT);
        }
    }
}

#[async_trait]
impl ToolSource for Server {
    async fn tools(&self) -> Result<Vec<Arc<dyn Tool>>, String> {
        let shared = &self.0;
        let accepted = match (shared.pins().known(), &*shared.state.borrow()) {
            (Some(known), State::Starting) => Some(known),
            _ => None,
        };
        let definitions = match accepted {
            Some(known) => known,
            None => shared.ready(&CancellationToken::new()).await?.tools().to_vec(),
        };
        let tool = |one: Definition| Arc::new(ServerTool::new(Arc::clone(shared), one)) as Arc<dyn Tool>;
        Ok(definitions.into_iter().map(tool).collect())
    }

    async fn attend(&self, stop: &CancellationToken) {
        let sandbox = tokio::select! {
            opened = (self.0.open)() => opened,
            () = stop.cancelled() => return,
        };
        match sandbox {
            Ok(sandbox) => {
                self.0.supervise(&*sandbox, stop).await;
                stop.cancelled().await;
                sandbox.close().await;
            }
            Err(why) => drop(self.0.state.send_replace(State::Failed(why))),
        }
    }
}
