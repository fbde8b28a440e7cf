//! The command `models`: what the providers within reach offer, and what is known of one model.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cli::args::{ModelsArgs, ModelsCommand, ModelsListArgs};
use crate::cli::config::load;
use crate::cli::error::{FAILED, Failure};
use crate::cli::interrupts::unless_interrupted;
use crate::cli::output::{Output, bar};
use crate::config::{Config, ConfigError, Environment, ModelName};
use crate::host::Pull;
use crate::host::offers::{self, Fact, ModelFacts, Offer};
use crate::projection::phrases::grouped;
use crate::projection::safe_text::shown;
use crate::protocol::spec::Price;

/// What is shown where nothing is known.
const UNKNOWN: &str = "unknown";

/// Whether this program runs model files itself.
const CAN_RUN: bool = cfg!(feature = "llama");

/// The shortest time between two drawings of a bar.
const PAUSE: Duration = Duration::from_millis(100);

/// Runs a `models` command; without one they are listed.
pub async fn run(typed: &ModelsArgs, environment: Environment, output: Output) -> Result<(), Failure> {
    match &typed.command {
        None => list(&typed.list, environment, output).await,
        Some(ModelsCommand::List(typed)) => list(typed, environment, output).await,
        Some(ModelsCommand::Show { model, json, workspace }) => {
            show(&load(workspace, environment, output)?, model, *json, output).await
        }
        Some(ModelsCommand::Pull { url, name, sha256, workspace }) => {
            let folder = load(workspace, environment, output)?.places().models();
            if !CAN_RUN {
                output.warn(
                    "this agon is built without the feature `llama` and cannot run the file itself; other programs, such as llama-server, can",
                );
            }
            let pull = Pull { url: url.clone(), folder, name: name.clone(), sha256: sha256.clone() };
            pulled(&pull, output).await
        }
    }
}

async fn list(typed: &ModelsListArgs, environment: Environment, output: Output) -> Result<(), Failure> {
    let config = load(&typed.workspace, environment, output)?;
    let only = typed.provider.as_deref();
    if let Some(name) = only
        && !config.providers().any(|known| known == name)
    {
        return Err(config.no_provider(name).into());
    }
    let offers = unless_interrupted(offers::offers(&config, only)).await?;
    if offers.is_empty() {
        return Err(Failure::usage("no provider is within reach").hint("agon init sets one up"));
    }
    let words: Vec<String> = typed.search.iter().map(|word| word.to_lowercase()).collect();
    let fits = |id: &str| words.iter().all(|word| id.to_lowercase().contains(word));
    let mut rows = Vec::new();
    for offer in &offers {
        if let Err(why) = &offer.models {
            output.warn(why);
        }
        if let Some(note) = replaced(offer, &config) {
            output.note(&note);
        }
        for model in offer.models.iter().flatten().filter(|model| typed.all || !model.has_no_chat) {
            let name = ModelName { provider: offer.provider.clone(), model: model.id.clone() };
            if fits(&name.to_string()) {
                let facts = offers::facts(&config, &name, Some(model))?;
                rows.push((name.to_string(), facts));
            }
        }
    }
    let all_failed = offers.iter().all(|offer| offer.models.is_err());
    match typed.json {
        true => output.json(&rows.iter().map(|(name, facts)| as_json(name, facts)).collect::<Vec<_>>())?,
        false => output.data(&shown(&table(&rows)))?,
    }
    match all_failed {
        true => Err(Failure::new(FAILED, anyhow::anyhow!("no provider listed its models"))),
        false => Ok(()),
    }
}

async fn pulled(pull: &Pull, output: Output) -> Result<(), Failure> {
    let (mut drawn, mut has_line) = (Instant::now(), false);
    let mut show = |there, whole| {
        if output.is_live() && (there == whole || drawn.elapsed() >= PAUSE) {
            (drawn, has_line) = (Instant::now(), true);
            output.tell(&format!("\r\x1b[K{}", bar(there, whole)));
        }
    };
    let ended = unless_interrupted(pull.run(&mut show)).await;
    if has_line {
        output.tell("\n");
    }
    let pulled = ended?.map_err(|error| {
        let hint = error.hint();
        let failure = Failure::new(FAILED, error);
        hint.into_iter().fold(failure, Failure::hint)
    })?;
    let stem = pulled.file.file_stem().unwrap_or_default().to_string_lossy();
    let checked = if pulled.is_checked { "checked" } else { "compare it with its publisher's" };
    output.data(&shown(&format!(
        "{}\n{} bytes, sha256 {} ({checked})\n",
        pulled.file.display(),
        grouped(pulled.bytes),
        pulled.sha256
    )))?;
    if CAN_RUN {
        output.note(&format!("use it with -m llama/{stem}"));
    }
    Ok(())
}

/// That agon's default is no longer listed, and what takes its place.
pub(super) fn replaced(offer: &Offer, config: &Config) -> Option<String> {
    offer.models.as_ref().ok()?;
    let (model, gone) = offer.default(config)?;
    Some(format!("`{}` is no longer listed; `{model}` takes its place as the default", gone?))
}

async fn show(config: &Config, model: &str, json: bool, output: Output) -> Result<(), Failure> {
    let name: ModelName = model.parse().map_err(ConfigError::from)?;
    let told = unless_interrupted(offers::described(config, &name)).await??;
    match config.connection(&name.provider) {
        Ok(_) if told.is_some() => {}
        Ok(_) => {
            output.note(&format!("the server of `{}` says nothing of `{}`", name.provider, name.model));
        }
        Err(error) => output.note(&format!("{error}; this is what agon ships")),
    }
    let facts = offers::facts(config, &name, told.as_ref())?;
    if json {
        return output.json(&as_json(&name.to_string(), &facts));
    }
    let tokens = |fact: &Fact<u64>| told_by(fact, |count| format!("{} tokens", grouped(*count)));
    let can = |fact: &Fact<bool>| told_by(fact, |can| if *can { "yes" } else { "no" }.to_owned());
    let refuses = if facts.refuses.is_empty() { "nothing".to_owned() } else { facts.refuses.join(", ") };
    let structured = told_by(&facts.structured, |via| {
        serde_json::to_value(via).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
    });
    let rows = [
        ("model", name.to_string()),
        ("window", tokens(&facts.context)),
        ("most output", tokens(&facts.max_output)),
        ("price", told_by(&facts.price, |price| format!("{} per million tokens", money(price)))),
        ("tools", can(&facts.tools)),
        ("images", can(&facts.images)),
        ("thinking", can(&facts.thinks)),
        ("typed answers", structured),
        ("refuses", refuses),
    ];
    let lines = rows.iter().map(|(name, value)| format!("{name:14} {value}\n"));
    output.data(&shown(&lines.collect::<String>()))
}

fn told_by<T>(fact: &Fact<T>, words: impl Fn(&T) -> String) -> String {
    fact.as_ref().map_or(UNKNOWN.to_owned(), |(value, source)| format!("{} ({source})", words(value)))
}

/// Input and output, in dollars.
fn money(price: &Price) -> String {
    let dollars = |micro: u64| {
        let text = format!("{}.{:06}", micro / 1_000_000, micro % 1_000_000);
        let short = text.trim_end_matches('0');
        let cents = text.len() - 4;
        text[..short.len().max(cents)].to_owned()
    };
    format!("${} in, ${} out", dollars(price.input), dollars(price.output))
}

/// Abilities in words: what is unknown is left out here and shown by `models show`.
fn abilities(facts: &ModelFacts) -> String {
    let all = [("tools", &facts.tools), ("images", &facts.images), ("thinking", &facts.thinks)];
    let known: Vec<String> = all
        .iter()
        .filter_map(|(name, fact)| match fact {
            Some((true, _)) => Some((*name).to_owned()),
            Some((false, _)) if *name == "tools" => Some("no tools".to_owned()),
            _ => None,
        })
        .collect();
    let is_unknown = all.iter().all(|(_, fact)| fact.is_none());
    if is_unknown { UNKNOWN.to_owned() } else { known.join(", ") }
}

/// A model in a few words, for a list to pick from.
pub(super) fn about(facts: &ModelFacts) -> String {
    let window = facts.context.as_ref().map(|(count, _)| format!("{} tokens", grouped(*count)));
    let price = facts.price.as_ref().map_or("price unknown".to_owned(), |(price, _)| in_short(price));
    let window = window.unwrap_or_else(|| "window unknown".to_owned());
    match abilities(facts).as_str() {
        UNKNOWN | "" => format!("{window} · {price}"),
        can => format!("{window} · {price} · {can}"),
    }
}

fn in_short(price: &Price) -> String {
    match price.input + price.output {
        0 => "free".to_owned(),
        _ => money(price),
    }
}

fn table(rows: &[(String, ModelFacts)]) -> String {
    let wide = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).clamp(5, 60);
    let line = |cells: [&str; 5]| {
        let [name, window, output, price, can] = cells;
        format!("{name:wide$}  {window:>11}  {output:>11}  {price:24}  {can}").trim_end().to_owned() + "\n"
    };
    let count = |fact: &Fact<u64>| fact.as_ref().map_or(UNKNOWN.to_owned(), |(count, _)| grouped(*count));
    let mut text = if rows.is_empty() {
        String::new()
    } else {
        line(["model", "window", "output", "price per million", "can"])
    };
    for (name, facts) in rows {
        let price = facts.price.as_ref().map_or(UNKNOWN.to_owned(), |(price, _)| in_short(price));
        text += &line([name, &count(&facts.context), &count(&facts.max_output), &price, &abilities(facts)]);
    }
    text
}

fn as_json(name: &str, facts: &ModelFacts) -> Value {
    fn fact<T: serde::Serialize>(fact: &Fact<T>) -> Value {
        match fact {
            Some((value, source)) => json!({"value": value, "source": source.to_string()}),
            None => Value::Null,
        }
    }
    json!({
        "model": name,
        "context": fact(&facts.context),
        "max_output": fact(&facts.max_output),
        "price": fact(&facts.price),
        "tools": fact(&facts.tools),
        "images": fact(&facts.images),
        "thinks": fact(&facts.thinks),
        "structured": fact(&facts.structured),
        "refuses": facts.refuses,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_dollars_and_cents_and_more_where_they_are_small() {
        let price = |input, output| money(&Price { input, cached: 0, written: None, output });
        assert_eq!(price(1_250_000, 10_000_000), "$1.25 in, $10.00 out");
        assert_eq!(price(50_000, 1), "$0.05 in, $0.000001 out");
    }
}
