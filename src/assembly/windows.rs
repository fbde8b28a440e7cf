//! Finds out the windows of models that neither agon nor the user has a number for, and whether they take pictures: the
//! server is asked.

use std::time::Duration;

use futures_util::future::join_all;

use crate::assembly::providers;
use crate::config::learnt::{Learnt, server_of};
use crate::config::models::UNKNOWN_MAX_OUTPUT;
use crate::config::{Config, Connection, ModelName};
use crate::protocol::spec::{ModelSpec, Setting, Spec};
use crate::protocol::text::grouped;

/// How long a server may take to tell.
const PATIENCE: Duration = Duration::from_secs(1);

/// Tokens that a model on this machine is taken to hold where its server does not tell.
const LOCAL_CONTEXT: u64 = 8_192;

/// Tokens that a verdict needs beside the ballots of a panel.
const LEAST_OF_DEBATE: u64 = 8_192;

/// A line for each model whose window a debate will probably not fit into.
pub(super) fn too_small_for_a_debate(models: &[ModelSpec]) -> impl Iterator<Item = String> {
    models.iter().filter(|model| model.context < LEAST_OF_DEBATE).map(|ModelSpec { name, context, .. }| {
        let (context, least) = (grouped(*context), grouped(LEAST_OF_DEBATE));
        format!(
            "`{name}` holds {context} tokens; a debate may need {least} for its verdict: ask fewer personas, or load the model \
             with a larger window"
        )
    })
}

/// Completes these models; gives a line for each whose window is assumed, and for each that was seen to call no tools.
pub(super) async fn complete(config: &Config, models: impl Iterator<Item = &mut ModelSpec>) -> Vec<String> {
    join_all(models.map(|model| one(config, model))).await.into_iter().flatten().collect()
}

/// The same for the models that settings bring in, and for the spec with them applied.
pub(super) async fn complete_settings(
    config: &Config,
    settings: &mut [Setting],
    spec: &mut Spec,
) -> Vec<String> {
    let models = settings.iter_mut().filter_map(|setting| match setting {
        Setting::Model { spec, .. } => Some(spec),
        _ => None,
    });
    let notes = complete(config, models).await;
    for setting in settings {
        if let Setting::Model { spec: new, .. } = setting
            && let Some(row) = spec.models.iter_mut().find(|row| row.name == new.name)
        {
            row.clone_from(new);
        }
    }
    notes
}

/// The models whose window was only assumed and is known by now: some servers choose it as they load a model.
pub(super) async fn known_by_now(config: &Config, spec: &mut Spec) -> Vec<Setting> {
    let learnt = Learnt::read(&config.places().learnt()).unwrap_or_default();
    let asked = spec.models.iter().map(|model| again(config, &learnt, model));
    let known = join_all(asked).await.into_iter().enumerate();
    let known = known.filter_map(|(i, model)| Some(Setting::Model { spec: model?, default: i == 0 }));
    let known: Vec<Setting> = known.collect();
    known.iter().for_each(|setting| spec.set(setting));
    known
}

async fn again(config: &Config, learnt: &Learnt, model: &ModelSpec) -> Option<ModelSpec> {
    let asked = Asked::of(config, model)?;
    learnt.assumed(&model.name, &asked.server).filter(|context| *context == model.context)?;
    let mut now = model.clone();
    (asked.complete(config, &mut now).await && now != *model).then_some(now)
}

async fn one(config: &Config, model: &mut ModelSpec) -> Vec<String> {
    let assumed = note_of_window(config, model).await;
    let talks =
        (!model.calls_tools()).then(|| format!("`{}` cannot call tools: it can only talk", model.name));
    assumed.into_iter().chain(talks).collect()
}

async fn note_of_window(config: &Config, model: &mut ModelSpec) -> Option<String> {
    let asked = Asked::of(config, model)?;
    let is_sure = asked.complete(config, model).await;
    // One note is enough; where it cannot be kept, it is shown again.
    let assumed = || Learnt::assume(&config.places().learnt(), &model.name, &asked.server, model.context);
    (!is_sure && assumed().unwrap_or(true)).then(|| {
        let (name, context) = (&model.name, grouped(model.context));
        format!(
            "the window of `{name}` is unknown: agon assumes {context} tokens; set `context` in [models.\"{name}\"]"
        )
    })
}

/// A model that only its server knows, and the server.
struct Asked {
    name: ModelName,
    connection: Connection,
    server: String,
}

impl Asked {
    /// None where agon or the user has a number for its window.
    fn of(config: &Config, model: &ModelSpec) -> Option<Self> {
        let name: ModelName = model.name.parse().ok()?;
        let written = config.file().models.get(&model.name).and_then(|written| written.context);
        if written.is_some() || config.known_models().as_of(&name).is_some() {
            return None;
        }
        let connection = config.connection(&name.provider).ok()?;
        let server = match &connection {
            Connection::Script { .. } => return None,
            Connection::Http { base_url, .. } => server_of(base_url),
            _ => String::new(),
        };
        Some(Asked { name, connection, server })
    }

    /// Asks the server; true when it knows the window.
    async fn complete(&self, config: &Config, model: &mut ModelSpec) -> bool {
        let Ok(server) = providers::reach(config, &self.name.provider) else { return true };
        let told = tokio::time::timeout(PATIENCE, server.model(&self.name.model)).await.ok().flatten();
        let told = told.unwrap_or_default();
        let written = config.file().models.get(&model.name);
        model.context = match told.context {
            Some(context) => context,
            None if self.connection.is_local() => LOCAL_CONTEXT,
            None => model.context,
        };
        if written.is_none_or(|written| written.max_output.is_none()) {
            let most = told.max_output.unwrap_or(UNKNOWN_MAX_OUTPUT.min(model.context / 4));
            model.max_output = most.min(model.context);
        }
        model.price = model.price.or(told.price);
        if written.is_none_or(|written| written.images.is_none()) {
            model.images = told.images == Some(true);
        }
        told.context.is_some() && !told.is_context_assumed
    }
}
