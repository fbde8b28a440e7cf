//! The person's own editor on a text: `$VISUAL`, else `$EDITOR`, else `vi`.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::cli::error::{Failure, USAGE};
use crate::config::Environment;

/// The text as it was left. The file it is written in is only this person's, and removed.
pub(super) fn edited(environment: &Environment, text: &str) -> Result<String, Failure> {
    let folder = PathBuf::from(environment.get("TMPDIR").unwrap_or("/tmp"));
    let file = folder.join(format!("agon-message-{}.md", std::process::id()));
    let mut named = ["VISUAL", "EDITOR"].into_iter().filter_map(|name| environment.get(name));
    let editor = named.find(|editor| !editor.trim().is_empty()).unwrap_or("vi");
    let done = in_editor(editor, &file, text);
    // What could not be made is not there.
    let _ = std::fs::remove_file(&file);
    done.map_err(|error| Failure::new(USAGE, error))
}

fn in_editor(editor: &str, file: &Path, text: &str) -> anyhow::Result<String> {
    let make = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
    let written = make.and_then(|mut made| made.write_all(text.as_bytes()));
    written.with_context(|| format!("cannot write `{}`", file.display()))?;
    // The shell splits an editor with arguments, such as `code --wait`.
    let line = format!("{editor} \"$1\"");
    let status = Command::new("sh").args(["-c", &line, "sh"]).arg(file).status();
    let status = status.with_context(|| format!("cannot start the editor `{editor}`"))?;
    anyhow::ensure!(status.success(), "the editor `{editor}` failed: {status}");
    std::fs::read_to_string(file).with_context(|| format!("cannot read `{}` back", file.display()))
}
