//! The fold of single events into a session's state; takes no decision and looks at no rule.

mod calls;
mod sparks;
mod taken_up;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::protocol::call::OrderedCall;
use crate::protocol::effect::{ModelOrder, Order};
use crate::protocol::event::{
    Answered, ArenaEvent, CheckRan, ContextCompacted, ModelCalled, ModelFailed, ModelReply, NoticeGiven,
    ParamsDropped, PauseCause, PromptGiven, Purpose, RequestPart, RetryScheduled, Selected, SessionOpened,
    TurnClosed,
};
use crate::protocol::message::Role;
use crate::protocol::spec::{Mode, Setting};
use crate::protocol::{CallId, EventRef, SparkId};

use super::Session;
use super::debate::Debate;
use super::state::{Call, Conversation, Item, OfferedTool, Said, Turn};

impl Session {
    /// Folds one event. Called for what was just decided and for what is read back, alike.
    pub(super) fn apply_event(&mut self, at: EventRef, event: &ArenaEvent) {
        use ArenaEvent as E;
        if let Some(ordered) = event.orders(at) {
            self.await_call(ordered);
        }
        match event {
            E::SessionOpened(data) => self.fold_opened(at, data),
            E::SessionResumed(data) => self.fold_resumed(at, data),
            E::SessionForked(data) => self.fold_forked(at, data),
            E::SessionPaused(data) if data.cause == PauseCause::Quit => self.fold_unsent(at),
            E::StopRequested(data) => self.stopping = Some(data.cause),
            E::PromptGiven(data) => self.fold_prompt(at, data),
            E::InterruptRequested(data) if data.call.is_none() => self.fold_interrupt(data.spark),
            E::SteeringGiven(data) => self.fold_steering(at, data.spark),
            E::SettingsChanged(data) => self.fold_settings(at, &data.changed),
            E::TurnRewound(data) => self.fold_rewound(at, data),
            E::ApprovalAnswered(data) => self.fold_approval(data),
            E::ModelAnswered(data) => self.fold_answer(at, data),
            E::ModelFailed(data) => self.fold_failed(data),
            E::ToolPrepared(data) => self.fold_prepared(at, data),
            E::ToolResolved(data) => self.fold_resolved(at, data),
            E::WorkspaceCheckpointed(data) => self.fold_checkpoint(data.call, Some(&data.body.tree)),
            E::MentionExpanded(data) => self.fold_mentioned(at, data),
            E::ToolsListed(data) => self.fold_listed(at, data),
            E::EffectFailed(data) => self.fold_effect_failed(at, data),
            E::TimerFired(data) => self.fold_timer(data.call),
            E::CheckRan(data) => self.fold_checked(at, data),
            E::BackgroundEnded(data) => self.fold_background(data.call, &data.body),
            E::PatchApplied(data) => self.fold_patch(data.call),
            E::TurnOpened(data) => self.turns = data.turn,
            E::TurnClosed(data) => self.fold_turn_closed(data),
            E::SessionSealed(data) => self.sealed = Some(data.cause),
            E::SparkIgnited(data) => self.fold_ignited(data),
            E::SparkCompleted(data) => self.fold_completed(data),
            E::ModelCalled(data) => self.fold_called(at, data),
            E::RetryScheduled(data) => self.fold_retry(data),
            E::ParamsDropped(data) => self.fold_dropped(data),
            E::FallbackTaken(data) => self.fold_fallback(data.spark, &data.from, &data.to),
            E::EffectOrdered(data) => self.fold_ordered(data),
            E::ToolInvoked(data) => self.fold_invoked(data),
            E::ToolRefused(data) => self.close_use(data.tool_use, at),
            E::ToolAnswered(data) => self.close_use(data.tool_use, at),
            E::PolicyDecided(data) => self.fold_ruling(data),
            E::GateAnswered(data) => self.fold_gate(at, data.call, data.body.verdict.action()),
            E::ApprovalRequested(data) => self.fold_asked(data),
            E::CallCancelled(data) => self.fold_cancelled(data.call),
            E::CallLost(data) => self.fold_lost(at, data),
            E::NoticeGiven(data) => self.fold_notice(at, data),
            E::AnswerRejected(data) => self.fold_rejected(at, data.spark, data.repair),
            E::BudgetReserved(data) => self.ledger.reserve(data.call, data.tokens, data.micro_usd),
            E::BudgetSettled(data) => self.ledger.settle(data),
            E::LimitReached(data) if data.spark.is_none() => self.fold_limit(),
            E::LimitReached(_) => {}
            E::ContextCompacted(data) => self.fold_compacted(at, data),
            E::QuestionAnswered(_) | E::CacheHit(_) | E::CacheMissed(_) | E::CacheStored(_) => {
                self.fold_end(event)
            }
            E::WorkspaceFingerprinted(_) | E::DiffTaken(_) | E::PatchRefused(_) => self.fold_end(event),
            // These say something to a reader, or belong to squads and debates.
            E::SessionPaused(_) | E::OutcomeIgnored(_) | E::InputRefused(_) | E::Unknown { .. } => {}
            E::PhaseShifted(_) | E::PlanStated(_) | E::CodeProposed(_) | E::CritiqueIssued(_) => {}
            E::FindingClosed(_) | E::InsightSurfaced(_) | E::RoleFailed(_) | E::ClaimFlagged(_) => {}
            E::WorkJudged(_) => {}
            E::CacheSkipped(_) | E::RoundOpened(_) | E::BallotCast(_) | E::PropositionsStated(_) => {}
            E::HostAsked(_) | E::HostJudged(_) | E::InterruptRequested(_) => {}
            E::RatingsCast(_) | E::BallotsRevealed(_) | E::ConvergenceProbed(_) | E::DebateGated(_) => {}
            E::DebateShortened(_) | E::VerdictReached(_) | E::DissentRecorded(_) | E::FaultRecovered(_) => {}
        }
        self.fold_mode(at, event);
    }

    /// The call that a fact answers is over.
    fn fold_end(&mut self, event: &ArenaEvent) {
        event.ends().into_iter().for_each(|call| self.close(call));
    }

    fn fold_failed(&mut self, data: &Answered<ModelFailed>) {
        self.failed = self.calls.remove_entry(&data.call);
        self.fold_limits(&data.body);
    }

    fn fold_checked(&mut self, at: EventRef, data: &Answered<CheckRan>) {
        self.close(data.call);
        self.last_proof.fold_check(at.seq, &data.body);
    }

    fn fold_patch(&mut self, call: CallId) {
        self.close(call);
        self.checkpoints.touch();
    }

    pub(super) fn close(&mut self, call: CallId) {
        self.calls.remove(&call);
    }

    fn fold_opened(&mut self, at: EventRef, data: &SessionOpened) {
        self.id.clone_from(&data.id);
        self.spec = Some(Arc::new(data.spec.clone()));
        let sel = |sel: String| Selected { from: at, sel };
        for (i, persona) in data.spec.personas.iter().enumerate() {
            self.places.personas.insert(persona.id.clone(), sel(format!("/spec/personas/{i}/text")));
        }
        for i in 0..data.spec.instructions.len() {
            self.places.instructions.push(sel(format!("/spec/instructions/{i}/text")));
        }
        for (i, tool) in data.spec.tools.iter().enumerate() {
            let offered = OfferedTool::new(tool.clone(), sel(format!("/spec/tools/{i}")));
            self.places.tools.insert(tool.name.clone(), offered);
        }
    }

    fn fold_prompt(&mut self, at: EventRef, data: &PromptGiven) {
        self.foreign_words = false;
        self.checkpoints.in_turn = false;
        self.remember(at);
        self.fold_given_anew(at, data.by.as_deref());
        self.fold_settings(at, &data.changed);
        self.debate = match &data.mode {
            Mode::Debate(plan) => Some(Debate::of(plan)),
            Mode::Solo | Mode::Squad | Mode::Unknown(_) => None,
        };
        self.turn = Some(Turn {
            number: self.turns + 1,
            mode: data.mode.clone(),
            prompt: at,
            schema: data.schema.clone(),
            timer: None,
            steps: 0,
            subagents: 0,
            spent_before: (self.ledger.tokens, self.ledger.micro_usd),
            said: Vec::new(),
            begun: false,
            stopping: None,
        });
    }

    /// The fact that a copy gives in place of another is part of making it.
    pub(super) fn fold_given_anew(&mut self, at: EventRef, by: Option<&str>) {
        self.forked =
            self.forked.map(|last| if by == Some("fork") && last + 1 == at.seq { at.seq } else { last });
    }

    /// Whoever leaves right after a copy was made has sent nothing of what it ordered.
    fn fold_unsent(&mut self, at: EventRef) {
        if self.forked.is_some_and(|last| last + 1 == at.seq) {
            self.calls.values_mut().for_each(|call| call.unsent = true);
        }
    }

    fn fold_interrupt(&mut self, spark: Option<SparkId>) {
        use crate::protocol::event::TurnCause::Interrupted;
        match spark {
            Some(id) => {
                if let Some(spark) = self.sparks.get_mut(&id) {
                    spark.stopping.get_or_insert(Interrupted);
                }
            }
            None => {
                if let Some(turn) = self.turn.as_mut() {
                    turn.stopping.get_or_insert(Interrupted);
                }
            }
        }
    }

    fn fold_steering(&mut self, at: EventRef, spark: Option<SparkId>) {
        if let Some(turn) = self.turn.as_mut().filter(|turn| !turn.begun) {
            turn.said.push(Said::At(at));
            return;
        }
        if self.debate.is_some() {
            return self.fold_debate_steering(at, spark);
        }
        let target = spark.or_else(|| self.talking_spark());
        if let Some(spark) = target {
            self.enqueue(spark, RequestPart { role: Role::User, from: at, sel: None });
        }
    }

    pub(super) fn enqueue(&mut self, spark: SparkId, part: RequestPart) {
        if let Some(spark) = self.sparks.get_mut(&spark) {
            spark.queue.push(Item::new(part));
        }
    }

    fn fold_settings(&mut self, at: EventRef, changed: &[Setting]) {
        let Some(spec) = self.spec.as_mut().map(Arc::make_mut) else { return };
        for (i, setting) in changed.iter().enumerate() {
            spec.set(setting);
            if let Setting::Persona { spec: persona, .. } = setting {
                let sel = format!("/changed/{i}/persona/spec/text");
                self.places.personas.insert(persona.id.clone(), Selected { from: at, sel });
            }
        }
        if !changed.is_empty() {
            let there = &spec.tools;
            self.places.tools.retain(|name, _| there.iter().any(|tool| tool.name == *name));
            self.follow_settings(changed);
        }
    }

    /// Sparks at work use new models and personas from their next call on.
    fn follow_settings(&mut self, changed: &[Setting]) {
        for setting in changed {
            let open: Vec<SparkId> =
                self.sparks.iter().filter(|(_, s)| s.completed.is_none()).map(|(id, _)| *id).collect();
            for id in open {
                let Some(spark) = self.sparks.get_mut(&id) else { continue };
                match setting {
                    Setting::Model { spec, default: true } => spark.model.clone_from(&spec.name),
                    Setting::RoleModel { role, model } if spark.role == *role || spark.persona == *role => {
                        spark.model.clone_from(model);
                    }
                    Setting::Persona { spec, default }
                        if (*default && self.debate.is_none() && spark.delegated.is_none())
                            || spark.persona == spec.id =>
                    {
                        spark.persona.clone_from(&spec.id);
                        let head = self.head(&spec.id);
                        if let Some(spark) = self.sparks.get_mut(&id) {
                            spark.set_head(head);
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    /// What a conversation starts with: the persona, then the instructions.
    pub(super) fn head(&self, persona: &str) -> Vec<RequestPart> {
        let part =
            |at: &Selected| RequestPart { role: Role::System, from: at.from, sel: Some(at.sel.clone()) };
        let places = self.places.personas.get(persona).into_iter().chain(&self.places.instructions);
        places.map(part).collect()
    }

    fn fold_turn_closed(&mut self, data: &TurnClosed) {
        self.turn = None;
        self.debate = None;
        self.last_turn = Some(data.clone());
    }

    fn fold_called(&mut self, at: EventRef, data: &ModelCalled) {
        self.ledger.book(data.call, self.lineage(data.spark));
        let spark = self.sparks.get(&data.spark);
        let kept = match (&data.parts.base, spark.and_then(|s| s.sent.as_ref())) {
            (Some(base), Some((sent, request))) if base == sent => request.first(data.parts.keep as usize),
            _ => Conversation::default(),
        };
        let is_step = data.attempt == 1 && data.purpose == Purpose::Think;
        let request = match is_step && self.sparks.contains_key(&data.spark) {
            true => self.fold_step(at, data.spark, kept, &data.parts.add),
            false => kept.with_all(data.parts.add.iter().cloned().map(Item::new), &|at| self.event(at)),
        };
        // A repeated attempt names the same base, which may have been replaced since: keep what is known.
        if let Some(call) = self.calls.get_mut(&data.call).filter(|call| call.request.is_empty()) {
            call.request = request;
        }
    }

    fn await_call(&mut self, ordered: OrderedCall) {
        let OrderedCall { call, attempt, spark, order } = ordered;
        self.next_call = self.next_call.max(call.0.saturating_add(1));
        let request = self.calls.remove(&call).map(|known| known.request).unwrap_or_default();
        let open = Call { attempt, spark, order, request, timer: None, cancelled: false, unsent: false };
        self.calls.insert(call, open);
    }

    /// The conversation is what was really sent, whatever program sent it: what is kept of the request before, and
    /// what was added.
    fn fold_step(
        &mut self,
        at: EventRef,
        spark: SparkId,
        kept: Conversation,
        add: &[RequestPart],
    ) -> Conversation {
        if let Some(turn) = self.turn.as_mut() {
            turn.steps += 1;
        }
        let finished = self.sparks.get(&spark).map(|known| self.signatures(known)).unwrap_or_default();
        let Some(known) = self.sparks.get_mut(&spark) else { return kept };
        known.steps += 1;
        known.recent.extend(finished);
        let surplus = known.recent.len().saturating_sub(super::tool_calls::KEPT_RECENT);
        known.recent.drain(..surplus);
        known.uses.clear();
        let mut pending = known.take_pending(&kept).into_iter().peekable();
        let added: Vec<Item> = add
            .iter()
            .map(|part| {
                let waiting = pending.next_if(|item| item.part == *part);
                waiting.unwrap_or_else(|| Item::new(part.clone()))
            })
            .collect();
        let request = kept.with_all(added, &|at| self.event(at));
        if let Some(known) = self.sparks.get_mut(&spark) {
            known.sent = Some((at, request.clone()));
            known.said = request.clone();
            // What was not sent still waits.
            known.queue = pending.collect();
        }
        request
    }

    fn fold_retry(&mut self, data: &RetryScheduled) {
        let Some((id, mut call)) = self.failed.take() else { return };
        call.timer = Some(data.timer);
        if let Some(timer) = self.calls.get_mut(&data.timer) {
            timer.spark = call.spark;
        }
        self.calls.insert(id, call);
    }

    /// The call is over and was no step; the model's row says for the rest of the session what it refuses.
    fn fold_dropped(&mut self, data: &ParamsDropped) {
        let failed = self.failed.take().map(|(_, call)| call.order);
        if let Some(Order::Model(ModelOrder { purpose: Purpose::Think, .. })) = failed {
            if let Some(turn) = self.turn.as_mut() {
                turn.steps = turn.steps.saturating_sub(1);
            }
            if let Some(spark) = self.sparks.get_mut(&data.spark) {
                spark.steps = spark.steps.saturating_sub(1);
            }
            self.with_role(data.spark, |role| role.steps = role.steps.saturating_sub(1));
        }
        let models = self.spec.as_mut().map(|spec| &mut Arc::make_mut(spec).models);
        for model in models.into_iter().flatten().filter(|model| model.name == data.model) {
            let new: Vec<String> = data.names.iter().filter(|name| !model.refuses(name)).cloned().collect();
            model.refuses.extend(new);
        }
    }

    fn fold_fallback(&mut self, spark: SparkId, from: &str, to: &str) {
        if let Some(spark) = self.sparks.get_mut(&spark) {
            spark.given_up.push(from.to_owned());
            spark.model = to.to_owned();
        }
    }

    fn fold_answer(&mut self, at: EventRef, data: &Answered<ModelReply>) {
        let Some(call) = self.calls.remove(&data.call) else { return };
        self.fold_manner(&call, &data.body);
        let (Order::Model(ModelOrder { purpose: Purpose::Think, .. }), Some(id)) = (&call.order, call.spark)
        else {
            return;
        };
        let uses = self.uses_of(at, &data.body);
        let bytes = super::context::bytes_of_reply(&data.body);
        if let Some(spark) = self.sparks.get(&id) {
            let sent = spark.said.bytes() + self.bytes_in(&spark.fresh) + self.tool_bytes(spark);
            self.ledger.calibrate(&spark.model, sent, &data.body.usage);
        }
        let Some(spark) = self.sparks.get_mut(&id) else { return };
        // An answer that says nothing is no message: providers refuse it when it is sent back.
        if bytes > 0 {
            spark.fresh.push(Item::of(Role::Assistant, at));
            spark.compacted = 0;
        }
        if uses.is_empty() {
            spark.answer = Some(at);
        } else if super::tool_calls::is_cut_call(&data.body) {
            spark.rejected += 1;
        } else {
            spark.rejected = 0;
        }
        spark.uses = uses;
    }

    fn fold_notice(&mut self, at: EventRef, data: &NoticeGiven) {
        use crate::protocol::event::Notice;
        match data.notice {
            // The order for a summary is part of the compaction's own request only.
            Notice::Compacted => {}
            notice => {
                if notice == Notice::Background {
                    self.ended.clear();
                }
                if let Some(spark) = self.sparks.get_mut(&data.spark) {
                    if notice == Notice::Loop {
                        spark.warned = true;
                        spark.recent.clear();
                    }
                    spark.rejected += u32::from(notice == Notice::Repair);
                }
                if notice == Notice::Interrupted {
                    let cut = EventRef::fact(at.seq);
                    self.enqueue(data.spark, RequestPart { role: Role::Assistant, from: cut, sel: None });
                }
                self.enqueue(data.spark, RequestPart { role: Role::User, from: at, sel: None });
            }
        }
    }

    fn fold_rejected(&mut self, at: EventRef, spark: SparkId, repair: bool) {
        if let Some(known) = self.sparks.get_mut(&spark) {
            known.rejected += 1;
        }
        if repair {
            self.enqueue(spark, RequestPart { role: Role::User, from: at, sel: None });
        }
    }

    fn fold_limit(&mut self) {
        if let Some(turn) = self.turn.as_mut() {
            turn.stopping.get_or_insert(crate::protocol::event::TurnCause::Limit);
        }
    }

    fn fold_compacted(&mut self, at: EventRef, data: &ContextCompacted) {
        let Some(spark) = self.sparks.get_mut(&data.spark) else { return };
        let covers: BTreeSet<EventRef> = data.covers.iter().copied().collect();
        let covered = |item: &Item| !item.is_pinned() && covers.contains(&item.part.from);
        let mut transcript = spark.transcript();
        let place = transcript.iter().position(covered).unwrap_or(transcript.len());
        transcript.retain(|item| !covered(item));
        let place = place.min(transcript.len());
        transcript.insert(place, Item::of(Role::User, at));
        spark.set_transcript(transcript);
        spark.compacted += 1;
    }
}
