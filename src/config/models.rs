//! What is known of models: names, capability rows and prices; talks to nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use crate::config::ConfigError;
use crate::config::file::{ModelTable, PriceTable};
use crate::config::successor::{nearest, successor};
use crate::protocol::message::Structured;
use crate::protocol::spec::{ModelSpec, Price};

/// Context window of a model nothing is known of, in tokens.
pub const UNKNOWN_CONTEXT: u64 = 128_000;

/// The month in which numbers of the embedded table were published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Month(u16, u8);

impl TryFrom<String> for Month {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let read =
            text.split_once('-').and_then(|(year, month)| Some((year.parse().ok()?, month.parse().ok()?)));
        let month = read.filter(|(_, month)| (1..=12).contains(month));
        month.map(|(year, month)| Month(year, month)).ok_or(format!("`{text}` is no month such as `2026-11`"))
    }
}

impl fmt::Display for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.0, self.1)
    }
}

/// Output limit of a model nothing is known of, in tokens.
pub const UNKNOWN_MAX_OUTPUT: u64 = 8_192;

/// `PROVIDER/MODEL`, split at the first slash.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModelName {
    /// Name of the provider's table or preset.
    pub provider: String,
    /// The model as the provider names it; may contain slashes.
    pub model: String,
}

/// A text that is not `PROVIDER/MODEL`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a model name of the form `PROVIDER/MODEL`")]
pub struct BadModelName(pub String);

impl FromStr for ModelName {
    type Err = BadModelName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('/') {
            Some((provider, model)) if !provider.is_empty() && !model.is_empty() => {
                Ok(ModelName { provider: provider.to_owned(), model: model.to_owned() })
            }
            _ => Err(BadModelName(text.to_owned())),
        }
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

/// One row of the embedded table.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownModel {
    #[serde(default)]
    default: bool,
    as_of: Month,
    family: Option<String>,
    context: u64,
    max_output: u64,
    price: Option<PriceTable>,
    #[serde(default)]
    refuses: Vec<String>,
    #[serde(default)]
    images: bool,
    structured: Structured,
}

/// The embedded table of well-known models, by provider and model.
#[derive(Clone, Debug)]
pub struct KnownModels(BTreeMap<String, BTreeMap<String, KnownModel>>);

impl KnownModels {
    /// Reads the table.
    pub fn embedded() -> Result<Self, ConfigError> {
        let table = toml::from_str(include_str!("models.toml"));
        table.map(KnownModels).map_err(|error| ConfigError::Internal(error.to_string()))
    }

    /// Every model of the table.
    pub fn names(&self) -> impl Iterator<Item = ModelName> + '_ {
        self.0.iter().flat_map(|(provider, models)| {
            models.keys().map(|model| ModelName { provider: provider.clone(), model: model.clone() })
        })
    }

    /// When the numbers of a model of the table were published.
    pub fn as_of(&self, name: &ModelName) -> Option<Month> {
        self.0.get(&name.provider)?.get(&name.model).map(|known| known.as_of)
    }

    /// The model taken when only the provider's key is found.
    pub fn default_of(&self, provider: &str) -> Option<ModelName> {
        let (model, _) = self.0.get(provider)?.iter().find(|(_, known)| known.default)?;
        Some(ModelName { provider: provider.to_owned(), model: model.clone() })
    }

    /// The default of a provider that lists these models: the shipped one, or what took its place.
    pub fn default_among<'a>(
        &self,
        provider: &str,
        listed: impl Iterator<Item = &'a str> + Clone,
    ) -> Option<&'a str> {
        let own = self.default_of(provider);
        let gone = own.as_ref().map(|name| name.model.as_str());
        let same = gone.and_then(|gone| listed.clone().find(|name| *name == gone));
        same.or_else(|| successor(gone?, listed.clone()))
            .or_else(|| nearest(gone?, listed.clone()))
            .or_else(|| listed.clone().next())
    }

    /// A model's rows: what the user wrote, else what is known, else careful guesses and no price.
    /// What runs on this machine (`is_free`) costs nothing unless the user says otherwise; typed answers are asked for in
    /// the provider's way (`usual`) where the model has no row.
    /// What it refuses is what the user wrote, else what is known and what was `learnt` together.
    pub fn spec(
        &self,
        name: &ModelName,
        written: Option<&ModelTable>,
        learnt: &[String],
        (is_free, usual): (bool, Structured),
    ) -> ModelSpec {
        let known = self.0.get(&name.provider).and_then(|models| models.get(&name.model));
        let unwritten = ModelTable::default();
        let written = written.unwrap_or(&unwritten);
        let free = Price { input: 0, cached: 0, written: None, output: 0 };
        let price = written.price.or(known.and_then(|known| known.price)).map(price_of);
        let known_refusals = known.iter().flat_map(|known| &known.refuses);
        let refusals: BTreeSet<&String> = known_refusals.chain(learnt).collect();
        ModelSpec {
            name: name.to_string(),
            family: written.family.clone().or_else(|| known.and_then(|known| known.family.clone())),
            context: written.context.or(known.map(|known| known.context)).unwrap_or(UNKNOWN_CONTEXT),
            max_output: written
                .max_output
                .or(known.map(|known| known.max_output))
                .unwrap_or(UNKNOWN_MAX_OUTPUT),
            price: price.or(is_free.then_some(free)),
            structured: written.structured.or(known.map(|known| known.structured)).unwrap_or(usual),
            temperature_pm: written.temperature.and_then(|temperature| temperature.0.try_into().ok()),
            refuses: written.refuses.clone().unwrap_or_else(|| refusals.into_iter().cloned().collect()),
            images: written.images.or(known.map(|known| known.images)).unwrap_or_default(),
            fallbacks: written.fallbacks.clone().unwrap_or_default(),
            fallbacks_on: written.fallbacks_on.clone(),
        }
    }
}

fn price_of(table: PriceTable) -> Price {
    let cached = table.cached.unwrap_or(table.input);
    let written = table.written.map(|price| price.0);
    Price { input: table.input.0, cached: cached.0, written, output: table.output.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> ModelName {
        text.parse().unwrap()
    }

    #[test]
    fn names_split_at_the_first_slash() {
        let parsed = name("openrouter/openai/gpt-5");
        assert_eq!((parsed.provider.as_str(), parsed.model.as_str()), ("openrouter", "openai/gpt-5"));
        for bad in ["", "gpt-5", "/gpt-5", "openai/"] {
            assert!(bad.parse::<ModelName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_embedded_table_reads_and_each_provider_has_one_default() {
        let known = KnownModels::embedded().unwrap();
        for (provider, models) in &known.0 {
            assert_eq!(models.values().filter(|known| known.default).count(), 1, "{provider}");
        }
    }

    #[test]
    fn the_users_row_covers_what_is_known_value_by_value() {
        let known = KnownModels::embedded().unwrap();
        let written = ModelTable { max_output: Some(1_000), ..ModelTable::default() };
        let spec = known.spec(&name("openai/gpt-5"), Some(&written), &[], (false, Structured::Any));
        assert_eq!((spec.context, spec.max_output), (400_000, 1_000));
        assert_eq!(
            spec.price,
            Some(Price { input: 1_250_000, cached: 125_000, written: None, output: 10_000_000 })
        );
    }

    #[test]
    fn of_an_unknown_model_little_is_promised_and_no_price() {
        let known = KnownModels::embedded().unwrap();
        let spec = known.spec(&name("openai/new"), None, &[], (false, Structured::Any));
        assert_eq!((spec.context, spec.max_output, spec.price), (128_000, 8_192, None));
        assert_eq!(spec.structured, Structured::Any);
        let local = known.spec(&name("ollama/qwen"), None, &[], (true, Structured::Any));
        assert_eq!(local.price, Some(Price { input: 0, cached: 0, written: None, output: 0 }));
    }
}
