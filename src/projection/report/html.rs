//! Writes a report as one HTML file that needs nothing else: no script, no font, no picture, no connection.

mod debate;
mod figures;
mod log;
pub mod markup;
mod session;

use markup::Markup;

use super::{Report, wording};
use crate::projection::phrases;

const STYLE: &str = include_str!("html/style.css");

/// The longest part of a question that serves as a title.
const TITLE: usize = 90;

/// The whole page. `head` is where the log's chain ends, if the caller knows.
pub fn page(report: &Report, head: Option<&str>) -> String {
    let mut page = Markup::default();
    page.raw("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    // Nothing may be loaded or run, whatever a model has written.
    page.raw("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n");
    page.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    page.raw("<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n<title>");
    page.line(&title(report))
        .raw(" \u{2014} agon</title>\n<style>\n")
        .raw(STYLE)
        .raw("</style>\n</head>\n<body>\n<main>\n");
    for debate in &report.debates {
        debate::section(&mut page, report, debate);
    }
    session::sections(&mut page, report);
    log::section(&mut page, &report.excerpts);
    colophon(&mut page, report, head);
    page.raw("</main>\n</body>\n</html>\n");
    page.finish()
}

fn title(report: &Report) -> String {
    let question = report.debate().map(|debate| debate.question.as_str());
    let prompt = report.session.turns.last().map(|turn| turn.prompt.as_str());
    let text = question.or(prompt).unwrap_or("a session without a task");
    phrases::start(text, TITLE)
}

/// A heading over what follows; the whole text stands below when it is too long to be one.
fn heading(page: &mut Markup, text: &str) {
    const MOST: usize = 240;
    let shortened = phrases::start(text, MOST);
    page.raw(if shortened.chars().count() > TITLE { "<h1 class=\"long\">" } else { "<h1>" });
    page.line(&shortened).raw("</h1>");
    if shortened.ends_with('\u{2026}') || text.trim().contains('\n') {
        page.raw("<details class=\"whole\"><summary>the whole text</summary><div class=\"prose\">");
        page.prose(text).raw("</div></details>");
    }
}

/// What the only turn of a session cost; of many turns only the sum is known, which the table of costs has.
fn price(page: &mut Markup, report: &Report) {
    if report.session.turns.len() == 1 {
        page.raw("<span>").text(&wording::money(&report.session.total)).raw("</span>");
    }
}

fn colophon(page: &mut Markup, report: &Report, head: Option<&str>) {
    let session = &report.session;
    page.raw("<footer><p>Made from the log of session <code>").line(&session.id).raw("</code>");
    page.raw(", ").text(&phrases::counted(session.entries, "entry"));
    page.raw(", by ").line(&session.program);
    if session.sandbox.is_some() {
        page.raw(", sandbox ").line(&session.confined());
    }
    for words in &session.answered {
        page.raw(", ").line(words);
    }
    page.raw(". ");
    if let Some((parent, seq)) = &session.parent {
        page.raw("It was forked from <code>").line(parent).raw("</code> after entry ");
        page.text(&seq.to_string()).raw(". ");
    }
    if session.unknown_events > 0 {
        page.text(&phrases::counted(session.unknown_events, "event"));
        page.raw(" of kinds this program does not know are missing here. ");
    }
    if let Some(head) = head {
        page.raw("The chain ends at <code>").line(head).raw("</code>; ");
        page.raw("<code>agon verify</code> checks that the same facts give the same decisions.");
    }
    page.raw("</p><p>").text(&wording::when(session.opened_at)).raw(" to ");
    page.text(&wording::when(session.last_at)).raw(" UTC</p></footer>\n");
}
