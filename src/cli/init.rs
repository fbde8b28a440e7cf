//! The command `init`: finds keys and servers, asks for one model, tries it, writes a configuration.

use crate::cli::args::InitArgs;
use crate::cli::config::load;
use crate::cli::desk::Desk;
use crate::cli::error::Failure;
use crate::cli::interrupts::unless_interrupted;
use crate::cli::models::replaced;
use crate::cli::output::Output;
use crate::cli::{keys, typed_lines};
use crate::config::providers::PRESETS;
use crate::config::{Config, ConfigError, Environment, KeyPath, ModelName, written};
use crate::host::offers::{self, Offer};
use crate::projection::phrases::counted;

/// The most models of one server on this machine that are offered.
const MOST_LOCAL: usize = 5;

/// Sets agon up.
pub async fn run(typed: &InitArgs, environment: Environment, output: Output) -> Result<(), Failure> {
    let config = load(&typed.workspace, environment, output)?;
    if let Some(name) = &typed.model {
        let model = name.parse().map_err(ConfigError::from)?;
        return settle(&config, &model, output).await;
    }
    if !Desk::is_attended() {
        let words = "there is no terminal to ask at which model to use";
        return Err(Failure::usage(words).hint("agon init -m PROVIDER/MODEL; `agon models` lists them"));
    }
    match first(&config, output).await? {
        true => Ok(()),
        false => Err(Failure::usage("no model was chosen").hint("`agon demo` needs none")),
    }
}

/// Asks at the terminal; false when the user chose no model.
pub(super) async fn first(config: &Config, output: Output) -> Result<bool, Failure> {
    output.say("agon looks for keys in the environment and for servers on this machine…");
    let mut offers = unless_interrupted(offers::offers(config, None)).await?;
    // What answered comes first: Enter takes the first.
    offers.sort_by_key(|offer| offer.models.is_err());
    for offer in &offers {
        output.say(&format!("  {:14} {}", offer.provider, found(offer)));
        if let Some(note) = replaced(offer, config) {
            output.say(&format!("  {:14} {note}", ""));
        }
    }
    let lacking = PRESETS.iter().filter_map(|preset| preset.api_key_env);
    let lacking = lacking.filter(|name| config.environment().get(name).is_none()).collect::<Vec<_>>();
    output.say(&format!("  {:14} {}", "not set", lacking.join(", ")));
    let mut choices: Vec<(ModelName, bool)> =
        offers.iter().flat_map(|offer| choices(offer, config)).collect();
    // Enter takes the first: one that can do the work.
    choices.sort_by_key(|(_, lacks_tools)| *lacks_tools);
    if choices.is_empty() {
        return with_new_key(config, output).await;
    }
    for (nth, (model, lacks_tools)) in (1..).zip(&choices) {
        let lacks = if *lacks_tools { "  (cannot call tools)" } else { "" };
        output.say(&format!("  {nth}  {model}{lacks}"));
    }
    if offers.iter().any(|offer| offer.chats().count() > MOST_LOCAL) {
        output.say("  `agon models` lists all, `agon models WORD` those with a word");
    }
    let choices: Vec<ModelName> = choices.into_iter().map(|(model, _)| model).collect();
    match asked(config, &choices, output).await? {
        Some(model) => settle(config, &model, output).await.map(|()| true),
        None => Ok(false),
    }
}

/// What was found of one provider.
fn found(offer: &Offer) -> String {
    match &offer.models {
        Ok(models) => format!("{}; lists {}", offer.why, counted(models.len() as u64, "model")),
        Err(why) if offer.why.is_empty() => why.clone(),
        Err(why) => format!("{}; lists no models: {why}", offer.why),
    }
}

/// The models of a provider that are worth a line: the default of a hosted service, what a server on this machine has.
/// True for one that cannot call tools.
fn choices(offer: &Offer, config: &Config) -> Vec<(ModelName, bool)> {
    let is_local = config.connection(&offer.provider).is_ok_and(|connection| connection.is_local());
    let default = offer.default(config).map(|(model, _)| model);
    match is_local {
        true => {
            let name = |id: &str| ModelName { provider: offer.provider.clone(), model: id.to_owned() };
            let mut chats: Vec<_> = offer.chats().collect();
            let is_default = |id: &str| default.as_ref().is_some_and(|default| default.model == id);
            chats.sort_by_key(|model| (model.tools == Some(false), !is_default(&model.id)));
            chats.truncate(MOST_LOCAL);
            chats.iter().map(|model| (name(&model.id), model.tools == Some(false))).collect()
        }
        false => default.map(|model| (model, false)).into_iter().collect(),
    }
}

/// The model the user wants; none at the end of the input.
async fn asked(config: &Config, choices: &[ModelName], output: Output) -> Result<Option<ModelName>, Failure> {
    loop {
        output.tell(&format!("Which model? 1 to {}, or PROVIDER/MODEL [1]: ", choices.len()));
        let Some(line) = unless_interrupted(typed_lines::line()).await?? else { return Ok(None) };
        let word = line.trim();
        let nth = if word.is_empty() { Ok(1) } else { word.parse::<usize>() };
        match (nth, word.parse::<ModelName>()) {
            (Ok(nth), _) => match nth.checked_sub(1).and_then(|at| choices.get(at)) {
                Some(model) => return Ok(Some(model.clone())),
                None => output.say(&format!("there is no number {nth}")),
            },
            (_, Ok(model)) => match config.connection(&model.provider) {
                Ok(_) => return Ok(Some(model)),
                Err(error) => output.fail(&error.into()),
            },
            (_, Err(error)) => output.say(&error.to_string()),
        }
    }
}

/// Where nothing was found: a provider's key is asked for, and its default model is used.
async fn with_new_key(config: &Config, output: Output) -> Result<bool, Failure> {
    let hosted = PRESETS.iter().filter(|preset| preset.api_key_env.is_some());
    let names: Vec<&str> = hosted.map(|preset| preset.name).collect();
    output.say("Nothing was found. Start Ollama or another local server, or use a key of a provider:");
    let provider = loop {
        output.tell(&format!("Provider ({}; Enter leaves): ", names.join(", ")));
        let line = unless_interrupted(typed_lines::line()).await??.unwrap_or_default();
        match line.trim() {
            "" => return Ok(false),
            name if config.providers().any(|known| known == name) => break name.to_owned(),
            name => output.fail(&config.no_provider(name).into()),
        }
    };
    let provider = provider.as_str();
    keys::set(config, provider, output).await?;
    let config = Config::load(config.environment().clone(), config.workspace(), &[])?;
    let offers = unless_interrupted(offers::offers(&config, Some(provider))).await?;
    let offer = offers.first();
    if let Some(Err(why)) = offer.map(|offer| &offer.models) {
        output.warn(why);
    }
    let Some((model, _)) = offer.and_then(|offer| offer.default(&config)) else {
        let words = format!("`{provider}` lists no model");
        return Err(Failure::usage(words).hint("agon init -m PROVIDER/MODEL"));
    };
    settle(&config, &model, output).await.map(|()| true)
}

/// Makes one real call and writes the configuration; without an answer nothing is written.
async fn settle(config: &Config, model: &ModelName, output: Output) -> Result<(), Failure> {
    output.say(&format!("asking {model}…"));
    let trial = unless_interrupted(offers::try_model(config, model)).await?;
    let trial =
        trial.map_err(|error| Failure::from(error).hint("nothing was written; agon init asks again"))?;
    let answer = if trial.answer.is_empty() { "it called a tool or only thought" } else { &trial.answer };
    let answer: String = answer.chars().take(60).collect();
    output.say(&format!("{} answered in {:.1} s: {answer}", trial.model, trial.took.as_secs_f32()));
    let file = config.places().config_file();
    let is_first = written::choose(&file, model)?;
    let verb = if is_first { "wrote" } else { "set `model` in" };
    output.say(&format!("{verb} `{}`; begin with: agon", file.display()));
    let now = Config::load(config.environment().clone(), config.workspace(), &[])?;
    if now.file().model.as_deref() != Some(model.to_string().as_str()) {
        let leaf = now.layer().0.get(&KeyPath::of(&["model"]));
        let source = leaf.and_then(|leaf| leaf.sources.first()).map(ToString::to_string).unwrap_or_default();
        output.warn(&format!("here another model counts: {source} sets it"));
    }
    Ok(())
}
