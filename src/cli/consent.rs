//! Asks the person at the terminal whether tools may work where nothing can confine them; opens nothing itself.

use std::path::PathBuf;

use crate::assembly::WireError;
use crate::cli::desk::{Desk, PERSON};
use crate::cli::error::Failure;
use crate::cli::output::Output;
use crate::cli::typed_lines;
use crate::config::Config;
use crate::protocol::spec::Consent;

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
    output.alarm(&format!("the workspace would be `{}`: {why}", root.display()));
    output.tell("Agents could read and change every file in it. Work there? yes | no: ");
    Ok(typed_lines::yes().await?.then_some(root))
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
