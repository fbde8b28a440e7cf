//! Refuses words of a private English in what a person or a model reads: help, errors, screens, personas, schemas, pages.

use super::source::strings;
use super::{Source, files, none_broken, package, snippet, sources};

/// Each with a space or nothing else at either side; the docs name what to say instead.
const REFUSED: &[&str] = &[
    "told",
    "whoever",
    "beneath",
    "anew",
    "to be had",
    "taken up",
    "gone on with",
    "mend",
    "mends",
    "mended",
    "mending",
    "stands in",
    "stands beside",
    "borne out",
];

/// The refused words of `text`, as whole words.
fn refused(text: &str) -> Vec<&'static str> {
    // A name in code is one word, whatever it is made of.
    let of_a_word = |c: char| c.is_alphanumeric() || c == '_';
    let only_words: String =
        text.chars().map(|c| if of_a_word(c) { c.to_ascii_lowercase() } else { ' ' }).collect();
    let spaced = format!(" {} ", only_words.split_whitespace().collect::<Vec<_>>().join(" "));
    REFUSED.iter().copied().filter(|word| spaced.contains(&format!(" {word} "))).collect()
}

/// Literals of a source; where options are declared their comments are the help.
fn check_source(file: &Source) -> Vec<String> {
    let production = file.text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let mut texts = strings(production);
    if file.path.starts_with("src/cli/args") {
        let comments = production.lines().enumerate().filter(|(_, line)| line.trim().starts_with("///"));
        texts.extend(comments.map(|(at, line)| (at + 1, line.to_owned())));
    }
    broken(&file.path, texts)
}

fn broken(path: &str, texts: Vec<(usize, String)>) -> Vec<String> {
    let words = texts.into_iter().flat_map(|(line, text)| refused(&text).into_iter().map(move |w| (line, w)));
    words.map(|(line, word)| format!("{path}:{line}: says `{word}`")).collect()
}

#[test]
fn what_people_and_models_read_is_plain_english() {
    let mut found: Vec<String> = sources("src").iter().flat_map(check_source).collect();
    let pages = files(&package().join("docs")).into_iter().chain(["README.md".to_owned()]);
    let rest = ["src", "personas"].into_iter().flat_map(|folder| files(&package().join(folder)));
    for path in rest.chain(pages) {
        if [".md", ".toml", ".json"].iter().any(|ending| path.ends_with(ending)) {
            let text = std::fs::read_to_string(package().join(&path)).unwrap();
            let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.to_owned())).collect();
            found.extend(broken(&path, lines));
        }
    }
    none_broken(found);
}

#[test]
fn refused_words_are_found() {
    for text in [
        "fn f() -> &'static str { \"This is not to be had.\" }",
        "fn f() -> &'static str {\n    \"The session was \\\n     gone on with.\"\n}",
        "const A: &str = r#\"Told by \"nobody\".\"#;",
    ] {
        assert_eq!(check_source(&snippet("src/tui/tea.rs", text)).len(), 1, "{text}");
    }
    let help = "/// Mend it.\nstruct A;";
    assert_eq!(check_source(&snippet("src/cli/args/tea.rs", help)).len(), 1);
    let silent = "/// Mend it.\nfn told() {} // told\n#[cfg(test)]\nmod tests { const A: &str = \"told\"; }";
    assert_eq!(check_source(&snippet("src/tui/tea.rs", silent)), Vec::<String>::new());
}
