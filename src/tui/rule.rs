//! A rule as one line that a person can change: `TOOL: PATTERN`; whether it allows what is asked is the session's word.

use crate::protocol::event::Plan;
use crate::protocol::spec::Rule;
use crate::protocol::text::glob_of;

/// The narrowest rule for a call: its tool, its command or its paths, exactly.
pub fn text(tool: &str, plan: &Plan) -> String {
    let rule = Rule::granting("", tool, plan);
    let host = rule.needs.into_iter().next().filter(|_| plan.connection().is_some());
    match rule.command.or(rule.path).or(host) {
        Some(pattern) => format!("{}: {pattern}", glob_of(tool)),
        None => format!("{}:", glob_of(tool)),
    }
}

/// Reads such a line for a call like this one: what grants the call again, with the line's pattern in place of its
/// command or its paths. A call without either is granted as it is, or by `*` with any arguments.
pub fn read(line: &str, by: &str, plan: &Plan) -> Result<Rule, String> {
    let (tool, pattern) = line.split_once(':').ok_or("a rule is TOOL: PATTERN")?;
    let (tool, pattern) = (tool.trim(), pattern.trim());
    if tool.is_empty() {
        return Err("a rule begins with the name of a tool".to_owned());
    }
    let named = format!("granted by {by}: {line}", line = line.trim());
    let exact = Rule { tool: Some(tool.to_owned()), ..Rule::granting(named, "", plan) };
    let object = Some(pattern.to_owned());
    match (&exact.command, &exact.path) {
        (None, None) if plan.connection().is_some() && pattern.starts_with("host:") => {
            Ok(Rule { needs: object.into_iter().collect(), ..exact })
        }
        (None, None) if plan.connection().is_some() => {
            Err("a rule for a connection names hosts, as `host:*.example.org`; `host:*` is any".to_owned())
        }
        (None, None) if pattern == "*" => Ok(Rule { call: None, cwd: None, ..exact }),
        (None, None) if pattern.is_empty() => Ok(exact),
        (None, None) => Err("a rule for this call ends with nothing, or with * for any arguments".to_owned()),
        _ if pattern.is_empty() => Err("a rule ends with a pattern; * matches anything".to_owned()),
        (None, Some(_)) => Ok(Rule { path: object, cwd: None, ..exact }),
        (Some(_), _) => Ok(Rule { command: object, ..exact }),
    }
}

/// How long a rule holds that is granted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Lasts {
    #[default]
    Session,
    /// Kept in the user's configuration, for this workspace.
    Workspace,
    /// The same for every workspace.
    Everywhere,
}

impl Lasts {
    pub fn next(self) -> Self {
        match self {
            Lasts::Session => Lasts::Workspace,
            Lasts::Workspace => Lasts::Everywhere,
            Lasts::Everywhere => Lasts::Session,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::event::PathBase;
    use crate::protocol::need::Need;
    use crate::protocol::spec::Risk;

    fn plan(command: Option<&str>, paths: &[&str]) -> Plan {
        let base = |path: &&str| Need::Write(PathBase { path: (*path).to_owned(), sha256: None });
        let line = command.map(|line| Need::Command(line.to_owned()));
        Plan {
            needs: line.into_iter().chain(paths.iter().map(base)).collect(),
            cwd: "crates/a".to_owned(),
            preview: String::new(),
            risk: if command.is_some() { Risk::Execute } else { Risk::Write },
            digest: "d".to_owned(),
        }
    }

    #[test]
    fn the_line_that_is_offered_names_exactly_what_is_asked() {
        assert_eq!(text("bash", &plan(Some("ls *.rs"), &[])), "bash: ls [*].rs");
        assert_eq!(text("edit_file", &plan(None, &["a.rs"])), "edit_file: a.rs");
        assert_eq!(text("move", &plan(None, &["a", "b,c"])), "move: {a,b[,]c}");
        assert_eq!(text("tidy", &plan(None, &[])), "tidy:");
    }

    #[test]
    fn a_line_becomes_a_rule_or_says_what_it_lacks() {
        let rule = read("bash: cargo test *", "ann", &plan(Some("cargo test -q"), &[])).unwrap();
        assert_eq!((rule.tool.as_deref(), rule.command.as_deref()), (Some("bash"), Some("cargo test *")));
        assert_eq!((rule.cwd.as_deref(), rule.risk), (Some("crates/a"), Some(Risk::Execute)));
        assert_eq!(rule.name, "granted by ann: bash: cargo test *");
        let rule = read("edit_file: src/**", "ann", &plan(None, &["src/a.rs"])).unwrap();
        assert_eq!((rule.path.as_deref(), rule.cwd), (Some("src/**"), None));
        let rule = read("tidy:", "ann", &plan(None, &[])).unwrap();
        assert_eq!((rule.call.as_deref(), rule.path), (Some("d"), None), "these arguments");
        assert_eq!(read("tidy: *", "ann", &plan(None, &[])).unwrap().call, None, "any arguments");
        assert!(read("tidy: x", "ann", &plan(None, &[])).is_err());
        assert!(read("bash", "ann", &plan(Some("x"), &[])).unwrap_err().contains("TOOL: PATTERN"));
        assert!(read("bash: ", "ann", &plan(Some("x"), &[])).unwrap_err().contains("ends with a pattern"));
        assert!(read("bash: echo two; false", "ann", &plan(Some("echo two; false"), &[])).is_ok());
        assert!(read(": x", "ann", &plan(Some("x"), &[])).unwrap_err().contains("name of a tool"));
    }
}
