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

/// Why commands are refused.
const CONFIGURES: &str = "writes git's configuration";
const REPACKS: &str = "packs or removes objects";
const HIDES: &str = "hides changes of files";

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
/// Those that leave the repository alone.
const LOOKS: [&str; 19] = [
    "blame",
    "cat-file",
    "check-ignore",
    "clean",
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
/// Programs that may be next to git: they leave the repository alone.
const BESIDE: [&str; 10] = ["cat", "cd", "echo", "grep", "head", "ls", "pwd", "tail", "true", "wc"];

/// What a command of git does.
enum Does {
    Looks,
    Changes,
    Refused(&'static str),
    Unknown,
}

/// Says what a line does.
pub fn read(line: &str) -> GitLine {
    let mut all = GitLine::Other;
    for (text, words) in said(&without_messages(line)).into_iter().flatten() {
        match words.first().map(String::as_str) {
            Some("git") => match verb(&words[1..]).map_or(Does::Unknown, |(verb, rest)| does(verb, rest)) {
                Does::Refused(why) => return GitLine::Refused(text, why),
                Does::Changes => all = GitLine::Changes,
                Does::Looks => {}
                Does::Unknown => return GitLine::Other,
            },
            Some(program) if BESIDE.contains(&program) => {}
            _ => return GitLine::Other,
        }
    }
    all
}

/// The line with a plain word for each message that `cat` takes as it is from a here-document: `"$(cat <<'EOF' … EOF)"`.
/// Where quotes could mean something else, the line stays.
fn without_messages(line: &str) -> String {
    let (mut read, mut rest) = (String::new(), line);
    while let Some(at) = rest.find(['\'', '"', '\\', '#', '`', '<']) {
        let (plain, quoted) = rest.split_at(at);
        read.push_str(plain);
        if let Some(length) = message(quoted) {
            read.push_str("message");
            rest = &quoted[length..];
            continue;
        }
        let Some(length) = quoted_length(quoted) else { return line.to_owned() };
        read.push_str(&quoted[..length]);
        rest = &quoted[length..];
    }
    read + rest
}

/// The length of a quoted piece in which nothing is expanded.
fn quoted_length(text: &str) -> Option<usize> {
    let mut inside = text.char_indices().skip(1);
    match text.chars().next()? {
        '\'' => Some(inside.find(|(_, c)| *c == '\'')?.0 + 1),
        '\\' => inside.next().map(|(at, c)| at + c.len_utf8()),
        '"' => {
            let (at, c) = inside.find(|(_, c)| matches!(c, '"' | '\\' | '$' | '`'))?;
            (c == '"').then_some(at + 1)
        }
        '<' => (!text.starts_with("<<")).then_some(1),
        _ => None,
    }
}

/// The length of such a message at the beginning of a text.
fn message(text: &str) -> Option<usize> {
    let document = text.strip_prefix("\"$(cat <<")?;
    let (word, _) = document.split_once('\n')?;
    let bare = word.trim().trim_matches(['\'', '"']);
    let is_quoted = ['\'', '"'].iter().any(|quote| word.trim() == format!("{quote}{bare}{quote}"));
    let is_word = !bare.is_empty() && bare.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let end = format!("\n{bare}\n");
    let (message, after) = document[word.len()..].split_once(&end)?;
    let is_plain = is_quoted || (word.trim() == bare && !message.contains(['$', '`', '\\']));
    let after = after.trim_start().strip_prefix(")\"")?;
    (is_word && is_plain).then(|| text.len() - after.len())
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

fn does(verb: &str, rest: &[String]) -> Does {
    use Does::{Changes, Looks, Refused, Unknown};
    let has = |options: &[&str]| {
        let mut words = rest.iter().take_while(|word| *word != "--");
        words.any(|word| options.contains(&word.split('=').next().unwrap_or(word)))
    };
    let is_option = |word: &String| word.starts_with('-');
    let first = rest.first().map_or("", String::as_str);
    let named = rest.iter().find(|word| !is_option(word)).map_or("", String::as_str);
    match verb {
        "config" => {
            let asks = ["-l", "--list", "--get", "--get-all", "--get-regexp", "--show-origin", "get", "list"];
            let is_name = rest.len() == 1 && !is_option(&rest[0]);
            if has(&asks) || is_name { Looks } else { Refused(CONFIGURES) }
        }
        "remote" if matches!(named, "" | "show" | "get-url") => Looks,
        "remote" if matches!(named, "update" | "prune") => Changes,
        "submodule" if matches!(named, "" | "status" | "summary") => Looks,
        "submodule" if named == "foreach" => Unknown,
        "worktree" | "sparse-checkout" if named == "list" => Looks,
        "remote" | "submodule" | "worktree" | "sparse-checkout" => Refused(CONFIGURES),
        "bisect" if named == "log" => Looks,
        "bisect" => Refused("goes over several calls, and what it knows is lost with the first"),
        "replace" if rest.is_empty() || has(&["-l", "--list"]) => Looks,
        "replace" => Refused("shows one object for another"),
        "gc" | "maintenance" | "prune" | "repack" => Refused(REPACKS),
        "filter-branch" => Refused("rewrites every branch"),
        "update-index" if has(&["--assume-unchanged", "--skip-worktree"]) => Refused(HIDES),
        "checkout" | "switch" if has(&["-t", "--track"]) => Refused(CONFIGURES),
        "push" if has(&["-u", "--set-upstream"]) => Refused(CONFIGURES),
        "branch" if has(&CONFIGURING) => Refused(CONFIGURES),
        "branch" if !has(&["-d", "-D", "--delete", "-f", "--force"]) && rest.iter().all(is_option) => Looks,
        "tag" if rest.is_empty() || has(&["-l", "--list", "-n", "--points-at", "--contains"]) => Looks,
        "stash" if matches!(first, "list" | "show") => Looks,
        "reflog" if matches!(first, "expire" | "delete" | "drop") => Unknown,
        _ if CHANGES.contains(&verb) => Changes,
        _ if LOOKS.contains(&verb) => Looks,
        _ => Unknown,
    }
}

/// Options of `git branch` that write configuration.
const CONFIGURING: [&str; 12] = [
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
];

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
            "git reset --hard HEAD~1\ngit stash pop; git clean -fd",
            "git branch -d old",
            "git checkout -- '*.rs'",
            "git commit -m 'as in `x`'",
            "git commit -m \"a\\\"\"",
            "git stash drop stash@{0} # x",
            "git commit -F - <<'EOF'\na; b\n\n- c $(d)\nEOF",
            "echo z > b.txt; git add -A && git commit -qm fix 2>/tmp/x",
            "GIT_AUTHOR_NAME=x GIT_COMMITTER_DATE='1 2' git commit -m y",
            "git add . & git commit -qm x; ! git merge y",
            "git add -A && git commit -m \"$(cat <<'EOF'\nfix: it's \"a\" $(b)\n\n- c\nEOF\n)\" && git log -1",
            "git commit -m 'a' -m \"$(cat <<EOF\nplain\nEOF\n)\"",
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
            "git commit -m \"$(cat <<EOF\n$(rm x)\nEOF\n)\"",
            "git commit -m \"$(cat <<'EOF'\ny\nEOF\nrm x)\"",
            "git commit -m '\"$(cat <<'EOF'\ny'; rm x #\nEOF\n)\"",
            "git commit -m \"a $(rm x) \"$(cat <<'EOF'\ny\nEOF\n)\"\"",
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
        for line in [
            "git bisect start",
            "git gc",
            "git replace a b",
            "git add . && git update-index --skip-worktree a",
        ] {
            assert!(matches!(read(line), GitLine::Refused(..)), "{line}");
        }
    }
}
