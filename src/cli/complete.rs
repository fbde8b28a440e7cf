//! What a shell completes: the sessions, models, personas and blueprints there are here and now; calls no provider.

use std::path::Path;

use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};

use crate::config::{Config, Environment, Places};
use crate::host::{self, Sessions};
use crate::projection::phrases;
use crate::projection::safe_text::safe_line;

/// Sessions that are offered at most: the newest.
const SESSIONS: usize = 200;

/// Recorded sessions by their short ids, newest first.
pub fn sessions() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let places = Places::find(&Environment::of_process()).ok();
        let all = places.and_then(|places| Sessions::at(&places).list().ok()).unwrap_or_default();
        let prompt = |prompt: Option<&str>| phrases::start(prompt.unwrap_or_default(), 60);
        let rows = all.into_iter().take(SESSIONS);
        let latest = ("latest".to_owned(), "the newest of all".to_owned());
        let rows = rows.map(|row| (phrases::short_id(&row.id).to_owned(), prompt(row.prompt.as_deref())));
        candidates([latest].into_iter().chain(rows))
    })
}

/// Models that are configured, and the known ones of providers with a key.
pub fn models() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let Some(config) = config() else { return Vec::new() };
        let file = config.file();
        let known = config.known_models().names();
        let known = known.filter(|name| {
            file.providers.contains_key(&name.provider) || config.key_source(&name.provider).is_some()
        });
        let named = file.model.iter().chain(file.models.keys()).cloned();
        let all: std::collections::BTreeSet<String> =
            named.chain(known.map(|name| name.to_string())).collect();
        candidates(all.into_iter().map(|name| (name, String::new())))
    })
}

/// Personas: those of agon, the user's and the project's.
pub fn personas() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let Some(config) = config() else { return Vec::new() };
        let library = host::personas(&config);
        let all = library.all().map(|(persona, _)| (persona.id.clone(), persona.description.clone()));
        candidates(all.collect::<Vec<_>>().into_iter())
    })
}

/// Blueprints by name.
pub fn blueprints() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let names = config().map(|config| host::blueprints(&config)).unwrap_or_default();
        candidates(names.into_iter().map(|name| (name, String::new())))
    })
}

/// What does not load completes nothing.
fn config() -> Option<Config> {
    let here = Path::new(".").canonicalize().ok()?;
    Config::load(Environment::of_process(), &here, &[]).ok()
}

/// In the order given; words of others steer no terminal.
fn candidates(all: impl Iterator<Item = (String, String)>) -> Vec<CompletionCandidate> {
    let one = |(order, (word, about)): (usize, (String, String))| {
        let about = Some(safe_line(&about).into_owned()).filter(|about| !about.is_empty());
        CompletionCandidate::new(word).help(about.map(Into::into)).display_order(Some(order))
    };
    all.enumerate().map(one).collect()
}
