//! The command `report`: what a session came to, written to standard output or to a file; calls nothing.

use std::path::Path;

use anyhow::Context as _;

use crate::cli::args::{ReportArgs, ReportFormat};
use crate::cli::error::{Failure, USAGE};
use crate::cli::output::Output;
use crate::cli::whole_file::write_whole;
use crate::config::{Environment, Places};
use crate::host::{Read, Sessions};
use crate::projection::Report;
use crate::projection::report::{html, markdown};

/// Writes the report of a session. Of a damaged log it tells what can be read, and fails all the same.
pub fn run(typed: &ReportArgs, environment: &Environment, output: Output) -> Result<(), Failure> {
    let read = Sessions::at(&Places::find(environment)?).read(&typed.session)?;
    write(typed, read, output)
}

/// Writes the report of a log that was read.
pub fn write(typed: &ReportArgs, read: Read, output: Output) -> Result<(), Failure> {
    let format = match typed.format {
        Some(format) => format,
        None => format_of(typed.output.as_deref())?,
    };
    let text = render(&read, format)?;
    match &typed.output {
        None => output.answer(&text)?,
        Some(file) => {
            let written = write_whole(file, text.as_bytes());
            let written = written.with_context(|| format!("cannot write `{}`", file.display()));
            written.map_err(|error| Failure::new(USAGE, error))?;
            output.say(&format!("{} written", file.display()));
        }
    }
    Ok(read.whole()?)
}

fn render(read: &Read, format: ReportFormat) -> Result<String, Failure> {
    let report = Report::of(&read.entries);
    let head = Some(read.head.hash.as_str()).filter(|_| read.fault.is_none());
    Ok(match format {
        ReportFormat::Md => markdown::page(&report, head),
        ReportFormat::Html => html::page(&report, head),
        ReportFormat::Json => serde_json::to_string_pretty(&report)? + "\n",
    })
}

/// The form a file's name asks for. One that asks for another than agon writes is not given Markdown instead.
fn format_of(file: Option<&Path>) -> Result<ReportFormat, Failure> {
    const FOREIGN: [&str; 8] = ["pdf", "doc", "docx", "odt", "rtf", "tex", "xml", "csv"];
    let ending = file.and_then(Path::extension).and_then(|ending| ending.to_str());
    match ending.map(str::to_ascii_lowercase).as_deref() {
        Some("html" | "htm") => Ok(ReportFormat::Html),
        Some("json") => Ok(ReportFormat::Json),
        Some(ending) if FOREIGN.contains(&ending) => {
            Err(Failure::usage(format!("a report cannot be written as `.{ending}`"))
                .hint("name the file .md, .html or .json, or say which: --format md"))
        }
        _ => Ok(ReportFormat::Md),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_file_says_the_form() {
        for (name, format) in [
            ("a.html", ReportFormat::Html),
            ("a.htm", ReportFormat::Html),
            ("a.json", ReportFormat::Json),
            ("a.md", ReportFormat::Md),
            ("html", ReportFormat::Md),
        ] {
            assert_eq!(format_of(Some(Path::new(name))).unwrap(), format, "{name}");
        }
        assert_eq!(format_of(None).unwrap(), ReportFormat::Md);
        assert!(format_of(Some(Path::new("a.pdf"))).is_err());
    }
}
