//! The tool `list_dir`: the names in one directory.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::tool::{arguments, on_files, spec};
use super::write_file::words;
use crate::ports::{DirEntry, FileKind, Files, Preparation, Sandbox, Tool, ToolEnd};
use crate::protocol::effect::ToolCall;
use crate::protocol::event::PathBase;
use crate::protocol::need::Need;
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
        Ok(looking("list", path, |files, path, _| {
            let entries = files.list(&path).map_err(words)?;
            Ok(ToolEnd::ok(match entries.as_slice() {
                [] => "(empty directory)".to_owned(),
                entries => entries.iter().map(|entry| line(name(entry), entry)).collect(),
            }))
        }))
    }
}

/// A call that only looks at one place. It carries no digest: an approval to look is for the place, and a
/// file that changes meanwhile may still be looked at.
pub fn looking(
    verb: &str,
    path: String,
    look: impl FnOnce(&dyn Files, String, &CancellationToken) -> Result<ToolEnd, String> + Send + 'static,
) -> Preparation {
    let preview = format!("{verb} {}", if path.is_empty() { ".".into() } else { name_shown(&path) });
    let need = Need::Read(PathBase { path: path.clone(), sha256: None });
    let run = on_files(move |files, cancel| look(files, path, cancel));
    Preparation::new(preview, Risk::Read, run).needing(need)
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
