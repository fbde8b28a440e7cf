//! The command `undo`: what is taken back, laid out for the terminal.

use std::path::Path;

use crate::cli::args::{UndoArgs, UndoPart};
use crate::cli::error::{DONE, FAILED, Failure};
use crate::cli::output::Output;
use crate::cli::plan;
use crate::config::Environment;
use crate::host::{Host, UndoWish, turn_line};
use crate::projection::safe_text::shown;

/// Takes turns back, or shows what that would do.
pub async fn run(typed: &UndoArgs, environment: Environment, output: Output) -> Result<u8, Failure> {
    let host = Host::of(&environment)?;
    let session = match &typed.session {
        Some(session) => host.sessions().find(session)?,
        None => {
            let here = plan::folder(Path::new("."))?;
            host.sessions().newest_in(&here)?.ok_or_else(|| {
                Failure::usage(format!("no session worked in `{}`", here.display()))
                    .hint("name one: agon undo SESSION (`agon sessions` lists them)")
            })?
        }
    };
    if typed.list {
        let rows = host.turns(&session)?.rows;
        let lines: String = rows.iter().map(|row| turn_line(row) + "\n").collect();
        return output.data(&shown(&lines)).map(|()| DONE);
    }
    let wish = UndoWish {
        turn: typed.turn,
        redo: typed.redo,
        files: typed.only != Some(UndoPart::Talk),
        talk: typed.only != Some(UndoPart::Files),
        force: typed.force,
    };
    let undo = match typed.preview {
        true => host.plan_undo(&session, wish).await?,
        false => host.undo(&session, wish).await?,
    };
    output.data(&shown(&(undo.lines(!typed.preview).join("\n") + "\n")))?;
    if typed.preview {
        output.data(&shown(&undo.plan.diff.diff))?;
        return Ok(DONE);
    }
    undo.hints().iter().for_each(|hint| output.say(&format!("hint: {hint}")));
    Ok(if undo.is_whole() { DONE } else { FAILED })
}
