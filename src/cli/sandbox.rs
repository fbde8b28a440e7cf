//! The commands `sandbox`, and the offer to get an image that is missing; knows no engine but through the assembly.

use std::path::Path;

use serde_json::json;

use crate::cli::args::{SandboxCommand, WorkspaceArgs};
use crate::cli::desk::Desk;
use crate::cli::error::Failure;
use crate::cli::interrupts::unless_interrupted;
use crate::cli::output::{Output, bar};
use crate::cli::plan::named_file;
use crate::cli::typed_lines;
use crate::config::{Config, Environment, SandboxKind};
use crate::host::docker::{Containers, DEFAULT_IMAGE, FoundContainers, Owner, Progress, lacks_image};
use crate::projection::phrases::{self, counted};
use crate::projection::safe_text::safe_line;

/// The most a Dockerfile may hold, in bytes.
const MAX_DOCKERFILE: u64 = 1 << 20;

/// Runs a `sandbox` command.
pub async fn run(command: &SandboxCommand, environment: Environment, output: Output) -> Result<(), Failure> {
    let connect = async |workspace: &WorkspaceArgs, environment| {
        let config = super::config::load(workspace, environment, output)?;
        Ok::<_, Failure>(Containers::connect(&config).await?)
    };
    match command {
        SandboxCommand::Ps { json, workspace } => {
            let containers = connect(workspace, environment).await?;
            let found = containers.list().await?;
            show(&found, *json, output, &format!("agon has no container on {}", containers.engine()))
        }
        SandboxCommand::Reap { json, workspace } => {
            let reaped = connect(workspace, environment).await?.reap().await?;
            show(&reaped, *json, output, "nothing to remove: no dead session left a container")
        }
        SandboxCommand::Build { show: true, file, .. } => {
            let text = dockerfile(file.as_deref())?;
            output.data(text.as_deref().unwrap_or(crate::host::docker::DOCKERFILE))
        }
        SandboxCommand::Build { image, file, workspace, .. } => {
            let text = dockerfile(file.as_deref())?;
            let containers = connect(workspace, environment).await?;
            if image.is_none() && !containers.is_own_image() {
                let image = safe_line(containers.image());
                output.say(&format!(
                    "`{image}`, which is configured, stays as it is: `--image {image}` would replace it"
                ));
            }
            build(&containers, image.as_deref().unwrap_or(DEFAULT_IMAGE), text.as_deref(), output).await
        }
        SandboxCommand::Pull { image, workspace } => {
            let containers = connect(workspace, environment).await?;
            pull(&containers, image.as_deref().unwrap_or(containers.image()), output).await
        }
    }
}

/// Offers a person to get the image of a docker session when it is missing. Says nothing where nobody can answer:
/// then opening the session fails with the hint.
pub async fn offer_image(config: &Config, kind: SandboxKind, output: Output) -> Result<(), Failure> {
    if kind != SandboxKind::Docker || !Desk::is_attended() {
        return Ok(());
    }
    let containers = Containers::connect(config).await?;
    let missing = match containers.look().await {
        Err(error) if lacks_image(&error) => error,
        // Whatever else is wrong is told by who opens the session.
        _ => return Ok(()),
    };
    let (image, is_own) = (containers.image(), containers.is_own_image());
    let what = if is_own { "build it now from agon's Dockerfile" } else { "fetch it now from its registry" };
    output.tell(&format!("{}\n{what}? yes | no: ", safe_line(&missing.to_string())));
    match (typed_lines::word().await? == "yes", is_own) {
        (false, _) => Err(missing.into()),
        (true, true) => build(&containers, image, None, output).await,
        (true, false) => pull(&containers, image, output).await,
    }
}

async fn build(
    containers: &Containers,
    image: &str,
    dockerfile: Option<&str>,
    output: Output,
) -> Result<(), Failure> {
    output.say(&format!("building `{}` on {}", safe_line(image), safe_line(&containers.engine())));
    let mut gauge = Gauge::new(output);
    let built = unless_interrupted(containers.build(image, dockerfile, &mut |step| gauge.take(&step))).await;
    gauge.finish();
    let hint = "it needs a network; `--file FILE` builds from a Dockerfile of your own";
    let label = built?.map_err(|error| Failure::from(error).hint(hint))?;
    output.data(&format!("{}\n", safe_line(&label)))
}

async fn pull(containers: &Containers, image: &str, output: Output) -> Result<(), Failure> {
    output.say(&format!("fetching `{}` on {}", safe_line(image), safe_line(&containers.engine())));
    let mut gauge = Gauge::new(output);
    let pulled = unless_interrupted(containers.pull(image, &mut |step| gauge.take(&step))).await;
    gauge.finish();
    output.data(&format!("{}\n", safe_line(&pulled??)))
}

fn dockerfile(file: Option<&Path>) -> Result<Option<String>, Failure> {
    file.map(|file| named_file(file, MAX_DOCKERFILE)).transpose()
}

fn show(found: &[FoundContainers], as_json: bool, output: Output, none: &str) -> Result<(), Failure> {
    if as_json {
        let rows = found.iter().map(|row| {
            json!({ "id": row.id, "name": row.name, "session": row.session, "workspace": row.workspace,
                    "image": row.image, "created": row.created, "state": row.state, "owner": word(row.owner) })
        });
        return output.json(&rows.collect::<Vec<_>>());
    }
    if found.is_empty() {
        output.say(none);
    }
    let lines = found.iter().map(|row| {
        let made = row.created.saturating_mul(1_000_000);
        format!(
            "{:<28} {:<8} {:<5} {} {}  {}  {}\n",
            safe_line(&row.name),
            safe_line(&row.state),
            word(row.owner),
            phrases::day(made),
            phrases::time_of_day(made),
            safe_line(&row.image),
            safe_line(&row.workspace),
        )
    });
    output.data(&lines.collect::<String>())
}

fn word(owner: Owner) -> &'static str {
    match owner {
        Owner::Alive => "alive",
        Owner::Dead => "dead",
        Owner::Other => "other",
    }
}

/// Shows progress: on a terminal one line that changes, elsewhere a line for each step that is about no layer.
struct Gauge {
    output: Output,
    layers: std::collections::BTreeMap<String, (u64, u64)>,
    has_line: bool,
}

impl Gauge {
    fn new(output: Output) -> Self {
        Gauge { output, layers: std::collections::BTreeMap::new(), has_line: false }
    }

    fn take(&mut self, step: &Progress) {
        let Some(layer) = &step.layer else {
            self.finish();
            for line in step.words.lines() {
                self.output.say(&safe_line(line));
            }
            return;
        };
        let entry = self.layers.entry(layer.clone()).or_default();
        if let Some(bytes) = step.bytes {
            *entry = bytes;
        }
        if self.output.is_live() {
            self.has_line = true;
            self.output.tell(&format!("\r\x1b[K{}", layers_bar(&self.layers)));
        }
    }

    /// Ends the changing line, if there is one.
    fn finish(&mut self) {
        if std::mem::take(&mut self.has_line) {
            self.output.tell("\n");
        }
    }
}

/// Layers and bytes so far, with a bar where the whole is known.
fn layers_bar(layers: &std::collections::BTreeMap<String, (u64, u64)>) -> String {
    let (there, whole) = layers.values().fold((0, 0), |sum, layer| (sum.0 + layer.0, sum.1 + layer.1));
    let count = counted(layers.len() as u64, "layer");
    if whole == 0 { count } else { format!("{}, {count}", bar(there, whole)) }
}

#[cfg(test)]
mod tests {
    use super::layers_bar as bar;

    #[test]
    fn the_bar_never_leaves_its_frame() {
        let layers =
            |rows: &[(u64, u64)]| rows.iter().enumerate().map(|(i, row)| (i.to_string(), *row)).collect();
        assert_eq!(bar(&layers(&[(0, 0)])), "1 layer");
        assert_eq!(
            bar(&layers(&[(1 << 20, 2 << 20), (0, 0)])),
            "[############------------] 1 of 2 MiB, 2 layers"
        );
        assert_eq!(bar(&layers(&[(9 << 20, 2 << 20)])), "[########################] 9 of 2 MiB, 1 layer");
    }
}
