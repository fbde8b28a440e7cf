//! What a server says of the models it offers.

use serde::Serialize;

use crate::protocol::spec::Price;

/// A model as its server describes it. What the server does not say is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OfferedModel {
    /// Its name at the provider.
    pub id: String,
    /// Input and output together, in tokens.
    pub context: Option<u64>,
    /// True where the server may load the model with another window than `context`.
    pub is_context_assumed: bool,
    /// Most output of one answer, in tokens.
    pub max_output: Option<u64>,
    /// It can call tools.
    pub tools: Option<bool>,
    /// It takes images.
    pub images: Option<bool>,
    /// It thinks before it answers.
    pub thinks: Option<bool>,
    /// Its price.
    pub price: Option<Price>,
    /// True for a model that takes no conversation: embeddings, speech, pictures.
    pub has_no_chat: bool,
}
