//! Carries effects out, each in a task of its own, and sends exactly one outcome back for each.

mod cache;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::ports::{Sandbox, ToolEnd};
use crate::protocol::effect::{Failure, MentionedPlace, ToolCall};
use crate::protocol::event::{
    Blob, CheckRan, EffectFailed, ErrorKind, FailStatus, MentionExpanded, ModelFailed, ModelReply,
    PrepareResult, TimerFired, ToolPrepared, ToolResolved, ToolStatus,
};
use crate::protocol::message::Request;
use crate::protocol::text::MOST_SHOWN;
use crate::protocol::text::cut_middle;
use crate::protocol::{CallId, Effect, Order, Outcome, OutcomeBody};
use crate::toolvault::mention;

use super::ArenaPorts;
use super::driver::Message;
use super::live::LiveSink;
use super::provider_pool::ProviderPool;
use super::redact::Redactor;

/// How long a cancelled call may take to say how it ended.
const GRACE: Duration = Duration::from_secs(5);

/// Starts, cancels and awaits effects.
pub(super) struct Executor {
    shared: Arc<Shared>,
    /// Tokens of calls under way.
    running: BTreeMap<CallId, CancellationToken>,
    /// Parent of every call's token.
    all: CancellationToken,
    /// Every task of an effect; the driver's own task is not among them.
    tracker: TaskTracker,
    /// Where outcomes go: the driver's inbox.
    inbox: mpsc::Sender<Message>,
}

struct Shared {
    ports: ArenaPorts,
    redactor: Arc<Redactor>,
    providers: Arc<ProviderPool>,
}

impl Executor {
    /// `stop` is the session's hard stop: every call's token is a child of it.
    pub fn new(
        ports: ArenaPorts,
        providers: Arc<ProviderPool>,
        redactor: Arc<Redactor>,
        inbox: mpsc::Sender<Message>,
        stop: &CancellationToken,
    ) -> Self {
        let shared = Arc::new(Shared { ports, redactor, providers });
        let (all, tracker) = (stop.child_token(), TaskTracker::new());
        Executor { shared, running: BTreeMap::new(), all, tracker, inbox }
    }

    pub fn ports(&self) -> &ArenaPorts {
        &self.shared.ports
    }

    pub fn now(&self) -> u64 {
        self.shared.ports.clock.now()
    }

    /// Has kept what a model refuses, so that the next session knows it from its first call on.
    pub fn learn(&self, model: &str, names: &[String]) {
        let Some(learnings) = self.shared.ports.learnings.clone() else { return };
        let (model, names) = (model.to_owned(), names.to_vec());
        self.tracker.spawn_blocking(move || learnings.refuses(&model, &names));
    }

    /// Starts one attempt of a call. An ask has no executor: only a person's command answers it.
    pub fn start(&mut self, call: CallId, attempt: u32, effect: Effect, cancelled: bool) {
        if matches!(effect, Effect::Ask { .. }) {
            return;
        }
        let token = self.all.child_token();
        if cancelled {
            token.cancel();
        }
        self.running.insert(call, token.clone());
        let (shared, inbox, tracker) = (Arc::clone(&self.shared), self.inbox.clone(), self.tracker.clone());
        self.tracker.spawn(async move {
            let (order, deadline) = (effect.order(), Duration::from_millis(effect.deadline_ms()));
            // Waiting for a place is no part of the call's own time.
            let body = match shared.admit(&effect, &token).await {
                Err(body) => body,
                Ok(place) => {
                    let (shared, waited_ms) = (Arc::clone(&shared), place.waited_ms);
                    let work = {
                        let token = token.clone();
                        async move { shared.carry_out(call, attempt, effect, waited_ms, token).await }
                    };
                    supervise(tracker.spawn(work), &token, deadline, &order).await
                }
            };
            // A driver that is gone needs no outcome: a resume settles the call.
            let _ = inbox.send(Message::Outcome(Outcome { call, attempt, body })).await;
        });
    }

    /// Answers for a call whose effect cannot be made, which only a log made by other hands can bring about.
    pub fn give_up(&self, call: CallId, attempt: u32, order: &Order) {
        let inbox = self.inbox.clone();
        let body = order.failed(Failure::Unread, "what was ordered cannot be read from the log".to_owned());
        self.tracker.spawn(async move {
            let _ = inbox.send(Message::Outcome(Outcome { call, attempt, body })).await;
        });
    }

    /// Tells a call to stop. Its one outcome still comes.
    pub fn cancel(&mut self, call: CallId) {
        if let Some(token) = self.running.remove(&call) {
            token.cancel();
        }
    }

    /// Tells everything under way to stop.
    pub fn cancel_all(&mut self) {
        std::mem::take(&mut self.running).values().for_each(CancellationToken::cancel);
    }

    /// Forgets a call whose outcome has arrived.
    pub fn forget(&mut self, call: CallId) {
        self.running.remove(&call);
    }

    /// Lets other sessions compute what this one was to compute: its turn is over.
    pub fn let_go(&self) {
        if let Some(cache) = &self.shared.ports.cache {
            cache.let_go();
        }
    }

    /// Stops everything that is still under way and waits until it has let go of the ports.
    pub async fn stop_all(self) {
        self.all.cancel();
        self.tracker.close();
        // Nobody takes outcomes any more; the inbox may be full of them.
        drop(self.inbox);
        if tokio::time::timeout(GRACE * 2, self.tracker.wait()).await.is_err() {
            // Blocking work that cannot be cancelled (a huge directory walk) is left to the process's end.
        }
    }
}

/// Waits for the work; past the deadline, or past the grace after a cancel, gives the outcome itself.
async fn supervise(
    mut work: tokio::task::JoinHandle<OutcomeBody>,
    token: &CancellationToken,
    deadline: Duration,
    order: &Order,
) -> OutcomeBody {
    let timed_out = tokio::select! {
        done = &mut work => return unless_panicked(order, done),
        () = token.cancelled() => false,
        () = tokio::time::sleep(deadline) => true,
    };
    token.cancel();
    match tokio::time::timeout(GRACE, &mut work).await {
        Ok(done) if !timed_out => unless_panicked(order, done),
        // What really happened within the grace counts, unless the deadline made it stop.
        Ok(Ok(body)) if !is_cancelled(&body) => body,
        Ok(Err(panic)) => unless_panicked(order, Err(panic)),
        Ok(Ok(body)) => with_use_of(body, out_of_time(order, deadline)),
        Err(_) => {
            work.abort();
            if timed_out {
                out_of_time(order, deadline)
            } else {
                order.failed(Failure::Unstoppable, "it did not stop within 5 s".to_owned())
            }
        }
    }
}

/// A stream that was cut off at the deadline was billed and heard as far as it went.
fn with_use_of(late: OutcomeBody, body: OutcomeBody) -> OutcomeBody {
    match (late, body) {
        (OutcomeBody::ModelFailed(late), OutcomeBody::ModelFailed(failed)) => {
            OutcomeBody::ModelFailed(ModelFailed { usage: late.usage, said: late.said, ..failed })
        }
        (_, body) => body,
    }
}

fn is_cancelled(body: &OutcomeBody) -> bool {
    match body {
        OutcomeBody::ModelFailed(failed) => failed.kind == ErrorKind::Cancelled,
        OutcomeBody::ToolResolved(end) => end.status == ToolStatus::Cancelled,
        OutcomeBody::EffectFailed(failed) => failed.status == FailStatus::Cancelled,
        _ => false,
    }
}

/// A place among the calls a provider takes at once, held until the call has ended.
struct CallPermit {
    _permit: Option<OwnedSemaphorePermit>,
    waited_ms: u64,
}

impl Shared {
    /// Waits until the provider of a model call takes one more; other effects go on at once.
    async fn admit(&self, effect: &Effect, token: &CancellationToken) -> Result<CallPermit, OutcomeBody> {
        let gate = match effect {
            Effect::Model { order, .. } => self.providers.get(provider_of(&order.model)),
            _ => None,
        };
        let Some((_, gate)) = gate else { return Ok(CallPermit { _permit: None, waited_ms: 0 }) };
        let asked = Instant::now();
        tokio::select! {
            permit = gate.acquire_owned() => {
                let waited_ms = u64::try_from(asked.elapsed().as_millis()).unwrap_or(u64::MAX);
                Ok(CallPermit { _permit: permit.ok(), waited_ms })
            }
            () = token.cancelled() => {
                Err(model_failed(ErrorKind::Cancelled, "cancelled before it was sent".to_owned()))
            }
        }
    }

    async fn carry_out(
        &self,
        call: CallId,
        attempt: u32,
        effect: Effect,
        waited_ms: u64,
        token: CancellationToken,
    ) -> OutcomeBody {
        let live = LiveSink::new(call, attempt, Arc::clone(&self.ports.bus), Arc::clone(&self.redactor));
        let body = match effect {
            Effect::Model { context, .. } => self.ask_model(&context.request, waited_ms, &live, &token).await,
            Effect::Prepare { context, .. } => self.prepare(&context).await,
            Effect::Tool { order, context } => self.run_tool(&context, &order.digest, &live, &token).await,
            Effect::Check { order, context } => OutcomeBody::CheckRan(
                self.checked(self.ports.checks.run(&order.command, context.timeout_ms, &live, &token).await),
            ),
            Effect::Timer { order, .. } => self.wait(order.ms, &token).await,
            Effect::Fingerprint { .. } => {
                or_failed(self.ports.workspace.fingerprint().await.map(OutcomeBody::WorkspaceFingerprinted))
            }
            Effect::Checkpoint { .. } => {
                or_failed(self.ports.workspace.checkpoint().await.map(OutcomeBody::WorkspaceCheckpointed))
            }
            Effect::Diff { order, .. } => or_failed(
                self.ports.workspace.diff(&order.from, &order.written).await.map(OutcomeBody::DiffTaken),
            ),
            Effect::Mention { order, context } => {
                self.read_mention(order.place, &context.denied, &token).await
            }
            Effect::Ask { .. } => failed(FailStatus::Failed, "an ask is answered by people only".to_owned()),
            Effect::CacheGet { order, .. } => self.cache_get(order.key, &live, &token).await,
            Effect::CachePut { order, context } => self.cache_put(order, context).await,
            Effect::Patch { order, .. } => self.patch(&order.key, &order.digest, attempt).await,
        };
        live.finish();
        match body {
            OutcomeBody::ModelFailed(failed) => {
                let (said, _) = cut_middle(&live.said(), MOST_SHOWN);
                OutcomeBody::ModelFailed(ModelFailed { said, ..failed })
            }
            body => body,
        }
    }

    async fn ask_model(
        &self,
        request: &Request,
        waited_ms: u64,
        live: &LiveSink,
        token: &CancellationToken,
    ) -> OutcomeBody {
        let name = provider_of(&request.model);
        let Some((provider, _)) = self.providers.get(name) else {
            let message = format!("no provider `{name}` is configured for model `{}`", request.model);
            return model_failed(ErrorKind::BadRequest, message);
        };
        match provider.call(request, live, token).await {
            Ok(reply) => OutcomeBody::ModelAnswered(ModelReply { waited_ms, ..reply }),
            Err(failed) => OutcomeBody::ModelFailed(ModelFailed { waited_ms, ..failed }),
        }
    }

    /// Where a call runs. A role whose place is not there works nowhere else instead.
    fn place(&self, call: &ToolCall) -> Result<Arc<dyn Sandbox>, String> {
        match &call.place {
            None => Ok(Arc::clone(&self.ports.sandbox)),
            Some(role) => self
                .ports
                .places
                .get(role)
                .ok_or_else(|| format!("the place of the role `{role}` is not there")),
        }
    }

    async fn prepare(&self, call: &ToolCall) -> OutcomeBody {
        let prepared = match self.place(call) {
            Ok(place) => self.ports.vault.prepare(call, &*place).await,
            Err(words) => ToolPrepared { tool_use: call.tool_use, result: PrepareResult::Unfit(words) },
        };
        OutcomeBody::ToolPrepared(prepared)
    }

    async fn run_tool(
        &self,
        call: &ToolCall,
        digest: &str,
        live: &LiveSink,
        token: &CancellationToken,
    ) -> OutcomeBody {
        let started = Instant::now();
        let end = match self.place(call) {
            Ok(place) => self.ports.vault.run(call, digest, &*place, live, token).await,
            Err(words) => ToolEnd::failed(words),
        };
        let ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        OutcomeBody::ToolResolved(self.recorded(call, end, ms).await)
    }

    /// What the log keeps of a tool's end: secrets replaced first, so that this cut splits none. (A tool that
    /// bounds its own lines or streams cuts before; a secret at such a cut may leave a part of itself.)
    async fn recorded(&self, call: &ToolCall, end: ToolEnd, ms: u64) -> ToolResolved {
        let whole = self.redactor.text(&end.content);
        let cap = usize::try_from(call.output_cap).unwrap_or(usize::MAX);
        let (mut content, was_cut) = cut_middle(&whole, cap);
        let mut blob = None;
        if was_cut {
            let bytes = whole.len() as u64;
            match self.ports.log.put_blob(whole.into_owned().into_bytes()).await {
                Ok(sha256) => blob = Some(Blob { sha256, bytes }),
                Err(error) => content.push_str(&format!("\n[the whole output could not be kept: {error}]")),
            }
        }
        let (status, exit, seen, notes) = (end.status, end.exit, end.seen, self.redactor.lines(end.notes));
        ToolResolved { tool_use: call.tool_use, status, content, exit, ms, seen, blob, notes, by: None }
    }

    async fn read_mention(
        &self,
        place: MentionedPlace,
        denied: &[String],
        token: &CancellationToken,
    ) -> OutcomeBody {
        match mention::read(place, denied, &*self.ports.sandbox, token).await {
            Ok(_) if token.is_cancelled() => {
                failed(FailStatus::Cancelled, "reading was cancelled".to_owned())
            }
            Ok(read) => {
                let (text, _) = cut_middle(&self.redactor.text(&read.text), MOST_SHOWN);
                OutcomeBody::MentionExpanded(MentionExpanded { text, ..read })
            }
            Err(why) => failed(FailStatus::Failed, why),
        }
    }

    fn checked(&self, ran: CheckRan) -> CheckRan {
        let whole = self.redactor.text(&ran.output);
        let (output, _) = cut_middle(&whole, MOST_SHOWN);
        CheckRan { output, notes: self.redactor.lines(ran.notes), ..ran }
    }

    async fn wait(&self, ms: u64, token: &CancellationToken) -> OutcomeBody {
        tokio::select! {
            () = self.ports.clock.sleep(ms) => OutcomeBody::TimerFired(TimerFired { active_ms: 0 }),
            () = token.cancelled() => failed(FailStatus::Cancelled, "the timer was cancelled".to_owned()),
        }
    }
}

fn failed(status: FailStatus, error: String) -> OutcomeBody {
    OutcomeBody::EffectFailed(EffectFailed { status, error })
}

fn or_failed(done: Result<OutcomeBody, String>) -> OutcomeBody {
    done.unwrap_or_else(|error| failed(FailStatus::Failed, error))
}

/// The provider's name: what stands before the first slash of `PROVIDER/MODEL`.
fn provider_of(model: &str) -> &str {
    model.split_once('/').map_or(model, |(provider, _)| provider)
}

fn model_failed(kind: ErrorKind, message: String) -> OutcomeBody {
    OutcomeBody::ModelFailed(ModelFailed::new(kind, message))
}

fn unless_panicked(order: &Order, done: Result<OutcomeBody, tokio::task::JoinError>) -> OutcomeBody {
    done.unwrap_or_else(|error| {
        order.failed(Failure::Broken, format!("a bug in agon or in what it runs: {error}"))
    })
}

fn out_of_time(order: &Order, after: Duration) -> OutcomeBody {
    order.failed(Failure::TimedOut, format!("no answer within {} s", after.as_secs()))
}
