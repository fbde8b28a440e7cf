//! What was meant: typed arguments checked and turned into values; starts nothing.

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::Value as Json;

use crate::cli::args::{
    ArenaArgs, DebateArgs, HeldArgs, LoudArgs, PermissionArgs, RunArgs, SquadArgs, WorkspaceArgs,
};
use crate::cli::consent::AtTerminal;
use crate::cli::debate::{MAX_STEPS, plan_of};
use crate::cli::desk::Desk;
use crate::cli::error::{Failure, USAGE};
use crate::cli::output::Output;
use crate::config::{Config, ConfigError, Environment, ModelName, Override, PolicyFile, SandboxKind};
use crate::host::{Answers, Changes, Host, Instead, LimitChanges, SquadWish, in_shell};
use crate::library::read_text;
use crate::protocol::complaint::plain;
use crate::protocol::fit;
use crate::protocol::need::Need;
use crate::protocol::spec::{Action, Rule};

/// The most that is taken from standard input, in bytes.
pub const MAX_STDIN: u64 = 512 * 1024;

/// The most a policy or schema file may hold, in bytes.
pub(super) const MAX_GIVEN_FILE: u64 = 512 * 1024;

/// What a `run` is to do.
#[derive(Debug)]
pub struct RunPlan {
    /// The merged configuration, flags included.
    pub config: Config,
    /// The task, standard input included; never empty.
    pub prompt: String,
    /// JSON Schema the answer must fit.
    pub schema: Option<Json>,
    /// Session to go on in.
    pub resume: Option<String>,
    /// What is different there from what was recorded.
    pub changes: Changes,
    /// How the run is shown and answered.
    pub show: ShowPlan,
}

/// How a session is shown and who answers its approvals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShowPlan {
    /// Print the log's lines instead of the answer.
    pub json: bool,
    /// Print signals as well.
    pub signals: bool,
    /// File for the answer.
    pub output: Option<PathBuf>,
    /// Answer approvals with yes, signed so.
    pub yes: Option<&'static str>,
    /// What bounds the session by flag, which no log brings back: a hint repeats it.
    pub held: String,
    /// How much is said.
    pub loud: LoudArgs,
}

impl RunPlan {
    /// Checks the arguments of `run`, reads configuration, the files that are named and standard input.
    pub fn of(typed: &RunArgs, environment: Environment) -> Result<Self, Failure> {
        RunPlan::with("run", typed, environment, Vec::new())
    }

    /// The same with more values that flags set. `verb` is the command it was typed with; standard input is read only
    /// once everything else is in order.
    pub fn with(
        verb: &str,
        typed: &RunArgs,
        environment: Environment,
        more: Vec<Override>,
    ) -> Result<Self, Failure> {
        let schema = typed.output_schema.as_deref().map(read_schema).transpose()?;
        let is_named = typed.arena.workspace.workspace.is_some();
        let who = (typed.model.as_deref(), typed.persona.as_deref());
        let mut overrides = overrides(&typed.arena.held);
        overrides.extend(more);
        overrides.extend(named(who));
        let (config, root) = match &typed.earlier.resume {
            Some(session) if !is_named => {
                let host = Host::of(&environment)?;
                (host.config_for((session, None), environment, &overrides)?, None)
            }
            _ => {
                let root = workspace(&typed.arena.workspace)?;
                (Config::load(environment, &root, &overrides)?, is_named.then_some(root))
            }
        };
        Ok(RunPlan {
            changes: Changes { root, ..changes(&typed.arena.held, who, &config)? },
            prompt: given(verb, typed.prompt.as_deref().unwrap_or_default())?,
            resume: typed.earlier.resume.clone(),
            show: ShowPlan::of(&typed.arena),
            schema,
            config,
        })
    }

    /// The same for `squad`.
    pub fn of_squad(typed: &SquadArgs, environment: Environment) -> Result<Self, Failure> {
        let typed = typed.clone();
        let run = RunArgs {
            prompt: typed.prompt,
            model: typed.model,
            persona: None,
            output_schema: typed.output_schema,
            earlier: typed.earlier,
            arena: typed.arena,
        };
        let on = |value| toml::Value::Boolean(value);
        let no_cache = typed.no_cache.then(|| set("--no-cache", &["cache", "enabled"], on(false)));
        let refresh = typed.refresh.then(|| set("--refresh", &["cache", "refresh"], on(true)));
        let more = no_cache.into_iter().chain(refresh).collect();
        let mut plan = RunPlan::with("squad", &run, environment, more)?;
        plan.changes.squad = Some(SquadWish { blueprint: typed.blueprint, checks: typed.check });
        Ok(plan)
    }

    /// The same for `debate`, whose topic was read already.
    pub fn of_debate(typed: &DebateArgs, topic: String, environment: Environment) -> Result<Self, Failure> {
        let run = RunArgs {
            prompt: Some(topic),
            model: typed.model.clone(),
            earlier: typed.earlier.clone(),
            arena: typed.arena.clone(),
            ..RunArgs::default()
        };
        let mut plan = RunPlan::with("debate", &run, environment, Vec::new())?;
        // A debate needs more steps than one spark.
        plan.config.default_max_steps(MAX_STEPS);
        let wanted = &mut plan.changes.limits.max_steps;
        *wanted = wanted.or(typed.earlier.resume.is_some().then_some(plan.config.limits().max_steps));
        plan.changes.debate = Some(plan_of(typed, &plan.config)?);
        plan.changes.reads_only = true;
        Ok(plan)
    }
}

impl ShowPlan {
    /// Who answers approvals: `--yes`, or a person at the terminal.
    pub fn answers(&self) -> Answers {
        match self.yes {
            Some(by) => Answers::Yes { by: by.to_owned(), people: self.has_person() },
            None if self.has_person() => Answers::People,
            None => Answers::Nobody,
        }
    }

    fn has_person(&self) -> bool {
        !self.json && Desk::is_attended()
    }

    /// The person that can be asked before a session is opened.
    pub(super) fn person(&self, output: Output) -> AtTerminal {
        AtTerminal { can_be_asked: !self.json, output }
    }

    /// How the shared flags want a session shown.
    pub fn of(typed: &ArenaArgs) -> Self {
        ShowPlan {
            json: typed.json,
            signals: typed.signals,
            output: typed.output.clone(),
            yes: yes(typed.held.yes),
            held: bounds(typed.held.sandbox, typed.held.policy.as_deref(), &typed.held.permission),
            loud: typed.loud,
        }
    }
}

/// Who says yes to approvals when `--yes` was given.
pub fn yes(given: bool) -> Option<&'static str> {
    given.then_some("--yes")
}

/// Flags as they are typed after a command, each after a blank.
pub fn bounds(sandbox: Option<SandboxKind>, policy: Option<&Path>, permission: &PermissionArgs) -> String {
    let sandbox = sandbox.map(|kind| format!(" --sandbox {}", kind.word()));
    let policy = policy.map(|file| format!(" --policy {}", in_shell(file)));
    let level = permission.level.map(|level| format!(" --permission {}", level.word()));
    let needs = permission.allow.iter().map(|need| format!(" --allow {}", in_shell(Path::new(need))));
    sandbox.into_iter().chain(policy).chain(level).chain(needs).collect()
}

/// The workspace as an absolute path without links; it must be a folder.
pub fn workspace(typed: &WorkspaceArgs) -> Result<PathBuf, Failure> {
    folder(typed.workspace.as_deref().unwrap_or(Path::new(".")))
}

/// The same for a folder that was named.
pub fn folder(wanted: &Path) -> Result<PathBuf, Failure> {
    let found = wanted.canonicalize();
    let root = found.with_context(|| format!("cannot work in `{}`", wanted.display()));
    let root = root.map_err(|error| Failure::new(USAGE, error))?;
    match root.is_dir() {
        true => Ok(root),
        false => Err(Failure::usage(format!("cannot work in `{}`: it is not a folder", wanted.display()))),
    }
}

/// The values that the shared flags set.
pub fn overrides(typed: &HeldArgs) -> Vec<Override> {
    let number = |number: u64| toml::Value::Integer(i64::try_from(number).unwrap_or(i64::MAX));
    let text = |text: String| toml::Value::String(text);
    let sets = [
        typed.sandbox.map(|kind| set("--sandbox", &["sandbox", "kind"], text(kind.word().to_owned()))),
        typed
            .permission
            .level
            .map(|level| set("--permission", &["permission"], text(level.word().to_owned()))),
        typed.effort.map(|effort| set("--effort", &["effort"], text(effort.word().to_owned()))),
        typed.max_tokens.map(|n| set("--max-tokens", &["limits", "max_tokens"], number(n))),
        typed.max_usd.map(|usd| set("--max-usd", &["limits", "max_usd"], text(usd.to_string()))),
        typed.max_seconds.map(|n| set("--max-seconds", &["limits", "max_seconds"], number(n))),
        typed.max_steps.map(|n| set("--max-steps", &["limits", "max_steps"], number(n.into()))),
    ];
    sets.into_iter().flatten().collect()
}

/// The values that naming a model and a persona sets.
pub fn named((model, persona): (Option<&str>, Option<&str>)) -> Vec<Override> {
    let text = |text: &str| toml::Value::String(text.to_owned());
    let model = model.map(|model| set("--model", &["model"], text(model)));
    model.into_iter().chain(persona.map(|id| set("--persona", &["persona"], text(id)))).collect()
}

/// What flags make different from the recorded settings of a session that is taken up.
pub fn changes(
    typed: &HeldArgs,
    (model, persona): (Option<&str>, Option<&str>),
    config: &Config,
) -> Result<Changes, Failure> {
    Ok(Changes {
        model: model.map(str::parse::<ModelName>).transpose().map_err(ConfigError::from)?,
        persona: persona.map(str::to_owned),
        effort: typed.effort,
        limits: limit_changes(typed, config),
        rules: rules_of(typed.policy.as_deref(), &typed.permission)?,
        permission: typed.permission.level,
        sandbox: typed.sandbox,
        in_copy: typed.copy,
        ..Changes::default()
    })
}

/// The limits that were given as flags; what configuration alone says changes no recorded session.
pub fn limit_changes(typed: &HeldArgs, config: &Config) -> LimitChanges {
    let limits = config.limits();
    LimitChanges {
        max_steps: typed.max_steps.map(|_| limits.max_steps),
        max_tokens: typed.max_tokens.and(limits.max_tokens),
        max_micro_usd: typed.max_usd.and(limits.max_micro_usd),
        max_seconds: typed.max_seconds.and(limits.max_seconds),
    }
}

/// A value that a flag sets.
pub fn set(flag: &'static str, key: &'static [&'static str], value: toml::Value) -> Override {
    Override { flag, key, value }
}

/// `ENTRY=FILE`: the result of a tool that a fork is to have instead.
pub fn result_of(written: &str) -> Result<Instead, Failure> {
    let (entry, file) = written.split_once('=').ok_or_else(|| {
        Failure::usage(format!("`--set-result {written}` names no file"))
            .hint("write it as `--set-result e42=FILE`")
    })?;
    let seq = entry.strip_prefix('e').unwrap_or(entry).parse().map_err(|_| {
        Failure::usage(format!("`{entry}` is not an entry, which looks like `e42`"))
            .hint("a tool's result begins with its entry: `agon replay S --full` shows them")
    })?;
    Ok(Instead::Result { seq, content: named_file(Path::new(file), MAX_GIVEN_FILE)? })
}

/// The rules of a policy file, if one is named, and a rule for each need that is allowed by name.
pub fn rules_of(file: Option<&Path>, permission: &PermissionArgs) -> Result<Vec<Rule>, Failure> {
    let mut rules = file.map(rules_in).transpose()?.unwrap_or_default();
    for need in &permission.allow {
        rules.push(allowing(need)?);
    }
    Ok(rules)
}

/// The rule of `--allow NEED`.
fn allowing(need: &str) -> Result<Rule, Failure> {
    match Need::is_pattern(need) {
        true => {
            Ok(Rule { needs: vec![need.to_owned()], ..Rule::named(format!("--allow {need}"), Action::Allow) })
        }
        false => Err(Failure::usage(format!("`--allow {need}` names no need"))
            .hint("write it as `host:NAME`, `port:N`, `tool:SERVER/TOOL`, `git` or `unconfined`")),
    }
}

/// The rules of a policy file.
pub fn rules_in(path: &Path) -> Result<Vec<Rule>, Failure> {
    let text = named_file(path, MAX_GIVEN_FILE)?;
    /// The same as a configuration has it.
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Configured {
        policy: PolicyFile,
    }
    let read = match text.lines().any(|line| line.trim_start().starts_with("[[policy.rules]]")) {
        true => toml::from_str(&text).map(|Configured { policy }| policy),
        false => toml::from_str(&text),
    };
    let policy = read.map_err(|error| {
        let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
        Failure::usage(format!("`{}` line {line}: {}", path.display(), plain(error.message())))
            .hint("`agon schema policy` describes such a file")
    })?;
    Ok(policy.rules.into_iter().map(Rule::from).collect())
}

/// Reads a JSON Schema and makes sure that it is one.
fn read_schema(path: &Path) -> Result<Json, Failure> {
    let text = named_file(path, MAX_GIVEN_FILE)?;
    let bad = |error: String| Failure::usage(format!("`{}` is not a JSON Schema: {error}", path.display()));
    let schema: Json = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
    fit::is_schema(&schema).map_err(bad)?;
    Ok(schema)
}

/// A file that somebody named, with at most so many bytes.
pub(super) fn named_file(path: &Path, most: u64) -> Result<String, Failure> {
    let text = read_text(path, most)?;
    text.ok_or_else(|| Failure::usage(format!("there is no file `{}`", path.display())))
}

/// The task: what was typed, where `-` is standard input, then what was piped in.
pub(super) fn given(verb: &str, typed: &str) -> Result<String, Failure> {
    let is_asked_for = typed == "-";
    let piped = piped_input(is_asked_for)?;
    prompt(verb, if is_asked_for { "" } else { typed }, piped.as_deref())
}

/// What comes through a pipe or from a file; of a terminal only what is asked for.
fn piped_input(is_asked_for: bool) -> Result<Option<String>, Failure> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() && !is_asked_for {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    let read = stdin.lock().take(MAX_STDIN + 1).read_to_end(&mut bytes);
    read.context("cannot read standard input").map_err(|error| Failure::new(USAGE, error))?;
    bounded_text(bytes).map(Some)
}

fn bounded_text(bytes: Vec<u8>) -> Result<String, Failure> {
    if bytes.len() as u64 > MAX_STDIN {
        return Err(Failure::usage(format!("standard input has more than {MAX_STDIN} bytes"))
            .hint("put it into a file of the workspace and name the file in the prompt"));
    }
    String::from_utf8(bytes).map_err(|_| Failure::usage("standard input is not UTF-8 text"))
}

/// What was typed, then what was piped in.
pub(super) fn prompt(verb: &str, typed: &str, piped: Option<&str>) -> Result<String, Failure> {
    let piped = piped.unwrap_or_default().trim_end_matches('\n');
    match (typed.trim().is_empty(), piped.trim().is_empty()) {
        (true, true) => {
            Err(Failure::usage("the prompt is empty").hint(format!("agon {verb} \"what to do\"")))
        }
        (false, true) => Ok(typed.to_owned()),
        (true, false) => Ok(piped.to_owned()),
        (false, false) => Ok(format!("{typed}\n\n{piped}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn piped_text_follows_what_was_typed() {
        assert_eq!(prompt("run", "explain", Some("fn a() {}\n")).unwrap(), "explain\n\nfn a() {}");
        assert_eq!(prompt("run", "", Some("only this\n")).unwrap(), "only this");
        assert_eq!(prompt("run", "only that", Some("\n")).unwrap(), "only that");
        for (typed, piped) in [("", None), (" \n", Some("  \n"))] {
            assert_eq!(prompt("run", typed, piped).unwrap_err().code, USAGE);
        }
    }

    #[test]
    fn standard_input_is_bounded_and_text() {
        let max = usize::try_from(MAX_STDIN).unwrap();
        assert!(bounded_text(vec![b'a'; max]).is_ok());
        assert_eq!(bounded_text(vec![b'a'; max + 1]).unwrap_err().code, USAGE);
        assert_eq!(bounded_text(vec![0xff]).unwrap_err().code, USAGE);
    }
}
