//! A rule as one line that a person can change: `TOOL: PATTERN`; whether it allows what is asked is the session's word.

use crate::protocol::event::Plan;
use crate::protocol::spec::{Action, Rule};
use crate::protocol::text::{glob_literal, glob_of, is_compound};

/// The narrowest rule for a call: its tool, its command or its paths, exactly.
pub(super) fn text(tool: &str, plan: &Plan) -> String {
    let paths: Vec<String> = plan.paths.iter().map(|base| glob_of(&base.path)).collect();
    let pattern = match (&plan.command, paths.as_slice()) {
        (Some(command), _) => glob_of(command),
        (None, []) => return format!("{}:", glob_of(tool)),
        (None, [one]) => one.clone(),
        (None, many) => format!("{{{}}}", many.join(",")),
    };
    format!("{}: {pattern}", glob_of(tool))
}

/// Reads such a line for a call like this one. The rule holds for the call's kind of risk and, where a command runs,
/// for its directory.
pub(super) fn read(line: &str, by: &str, plan: &Plan) -> Result<Rule, String> {
    let (tool, pattern) = line.split_once(':').ok_or("a rule is TOOL: PATTERN")?;
    let (tool, pattern) = (tool.trim(), pattern.trim());
    if tool.is_empty() {
        return Err("a rule begins with the name of a tool".to_owned());
    }
    let has_object = plan.command.is_some() || !plan.paths.is_empty();
    if pattern.is_empty() && has_object {
        return Err("a rule ends with a pattern; * matches anything".to_owned());
    }
    if let Some(command) = plan.command.as_deref().filter(|command| is_compound(command))
        && glob_literal(pattern).as_deref() != Some(command)
    {
        let why = "a pattern allows one plain command, and this line does more: only the whole line as it is can be allowed";
        return Err(why.to_owned());
    }
    let object = Some(pattern.to_owned()).filter(|pattern| !pattern.is_empty());
    let (command, path) = if plan.command.is_some() { (object, None) } else { (None, object) };
    let cwd = plan.command.is_some().then(|| plan.cwd.clone());
    Ok(Rule {
        name: format!("granted by {by}: {line}", line = line.trim()),
        tool: Some(tool.to_owned()),
        command,
        path,
        cwd,
        risk: Some(plan.risk),
        action: Action::Allow,
        priority: 0,
        why: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::event::PathBase;
    use crate::protocol::spec::Risk;

    fn plan(command: Option<&str>, paths: &[&str]) -> Plan {
        let base = |path: &&str| PathBase { path: (*path).to_owned(), sha256: None };
        Plan {
            paths: paths.iter().map(base).collect(),
            command: command.map(Into::into),
            cwd: "crates/a".to_owned(),
            preview: String::new(),
            risk: if command.is_some() { Risk::Execute } else { Risk::Write },
            digest: String::new(),
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
        assert!(read("bash", "ann", &plan(Some("x"), &[])).unwrap_err().contains("TOOL: PATTERN"));
        assert!(read("bash: ", "ann", &plan(Some("x"), &[])).unwrap_err().contains("ends with a pattern"));
        let why = read("bash: echo two*", "ann", &plan(Some("echo two; false"), &[])).unwrap_err();
        assert!(why.contains("one plain command"), "{why}");
        assert!(read("bash: echo two; false", "ann", &plan(Some("echo two; false"), &[])).is_ok());
        assert!(read(": x", "ann", &plan(Some("x"), &[])).unwrap_err().contains("name of a tool"));
    }
}
