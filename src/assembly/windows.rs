//! Finds out the windows and prices of models that neither agon nor the user has a number for, and whether they take
//! pictures: the server is asked, and what it said is remembered for when it is slow.

use std::time::Duration;

use futures_util::future::join_all;

use crate::assembly::spec::check_prices;
use crate::assembly::{WireError, providers};
use crate::config::learnt::{Learnt, Told, server_of};
use crate::config::models::UNKNOWN_MAX_OUTPUT;
use crate::config::{Config, Connection, ModelName};
use crate::ports::OfferedModel;
use crate::protocol::spec::{ModelSpec, Setting, Spec};
use crate::protocol::text::grouped;

/// How long a server may take to tell, how long one that was never asked, and how long one without whose price nothing
/// may begin.
const PATIENCE: Duration = Duration::from_secs(1);
const FIRST_PATIENCE: Duration = Duration::from_secs(3);
const PRICE_PATIENCE: Duration = Duration::from_secs(10);

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
/// Where money is `limited`, their prices are asked for as well.
pub(super) async fn complete(
    config: &Config,
    limited: bool,
    models: impl Iterator<Item = &mut ModelSpec>,
) -> Vec<String> {
    join_all(models.map(|model| noted(config, limited, model))).await.into_iter().flatten().collect()
}

/// The same for the models that settings bring in and, where money is limited, for those without a price; and for the
/// spec with them applied.
pub(super) async fn complete_settings(
    config: &Config,
    settings: &mut Vec<Setting>,
    spec: &mut Spec,
) -> Result<Vec<String>, WireError> {
    let limited = spec.limits.has_money();
    let is_set = |name: &str| {
        settings.iter().any(|setting| matches!(setting, Setting::Model { spec, .. } if spec.name == name))
    };
    let unpriced =
        spec.models.iter().filter(|model| limited && model.price.is_none() && !is_set(&model.name));
    let unpriced: Vec<ModelSpec> = unpriced.cloned().collect();
    settings.extend(unpriced.into_iter().map(|spec| Setting::Model { spec, default: false }));
    let models = settings.iter_mut().filter_map(|setting| match setting {
        Setting::Model { spec, .. } => Some(spec),
        _ => None,
    });
    let notes = complete(config, limited, models).await;
    for setting in settings {
        if let Setting::Model { spec: new, .. } = setting
            && let Some(row) = spec.models.iter_mut().find(|row| row.name == new.name)
        {
            row.clone_from(new);
        }
    }
    check_prices(spec)?;
    Ok(notes)
}

/// The models whose window was only assumed and is known by now: some servers choose it as they load a model.
pub(super) async fn known_by_now(config: &Config, spec: &mut Spec) -> Vec<Setting> {
    let known = join_all(spec.models.iter().map(|model| again(config, model))).await.into_iter().enumerate();
    let known = known.filter_map(|(i, model)| Some(Setting::Model { spec: model?, default: i == 0 }));
    let known: Vec<Setting> = known.collect();
    known.iter().for_each(|setting| spec.set(setting));
    known
}

async fn again(config: &Config, model: &ModelSpec) -> Option<ModelSpec> {
    let name: ModelName = model.name.parse().ok()?;
    let Connection::Http { base_url, .. } = config.connection(&name.provider).ok()? else { return None };
    let (file, at) = (config.places().learnt(), server_of(&base_url));
    let assumed = || Learnt::read(&file).unwrap_or_default().assumed(&model.name, &at);
    assumed().filter(|context| *context == model.context)?;
    let mut now = model.clone();
    one(config, false, &mut now).await;
    // What is assumed once more is no news.
    (now != *model && assumed() != Some(now.context)).then_some(now)
}

async fn noted(config: &Config, limited: bool, model: &mut ModelSpec) -> Vec<String> {
    let assumed = one(config, limited, model).await;
    let talks =
        (!model.calls_tools()).then(|| format!("`{}` cannot call tools: it can only talk", model.name));
    assumed.into_iter().chain(talks).collect()
}

async fn one(config: &Config, limited: bool, model: &mut ModelSpec) -> Option<String> {
    let name: ModelName = model.name.parse().ok()?;
    let written = config.file().models.get(&model.name);
    let is_sized = config.known_models().as_of(&name).is_some()
        || written.is_some_and(|written| written.context.is_some());
    let needs_price = limited && model.price.is_none();
    if is_sized && !needs_price {
        return None;
    }
    let connection = config.connection(&name.provider).ok()?;
    let at = match &connection {
        Connection::Http { base_url, .. } => server_of(base_url),
        Connection::Files { .. } => String::new(),
        Connection::Script { .. } => return None,
    };
    let file = config.places().learnt();
    let learnt = Learnt::read(&file).unwrap_or_default();
    let patience = match (needs_price, learnt.is_known(&name, &at)) {
        (true, _) => PRICE_PATIENCE,
        (_, true) => PATIENCE,
        _ => FIRST_PATIENCE,
    };
    let server = providers::reach(config, &name.provider).ok()?;
    let answer = tokio::time::timeout(patience, server.model(&name.model)).await;
    let is_late = answer.is_err();
    let told = answer.ok().flatten();
    let is_guess = told.as_ref().is_some_and(|told| told.is_context_assumed);
    if let Some(told) = told.as_ref().filter(|_| !at.is_empty() && !is_guess) {
        // What cannot be kept is asked for again.
        let _ = Learnt::keep_told(&file, &model.name, &at, of(told));
    }
    let told = told.map(|told| of(&told)).or_else(|| learnt.told(&name, &at).copied()).unwrap_or_default();
    model.price = model.price.or(told.price);
    if is_sized {
        return None;
    }
    model.context = match told.context {
        Some(context) => context,
        None if connection.is_local() => LOCAL_CONTEXT,
        None => model.context,
    };
    if written.is_none_or(|written| written.max_output.is_none()) {
        let most = told.max_output.unwrap_or(UNKNOWN_MAX_OUTPUT.min(model.context / 4));
        model.max_output = most.min(model.context);
    }
    if written.is_none_or(|written| written.images.is_none()) {
        model.images = told.images == Some(true);
    }
    if told.context.is_some() && !is_guess {
        return None;
    }
    // One note is enough, but for a server that is late; where it cannot be kept, it is shown again.
    let is_new = Learnt::assume(&file, &model.name, &at, model.context).unwrap_or(true);
    let (name, context) = (&model.name, grouped(model.context));
    let why = match is_late {
        true => format!("is not known yet: its server did not tell it within {} s", patience.as_secs()),
        false => "is unknown".to_owned(),
    };
    (is_new || is_late).then(|| {
        format!("the window of `{name}` {why}: agon assumes {context} tokens; set `context` in [models.\"{name}\"]")
    })
}

fn of(told: &OfferedModel) -> Told {
    let OfferedModel { context, max_output, images, price, .. } = *told;
    Told { context, max_output, images, price }
}
