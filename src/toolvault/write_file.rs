//! The tool `write_file`: replaces or creates one whole file.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

use super::tool::{arguments, blocking, on_files, spec};
use super::{seen, unified};
use crate::ports::{FileError, Files, Preparation, Sandbox, Tool, ToolEnd};
use crate::protocol::effect::ToolCall;
use crate::protocol::event::PathBase;
use crate::protocol::expand::hex;
use crate::protocol::need::Need;
use crate::protocol::spec::{Risk, ToolSpec};
use crate::protocol::text::name_shown;
use sha2::{Digest, Sha256};

/// Largest existing file that is read for the preview; beyond it the preview shows the new content only.
pub const PREVIEW_MAX: u64 = 16 * 1024 * 1024;

/// Replaces or creates a file.
pub struct WriteFile;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Path of the file, relative to the workspace.
    path: String,
    /// The whole new content.
    content: String,
}

#[async_trait]
impl Tool for WriteFile {
    fn spec(&self) -> ToolSpec {
        spec::<Arguments>(
            "write_file",
            "Creates a file or replaces it whole; missing directories are made. A file that exists must have \
             been read first. To change part of a file use edit_file.",
            Risk::Write,
        )
    }

    async fn prepare(&self, call: &ToolCall, sandbox: &dyn Sandbox) -> Result<Preparation, String> {
        let Arguments { path, content } = arguments(&call.args)?;
        let (files, bases) = (sandbox.files(), call.bases.clone());
        blocking(move || {
            files.check_write(&path).map_err(words)?;
            let path = files.canonical(&path).map_err(words)?;
            let now = files.digest(&path).map_err(words)?;
            seen::may_replace(&bases, &path, now.as_deref())?;
            let preview = preview(&*files, &path, now.is_some(), &content)?;
            let verb = if now.is_none() { "created" } else { "replaced" };
            let (name, lines) = (name_shown(&path), content.lines().count());
            let told = format!("{verb} `{name}`: {lines} lines, {} bytes", content.len());
            Ok(writing(PathBase { path, sha256: now }, content, preview, told))
        })
        .await
    }
}

fn preview(files: &dyn Files, path: &str, exists: bool, content: &str) -> Result<String, String> {
    if !exists {
        return Ok(unified::diff(path, None, content));
    }
    match files.read(path, PREVIEW_MAX) {
        Ok(old) => Ok(unified::diff(path, Some(&old), content)),
        Err(FileError::TooLarge { bytes, .. }) => {
            let words = format!(
                "`{}` holds {bytes} bytes, too many to compare; they are replaced by:\n",
                name_shown(path)
            );
            Ok(words + &unified::diff(path, None, content))
        }
        Err(error) => Err(words(error)),
    }
}

/// A call that makes this the content of one file, which must still be what it was, and then says so.
pub fn writing(base: PathBase, content: String, preview: String, told: String) -> Preparation {
    let (need, held) = (Need::Write(base.clone()), content.len());
    let run = on_files(move |files, _| {
        files.write(&base.path, content.as_bytes(), &base).map_err(words)?;
        let seen = vec![seen_after(base.path, content.as_bytes())];
        Ok(ToolEnd { seen, ..ToolEnd::ok(told) })
    });
    Preparation { held, ..Preparation::new(preview, Risk::Write, run).needing(need) }
}

/// What a spark has seen once it wrote a file.
pub fn seen_after(path: String, content: &[u8]) -> PathBase {
    PathBase { path, sha256: Some(hex(&Sha256::digest(content))) }
}

/// The error's own words are for the model.
pub fn words(error: FileError) -> String {
    error.to_string()
}
