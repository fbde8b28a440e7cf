//! Where solo, squad and debate turns part: who begins, what an answer means, which schema and tools hold.

use serde_json::Value;

use crate::protocol::event::{ArenaEvent, TurnCause, TurnOpened};
use crate::protocol::spec::Mode;
use crate::protocol::{EventRef, SparkId};

use super::Session;
use super::state::Spark;

impl Session {
    /// Opens a turn. Its sparks are given their task once what the prompt mentions was read.
    pub(super) fn open_turn(&mut self) {
        let Some(number) = self.turn.as_ref().map(|turn| turn.number) else { return };
        self.emit(ArenaEvent::TurnOpened(TurnOpened { turn: number }));
        self.order_mentions();
        self.order_lists();
        self.begin_when_read();
    }

    /// Gives the first sparks their task.
    pub(super) fn begin_turn(&mut self) {
        let Some(mode) = self.turn.as_ref().map(|turn| turn.mode.clone()) else { return };
        match mode {
            Mode::Solo => self.begin_solo(),
            Mode::Squad => self.begin_squad(),
            Mode::Debate(plan) => self.begin_debate(&plan),
            Mode::Unknown(_) => {}
        }
    }

    /// A spark gave a usable answer. Its mode decides whether that is its end or more work follows.
    pub(super) fn spark_answered(&mut self, id: SparkId) {
        match self.turn.as_ref().map(|turn| &turn.mode) {
            _ if self.delegated(id).is_some() => self.end_spark(id, TurnCause::Done),
            Some(Mode::Solo) => {
                let at = self.sparks.get(&id).and_then(|spark| spark.answer);
                let text = at.and_then(|at| self.event(at)?.answer_text());
                if let Some((at, text)) = at.zip(text) {
                    self.flag_text(at, &text, 0, true);
                }
                self.end_spark(id, TurnCause::Done);
            }
            Some(Mode::Squad) => self.role_answered(id),
            Some(Mode::Debate(_)) => self.debate_answered(id),
            Some(Mode::Unknown(_)) | None => {}
        }
    }

    /// A spark has ended, well or not; no further work can reach it in this turn.
    pub(super) fn spark_ended(&mut self, id: SparkId, cause: TurnCause, answer: Option<EventRef>) {
        match self.turn.as_ref().map(|turn| &turn.mode) {
            Some(Mode::Solo) => {
                let answer = answer.filter(|_| cause == TurnCause::Done);
                self.close_turn(cause, answer);
            }
            Some(Mode::Squad) => self.role_ended(id, cause, answer),
            Some(Mode::Debate(_)) => self.debater_stopped(id, cause),
            Some(Mode::Unknown(_)) | None => {}
        }
    }

    /// The schema a spark's next answer must fit.
    pub(super) fn schema_for(&self, id: SparkId) -> Option<Value> {
        let turn = self.turn.as_ref()?;
        if let Some(delegated) = self.delegated(id) {
            return self.subagent_schema(delegated);
        }
        match &turn.mode {
            Mode::Solo => turn.schema.clone(),
            Mode::Squad => self.role_schema(id),
            Mode::Debate(_) => self.debate_schema(id),
            Mode::Unknown(_) => None,
        }
    }

    /// What a usable, fitting answer still gets wrong, for the repair.
    pub(super) fn contradictions_in(&self, id: SparkId, text: &str) -> Vec<String> {
        match self.turn.as_ref().map(|turn| &turn.mode) {
            Some(Mode::Squad) => self.contradictions(id, text),
            Some(Mode::Debate(_)) => self.debate_misfits(id, text),
            Some(Mode::Solo | Mode::Unknown(_)) | None => Vec::new(),
        }
    }

    /// True when a spark has a task; an idle one is not asked to think when a session is taken up again.
    pub(super) fn is_at_work(&self, id: SparkId) -> bool {
        match self.turn.as_ref().map(|turn| &turn.mode) {
            Some(Mode::Squad) => self.role_is_at_work(id),
            Some(Mode::Debate(_)) => self.debate.as_ref().is_some_and(|debate| debate.waits_for(id)),
            Some(Mode::Solo) => true,
            Some(Mode::Unknown(_)) | None => false,
        }
    }

    /// A spark came to nothing by itself. True when its mode takes that as an absence and keeps the spark.
    pub(super) fn is_absence(&self, id: SparkId, cause: TurnCause) -> bool {
        let awaited = self.debate.as_ref().is_some_and(|debate| debate.waits_for(id));
        self.turn.is_some() && awaited && cause != TurnCause::Done && !self.is_stopping(id)
    }

    /// Why a spark may not make one more model call though the turn may, if so.
    pub(super) fn own_limit(&self, id: SparkId) -> Option<TurnCause> {
        if self.steps_left(id) == Some(0) {
            return Some(TurnCause::Limit);
        }
        self.turn.as_ref().filter(|turn| turn.mode == Mode::Squad).and_then(|_| self.role_limit(id))
    }

    /// Takes the steps between sparks that have become possible.
    pub(super) fn advance_mode(&mut self) {
        match self.turn.as_ref().map(|turn| &turn.mode) {
            Some(Mode::Squad) => self.advance_squad(),
            Some(Mode::Solo | Mode::Debate(_) | Mode::Unknown(_)) | None => {}
        }
    }

    /// Closes a turn that is being stopped once nothing of it is left, where more than its sparks is awaited.
    pub(super) fn close_stopped_turn(&mut self) {
        match self.turn.as_ref().map(|turn| &turn.mode) {
            Some(Mode::Squad) => self.close_stopped_squad(),
            Some(Mode::Solo | Mode::Debate(_) | Mode::Unknown(_)) | None => {}
        }
    }

    /// The spark that talks with the person: the one of a solo turn, else the first at work.
    pub(super) fn talking_spark(&self) -> Option<SparkId> {
        let first = || self.sparks.iter().find(|(_, spark)| spark.completed.is_none()).map(|(id, _)| *id);
        match self.turn.as_ref().map(|turn| &turn.mode) {
            Some(Mode::Squad) => self.listening_role().or_else(first),
            Some(Mode::Solo | Mode::Debate(_) | Mode::Unknown(_)) | None => first(),
        }
    }

    /// Tools a spark may use at this step of its mode; its persona's when the mode says nothing.
    pub(super) fn allowed_tools(&self, spark: &Spark) -> Option<Vec<String>> {
        if let Some(delegated) = &spark.delegated {
            return Some(delegated.tools.clone());
        }
        if self.turn.as_ref().is_some_and(|turn| turn.mode == Mode::Squad) {
            return self.role_tools(spark);
        }
        if let Some(debate) = self.debate.as_ref().filter(|_| self.turn.is_some()) {
            // An earlier turn's spark may have had the name of this debater.
            let id = self.sparks.iter().rfind(|(_, known)| known.role == spark.role).map(|(id, _)| *id)?;
            return Some(debate.tools_of(id).to_vec());
        }
        let persona = self.spec.as_ref()?.personas.iter().find(|persona| persona.id == spark.persona);
        persona.and_then(|persona| persona.tools.clone())
    }

    /// Folds what an event means for squads and debates, after the session's own fold of it.
    pub(super) fn fold_mode(&mut self, at: EventRef, event: &ArenaEvent) {
        self.fold_squad(at, event);
        if self.debate.is_some() {
            self.fold_debate(at, event);
        }
    }
}
