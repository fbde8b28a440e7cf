//! What the providers within reach offer: their lists of models, what is known of each model, one call to try one.

use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::assembly::{WireError, providers};
use crate::config::discover::is_looked_for;
use crate::config::models::Month;
use crate::config::providers::PRESETS;
use crate::config::{Config, ConfigError, Connection, ModelName};
use crate::ports::{OfferedModel, Provider};
use crate::protocol::event::{ErrorKind, ModelFailed, ModelReply};
use crate::protocol::message::{Message, Params, Part, Pictures, Request, Role, Structured, ToolDecl};
use crate::protocol::spec::{Price, TOOLS};

/// How long a hosted service may take to list its models, and a server on this machine.
const PATIENCE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(2));

/// How long the one call may take that tries a model: a local one is loaded first.
const TRIAL: Duration = Duration::from_secs(180);

/// Tokens the model that is tried may write: one that thinks needs some before its first word.
const TRIAL_OUTPUT: u64 = 2048;

/// A provider within reach, and what it lists.
#[derive(Clone, Debug)]
pub struct Offer {
    /// Its name.
    pub provider: String,
    /// Why it is within reach.
    pub why: String,
    /// Its models, or why it lists none.
    pub models: Result<Vec<OfferedModel>, String>,
}

impl Offer {
    /// Its models that hold conversations.
    pub fn chats(&self) -> impl Iterator<Item = &OfferedModel> + Clone {
        self.models.iter().flatten().filter(|model| !model.has_no_chat)
    }

    /// The model to offer first, and the shipped default it replaces where the list no longer has that one.
    pub fn default(&self, config: &Config) -> Option<(ModelName, Option<ModelName>)> {
        let known = config.known_models();
        let name = |model: &str| ModelName { provider: self.provider.clone(), model: model.to_owned() };
        let ids = self.chats().map(|model| model.id.as_str());
        let Some(model) = known.default_among(&self.provider, ids).map(name) else {
            // A provider without a list may have the shipped default all the same.
            return known.default_of(&self.provider).map(|model| (model, None));
        };
        let gone = known.default_of(&self.provider).filter(|shipped| *shipped != model);
        Some((model, gone))
    }
}

/// Asks every provider within reach for its list, all at once: those with a key, those of the configuration, and
/// servers that answer on this machine. `only` names one, which is asked in any case.
pub async fn offers(config: &Config, only: Option<&str>) -> Vec<Offer> {
    let presets = PRESETS.iter().map(|preset| preset.name);
    let own = config.file().providers.keys().map(String::as_str);
    let mut seen = BTreeSet::new();
    let names = presets.chain(own).chain(only).filter(|name| seen.insert(*name));
    let names = names.filter(|name| only.is_none_or(|only| only == *name));
    join_all(names.map(|name| offer(config, name, only.is_some()))).await.into_iter().flatten().collect()
}

async fn offer(config: &Config, name: &str, is_asked_for: bool) -> Option<Offer> {
    let is_written = config.file().providers.contains_key(name) || is_asked_for;
    let offer = |why: String, models| Some(Offer { provider: name.to_owned(), why, models });
    let server = match providers::reach(config, name) {
        Ok(server) => server,
        Err(WireError::Config(ConfigError::NoKey { .. }) | WireError::NotBuilt { .. }) if !is_written => {
            return None;
        }
        Err(error) => return offer(String::new(), Err(said(&error))),
    };
    let connection = config.connection(name).ok()?;
    let (url, is_local) = match &connection {
        Connection::Http { base_url, .. } => (base_url, connection.is_local()),
        Connection::Files { folder, .. } => {
            let models = server.models().await.map_err(|failed| failed.message);
            let is_empty = models.as_ref().is_ok_and(Vec::is_empty);
            return (is_written || !is_empty).then(|| offer(format!("in {}", folder.display()), models))?;
        }
        Connection::Script { .. } => return is_asked_for.then(|| offer(String::new(), Ok(Vec::new())))?,
    };
    if is_local && !is_written && !is_looked_for(config, name) {
        return None;
    }
    let patience = if is_local { PATIENCE.1 } else { PATIENCE.0 };
    let models = match tokio::time::timeout(patience, server.models()).await {
        Ok(listed) => listed.map_err(|failed| failed.message),
        Err(_) => Err(format!("`{name}` listed no models within {} s", patience.as_secs())),
    };
    if models.is_err() && is_local && !is_written {
        return None;
    }
    let why = match config.key_source(name) {
        Some(source) => source.to_string(),
        None => format!("at {}", crate::config::providers::without_credentials(url)),
    };
    offer(why, models)
}

/// An error with its hint, in one line.
fn said(error: &WireError) -> String {
    let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
    format!("{error}{hint}")
}

/// Where a fact about a model comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactSource {
    /// The user's configuration.
    Configuration,
    /// The table that ships with agon, as published in this month.
    Shipped(Month),
    /// The model's server.
    Server,
    /// agon's guess.
    Assumed,
}

impl fmt::Display for FactSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FactSource::Configuration => f.write_str("configuration"),
            FactSource::Shipped(month) => write!(f, "shipped table, {month}"),
            FactSource::Server => f.write_str("server"),
            FactSource::Assumed => f.write_str("assumed"),
        }
    }
}

/// A value and where it comes from; none where it is unknown.
pub type Fact<T> = Option<(T, FactSource)>;

/// What is known of one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFacts {
    /// Input and output together, in tokens.
    pub context: Fact<u64>,
    /// Most output of one answer, in tokens.
    pub max_output: Fact<u64>,
    /// Its price.
    pub price: Fact<Price>,
    /// It can call tools.
    pub tools: Fact<bool>,
    /// It takes images.
    pub images: Fact<bool>,
    /// It thinks before it answers.
    pub thinks: Fact<bool>,
    /// How typed answers are asked for.
    pub structured: Fact<Structured>,
    /// Parameters it refuses.
    pub refuses: Vec<String>,
}

/// What is known of a model, with what its server says of it. The order of the sources is that of a session.
pub fn facts(
    config: &Config,
    name: &ModelName,
    offered: Option<&OfferedModel>,
) -> Result<ModelFacts, ConfigError> {
    let spec = config.model_spec(name)?;
    let written = config.file().models.get(&name.to_string()).cloned().unwrap_or_default();
    let shipped = config.known_models().as_of(name);
    let offered = offered.cloned().unwrap_or_default();
    let own = |is_written: bool| match is_written {
        true => Some(FactSource::Configuration),
        false => shipped.map(FactSource::Shipped),
    };
    let guess = if offered.is_context_assumed { FactSource::Assumed } else { FactSource::Server };
    let server = |value| Some((value, FactSource::Server));
    let context = own(written.context.is_some()).map(|source| (spec.context, source));
    let max_output = own(written.max_output.is_some()).map(|source| (spec.max_output, source));
    let price = own(written.price.is_some()).and_then(|source| Some((spec.price?, source)));
    let images = own(written.images.is_some()).map(|source| (spec.images, source));
    // No other model is in the table.
    let tools = shipped.map(|month| (true, FactSource::Shipped(month)));
    let structured = own(written.structured.is_some()).map(|source| (spec.structured, source));
    Ok(ModelFacts {
        context: context.or(offered.context.map(|context| (context, guess))),
        max_output: max_output.or(offered.max_output.and_then(server)),
        price: price
            .or(offered.price.map(|price| (price, FactSource::Server)))
            .or(spec.price.map(|price| (price, FactSource::Assumed))),
        tools: offered.tools.map(|can| (can, FactSource::Server)).or(tools),
        images: images.or(offered.images.map(|can| (can, FactSource::Server))),
        thinks: offered.thinks.map(|can| (can, FactSource::Server)),
        structured: structured.or(Some((spec.structured, FactSource::Assumed))),
        refuses: spec.refuses,
    })
}

/// What a model's server says of it; none where it says nothing in time.
pub async fn described(config: &Config, name: &ModelName) -> Result<Option<OfferedModel>, WireError> {
    if providers::is_builtin(config, &name.provider) {
        let words =
            format!("`{name}` is no model: it repeats what was recorded, without a window or a price");
        return Err(WireError::Provider(words));
    }
    let server = match providers::reach(config, &name.provider) {
        // What ships with agon needs no key to be shown.
        Err(WireError::Config(ConfigError::NoKey { .. })) if config.known_models().as_of(name).is_some() => {
            return Ok(None);
        }
        server => server?,
    };
    Ok(tokio::time::timeout(PATIENCE.0, server.model(&name.model)).await.ok().flatten())
}

/// What came of one real call.
#[derive(Clone, Debug)]
pub struct Trial {
    /// What the model said; empty where it only thought.
    pub answer: String,
    /// The model that answered.
    pub model: String,
    /// How long it took.
    pub took: Duration,
}

/// Makes one real call to a model. Parameters it refuses are left out, as in a session.
pub async fn try_model(config: &Config, name: &ModelName) -> Result<Trial, WireError> {
    let server = providers::reach(config, &name.provider)?;
    let text = "This is a test of the connection. Answer with the one word: ready".to_owned();
    // What an agent's request has: a model that cannot call tools refuses it here and not at the first task.
    let tool = ToolDecl {
        name: "note".to_owned(),
        description: "Keeps a note. Not needed for this test.".to_owned(),
        schema: json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}),
    };
    let mut request = Request {
        spark: String::new(),
        model: name.to_string(),
        params: Params { max_output: Some(TRIAL_OUTPUT), ..Params::default() },
        messages: vec![
            Message {
                role: Role::User,
                from: crate::protocol::EventRef::fact(0),
                parts: vec![Part::Text { text }],
            }
            .into(),
        ],
        tools: vec![tool.into()],
        pictures: Pictures::default(),
    };
    let begun = Instant::now();
    let mut reply = call(&*server, &request).await;
    // A model that cannot call tools only talks: that is for the user to know before it is written down.
    while let Err(failed) = &reply
        && failed.refused.iter().any(|name| !request.params.without.contains(name))
        && !failed.refused.iter().any(|name| name == TOOLS)
    {
        request.params.without.extend(failed.refused.clone());
        reply = call(&*server, &request).await;
    }
    let reply = reply.map_err(|failed| WireError::Provider(failed.message))?;
    Ok(Trial { answer: reply.text().trim().to_owned(), model: reply.model, took: begun.elapsed() })
}

async fn call(server: &dyn Provider, request: &Request) -> Result<ModelReply, ModelFailed> {
    let cancel = CancellationToken::new();
    match tokio::time::timeout(TRIAL, server.call(request, &(), &cancel)).await {
        Ok(reply) => reply,
        Err(_) => {
            let words = format!("`{}` did not answer within {} s", request.model, TRIAL.as_secs());
            Err(ModelFailed::new(ErrorKind::Timeout, words))
        }
    }
}
