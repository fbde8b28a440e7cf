//! The folds of the session and what events say name every event: a new one is an error of the compiler there.

use super::source::production;
use super::{Source, none_broken, snippet, sources};

/// Where a match over events has an arm for each.
const NAMED: &[&str] = &["src/session/fold", "src/projection/telling"];

/// Each arm's pattern of the match whose body begins behind `open`.
fn patterns(code: &str, open: usize) -> Vec<&str> {
    let (mut depth, mut begun, mut found) = (0usize, Some(open), Vec::new());
    for (at, c) in code[open..].char_indices().map(|(at, c)| (open + at, c)) {
        match c {
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' if depth == 0 => break,
            '}' | ')' | ']' => depth -= 1,
            _ => {}
        }
        match begun {
            Some(from) if depth == 0 && code[at..].starts_with("=>") => {
                found.push(code[from..at].trim().trim_start_matches(',').trim());
                begun = None;
            }
            // A block ends an arm as a comma does.
            None if depth == 0 && (c == ',' || c == '}') => begun = Some(at + 1),
            _ => {}
        }
    }
    found
}

fn is_catch_all(pattern: &str) -> bool {
    let name = pattern.split(" if ").next().unwrap_or_default().trim();
    !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_')
}

fn check_named(file: &Source) -> Vec<String> {
    let code = production(&file.text);
    let matches = code.match_indices("match ").filter_map(|(at, _)| {
        let open = at + code[at..].find('{')? + 1;
        let patterns = patterns(&code, open);
        let is_over_events =
            patterns.iter().any(|one| one.starts_with("E::") || one.starts_with("ArenaEvent::"));
        let other = patterns.iter().copied().find(|one| is_catch_all(one))?;
        is_over_events.then(|| {
            let line = code[..at].matches('\n').count() + 1;
            format!("{}:{line}: `{other} =>` over events", file.path)
        })
    });
    matches.collect()
}

#[test]
fn folds_and_descriptions_name_every_event() {
    let all =
        sources("src").into_iter().filter(|file| NAMED.iter().any(|start| file.path.starts_with(start)));
    none_broken(all.flat_map(|file| check_named(&file)).collect());
}

#[test]
fn arms_for_any_other_event_are_found() {
    for text in [
        "fn f() { match event { E::A(data) => g(data), _ => {} } }",
        "fn f() { match event { ArenaEvent::A(_) => { g() } other => h(other), } }",
        "fn f() { match event { E::A(_) | E::B { .. } => (), rest if rest.is_late() => (), E::C(_) => () } }",
    ] {
        assert_eq!(check_named(&snippet("src/session/fold.rs", text)).len(), 1, "{text}");
    }
    let good = "fn f() { match event { E::A(Some(x)) => match x { 1 => 2, _ => 3 }, E::B { .. } => {} E::C(_) => {} } }";
    assert_eq!(check_named(&snippet("src/session/fold.rs", good)), Vec::<String>::new());
}
