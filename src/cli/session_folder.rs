//! The folder in which a recorded session is taken up: where this user began it, else one that is named or agreed to.

use std::path::{Path, PathBuf};

use crate::assembly::{Sessions, WireError};
use crate::cli::consent::ask_about_log;
use crate::cli::desk::Desk;
use crate::cli::error::Failure;
use crate::cli::output::Output;
use crate::cli::plan;
use crate::config::{Environment, Places};

/// The folder that was named, or that a session from elsewhere may work in; none for a session of this user, which
/// works where it was begun. `here` is the present folder. A person is asked where `can_ask` says so.
pub(super) async fn folder_of(
    session: &str,
    (named, here): (Option<&Path>, &Path),
    environment: &Environment,
    (can_ask, output): (bool, Output),
) -> Result<Option<PathBuf>, Failure> {
    let sessions = Sessions::at(&Places::find(environment)?);
    match (known_folder(session, (named, here), environment)?, sessions.home(session)) {
        (Some(folder), _) => Ok(Some(folder)),
        (None, Ok(_)) => Ok(None),
        (None, Err(WireError::ForeignRoot { id, root })) if can_ask && Desk::is_attended() => {
            match ask_about_log(&id, &root, output).await? {
                true => plan::folder(&root).map(Some),
                false => Err(WireError::ForeignRoot { id, root }.into()),
            }
        }
        (None, Err(error)) => Err(error.into()),
    }
}

/// The folder that needs no question: one that was named, or the present one where a log from elsewhere names it.
pub(super) fn known_folder(
    session: &str,
    (named, here): (Option<&Path>, &Path),
    environment: &Environment,
) -> Result<Option<PathBuf>, Failure> {
    if let Some(named) = named {
        return plan::folder(named).map(Some);
    }
    match Sessions::at(&Places::find(environment)?).home(session) {
        Err(WireError::ForeignRoot { root, .. }) if root.canonicalize().is_ok_and(|root| root == here) => {
            Ok(Some(root))
        }
        Ok(_) | Err(WireError::ForeignRoot { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
