//! The command `doctor`: looks whether everything agon needs is in order, and says what to do where not.

use std::io::IsTerminal;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Serialize;

use crate::cli::args::DoctorArgs;
use crate::cli::error::{Failure, USAGE};
use crate::cli::output::{Output, visible};
use crate::cli::plan;
use crate::config::{Config, Connection, Environment, Places};

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// In order.
    Ok,
    /// agon works, but something is missing.
    Warning,
    /// agon cannot work like this.
    Broken,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// How it came out.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Check { name, verdict: Verdict::Ok, found: found.into(), advice: None }
    }

    fn bad(name: &'static str, verdict: Verdict, found: impl Into<String>, advice: Option<String>) -> Self {
        Check { name, verdict, found: found.into(), advice }
    }
}

/// Looks at everything and prints it; exit 2 when something is broken.
pub async fn run(typed: &DoctorArgs, environment: Environment, output: Output) -> Result<(), Failure> {
    let root = plan::workspace(&typed.workspace)?;
    let mut checks = vec![state_folder(&environment)];
    match Config::load(environment, &root, &[]) {
        Err(error) => {
            let advice = error.hint();
            checks.push(Check::bad("configuration", Verdict::Broken, error.to_string(), advice));
        }
        Ok(config) => {
            checks.push(configuration(&config));
            checks.push(model(&config).await);
            checks.push(sandbox(&config).await);
        }
    }
    checks.extend([git(&root), terminal()]);
    print(&checks, typed.json, output)?;
    let broken = checks.iter().filter(|check| check.verdict == Verdict::Broken).count();
    match broken {
        0 => Ok(()),
        _ => Err(Failure::new(USAGE, anyhow::anyhow!("{broken} of {} checks failed", checks.len()))),
    }
}

fn print(checks: &[Check], json: bool, output: Output) -> Result<(), Failure> {
    if json {
        return output.json(&checks);
    }
    let mut text = String::new();
    for Check { name, verdict, found, advice } in checks {
        let word = match verdict {
            Verdict::Ok => "ok",
            Verdict::Warning => "warning",
            Verdict::Broken => "broken",
        };
        text += &format!("{word:8} {name:14} {}\n", visible(found));
        if let Some(advice) = advice {
            text += &format!("{:23} {}\n", "", visible(advice));
        }
    }
    output.data(&text)
}

/// A session must be able to write and sync here.
fn state_folder(environment: &Environment) -> Check {
    const NAME: &str = "state folder";
    let places = match Places::find(environment) {
        Ok(places) => places,
        Err(error) => return Check::bad(NAME, Verdict::Broken, error.to_string(), error.hint()),
    };
    let shown = places.state.display().to_string();
    match try_write(&places.state) {
        Ok(()) => Check::ok(NAME, shown),
        Err(error) => {
            let advice = "make it writable, or set AGON_HOME to a folder that is".to_owned();
            Check::bad(NAME, Verdict::Broken, format!("`{shown}` cannot be written: {error}"), Some(advice))
        }
    }
}

/// Writes and syncs a file without a name, so that nothing is left behind. A folder that is not there yet is
/// not made: then its first existing parent is what has to be writable.
fn try_write(folder: &Path) -> std::io::Result<()> {
    use std::io::Write;
    let existing = folder.ancestors().find(|folder| folder.exists()).unwrap_or(folder);
    let mut file = tempfile::tempfile_in(existing)?;
    file.write_all(b"agon\n")?;
    file.sync_data()
}

fn configuration(config: &Config) -> Check {
    const NAME: &str = "configuration";
    let file = config.places().config_file();
    let found = match file.exists() {
        true => file.display().to_string(),
        false => format!("{} (not there; defaults are used)", file.display()),
    };
    match config.warnings() {
        [] => Check::ok(NAME, found),
        warnings => Check::bad(NAME, Verdict::Warning, warnings.join("; "), None),
    }
}

/// Which model would be used, and whether its server answers. Only servers on this machine are asked:
/// a check sends nothing anywhere else.
async fn model(config: &Config) -> Check {
    const NAME: &str = "model";
    let chosen = match config.choose_model().await {
        Ok(chosen) => chosen,
        Err(error) => return Check::bad(NAME, Verdict::Warning, error.to_string(), error.hint()),
    };
    let (name, why) = chosen;
    let connection = match config.connection(&name.provider) {
        Ok(connection) => connection,
        Err(error) => return Check::bad(NAME, Verdict::Broken, error.to_string(), error.hint()),
    };
    let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
    match &connection {
        Connection::Openai { base_url, .. } if connection.is_local() => {
            match crate::config::discover::first_model(base_url).await {
                Some(_) => Check::ok(NAME, format!("{name}{why}; its server answers")),
                None => {
                    let found = format!("{name}: nobody lists models at {base_url}");
                    Check::bad(NAME, Verdict::Warning, found, Some("start the server".to_owned()))
                }
            }
        }
        Connection::Script { file } if !file.is_file() => Check::bad(
            NAME,
            Verdict::Broken,
            format!("{name}: there is no script `{}`", file.display()),
            None,
        ),
        _ => Check::ok(NAME, format!("{name}{why}; not asked, because that would leave this machine")),
    }
}

async fn sandbox(config: &Config) -> Check {
    const NAME: &str = "sandbox";
    let wanted = config.sandbox().word();
    match crate::wiring::sandbox(config).await {
        Ok(spec) if spec.gaps.is_empty() => Check::ok(NAME, format!("{wanted}: {}", spec.kind)),
        Ok(spec) => {
            let found = format!("{wanted}: {}, so {}", spec.kind, spec.gaps.join("; "));
            Check::bad(NAME, Verdict::Warning, found, None)
        }
        Err(error) => Check::bad(NAME, Verdict::Broken, error.to_string(), error.hint()),
    }
}

fn git(root: &Path) -> Check {
    const NAME: &str = "git";
    let mut command = Command::new("git");
    command.arg("--version").current_dir(root).stdin(Stdio::null());
    match command.output() {
        Ok(output) if output.status.success() => {
            Check::ok(NAME, String::from_utf8_lossy(&output.stdout).trim().to_owned())
        }
        _ => {
            let found = "not found; diffs and commits of the workspace are not known";
            Check::bad(NAME, Verdict::Warning, found, Some("install git".to_owned()))
        }
    }
}

fn terminal() -> Check {
    let word = |is: bool| if is { "terminal" } else { "no terminal" };
    let (input, error) = (std::io::stdin().is_terminal(), std::io::stderr().is_terminal());
    Check::ok("terminal", format!("input: {}, talk: {}", word(input), word(error)))
}
