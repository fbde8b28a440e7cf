//! The tool `glob`: files by the pattern of their path.

use async_trait::async_trait;
use globset::{GlobBuilder, GlobMatcher};
use schemars::JsonSchema;
use serde::Deserialize;

use super::list_dir::{looking, unnamed};
use super::tool::{arguments, spec};
use super::write_file::words;
use crate::ports::{FileKind, Files, Preparation, Sandbox, Tool, ToolEnd};
use crate::protocol::effect::ToolCall;
use crate::protocol::spec::{Risk, ToolSpec};
use crate::protocol::text::name_shown;

/// Most files looked at.
pub const WALK_MAX: usize = 200_000;
/// Most paths answered.
const SHOWN: usize = 1_000;

/// Finds files.
pub struct Glob;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Glob such as `src/**/*.rs` or `*.{md,toml}`; without a `/` it matches names in any directory.
    pattern: String,
    /// Directory to look in, to which the pattern is relative; default is the workspace's root.
    path: Option<String>,
}

#[async_trait]
impl Tool for Glob {
    fn spec(&self) -> ToolSpec {
        spec::<Arguments>(
            "glob",
            "Finds files whose path matches a glob pattern, sorted; what .gitignore leaves out is left out.",
            Risk::Read,
        )
    }

    async fn prepare(&self, call: &ToolCall, sandbox: &dyn Sandbox) -> Result<Preparation, String> {
        let args: Arguments = arguments(&call.args)?;
        let glob = PathGlob::new(&args.pattern)?;
        let path = sandbox.files().canonical(&args.path.unwrap_or_default()).map_err(words)?;
        let (verb, pattern) = (format!("find files `{}` in", args.pattern), args.pattern);
        Ok(looking(&verb, path, move |files, base, _| find(files, &base, &glob, &pattern).map(ToolEnd::ok)))
    }
}

fn find(files: &dyn Files, base: &str, glob: &PathGlob, pattern: &str) -> Result<String, String> {
    let (entries, more) = files.walk(base, WALK_MAX).map_err(words)?;
    let (nameless, named): (Vec<_>, Vec<_>) =
        entries.iter().partition(|entry| entry.kind == FileKind::Unnamed);
    let found = glob.choose(named.iter().map(|entry| entry.path.as_str()), base);
    let mut text: String =
        found.iter().take(SHOWN).flat_map(|path| [name_shown(path), "\n".into()]).collect();
    if found.is_empty() {
        text = format!("no file matches `{pattern}` among {} files\n", entries.len());
    }
    if found.len() > SHOWN {
        text += &format!("({} more; use a narrower pattern)\n", found.len() - SHOWN);
    }
    if more {
        text += &format!("(only the first {WALK_MAX} files were looked at; name a directory)\n");
    }
    let nameless: Vec<&str> = nameless.iter().map(|entry| entry.path.as_str()).collect();
    text.extend(unnamed(&nameless));
    Ok(text)
}

/// A pattern over paths relative to a directory.
pub struct PathGlob {
    matcher: GlobMatcher,
    name_only: bool,
    text: String,
}

impl PathGlob {
    /// Compiles a pattern; the error names what is wrong with it.
    pub fn new(pattern: &str) -> Result<Self, String> {
        let glob = GlobBuilder::new(pattern.trim_start_matches("./")).literal_separator(true).build();
        let glob = glob.map_err(|error| format!("`{pattern}` is not a glob pattern: {}", error.kind()))?;
        let text = pattern.trim_start_matches("./").to_owned();
        Ok(PathGlob { matcher: glob.compile_matcher(), name_only: !pattern.contains('/'), text })
    }

    /// The workspace-relative paths beneath `base` that match; where none does, those whose name the pattern is to
    /// the letter, because `[id].tsx` is a name before it is a choice of letters.
    pub fn choose<'p>(&self, paths: impl Iterator<Item = &'p str> + Clone, base: &str) -> Vec<&'p str> {
        let matching: Vec<&str> =
            paths.clone().filter(|path| self.matcher.is_match(self.compared(path, base))).collect();
        match matching.is_empty() {
            true => paths.filter(|path| self.compared(path, base) == self.text).collect(),
            false => matching,
        }
    }

    /// What of a path is compared.
    fn compared<'p>(&self, path: &'p str, base: &str) -> &'p str {
        let relative = path.strip_prefix(base).unwrap_or(path).trim_start_matches('/');
        let name = relative.rsplit('/').next().unwrap_or(relative);
        if self.name_only { name } else { relative }
    }
}
