//! Mission control without a screen: each line of standard input is a task, each answer goes to standard output.

use std::io::{BufRead, IsTerminal, Write};

use crate::cli::args::{ChatArgs, RunArgs};
use crate::cli::error::{DONE, Failure};
use crate::cli::output::Output;
use crate::cli::run;
use crate::config::{Environment, Places};
use crate::wiring::Sessions;

/// Takes tasks line by line, all in one session.
pub async fn chat(typed: &ChatArgs, environment: Environment, output: Output) -> Result<u8, Failure> {
    let asks = std::io::stdin().is_terminal();
    let sessions = || Places::find(&environment).map(|places| Sessions::at(&places));
    let mut session = match typed.go_on {
        true => Some(super::places::newest(&sessions()?, &crate::cli::plan::workspace(&typed.workspace)?)?),
        false => None,
    };
    let mut code = None;
    loop {
        if asks {
            output.tell("> ");
            let _ = std::io::stderr().flush();
        }
        let Some(line) = next_line()? else { break };
        if line.trim().is_empty() {
            continue;
        }
        let args = RunArgs {
            prompt: Some(line),
            model: typed.model.clone(),
            persona: typed.persona.clone(),
            resume: session.clone(),
            arena: typed.arena(),
            ..RunArgs::default()
        };
        let (ended, id) = run::task(&args, environment.clone(), output).await?;
        session = Some(id);
        code = Some(ended);
        if ended != DONE {
            break;
        }
    }
    code.ok_or_else(|| {
        Failure::usage("there is no terminal to draw on, and no task came on standard input")
            .hint("agon run \"...\" gives one task; agon --help lists everything")
    })
}

fn next_line() -> Result<Option<String>, Failure> {
    let mut line = String::new();
    let bytes = std::io::stdin().lock().read_line(&mut line)?;
    Ok((bytes > 0).then_some(line))
}
