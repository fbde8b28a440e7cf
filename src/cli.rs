//! The command line: arguments in, exit code out.

pub mod apply;
pub mod args;
pub mod cache;
pub mod complete;
pub mod config;
mod consent;
pub mod debate;
pub mod debates;
pub mod desk;
pub mod doctor;
pub mod error;
pub mod init;
mod interrupts;
pub mod keys;
pub mod live_line;
pub mod mcp;
pub mod mission;
pub mod models;
pub mod output;
pub mod personas;
pub mod plain;
pub mod plan;
pub mod policy;
pub mod replay;
pub mod report;
pub mod run;
pub mod sandbox;
pub mod sessions;
mod typed_lines;
pub mod undo;
pub mod verify;
pub mod watch;
mod whole_file;
pub mod why;

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use clap_complete::env::{CompleteEnv, Shells};

use crate::cli::args::{ChatArgs, Command, Typed, in_order};
use crate::cli::error::{BUG, DONE, Failure, USAGE};
use crate::cli::output::Output;
use crate::config::{Environment, unknown};

/// Runs the program: parse, do, report. A panic anywhere is exit code 70.
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if is_version(&arguments) {
        return print_version();
    }
    keep_to_itself();
    let environment = Environment::of_process();
    let output = Output::new(&environment);
    if environment.get(COMPLETE).is_some() {
        let here = std::env::current_dir().ok();
        let completer = CompleteEnv::with_factory(Typed::command).var(COMPLETE);
        return match completer.try_complete(arguments, here.as_deref()) {
            Ok(_) => ExitCode::from(DONE),
            Err(error) => ExitCode::from(usage(&error)),
        };
    }
    let has_dashes = arguments.iter().any(|argument| argument == "--");
    ExitCode::from(guarded(output, || match Typed::try_parse_from(in_order(&Typed::command(), arguments)) {
        Ok(Typed { command: Some(command), .. }) => report(perform(command, environment, output), output),
        Ok(Typed { command: None, chat }) => {
            let done = match mistyped(&chat).filter(|_| !has_dashes) {
                Some(failure) => Err(failure),
                None => wait(mission::chat(&chat, environment, output)).and_then(|code| code),
            };
            report(done, output)
        }
        Err(error) => usage(&error),
    }))
}

/// The variable by which a shell asks for completions.
const COMPLETE: &str = "AGON_COMPLETE";

/// A single word that looks like a command was hardly meant as a task.
fn mistyped(chat: &ChatArgs) -> Option<Failure> {
    let word = chat.prompt.as_deref().filter(|prompt| !prompt.contains(char::is_whitespace))?;
    let command = Typed::command();
    let known = unknown::closest(word, command.get_subcommands().map(clap::Command::get_name))?;
    let failure =
        Failure::usage(format!("unknown command `{word}`")).hint(format!("did you mean `agon {known}`?"));
    Some(failure.hint(format!("as a task: agon -- {word}")))
}

/// Keeps keys, which are in this process's environment and memory, from other processes of the same user: commands
/// that run unconfined are among them. Every process it starts decides that for itself. A debugger that started it reads
/// all of it anyway, and is left to its work.
fn keep_to_itself() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let traced =
            status.lines().filter_map(|line| line.strip_prefix("TracerPid:")).any(|pid| pid.trim() != "0");
        if !traced {
            // A kernel that refuses leaves things as they are everywhere else.
            let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
        }
    }
}

/// Asking for the version does no other work, so that scripts can do it often.
fn is_version(arguments: &[OsString]) -> bool {
    matches!(arguments, [_, flag] if flag == "--version" || flag == "-V")
}

fn print_version() -> ExitCode {
    let version = concat!("agon ", env!("CARGO_PKG_VERSION"), "\n");
    ExitCode::from(report(Output::default().data(version).map(|()| DONE), Output::default()))
}

/// Runs something and turns a panic into a message and exit code 70.
fn guarded(output: Output, work: impl FnOnce() -> u8) -> u8 {
    std::panic::set_hook(Box::new(move |panic| {
        output.say(&format!("error: {panic}\n  this is a bug in agon {}", env!("CARGO_PKG_VERSION")));
    }));
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(BUG)
}

/// Help and version go to standard output and are no failure; everything else is bad usage.
fn usage(error: &clap::Error) -> u8 {
    let printed = error.print();
    let is_failure = error.use_stderr();
    match (printed, is_failure) {
        (_, true) => USAGE,
        (Ok(()), false) => DONE,
        (Err(error), false) => Failure::from(error).code,
    }
}

/// Says what went wrong and gives the exit code.
fn report(result: Result<u8, Failure>, output: Output) -> u8 {
    match result {
        Ok(code) => code,
        Err(failure) => {
            if failure.code != DONE {
                output.fail(&failure);
            }
            failure.code
        }
    }
}

fn perform(command: Command, environment: Environment, output: Output) -> Result<u8, Failure> {
    match command {
        Command::Init(typed) => wait(init::run(&typed, environment, output))?.map(|()| DONE),
        Command::Models(typed) => wait(models::run(&typed, environment, output))?.map(|()| DONE),
        Command::Keys(typed) => wait(keys::run(typed, environment, output))?.map(|()| DONE),
        Command::Config(command) => config::run(&command, environment, output).map(|()| DONE),
        Command::Schema(typed) => config::schema(typed.of, output).map(|()| DONE),
        Command::Mcp(command) => wait(mcp::run(command, environment, output))?.map(|()| DONE),
        Command::Policy(typed) => wait(policy::run(typed, environment, output))?.map(|()| DONE),
        Command::Personas(command) => personas::run(command, environment, output).map(|()| DONE),
        Command::Cache(command) => cache::run(&command, environment, output).map(|()| DONE),
        Command::Sandbox(command) => wait(sandbox::run(&command, environment, output))?.map(|()| DONE),
        Command::Doctor(typed) => wait(doctor::run(&typed, environment, output))?.map(|()| DONE),
        Command::Completions(typed) => completions(typed.shell, output).map(|()| DONE),
        Command::Run(typed) => wait(run::run(&typed, environment, output))?,
        Command::Demo(typed) if typed.tui => wait(mission::demo(&typed, environment, output))?,
        Command::Squad(typed) => wait(run::squad(&typed, environment, output))?,
        Command::Debate(typed) => wait(debate::run(&typed, environment, output))?,
        Command::Demo(typed) => wait(run::demo(&typed, environment, output))?,
        Command::Resume(typed) => wait(run::resume(&typed, environment, output))?,
        Command::Fork(typed) => wait(run::fork(&typed, environment, output))?,
        Command::Apply(typed) => wait(apply::run(&typed, environment, output))?,
        Command::Undo(typed) => wait(undo::run(&typed, environment, output))?,
        Command::Sessions(typed) => sessions::run(typed, &environment, output).map(|()| DONE),
        Command::Replay(typed) if typed.tui => wait(mission::replay(&typed, environment, output))?,
        Command::Replay(typed) => wait(replay::replay(&typed, &environment, output))?.map(|()| DONE),
        Command::Report(typed) => report::run(&typed, &environment, output).map(|()| DONE),
        Command::Debates(typed) => debates::run(typed.command, &environment, output).map(|()| DONE),
        Command::Verify(typed) => verify::run(&typed, &environment, output),
        Command::Context(typed) => why::context(&typed, &environment, output).map(|()| DONE),
        Command::Cost(typed) => why::cost(&typed, &environment, output).map(|()| DONE),
        Command::Why(typed) => why::run(&typed, &environment, output).map(|()| DONE),
    }
}

/// Runs an asynchronous command to its end.
fn wait<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(BUG, error))?;
    let result = runtime.block_on(work);
    // A blocking read that nobody waits for any more must not keep the process.
    runtime.shutdown_background();
    Ok(result)
}

fn completions(shell: clap_complete::Shell, output: Output) -> Result<(), Failure> {
    let (mut script, shells) = (Vec::new(), Shells::builtins());
    let completer = shells.completer(&shell.to_string());
    let completer = completer.ok_or_else(|| Failure::usage(format!("no completions for {shell}")))?;
    completer.write_registration(COMPLETE, "agon", "agon", "agon", &mut script)?;
    output.bytes(&script)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_well_formed() {
        Typed::command().debug_assert();
    }

    #[test]
    fn a_panic_is_exit_code_70() {
        let output = Output::new(&Environment::default());
        let hook = std::panic::take_hook();
        let code = guarded(output, || panic!("a test of the panic hook"));
        std::panic::set_hook(hook);
        assert_eq!(code, BUG);
        assert_eq!(guarded(output, || 3), 3);
    }
}
