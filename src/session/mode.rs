//! Where solo, squad and debate turns part: who begins, what an answer means, which schema and tools hold.

use serde_json::Value;

use crate::protocol::event::{ArenaEvent, TurnCause, TurnOpened};
use crate::protocol::spec::Mode;
use crate::protocol::{EventRef, SparkId};

use super::Session;
use super::state::Spark;

impl Session {
    /// Opens a turn and gives its first sparks their task.
    pub(super) fn open_turn(&mut self) {
        let Some(turn) = &self.turn else { return };
        let (number, mode) = (turn.number, turn.mode.clone());
        self.emit(ArenaEvent::TurnOpened(TurnOpened { turn: number }));
        match mode {
            Mode::Solo => self.begin_solo(),
            Mode::Squad | Mode::Debate(_) => {}
        }
    }

    /// A spark gave a usable answer. Its mode decides whether that is its end or more work follows.
    pub(super) fn spark_answered(&mut self, id: SparkId) {
        match self.turn.as_ref().map(|turn| &turn.mode) {
            Some(Mode::Solo) => self.end_spark(id, TurnCause::Done),
            Some(Mode::Squad | Mode::Debate(_)) | None => {}
        }
    }

    /// A spark has ended, well or not; no further work can reach it in this turn.
    pub(super) fn spark_ended(&mut self, _id: SparkId, cause: TurnCause, answer: Option<EventRef>) {
        match self.turn.as_ref().map(|turn| &turn.mode) {
            Some(Mode::Solo) => {
                let answer = answer.filter(|_| cause == TurnCause::Done);
                self.close_turn(cause, answer);
            }
            Some(Mode::Squad | Mode::Debate(_)) | None => {}
        }
    }

    /// The schema a spark's next answer must fit.
    pub(super) fn schema_for(&self, _id: SparkId) -> Option<Value> {
        let turn = self.turn.as_ref()?;
        match &turn.mode {
            Mode::Solo => turn.schema.clone(),
            Mode::Squad | Mode::Debate(_) => None,
        }
    }

    /// Tools a spark may use at this step of its mode; its persona's when the mode says nothing.
    pub(super) fn allowed_tools(&self, spark: &Spark) -> Option<&Vec<String>> {
        let persona = self.spec.as_ref()?.personas.iter().find(|persona| persona.id == spark.persona);
        persona.and_then(|persona| persona.tools.as_ref())
    }

    /// Folds what only squads and debates decide.
    pub(super) fn fold_mode(&mut self, _at: EventRef, _event: &ArenaEvent) {}
}
