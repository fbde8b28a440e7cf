//! The command `debate`: what is held, on what, by whom.

use crate::cli::args::DebateArgs;
use crate::cli::error::Failure;
use crate::cli::output::Output;
use crate::cli::plan::{self, RunPlan, ShowPlan};
use crate::cli::run;
use crate::config::{Config, Environment, ModelName, unknown};
use crate::host::{
    self, AtLimit, Changes, DEFAULT_ROUNDS, DEFAULT_SCORER, ForkPlan, Host, Instead, Scorers, Sessions,
    Stage, stage_of_debate,
};
use crate::library::Library;
use crate::library::persona::{DEBATERS, MODERATOR};
use crate::projection::phrases;
use crate::protocol::spec::{DebatePlan, Mode};

/// Model calls a debate may make where no limit is configured: the longest one, evidence included.
pub(super) const MAX_STEPS: u32 = 600;

/// Holds a debate, or goes on with one.
pub async fn run(typed: &DebateArgs, environment: Environment, output: Output) -> Result<u8, Failure> {
    let topic = topic(typed.topic.as_deref().unwrap_or_default())?;
    let mut typed = typed.clone();
    run::settle(&mut typed.earlier, &mut typed.arena, &environment, output).await?;
    let typed = &typed;
    match (&typed.earlier.resume, topic) {
        (Some(session), None) => go_on(typed, session, environment, output).await,
        (_, None) => Err(Failure::usage("the topic is empty").hint("agon debate \"what is in question\"")),
        (_, Some(topic)) => {
            let plan = RunPlan::of_debate(typed, topic, environment)?;
            let debate = plan.changes.debate.clone().map(Mode::Debate);
            Ok(run::perform(plan, debate.unwrap_or(Mode::Solo), output).await?.0)
        }
    }
}

/// Goes on with the debate of a session: where it was when its process is gone, in a copy when it was stopped.
async fn go_on(
    typed: &DebateArgs,
    session: &str,
    environment: Environment,
    output: Output,
) -> Result<u8, Failure> {
    refuse_another(typed)?;
    let root = typed.arena.workspace.workspace.clone();
    let overrides = plan::overrides(&typed.arena.held);
    let host = Host::of(&environment)?;
    let mut config = host.config_for((session, root.as_deref()), environment, &overrides)?;
    // A debate needs more steps than one spark.
    config.default_max_steps(MAX_STEPS);
    super::config::warn(&config, output);
    let changes = plan::changes(&typed.arena.held, (None, None), &config)?;
    let changes = Changes { reads_only: true, root, ..changes };
    let show = ShowPlan::of(&typed.arena);
    let read = Sessions::of(&config).read(session)?;
    match stage_of_debate(&read.entries) {
        Some(Stage::Open) => run::go_on(&config, &read.id, &changes, show, output).await,
        Some(Stage::Stopped(seq)) => {
            let plan = ForkPlan { session: read.id, at: Some(seq), changes, instead: None, goes_on: true };
            run::copy(&config, &plan, show, false, output).await
        }
        Some(Stage::Limited(end)) => {
            let plan = ForkPlan { session: read.id, ..past_limit(end, changes)? };
            run::copy(&config, &plan, show, false, output).await
        }
        Some(Stage::Over) => Err(Failure::usage(format!("the debate of session `{}` is over", read.id))
            .hint(format!("hold another one there: agon debate --resume {} \"...\"", read.id))),
        None => Err(Failure::usage(format!("the last task of session `{}` was no debate", read.id))
            .hint(format!("hold one there: agon debate --resume {} \"...\"", read.id))),
    }
}

/// The copy that goes on where a limit ended a debate, with more of it.
fn past_limit(end: AtLimit, changes: Changes) -> Result<ForkPlan, Failure> {
    let AtLimit { at, is_answer, question, limit, used, max } = end;
    if changes.limits.of(limit).is_none_or(|wanted| wanted <= max) {
        let words = phrases::limit_with_flag(limit, used, max);
        return Err(Failure::usage(format!("the debate ended at a limit: {words}"))
            .hint(format!("allow more, and it goes on in a copy: {} N", phrases::limit_flag(limit))));
    }
    let goes_on = question.is_none();
    let instead = question.map(Instead::Prompt).or(is_answer.then_some(Instead::Answer));
    Ok(ForkPlan { at: Some(at), changes, instead, goes_on, ..ForkPlan::default() })
}

/// A debate under way is held as it was begun.
fn refuse_another(typed: &DebateArgs) -> Result<(), Failure> {
    let named = [
        ("--personas", !typed.personas.is_empty()),
        ("--with-model", !typed.with_model.is_empty()),
        ("--model", typed.model.is_some()),
        ("--moderator", typed.moderator != MODERATOR),
        ("--scorer", typed.scorer != DEFAULT_SCORER),
        ("--rounds", typed.rounds != DEFAULT_ROUNDS),
    ];
    match named.into_iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) => Err(Failure::usage(format!("`{flag}` cannot change a debate that is under way"))
            .hint("with a topic a new debate is held in that session: agon debate --resume SESSION \"...\"")),
        None => Ok(()),
    }
}

/// The question: what was typed or a file holds, then what was piped in; none when that is nothing.
fn topic(typed: &str) -> Result<Option<String>, Failure> {
    let text = match typed.strip_prefix('@') {
        Some(path) => {
            plan::named_file(std::path::Path::new(path), plan::MAX_GIVEN_FILE)?.trim_end().to_owned()
        }
        None => typed.to_owned(),
    };
    Ok(plan::given("debate", &text).ok())
}

/// Who debates how, every name checked.
pub(super) fn plan_of(typed: &DebateArgs, config: &Config) -> Result<DebatePlan, Failure> {
    let library = host::personas(config);
    let personas: Vec<String> = match typed.personas.as_slice() {
        [] => DEBATERS.iter().map(|id| (*id).to_owned()).collect(),
        named => named.iter().map(|id| id.trim().to_owned()).collect(),
    };
    if personas.iter().any(String::is_empty) {
        return Err(Failure::usage("`--personas` has an empty name")
            .hint("agon debate --personas pragmatist,devils-advocate \"...\""));
    }
    for id in personas.iter().chain([&typed.moderator]) {
        known(config, &library, id)?;
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
    Ok(DebatePlan {
        models: models(&typed.with_model, &personas, &typed.moderator)?,
        personas,
        moderator: typed.moderator.clone(),
        rounds: typed.rounds,
        scorer: typed.scorer.clone(),
    })
}

fn known(config: &Config, library: &Library, id: &str) -> Result<(), Failure> {
    if library.is_worker(id) {
        let debaters = DEBATERS.join(", ");
        return Err(Failure::usage(format!(
            "`{id}` does work in sessions and squads, and has no view to debate"
        ))
        .hint(format!("there are {debaters}, and your own: agon personas new ID")));
    }
    Ok(host::persona_of(config, library, id).map(drop)?)
}

/// A model for each persona that is given one, and only one.
fn models(
    pairs: &[String],
    personas: &[String],
    moderator: &String,
) -> Result<Vec<(String, String)>, Failure> {
    let mut models: Vec<(String, String)> = Vec::new();
    for pair in pairs {
        let (id, model) = with_model(pair, personas, moderator)?;
        if let Some((_, first)) = models.iter().find(|(known, _)| *known == id) {
            return Err(Failure::usage(format!("`{id}` is given two models: `{first}` and `{model}`"))
                .hint("name each persona once with --with-model"));
        }
        models.push((id, model));
    }
    Ok(models)
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
