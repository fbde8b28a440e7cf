//! The command `doctor`: looks whether everything agon needs is in order, and says what to do where not.

use std::io::IsTerminal;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Serialize;

use crate::cli::args::DoctorArgs;
use crate::cli::error::{Failure, USAGE};
use crate::cli::output::Output;
use crate::cli::plan;
use crate::config::{Config, Connection, Environment, ModelName, Places, SandboxKind, Secrets};
use crate::host::Verdict as Tried;
use crate::projection::phrases::counted;
use crate::projection::safe_text::shown;
use crate::protocol::spec::{PermissionLevel, SandboxSpec};

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
    /// The same in parts, where it is many things.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Check { name, verdict: Verdict::Ok, found: found.into(), details: Vec::new(), advice: None }
    }

    fn bad(name: &'static str, verdict: Verdict, found: impl Into<String>, advice: Option<String>) -> Self {
        Check { name, verdict, found: found.into(), details: Vec::new(), advice }
    }

    fn with(self, details: Vec<String>) -> Self {
        Check { details, ..self }
    }
}

/// Looks at everything and prints it; exit 2 when something is broken.
pub async fn run(typed: &DoctorArgs, environment: Environment, output: Output) -> Result<(), Failure> {
    let root = plan::workspace(&typed.workspace)?;
    let mut checks = vec![state_folder(&environment), disk(&environment)];
    match Config::load(environment, &root, &[]) {
        Err(error) => {
            let advice = error.hint();
            checks.push(Check::bad("configuration", Verdict::Broken, error.to_string(), advice));
        }
        Ok(config) => {
            checks.push(configuration(&config));
            checks.push(model(&config).await);
            checks.extend(servers(&config).await);
            checks.extend([permission(&config), keys(&config), redaction(&config)]);
            match typed.sandbox {
                Some(kind) => checks.extend(proofs(&config, kind).await),
                None => checks.push(sandbox(&config).await),
            }
        }
    }
    checks.extend([git(), terminal(), versions()]);
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
    for Check { name, verdict, found, details, advice } in checks {
        let word = match verdict {
            Verdict::Ok => "ok",
            Verdict::Warning => "warning",
            Verdict::Broken => "broken",
        };
        text += &format!("{word:8} {name:16} {found}\n");
        for detail in details {
            text += &format!("{:25} - {detail}\n", "");
        }
        if let Some(advice) = advice {
            text += &format!("{:25} {advice}\n", "");
        }
    }
    output.data(&shown(&text))
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
        Connection::Http { base_url, .. } if connection.is_local() => {
            match crate::config::discover::first_model(base_url).await {
                Some(_) => Check::ok(NAME, format!("{name}{why}; its server answers")),
                None => {
                    let found = format!("{name}: no server lists models at {base_url}");
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
        Connection::Files { .. } => match described(config, &name).await {
            Ok(()) => Check::ok(NAME, format!("{name}{why}; its file is there")),
            Err((error, hint)) => Check::bad(NAME, Verdict::Broken, error, hint),
        },
        _ => Check::ok(NAME, format!("{name}{why}; not asked, because that would leave this machine")),
    }
}

/// Whether the file of a model that runs in this process is there, or why not and what to do.
async fn described(config: &Config, name: &ModelName) -> Result<(), (String, Option<String>)> {
    match crate::host::offers::described(config, name).await {
        Ok(Some(_)) => Ok(()),
        Ok(None) => {
            Err((format!("{name}: there is no such GGUF file"), Some("agon models pull URL".to_owned())))
        }
        Err(error) => Err((error.to_string(), error.hint())),
    }
}

/// Every provider of the configuration. None where there is none: then the chosen model's is all there is.
async fn servers(config: &Config) -> Option<Check> {
    const NAME: &str = "servers";
    let names: Vec<&String> = config.file().providers.keys().collect();
    let (mut details, mut verdict) = (Vec::new(), Verdict::Ok);
    for name in &names {
        let (found, is_well) = server(config, name).await;
        details.push(format!("{name}: {found}"));
        verdict = if is_well { verdict } else { Verdict::Warning };
    }
    let found = format!("{} in the configuration", names.len());
    let check = Check { verdict, ..Check::ok(NAME, found) };
    (!names.is_empty()).then(|| check.with(details))
}

/// How a provider's server stands, and whether that is well. Only servers on this machine are asked.
async fn server(config: &Config, name: &str) -> (String, bool) {
    match config.connection(name) {
        Err(error) => (error.to_string(), false),
        Ok(Connection::Script { file }) if file.is_file() => (format!("a script, {}", file.display()), true),
        Ok(Connection::Script { file }) => (format!("there is no script `{}`", file.display()), false),
        Ok(Connection::Files { folder, .. }) => (format!("models in {}", folder.display()), true),
        Ok(Connection::Http { base_url, .. }) if !crate::config::providers::is_loopback(&base_url) => {
            (format!("{base_url}; not asked, because that would leave this machine"), true)
        }
        Ok(Connection::Http { base_url, .. }) => {
            match crate::config::discover::first_model(&base_url).await {
                Some(model) => (format!("{base_url} answers; its first model is {model}"), true),
                None => (format!("no server lists models at {base_url}"), false),
            }
        }
    }
}

async fn sandbox(config: &Config) -> Check {
    const NAME: &str = "sandbox";
    let wanted = config.sandbox().word();
    match crate::host::sandbox(config).await {
        Ok((spec, way)) => {
            let mut check = kind_found(NAME, wanted, &spec);
            check.details.extend(way);
            check
        }
        Err(error) => Check::bad(NAME, Verdict::Broken, error.to_string(), error.hint()),
    }
}

/// What was had for what was wanted. Only no sandbox at all is worth a warning.
fn kind_found(name: &'static str, wanted: &str, spec: &SandboxSpec) -> Check {
    let found =
        if wanted == spec.kind { wanted.to_owned() } else { format!("{}, asked for as {wanted}", spec.kind) };
    let proven = spec.proven.iter().map(|held| format!("holds: {held}"));
    let details = proven.chain(spec.gaps.iter().map(|gap| format!("open: {gap}"))).collect();
    let check = match spec.is_confining() {
        false => Check::bad(
            name,
            Verdict::Warning,
            format!("{found}: UNCONFINED, tools work with your own rights"),
            None,
        ),
        true => Check::ok(name, found),
    };
    check.with(details)
}

/// Tries everything a sandbox must refuse, in a workspace of its own. What succeeds is broken.
async fn proofs(config: &Config, kind: SandboxKind) -> Vec<Check> {
    let (spec, proofs) = match crate::host::prove(config, kind).await {
        Ok(done) => done,
        Err(error) => return vec![Check::bad("sandbox", Verdict::Broken, error.to_string(), error.hint())],
    };
    let mut checks = vec![kind_found("sandbox", kind.word(), &spec)];
    checks.extend(proofs.into_iter().map(|proof| {
        let found = format!("{}: {}", proof.what, proof.verdict);
        let check = match proof.verdict {
            Tried::Refused | Tried::Opened => Check::ok(proof.id, found),
            Tried::NotTried(_) | Tried::Unavailable(_) => Check::bad(proof.id, Verdict::Warning, found, None),
            Tried::Succeeded(_) => Check::bad(proof.id, Verdict::Broken, found, None),
        };
        check.with(proof.places)
    }));
    checks
}

/// How much tools do without a question here.
fn permission(config: &Config) -> Check {
    const NAME: &str = "permission";
    let (level, rules) = (config.permission(), config.policy().rules.len() as u64);
    let found = format!("level {}, {}", level.word(), counted(rules, "rule"));
    match (level, config.sandbox()) {
        (PermissionLevel::Auto, SandboxKind::None) => {
            let advice =
                "no sandbox confines commands, so they are asked about; docs/permissions.md".to_owned();
            Check::bad(NAME, Verdict::Warning, found, Some(advice))
        }
        _ => Check::ok(NAME, found),
    }
}

/// Which providers have a key, in the environment or stored. The keys themselves are never shown.
fn keys(config: &Config) -> Check {
    let set = |name: &&&str| config.environment().get(name).is_some();
    let named = crate::config::providers::key_names(&config.file().providers);
    let names: Vec<&str> = named.iter().filter(set).copied().collect();
    let stored: Vec<&str> = config.keys().all().map(|(provider, _)| provider).collect();
    let found = [("set", names), ("stored", stored)].into_iter().filter(|(_, names)| !names.is_empty());
    let found: Vec<String> = found.map(|(how, names)| format!("{how}: {}", names.join(", "))).collect();
    match found.as_slice() {
        [] => Check::ok("keys", "no key is set or stored"),
        found => Check::ok("keys", found.join("; ")),
    }
}

/// Which values of the environment and the configuration are blanked out, by name, and which of a telling name are not.
fn redaction(config: &Config) -> Check {
    let Secrets { taken, left_out } = config.secrets();
    let mut names: Vec<&str> = taken.iter().map(|(name, _)| name.as_str()).collect();
    names.dedup();
    let found = match names.as_slice() {
        [] => "no value of the environment is hidden".to_owned(),
        names => format!("hidden: {}", names.join(", ")),
    };
    Check::ok("redaction", found)
        .with(left_out.into_iter().map(|(name, why)| format!("not hidden: {name}, {why}")).collect())
}

/// Room for logs. A full disk stops a session, so little room is worth a warning.
fn disk(environment: &Environment) -> Check {
    const NAME: &str = "disk";
    let Ok(places) = Places::find(environment) else { return Check::ok(NAME, "no state folder") };
    let existing = places.state.ancestors().find(|folder| folder.exists()).unwrap_or(&places.state);
    match rustix::fs::statvfs(existing) {
        Ok(stat) => {
            let mib = stat.f_bavail.saturating_mul(stat.f_frsize) / (1 << 20);
            let found = format!("{mib} MiB free for sessions");
            match mib {
                0..256 => Check::bad(NAME, Verdict::Warning, found, Some("make room".to_owned())),
                _ => Check::ok(NAME, found),
            }
        }
        Err(error) => Check::bad(NAME, Verdict::Warning, format!("cannot be looked at: {error}"), None),
    }
}

fn versions() -> Check {
    let system = rustix::system::uname();
    let [name, release, machine] = [system.sysname(), system.release(), system.machine()]
        .map(|text| text.to_string_lossy().into_owned());
    Check::ok("versions", format!("agon {}, {name} {release} {machine}", env!("CARGO_PKG_VERSION")))
}

fn git() -> Check {
    const NAME: &str = "git";
    let mut command = Command::new("git");
    // Not in the workspace, whose files are none of this question.
    command.arg("--version").current_dir("/").stdin(Stdio::null());
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
