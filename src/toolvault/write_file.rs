//! The tool `write_file`: replaces or creates one whole file.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::tool::{arguments, blocking, spec};
use super::{seen, unified};
use crate::ports::{FileError, Files, Live, Preparation, Sandbox, Tool, ToolEnd};
use crate::protocol::effect::ToolCall;
use crate::protocol::event::PathBase;
use crate::protocol::expand::hex;
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
            Ok(preparation(PathBase { path, sha256: now }, preview))
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
            let Arguments { path, content } = arguments(&args)?;
            let path = files.canonical(&path).map_err(words)?;
            let now = files.digest(&path).map_err(words)?;
            seen::may_replace(&bases, &path, now.as_deref())?;
            let verb = if now.is_none() { "created" } else { "replaced" };
            let base = PathBase { path: path.clone(), sha256: now };
            files.write(&path, content.as_bytes(), &base).map_err(words)?;
            let (name, lines) = (name_shown(&path), content.lines().count());
            let told = format!("{verb} `{name}`: {lines} lines, {} bytes", content.len());
            let seen = vec![seen_after(path, content.as_bytes())];
            Ok(ToolEnd { seen, ..ToolEnd::ok(told) })
        });
        written.await.unwrap_or_else(ToolEnd::failed)
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

/// A plan to write one file.
pub fn preparation(path: PathBase, preview: String) -> Preparation {
    Preparation { paths: vec![path], command: None, cwd: String::new(), preview, risk: Risk::Write }
}

/// What a spark has seen once it wrote a file.
pub fn seen_after(path: String, content: &[u8]) -> PathBase {
    PathBase { path, sha256: Some(hex(&Sha256::digest(content))) }
}

/// The error's own words are for the model.
pub fn words(error: FileError) -> String {
    error.to_string()
}
