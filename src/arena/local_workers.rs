//! The arena's own workers: a handler for every kind of work, each attempt in a task of its own.

mod background;
mod cache;

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use futures_util::FutureExt;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::ports::{EndPart, Live, RunContext, Sandbox, Sink, ToolEnd, Workers};
use crate::protocol::effect::{Failure, MentionContext, MentionOrder, ModelContext, ToolCall};
use crate::protocol::event::{
    EffectFailed, ErrorKind, FailStatus, ModelFailed, PrepareResult, ResultPart, TimerFired, ToolPrepared,
    ToolResolved,
};
use crate::protocol::message::{ImagePart, Pictures};
use crate::protocol::{CallId, Effect, Outcome, OutcomeBody, Work};
use crate::toolvault::picture::{self, Picture};
use crate::toolvault::{Plans, mention};

use super::ArenaPorts;
use super::provider_pool::{ProviderPool, provider_of};
use super::redact::Redactor;
use background::Jobs;

/// Starts a task for each attempt and ends it when it is told to.
pub(super) struct LocalWorkers {
    handlers: Arc<Handlers>,
    running: Running,
    tracker: TaskTracker,
}

type Running = Arc<Mutex<BTreeMap<(CallId, u32), (CancellationToken, AbortHandle)>>>;

fn locked(running: &Running) -> MutexGuard<'_, BTreeMap<(CallId, u32), (CancellationToken, AbortHandle)>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LocalWorkers {
    pub fn new(
        ports: ArenaPorts,
        providers: Arc<ProviderPool>,
        redactor: Arc<Redactor>,
        tracker: TaskTracker,
    ) -> Self {
        let (plans, jobs) = (Plans::default(), Jobs::default());
        let handlers = Arc::new(Handlers { ports, redactor, providers, plans, jobs });
        LocalWorkers { handlers, running: Running::default(), tracker }
    }
}

impl Workers for LocalWorkers {
    fn start(&self, work: Work, sink: Arc<dyn Sink>) {
        let (call, attempt) = (work.call, work.attempt);
        let (handlers, running, token) =
            (Arc::clone(&self.handlers), Arc::clone(&self.running), CancellationToken::new());
        let cancel = token.clone();
        // Held until the task is in it, which may be over at once.
        let mut begun = locked(&self.running);
        let task = self.tracker.spawn(async move {
            let order = work.effect.order();
            let done = AssertUnwindSafe(handlers.carry_out((call, attempt), work.effect, &*sink, &cancel));
            let body = done.catch_unwind().await.unwrap_or_else(|panic| {
                let words = format!("a bug in agon or in what it runs: {}", words_of(&*panic));
                order.failed(Failure::Broken, words)
            });
            locked(&running).remove(&(call, attempt));
            sink.end(Outcome { call, attempt, body });
        });
        begun.insert((call, attempt), (token, task.abort_handle()));
    }

    fn cancel(&self, call: CallId, attempt: u32) {
        let mut running = locked(&self.running);
        match running.get(&(call, attempt)) {
            Some((token, task)) if token.is_cancelled() => {
                task.abort();
                running.remove(&(call, attempt));
            }
            Some((token, _)) => token.cancel(),
            None => {}
        }
    }
}

fn words_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without words".to_owned())
}

/// What the handlers share.
struct Handlers {
    ports: ArenaPorts,
    redactor: Arc<Redactor>,
    providers: Arc<ProviderPool>,
    /// What was prepared in this process and waits for its approval.
    plans: Plans,
    /// What runs in the background.
    jobs: Jobs,
}

impl Handlers {
    /// The handler of each kind of work.
    async fn carry_out(
        &self,
        (call, attempt): (CallId, u32),
        effect: Effect,
        live: &dyn Live,
        cancel: &CancellationToken,
    ) -> OutcomeBody {
        let workspace = &self.ports.workspace;
        match effect {
            Effect::Model { context, .. } => self.ask_model(context, live, cancel).await,
            Effect::Prepare { context, .. } => self.prepare(&context).await,
            Effect::Tool { order, context } => self.run_tool(&context, &order.digest, live, cancel).await,
            Effect::Gate { order, .. } => {
                failed(FailStatus::Failed, format!("nothing carries out the gate `{}`", order.gate))
            }
            Effect::Background { order, .. } => {
                let place = self.place(order.place.as_deref());
                OutcomeBody::BackgroundEnded(self.jobs.keep((call, order), place, live, cancel).await)
            }
            Effect::Ask { .. } | Effect::Question { .. } => {
                failed(FailStatus::Failed, "only people answer it".to_owned())
            }
            Effect::Timer { order, .. } => self.wait(order.ms, cancel).await,
            Effect::Check { order, context } => OutcomeBody::CheckRan(
                self.ports.checks.run(&order.command, context.timeout_ms, live, cancel).await,
            ),
            Effect::Mention { order, context } => self.read_mention(order, &context, cancel).await,
            Effect::Tools { order, .. } => tokio::select! {
                listed = self.ports.vault.list(order) => or_failed(listed.map(OutcomeBody::ToolsListed)),
                () = cancel.cancelled() => failed(FailStatus::Cancelled, "listing was cancelled".to_owned()),
            },
            Effect::Fingerprint { .. } => {
                or_failed(workspace.fingerprint().await.map(OutcomeBody::WorkspaceFingerprinted))
            }
            Effect::Checkpoint { .. } => {
                or_failed(workspace.checkpoint().await.map(OutcomeBody::WorkspaceCheckpointed))
            }
            Effect::Diff { order, .. } => or_failed(workspace.diff(&order).await.map(OutcomeBody::DiffTaken)),
            Effect::CacheGet { order, .. } => self.cache_get(order.key).await,
            Effect::CachePut { order, context } => self.cache_put(order, context).await,
            Effect::Patch { order, .. } => self.patch(&order.key, &order.digest, attempt).await,
        }
    }

    async fn ask_model(
        &self,
        call: ModelContext,
        live: &dyn Live,
        cancel: &CancellationToken,
    ) -> OutcomeBody {
        let ModelContext { mut request, takes_images, .. } = call;
        if takes_images {
            let log = Arc::clone(&self.ports.log);
            request.pictures = Pictures::read_with(move |sha256| log.blob(sha256));
        }
        let name = provider_of(&request.model);
        let Some(pooled) = self.providers.get(name) else {
            let message = format!("no provider `{name}` is configured for model `{}`", request.model);
            return OutcomeBody::ModelFailed(ModelFailed::new(ErrorKind::BadRequest, message));
        };
        let answered = pooled.provider.call(&request, live, cancel).await;
        answered.map_or_else(OutcomeBody::ModelFailed, OutcomeBody::ModelAnswered)
    }

    /// Where a call runs. A role whose place is not there works nowhere else instead.
    fn place(&self, role: Option<&str>) -> Result<Arc<dyn Sandbox>, String> {
        match role {
            None => Ok(Arc::clone(&self.ports.sandbox)),
            Some(role) => self
                .ports
                .places
                .get(role)
                .ok_or_else(|| format!("the place of the role `{role}` is not there")),
        }
    }

    async fn prepare(&self, call: &ToolCall) -> OutcomeBody {
        let prepared = match self.place(call.place.as_deref()) {
            Ok(place) => self.ports.vault.prepare(call, &*place, &self.plans).await,
            Err(words) => ToolPrepared { tool_use: call.tool_use, result: PrepareResult::Unfit(words) },
        };
        OutcomeBody::ToolPrepared(prepared)
    }

    async fn run_tool(
        &self,
        call: &ToolCall,
        digest: &str,
        live: &dyn Live,
        cancel: &CancellationToken,
    ) -> OutcomeBody {
        let started = Instant::now();
        let end = match self.place(call.place.as_deref()) {
            Ok(place) => {
                let (hosts, background) = (&*call.hosts, &self.jobs);
                let at = RunContext { sandbox: &*place, hosts, live, cancel, background };
                self.ports.vault.run(call, digest, &self.plans, at).await
            }
            Err(words) => ToolEnd::failed(words),
        };
        let ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let ToolEnd { status, mut content, exit, seen, parts, notes } = end;
        let parts = self.kept(parts, &mut content).await;
        let tool_use = call.tool_use;
        OutcomeBody::ToolResolved(ToolResolved {
            tool_use,
            status,
            content,
            exit,
            ms,
            seen,
            parts,
            blob: None,
            notes,
            by: None,
        })
    }

    /// The parts by reference; the bytes of pictures are blobs. What is not kept is said in the text.
    async fn kept(&self, parts: Vec<EndPart>, content: &mut String) -> Vec<ResultPart> {
        let mut kept = Vec::new();
        for part in parts {
            match part {
                EndPart::Link(link) => kept.push(ResultPart::Link(link)),
                EndPart::Image { data, words } => match self.kept_picture(data, words.clone()).await {
                    Ok(image) => kept.push(ResultPart::Image(image)),
                    Err(why) => content.push_str(&format!("\n[picture left out ({why}): {words}]")),
                },
            }
        }
        kept
    }

    async fn kept_picture(&self, data: Vec<u8>, mut words: String) -> Result<ImagePart, String> {
        let fit = tokio::task::spawn_blocking(move || picture::fit(data)).await;
        let Picture { data, mime, size: (width, height), was } = fit.map_err(|error| error.to_string())??;
        if let Some((width, height)) = was {
            words = format!("{words}, scaled down from {width}×{height}");
        }
        let bytes = data.len() as u64;
        let sha256 = self.ports.log.put_blob(data).await.map_err(|error| error.to_string())?;
        Ok(ImagePart { sha256, mime: mime.to_owned(), bytes, width, height, words })
    }

    async fn read_mention(
        &self,
        order: MentionOrder,
        context: &MentionContext,
        cancel: &CancellationToken,
    ) -> OutcomeBody {
        match mention::read(order.place, context, &*self.ports.sandbox, cancel).await {
            Ok(_) if cancel.is_cancelled() => {
                failed(FailStatus::Cancelled, "reading was cancelled".to_owned())
            }
            Ok((mut read, parts)) => {
                read.parts = self.kept(parts, &mut read.text).await;
                OutcomeBody::MentionExpanded(read)
            }
            Err(words) => failed(FailStatus::Failed, words),
        }
    }

    async fn wait(&self, ms: u64, cancel: &CancellationToken) -> OutcomeBody {
        tokio::select! {
            () = self.ports.clock.sleep(ms) => OutcomeBody::TimerFired(TimerFired { active_ms: 0 }),
            () = cancel.cancelled() => failed(FailStatus::Cancelled, "the timer was cancelled".to_owned()),
        }
    }
}

fn failed(status: FailStatus, error: String) -> OutcomeBody {
    OutcomeBody::EffectFailed(EffectFailed { status, error })
}

fn or_failed(done: Result<OutcomeBody, String>) -> OutcomeBody {
    done.unwrap_or_else(|error| failed(FailStatus::Failed, error))
}
