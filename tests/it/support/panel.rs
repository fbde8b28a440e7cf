//! A panel for debates in the pure world: what debaters and moderators answer, and drivers to the end of a turn.

use agon::protocol::Role;
use agon::protocol::effect::ModelContext;
use agon::protocol::effect::{Effect, OutcomeBody};
use agon::protocol::event::*;
use agon::protocol::message::{Part, Request};
use agon::protocol::spec::{DebatePlan, Mode, PersonaSpec, Spec};
use serde_json::{Value, json};

use super::world::*;

/// The six debaters and the moderator.
pub const DEBATERS: [&str; 6] = [
    "pragmatist",
    "security-maximalist",
    "performance-extremist",
    "elegance-purist",
    "future-architect",
    "devils-advocate",
];

/// A world's spec with all personas of a debate.
pub fn debate_spec() -> Spec {
    let mut spec = spec();
    let persona = |id: &&str| PersonaSpec {
        id: (*id).to_owned(),
        description: String::new(),
        stance: None,
        model: None,
        fallbacks: None,
        tools: None,
        temperature_pm: None,
        effort: None,
        text: format!("You are {id}."),
    };
    spec.personas.extend(DEBATERS.iter().chain(&["moderator"]).map(persona));
    spec.limits.max_steps = 1000;
    spec
}

/// A plan with the first `n` debaters.
pub fn plan(n: usize, rounds: u32) -> DebatePlan {
    DebatePlan {
        personas: DEBATERS[..n].iter().map(|id| (*id).to_owned()).collect(),
        moderator: "moderator".to_owned(),
        rounds,
        scorer: "ballots".to_owned(),
        models: vec![],
    }
}

/// The fact that opens a debate.
pub fn debate_prompt(text: &str, plan: DebatePlan) -> ArenaEvent {
    ArenaEvent::PromptGiven(PromptGiven {
        text: text.to_owned(),
        mode: Mode::Debate(plan),
        changed: vec![],
        schema: None,
        by: None,
    })
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Ballot,
    Propositions,
    Ratings,
    Statement,
    Verdict,
}

/// Reads off a request's schema what it asks for.
pub fn asked(request: &Request) -> Asked {
    asked_by(&request.params.schema.as_ref().expect("a debate's calls are typed").schema)
}

/// Reads off a schema what it asks for.
pub fn asked_by(schema: &Value) -> Asked {
    let has = |key: &str| schema["properties"].get(key).is_some();
    match () {
        () if has("ballot") => Asked::Statement,
        () if has("position") => Asked::Ballot,
        () if has("propositions") => Asked::Propositions,
        () if has("rulings") => Asked::Verdict,
        () if has("ratings") => Asked::Ratings,
        () => panic!("no schema of a debate: {schema}"),
    }
}

/// A word only this debater uses, which does not contain its name.
pub fn marker(role: &str) -> String {
    format!("zq{}z", DEBATERS.iter().position(|id| *id == role).unwrap_or(9))
}

/// A ballot in words only this debater uses.
pub fn ballot(role: &str, words: &str) -> Value {
    json!({
        "position": format!("{words} {}", marker(role)),
        "confidence": 70,
        "claims": [format!("the first reason of the {role}"), "a second reason"],
        "evidence": [{"reference": "", "shows": "common knowledge"}],
        "would_change": "a measurement",
    })
}

/// The same rating on every proposition.
pub fn ratings(all: &[i8]) -> Value {
    let one = |(n, rating): (usize, &i8)| json!({"proposition": n + 1, "rating": rating, "confidence": 80});
    Value::Array(all.iter().enumerate().map(one).collect())
}

/// A statement.
pub fn statement(role: &str, words: &str, all: &[i8]) -> Value {
    json!({"ballot": ballot(role, words), "ratings": ratings(all), "changes": []})
}

/// A verdict with a stance for each proposition.
pub fn verdict(stances: &[&str]) -> Value {
    let one = |(n, stance): (usize, &&str)| json!({"proposition": n + 1, "stance": stance, "because": "Debater A showed it", "evidence": []});
    json!({
        "answer": "Do it, behind a switch.", "confidence": 75, "minority": "Some would wait.",
        "risks": ["the switch stays for ever"],
        "rulings": stances.iter().enumerate().map(one).collect::<Vec<_>>(),
    })
}

/// Two debaters for, the others against; nobody moves. The moderator upholds the first of two propositions.
pub fn stubborn(role: &str, asked: Asked) -> ModelReply {
    let mine: [i8; 2] = match DEBATERS.iter().position(|id| *id == role) {
        Some(0 | 1) => [2, 1],
        _ => [-2, 1],
    };
    let value = match asked {
        Asked::Ballot => ballot(role, "first"),
        Asked::Propositions => json!({"propositions": ["It should be built.", "It should be tested."]}),
        Asked::Ratings => json!({"ratings": ratings(&mine)}),
        Asked::Statement => statement(role, "later", &mine),
        Asked::Verdict => verdict(&["upheld", "upheld"]),
    };
    text(&value.to_string())
}

impl World {
    /// Every open model call: call, attempt, request.
    pub fn models(&self) -> Vec<(u64, u32, Request)> {
        let open = self.session.outstanding().into_iter().filter(|open| !open.cancelled);
        open.filter_map(|open| match self.session.effect(open.call)? {
            Effect::Model { context: ModelContext { request, .. }, .. } => {
                Some((open.call.0, open.attempt, request))
            }
            _ => None,
        })
        .collect()
    }

    /// Answers every open model call of this moment, the last ordered first, and gives the requests.
    pub fn panel_says(&mut self, says: &mut dyn FnMut(&str, Asked) -> ModelReply) -> Vec<Request> {
        let open = self.models();
        for (call, attempt, request) in open.iter().rev() {
            let reply = says(&request.spark, asked(request));
            self.answer(*call, *attempt, OutcomeBody::ModelAnswered(reply));
        }
        open.into_iter().map(|(_, _, request)| request).collect()
    }

    /// Answers until the turn is over; gives the requests set by set.
    pub fn debate_to_the_end(
        &mut self,
        says: &mut dyn FnMut(&str, Asked) -> ModelReply,
    ) -> Vec<Vec<Request>> {
        let mut sets = Vec::new();
        while self.session.has_open_turn() {
            assert!(sets.len() < 100, "the debate does not end\n{}", self.story());
            let set = self.panel_says(says);
            assert!(!set.is_empty(), "nothing is asked: {:?}\n{}", self.session.outstanding(), self.story());
            sets.push(set);
            self.run_tools();
            self.check();
        }
        sets
    }

    /// Interrupts the debate; every call answers that it was cancelled.
    pub fn interrupt_debate(&mut self) {
        self.give(ArenaEvent::InterruptRequested(InterruptRequested { spark: None, call: None }));
        self.check();
        for open in self.session.outstanding() {
            self.answer(open.call.0, open.attempt, OutcomeBody::ModelFailed(failure(ErrorKind::Cancelled)));
            self.check();
        }
    }

    /// All decisions and facts that count, in order.
    pub fn events(&self) -> Vec<ArenaEvent> {
        self.log.iter().flat_map(|entry| entry.effective().map(|(_, event)| event.clone())).collect()
    }

    /// How many events there are of a kind.
    pub fn count(&self, kind: &str) -> usize {
        self.events().iter().filter(|event| event.kind() == kind).count()
    }

    /// The phases in order, the verdict last.
    pub fn phases(&self) -> Vec<String> {
        let phase = |event: &ArenaEvent| match event {
            ArenaEvent::PhaseShifted(data) => Some(data.to.clone()),
            _ => None,
        };
        self.events().iter().filter_map(phase).collect()
    }
}

/// Everything a request says but its system messages.
pub fn said(request: &Request) -> String {
    let messages = request.messages.iter().filter(|message| message.role != Role::System);
    let parts = messages.flat_map(|message| &message.parts);
    parts
        .map(|part| match part {
            Part::Text { text } => text.clone(),
            Part::Result { content, .. } => content.clone(),
            other => format!("{other:?}"),
        })
        .collect::<Vec<_>>()
        .join("\n")
}
