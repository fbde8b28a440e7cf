//! Who may do what, as a log has it: rules over the needs of a call.

use std::path::Path;

use globset::GlobMatcher;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Risk;
use crate::protocol::event::Plan;
use crate::protocol::need::Need;
use crate::protocol::stored::stored;
use crate::protocol::text::{glob, glob_of};

/// Who may do what. Deny wins over ask, ask over allow, whatever the priority; among equals the highest priority names the rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Policy {
    /// The rules, in the order they were written.
    #[serde(default)]
    pub rules: Vec<Rule>,
}

impl Policy {
    /// Adds rules that are not there yet.
    pub fn add(&mut self, rules: &[Rule]) {
        for rule in rules {
            if !self.rules.contains(rule) {
                self.rules.push(rule.clone());
            }
        }
    }
}

/// One rule. A field that is absent matches everything; a rule that allows by a field covers no need of another kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rule {
    /// Name shown in the log.
    pub name: String,
    /// Glob over tool names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Glob over the whole command line (`*` matches everything, `/` and newlines included). Deny and ask also try each
    /// command of the line, without what stands before it. A shell has more ways to write a command, so such a rule
    /// is a convenience and no boundary: the sandbox is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Glob over workspace-relative paths; one matching path is enough for deny and ask, allow needs all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Globs over paths that `path` does not mean although it matches them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<String>,
    /// Globs over the names of other needs: `host:*.example.org`, `port:5432`, `tool:SERVER/TOOL`, `git`,
    /// `unconfined`. What leaves the sandbox is only allowed by a rule that names it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// Directory the call runs in, relative to the workspace, exactly; empty is the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Digest of the one call it is for, of grants for calls whose needs do not say what they are about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// Risk class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<Risk>,
    /// What follows.
    pub action: Action,
    /// Among rules with the same action the highest names the decision; default 0.
    #[serde(default)]
    pub priority: i32,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Rule {
    /// A rule for everything, under this name.
    pub fn named(name: impl Into<String>, action: Action) -> Self {
        Rule {
            name: name.into(),
            tool: None,
            command: None,
            path: None,
            except: Vec::new(),
            needs: Vec::new(),
            cwd: None,
            call: None,
            risk: None,
            action,
            priority: 0,
            why: None,
        }
    }

    /// The rule that grants a call again: the same tool with the same needs. Where the needs do not say what the call is
    /// about, the very same call.
    pub fn granting(name: impl Into<String>, tool: &str, plan: &Plan) -> Self {
        let speaks = |need: &Need| {
            !matches!(
                need,
                Need::Tool(_) | Need::Confirm(_) | Need::Git | Need::Unconfined | Need::Unknown(_)
            )
        };
        Rule {
            tool: Some(glob_of(tool)),
            command: plan.command().map(glob_of),
            path: glob_of_paths(plan),
            // A host is written as it is, brackets of an address included.
            needs: plan
                .other_needs()
                .map(|need| match need {
                    Need::Host(_) => need.name().into_owned(),
                    _ => glob_of(&need.name()),
                })
                .collect(),
            // A connection is the same from every folder, and for every command that asks for it before it runs.
            cwd: plan.connection().is_none().then(|| plan.cwd.clone()),
            call: (!plan.needs.iter().any(speaks)).then(|| plan.digest.clone()),
            risk: plan.connection().is_none().then_some(plan.risk),
            ..Rule::named(name, Action::Allow)
        }
    }

    /// The paths it speaks of, if it denies any.
    pub fn denied(&self) -> Option<DeniedPath> {
        Some(DeniedPath { glob: self.path.clone()?, except: self.except.clone() })
    }
}

/// Paths of a workspace that a rule denies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeniedPath {
    /// The glob that matches them, in either case.
    pub glob: String,
    /// Globs of what it does not mean, to the letter.
    pub except: Vec<String>,
}

impl DeniedPath {
    /// What a glob matches, without exception.
    pub fn of(glob: impl Into<String>) -> Self {
        DeniedPath { glob: glob.into(), except: Vec::new() }
    }
}

/// Whether a path is denied. Made once for many paths.
#[derive(Debug)]
pub struct DeniedPaths(Vec<(Option<GlobMatcher>, Vec<GlobMatcher>)>);

impl DeniedPaths {
    /// Reads the globs; one that cannot be read denies everything, and as an exception nothing.
    pub fn new(denied: &[DeniedPath]) -> Self {
        let except = |globs: &[String]| globs.iter().filter_map(|of| glob(of, false).ok()).collect();
        DeniedPaths(denied.iter().map(|one| (glob(&one.glob, true).ok(), except(&one.except))).collect())
    }

    /// True for a workspace-relative path that is denied.
    pub fn holds(&self, path: impl AsRef<Path>) -> bool {
        let path = path.as_ref();
        let is_meant = |(glob, except): &(Option<GlobMatcher>, Vec<GlobMatcher>)| {
            glob.as_ref().is_none_or(|glob| glob.is_match(path)) && !except.iter().any(|of| of.is_match(path))
        };
        self.0.iter().any(is_meant)
    }
}

/// The glob that matches the paths of a call and no others.
fn glob_of_paths(plan: &Plan) -> Option<String> {
    let mut paths: Vec<String> = plan.paths().map(|base| glob_of(&base.path)).collect();
    match paths.len() {
        0 | 1 => paths.pop(),
        _ => Some(format!("{{{}}}", paths.join(","))),
    }
}

stored! {
    /// How much tools do without a question. Each level allows what the one before it allows.
    #[derive(Copy, Eq, Default)]
    pub enum PermissionLevel of Word {
        /// The workspace is read-only for every tool; the turn's answer is a plan.
        Plan,
        /// Reads are free; edits and commands are asked.
        #[default]
        Ask,
        /// Edits in the workspace are free as well.
        Edits,
        /// Whatever the sandbox confines is free.
        Auto,
    }
}

impl PermissionLevel {
    /// The levels, from the strictest on.
    pub const ALL: [PermissionLevel; 4] =
        [PermissionLevel::Plan, PermissionLevel::Ask, PermissionLevel::Edits, PermissionLevel::Auto];

    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            PermissionLevel::Plan => "plan",
            PermissionLevel::Ask => "ask",
            PermissionLevel::Edits => "edits",
            PermissionLevel::Auto => "auto",
            PermissionLevel::Unknown(word) => word.text(),
        }
    }

    /// The level of this name.
    pub fn named(word: &str) -> Option<Self> {
        PermissionLevel::ALL.into_iter().find(|level| level.word() == word)
    }

    /// The stricter of two levels; one that is not known is the strictest.
    pub fn stricter(self, other: Self) -> Self {
        let rank = |level: Self| PermissionLevel::ALL.iter().position(|known| *known == level);
        if rank(other) < rank(self) { other } else { self }
    }

    /// The level after this one; after the last one the first.
    pub fn next(self) -> Self {
        let at = PermissionLevel::ALL.iter().position(|level| *level == self).map_or(0, |at| at + 1);
        PermissionLevel::ALL[at % PermissionLevel::ALL.len()]
    }
}

stored! {
    /// What the policy says to a call.
    #[derive(Copy, Eq, PartialOrd, Ord)]
    pub enum Action of Word {
        /// It may run.
        Allow,
        /// Somebody is asked.
        Ask,
        /// It may not run, whoever says so.
        Deny,
    }
}

impl Action {
    /// Whether the pattern of a rule with this action fits a text. What forbids matches letters in either case, so that a
    /// file system that folds case gives no way around it; what allows does not, since `-d` is not `-D`. A pattern that
    /// cannot be read matches everything when it forbids and nothing when it allows.
    pub fn fits(self, pattern: &str, text: &str) -> bool {
        // Hosts are the same in either case, and an address may have brackets.
        let (forbids, is_host) = (self != Action::Allow, pattern.starts_with("host:"));
        let fits = || glob(pattern, forbids || is_host).map_or(forbids, |glob| glob.is_match(text));
        (is_host && pattern == text) || fits()
    }
}
