//! What rules say of the hosts and ports that a command connects to while it runs.

use super::{fits, line_fits};
use crate::protocol::effect::HostRule;
use crate::protocol::event::Plan;
use crate::protocol::spec::{Action, Policy, Risk, Rule};

/// The rules and grants on hosts and ports that apply to the commands of a call. A rule for the call itself (its paths, its one
/// digest) says nothing of a connection. What forbids is passed on however it is written.
pub fn on_hosts(policy: &Policy, grants: &[Rule], tool: &str, plan: &Plan) -> Vec<HostRule> {
    let rules = policy.rules.iter().chain(grants).filter(|rule| applies(rule, tool, plan));
    let named = rules.flat_map(|rule| {
        // A rule on the risk of the network speaks of every host and port.
        let all = rule.needs.is_empty() && rule.risk == Some(Risk::Network) && rule.action != Action::Allow;
        let needs = rule.needs.iter().cloned().chain(all.then(|| "*".to_owned()));
        needs.map(|need| HostRule { need, action: rule.action })
    });
    let is_of_the_network =
        |need: &str| need.starts_with("host:") || need.starts_with("port:") || need == "*";
    named.filter(|rule| rule.action != Action::Allow || is_of_the_network(&rule.need)).collect()
}

fn applies(rule: &Rule, tool: &str, plan: &Plan) -> bool {
    let is_of_one_call = rule.path.is_some() || rule.call.is_some();
    rule.tool.as_deref().is_none_or(|pattern| fits(pattern, tool, rule.action))
        && rule.cwd.as_ref().is_none_or(|cwd| *cwd == plan.cwd)
        && (rule.command.is_none() || plan.command().is_some_and(|line| line_fits(rule, line)))
        && !(is_of_one_call && rule.action == Action::Allow)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::need::Need;

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
                rule(&["*"], Action::Deny),
            ],
        };
        let said = |line: &str, grants: &[Rule]| -> Vec<String> {
            let rules = on_hosts(&policy, grants, "bash", &plan(line));
            rules.into_iter().map(|rule| format!("{:?} {}", rule.action, rule.need)).collect()
        };
        assert_eq!(said("npm ci", &[]), ["Allow host:a", "Allow port:9", "Allow host:b", "Deny *"]);
        assert_eq!(said("npm ci && npm test", &[])[2], "Allow host:b", "each command of a list is npm's");
        assert_eq!(said("curl x", &[once]), ["Allow host:a", "Allow port:9", "Deny *"]);
        let grant = rule(&["host:e"], Action::Allow);
        assert_eq!(
            said("npm ci; curl x", &[grant]),
            ["Allow host:a", "Allow port:9", "Deny *", "Allow host:e"]
        );
    }
}
