//! The names no tool may write, each with its reason; knows no file system, so a name counts present or not.

/// One protected name.
struct Protected {
    /// Components in a row, folded to lower case, anywhere in a path.
    name: &'static [&'static str],
    /// Why a tool must not write it, for people and models.
    reason: &'static str,
}

const GIT: &str = "its hooks and configuration run commands outside the sandbox";
const OWN: &str = "it steers agon itself";
const CI: &str = "it runs on other machines with other people's secrets";
const INSTRUCTION: &str = "it instructs agents, so writing it would be giving orders to oneself";

const fn names(name: &'static [&'static str], reason: &'static str) -> Protected {
    Protected { name, reason }
}

/// The one table. `.git` also covers a submodule's or worktree's `.git` file.
const TABLE: &[Protected] = &[
    names(&[".git"], GIT),
    names(&[".gitmodules"], GIT),
    names(&[".pre-commit-config.yaml"], GIT),
    names(&[".agon"], OWN),
    names(&[".github", "workflows"], CI),
    names(&[".github", "actions"], CI),
    names(&[".gitlab-ci.yml"], CI),
    names(&[".gitlab-ci.yaml"], CI),
    names(&[".circleci"], CI),
    names(&[".buildkite"], CI),
    names(&[".woodpecker"], CI),
    names(&[".woodpecker.yml"], CI),
    names(&[".drone.yml"], CI),
    names(&[".travis.yml"], CI),
    names(&[".forgejo", "workflows"], CI),
    names(&[".forgejo", "actions"], CI),
    names(&[".gitea", "workflows"], CI),
    names(&[".gitea", "actions"], CI),
    names(&["azure-pipelines.yml"], CI),
    names(&["bitbucket-pipelines.yml"], CI),
    names(&["jenkinsfile"], CI),
    names(&["agents.md"], INSTRUCTION),
    names(&["agents.override.md"], INSTRUCTION),
    names(&["agent.md"], INSTRUCTION),
    names(&["claude.md"], INSTRUCTION),
    names(&["claude.local.md"], INSTRUCTION),
    names(&["gemini.md"], INSTRUCTION),
    names(&["qwen.md"], INSTRUCTION),
    names(&["conventions.md"], INSTRUCTION),
    names(&[".claude"], INSTRUCTION),
    names(&[".codex"], INSTRUCTION),
    names(&[".cursor"], INSTRUCTION),
    names(&[".cursorrules"], INSTRUCTION),
    names(&[".windsurfrules"], INSTRUCTION),
    names(&[".clinerules"], INSTRUCTION),
    names(&[".github", "copilot-instructions.md"], INSTRUCTION),
    names(&[".github", "instructions"], INSTRUCTION),
    names(&[".github", "prompts"], INSTRUCTION),
    names(&[".github", "agents"], INSTRUCTION),
];

/// The reason why a canonical path must not be written, or `None` when it may be.
pub fn reason(path: &str) -> Option<&'static str> {
    let parts: Vec<String> = path.split('/').map(fold).collect();
    let hit = |entry: &&Protected| parts.windows(entry.name.len()).any(|window| window == entry.name);
    TABLE.iter().find(hit).map(|entry| entry.reason)
}

/// True for a folder directly in the workspace that is free itself and holds protected names (`.github`).
pub fn holds_protected(path: &str) -> bool {
    let name = fold(path);
    !path.contains('/') && TABLE.iter().any(|entry| entry.name.len() > 1 && entry.name[0] == name)
}

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
            assert!(reason(path).is_some(), "{path}");
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
            assert_eq!(reason(path), None, "{path}");
        }
    }
}
