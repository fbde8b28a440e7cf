//! Solo turns: one spark works on the prompt and its answer is the turn's.

use crate::protocol::SparkId;
use crate::protocol::effect::{Order, TimerOrder, TimerPurpose};
use crate::protocol::event::{ArenaEvent, Notice, SparkIgnited};
use crate::protocol::message::Structured;
use crate::protocol::spec::PermissionLevel;

use super::Session;

impl Session {
    /// Gives one spark the task; it continues the conversation of the solo spark before it.
    pub(super) fn begin_solo(&mut self) {
        let Some(spec) = self.spec.clone() else { return };
        let Some(persona) = spec.personas.first() else { return };
        let model = spec.model_for(None, &persona.id).unwrap_or_default().to_owned();
        let spark = SparkId(self.next_spark);
        self.emit(ArenaEvent::SparkIgnited(SparkIgnited {
            spark,
            role: "solo".to_owned(),
            persona: persona.id.clone(),
            model: model.clone(),
            continues: self.chat(),
            ..SparkIgnited::default()
        }));
        self.order_time_limit(0);
        self.brief_on_schema(spark, &model);
        if spec.permission == PermissionLevel::Plan {
            self.brief_on_plan(spark);
        }
        self.tell_of_ended();
        self.think(spark);
    }

    /// Says what is expected at the level `plan`.
    pub(super) fn brief_on_plan(&mut self, spark: SparkId) {
        let text = "The permission level is `plan`: for the rest of this turn the workspace is read-only. Look around, \
                    then answer with a plan: what you would change, file by file, and how you would check it. Change \
                    nothing; the person decides whether the plan is carried out.";
        self.notice(spark, Notice::Planning, text);
    }

    /// Starts the turn's time limit, if there is one, less the active time it has had.
    pub(super) fn order_time_limit(&mut self, active_ms: u64) {
        if self.turn.as_ref().is_some_and(|turn| turn.timer.is_some()) {
            return;
        }
        let seconds = self.spec.as_ref().and_then(|spec| spec.limits.max_seconds);
        if let Some(seconds) = seconds {
            let ms = seconds.saturating_mul(1000).saturating_sub(active_ms);
            self.order(None, Order::Timer(TimerOrder { ms, purpose: TimerPurpose::TurnLimit }));
        }
    }

    /// A provider that cannot be held to a schema is at least told of it.
    pub(super) fn brief_on_schema(&mut self, spark: SparkId, model: &str) {
        let Some(schema) = self.schema_for(spark) else { return };
        let held = self.model_spec(model).is_some_and(|m| m.structured == Structured::ResponseFormat);
        if !held {
            let text =
                format!("When you are done, answer with JSON only, fitting this JSON Schema:\n{schema}");
            self.notice(spark, Notice::Brief, &text);
        }
    }
}
