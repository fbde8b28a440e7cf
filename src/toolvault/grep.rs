//! The tool `grep`: lines by regular expression, without a shell.

mod results;

use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::glob::{Fit, PathGlob, UNFINISHED};
use super::list_dir::{looking, unnamed};
use super::tool::{arguments, spec};
use super::write_file::words;
use crate::ports::{FileError, FileKind, Files, Preparation, Sandbox, Tool, ToolEnd, Visited};
use crate::protocol::effect::ToolCall;
use crate::protocol::event::ToolStatus;
use crate::protocol::spec::{DeniedPath, DeniedPaths, Risk, ToolSpec};
use crate::protocol::text::name_shown;
use results::{Lines, Outcome, Results};

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
    denied: &[DeniedPath],
    cancel: &CancellationToken,
) -> Result<String, String> {
    let max = number(args.max, MAX_DEFAULT, MAX_MOST);
    let search = Search {
        matcher,
        glob,
        denied: DeniedPaths::new(denied),
        context: number(args.context, 0, CONTEXT_MOST),
        max,
        idle: Mutex::default(),
        searched: <[AtomicUsize; 2]>::default(),
        found: [max, max].map(|max| Mutex::new(Results::new(max))),
        fits: AtomicBool::new(false),
        nameless: Mutex::default(),
    };
    let is_whole = match files.open(base) {
        // A file that was named outright is compared as it is named from the root.
        Ok(_) => {
            let visited = Visited { path: base, kind: FileKind::File, open: &|| files.open(base) };
            search.look("", &visited)
        }
        Err(FileError::Directory(_)) => files
            .visit(base, &|visited| !cancel.is_cancelled() && search.look(base, &visited))
            .map_err(words)?,
        Err(error) => return Err(words(error)),
    };
    Ok(search.finish(&args.pattern, is_whole))
}

/// One search, by several threads.
struct Search<'a> {
    matcher: &'a RegexMatcher,
    glob: Option<&'a PathGlob>,
    denied: DeniedPaths,
    context: usize,
    max: usize,
    /// What a thread needs to search that is free now.
    idle: Mutex<Vec<(RegexMatcher, Searcher)>>,
    /// Files that were searched, of those that the glob matches and of those it is to the letter.
    searched: [AtomicUsize; 2],
    found: [Mutex<Results>; 2],
    /// Whether the glob matches any file.
    fits: AtomicBool,
    /// Files no tool can name, as they are shown.
    nameless: Mutex<Vec<String>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Search<'_> {
    /// Looks at what a walk has come by; false for a directory in which nothing can be found that is shown.
    fn look(&self, base: &str, visited: &Visited<'_>) -> bool {
        match visited.kind {
            FileKind::Directory => return self.found.iter().any(|found| locked(found).needs(visited.path)),
            FileKind::Unnamed => locked(&self.nameless).push(visited.path.to_owned()),
            FileKind::File => self.file(base, visited),
            FileKind::Link | FileKind::Special => {}
        }
        true
    }

    fn file(&self, base: &str, visited: &Visited<'_>) {
        let which = match self.glob.map_or(Fit::Matches, |glob| glob.fit(visited.path, base)) {
            Fit::Matches => 0,
            Fit::ToTheLetter => 1,
            Fit::No => return,
        };
        if which == 0 {
            self.fits.store(true, Ordering::Relaxed);
        } else if self.fits.load(Ordering::Relaxed) {
            return;
        }
        if !locked(&self.found[which]).needs(visited.path) {
            return;
        }
        let outcome = match self.denied.holds(visited.path) {
            true => Outcome::Denied,
            false => {
                self.searched[which].fetch_add(1, Ordering::Relaxed);
                // What vanished or cannot be opened is counted and named, not fatal.
                let file = (visited.open)().ok();
                file.map_or(Outcome::Unread, |file| Outcome::Searched(self.lines(visited.path, &file)))
            }
        };
        if !matches!(&outcome, Outcome::Searched(lines) if lines.is_nothing()) {
            locked(&self.found[which]).add(visited.path, outcome);
        }
    }

    /// The lines of one file.
    fn lines(&self, path: &str, file: &File) -> Lines {
        let idle = locked(&self.idle).pop();
        let (matcher, mut searcher) = idle.unwrap_or_else(|| (self.matcher.clone(), searcher(self.context)));
        let mut sink = LineSink { path, max: self.max, lines: Lines::default(), binary: false };
        sink.lines.is_broken = searcher.search_file(&matcher, file, &mut sink).is_err();
        locked(&self.idle).push((matcher, searcher));
        sink.lines
    }

    fn finish(self, pattern: &str, is_whole: bool) -> String {
        let which = usize::from(!self.fits.into_inner());
        let of = |found: Mutex<Results>| found.into_inner().unwrap_or_else(PoisonError::into_inner);
        let [matching, to_the_letter] = self.found.map(of);
        let results = if which == 0 { matching } else { to_the_letter };
        let is_empty = results.is_empty();
        let (mut text, is_full, [denied, unread]) = results.finish();
        if is_empty {
            let files = self.searched[which].load(Ordering::Relaxed);
            text = format!("no line matches `{pattern}` in {files} files\n");
        }
        if is_full {
            text += &format!("(stopped after {} matches; there may be more)\n", self.max);
        }
        if denied > 0 {
            text += &format!("({denied} files were not searched: the policy denies them)\n");
        }
        if unread > 0 {
            text += &format!("({unread} files could not be searched)\n");
        }
        if !is_whole {
            text += UNFINISHED;
        }
        let mut nameless = self.nameless.into_inner().unwrap_or_else(PoisonError::into_inner);
        nameless.sort_unstable();
        let nameless: Vec<&str> = nameless.iter().map(String::as_str).collect();
        text.extend(unnamed(&nameless));
        text
    }
}

fn number(asked: Option<u64>, default: usize, most: usize) -> usize {
    asked.map_or(default, |asked| usize::try_from(asked).unwrap_or(most).min(most))
}

/// Writes the lines of one file down.
struct LineSink<'a> {
    path: &'a str,
    max: usize,
    lines: Lines,
    binary: bool,
}

impl LineSink<'_> {
    fn add(&mut self, mark: char, number: Option<u64>, bytes: &[u8]) {
        let line = String::from_utf8_lossy(bytes);
        let line = line.trim_end_matches(['\n', '\r']);
        let shown = &line[..line.floor_char_boundary(LINE_SHOWN)];
        let number = number.unwrap_or_default();
        self.lines.text += &format!("{}{mark}{number}{mark}{shown}", name_shown(self.path));
        if shown.len() < line.len() {
            self.lines.text += &format!(" [… {} bytes more]", line.len() - shown.len());
        }
        self.lines.text.push('\n');
    }
}

impl Sink for LineSink<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, matched: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        self.add(':', matched.line_number(), matched.bytes());
        self.lines.ends.push(self.lines.text.len());
        Ok(self.lines.ends.len() < self.max)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, Self::Error> {
        self.add('-', context.line_number(), context.bytes());
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, Self::Error> {
        self.lines.text.push_str("--\n");
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, Self::Error> {
        self.binary = true;
        Ok(false)
    }

    fn finish(&mut self, _: &Searcher, _: &SinkFinish) -> Result<(), Self::Error> {
        // Lines before the first NUL of a binary file are as little text as what follows.
        if self.binary && !self.lines.text.is_empty() {
            self.lines.text = format!("{}: binary file, it matches too\n", name_shown(self.path));
            self.lines.ends.fill(self.lines.text.len());
        }
        Ok(())
    }
}
