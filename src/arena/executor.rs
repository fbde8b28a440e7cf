//! Has ordered work carried out: holds its deadline, its grace and its one outcome, which it makes fit for the log.

mod asks;
mod outcome;
mod sink;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::ports::{Answer, Asks, Sink, Workers};
use crate::protocol::effect::{CallKind, Failure, ModelOrder};
use crate::protocol::event::{ErrorKind, FailStatus, ModelFailed, ToolStatus};
use crate::protocol::text::MOST_SHOWN;
use crate::protocol::{CallId, Effect, EventRef, Order, Outcome, OutcomeBody, Work};

use super::driver::Message;
use super::live::LiveSink;
use super::local_workers::LocalWorkers;
use super::provider_pool::{Pooled, ProviderPool, provider_of};
use super::redact::Redactor;
use super::{ArenaPorts, Attendance};
use asks::{Awaited, CallAsks};
use sink::CallSink;

/// How long a cancelled call may take to say how it ended.
const GRACE: Duration = Duration::from_secs(5);

/// Starts, cancels and awaits calls.
pub(super) struct Executor {
    shared: Arc<Shared>,
    /// Attempts under way, each with its token and what it does.
    running: BTreeMap<CallId, (u32, CancellationToken, CallKind)>,
    /// What running calls ask for.
    awaited: Awaited,
    /// Parent of every call's token.
    all: CancellationToken,
    /// Every task of a call; the driver's own task is not among them.
    tracker: TaskTracker,
    /// Where outcomes go: the driver's inbox.
    inbox: mpsc::Sender<Message>,
}

struct Shared {
    ports: ArenaPorts,
    redactor: Arc<Redactor>,
    providers: Arc<ProviderPool>,
    /// The arena's own; kinds that are registered in the ports go elsewhere.
    local: Arc<dyn Workers>,
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
        let (all, tracker) = (stop.child_token(), TaskTracker::new());
        let local =
            LocalWorkers::new(ports.clone(), Arc::clone(&providers), Arc::clone(&redactor), tracker.clone());
        let shared = Arc::new(Shared { ports, redactor, providers, local: Arc::new(local) });
        Executor { shared, running: BTreeMap::new(), awaited: Awaited::default(), all, tracker, inbox }
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

    /// Has the sources of tools keep running what they need.
    pub fn attend_sources(&self) {
        for (_, source) in self.shared.ports.vault.sources() {
            let all = self.all.clone();
            self.tracker.spawn(async move { source.attend(&all).await });
        }
    }

    /// Starts one attempt of a call. An ask and a question have no worker: only a person's command answers them.
    pub fn start(&mut self, work: Work, cancelled: bool) {
        if matches!(work.effect, Effect::Ask { .. } | Effect::Question { .. }) {
            return;
        }
        let token = self.all.child_token();
        if cancelled {
            token.cancel();
        }
        self.running.insert(work.call, (work.attempt, token.clone(), work.effect.kind()));
        let (shared, inbox, all) = (Arc::clone(&self.shared), self.inbox.clone(), self.all.clone());
        self.tracker.spawn(async move {
            let mut call = Attempt::new(shared, &work, &inbox);
            let body = call.await_outcome(work, &token).await;
            call.provider().inspect(|(provider, model)| provider.heed(model, &body));
            call.send(body, &inbox).await;
            // Whatever is said after that is recorded as what it is: late.
            tokio::select! {
                late = call.late() => if let Some(late) = late { call.send(late, &inbox).await },
                () = all.cancelled() => {}
            }
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

    /// Keeps where the answer goes to what a running call asks for.
    pub fn asked(&mut self, asked: EventRef, call: CallId, answer: oneshot::Sender<Answer>) {
        if self.running.contains_key(&call) {
            self.awaited.add(asked, call, answer);
        }
    }

    /// Tells a running call what was decided on what it asked.
    pub fn settle(&mut self, asked: EventRef, answer: Answer) {
        self.awaited.settle(asked, answer);
    }

    /// Tells a call to stop. Its one outcome still comes.
    pub fn cancel(&mut self, call: CallId) {
        if let Some((_, token, _)) = self.running.remove(&call) {
            token.cancel();
        }
    }

    /// Tells everything under way to stop, except what goes on between turns.
    pub fn cancel_all(&mut self) {
        let goes = |(_, token, kind): &mut (u32, CancellationToken, CallKind)| {
            let goes = *kind != CallKind::Background;
            if goes {
                token.cancel();
            }
            goes
        };
        self.running.retain(|_, running| !goes(running));
    }

    /// Forgets an attempt whose outcome has arrived.
    pub fn forget(&mut self, call: CallId, attempt: u32) {
        if self.running.get(&call).is_some_and(|(running, ..)| *running == attempt) {
            self.running.remove(&call);
        }
        self.awaited.forget(call);
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

/// One attempt of a call under way.
struct Attempt {
    shared: Arc<Shared>,
    call: CallId,
    attempt: u32,
    order: Order,
    live: Arc<LiveSink>,
    /// What its worker says came of it.
    outcomes: mpsc::Receiver<Outcome>,
    /// What the worker gets, once.
    sink: Option<CallSink>,
    /// What it asks for while it runs, where a person can be asked.
    asks: Option<Arc<dyn Asks>>,
    /// Milliseconds it waited for a place among its provider's calls.
    waited_ms: u64,
    /// Bytes of its output that the model is shown.
    cap: usize,
}

impl Attempt {
    fn new(shared: Arc<Shared>, work: &Work, inbox: &mpsc::Sender<Message>) -> Self {
        let (call, attempt, order) = (work.call, work.attempt, work.effect.order());
        let cap = match &work.effect {
            Effect::Tool { context, .. } => context.output_cap as usize,
            Effect::Check { context, .. } => context.output_cap as usize,
            Effect::Mention { context, .. } => context.output_cap as usize,
            Effect::Diff { context, .. } => context.output_cap as usize,
            _ => MOST_SHOWN,
        };
        let live = LiveSink::new(call, attempt, Arc::clone(&shared.ports.bus), Arc::clone(&shared.redactor));
        let live = Arc::new(live);
        let asks: Option<Arc<dyn Asks>> = match &order {
            Order::Tool(order) if shared.ports.attended == Attendance::Attended => {
                Some(Arc::new(CallAsks::new(work, order.clone(), inbox.clone())))
            }
            _ => None,
        };
        let (sink, outcomes) = CallSink::new(order.clone(), Arc::clone(&live), asks.clone());
        Attempt { shared, call, attempt, order, live, outcomes, sink: Some(sink), asks, waited_ms: 0, cap }
    }

    /// Waits for the work; past the deadline, or past the grace after a cancel, gives the outcome itself.
    async fn await_outcome(&mut self, work: Work, token: &CancellationToken) -> OutcomeBody {
        // Waiting for a place is no part of the call's own time.
        let _permit = match self.admit(token).await {
            Ok(permit) => permit,
            Err(body) => return body,
        };
        let deadline = Duration::from_millis(work.effect.deadline_ms());
        let shared = Arc::clone(&self.shared);
        let workers = shared.ports.workers.get(&work.effect.kind()).unwrap_or(&shared.local);
        if let Some(sink) = self.sink.take() {
            let sink: Arc<dyn Sink> = Arc::new(sink);
            guarded(|| workers.start(work, sink));
        }
        let asks = self.asks.clone();
        let out_of_time = async {
            match asks {
                Some(asks) => asks.worked(deadline).await,
                None => tokio::time::sleep(deadline).await,
            }
        };
        let timed_out = tokio::select! {
            body = self.heard() => return body,
            () = token.cancelled() => false,
            () = out_of_time => true,
        };
        guarded(|| workers.cancel(self.call, self.attempt));
        match tokio::time::timeout(GRACE, self.heard()).await {
            // What really happened within the grace counts, unless the deadline made it stop.
            Ok(body) if !timed_out || !is_cancelled(&body) => body,
            Ok(late) => with_use_of(late, self.out_of_time(deadline)),
            Err(_) => {
                guarded(|| workers.cancel(self.call, self.attempt));
                match timed_out {
                    true => self.out_of_time(deadline),
                    false => self.order.failed(Failure::Unstoppable, "it did not stop within 5 s".to_owned()),
                }
            }
        }
    }

    /// The provider of a model call, and the model.
    fn provider(&self) -> Option<(Pooled, String)> {
        match &self.order {
            Order::Model(ModelOrder { model, .. }) => {
                self.shared.providers.get(provider_of(model)).map(|provider| (provider, model.clone()))
            }
            _ => None,
        }
    }

    /// Waits until the provider of a model call takes one more; other work begins at once.
    async fn admit(
        &mut self,
        token: &CancellationToken,
    ) -> Result<Option<OwnedSemaphorePermit>, OutcomeBody> {
        let Some((provider, model)) = self.provider() else { return Ok(None) };
        let asked = Instant::now();
        tokio::select! {
            permit = provider.admit(&model) => {
                self.waited_ms = u64::try_from(asked.elapsed().as_millis()).unwrap_or(u64::MAX);
                Ok(permit)
            }
            () = token.cancelled() => {
                let words = "cancelled before it was sent".to_owned();
                Err(OutcomeBody::ModelFailed(ModelFailed::new(ErrorKind::Cancelled, words)))
            }
        }
    }

    /// The outcome its worker gives; one that is none of this order's is the worker's failure.
    async fn heard(&mut self) -> OutcomeBody {
        let words = match self.outcomes.recv().await {
            Some(outcome) if self.is_mine(&outcome) => return outcome.body,
            Some(other) if self.order.fits(&other.body) => {
                format!("its worker answered for attempt {} of {}", other.attempt, other.call)
            }
            Some(_) => "its worker answered with what was not ordered".to_owned(),
            None => "its worker ended without an outcome".to_owned(),
        };
        self.order.failed(Failure::Broken, format!("a bug in agon or in what it runs: {words}"))
    }

    fn is_mine(&self, outcome: &Outcome) -> bool {
        (outcome.call, outcome.attempt) == (self.call, self.attempt) && self.order.fits(&outcome.body)
    }

    /// What its worker says once its outcome is known.
    async fn late(&mut self) -> Option<OutcomeBody> {
        self.sink = None;
        let late = self.outcomes.recv().await?;
        self.is_mine(&late).then_some(late.body)
    }

    async fn send(&self, body: OutcomeBody, inbox: &mpsc::Sender<Message>) {
        let (call, attempt, body) = (self.call, self.attempt, self.recorded(body).await);
        // A driver that is gone needs no outcome: a resume settles the call.
        let _ = inbox.send(Message::Outcome(Outcome { call, attempt, body })).await;
    }

    fn out_of_time(&self, after: Duration) -> OutcomeBody {
        self.order.failed(Failure::TimedOut, format!("no answer within {} s", after.as_secs()))
    }
}

/// A worker that panics ends nobody else's task; that its sink is gone says the rest.
fn guarded(act: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(act));
}

/// A stream that was cut off at the deadline was billed as far as it went.
fn with_use_of(late: OutcomeBody, body: OutcomeBody) -> OutcomeBody {
    match (late, body) {
        (OutcomeBody::ModelFailed(late), OutcomeBody::ModelFailed(failed)) => {
            OutcomeBody::ModelFailed(ModelFailed { usage: late.usage, ..failed })
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
