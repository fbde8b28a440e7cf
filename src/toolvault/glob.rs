//! The tool `glob`: files by the pattern of their path.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

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
    let (total, found) = (AtomicUsize::new(0), Mutex::new(Names::default()));
    let is_whole = files.visit(base, &|visited| {
        if visited.kind == FileKind::Directory {
            return true;
        }
        total.fetch_add(1, Ordering::Relaxed);
        let fit = if visited.kind == FileKind::Unnamed { Fit::No } else { glob.fit(visited.path, base) };
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
        match (fit, visited.kind) {
            (_, FileKind::Unnamed) => found.nameless.push(visited.path.to_owned()),
            (Fit::Matches, _) => found.matching.push(visited.path.to_owned()),
            (Fit::ToTheLetter, _) => found.to_the_letter.push(visited.path.to_owned()),
            (Fit::No, _) => {}
        }
        true
    });
    let is_whole = is_whole.map_err(words)?;
    let Names { matching, to_the_letter, mut nameless } =
        found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut found = if matching.is_empty() { to_the_letter } else { matching };
    found.sort_unstable();
    nameless.sort_unstable();
    let mut text: String =
        found.iter().take(SHOWN).flat_map(|path| [name_shown(path), "\n".into()]).collect();
    if found.is_empty() {
        text = format!("no file matches `{pattern}` among {} files\n", total.into_inner());
    }
    if found.len() > SHOWN {
        text += &format!("({} more; use a narrower pattern)\n", found.len() - SHOWN);
    }
    if !is_whole {
        text += UNFINISHED;
    }
    let nameless: Vec<&str> = nameless.iter().map(String::as_str).collect();
    text.extend(unnamed(&nameless));
    Ok(text)
}

/// What is said where a tree is too large to be looked through.
pub const UNFINISHED: &str = "(not every file was looked at in the time there is; name a directory)\n";

/// Paths that were found.
#[derive(Default)]
struct Names {
    matching: Vec<String>,
    to_the_letter: Vec<String>,
    nameless: Vec<String>,
}

/// How a path fits a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It matches.
    Matches,
    /// It is what the pattern is to the letter, because `[id].tsx` is a name before it is a choice of letters. That
    /// counts where nothing matches.
    ToTheLetter,
    /// Neither.
    No,
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

    /// How a workspace-relative path under `base` fits.
    pub fn fit(&self, path: &str, base: &str) -> Fit {
        let compared = self.compared(path, base);
        match self.matcher.is_match(compared) {
            true => Fit::Matches,
            false if compared == self.text => Fit::ToTheLetter,
            false => Fit::No,
        }
    }

    /// What of a path is compared.
    fn compared<'p>(&self, path: &'p str, base: &str) -> &'p str {
        let relative = path.strip_prefix(base).unwrap_or(path).trim_start_matches('/');
        let name = relative.rsplit('/').next().unwrap_or(relative);
        if self.name_only { name } else { relative }
    }
}
