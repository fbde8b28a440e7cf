//! Words looked for in what recorded sessions said, did and changed; each finding with its event.

use serde_json::json;

use crate::cli::error::Failure;
use crate::cli::output::Output;
use crate::host::{SessionSummary, Sessions};
use crate::projection::calls::target;
use crate::projection::phrases;
use crate::projection::safe_text::safe_line;
use crate::protocol::message::Part;
use crate::protocol::{ArenaEvent, Entry, EventRef};

use super::short_row;

/// Findings of one session that are shown; all of them are counted.
const SHOWN: usize = 5;

/// Characters around the first word.
const BEFORE: usize = 30;
const ABOUT: usize = 100;

struct Finding {
    at: EventRef,
    kind: String,
    excerpt: String,
}

/// Prints every session with an event that has all words, newest first.
pub(super) fn run(sessions: &Sessions, words: &[String], json: bool, output: Output) -> Result<(), Failure> {
    let words: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
    let (mut rows, mut none) = (Vec::new(), true);
    for row in sessions.list()? {
        let found = in_session(sessions, &row, &words);
        if found.is_empty() {
            continue;
        }
        none = false;
        if json {
            rows.extend(found.into_iter().map(|one| {
                json!({ "session": row.id, "event": one.at.to_string(), "kind": one.kind, "text": one.excerpt })
            }));
            continue;
        }
        let columns = output.columns().unwrap_or(100);
        let mut text = format!("{}\n", short_row(sessions, &row, columns));
        for one in found.iter().take(SHOWN) {
            let line = format!("  {:<7}{:<17}{}", one.at.to_string(), one.kind, one.excerpt);
            text.push_str(&format!("{}\n", super::cut(&safe_line(&line), columns)));
        }
        if found.len() > SHOWN {
            text.push_str(&format!("  and {} more\n", found.len() - SHOWN));
        }
        output.data(&text)?;
    }
    match (json, none) {
        (true, _) => output.json(&rows),
        (false, true) => {
            output.say("no session has these words in one event");
            Ok(())
        }
        (false, false) => {
            output.say("hint: agon replay SESSION --tui shows it; /events there opens an event");
            Ok(())
        }
    }
}

/// Of a damaged log, what is before the damage.
fn in_session(sessions: &Sessions, row: &SessionSummary, words: &[String]) -> Vec<Finding> {
    let mut found = Vec::new();
    // The list itself says what is wrong with a log.
    let _ = sessions.scan(&row.id, &mut |entry: Entry| {
        found.extend(entry.effective().filter_map(|(at, event)| {
            let text = text_of(event)?;
            let excerpt = excerpt(&text, words)?;
            Some(Finding { at, kind: event.kind().to_owned(), excerpt })
        }));
        true
    });
    found
}

/// What an event said, did or changed; none for what is agon's own.
fn text_of(event: &ArenaEvent) -> Option<String> {
    use ArenaEvent as E;
    Some(match event {
        E::PromptGiven(data) => data.text.clone(),
        E::SteeringGiven(data) => data.text.clone(),
        E::ModelAnswered(data) => {
            let part = |part: &Part| match part {
                Part::Text { text } => Some(text.to_string()),
                Part::Call { name, args, .. } => Some(format!("{name} {}", target(args))),
                _ => None,
            };
            data.body.message.iter().filter_map(part).collect::<Vec<_>>().join("\n")
        }
        E::ToolPrepared(_) => event.plan()?.preview.clone(),
        E::ToolResolved(data) => data.body.content.clone(),
        E::BackgroundEnded(data) => data.body.output.clone(),
        E::CheckRan(data) => format!("{}\n{}", data.body.command, data.body.output),
        E::DiffTaken(data) => data.body.diff.clone(),
        _ => return None,
    })
}

/// The words around the first one; none unless all are there.
fn excerpt(text: &str, words: &[String]) -> Option<String> {
    let lower = text.to_lowercase();
    if !words.iter().all(|word| lower.contains(word)) {
        return None;
    }
    let at = lower.find(words.first()?)?;
    // Lower case can be longer or shorter than what it was made from, so places are counted in characters.
    let first = lower.get(..at)?.chars().count().saturating_sub(BEFORE);
    let cut: String = text.chars().skip(first).take(ABOUT).collect();
    let before = if first > 0 { "\u{2026}" } else { "" };
    Some(format!("{before}{}", phrases::start(&cut, ABOUT)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_words_are_found_whatever_their_case_and_shown_with_what_is_around() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let text = format!("{} the Octal digits\nof a NUMBER", "x ".repeat(40));
        let found = excerpt(&text, &words(&["octal", "number"])).unwrap();
        assert!(found.starts_with('\u{2026}') && found.ends_with("the Octal digits of a NUMBER"), "{found}");
        assert_eq!(excerpt(&text, &words(&["octal", "word"])), None);
        assert_eq!(excerpt("short", &words(&["short"])).as_deref(), Some("short"));
    }
}
