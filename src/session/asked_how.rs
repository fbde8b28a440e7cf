//! How a model is asked: how much it thinks, and in which way its typed answers are held to their schema.

use crate::protocol::effect::Order;
use crate::protocol::event::{ArenaEvent, ModelReply, ParamsDropped, Purpose};
use crate::protocol::fit;
use crate::protocol::message::{AnswerSchema, Effort, Structured};
use crate::protocol::spec::ModelSpec;
use crate::protocol::{EventRef, SparkId};

use super::Session;
use super::state::Call;

/// What asks for the form of an answer, in each wire format.
const FORMATS: [&str; 3] = ["response_format", "text", "output_config"];

/// What forces a tool.
const FORCED: &str = "tool_choice";

/// The first way to ask for a typed answer that a model has not refused.
fn first_way(model: &ModelSpec) -> Structured {
    match (FORMATS.iter().any(|name| model.refuses(name)), model.refuses(FORCED) || !model.calls_tools()) {
        (false, _) => Structured::ResponseFormat,
        (true, false) => Structured::ForcedTool,
        (true, true) => Structured::Words,
    }
}

impl Session {
    /// How much a spark's model is asked to think: as its role says, else its persona, else the session.
    pub(super) fn effort(&self, id: SparkId) -> Option<Effort> {
        let spec = self.spec.as_ref()?;
        let spark = self.sparks.get(&id)?;
        let roles = spec.blueprint.iter().flat_map(|blueprint| &blueprint.roles);
        let role = self.role(id).and_then(|_| roles.clone().find(|role| role.name == spark.role));
        let persona = spec.personas.iter().find(|persona| persona.id == spark.persona);
        let own = role.and_then(|role| role.effort).or(persona.and_then(|persona| persona.effort));
        own.or(spec.effort)
    }

    /// A forced tool would leave no room for other tools, so beside tools the schema is asked for in words.
    pub(super) fn answer_schema(
        &self,
        id: SparkId,
        model: &ModelSpec,
        with_tools: bool,
    ) -> Option<AnswerSchema> {
        let schema = self.schema_for(id)?;
        let via = match model.structured {
            Structured::ForcedTool | Structured::Any if with_tools => Structured::Words,
            Structured::Any => first_way(model),
            via => via,
        };
        Some(AnswerSchema { name: "answer".to_owned(), schema, via })
    }

    /// What an answer shows of its model's manners: whether it keeps to a form, and calls tools where it is to sum up.
    pub(super) fn fold_manner(&mut self, call: &Call, reply: &ModelReply) {
        let Order::Model(order) = &call.order else { return };
        let text = reply.text();
        if order.purpose == Purpose::Compact {
            if let Some(spark) = call.spark.and_then(|id| self.sparks.get_mut(&id)) {
                spark.called_in_summary |= text.trim().is_empty();
            }
            return;
        }
        let Some(ArenaEvent::ModelCalled(called)) = self.event(order.called) else { return };
        if called.params.schema.is_some() && fit::is_json(&text) {
            self.formed.insert(order.model.clone());
        }
    }

    /// Of a server that nothing is known of: an answer that is no JSON although its form was asked for shows that the
    /// server takes no notice, so that the next way is tried, and remembered.
    pub(super) fn give_up_way(&mut self, id: SparkId, at: EventRef, text: &str) {
        let Some((sent, _)) = self.sparks.get(&id).and_then(|spark| spark.sent.as_ref()) else { return };
        let Some(ArenaEvent::ModelCalled(called)) = self.event(*sent) else { return };
        let (call, model) = (called.call, called.model.clone());
        let name = match called.params.schema.as_ref().map(|schema| schema.via) {
            Some(Structured::ResponseFormat) => FORMATS[0],
            Some(Structured::ForcedTool) => FORCED,
            _ => return,
        };
        let is_open = self.model_spec(&model).is_some_and(|row| row.structured == Structured::Any);
        // One refusal in words shows nothing of a server that was seen to hold to the form.
        if is_open && !fit::is_json(text) && !self.formed.contains(&model) {
            let names = vec![name.to_owned()];
            self.emit(ArenaEvent::ParamsDropped(ParamsDropped { call, spark: id, model, names, reason: at }));
        }
    }
}
