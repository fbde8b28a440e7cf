//! What rules say of the hosts and ports that a command connects to while it runs.

use super::{Rights, line_fits};
use crate::protocol::effect::HostRule;
use crate::protocol::event::Plan;
use crate::protocol::spec::{Action, Risk, Rule};

/// The rules and grants on hosts and ports that apply to the commands of a call. A rule for the call itself (its paths, its one
/// digest) says nothing of a connection.
pub fn on_hosts(rights: &Rights<'_>, tool: &str, plan: &Plan) -> Vec<HostRule> {
    let rules = rights.policy.rules.iter().chain(rights.granted());
    rules.filter(|rule| applies(rule, tool, plan)).flat_map(said).collect()
}

fn applies(rule: &Rule, tool: &str, plan: &Plan) -> bool {
    let is_of_one_call = rule.path.is_some() || rule.call.is_some();
    rule.tool.as_deref().is_none_or(|pattern| rule.action.fits(pattern, tool))
        && rule.cwd.as_ref().is_none_or(|cwd| *cwd == plan.cwd)
        && line_fits(rule, plan)
        && !(is_of_one_call && rule.action == Action::Allow)
}

/// What forbids does so however it is written; one that forbids the network, and names no need, speaks of all of it. What
/// allows names a host or a port.
fn said(rule: &Rule) -> impl Iterator<Item = HostRule> {
    let (action, allows) = (rule.action, rule.action == Action::Allow);
    let is_named = |need: &String| need.starts_with("host:") || need.starts_with("port:") || need == "*";
    let is_of_all =
        !allows && rule.risk == Some(Risk::Network) && rule.needs.is_empty() && rule.path.is_none();
    let named = rule.needs.iter().filter(move |need| !allows || is_named(need)).cloned();
    named.chain(is_of_all.then(|| "*".to_owned())).map(move |need| HostRule { need, action })
}

#[cfg(test)]
mod tests {
    use super::super::{Grant, Shelter};
    use super::*;
    use crate::protocol::need::Need;
    use crate::protocol::spec::{PermissionLevel, Policy};

    #[test]
    fn a_rule_for_a_host_applies_to_the_tools_and_commands_it_names() {
        let plan = |line: &str| Plan {
            needs: vec![Need::Command(line.to_owned())],
            cwd: String::new(),
            preview: String::new(),
            risk: Risk::Execute,
            digest: "d".to_owned(),
        };
        let rule = |needs: &[&str], action| Rule {
            needs: needs.iter().map(|need| (*need).to_owned()).collect(),
            ..Rule::named("r", action)
        };
        let npm = Rule { command: Some("npm *".to_owned()), ..rule(&["host:b"], Action::Allow) };
        let other = Rule { tool: Some("fetch".to_owned()), ..rule(&["host:c"], Action::Allow) };
        let once = Rule { call: Some("d".to_owned()), ..rule(&["host:d"], Action::Allow) };
        let policy = Policy {
            rules: vec![
                rule(&["host:a", "git", "port:9"], Action::Allow),
                npm,
                other,
                rule(&["*", "HOST:x", "port:5*"], Action::Deny),
                Rule { risk: Some(Risk::Network), ..rule(&[], Action::Ask) },
                Rule { risk: Some(Risk::Network), ..rule(&[], Action::Allow) },
            ],
        };
        let said = |line: &str, grants: &[Rule]| -> Vec<String> {
            let shelter = Shelter::default();
            let grants: Vec<Grant> =
                grants.iter().map(|rule| Grant { rule: rule.clone(), shelter }).collect();
            let level = PermissionLevel::Ask;
            let rights = Rights { policy: &policy, grants: &grants, level, read_only: false, shelter };
            let rules = on_hosts(&rights, "bash", &plan(line));
            rules.into_iter().map(|rule| format!("{:?} {}", rule.action, rule.need)).collect()
        };
        let denied = ["Deny *", "Deny HOST:x", "Deny port:5*", "Ask *"];
        let with = |more: &[&str]| -> Vec<String> {
            let all = more.iter().map(|one| format!("Allow {one}"));
            all.chain(denied.map(str::to_owned)).collect()
        };
        assert_eq!(said("npm ci", &[]), with(&["host:a", "port:9", "host:b"]));
        assert_eq!(said("npm ci && npm test", &[]), with(&["host:a", "port:9", "host:b"]));
        assert_eq!(said("curl x", &[once]), with(&["host:a", "port:9"]));
        let grant = rule(&["host:e"], Action::Allow);
        let mut expected = with(&["host:a", "port:9"]);
        expected.push("Allow host:e".to_owned());
        assert_eq!(said("npm ci; curl x", &[grant]), expected);
    }
}
