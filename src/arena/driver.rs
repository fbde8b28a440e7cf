//! The one task that owns a session: drains its inbox, handles, appends, and only then publishes and dispatches.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::ports::{Answer, AppendError};
use crate::protocol::event::{ArenaEvent, HostAsked, PauseCause, SessionPaused, TurnCause};
use crate::protocol::spec::Spec;
use crate::protocol::{CallId, Command, Entry, EventRef, Fact, Input, Outcome, Work};
use crate::session::Session;

use super::executor::Executor;
use super::redact::Redactor;
use super::{ArenaError, Attendance, Ending, SubmitError, size_limits};

/// Inputs handled before one acknowledgement is awaited.
const BATCH: usize = 256;

/// What reaches a driver.
pub(super) enum Message {
    /// A wish from outside, and where its answer goes.
    Command {
        /// The wish.
        command: Command,
        /// Seq of the entry that took it, or why it was not taken.
        reply: oneshot::Sender<Result<u64, SubmitError>>,
    },
    /// Asks for the settings in force.
    Spec {
        /// Where they go.
        reply: oneshot::Sender<Option<Spec>>,
    },
    /// The answer to an effect.
    Outcome(Outcome),
    /// A running call waits for a connection.
    Asked {
        /// What it waits for.
        asked: HostAsked,
        /// Where the answer goes. Dropped, it is no.
        answer: oneshot::Sender<Answer>,
    },
    /// Ends here and now, with the turn left open.
    Leave,
}

type Reply = oneshot::Sender<Result<u64, SubmitError>>;

/// Owns the session by value; nothing else changes it.
pub(super) struct Driver {
    session: Session,
    executor: Executor,
    redactor: Arc<Redactor>,
    inbox: mpsc::Receiver<Message>,
    /// Fires on a hard stop.
    stop: CancellationToken,
    /// Active milliseconds of the open turn before this process, and when counting began here.
    active: (u64, u64),
    /// True once somebody leaves.
    leaves: bool,
}

impl Driver {
    pub fn new(
        session: Session,
        executor: Executor,
        redactor: Arc<Redactor>,
        inbox: mpsc::Receiver<Message>,
        stop: CancellationToken,
        active_ms: u64,
    ) -> Self {
        let now = executor.now();
        Driver { session, executor, redactor, inbox, stop, active: (active_ms, now), leaves: false }
    }

    pub fn session_id(&self) -> &str {
        self.session.id()
    }

    /// Records the facts a session begins with, before anybody can talk to it.
    pub async fn begin(&mut self, facts: Vec<Fact>) -> Result<(), ArenaError> {
        let entries: Vec<Arc<Entry>> =
            facts.into_iter().map(|fact| self.handle(fact)).collect::<Result<_, _>>()?;
        if let Some(reason) = entries.iter().find_map(|entry| refusal(entry)) {
            return Err(ArenaError::Refused(reason));
        }
        self.commit(entries).await?;
        Ok(())
    }

    /// Runs until the session is sealed, paused, failed or stopped hard.
    pub async fn run(mut self) -> Ending {
        self.executor.attend_sources();
        loop {
            if let Some(ending) = self.ending().await {
                return self.finish(ending).await;
            }
            let mut messages = Vec::new();
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return self.finish(Ending::Stopped).await,
                received = self.inbox.recv_many(&mut messages, BATCH) => if received == 0 {
                    return self.finish(Ending::Stopped).await;
                },
            }
            if let Err(error) = self.step(messages).await {
                return self.fail(error).await;
            }
        }
    }

    /// One batch: every message handled, one append, then the news and the new effects.
    async fn step(&mut self, messages: Vec<Message>) -> Result<(), AppendError> {
        let mut entries = Vec::with_capacity(messages.len());
        let mut replies: Vec<(Reply, Result<u64, SubmitError>)> = Vec::new();
        for message in messages {
            let (event, reply) = match message {
                Message::Command { command, reply } => match size_limits::command(command.into()) {
                    Ok(event) => (event, Some(reply)),
                    Err(reason) => {
                        replies.push((reply, Err(SubmitError::Refused(reason))));
                        continue;
                    }
                },
                Message::Spec { reply } => {
                    // Whoever asked may have left.
                    let _ = reply.send(self.session.spec().cloned());
                    continue;
                }
                Message::Leave => {
                    self.leaves = true;
                    continue;
                }
                // A sealed session waits for nothing, and its seal is the last thing it says.
                Message::Outcome(_) | Message::Asked { .. } if self.session.sealed().is_some() => continue,
                Message::Asked { asked, answer } => {
                    entries.extend(self.asked(asked, answer)?);
                    continue;
                }
                Message::Outcome(outcome) => {
                    self.executor.forget(outcome.call, outcome.attempt);
                    (self.timed(outcome.into_event()), None)
                }
            };
            let Ok(fact) = Fact::new(event) else { continue };
            let entry = self.handle(fact)?;
            if let Some(reply) = reply {
                let answer =
                    refusal(&entry).map_or(Ok(entry.seq), |reason| Err(SubmitError::Refused(reason)));
                replies.push((reply, answer));
            }
            entries.push(entry);
        }
        let committed = self.commit(entries).await;
        for (reply, answer) in replies {
            let answer = committed.clone().map_err(SubmitError::Log).and(answer);
            // A caller that no longer waits has no use for the answer; it is in the log.
            let _ = reply.send(answer);
        }
        committed
    }

    /// Records what a running call asks, and where its answer goes. A question that is ignored is answered with no.
    fn asked(
        &mut self,
        asked: HostAsked,
        answer: oneshot::Sender<Answer>,
    ) -> Result<Option<Arc<Entry>>, AppendError> {
        let call = asked.call;
        let Ok(fact) = Fact::new(ArenaEvent::HostAsked(asked)) else { return Ok(None) };
        let entry = self.handle(fact)?;
        if !entry.is_void() {
            self.executor.asked(EventRef::fact(entry.seq), call, answer);
        }
        Ok(Some(entry))
    }

    /// Stamps a fact, with time and redaction and nothing else, and lets the session decide.
    fn handle(&mut self, fact: Fact) -> Result<Arc<Entry>, AppendError> {
        let at = self.executor.now();
        if matches!(fact.event(), ArenaEvent::PromptGiven(_)) && !self.session.has_open_turn() {
            self.active = (0, at);
        }
        let fact = self.redactor.fact(fact).map_err(AppendError::Secret)?;
        Ok(self.session.handle(Input { at, fact }))
    }

    /// Timers report the active time of the turn, which only the driver knows.
    fn timed(&self, event: ArenaEvent) -> ArenaEvent {
        match event {
            ArenaEvent::TimerFired(mut fired) => {
                let (before, since) = self.active;
                fired.body.active_ms = before + self.executor.now().saturating_sub(since) / 1000;
                ArenaEvent::TimerFired(fired)
            }
            other => other,
        }
    }

    async fn commit(&mut self, entries: Vec<Arc<Entry>>) -> Result<(), AppendError> {
        if entries.is_empty() {
            return Ok(());
        }
        self.executor.ports().log.append(entries.clone()).await?;
        for entry in &entries {
            self.executor.ports().bus.publish(Arc::clone(entry));
        }
        for entry in &entries {
            self.dispatch(entry);
        }
        Ok(())
    }

    /// Starts exactly what acknowledged entries order, and passes on what they cancel.
    fn dispatch(&mut self, entry: &Entry) {
        for (at, event) in entry.effective() {
            if let Some(ordered) = event.orders(at) {
                self.start(ordered.call, ordered.attempt);
            }
            match event {
                ArenaEvent::ParamsDropped(data) => self.executor.learn(&data.model, &data.names),
                ArenaEvent::HostJudged(data) => {
                    self.executor.settle(data.asked, data.answer());
                }
                ArenaEvent::CallCancelled(data) => self.executor.cancel(data.call),
                ArenaEvent::CallLost(data) => self.executor.cancel(data.call),
                ArenaEvent::TurnClosed(data) => {
                    // What outlasts a turn that was stopped is recording, which has the usual grace from here on.
                    if matches!(data.cause, TurnCause::Interrupted | TurnCause::Limit | TurnCause::Stopped) {
                        self.executor.cancel_all();
                    }
                }
                _ => {}
            }
        }
    }

    /// A later entry of the same batch may have closed, repeated or cancelled the call already.
    fn start(&mut self, call: CallId, attempt: u32) {
        let Some(order) = self.session.ordered(call).filter(|order| order.attempt == attempt) else { return };
        match (self.session.effect(call), self.session.order_of(call)) {
            (Some(effect), _) => self.executor.start(Work { call, attempt, effect }, order.cancelled),
            (None, Some(order)) => self.executor.give_up(call, attempt, order),
            (None, None) => {}
        }
    }

    async fn ending(&mut self) -> Option<Ending> {
        if self.session.sealed().is_some() {
            return Some(Ending::Sealed(self.session.last_turn().cloned()));
        }
        if self.leaves {
            return Some(match self.pause(PauseCause::Quit).await {
                Ok(()) => Ending::Stopped,
                Err(error) => Ending::Failed(error),
            });
        }
        let waits = match self.executor.ports().attended {
            Attendance::Attended => false,
            Attendance::SaysYes => self.session.waits_for_people(true),
            Attendance::Unattended => self.session.waits_for_people(false),
        };
        if waits {
            return Some(match self.pause(PauseCause::Approval).await {
                Ok(()) => Ending::Paused,
                Err(error) => Ending::Failed(error),
            });
        }
        None
    }

    async fn pause(&mut self, cause: PauseCause) -> Result<(), AppendError> {
        match Fact::new(ArenaEvent::SessionPaused(SessionPaused { cause })) {
            Ok(fact) => {
                let entry = self.handle(fact)?;
                self.commit(vec![entry]).await
            }
            Err(_) => Ok(()),
        }
    }

    /// The log refused an entry: nothing that was decided with it may act. A full disk still takes one
    /// last entry that says so; it follows the last acknowledged one, so the session is folded again first.
    async fn fail(mut self, error: AppendError) -> Ending {
        if matches!(error, AppendError::Full(_))
            && let Some(session) = self.refold()
        {
            self.session = session;
            // Whether even this entry fits is not certain; the exit says why in any case.
            let _ = self.pause(PauseCause::Disk).await;
        }
        self.finish(Ending::Failed(error)).await
    }

    fn refold(&self) -> Option<Session> {
        let mut session = Some(Session::new());
        let read = self.executor.ports().log.visit(0, &mut |line| {
            let entry = Entry::read(line).ok().map(Arc::new);
            let follows =
                session.as_mut().zip(entry).is_some_and(|(folded, entry)| folded.apply(&entry).is_ok());
            session = session.take().filter(|_| follows);
            follows
        });
        session.filter(|_| read.is_ok())
    }

    async fn finish(self, ending: Ending) -> Ending {
        let sandbox = self.executor.ports().sandbox.clone();
        let places = self.executor.ports().places.take_all(&sandbox);
        self.executor.stop_all().await;
        for place in places {
            place.close().await;
        }
        sandbox.close().await;
        ending
    }
}

fn refusal(entry: &Entry) -> Option<String> {
    match entry.decisions().first() {
        Some(ArenaEvent::InputRefused(refused)) => Some(refused.reason.clone()),
        _ => None,
    }
}
