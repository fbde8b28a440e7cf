//! The tool `edit_file`: several replacements in one file, all of them or none.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::edits::{self, Edit};
use super::tool::{arguments, blocking, spec};
use super::write_file::{preparation, seen_after, words};
use super::{seen, unified};
use crate::ports::{Files, Live, Preparation, Sandbox, Tool, ToolEnd};
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

/// A file as it would be afterwards.
struct Edited {
    base: PathBase,
    new: String,
    diff: String,
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
        blocking(move || {
            let edited = edit(&*files, &bases, &args)?;
            Ok(preparation(edited.base, edited.diff))
        })
        .await
    }

    async fn run(
        &self,
        call: &ToolCall,
        sandbox: &dyn Sandbox,
        _live: &dyn Live,
        _cancel: &CancellationToken,
    ) -> ToolEnd {
        let (args, files, bases) = (call.args.clone(), sandbox.files(), call.bases.clone());
        let written = blocking(move || {
            let edited = edit(&*files, &bases, &arguments(&args)?)?;
            files.write(&edited.base.path, edited.new.as_bytes(), &edited.base).map_err(words)?;
            let seen = vec![seen_after(edited.base.path, edited.new.as_bytes())];
            Ok(ToolEnd { seen, ..ToolEnd::ok(edited.diff) })
        });
        written.await.unwrap_or_else(ToolEnd::failed)
    }
}

fn edit(files: &dyn Files, bases: &[PathBase], args: &Arguments) -> Result<Edited, String> {
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
    Ok(Edited { base, new, diff })
}
