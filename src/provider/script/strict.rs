//! Refuses requests that real APIs refuse; knows nothing of scripts.

use std::collections::BTreeSet;

use crate::protocol::message::{Message, Part, Request, Role};

/// Checks a whole request; the error says which message is wrong and why.
///
/// `recorded` ids come from real providers, which repeat themselves between turns: there each id only has
/// to find its result.
pub(super) fn check(request: &Request, recorded: bool) -> Result<(), String> {
    if request.messages.is_empty() {
        return Err("the request has no messages".to_owned());
    }
    if let Some(tool) = request.tools.iter().find(|tool| !tool.schema.is_object()) {
        return Err(format!("the schema of tool `{}` is not an object", tool.name));
    }
    let mut names = BTreeSet::new();
    if let Some(tool) = request.tools.iter().find(|tool| !names.insert(&tool.name)) {
        return Err(format!("tool `{}` is declared twice", tool.name));
    }
    let mut conversation = Conversation { recorded, ..Conversation::default() };
    for (at, message) in request.messages.iter().enumerate() {
        conversation.message(message).map_err(|what| format!("message {at} {what}"))?;
    }
    conversation.settled().map_err(|what| format!("the request {what}"))
}

#[derive(Default)]
struct Conversation<'a> {
    recorded: bool,
    seen: BTreeSet<&'a str>,
    /// Calls of the last assistant message that have no result yet.
    open: Vec<&'a str>,
}

impl<'a> Conversation<'a> {
    fn message(&mut self, message: &'a Message) -> Result<(), String> {
        if !message.parts.iter().any(says_something) {
            return Err("is empty".to_owned());
        }
        if message.role != Role::Tool {
            self.settled()?;
        }
        message.parts.iter().try_for_each(|part| self.part(message.role, part))
    }

    fn part(&mut self, role: Role, part: &'a Part) -> Result<(), String> {
        match (role, part) {
            (Role::Assistant, Part::Call { id, name, .. }) => self.call(id, name),
            (_, Part::Call { name, .. }) => Err(format!("calls `{name}`, which only an assistant can")),
            (Role::Tool, Part::Result { id, .. }) => self.result(id),
            (_, Part::Result { id, .. }) => {
                Err(format!("has a result for call `{id}` outside a tool message"))
            }
            _ => Ok(()),
        }
    }

    fn call(&mut self, id: &'a str, name: &str) -> Result<(), String> {
        if name.is_empty() {
            return Err("has a call without a tool's name".to_owned());
        }
        if !self.recorded && id.is_empty() {
            return Err(format!("has a call of `{name}` without an id"));
        }
        if !self.seen.insert(id) && !self.recorded {
            return Err(format!("has a second call with the id `{id}`"));
        }
        self.open.push(id);
        Ok(())
    }

    fn result(&mut self, id: &str) -> Result<(), String> {
        match self.open.iter().position(|open| *open == id) {
            Some(at) => {
                self.open.remove(at);
                Ok(())
            }
            None => {
                Err(format!("is a result for call `{id}`, which the last assistant message does not ask for"))
            }
        }
    }

    fn settled(&self) -> Result<(), String> {
        match self.open.first() {
            Some(id) => Err(format!("lacks the result of call `{id}` before it goes on or ends")),
            None => Ok(()),
        }
    }
}

fn says_something(part: &Part) -> bool {
    match part {
        Part::Text { text } => !text.is_empty(),
        // A result may be empty: the command said nothing.
        Part::Call { .. } | Part::Result { .. } | Part::Image(_) | Part::Opaque(_) => true,
        Part::Reasoning { text, opaque } => !text.is_empty() || opaque.is_some(),
        Part::Unknown(_) => false,
    }
}
