//! The tool `grep`: lines by regular expression, without a shell.

use async_trait::async_trait;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::glob::{PathGlob, WALK_MAX};
use super::list_dir::{looking, unnamed};
use super::tool::{arguments, spec};
use super::write_file::words;
use crate::ports::{FileError, FileKind, Files, Preparation, Sandbox, Tool, ToolEnd};
use crate::protocol::effect::ToolCall;
use crate::protocol::event::ToolStatus;
use crate::protocol::spec::{Risk, ToolSpec};
use crate::protocol::text::name_shown;
use crate::session::policy::DeniedPaths;

/// Matches answered when the call names no number, and at most.
const MAX_DEFAULT: usize = 200;
const MAX_MOST: usize = 2_000;
/// Lines of context at most.
const CONTEXT_MOST: usize = 20;
/// Bytes of a line that are shown.
const LINE_SHOWN: usize = 500;
/// Memory for one line; a file with a longer one is counted as not searched.
const HEAP: usize = 32 * 1024 * 1024;

/// Searches files.
pub struct Grep;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Regular expression (Rust syntax), matched line by line.
    pattern: String,
    /// File or directory to search, relative to the workspace; default is its root.
    path: Option<String>,
    /// Only files whose path matches this glob, e.g. `*.rs`.
    glob: Option<String>,
    /// Ignore upper and lower case; default false.
    ignore_case: Option<bool>,
    /// Lines shown before and after each match; default 0, at most 20.
    context: Option<u64>,
    /// Matches answered; default 200, at most 2000.
    #[schemars(range(min = 1))]
    max: Option<u64>,
}

#[async_trait]
impl Tool for Grep {
    fn spec(&self) -> ToolSpec {
        spec::<Arguments>(
            "grep",
            "Searches text files for a regular expression; what .gitignore leaves out and binary files are left \
             out. Answers `path:line:text`, and `path-line-text` for context lines.",
            Risk::Read,
        )
    }

    async fn prepare(&self, call: &ToolCall, sandbox: &dyn Sandbox) -> Result<Preparation, String> {
        let args: Arguments = arguments(&call.args)?;
        let (matcher, denied) = (matcher(&args)?, call.denied.clone());
        let glob = args.glob.as_deref().map(PathGlob::new).transpose()?;
        let path = sandbox.files().canonical(args.path.as_deref().unwrap_or_default()).map_err(words)?;
        let verb = format!("search `{}` in", args.pattern);
        Ok(looking(&verb, path, move |files, base, cancel| {
            let text = search(files, &base, &args, (&matcher, glob.as_ref()), &denied, cancel)?;
            Ok(match cancel.is_cancelled() {
                true => {
                    ToolEnd { status: ToolStatus::Cancelled, ..ToolEnd::ok(format!("{text}(cancelled)\n")) }
                }
                false => ToolEnd::ok(text),
            })
        }))
    }
}

fn matcher(args: &Arguments) -> Result<RegexMatcher, String> {
    RegexMatcherBuilder::new()
        .case_insensitive(args.ignore_case == Some(true))
        .line_terminator(Some(b'\n'))
        .build(&args.pattern)
        .map_err(|error| format!("`{}` is not a regular expression for one line: {error}", args.pattern))
}

fn searcher(context: usize) -> Searcher {
    SearcherBuilder::new()
        .line_number(true)
        .before_context(context)
        .after_context(context)
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(HEAP))
        .build()
}

fn search(
    files: &dyn Files,
    base: &str,
    args: &Arguments,
    (matcher, glob): (&RegexMatcher, Option<&PathGlob>),
    denied: &[String],
    cancel: &CancellationToken,
) -> Result<String, String> {
    let denied = DeniedPaths::new(denied);
    let (paths, nameless, more) = candidates(files, base)?;
    // A file that was named outright is compared as it is named from the root.
    let above = if paths == [base] { "" } else { base };
    let all = paths.iter().map(String::as_str);
    let chosen = glob.map_or_else(|| all.clone().collect(), |glob| glob.choose(all.clone(), above));
    let mut searcher = searcher(number(args.context, 0, CONTEXT_MOST));
    let mut found = Found { max: number(args.max, MAX_DEFAULT, MAX_MOST), ..Found::default() };
    for path in chosen {
        if cancel.is_cancelled() || found.is_full() {
            break;
        }
        if denied.holds(path) {
            found.denied += 1;
            continue;
        }
        found.files += 1;
        // What vanished or cannot be opened is counted and named, not fatal.
        let Ok(file) = files.open(path) else {
            found.unread += 1;
            continue;
        };
        let mut lines = Lines { path, start: found.text.len(), found: &mut found, binary: false };
        if searcher.search_file(matcher, &file, &mut lines).is_err() {
            found.unread += 1;
        }
    }
    found.nameless = nameless;
    Ok(found.finish(&args.pattern, more))
}

/// The file itself, or the ordinary files beneath a directory; those without a name; and whether there were more.
fn candidates(files: &dyn Files, base: &str) -> Result<(Vec<String>, Vec<String>, bool), String> {
    match files.open(base) {
        Ok(_) => Ok((vec![base.to_owned()], Vec::new(), false)),
        Err(FileError::Directory(_)) => {
            let (entries, more) = files.walk(base, WALK_MAX).map_err(words)?;
            let of =
                |kind| entries.iter().filter(move |entry| entry.kind == kind).map(|entry| entry.path.clone());
            Ok((of(FileKind::File).collect(), of(FileKind::Unnamed).collect(), more))
        }
        Err(error) => Err(words(error)),
    }
}

fn number(asked: Option<u64>, default: usize, most: usize) -> usize {
    asked.map_or(default, |asked| usize::try_from(asked).unwrap_or(most).min(most))
}

/// What was found so far.
#[derive(Default)]
struct Found {
    text: String,
    matches: usize,
    max: usize,
    files: usize,
    denied: usize,
    unread: usize,
    /// Files no tool can name, as they are shown.
    nameless: Vec<String>,
}

impl Found {
    fn is_full(&self) -> bool {
        self.matches >= self.max
    }

    fn finish(mut self, pattern: &str, more: bool) -> String {
        if self.matches == 0 {
            self.text = format!("no line matches `{pattern}` in {} files\n", self.files);
        }
        if self.is_full() {
            self.text += &format!("(stopped after {} matches; there may be more)\n", self.max);
        }
        if self.denied > 0 {
            self.text += &format!("({} files were not searched: the policy denies them)\n", self.denied);
        }
        if self.unread > 0 {
            self.text += &format!("({} files could not be searched)\n", self.unread);
        }
        if more {
            self.text += &format!("(only the first {WALK_MAX} files were searched; name a directory)\n");
        }
        let nameless: Vec<&str> = self.nameless.iter().map(String::as_str).collect();
        self.text.extend(unnamed(&nameless));
        self.text
    }
}

/// Writes the lines of one file down.
struct Lines<'a> {
    path: &'a str,
    start: usize,
    found: &'a mut Found,
    binary: bool,
}

impl Lines<'_> {
    fn add(&mut self, mark: char, number: Option<u64>, bytes: &[u8]) {
        let line = String::from_utf8_lossy(bytes);
        let line = line.trim_end_matches(['\n', '\r']);
        let shown = &line[..line.floor_char_boundary(LINE_SHOWN)];
        let number = number.unwrap_or_default();
        self.found.text += &format!("{}{mark}{number}{mark}{shown}", name_shown(self.path));
        if shown.len() < line.len() {
            self.found.text += &format!(" [… {} bytes more]", line.len() - shown.len());
        }
        self.found.text.push('\n');
    }
}

impl Sink for Lines<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, matched: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        self.add(':', matched.line_number(), matched.bytes());
        self.found.matches += 1;
        Ok(!self.found.is_full())
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, Self::Error> {
        self.add('-', context.line_number(), context.bytes());
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, Self::Error> {
        self.found.text.push_str("--\n");
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, Self::Error> {
        self.binary = true;
        Ok(false)
    }

    fn finish(&mut self, _: &Searcher, _: &SinkFinish) -> Result<(), Self::Error> {
        // Lines before the first NUL of a binary file are as little text as what follows.
        if self.binary && self.found.text.len() > self.start {
            self.found.text.truncate(self.start);
            self.found.text += &format!("{}: binary file, it matches too\n", name_shown(self.path));
        }
        Ok(())
    }
}
