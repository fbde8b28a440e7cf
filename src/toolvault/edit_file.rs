//! The tool `edit_file`: several replacements in one file, all of them or none.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

use super::edits::{self, Edit};
use super::tool::{arguments, blocking, spec};
use super::write_file::{seen_after, words, writing};
use super::{seen, unified};
use crate::ports::{Files, Preparation, Sandbox, Tool};
use crate::protocol::effect::ToolCall;
use crate::protocol::event::PathBase;
use crate::protocol::spec::{Risk, ToolSpec};

/// Largest file that can be edited.
const MAX: u64 = 16 * 1024 * 1024;

/// Edits a file.
pub struct EditFile;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Path of the file, relative to the workspace.
    path: String,
    /// The replacements, applied in order, each to the outcome of the one before; all of them or none.
    #[schemars(length(min = 1))]
    edits: Vec<Edit>,
}

#[async_trait]
impl Tool for EditFile {
    fn spec(&self) -> ToolSpec {
        spec::<Arguments>(
            "edit_file",
            "Replaces pieces of a text file that has been read before. Each `old` must occur exactly once \
             (whitespace counts), or set replace_all. Answers with the diff; on any error nothing is written.",
            Risk::Write,
        )
    }

    async fn prepare(&self, call: &ToolCall, sandbox: &dyn Sandbox) -> Result<Preparation, String> {
        let args: Arguments = arguments(&call.args)?;
        let (files, bases) = (sandbox.files(), call.bases.clone());
        blocking(move || edit(&*files, &bases, &args)).await
    }
}

fn edit(files: &dyn Files, bases: &[PathBase], args: &Arguments) -> Result<Preparation, String> {
    files.check_write(&args.path).map_err(words)?;
    let path = files.canonical(&args.path).map_err(words)?;
    let old = files.read(&path, MAX).map_err(words)?;
    // The digest of the very bytes that are edited, so that the check right before the rename covers them.
    let base = seen_after(path, &old);
    seen::may_replace(bases, &base.path, base.sha256.as_deref())?;
    let text = String::from_utf8(old)
        .map_err(|_| format!("`{}` is not UTF-8 text and cannot be edited", base.path))?;
    let new = edits::apply(&text, &args.edits).map_err(|error| format!("`{}`: {error}", base.path))?;
    let diff = unified::diff(&base.path, Some(text.as_bytes()), &new);
    Ok(writing(base, new, diff.clone(), diff))
}
