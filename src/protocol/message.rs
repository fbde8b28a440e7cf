//! What models are sent and what they answer, in agon's own words; knows no provider's wire format.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::protocol::EventRef;
use crate::protocol::request_digest::{Chain, of_tool, of_words};
use crate::protocol::spec::ToolSpec;
use crate::protocol::stored::stored;

stored! {
    /// Who speaks in a message.
    #[derive(Copy, Eq)]
    pub enum Role of Word {
        /// The persona, the instructions.
        System,
        /// The person, another spark's routed words, agon's own notices.
        User,
        /// The model.
        Assistant,
        /// The result of a tool call.
        Tool,
    }
}

stored! {
    /// A piece of a message.
    pub enum Part of Foreign {
        /// Plain text.
        Text {
            /// The text itself.
            text: String,
        },
        /// The model's thinking, with what the provider needs back to accept it again.
        Reasoning {
            /// Readable thinking; may be empty.
            text: String,
            /// Signature or encrypted form, sent back unchanged.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            opaque: Option<Opaque>,
        },
        /// A tool call the model asks for.
        Call {
            /// The provider's id: data, never a key (two calls may carry the same one).
            id: String,
            /// Tool name as the model wrote it.
            name: String,
            /// Arguments as the model wrote them.
            args: Args,
        },
        /// The result of a tool call, as sent to the model.
        Result {
            /// The provider's id of the call it answers.
            id: String,
            /// Tool name.
            name: String,
            /// Text for the model, starting with its own reference, `[e42]`.
            content: String,
            /// True when the call did not succeed.
            is_error: bool,
        },
        /// A picture, by reference.
        Image(ImagePart),
        /// Anything else a provider needs to see again.
        Opaque(Opaque),
    }
}

/// A picture by reference; its bytes are a blob next to the log. Without the blob, and to models that take no pictures,
/// its words are sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImagePart {
    /// SHA-256 of its bytes, hex; the blob's name.
    pub sha256: String,
    /// Its MIME type.
    pub mime: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// Pixels from left to right.
    pub width: u32,
    /// Pixels from top to bottom.
    pub height: u32,
    /// What it shows, for readers without pictures.
    pub words: String,
}

impl ImagePart {
    /// What readers without pictures are given.
    pub fn shown_as_words(&self) -> String {
        format!("[{} of {}×{}: {}]", self.mime, self.width, self.height, self.words)
    }
}

/// The bytes of a request's pictures, read when they are sent. Default: none can be read.
#[derive(Clone, Default)]
pub struct Pictures(Option<Arc<ReadPicture>>);

type ReadPicture = dyn Fn(&str) -> Option<Vec<u8>> + Send + Sync;

impl Pictures {
    /// Read with this, by their SHA-256.
    pub fn read_with(read: impl Fn(&str) -> Option<Vec<u8>> + Send + Sync + 'static) -> Self {
        Pictures(Some(Arc::new(read)))
    }

    /// The bytes of one; none where they cannot be read, or the model takes no pictures.
    pub fn bytes_of(&self, image: &ImagePart) -> Option<Vec<u8>> {
        self.0.as_ref()?(&image.sha256)
    }
}

impl fmt::Debug for Pictures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pictures").field(&self.0.is_some()).finish()
    }
}

impl PartialEq for Pictures {
    /// Always: what a request says does not depend on how its pictures are read.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// Foreign content that is passed back unchanged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Opaque {
    /// The provider kind that understands it.
    pub provider: String,
    /// Its JSON, number text included.
    pub json: Value,
    /// True when redaction had to drop the content.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dropped: bool,
}

stored! {
    /// Arguments of a tool call.
    pub enum Args of Foreign {
        /// Arguments that parsed as JSON.
        Json(Value),
        /// Text that did not parse, kept as it came.
        Broken(String),
    }
}

impl Args {
    /// As text: JSON as agon writes it, everything else as it came.
    pub fn text(&self) -> String {
        match self {
            Args::Json(value) => value.to_string(),
            Args::Broken(text) => text.clone(),
            Args::Unknown(unknown) => unknown.raw().to_string(),
        }
    }
}

/// One message of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
    pub parts: Vec<Part>,
    /// The event it was made from; never sent to a model.
    pub from: EventRef,
}

/// Tokens a call used, as the provider counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Usage {
    /// Input tokens, cached ones included.
    pub input: u64,
    /// Input tokens read from the provider's cache.
    pub cached: u64,
    /// Input tokens written to the provider's cache, where it bills that apart.
    #[serde(skip_serializing_if = "is_none")]
    pub written: u64,
    /// Output tokens, thinking included.
    pub output: u64,
    /// Output tokens spent on thinking.
    pub reasoning: u64,
    /// True when the provider named no usage and agon counted.
    pub estimated: bool,
}

fn is_none(tokens: &u64) -> bool {
    *tokens == 0
}

impl Usage {
    /// The most that a call with this input and output can be: all input written to the provider's cache.
    pub fn at_most(input: u64, output: u64) -> Self {
        Usage { input, written: input, output, ..Usage::default() }
    }

    /// Input and output together.
    pub fn total(&self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

stored! {
    /// Why a model stopped.
    #[derive(Eq)]
    pub enum Finish of Foreign {
        /// It was done.
        Stop,
        /// It asks for tools.
        ToolCalls,
        /// It ran into the output limit.
        Length,
        /// The provider filtered it.
        Filtered,
        /// It refused.
        Refused,
        /// A word this program does not know, kept as it came.
        Other(String),
    }
}

impl Finish {
    /// True where the answer was ended or held back for what it says.
    pub fn is_withheld(&self) -> bool {
        matches!(self, Finish::Filtered | Finish::Refused)
    }
}

/// How a call is made, apart from what is said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Params {
    /// Sampling temperature in thousandths; the provider's default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_pm: Option<u32>,
    /// Upper bound on output tokens; the provider's default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output: Option<u64>,
    /// JSON Schema the answer must fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<AnswerSchema>,
    /// False asks the provider not to think (after a thinking part had to be dropped).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<bool>,
    /// How much the model thinks; the provider's default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// Parameters of the wire format that are left out, since the model refuses them. Where a parameter has two names,
    /// only the other one is sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
}

stored! {
    /// How much a model thinks before it answers, from the least.
    #[derive(Copy, Eq, PartialOrd, Ord)]
    pub enum Effort of Word {
        /// Little: fast and cheap.
        Low,
        /// What most models do by themselves.
        Medium,
        /// Much: slow and expensive.
        High,
    }
}

impl Effort {
    /// The efforts by their words.
    pub const ALL: [(&'static str, Effort); 3] =
        [("low", Effort::Low), ("medium", Effort::Medium), ("high", Effort::High)];

    /// The effort of a word.
    pub fn named(word: &str) -> Option<Effort> {
        Self::ALL.iter().find(|(name, _)| *name == word).map(|(_, effort)| *effort)
    }

    /// The lower of two. A model that is asked for none does about as much as with `medium`.
    pub fn lower(one: Option<Effort>, other: Option<Effort>) -> Option<Effort> {
        let much = |effort: Option<Effort>| effort.unwrap_or(Effort::Medium);
        if much(one) <= much(other) { one } else { other }
    }

    /// Its word, on every wire and in every file.
    pub fn word(self) -> &'static str {
        match self {
            Effort::Unknown(word) => word.text(),
            known => Self::ALL.iter().find(|(_, effort)| *effort == known).map_or("", |(name, _)| name),
        }
    }
}

/// The schema of a typed answer and how the provider is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AnswerSchema {
    /// Short name, letters, digits and underscores.
    pub name: String,
    /// The JSON Schema.
    pub schema: Value,
    /// How the model is held to it.
    pub via: Structured,
}

stored! {
    /// How a provider can be held to a schema.
    #[derive(Copy, Default, Eq)]
    pub enum Structured of Word {
        /// The provider's own response format.
        ResponseFormat,
        /// The provider's response format for any JSON object; the schema is asked for in words.
        JsonObject,
        /// One tool the model is forced to call.
        ForcedTool,
        /// Unknown: the schema is asked for in words, and each of these ways is tried until the model refuses it or
        /// is seen to take no notice. A request never has it.
        Any,
        /// Only asked for in words, then checked.
        #[default]
        Words,
    }
}

/// A tool as a model is told of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolDecl {
    /// Name.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of the arguments.
    pub schema: Value,
}

impl From<&ToolSpec> for ToolDecl {
    fn from(spec: &ToolSpec) -> Self {
        ToolDecl {
            name: spec.name.clone(),
            description: spec.description.clone(),
            schema: spec.schema.clone(),
        }
    }
}

/// A whole request, as [`crate::protocol::expand`] makes it and a provider sends it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Request {
    /// Role label of the asking spark; never sent to a model and no part of the digest. Empty when unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub spark: String,
    /// `PROVIDER/MODEL`, split at the first slash.
    pub model: String,
    /// How the call is made.
    pub params: Params,
    /// What is said. Requests of one conversation share their messages.
    pub messages: Vec<Arc<Message>>,
    /// The tools offered.
    pub tools: Vec<Arc<ToolDecl>>,
    /// How its pictures are read; no part of the digest, and never crosses a wire.
    #[serde(skip)]
    pub pictures: Pictures,
}

impl Request {
    /// SHA-256 over what is sent, in hex: equal requests have equal digests whatever events they came from.
    pub fn digest(&self) -> String {
        let begun = Chain::default();
        let said = self.messages.iter().fold(begun, |chain, one| chain.with(one.role, &of_words(&one.parts)));
        let tools: Vec<String> = self.tools.iter().map(|tool| of_tool(tool)).collect();
        said.request(&self.model, &self.params, &tools.iter().map(String::as_str).collect::<Vec<_>>())
    }
}
