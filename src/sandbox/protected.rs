//! The names no tool may write, each with its reason; knows no file system, so a name counts present or not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use crate::protocol::names::Names;

/// Why a name of the configuration is protected.
const ADDED: &str = "the configuration protects it";

/// The protected names of a workspace: those of the program, and those that the configuration adds.
#[derive(Clone, Debug)]
pub struct ProtectedNames {
    table: Arc<Table>,
    added: Vec<String>,
}

/// Names folded to lower case, each `name` or `folder/name`, with its reason.
#[derive(Clone, Debug, Default)]
struct Table {
    reasons: BTreeMap<String, &'static str>,
    /// Folders that are free themselves and hold protected names.
    folders: BTreeSet<String>,
}

impl Table {
    fn add(&mut self, name: &str, reason: &'static str) {
        let parts: Vec<String> = name.split('/').map(fold).collect();
        self.reasons.entry(parts.join("/")).or_insert(reason);
        if let [folder, _] = parts.as_slice() {
            self.folders.insert(folder.clone());
        }
    }
}

static STANDARD: LazyLock<Arc<Table>> = LazyLock::new(|| {
    let mut table = Table::default();
    for group in &Names::standard().protected {
        group.names.iter().for_each(|name| table.add(name, &group.why));
    }
    Arc::new(table)
});

impl Default for ProtectedNames {
    /// The program's own.
    fn default() -> Self {
        ProtectedNames { table: STANDARD.clone(), added: Vec::new() }
    }
}

impl PartialEq for ProtectedNames {
    fn eq(&self, other: &Self) -> bool {
        self.added == other.added
    }
}

impl Eq for ProtectedNames {}

impl ProtectedNames {
    /// With these as well, each `name` or `folder/name`.
    pub fn with(added: &[String]) -> Self {
        let mut names = ProtectedNames::default();
        names.added = added.iter().filter(|name| names.reason(name).is_none()).cloned().collect();
        if !names.added.is_empty() {
            let table = Arc::make_mut(&mut names.table);
            names.added.iter().for_each(|name| table.add(name, ADDED));
        }
        names
    }

    /// What was added to the program's own.
    pub fn added(&self) -> &[String] {
        &self.added
    }

    /// The reason why a canonical path must not be written, or `None` when it may be. A name counts anywhere in a path.
    pub fn reason(&self, path: &str) -> Option<&'static str> {
        let reasons = &self.table.reasons;
        let mut folder: Option<String> = None;
        for part in path.split('/').map(fold) {
            let two = folder.filter(|folder| self.table.folders.contains(folder));
            let found = two.and_then(|folder| reasons.get(&format!("{folder}/{part}")));
            if let Some(reason) = found.or_else(|| reasons.get(&part)).or_else(|| reasons.get(EVERYTHING)) {
                return Some(reason);
            }
            folder = Some(part);
        }
        None
    }

    /// True for a folder directly in the workspace that is free itself and holds protected names (`.github`).
    pub fn holds_protected(&self, path: &str) -> bool {
        !path.contains('/') && self.table.folders.contains(&fold(path))
    }
}

/// The one name of a list that cannot be read.
const EVERYTHING: &str = "*";

/// Why a file must not be written that a protected name leads to.
pub const LED_TO: &str = "a protected name of this workspace leads there";

/// Why a file must not be written in, or make, a folder that git takes for a repository whatever its name.
pub const REPOSITORY: &str = "git would take its folder for a repository, whose configuration runs commands";

/// True for the two folders whose content is never listed or recorded.
pub fn is_private_folder(name: &str) -> bool {
    matches!(fold(name).as_str(), ".git" | ".agon")
}

/// Folds a name as the most forgiving file systems do: case (both ways, for `ſ` and `K`), characters that
/// HFS+ ignores, and the trailing dots and spaces that NTFS drops.
fn fold(name: &str) -> String {
    let visible: String = name.chars().filter(|c| !is_ignorable(*c)).collect();
    visible.to_uppercase().to_lowercase().trim_end_matches(['.', ' ']).to_owned()
}

fn is_ignorable(c: char) -> bool {
    matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelled_any_way_a_protected_name_stays_protected() {
        for path in [
            ".git",
            ".git/config",
            ".GIT/hooks/x",
            "sub/.Git",
            ".g\u{200c}it/config",
            ".git./config",
            ".git /x",
            ".agon/config.toml",
            ".GitHub/WORKFLOWS/ci.yml",
            ".github/wor\u{212a}flows/x",
            "AGENTS.md",
            "docs/agentſ.md",
            "Claude.MD",
            "Jenkinsfile",
            ".GITLAB-CI.yml",
            "QWEN.md",
            "CONVENTIONS.md",
            ".pre-commit-config.yaml",
            ".forgejo/workflows/ci.yml",
            ".gitea/workflows/ci.yml",
            ".forgejo/actions/x/action.yml",
        ] {
            assert!(ProtectedNames::default().reason(path).is_some(), "{path}");
        }
    }

    #[test]
    fn neighbours_of_protected_names_are_free() {
        for path in [
            ".gitignore",
            ".gitattributes",
            "git/config",
            "src/.github.rs",
            ".github/ISSUE_TEMPLATE.md",
            "workflows/x",
            "agents.md.bak",
            "agonia/.agone",
            "agents/md",
        ] {
            assert_eq!(ProtectedNames::default().reason(path), None, "{path}");
        }
    }

    #[test]
    fn what_the_configuration_adds_is_protected_beside_the_programs_own() {
        let names = ProtectedNames::with(&["RULES.txt".to_owned(), "docs/Agents".to_owned()]);
        for path in ["rules.TXT", "sub/rules.txt", "docs/agents/x", ".git/config"] {
            assert!(names.reason(path).is_some(), "{path}");
            assert_eq!(ProtectedNames::default().reason(path).is_some(), path == ".git/config");
        }
        assert!(
            names.holds_protected("Docs")
                && !names.holds_protected("src")
                && names.reason("docs/a").is_none()
        );
    }

    /// Those of tools that people use, beside the ones above.
    #[test]
    fn files_of_agents_and_of_ci_are_protected_by_the_names_their_makers_gave_them() {
        for path in [
            ".gemini/settings.json",
            ".windsurf/rules/a.md",
            ".roo/rules/a.md",
            ".continue/config.yaml",
            ".kiro/steering/a.md",
            ".junie/guidelines.md",
            ".amazonq/rules/a.md",
            ".goosehints",
            ".rules",
            "WARP.md",
            ".agents/skills/a/SKILL.md",
            ".github/skills/a/SKILL.md",
            ".github/hooks/a.json",
            ".github/chatmodes/a.md",
            "opencode.json",
            "buildspec.yml",
            "cloudbuild.yaml",
            "appveyor.yml",
            ".cirrus.yml",
            ".tekton/a.yaml",
            ".teamcity/settings.kts",
            ".semaphore/semaphore.yml",
            "codemagic.yaml",
            "wercker.yml",
            ".gitlab/agents/a/config.yaml",
            "lefthook.yml",
            ".cargo/config.toml",
            "CODEOWNERS",
            "docs/CODEOWNERS",
            ".github/CODEOWNERS",
        ] {
            assert!(ProtectedNames::default().reason(path).is_some(), "{path}");
        }
    }
}
