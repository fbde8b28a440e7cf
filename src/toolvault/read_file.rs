//! The tool `read_file`: numbered lines of a text file, of any size as long as the range is small.

use std::fs::File;
use std::io::Read;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::instructions;
use super::list_dir::looking;
use super::picture;
use super::tool::{arguments, spec};
use super::write_file::words;
use crate::ports::{EndPart, Preparation, Sandbox, Tool, ToolEnd};
use crate::protocol::effect::ToolCall;
use crate::protocol::event::{PathBase, ToolStatus};
use crate::protocol::expand::hex;
use crate::protocol::spec::{DeniedPaths, Risk, ToolSpec};
use crate::protocol::text::name_shown;

/// Largest file that is shown without a range.
const WHOLE_MAX: u64 = 1024 * 1024;
/// Largest file that is read to its end for its digest; a larger one counts as not seen.
const DIGEST_MAX: u64 = 256 * 1024 * 1024;
/// Bytes of a line that are shown.
const LINE_SHOWN: usize = 2_000;
/// Where a NUL byte makes a file binary.
const BINARY_WITHIN: usize = 8 * 1024;
/// Room left beneath the output cap for the line that says where reading stopped.
const ROOM: usize = 512;

/// Reads a file.
pub struct ReadFile;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Path of the file, relative to the workspace.
    path: String,
    /// First line to show, from 1.
    #[schemars(range(min = 1))]
    start_line: Option<u64>,
    /// Last line to show.
    #[schemars(range(min = 1))]
    end_line: Option<u64>,
}

impl Arguments {
    fn range(&self) -> Result<(u64, u64), String> {
        let (first, last) = (self.start_line.unwrap_or(1), self.end_line.unwrap_or(u64::MAX));
        match first <= last {
            true => Ok((first, last)),
            false => Err(format!("`start_line` {first} is after `end_line` {last}")),
        }
    }
}

#[async_trait]
impl Tool for ReadFile {
    fn spec(&self) -> ToolSpec {
        spec::<Arguments>(
            "read_file",
            "Reads a text file, or a range of its lines, with line numbers. Long output stops at a whole line and \
             says where to go on; pictures are shown, other binary files only described.",
            Risk::Read,
        )
    }

    async fn prepare(&self, call: &ToolCall, sandbox: &dyn Sandbox) -> Result<Preparation, String> {
        let args: Arguments = arguments(&call.args)?;
        args.range()?;
        let path = sandbox.files().canonical(&args.path).map_err(words)?;
        let (cap, seen, denied) =
            (call.output_cap as usize, call.bases.clone(), DeniedPaths::new(&call.denied));
        Ok(looking("read", path, move |files, path, cancel| {
            let file = files.open(&path).map_err(words)?;
            let mut end = lines(file, path.clone(), (args.start_line, args.end_line), cap, cancel)?;
            if end.status == ToolStatus::Ok {
                instructions::add(&mut end, files, &path, (&seen, &denied));
            }
            Ok(end)
        }))
    }
}

/// Numbered lines of an open file: from the first to the last that is named, within the cap.
pub fn lines(
    mut file: File,
    path: String,
    (start, end): (Option<u64>, Option<u64>),
    cap: usize,
    cancel: &CancellationToken,
) -> Result<ToolEnd, String> {
    let failed = |error: std::io::Error| format!("`{path}`: {error}");
    let bytes = file.metadata().map_err(failed)?.len();
    let (first, last) = (start.unwrap_or(1), end.unwrap_or(u64::MAX));
    let mut block = vec![0; 64 * 1024];
    let mut n = fill(&mut file, &mut block).map_err(failed)?;
    let head = block[..n.min(BINARY_WITHIN)].to_vec();
    let binary = head.contains(&0);
    if !binary && bytes > WHOLE_MAX && start.is_none() && end.is_none() {
        return Err(format!(
            "`{path}` has {bytes} bytes, too many to read whole; give start_line and end_line, or use grep to find the lines"
        ));
    }
    let (mut hasher, mut lines) = (Sha256::new(), Lines::new(first, last, cap.saturating_sub(ROOM)));
    while n > 0 {
        if cancel.is_cancelled() {
            let words = format!("reading `{path}` was cancelled");
            return Ok(ToolEnd { status: ToolStatus::Cancelled, ..ToolEnd::failed(words) });
        }
        if bytes <= DIGEST_MAX {
            hasher.update(&block[..n]);
        } else if binary || lines.is_done() {
            break;
        }
        if !binary {
            lines.push(&block[..n]);
        }
        n = fill(&mut file, &mut block).map_err(failed)?;
    }
    let mut end = match binary {
        true => binary_end(&mut file, &path, &head),
        false => lines.finish(&path),
    };
    if bytes <= DIGEST_MAX {
        end.seen.push(PathBase { path, sha256: Some(hex(&hasher.finalize())) });
    }
    Ok(end)
}

/// A picture is shown; of anything else it is said what it is.
fn binary_end(file: &mut File, path: &str, head: &[u8]) -> ToolEnd {
    if picture::mime(head).is_some() {
        return match picture::bytes_of(file) {
            Ok(data) => {
                let part = EndPart::Image { data, words: name_shown(path).into_owned() };
                ToolEnd { parts: vec![part], ..ToolEnd::ok(format!("`{path}` is a picture")) }
            }
            Err(why) => ToolEnd::ok(format!("`{path}` is a picture that is not shown: {why}")),
        };
    }
    let bytes = file.metadata().map_or(0, |about| about.len());
    ToolEnd::ok(format!("`{path}` is binary ({}, {bytes} bytes); its bytes are not shown", kind(head)))
}

/// Reads until the block is full or the file ends.
fn fill(file: &mut File, block: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < block.len() {
        match file.read(&mut block[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// What the first bytes say a binary file is.
fn kind(bytes: &[u8]) -> &'static str {
    const KINDS: [(&[u8], &str); 9] = [
        (b"%PDF", "PDF document"),
        (b"\x7fELF", "ELF program"),
        (b"\xcf\xfa\xed\xfe", "Mach-O program"),
        (b"PK\x03\x04", "ZIP archive"),
        (b"\x1f\x8b", "gzip archive"),
        (b"\0asm", "WebAssembly module"),
        (b"SQLite format 3", "SQLite database"),
        (b"\xff\xfe", "UTF-16 text"),
        (b"\xfe\xff", "UTF-16 text"),
    ];
    KINDS.iter().find(|(magic, _)| bytes.starts_with(magic)).map_or("unknown kind", |(_, name)| name)
}

/// Collects numbered lines of a range from blocks of bytes, within a cap.
struct Lines {
    first: u64,
    last: u64,
    cap: usize,
    text: String,
    /// Number of the line that is being read.
    number: u64,
    line: Vec<u8>,
    line_bytes: u64,
    stopped: Option<u64>,
}

impl Lines {
    fn new(first: u64, last: u64, cap: usize) -> Self {
        let line = Vec::new();
        Lines { first, last, cap, text: String::new(), number: 1, line, line_bytes: 0, stopped: None }
    }

    /// True when nothing that follows can be shown.
    fn is_done(&self) -> bool {
        self.stopped.is_some() || self.number > self.last
    }

    fn push(&mut self, block: &[u8]) {
        for piece in block.split_inclusive(|byte| *byte == b'\n') {
            if (self.first..=self.last).contains(&self.number) {
                // With room for the line's end, which is not shown and does not count.
                let room = (LINE_SHOWN + 2).saturating_sub(self.line.len());
                self.line.extend_from_slice(&piece[..piece.len().min(room)]);
            }
            self.line_bytes += piece.len() as u64;
            if piece.ends_with(b"\n") {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        if (self.first..=self.last).contains(&self.number) && self.stopped.is_none() {
            let text = String::from_utf8_lossy(&self.line);
            let text = text.trim_end_matches(['\n', '\r']);
            let mut shown = format!("{:>6}\t{}", self.number, &text[..text.floor_char_boundary(LINE_SHOWN)]);
            if text.len() > LINE_SHOWN || self.line_bytes > self.line.len() as u64 {
                shown += &format!(" [… line of {} bytes, the rest is not shown]", self.line_bytes);
            }
            shown.push('\n');
            // The first line is always shown, so that reading on makes progress.
            match self.text.is_empty() || self.text.len() + shown.len() <= self.cap {
                true => self.text += &shown,
                false => self.stopped = Some(self.number),
            }
        }
        self.line.clear();
        self.line_bytes = 0;
        self.number += 1;
    }

    fn finish(mut self, path: &str) -> ToolEnd {
        if self.line_bytes > 0 {
            self.end_line();
        }
        let total = self.number - 1;
        if let Some(next) = self.stopped {
            let words = format!("(stopped before line {next}; continue with start_line {next})\n");
            return ToolEnd::ok(self.text + &words);
        }
        match (self.text.is_empty(), total) {
            (false, _) => ToolEnd::ok(self.text),
            (true, 0) if self.first == 1 => ToolEnd::ok(format!("`{path}` is empty")),
            (true, _) => {
                ToolEnd::failed(format!("`{path}` has {total} lines; there is no line {}", self.first))
            }
        }
    }
}
