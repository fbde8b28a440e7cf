//! Lists the personas there are and shows where each was found.

use std::path::Path;

use serde_json::json;

use crate::cli::args::{PersonasArgs, PersonasCommand};
use crate::cli::error::Failure;
use crate::cli::output::Output;
use crate::config::{Config, Environment};
use crate::host::persona_of;
use crate::library::{Library, PersonaOrigin};
use crate::projection::safe_text::shown;

/// Runs a `personas` command; without one they are listed.
pub fn run(typed: PersonasArgs, environment: Environment, output: Output) -> Result<(), Failure> {
    let PersonasArgs { command, json, workspace } = typed;
    match command.as_ref().unwrap_or(&PersonasCommand::List { json, workspace }) {
        PersonasCommand::List { json, workspace } => {
            let library = load(&super::config::load(workspace, environment, output)?, output);
            list(&library, *json, output)
        }
        PersonasCommand::New { id, from, workspace } => {
            let config = super::config::load(workspace, environment, output)?;
            let library = load(&config, output);
            let text = match from {
                Some(from) => persona_of(&config, &library, from)?.text.clone(),
                None if library
                    .all()
                    .any(|(own, from)| own.id == *id && *from == PersonaOrigin::Embedded) =>
                {
                    let words =
                        format!("`{id}` is a persona of agon's own, and an empty one would take its place");
                    let hint = format!("begin with a copy of it: agon personas new {id} --from {id}");
                    return Err(Failure::usage(words).hint(hint));
                }
                None => TEMPLATE.to_owned(),
            };
            write_new(&config.places().personas(), id, &text, output)
        }
        PersonasCommand::Show { id, workspace } => {
            let config = super::config::load(workspace, environment, output)?;
            let library = crate::host::personas(&config);
            let spec = persona_of(&config, &library, id)?;
            warn_of_broken(&library, output);
            output.data(&format!("{}\n", shown(&spec.text)))
        }
    }
}

/// What a new persona begins with.
const TEMPLATE: &str = "You are ... Say who this is, what it cares for, and what it does not do.\n";

/// Writes a persona that is not there yet.
fn write_new(folder: &Path, id: &str, text: &str, output: Output) -> Result<(), Failure> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if id.is_empty() || id.starts_with('-') || !id.chars().all(fits) {
        return Err(Failure::usage(format!("`{id}` is no id: small letters, digits and hyphens")));
    }
    let file = folder.join(format!("{id}.md"));
    let whole = format!(
        "---\nid: {id}\ndescription: one line for lists\n# model: PROVIDER/MODEL\n# temperature: 0.7\n---\n\n{}\n",
        text.trim_end()
    );
    let written = std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::File::create_new(&file))
        .and_then(|mut new| std::io::Write::write_all(&mut new, whole.as_bytes()));
    written.map_err(|error| Failure::usage(format!("cannot make `{}`: {error}", file.display())))?;
    output.data(&format!("{}\n", file.display()))
}

/// The personas that count in a workspace; says which files are broken.
fn load(config: &Config, output: Output) -> Library {
    let library = crate::host::personas(config);
    warn_of_broken(&library, output);
    library
}

fn warn_of_broken(library: &Library, output: Output) {
    for broken in library.broken() {
        output.warn(&format!("`{}` is not used: {}", broken.path.display(), broken.error));
    }
}

fn list(library: &Library, json: bool, output: Output) -> Result<(), Failure> {
    if json {
        let rows = library.all().map(|(spec, origin)| {
            json!({ "id": spec.id, "description": spec.description, "model": spec.model,
                    "tools": spec.tools, "origin": origin.to_string() })
        });
        return output.json(&rows.collect::<Vec<_>>());
    }
    let width = library.all().map(|(spec, _)| spec.id.len()).max().unwrap_or(0);
    let lines = library.all().map(|(spec, origin)| {
        let words = match spec.description.trim() {
            "" => "no description",
            words => words,
        };
        format!("{:width$}  {words}  ({origin})\n", spec.id)
    });
    output.data(&shown(&lines.collect::<String>()))
}
