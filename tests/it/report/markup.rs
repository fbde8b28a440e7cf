//! The page as a text: one file, no reference out of it, and the same tags whatever the texts are.

use super::log::Story;
use super::report;
use agon::projection::report::{html, markdown};

fn page(story: &Story) -> String {
    html::page(&report(story), Some("hEaD"))
}

/// The tags of a page as they are written; a `<` that begins none fails.
fn tags(page: &str) -> Vec<String> {
    let body = &page[page.find("</style>").unwrap()..];
    let mut tags = Vec::new();
    for piece in body.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').unwrap_or_else(|| panic!("`<{piece}` is no tag"));
        assert!(tag.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/'), "<{tag}>");
        assert!(!text.contains('>'), "{text}");
        tags.push(tag.to_owned());
    }
    tags
}

/// A tag without the values of its attributes. A value holds no quote, so splitting at quotes is enough.
fn shape(tag: &str) -> String {
    tag.split('"').step_by(2).collect::<Vec<_>>().join("…")
}

#[test]
fn the_page_refers_to_nothing_outside_itself() {
    let page = page(&Story::of_queue());
    for word in [
        "http:", "https:", "//", " src=", "url(", "@import", "<link", "<script", "<iframe", "<img", "<object",
    ] {
        let found = page.find(word).map(|at| &page[at..at + 60]);
        assert_eq!(found, None, "{word}");
    }
    assert!(page.contains("default-src 'none'"));
    assert!(page.contains("prefers-color-scheme: dark") && page.contains("@media print"));
}

#[test]
fn hostile_texts_leave_the_tags_as_they_are() {
    let tame = Story {
        question: "q".into(),
        propositions: vec!["p".into(); 3],
        positions: vec!["s".into(); 6],
        condition: "c".into(),
        because: "b".into(),
        answer: "a".into(),
        evidence: "e".into(),
    };
    let hostile = page(&Story::hostile());
    let shapes = |page: &str| -> Vec<String> {
        let tags = tags(page).into_iter().map(|tag| shape(&tag)).collect::<Vec<_>>().join("\n");
        // A long question is set smaller, and its rest stands below: that is layout, not content.
        tags.split('\n').map(str::to_owned).collect()
    };
    let is_layout = |tag: &String| {
        [
            "h1", "details", "summary", "/details", "/summary", "div", "/div", "p", "/p", "code", "/code",
            // Where a link led is said in small words.
            "small", "/small",
        ]
        .iter()
        .any(|name| tag == name || tag.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')))
    };
    let without_layout =
        |page: &str| shapes(page).into_iter().filter(|tag| !is_layout(tag)).collect::<Vec<_>>();
    assert_eq!(without_layout(&hostile), without_layout(&page(&tame)));
    for tag in tags(&hostile) {
        for piece in shape(&tag).split(' ').skip(1) {
            assert!(
                !piece.starts_with("on") && !piece.starts_with("src") && !piece.starts_with("style"),
                "<{tag}>"
            );
        }
        if let Some((_, href)) = tag.split_once("href=\"") {
            assert!(href.starts_with("#e"), "<{tag}>");
        }
    }
    assert!(hostile.contains("&lt;U+202E&gt;") && !hostile.contains('\u{202E}'));
    assert!(!hostile.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
}

#[test]
fn hostile_texts_stay_text_in_markdown() {
    let page = markdown::page(&report(&Story::hostile()), None);
    // What stands between fences is text as it is; no text has a line that could end one.
    let text: String = page.split("```").step_by(2).collect();
    assert!(page.matches("\n```text\n").count() > 10 && page.matches("```").count().is_multiple_of(2));
    let mut previous = ' ';
    for (at, c) in text.char_indices() {
        if c == '<' && previous != '\\' {
            let ours = ["<a id=\"e", "</a>", "<details><summary>", "<summary>", "</summary>", "</details>"]
                .iter()
                .any(|tag| text[at..].starts_with(tag));
            // Within backticks it is text as it is.
            let line = &text[text[..at].rfind('\n').map_or(0, |at| at + 1)..at];
            assert!(ours || line.matches('`').count() % 2 == 1, "{}", &text[at..at + 40]);
        }
        previous = c;
    }
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'));
    assert!(!text.replace("\\]", "").contains("](javascript:"));
}
