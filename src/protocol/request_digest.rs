//! The digest of a request, computed message by message: a later request continues from what an earlier one came to.

use crate::protocol::expand::digest_of;
use crate::protocol::message::{Params, Part, Role, ToolDecl};

/// What the first messages of a request come to. It depends on their words, never on the events that hold them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain(String);

impl Default for Chain {
    /// Before the first message.
    fn default() -> Self {
        Chain(digest_of(&"agon-request-2"))
    }
}

impl Chain {
    /// The same with one more message, whose words have this digest.
    #[must_use]
    pub fn with(&self, role: Role, words: &str) -> Self {
        Chain(digest_of(&(&self.0, role, words)))
    }

    /// The digest of the request these messages are sent with; each tool by its own digest.
    pub fn request(&self, model: &str, params: &Params, tools: &[&str]) -> String {
        digest_of(&(model, params, tools, &self.0))
    }
}

/// The digest of what a message says.
pub fn of_words(parts: &[Part]) -> String {
    digest_of(&parts)
}

/// The digest of a tool's declaration.
pub fn of_tool(tool: &ToolDecl) -> String {
    digest_of(tool)
}
