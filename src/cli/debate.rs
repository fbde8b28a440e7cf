//! The command `debate`: what is held, on what, by whom.

use crate::cli::args::DebateArgs;
use crate::cli::error::Failure;
use crate::cli::output::Output;
use crate::cli::plan::{self, ShowPlan};
use crate::cli::run;
use crate::cli::watch::{Watch, check_target};
use crate::config::{Config, Environment, ModelName, unknown};
use crate::library::Library;
use crate::library::persona::DEBATERS;
use crate::protocol::spec::{DebatePlan, Mode};
use crate::session::convergence::Scorers;
use crate::wiring::{self, Request};

/// Model calls a debate may make where no limit is configured: the longest one, evidence included.
pub(super) const MAX_STEPS: u32 = 600;

/// Holds a debate.
pub async fn run(typed: &DebateArgs, environment: Environment, output: Output) -> Result<u8, Failure> {
    let workspace = plan::workspace(&typed.arena.workspace)?;
    let mut overrides = plan::overrides(&typed.arena);
    let text = |text: &String| toml::Value::String(text.clone());
    overrides.extend(typed.model.as_ref().map(|model| plan::set("--model", &["model"], text(model))));
    let mut config = Config::load(environment, &workspace, &overrides)?;
    config.default_max_steps(MAX_STEPS);
    super::config::warn(&config, output);
    let policy = plan::policy_of(&config, typed.arena.policy.as_deref())?;
    let plan = plan_of(typed, &config)?;
    let topic = topic(typed.topic.as_deref().unwrap_or_default())?;
    let prompt = run::prompt(topic, Mode::Debate(plan.clone()), None)?;
    let (model, why) = config.choose_model().await?;
    if let Some(why) = why {
        output.say(&format!("using {model}: {why}"));
    }
    let show = ShowPlan::of(&typed.arena);
    show.output.as_deref().map(check_target).transpose()?;
    let request =
        Request { model, model_is_wanted: false, policy, squad: None, debate: Some(plan), consent: None };
    let running = run::begin(&config, &request, &show, output).await?;
    run::warn_of_sandbox(&running, output);
    Watch::new(output, show, "--yes").follow(running, Some(prompt)).await
}

/// The question: what was typed or a file holds, then what was piped in.
fn topic(typed: &str) -> Result<String, Failure> {
    let piped = plan::piped_input()?;
    match typed.strip_prefix('@') {
        Some(path) => {
            let text = plan::named_file(std::path::Path::new(path))?;
            plan::prompt("debate", text.trim_end(), piped.as_deref())
        }
        None => plan::prompt("debate", typed, piped.as_deref()),
    }
    .map_err(|failure| match failure.hints.is_empty() {
        true => failure,
        false => Failure::usage("the topic is empty").hint("agon debate \"what is in question\""),
    })
}

/// Who debates how, every name checked.
pub(super) fn plan_of(typed: &DebateArgs, config: &Config) -> Result<DebatePlan, Failure> {
    let library = wiring::personas(config);
    let personas: Vec<String> = match typed.personas.as_slice() {
        [] => DEBATERS.iter().map(|id| (*id).to_owned()).collect(),
        named => named.iter().map(|id| id.trim().to_owned()).collect(),
    };
    for id in personas.iter().chain([&typed.moderator]) {
        known(&library, id)?;
    }
    if personas.len() < 2 {
        return Err(Failure::usage("a debate needs at least two personas")
            .hint("agon debate --personas pragmatist,devils-advocate \"...\""));
    }
    let repeated = |id: &&String| personas.iter().filter(|other| other == id).count() > 1;
    if let Some(id) = personas.iter().find(repeated) {
        return Err(Failure::usage(format!("the persona `{id}` is named twice")));
    }
    if personas.contains(&typed.moderator) {
        return Err(Failure::usage(format!("`{}` cannot debate and moderate", typed.moderator)));
    }
    let scorers = Scorers::default();
    if scorers.get(&typed.scorer).is_none() {
        let names: Vec<&str> = scorers.names().collect();
        return Err(Failure::usage(format!("no scorer is called `{}`", typed.scorer))
            .hint(format!("there are: {}", names.join(", "))));
    }
    let models = typed.with_model.iter().map(|pair| with_model(pair, &personas, &typed.moderator));
    Ok(DebatePlan {
        models: models.collect::<Result<_, _>>()?,
        personas,
        moderator: typed.moderator.clone(),
        rounds: typed.rounds,
        scorer: typed.scorer.clone(),
    })
}

fn known(library: &Library, id: &str) -> Result<(), Failure> {
    if library.get(id).is_some() {
        return Ok(());
    }
    let named = |path: &std::path::Path| path.file_stem().is_some_and(|stem| stem.to_string_lossy() == id);
    match library.broken().iter().find(|broken| named(&broken.path)) {
        Some(broken) => {
            let words = format!("`{}` cannot be used: {}", broken.path.display(), broken.error);
            Err(Failure::usage(words))
        }
        None => Err(super::personas::no_persona(library, id)),
    }
}

fn with_model(pair: &str, personas: &[String], moderator: &String) -> Result<(String, String), Failure> {
    let shape = || Failure::usage(format!("`{pair}` does not have the form ID=PROVIDER/MODEL"));
    let (id, model) = pair.split_once('=').ok_or_else(shape)?;
    let model: ModelName = model.parse().map_err(crate::config::ConfigError::from)?;
    if !personas.iter().chain([moderator]).any(|known| known == id) {
        let failure = Failure::usage(format!("`{id}` takes no part in this debate"));
        let known = personas.iter().chain([moderator]).map(String::as_str);
        return Err(match unknown::closest(id, known) {
            Some(meant) => failure.hint(format!("did you mean `{meant}`?")),
            None => failure,
        });
    }
    Ok((id.to_owned(), model.to_string()))
}
