//! The command `policy`: lists rules, removes those that were kept, and says how a call would be judged.

use serde_json::json;

use crate::cli::args::{ExplainArgs, HeldArgs, PolicyArgs, PolicyCommand, WorkspaceArgs};
use crate::cli::config::load;
use crate::cli::error::Failure;
use crate::cli::output::Output;
use crate::cli::plan;
use crate::config::policy::RuleTable;
use crate::config::{Config, Environment, kept};
use crate::host::{Call, Explained, Line, explain};
use crate::projection::phrases;
use crate::projection::safe_text::shown;
use crate::protocol::need::Need;
use crate::protocol::spec::Action;

/// Runs a `policy` command; without one the rules are listed.
pub async fn run(typed: PolicyArgs, environment: Environment, output: Output) -> Result<(), Failure> {
    match typed.command {
        None => list(&load(&typed.workspace, environment, output)?, typed.json, output),
        Some(PolicyCommand::List { json, workspace }) => {
            list(&load(&workspace, environment, output)?, json, output)
        }
        Some(PolicyCommand::Explain(typed)) => explained(&typed, environment, output).await,
        Some(PolicyCommand::Rm { number }) => {
            let file = load(&WorkspaceArgs::default(), environment, output)?.places().kept_rules();
            match kept::remove(&file, number)? {
                Some(rule) => output.say(&format!(
                    "removed rule {number}: {}; a session that is open keeps it until it ends",
                    rule.name
                )),
                None => {
                    let words = format!("no rule with the number {number} was kept");
                    return Err(
                        Failure::usage(words).hint("agon policy list; other rules are in your configuration")
                    );
                }
            }
            Ok(())
        }
    }
}

/// A rule in one line: what it is about.
pub fn about(rule: &RuleTable) -> String {
    let object = rule.command.as_deref().or(rule.path.as_deref());
    let tool = rule.tool.as_deref().unwrap_or("*");
    let place = rule.workspace.iter().map(|root| format!(" in {root}")).collect::<String>();
    match object {
        // Without a command or a path it covers only these needs.
        None if !rule.needs.is_empty() => format!("{tool}: {}{place}", rule.needs.join(" ")),
        object => {
            let needs = rule.needs.iter().map(|need| format!(" +{need}")).collect::<String>();
            format!("{tool}: {}{needs}{place}", object.unwrap_or("*"))
        }
    }
}

fn list(config: &Config, json: bool, output: Output) -> Result<(), Failure> {
    let kept = kept::rules(&config.places().kept_rules())?;
    let own: Vec<RuleTable> = config.policy().rules.iter().map(RuleTable::of).collect();
    let is_kept =
        |rule: &RuleTable| kept.iter().any(|kept| *rule == RuleTable { workspace: None, ..kept.clone() });
    let others = own.iter().filter(|rule| !is_kept(rule));
    let numbered = kept.iter().zip(1..).map(|(rule, number)| (Some(number), rule));
    let rows: Vec<(Option<usize>, &RuleTable)> = numbered.chain(others.map(|rule| (None, rule))).collect();
    if json {
        let rows = rows.iter().map(|(number, rule)| json!({ "number": number, "rule": rule }));
        return output.json(&json!(rows.collect::<Vec<_>>()));
    }
    output
        .say(&format!("permission level {}; deny wins over ask, ask over allow", config.permission().word()));
    let line = |(number, rule): &(Option<usize>, &RuleTable)| {
        let number = number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        format!("{number:>3}  {:<5}  {}  ({})\n", phrases::action(rule.action), about(rule), rule.name)
    };
    output.data(&shown(&rows.iter().map(line).collect::<String>()))
}

/// `TOOL: OBJECT`, and what else is needed.
fn call_of(typed: &ExplainArgs) -> Result<Call, Failure> {
    let wrong = || {
        Failure::usage(format!("`{}` is no call", typed.call))
            .hint("write it as `bash: cargo test` or `edit_file: src/main.rs`")
    };
    let (tool, object) = typed.call.split_once(':').ok_or_else(wrong)?;
    let (tool, object) = (tool.trim().to_owned(), object.trim().to_owned());
    if tool.is_empty() || object.is_empty() {
        return Err(wrong());
    }
    let needs = typed.need.iter().map(|name| {
        Need::asked(name).ok_or_else(|| {
            Failure::usage(format!("`--need {name}` names no need"))
                .hint("write it as `host:NAME`, `port:N`, `git` or `unconfined`")
        })
    });
    Ok(Call { needs: needs.collect::<Result<_, _>>()?, tool, object })
}

async fn explained(typed: &ExplainArgs, environment: Environment, output: Output) -> Result<(), Failure> {
    let call = call_of(typed)?;
    let permission = typed.permission.clone();
    let held = HeldArgs { permission, sandbox: typed.sandbox, ..HeldArgs::default() };
    let config = Config::load(environment, &plan::workspace(&typed.workspace)?, &plan::overrides(&held))?;
    super::config::warn(&config, output);
    let rules = plan::rules_of(typed.policy.as_deref(), &typed.permission)?;
    let explained = explain(&config, &call, &rules).await?;
    if typed.json {
        // A tool that refuses comes before every line.
        let (action, rule, line) = match (explained.ruling(), &explained.refused) {
            (Some(ruling), _) => (ruling.action, ruling.rule.as_str(), ruling.line as usize + 1),
            (None, why) => (Action::Deny, why.as_deref().unwrap_or_default(), 0),
        };
        return output.json(&json!({
            "tool": call.tool, "object": call.object, "action": action, "rule": rule, "line": line,
            "level": explained.level.word(), "sandbox": explained.sandbox, "commands": explained.commands,
            "opens": explained.opens,
        }));
    }
    output.data(&shown(&words(&explained)))
}

fn words(explained: &Explained) -> String {
    let needs = explained.needs.iter().map(|need| need.name().into_owned()).collect::<Vec<_>>();
    if let Some(why) = &explained.refused {
        let sandbox = &explained.sandbox;
        return format!("sandbox   {sandbox}\nrefused by the tool, whatever the rules say: {why}\n");
    }
    let mut out = format!("needs     {}\nsandbox   {}\n", needs.join(", "), explained.sandbox);
    let has_line = explained.needs.iter().any(|need| matches!(need, Need::Command(_)));
    match &explained.commands {
        Some(commands) => out += &format!("commands  `{}`\n", commands.join("`, `")),
        None if has_line => out += "commands  not fully understood: no rule allows it by a pattern\n",
        None => {}
    }
    let decides = explained.ruling().map(|ruling| ruling.line);
    for (line, ruling) in &explained.lines {
        let name = match line {
            Line::Denied => "deny rules".to_owned(),
            Line::ReadOnly => "read-only".to_owned(),
            Line::Asked => "ask rules".to_owned(),
            Line::Allowed => "allow rules".to_owned(),
            Line::Level => format!("level {}", explained.level.word()),
        };
        let words = ruling.as_ref().map_or_else(
            || "-".to_owned(),
            |ruling| format!("{}: {}", phrases::action(ruling.action), ruling.rule),
        );
        let mark = if decides == Some(*line) { "   <- decides" } else { "" };
        out += &format!("{}  {name:<12} {words}{mark}\n", *line as usize + 1);
    }
    let asks = explained.ruling().is_some_and(|ruling| ruling.action == Action::Ask);
    let who = match (asks, explained.opens.as_slice()) {
        (false, _) => "-".to_owned(),
        (true, []) => "a person, else `--yes`".to_owned(),
        (true, opens) => {
            let flags = opens.iter().map(|need| format!("`--allow {need}`")).collect::<Vec<_>>();
            format!("a person; `--yes` only with {}", flags.join(" "))
        }
    };
    out + &format!("6  who answers  {who}\n")
}
