//! The tool `list_dir`: the names in one directory.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::tool::{arguments, blocking, spec};
use super::write_file::words;
use crate::ports::{DirEntry, FileKind, Live, Preparation, Sandbox, Tool, ToolEnd};
use crate::protocol::effect::ToolCall;
use crate::protocol::event::PathBase;
use crate::protocol::spec::{Risk, ToolSpec};
use crate::protocol::text::name_shown;

/// How many names that no tool can say are shown.
const UNNAMED_SHOWN: usize = 5;

/// Lists a directory.
pub struct ListDir;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Directory, relative to the workspace; default is its root.
    path: Option<String>,
}

#[async_trait]
impl Tool for ListDir {
    fn spec(&self) -> ToolSpec {
        spec::<Arguments>(
            "list_dir",
            "Lists one directory, hidden and ignored names included: directories end with `/`, files have their \
             size in bytes.",
            Risk::Read,
        )
    }

    async fn prepare(&self, call: &ToolCall, sandbox: &dyn Sandbox) -> Result<Preparation, String> {
        let args: Arguments = arguments(&call.args)?;
        let path = sandbox.files().canonical(&args.path.unwrap_or_default()).map_err(words)?;
        Ok(looking("list", path))
    }

    async fn run(
        &self,
        call: &ToolCall,
        sandbox: &dyn Sandbox,
        _live: &dyn Live,
        _cancel: &CancellationToken,
    ) -> ToolEnd {
        let (args, files) = (call.args.clone(), sandbox.files());
        let listed = blocking(move || {
            let args: Arguments = arguments(&args)?;
            let entries = files.list(&args.path.unwrap_or_default()).map_err(words)?;
            Ok(match entries.as_slice() {
                [] => "(empty directory)".to_owned(),
                entries => entries.iter().map(|entry| line(name(entry), entry)).collect(),
            })
        });
        listed.await.map_or_else(ToolEnd::failed, ToolEnd::ok)
    }
}

/// A plan that only looks at one place. It carries no digest: an approval to look is for the place, and a
/// file that changes meanwhile may still be looked at.
pub fn looking(verb: &str, path: String) -> Preparation {
    let shown = if path.is_empty() { ".".into() } else { name_shown(&path) };
    Preparation {
        command: None,
        cwd: String::new(),
        preview: format!("{verb} {shown}"),
        risk: Risk::Read,
        paths: vec![PathBase { path, sha256: None }],
    }
}

fn name(entry: &DirEntry) -> &str {
    entry.path.rsplit('/').next().unwrap_or_default()
}

/// What is said of files whose names no tool can say; none when there are none.
pub fn unnamed(names: &[&str]) -> Option<String> {
    let some = names.iter().take(UNNAMED_SHOWN).copied().collect::<Vec<_>>().join(", ");
    let more = if names.len() > UNNAMED_SHOWN { ", …" } else { "" };
    let words = format!(
        "({} left out, because only a command can use a name that is not UTF-8: {some}{more})\n",
        names.len()
    );
    (!names.is_empty()).then_some(words)
}

/// What is said of an entry under a name.
pub fn line(name: &str, entry: &DirEntry) -> String {
    let name = if entry.kind == FileKind::Unnamed { name.into() } else { name_shown(name) };
    match entry.kind {
        FileKind::Unnamed => format!("{name} (its name is not UTF-8, so only a command can use it)\n"),
        FileKind::Directory => format!("{name}/\n"),
        FileKind::File => format!("{name} ({} bytes)\n", entry.bytes),
        FileKind::Link => format!("{name} (symbolic link, not followed)\n"),
        FileKind::Special => format!("{name} (special file)\n"),
    }
}
