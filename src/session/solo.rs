//! Solo turns: one spark works on the prompt and its answer is the turn's.

use crate::protocol::effect::{EffectOrder, TimerPurpose};
use crate::protocol::event::{ArenaEvent, Notice, NoticeGiven, SparkIgnited, TurnCause, TurnOpened};
use crate::protocol::message::Structured;
use crate::protocol::spec::Mode;
use crate::protocol::{EventRef, SparkId};

use super::Session;

impl Session {
    /// Opens a turn and gives its first spark the task.
    pub(super) fn open_turn(&mut self) {
        let Some(spec) = self.spec.clone() else { return };
        self.emit(ArenaEvent::TurnOpened(TurnOpened { turn: self.turns + 1 }));
        let Some(persona) = spec.personas.first() else { return };
        let model = persona.model.clone().or(spec.models.first().map(|m| m.name.clone())).unwrap_or_default();
        let spark = SparkId(self.next_spark);
        let continues = self.sparks.iter().rev().find(|(_, s)| s.role == "solo").map(|(id, _)| *id);
        self.emit(ArenaEvent::SparkIgnited(SparkIgnited {
            spark,
            role: "solo".to_owned(),
            persona: persona.id.clone(),
            model: model.clone(),
            continues,
        }));
        if let Some(seconds) = spec.limits.max_seconds {
            let ms = seconds.saturating_mul(1000);
            self.order(None, EffectOrder::Timer { ms, purpose: TimerPurpose::TurnLimit });
        }
        self.brief_on_schema(spark, &model);
        self.think(spark);
    }

    /// A provider that cannot be held to a schema is at least told of it.
    fn brief_on_schema(&mut self, spark: SparkId, model: &str) {
        let Some(schema) = self.turn.as_ref().and_then(|turn| turn.schema.clone()) else { return };
        let held = self.model_spec(model).is_some_and(|m| m.structured == Structured::ResponseFormat);
        if !held {
            self.emit(ArenaEvent::NoticeGiven(NoticeGiven {
                spark,
                notice: Notice::Brief,
                text: format!("When you are done, answer with JSON only, fitting this JSON Schema:\n{schema}"),
            }));
        }
    }

    /// What the end of a spark means for the turn.
    pub(super) fn spark_ended(&mut self, _spark: SparkId, cause: TurnCause, answer: Option<EventRef>) {
        match self.turn.as_ref().map(|turn| &turn.mode) {
            Some(Mode::Solo) => {
                let answer = answer.filter(|_| cause == TurnCause::Done);
                self.close_turn(cause, answer);
            }
            Some(Mode::Squad | Mode::Debate(_)) | None => {}
        }
    }
}
