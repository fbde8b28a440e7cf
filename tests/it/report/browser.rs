//! The page in a real browser: it loads without a complaint, its parts are there, and nothing of others runs.

use std::path::Path;
use std::process::{Command, Stdio};

use super::log::Story;
use super::report;
use agon::projection::report::html;

/// The document as the browser has it after loading, and what it said meanwhile; none without a browser.
fn load(page: &str) -> Option<(String, String)> {
    let Some(browser) = ["chromium", "chromium-browser"].into_iter().find(|name| is_there(name)) else {
        println!("skipped: chromium is not installed (on Debian: apt-get install chromium)");
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    std::fs::write(&file, page).unwrap();
    let output = Command::new(browser)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--no-first-run", "--disable-background-networking", "--proxy-server=127.0.0.1:1"])
        .args(["--enable-logging=stderr", "--log-level=0", "--timeout=20000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("file://{}", file.display()))
        .env("HOME", folder.path())
        .env_remove("DBUS_SESSION_BUS_ADDRESS")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    Some((String::from_utf8(output.stdout).unwrap(), said))
}

fn is_there(name: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|folder| Path::new(&folder).join(name).is_file())
}

fn complaints(said: &str) -> Vec<&str> {
    said.lines().filter(|line| line.contains(":CONSOLE")).collect()
}

#[test]
fn the_parts_are_there_and_nothing_is_complained_about() {
    let Some((document, said)) = load(&html::page(&report(&Story::of_queue()), Some("hEaD"))) else { return };
    assert_eq!(complaints(&said), [""; 0]);
    for part in ["verdict", "talk", "propositions", "absences", "moves", "positions", "convergence", "matrix"]
    {
        assert_eq!(document.matches(&format!(" id=\"{part}\"")).count(), 1, "{part}");
    }
    for part in ["minority", "risks", "ballots", "costs", "log", "e22"] {
        assert_eq!(document.matches(&format!(" id=\"{part}\"")).count(), 1, "{part}");
    }
    assert_eq!(document.matches("class=\"bars\"").count(), 23, "six personas, four phases, one absence");
    assert_eq!(document.matches("class=\"ring\"").count(), 4);
    assert_eq!(document.matches("<polyline").count(), 3);
    assert!(document.contains("A plain vote would have said otherwise on P2."));
}

/// Every link of a page leads to one place on it.
fn dead_links(document: &str) -> Vec<String> {
    let targets = document.match_indices(" href=\"").map(|(at, _)| &document[at + 7..]);
    let targets = targets.filter_map(|rest| rest.split('"').next()).map(str::to_owned);
    let leads = |target: &String| {
        let id = target.strip_prefix('#').map(|id| format!(" id=\"{id}\""));
        id.is_some_and(|id| document.matches(&id).count() == 1)
    };
    targets.filter(|target| !leads(target)).collect()
}

#[test]
fn the_recorded_debate_is_whole_in_a_browser() {
    let report = agon::projection::Report::of(&crate::debate::golden::demo());
    let Some((document, said)) = load(&html::page(&report, None)) else { return };
    assert_eq!(complaints(&said), [""; 0]);
    let parts = ["verdict", "talk", "propositions", "moves", "positions", "convergence", "matrix"];
    for part in parts.iter().chain(&["minority", "risks", "ballots", "costs", "log"]) {
        assert_eq!(document.matches(&format!(" id=\"{part}\"")).count(), 1, "{part}");
    }
    assert_eq!(document.matches("class=\"bars\"").count(), 24, "six personas, four phases");
    assert_eq!(document.matches("class=\"ring\"").count(), 5, "a ring for each flip");
    assert_eq!(document.matches("class=\"point\"").count(), 4, "a probe for each phase");
    assert!(document.matches(" href=\"#e").count() > 20);
    assert_eq!(dead_links(&document), [""; 0]);
    for word in ["http:", "https:", " src=", "url(", "@import", "<link", "<script"] {
        assert!(!document.contains(word), "{word}");
    }
    let costs = &document[document.find(" id=\"costs\"").unwrap()..];
    for persona in super::log::PERSONAS {
        assert!(costs.contains(persona), "the cost of {persona}");
    }
}

#[test]
fn hostile_texts_are_only_text_to_a_browser() {
    let Some((document, said)) = load(&html::page(&report(&Story::hostile()), Some("hEaD"))) else { return };
    assert_eq!(complaints(&said), [""; 0]);
    for tag in ["<script", "<img", "onerror=\"", "onload=\""] {
        assert!(!document.contains(tag), "{tag}");
    }
    assert_eq!(document.matches("<style>").count(), 1);
    assert!(document.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    assert_eq!(document.matches("class=\"bars\"").count(), 23);
}

#[test]
fn the_browser_test_can_fail() {
    let broken = "<!doctype html><title>x</title><script>console.error('seen')</script>";
    let Some((document, said)) = load(broken) else { return };
    assert!(document.contains("<script>"));
    assert_eq!(complaints(&said).len(), 1, "{said}");
}
