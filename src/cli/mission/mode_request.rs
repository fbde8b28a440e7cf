//! What is written on the screen after `/squad`, `/debate`, `/mode` and `/limits`: the same flags as on the command
//! line, read by the same parser.

use clap::{Args, Command, FromArgMatches};

use crate::cli::args::{DebateArgs, HeldArgs, SquadArgs};
use crate::cli::debate;
use crate::cli::error::Failure;
use crate::config::Config;
use crate::host::SquadWish;
use crate::protocol::spec::{DebatePlan, Mode};
use crate::tui::{ModeRequest, SLASHES, Worker};

/// Who works on a task, checked against what there is.
#[derive(Clone, Debug)]
pub(super) struct Company {
    /// The mode of the task.
    pub mode: Mode,
    /// The squad, for a task of one.
    pub squad: Option<SquadWish>,
}

impl Company {
    /// Reads the flags of a wish.
    pub fn of(wish: &ModeRequest, config: &Config) -> Result<Self, Failure> {
        match wish.worker {
            Worker::Solo if wish.flags.is_empty() => Ok(Company { mode: Mode::Solo, squad: None }),
            Worker::Solo => Err(Failure::usage("solo takes no flags")),
            Worker::Squad => {
                let typed: SquadArgs = read("/squad", &wish.flags)?;
                let squad = Some(SquadWish { blueprint: typed.blueprint, checks: typed.check });
                Ok(Company { mode: Mode::Squad, squad })
            }
            Worker::Debate => {
                let typed: DebateArgs = read("/debate", &wish.flags)?;
                Ok(Company { mode: Mode::Debate(debate::plan_of(&typed, config)?), squad: None })
            }
        }
    }

    /// The plan of a debate.
    pub fn debate(&self) -> Option<DebatePlan> {
        match &self.mode {
            Mode::Debate(plan) => Some(plan.clone()),
            Mode::Solo | Mode::Squad | Mode::Unknown(_) => None,
        }
    }
}

/// Reads the flags of `/limits`.
pub(super) fn limits(flags: &[String]) -> Result<HeldArgs, Failure> {
    read("/limits", flags)
}

/// Reads flags that a slash command has; what else the command line knows is refused.
fn read<T: Args + FromArgMatches>(slash: &'static str, flags: &[String]) -> Result<T, Failure> {
    let known = SLASHES.iter().find(|row| row.name == slash).map(|row| row.flags).unwrap_or_default();
    for flag in flags {
        let name = flag.split('=').next().unwrap_or_default();
        if known.iter().all(|row| row.name != name) {
            let names: Vec<&str> = known.iter().map(|row| row.name).collect();
            return Err(Failure::usage(format!("{slash} has no `{name}`"))
                .hint(format!("it has {}", names.join(", "))));
        }
    }
    let command = T::augment_args(Command::new(slash).no_binary_name(true).disable_help_flag(true));
    let matches = command.try_get_matches_from(flags).and_then(|matches| T::from_arg_matches(&matches));
    matches.map_err(|error| {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        Failure::usage(first.strip_prefix("error: ").unwrap_or(first))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_those_of_the_command_line() {
        let flags = |flags: &[&str]| flags.iter().map(|flag| (*flag).to_owned()).collect::<Vec<_>>();
        let typed: SquadArgs = read("/squad", &flags(&["--check=cargo test", "--check=sh x"])).unwrap();
        assert_eq!(typed.check, ["cargo test", "sh x"]);
        let failure = read::<SquadArgs>("/squad", &flags(&["--json=x"])).unwrap_err();
        assert_eq!(failure.error.to_string(), "/squad has no `--json`");
        let failure = read::<DebateArgs>("/debate", &flags(&["--rounds=99"])).unwrap_err();
        assert!(failure.error.to_string().contains("99 is not in 2..=12"), "{failure:?}");
        assert_eq!(limits(&flags(&["--max-tokens=500"])).unwrap().max_tokens, Some(500));
    }
}
