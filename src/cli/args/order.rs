//! Puts arguments where their command expects them: shared options may come before its name, and `-p` is `run`.

use std::ffi::OsString;

use clap::{Arg, Command};

/// The same arguments with the command first.
pub fn in_order(command: &Command, mut arguments: Vec<OsString>) -> Vec<OsString> {
    let text = |at: usize| arguments.get(at).and_then(|argument| argument.to_str());
    let prints = |at: usize| matches!(text(at), Some("-p" | "--print"));
    let mut first = 1;
    while let Some(option) = text(first).filter(|word| word.len() > 1 && word.starts_with('-')) {
        if option == "--" || prints(first) {
            break;
        }
        first += 1 + usize::from(has_value(command, option, text(first + 1)));
    }
    let named = text(first).and_then(|word| command.find_subcommand(word));
    let end = (first..arguments.len()).find(|at| text(*at) == Some("--")).unwrap_or(arguments.len());
    match (named, (first..end).find(|at| prints(*at))) {
        (Some(named), _) => {
            let is_inner = |word: &str| named.find_subcommand(word).is_some();
            let names = if text(first + 1).is_some_and(is_inner) { 2 } else { 1 };
            arguments[1..first + names].rotate_right(names);
        }
        (None, Some(print)) => {
            arguments.remove(print);
            arguments.insert(1, "run".into());
        }
        (None, None) => {}
    }
    arguments
}

/// True when the next argument is the value of this option of agon or of any command.
fn has_value(command: &Command, option: &str, next: Option<&str>) -> bool {
    let is_it = |arg: &&Arg| match option.strip_prefix("--") {
        Some(name) => arg.get_long() == Some(name),
        None => arg.get_short().map(String::from).as_deref() == option.strip_prefix('-'),
    };
    let mut all = command
        .get_arguments()
        .chain(command.get_subcommands().flat_map(Command::get_arguments))
        .filter(is_it);
    let Some(arg) = all.next().filter(|arg| arg.get_action().takes_values()) else { return false };
    let is_needed = arg.get_num_args().is_none_or(|range| range.min_values() > 0);
    let can_be = |word: &str| !word.starts_with('-') && command.find_subcommand(word).is_none();
    is_needed || next.is_some_and(can_be)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn ordered(line: &str) -> String {
        let arguments = line.split(' ').map(OsString::from).collect();
        let ordered = in_order(&crate::cli::args::Typed::command(), arguments);
        ordered.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn shared_options_may_come_before_the_command_and_print_is_run() {
        for (typed, meant) in [
            ("agon -m a/b --yes run x", "agon run -m a/b --yes x"),
            ("agon -o f run x --json", "agon run -o f x --json"),
            ("agon --model=a/b squad x", "agon squad --model=a/b x"),
            ("agon --workspace d personas list", "agon personas list --workspace d"),
            ("agon -p x", "agon run x"),
            ("agon -m a/b -p run", "agon run -m a/b run"),
            ("agon x --yes -p", "agon run x --yes"),
            ("agon -c -p x", "agon run -c x"),
            ("agon -r abcd -p x", "agon run -r abcd x"),
            ("agon -r run x", "agon run -r x"),
            ("agon -- -p", "agon -- -p"),
            ("agon run -- -p", "agon run -- -p"),
            ("agon fix", "agon fix"),
        ] {
            assert_eq!(ordered(typed), meant, "{typed}");
        }
    }
}
