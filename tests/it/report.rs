//! Tests of reports: what the fold finds, what the writers write, and that nothing of others breaks out.

mod log;

use agon::projection::Report;
use agon::projection::report::{html, markdown, plain};
use log::Story;

#[test]
fn scratch() {
    let report = Report::of(&log::debate(&Story::of_queue()));
    std::fs::write("/tmp/report/a.html", html::page(&report, Some("hEaD"))).unwrap();
    std::fs::write("/tmp/report/a.md", markdown::page(&report, Some("hEaD"))).unwrap();
    std::fs::write("/tmp/report/a.txt", plain::page(&report)).unwrap();
    std::fs::write("/tmp/report/a.json", serde_json::to_string_pretty(&report).unwrap()).unwrap();
    let report = Report::of(&log::debate(&Story::hostile()));
    std::fs::write("/tmp/report/h.html", html::page(&report, Some("hEaD"))).unwrap();
    std::fs::write("/tmp/report/h.md", markdown::page(&report, Some("hEaD"))).unwrap();
}
