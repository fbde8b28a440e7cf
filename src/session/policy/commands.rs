//! The simple commands of a line, read by the grammar of a shell: what rules over commands are matched against.

use brush_parser::ast::{
    AndOrList, Command, CommandPrefixOrSuffixItem as Item, CompoundCommand, CompoundList, DoGroupCommand,
    IoFileRedirectTarget, IoRedirect, Program, SimpleCommand,
};
use brush_parser::{
    ParserOptions, SourceInfo, Token, parse_tokens, uncached_tokenize_str, unquote_str, word,
};

/// The longest line that is read, in bytes.
const LONGEST: usize = 8 << 10;

/// Words that begin something nested; a line with more of them is not read.
const NESTING: [&str; 11] =
    ["{", "if", "while", "until", "for", "case", "select", "function", "[[", "!", "time"];
const MOST_NESTED: usize = 16;

/// What a line may not hold to be understood: substitutions, quotes that shells read in two ways, here-documents.
const FOREIGN: [&str; 9] = ["`", "$(", "${", "$'", "$\"", "$[", "<(", ">(", "<<"];

/// The operators between and in the simple commands of a line that is understood.
const PLAIN: [&str; 12] = [";", "&", "&&", "||", "|", "\n", ">", ">>", "<", ">&", "<&", ">|"];

/// Builtins that change what the later commands of a line mean, as an assignment before one does.
const CHANGERS: [&str; 14] = [
    "alias", "declare", "enable", "export", "hash", "let", "local", "read", "readonly", "set", "shopt",
    "typeset", "umask", "unset",
];

/// Programs that run what they are given: a rule over their line says nothing of that.
const RUNNERS: [&str; 38] = [
    ".", "ash", "bash", "builtin", "busybox", "chroot", "chrt", "command", "coproc", "dash", "doas", "env",
    "eval", "exec", "fish", "ionice", "ksh", "nice", "nohup", "nsenter", "parallel", "script", "setsid",
    "sh", "source", "ssh", "stdbuf", "strace", "su", "sudo", "taskset", "time", "timeout", "trap", "unshare",
    "watch", "xargs", "zsh",
];

/// The simple commands of a line as they are written, with one blank between their words. None where not all of the
/// line is understood: then no rule allows it by a pattern.
pub fn understood(line: &str) -> Option<Vec<String>> {
    Some(understood_words(line)?.iter().map(|words| words.join(" ")).collect())
}

/// The same as the words that a program gets, after the line as it is written.
fn understood_unquoted(line: &str) -> Option<Vec<(String, Vec<String>)>> {
    let commands = understood_words(line)?.into_iter();
    Some(
        commands
            .map(|words| (words.join(" "), words.iter().map(|word| unquote_str(word)).collect()))
            .collect(),
    )
}

/// The commands of a line, each as it is written and as the words that a program gets. They may be led to files, take what
/// here-documents say and name the author of a commit. It allows nothing.
pub fn said(line: &str) -> Option<Vec<(String, Vec<String>)>> {
    let program = program(line, false, |_| true)?;
    let lists = program.complete_commands.iter().flat_map(|list| &list.0);
    let words = lists.flat_map(|item| commands_of(&item.0)).map(|command| match command {
        Command::Simple(simple) => said_words(simple),
        Command::Compound(..) | Command::Function(_) | Command::ExtendedTest(_) => None,
    });
    let both = words.map(|words| {
        let words = words?;
        Some((words.join(" "), words.iter().map(|word| unquote_str(word)).collect()))
    });
    both.collect()
}

fn said_words(command: &SimpleCommand) -> Option<Vec<String>> {
    let is_name = |name: &str| ["GIT_AUTHOR_", "GIT_COMMITTER_"].iter().any(|known| name.starts_with(known));
    let mut words = vec![command.word_or_name.as_ref()?.value.clone()];
    for item in command.prefix.iter().flat_map(|prefix| &prefix.0) {
        match item {
            Item::AssignmentWord(_, word) if is_name(&word.value) => {}
            item => drop(redirect(item)?),
        }
    }
    for item in command.suffix.iter().flat_map(|suffix| &suffix.0) {
        match item {
            Item::Word(word) | Item::AssignmentWord(_, word) => words.push(word.value.clone()),
            item => drop(redirect(item)?),
        }
    }
    let are_literal: Vec<&str> = words.iter().map(String::as_str).collect();
    (words.iter().all(|word| is_literal(word)) && !runs_others(&are_literal)).then_some(words)
}

fn redirect(item: &Item) -> Option<&IoRedirect> {
    match item {
        Item::IoRedirect(IoRedirect::File(_, _, IoFileRedirectTarget::ProcessSubstitution(..))) => None,
        Item::IoRedirect(redirect) => Some(redirect),
        _ => None,
    }
}

/// The files that a line puts back to what git has of them, where it does nothing else: `git restore FILE…`.
pub fn restored(line: &str) -> Option<Vec<String>> {
    let commands = understood_unquoted(line)?;
    let [(_, words)] = commands.as_slice() else { return None };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let files = match words.as_slice() {
        ["git", "restore" | "checkout", "--", files @ ..] | ["git", "restore", files @ ..] => files,
        _ => return None,
    };
    // Options and patterns could mean more than they name.
    let is_plain =
        |file: &&str| !file.starts_with(['-', ':', '~']) && !file.contains(['*', '?', '[', '{', '\\']);
    let is_named = !files.is_empty() && files.iter().all(is_plain);
    is_named.then(|| files.iter().map(|file| (*file).to_owned()).collect())
}

fn understood_words(line: &str) -> Option<Vec<Vec<String>>> {
    let is_odd = |c: char| (c.is_control() || c.is_whitespace()) && !matches!(c, ' ' | '\n' | '\t');
    if FOREIGN.iter().any(|piece| line.contains(piece)) || line.contains(is_odd) {
        return None;
    }
    let program = program(line, true, |operator| PLAIN.contains(&operator))?;
    let commands = program.complete_commands.iter().map(simple_ones).collect::<Option<Vec<_>>>()?;
    let commands: Vec<Vec<String>> = commands.concat();
    (!commands.is_empty()).then_some(commands)
}

/// What rules that ask or deny are tried on: the line, its pieces, and each command that is found in it without what is
/// before it, and what programs that run others are given. It is a convenience: a shell has more ways to say it.
pub fn found(line: &str) -> Vec<String> {
    let mut all = vec![line.trim().to_owned()];
    let pieces = line.split([';', '&', '|', '(', ')', '{', '}', '`', '\n']);
    all.extend(pieces.map(|piece| piece.split_whitespace().collect::<Vec<_>>().join(" ")));
    let program = program(line, false, |_| true);
    let mut lists: Vec<&CompoundList> =
        program.iter().flat_map(|program| &program.complete_commands).collect();
    while let Some(list) = lists.pop() {
        for command in list.0.iter().flat_map(|item| commands_of(&item.0)) {
            match command {
                Command::Simple(simple) => all.extend(spellings(simple)),
                Command::Compound(compound, _) => within(compound, &mut lists),
                Command::Function(function) => within(&function.body.0, &mut lists),
                Command::ExtendedTest(_) => {}
            }
        }
    }
    all
}

/// The line by the grammar of `sh`, or of bash, if it has only these operators and is neither too long nor too deep.
fn program(line: &str, is_sh: bool, is_known: impl Fn(&str) -> bool) -> Option<Program> {
    if line.len() > LONGEST || line.matches(['(', '{', '`']).count() > MOST_NESTED {
        return None;
    }
    let options = ParserOptions {
        enable_extended_globbing: false,
        posix_mode: is_sh,
        sh_mode: is_sh,
        tilde_expansion: true,
    };
    let tokens = uncached_tokenize_str(line, &options.tokenizer_options()).ok()?;
    let nests = |token: &&Token| matches!(token, Token::Word(text, _) if NESTING.contains(&text.as_str()));
    let is_strange = |token: &Token| matches!(token, Token::Operator(text, _) if !is_known(text));
    if tokens.iter().filter(nests).count() > MOST_NESTED || tokens.iter().any(is_strange) {
        return None;
    }
    parse_tokens(&tokens, &options, &SourceInfo::default()).ok()
}

fn commands_of(list: &AndOrList) -> impl Iterator<Item = &Command> {
    list.iter().flat_map(|(_, pipeline)| &pipeline.seq)
}

fn simple_ones(list: &CompoundList) -> Option<Vec<Vec<String>>> {
    let commands = list.0.iter().flat_map(|item| commands_of(&item.0));
    commands
        .map(|command| match command {
            Command::Simple(simple) => plain(simple),
            Command::Compound(..) | Command::Function(_) | Command::ExtendedTest(_) => None,
        })
        .collect()
}

/// A command that does what its words say: no assignment, no file that it is led to, no variable, no other command run.
fn plain(command: &SimpleCommand) -> Option<Vec<String>> {
    let before = command.prefix.iter().flat_map(|prefix| &prefix.0);
    let after = || command.suffix.iter().flat_map(|suffix| &suffix.0);
    let is_quiet = |item: &Item| matches!(item, Item::IoRedirect(redirect) if leads_nowhere(redirect));
    if !before.into_iter().all(is_quiet) {
        return None;
    }
    let mut words = vec![command.word_or_name.as_ref()?.value.as_str()];
    for item in after() {
        match item {
            Item::Word(word) | Item::AssignmentWord(_, word) => words.push(&word.value),
            item if is_quiet(item) => {}
            Item::IoRedirect(_) | Item::ProcessSubstitution(..) => return None,
        }
    }
    let is_said = words.iter().all(|word| is_literal(word)) && !runs_others(&words) && !is_changer(words[0]);
    is_said.then(|| words.into_iter().map(str::to_owned).collect())
}

/// True for a word that is what it says, quotes and escapes aside.
fn is_literal(text: &str) -> bool {
    use word::WordPiece as P;
    let is_text = |piece: &word::WordPieceWithSource| {
        matches!(piece.piece, P::Text(_) | P::SingleQuotedText(_) | P::EscapeSequence(_) | P::TildePrefix(_))
    };
    word::parse(text, &ParserOptions::default()).is_ok_and(|pieces| {
        pieces.iter().all(|piece| match &piece.piece {
            P::DoubleQuotedSequence(inner) => inner.iter().all(is_text),
            _ => is_text(piece),
        })
    })
}

fn is_changer(name: &str) -> bool {
    CHANGERS.contains(&unquote_str(name).as_str())
}

fn runs_others(words: &[&str]) -> bool {
    let name = unquote_str(words.first().copied().unwrap_or_default());
    let name = name.rsplit('/').next().unwrap_or_default();
    let runs = |word: &&str| matches!(unquote_str(word).as_str(), "-exec" | "-execdir" | "-ok" | "-okdir");
    RUNNERS.contains(&name) || (name == "find" && words.iter().any(runs))
}

/// True for what writes to no file: streams put together, and `/dev/null`.
fn leads_nowhere(redirect: &IoRedirect) -> bool {
    let is_stream = |text: &str| text == "-" || text.chars().all(|c| c.is_ascii_digit());
    match redirect {
        IoRedirect::File(_, _, IoFileRedirectTarget::Fd(_)) => true,
        IoRedirect::File(_, _, IoFileRedirectTarget::Filename(word)) => word.value == "/dev/null",
        IoRedirect::File(_, _, IoFileRedirectTarget::Duplicate(word)) => is_stream(&word.value),
        IoRedirect::File(_, _, IoFileRedirectTarget::ProcessSubstitution(..))
        | IoRedirect::HereDocument(..)
        | IoRedirect::HereString(..)
        | IoRedirect::OutputAndError(..) => false,
    }
}

/// A command as it is written and without quotes; of a program that runs others also what it is given.
fn spellings(command: &SimpleCommand) -> Vec<String> {
    let after = command.suffix.iter().flat_map(|suffix| &suffix.0);
    let rest = after.filter_map(|item| match item {
        Item::Word(word) | Item::AssignmentWord(_, word) => Some(word.value.as_str()),
        Item::IoRedirect(_) | Item::ProcessSubstitution(..) => None,
    });
    let name = command.word_or_name.iter().map(|word| word.value.as_str());
    let written: Vec<&str> = name.chain(rest).collect();
    let bare: Vec<String> = written.iter().map(|word| unquote_str(word)).collect();
    let last = if runs_others(&written) { bare.len() } else { 1 };
    let given = (0..last.min(bare.len())).map(|from| bare[from..].join(" "));
    std::iter::once(written.join(" ")).chain(given).collect()
}

/// The lists of a compound command.
fn within<'a>(compound: &'a CompoundCommand, lists: &mut Vec<&'a CompoundList>) {
    use CompoundCommand as C;
    let body = |group: &'a DoGroupCommand| &group.0;
    match compound {
        C::Arithmetic(_) => {}
        C::ArithmeticForClause(clause) => lists.push(body(&clause.body)),
        C::BraceGroup(group) => lists.push(&group.0),
        C::Subshell(subshell) => lists.push(&subshell.0),
        C::ForClause(clause) => lists.push(body(&clause.body)),
        C::CaseClause(clause) => lists.extend(clause.cases.iter().filter_map(|case| case.cmd.as_ref())),
        C::IfClause(clause) => {
            lists.extend([&clause.condition, &clause.then]);
            for otherwise in clause.elses.iter().flatten() {
                lists.extend(otherwise.condition.iter().chain([&otherwise.body]));
            }
        }
        C::WhileClause(clause) | C::UntilClause(clause) => lists.extend([&clause.0, body(&clause.1)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_of_a_list_is_one_of_its_own() {
        let all = |line: &str| understood(line).unwrap_or_else(|| panic!("{line}")).join(" / ");
        assert_eq!(all("cargo  test\t--all"), "cargo test --all");
        assert_eq!(all("cargo test; rm -rf /"), "cargo test / rm -rf /");
        assert_eq!(all("a && b || c | d & e"), "a / b / c / d / e");
        assert_eq!(all("a\nb # c\n"), "a / b");
        assert_eq!(all("cargo test 2>&1 | tail -5 >/dev/null"), "cargo test / tail -5");
        assert_eq!(all("git commit -m 'a; b' -- \"x y\""), "git commit -m 'a; b' -- \"x y\"");
        assert_eq!(all(r"echo \; rm"), r"echo \; rm");
        assert_eq!(all("! make A=1 -C ~/x"), "make A=1 -C ~/x");
    }

    #[test]
    fn files_that_are_put_back_are_named_and_nothing_else_is_done() {
        assert_eq!(restored("git restore a 'b c'").unwrap(), ["a", "b c"]);
        assert_eq!(restored("git checkout -- src/a 2>/dev/null").unwrap(), ["src/a"]);
        for line in [
            "git restore",
            "git restore --staged a",
            "git restore -s HEAD~3 a",
            "git restore '*.rs'",
            "git restore :/",
            "git restore a; make",
            "git checkout a",
            "git checkout HEAD -- a",
            "git -C x restore a",
            "git restore $A",
        ] {
            assert_eq!(restored(line), None, "{line}");
        }
    }

    #[test]
    fn what_is_not_fully_understood_is_no_command_of_a_rule() {
        for line in [
            "cargo test $(rm x)",
            "cargo test `rm x`",
            "cargo test > /etc/x",
            "cargo test >>x",
            "cargo test < x",
            "cargo test &> x",
            "cargo test >& x",
            "cargo test 2> x",
            "X=1 cargo test",
            "export PATH=x; cargo test",
            "cargo test && \"alias\" ls=rm",
            "cargo test $X",
            "cargo test \"$X\"",
            "cargo test ${X}",
            "cargo test $'a'",
            "cargo test $\"a\"",
            "cargo test <(rm x)",
            "(cargo test)",
            "{ cargo test; }",
            "if true; then cargo test; fi",
            "for x in a; do cargo test; done",
            "f() { cargo test; }",
            "sh <<E\nrm x\nE",
            "cargo test <<< x",
            "eval cargo test",
            "sh -c 'cargo test'",
            "/bin/bash x",
            "\"sh\" x",
            "env cargo test",
            "nice cargo test",
            "timeout 9 cargo test",
            "xargs cargo test",
            "sudo cargo test",
            ". ./x",
            "command cargo test",
            "find . -exec rm {} +",
            "find . '-exec' rm {} +",
            "cargo test\u{a0}x",
            "cargo test\rx",
            "cargo test \u{7}",
            "",
            "# nothing",
            "cargo test 'x",
            "cargo test ;; x",
            "[[ a > b ]]",
        ] {
            assert_eq!(understood(line), None, "{line:?}");
        }
        assert_eq!(understood(&format!("echo {}", "x ".repeat(LONGEST))), None);
        for opener in ["(", "{ ", "if ", "! ", "while ", "$(", "((", "case x in y) "] {
            let deep = opener.repeat(LONGEST / opener.len() - 1);
            assert_eq!(understood(&deep), None);
            assert!(!found(&deep).is_empty());
        }
    }

    #[test]
    fn what_is_before_a_command_hides_it_from_no_rule() {
        for line in [
            "rm x",
            "rm\tx",
            "  rm   x ",
            "! rm x",
            "if true; then rm x; fi",
            "2>&1 rm x",
            ">out rm x",
            "> out rm x",
            "&>out rm x",
            ">| out rm x",
            "FOO=1 rm x",
            "A=1 B+=2 </dev/null rm x",
            "true && FOO=1 rm x",
            "A=\"a b\" rm x",
            "A='a b c' B=2 rm x",
            "rm\\\n x",
            "FOO=1 \\\n  rm x",
            "(rm x)",
            "sleep 1 & rm x",
            "echo $(rm x)",
            "r\"m\" x",
            "env A=1 rm x",
            "nice -n 5 rm x",
            "sh -c 'rm x'",
            "while a; do b; rm x; done",
            "case a in b) rm x;; esac",
            "f() { rm x; }",
            "{ rm x; }",
            "if a; then b; else rm x; fi",
        ] {
            assert!(found(line).iter().any(|one| one == "rm x"), "{line}: {:?}", found(line));
        }
        assert!(!found("echo FOO=1 rm x").iter().any(|one| one == "rm x"), "an argument is no command");
    }

    /// Whatever is understood is what the shell of this machine runs: a command that is not in the list never runs.
    #[test]
    fn the_shell_runs_no_command_that_is_not_understood() {
        use proptest::prelude::*;
        let pieces = proptest::sample::select(vec![
            "echo",
            "m",
            " ",
            " ",
            ";",
            "&&",
            "|",
            "'",
            "\"",
            "\\",
            "\n",
            "#",
            "$",
            "&",
            "!",
            "{",
            "}",
            "a",
            ">",
            "/dev/null",
            "2>&1",
            "-",
            "=",
            "*",
            "~",
        ]);
        let lines = proptest::collection::vec(pieces, 1..12).prop_map(|pieces| pieces.concat());
        let config = ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() };
        let home = tempfile::tempdir().unwrap();
        let mut runner = proptest::test_runner::TestRunner::new(config);
        let read = std::cell::Cell::new(0);
        runner
            .run(&lines, |line| {
                let Some(commands) = understood(&line) else { return Ok(()) };
                read.set(read.get() + 1);
                if commands.iter().any(|one| unquote_str(one).starts_with('m') || one.contains("\\\n")) {
                    return Ok(());
                }
                let script = format!("PATH=; m() {{ echo RAN; }}\n{line}\n");
                let mut sh = std::process::Command::new("/bin/sh");
                let out = sh.args(["-c", &script]).current_dir(home.path()).output().unwrap();
                let said = String::from_utf8_lossy(&out.stdout).into_owned();
                prop_assert!(!said.lines().any(|said| said == "RAN"), "{line:?} {commands:?} {said:?}");
                Ok(())
            })
            .unwrap();
        assert!(read.get() > 0);
    }
}
