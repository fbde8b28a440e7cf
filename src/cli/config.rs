//! The commands `config` and `schema`.

use anyhow::Context as _;

use crate::cli::args::{ConfigCommand, SchemaKind, WorkspaceArgs};
use crate::cli::error::{Failure, USAGE};
use crate::cli::output::Output;
use crate::cli::plan;
use crate::config::trust::ProjectDigest;
use crate::config::{self, Config, Environment, Places, show};
use crate::projection::safe_text::shown;
use crate::protocol;

/// Runs a `config` command.
pub fn run(command: &ConfigCommand, environment: Environment, output: Output) -> Result<(), Failure> {
    match command {
        ConfigCommand::Show { json, workspace } => show_values(workspace, *json, environment, output),
        ConfigCommand::Path => {
            let places = Places::find(&environment)?;
            output.data(&format!("{}\n", places.config_file().display()))
        }
        ConfigCommand::Schema => schema(SchemaKind::Config, output),
        ConfigCommand::Trust { revoke, workspace } => trust(workspace, !revoke, &environment, output),
    }
}

/// Prints a JSON Schema.
pub fn schema(of: SchemaKind, output: Output) -> Result<(), Failure> {
    let schema = match of {
        SchemaKind::Events => schemars::schema_for!(protocol::Entry).to_value(),
        SchemaKind::Commands => schemars::schema_for!(protocol::Command).to_value(),
        SchemaKind::Signals => schemars::schema_for!(protocol::Signal).to_value(),
        SchemaKind::Policy => schemars::schema_for!(crate::config::PolicyFile).to_value(),
        SchemaKind::Report => schemars::schema_for!(crate::projection::Report).to_value(),
        SchemaKind::Config => config::schema(),
    };
    output.json(&schema)
}

/// Loads the configuration of a workspace and says what was ignored.
pub fn load(typed: &WorkspaceArgs, environment: Environment, output: Output) -> Result<Config, Failure> {
    let config = Config::load(environment, &plan::workspace(typed)?, &[])?;
    warn(&config, output);
    Ok(config)
}

/// Says what was ignored of the configuration, and how that can be changed.
pub fn warn(config: &Config, output: Output) {
    for warning in config.warnings() {
        output.warn(warning);
    }
    if *config.trust() == config::Trust::Untrusted {
        let root = config.workspace().display();
        output.warn(&format!(
            "`{root}` is not trusted: read its `.agon` folder, then run `agon config trust` there"
        ));
    }
}

fn show_values(
    typed: &WorkspaceArgs,
    json: bool,
    environment: Environment,
    output: Output,
) -> Result<(), Failure> {
    let config = load(typed, environment, output)?;
    match json {
        true => output.json(&show::as_json(&config)),
        false => output.data(&shown(&show::as_text(&config))),
    }
}

fn trust(
    typed: &WorkspaceArgs,
    trusted: bool,
    environment: &Environment,
    output: Output,
) -> Result<(), Failure> {
    let root = plan::workspace(typed)?;
    let places = Places::find(environment)?;
    let Some(digest) = ProjectDigest::of(&root)? else {
        let words = format!(
            "`{}` has nothing of agon's: no configuration, persona or blueprint in `.agon`",
            root.display()
        );
        return Err(Failure::usage(words));
    };
    let recorded = digest.record(&places, trusted);
    let recorded = recorded.with_context(|| format!("cannot record trust in `{}`", places.trust().display()));
    recorded.map_err(|error| Failure::new(USAGE, error))?;
    let verb = if trusted { "trusted as it is now" } else { "not trusted any more" };
    for file in digest.files() {
        output.say(&format!("{}: {verb}", file.display()));
    }
    Ok(())
}
