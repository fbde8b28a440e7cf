//! Policy rules as files have them; unlike the rules of a log, they refuse a key that no rule has.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::protocol::spec::{Action, PermissionLevel, Policy, Risk, Rule};
use crate::session::policy::denying;

/// Who may do what. Deny wins over ask, ask over allow, whatever the priority; among equals the highest priority names the rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Policy")]
pub struct PolicyFile {
    /// The rules, in the order they were written.
    #[serde(default)]
    pub rules: Vec<RuleTable>,
}

/// One rule. A field that is absent matches everything.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Rule")]
pub struct RuleTable {
    /// Name shown in the log.
    pub name: String,
    /// Glob over tool names.
    pub tool: Option<String>,
    /// Glob over the whole command line (`*` matches everything, `/` and newlines included).
    pub command: Option<String>,
    /// Glob over workspace-relative paths; one matching path is enough for deny and ask, allow needs all.
    pub path: Option<String>,
    /// Globs over paths that `path` does not mean although it matches them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<String>,
    /// Globs over other needs: `host:NAME`, `port:N`, `tool:SERVER/TOOL`, `git`, `unconfined`. A rule allows what leaves the
    /// sandbox only where it names it here.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Directory the call runs in, relative to the workspace, exactly; empty is the root.
    pub cwd: Option<String>,
    /// Risk class.
    pub risk: Option<Risk>,
    /// What follows.
    pub action: Action,
    /// Among rules with the same action the highest names the decision; default 0.
    #[serde(default)]
    pub priority: i32,
    /// Why, for people.
    pub why: Option<String>,
    /// The one workspace it applies in, an absolute path; every one when absent.
    pub workspace: Option<String>,
}

impl From<RuleTable> for Rule {
    fn from(written: RuleTable) -> Self {
        let RuleTable { name, tool, command, path, except, needs, cwd, .. } = written;
        let RuleTable { risk, action, priority, why, .. } = written;
        Rule { name, tool, command, path, except, needs, cwd, call: None, risk, action, priority, why }
    }
}

impl RuleTable {
    /// The rule as a file has it; one for a single call is that only in its session.
    pub fn of(rule: &Rule) -> Self {
        let Rule { name, tool, command, path, except, needs, cwd, call: _, risk, action, priority, why } =
            rule.clone();
        let workspace = None;
        RuleTable { name, tool, command, path, except, needs, cwd, risk, action, priority, why, workspace }
    }
}

impl Config {
    /// The rules of all layers, with agon's own before them unless they are switched off.
    pub fn policy(&self) -> Policy {
        let table = self.file().policy.clone().unwrap_or_default();
        let names = self.file().names.clone().unwrap_or_default();
        let standard = || denying(&names.secret, &names.except);
        let mut policy = if table.defaults == Some(false) { Policy::default() } else { standard() };
        let is_of = |root: &String| Path::new(root) == self.workspace();
        let here = table.rules.into_iter().filter(|rule| rule.workspace.as_ref().is_none_or(is_of));
        policy.rules.extend(here.map(Rule::from));
        policy.add(&self.asks_in(self.workspace()));
        policy
    }

    /// How much tools do without a question.
    pub fn permission(&self) -> PermissionLevel {
        self.file().permission.unwrap_or_default()
    }
}
