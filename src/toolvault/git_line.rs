//! Reads a command line as far as it consists of plain git commands, with their messages from here-documents. What else a
//! shell can say is other.

use crate::session::policy::said;

/// What a command line does to the repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GitLine {
    /// Nothing, or more than git's everyday commands say.
    Other,
    /// It changes what a call with the need `git` can change.
    Changes,
    /// This command of it writes what no call may, for this reason.
    Refused(String, &'static str),
}

/// Why a command that writes configuration, or what is configured with it, is refused.
const CONFIGURES: &str = "writes git's configuration";
/// Commands that are refused whatever they are given, but for what only looks.
const REFUSED: [(&str, &str); 8] = [
    ("sparse-checkout", CONFIGURES),
    ("bisect", "goes over several calls, and what it knows is lost with the first"),
    ("replace", "shows one object for another"),
    ("gc", REPACKS),
    ("maintenance", REPACKS),
    ("prune", REPACKS),
    ("repack", REPACKS),
    ("filter-branch", "rewrites every branch"),
];
const REPACKS: &str = "packs or removes objects";

/// Commands of git that change references, the index or the objects.
const CHANGES: [&str; 26] = [
    "add",
    "am",
    "branch",
    "checkout",
    "cherry-pick",
    "commit",
    "commit-tree",
    "fetch",
    "merge",
    "mv",
    "notes",
    "pull",
    "push",
    "rebase",
    "reset",
    "restore",
    "revert",
    "rm",
    "stash",
    "switch",
    "symbolic-ref",
    "tag",
    "update-index",
    "update-ref",
    "write-tree",
    "apply",
];
/// Those that only look.
const LOOKS: [&str; 18] = [
    "blame",
    "cat-file",
    "check-ignore",
    "describe",
    "diff",
    "diff-tree",
    "for-each-ref",
    "grep",
    "log",
    "ls-files",
    "ls-tree",
    "merge-base",
    "reflog",
    "rev-list",
    "rev-parse",
    "shortlog",
    "show",
    "status",
];
/// Programs that may stand beside git: they leave the repository alone.
const BESIDE: [&str; 10] = ["cat", "cd", "echo", "grep", "head", "ls", "pwd", "tail", "true", "wc"];

/// Says what a line does.
pub fn read(line: &str) -> GitLine {
    let mut does = GitLine::Other;
    for (text, words) in said(line).into_iter().flatten() {
        match words.first().map(String::as_str) {
            Some("git") => match verb(&words[1..]) {
                Some((verb, rest)) => match refusal(verb, rest) {
                    Some(why) => return GitLine::Refused(text, why),
                    None if only_looks(verb, rest) => {}
                    None if CHANGES.contains(&verb) => does = GitLine::Changes,
                    None => return GitLine::Other,
                },
                None => return GitLine::Other,
            },
            Some(program) if BESIDE.contains(&program) => {}
            _ => return GitLine::Other,
        }
    }
    does
}

/// The command after git's own options, and its words.
fn verb(mut words: &[String]) -> Option<(&str, &[String])> {
    loop {
        words = match words {
            [option, _, rest @ ..] if matches!(option.as_str(), "-C" | "-c") => rest,
            [option, rest @ ..] if matches!(option.as_str(), "--no-pager" | "-P") => rest,
            [verb, rest @ ..] if !verb.starts_with('-') => return Some((verb, rest)),
            _ => return None,
        };
    }
}

fn has(words: &[String], options: &[&str]) -> bool {
    words
        .iter()
        .take_while(|word| *word != "--")
        .any(|word| options.contains(&word.split('=').next().unwrap_or(word)))
}

fn refusal(verb: &str, rest: &[String]) -> Option<&'static str> {
    let by_name = REFUSED.iter().find(|(name, _)| *name == verb).map(|(_, why)| *why);
    let looks = matches!(rest.first().map(String::as_str), Some("list" | "log" | "-l" | "--list"));
    by_name.filter(|_| !looks).or(configures(verb, rest).then_some(CONFIGURES))
}

fn configures(verb: &str, rest: &[String]) -> bool {
    let first = rest.iter().map(String::as_str).find(|word| !word.starts_with('-'));
    match verb {
        "config" => !only_looks(verb, rest),
        "remote" => !matches!(first, None | Some("show" | "get-url" | "update" | "prune")),
        "submodule" => !matches!(first, None | Some("status" | "summary" | "foreach")),
        "worktree" => first != Some("list"),
        "checkout" | "switch" => has(rest, &["-t", "--track"]),
        "branch" => has(
            rest,
            &[
                "-m",
                "-M",
                "--move",
                "-c",
                "-C",
                "--copy",
                "-t",
                "--track",
                "-u",
                "--set-upstream-to",
                "--unset-upstream",
                "--edit-description",
            ],
        ),
        "push" => has(rest, &["-u", "--set-upstream"]),
        _ => false,
    }
}

fn only_looks(verb: &str, rest: &[String]) -> bool {
    let is_option = |word: &String| word.starts_with('-');
    let first = rest.first().map(String::as_str);
    match verb {
        "branch" => !has(rest, &["-d", "-D", "--delete", "-f", "--force"]) && rest.iter().all(is_option),
        "tag" => rest.is_empty() || has(rest, &["-l", "--list", "-n", "--points-at", "--contains"]),
        "stash" => matches!(first, Some("list" | "show")),
        "remote" => matches!(first, None | Some("-v" | "show" | "get-url")),
        "submodule" => matches!(first, None | Some("status" | "summary")),
        "worktree" => first == Some("list"),
        "config" => {
            let asks = ["-l", "--list", "--get", "--get-all", "--get-regexp", "--show-origin", "get", "list"];
            has(rest, &asks) || (rest.len() == 1 && !is_option(&rest[0]))
        }
        "reflog" => !matches!(first, Some("expire" | "delete" | "drop")),
        _ => LOOKS.contains(&verb),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_git_alone_are_known_and_whatever_a_shell_could_stretch_is_other() {
        for line in [
            "git commit -m 'a; b | c'",
            "git add -A && git commit -m \"one two\"",
            "cd sub && git add . && git status; git commit -qm x 2>&1 | tail -3",
            "git -C sub -c core.editor=true rebase main",
            "git reset --hard HEAD~1\ngit stash pop",
            "git branch -d old",
            "git checkout -- '*.rs'",
            "git commit -m 'as in `x`'",
            "git commit -m \"a\\\"\"",
            "git stash drop stash@{0} # x",
            "git commit -F - <<'EOF'\na; b\n\n- c $(d)\nEOF",
            "echo z > b.txt; git add -A && git commit -qm fix 2>/tmp/x",
            "GIT_AUTHOR_NAME=x GIT_COMMITTER_DATE='1 2' git commit -m y",
            "git add . & git commit -qm x; ! git merge y",
            "'git' commit",
        ] {
            assert_eq!(read(line), GitLine::Changes, "{line}");
        }
        for line in [
            "",
            "git status",
            "git log --oneline | head -5",
            "git branch --show-current",
            "git stash list",
            "git config user.name",
            "git commit -m \"$(cat x)\"",
            "git commit -m x; rm -rf .",
            "git commit & rm x",
            "git commit -F <(rm x)",
            "git commit -m \"$(cat <<EOF; rm x\ny\nEOF\n)\"",
            "GIT_DIR=x git commit",
            "sh -c 'git commit'",
            "git --git-dir=x commit",
            "git frobnicate",
            "git commit 'open",
            "(git commit)",
        ] {
            assert_eq!(read(line), GitLine::Other, "{line}");
        }
    }

    #[test]
    fn what_writes_configuration_is_named() {
        for line in [
            "git config user.name x",
            "git branch -m new",
            "git branch --set-upstream-to=origin/x",
            "git switch -c x --track origin/x",
            "git remote add origin y",
            "git submodule add y",
            "git worktree add ../x",
            "git push -u origin x",
            "git sparse-checkout set s1",
        ] {
            let refused = GitLine::Refused(line.to_owned(), CONFIGURES);
            assert_eq!(read(line), refused, "{line}");
            assert_eq!(read(&format!("git add . && {line}")), refused);
        }
        for line in ["git bisect start", "git gc", "git replace a b"] {
            assert!(matches!(read(line), GitLine::Refused(..)), "{line}");
        }
    }
}
