//! Asks the person at the terminal whether tools may work where nothing can confine them; opens nothing itself.

use std::path::{Path, PathBuf};

use crate::assembly::{Changes, WireError};
use crate::cli::desk::{Desk, PERSON};
use crate::cli::error::Failure;
use crate::cli::output::Output;
use crate::cli::plan;
use crate::cli::typed_lines;
use crate::config::Config;
use crate::protocol::spec::Consent;
use crate::protocol::text::name_shown;

/// The consent of whoever sits at the terminal, when a session could not be opened because nothing confines its
/// tools. Where nobody does, or the log goes to standard output, the failure stands, and so does any other.
pub(super) async fn asked(error: WireError, can_be_asked: bool, output: Output) -> Result<Consent, Failure> {
    match error {
        WireError::NothingConfines { ref why, ref gaps } if can_be_asked && Desk::is_attended() => {
            match ask(why, gaps, output).await? {
                true => Ok(Consent { by: PERSON.to_owned(), why: why.clone() }),
                false => Err(error.into()),
            }
        }
        error => Err(error.into()),
    }
}

/// Asks what a failure to resume or to copy a session leaves to the person at the terminal: to work without a sandbox,
/// in a home, or in a folder that only the log names. A yes is put where the next try finds it.
pub(super) async fn settle(
    error: WireError,
    (config, changes): (&mut Config, &mut Changes),
    can_be_asked: bool,
    output: Output,
) -> Result<(), Failure> {
    match error {
        WireError::Wide { ref workspace, why } if can_be_asked && Desk::is_attended() => {
            if !ask_about(workspace, why, output).await? {
                return Err(error.into());
            }
            config.allow_workspace(workspace);
        }
        WireError::ForeignRoot { ref id, ref root } if can_be_asked && Desk::is_attended() => {
            if !ask_about_log(id, root, output).await? {
                return Err(error.into());
            }
            changes.root = Some(plan::folder(root)?);
        }
        error => changes.consent = Some(asked(error, can_be_asked, output).await?),
    }
    Ok(())
}

/// Asks whether a home or a folder of the system may be the workspace, and gives it after a yes. Without a person, or
/// after a no, opening the session refuses it.
pub(super) async fn about_workspace(
    config: &Config,
    can_be_asked: bool,
    output: Output,
) -> Result<Option<PathBuf>, Failure> {
    let root = config.workspace().to_owned();
    let Some(why) = config.wide(&root).filter(|_| can_be_asked && Desk::is_attended()) else {
        return Ok(None);
    };
    Ok(ask_about(&root, why, output).await?.then_some(root))
}

async fn ask_about(root: &Path, why: &str, output: Output) -> Result<bool, Failure> {
    output.alarm(&format!("the workspace would be `{}`: {why}", root.display()));
    output.tell("Agents could read and change every file in it. Work there? yes | no: ");
    typed_lines::yes().await
}

/// Asks whether a session from elsewhere may work in the folder that its log names.
pub(super) async fn ask_about_log(id: &str, root: &Path, output: Output) -> Result<bool, Failure> {
    let root = name_shown(&root.to_string_lossy()).into_owned();
    output.say(&format!("session {id} was not begun here; its log names the folder {root}"));
    if let Ok(here) = std::env::current_dir() {
        output.say(&format!("the present folder is {}", here.display()));
    }
    output.tell("Type yes to let the session work in the folder of its log: ");
    typed_lines::yes().await
}

/// True for a whole yes.
async fn ask(why: &str, gaps: &[&str], output: Output) -> Result<bool, Failure> {
    output.alarm(&format!("nothing here can confine the tools: {why}"));
    output.tell("Without a sandbox, for this whole session:\n");
    for gap in gaps {
        output.say(&format!("  - {gap}"));
    }
    output.tell("`agon doctor` says more. May they work with your own rights? yes | no: ");
    typed_lines::yes().await
}
