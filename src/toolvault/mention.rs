//! What stands for a mention: numbered lines of a file or the names beneath a folder; knows nothing of who reads it.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::list_dir::line;
use super::read_file;
use super::tool::blocking;
use super::write_file::words;
use crate::ports::{DirEntry, EndPart, FileError, Files, Sandbox};
use crate::protocol::effect::{MentionContext, MentionedPlace};
use crate::protocol::event::{MentionExpanded, ToolStatus};
use crate::protocol::spec::DeniedPaths;

/// Names beneath a folder that are shown.
const NAMES: usize = 500;

/// Reads what a person mentions, as `read_file` would: beneath the workspace, in numbered lines, within a cap. What
/// the policy denies to whoever reads is not read. A folder is shown by the names beneath it; ignored ones and those
/// the policy denies are left out. The error's words are for the person and the model.
pub async fn read(
    place: MentionedPlace,
    context: &MentionContext,
    sandbox: &dyn Sandbox,
    cancel: &CancellationToken,
) -> Result<(MentionExpanded, Vec<EndPart>), String> {
    let (files, denied, token) = (sandbox.files(), DeniedPaths::new(&context.denied), cancel.clone());
    let (mention, cap) = (place.mention.clone(), context.output_cap as usize);
    blocking(move || look(&files, &place, (&denied, cap), &token))
        .await
        .map_err(|why| format!("`{mention}` was not read: {why}"))
}

fn look(
    files: &Arc<dyn Files>,
    place: &MentionedPlace,
    (denied, cap): (&DeniedPaths, usize),
    cancel: &CancellationToken,
) -> Result<(MentionExpanded, Vec<EndPart>), String> {
    let path = files.canonical(&place.path).map_err(words)?;
    if denied.holds(&path) {
        return Err(format!("the policy denies reading `{path}`"));
    }
    let (text, seen, parts) = match files.open(&path) {
        Ok(file) => {
            let end = read_file::lines(file, path, (place.first, place.last), cap, cancel)?;
            if end.status != ToolStatus::Ok {
                return Err(end.content);
            }
            (end.content, end.seen, end.parts)
        }
        Err(FileError::Directory(_)) => (names(files, &path, denied)?, Vec::new(), Vec::new()),
        Err(error) => return Err(words(error)),
    };
    Ok((MentionExpanded { mention: place.mention.clone(), text, seen, parts: Vec::new() }, parts))
}

fn names(files: &Arc<dyn Files>, path: &str, denied: &DeniedPaths) -> Result<String, String> {
    let (entries, more) = files.walk(path, NAMES).map_err(words)?;
    let shown: Vec<&DirEntry> = entries.iter().filter(|entry| !denied.holds(&entry.path)).collect();
    if shown.is_empty() {
        return Ok("(no files)\n".to_owned());
    }
    let mut text = String::new();
    for entry in shown {
        text += &line(&entry.path, entry);
    }
    if more {
        text += &format!("(only the first {NAMES} files are named)\n");
    }
    Ok(text)
}
