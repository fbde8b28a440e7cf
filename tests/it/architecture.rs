//! Holds ARCHITECTURE.md against the sources: every module has an invariant, and the tests it names exist.

use std::collections::BTreeSet;

use crate::house::{FLOORS, files, package, sources};

/// The invariants of the page: module, tests that hold it.
fn invariants(page: &str) -> Vec<(String, BTreeSet<String>)> {
    let table = page.split("| held by |").nth(1).unwrap_or_default();
    let rows = table.lines().skip(2).map_while(|row| row.strip_prefix("| `"));
    rows.filter_map(|row| {
        let (module, rest) = row.split_once("` |")?;
        let (_, held) = rest.trim_end_matches([' ', '|']).rsplit_once(" | ")?;
        Some((module.to_owned(), held.split('`').skip(1).step_by(2).map(str::to_owned).collect()))
    })
    .collect()
}

fn page() -> String {
    std::fs::read_to_string(package().join("ARCHITECTURE.md")).unwrap()
}

#[test]
fn every_module_has_an_invariant_and_a_row() {
    let page = page();
    assert!(page.lines().count() <= 300, "{} lines", page.lines().count());
    let named: BTreeSet<String> = invariants(&page).into_iter().map(|(module, _)| module).collect();
    for (module, floor) in FLOORS {
        let exists = package().join(format!("src/{module}.rs")).exists();
        let row = page.contains(&format!("| {floor} | `{module}` |"));
        assert_eq!(named.contains(*module), exists, "an invariant for `{module}`");
        assert_eq!(row, exists, "a row for `{module}` on floor {floor}");
    }
}

#[test]
fn the_tests_that_hold_an_invariant_exist() {
    let all: String = sources("tests").iter().chain(&sources("src")).map(|file| file.text.clone()).collect();
    for (module, tests) in invariants(&page()) {
        assert!(!tests.is_empty(), "the invariant of `{module}` is held by no test");
        for test in tests {
            assert!(all.contains(&format!("fn {test}(")), "`{test}`, which holds `{module}`, does not exist");
        }
    }
}

#[test]
fn invariants_are_read() {
    let page =
        "| module | invariant | held by |\n|---|---|---|\n| `a` | b `c` | `d`, `e` |\n\n| `f` | g | `h` |";
    let found = invariants(page);
    assert_eq!(found, [("a".to_owned(), BTreeSet::from(["d".to_owned(), "e".to_owned()]))]);
}

/// What `docs/security.md` names as tried: tests, and rows of the doctor.
#[test]
fn what_the_page_on_security_says_is_tried_is_tried() {
    let page = std::fs::read_to_string(package().join("docs/security.md")).unwrap();
    assert!(page.lines().count() <= 200, "{} lines", page.lines().count());
    let all: String = sources("tests").iter().chain(&sources("src")).map(|file| file.text.clone()).collect();
    let acts: BTreeSet<&str> = agon::sandbox::proof::ACTS.iter().map(|act| act.id).collect();
    let named: BTreeSet<&str> =
        page.split('`').skip(1).step_by(2).filter(|name| name.matches('_').count() > 2).collect();
    let is_test = |name: &&str| all.contains(&format!("fn {name}("));
    let missing: Vec<_> = named.iter().filter(|name| !is_test(name)).collect();
    assert!(missing.is_empty() && named.len() > 40, "{} named, missing: {missing:?}", named.len());
    let rows = page.split("doctor:").skip(1).filter_map(|rest| rest.split(['|', ';']).next());
    let rows: BTreeSet<&str> = rows.flat_map(|rest| rest.split('`').skip(1).step_by(2)).collect();
    assert_eq!(rows, acts, "each row of `agon doctor --sandbox` proves a promise");
}

/// The README's table of what one log gives says which test holds each row.
#[test]
fn what_the_readme_promises_is_held_by_tests() {
    let page = std::fs::read_to_string(package().join("README.md")).unwrap();
    assert!(page.lines().count() <= 150, "{} lines", page.lines().count());
    let all: String = sources("tests").iter().map(|file| file.text.clone()).collect();
    let rows =
        page.split("| held by |").nth(1).unwrap().lines().skip(2).take_while(|line| line.starts_with('|'));
    let tests: Vec<_> = rows.map(|row| row.rsplit('`').nth(1).unwrap()).collect();
    assert!(tests.len() > 5, "{tests:?}");
    for test in tests {
        assert!(all.contains(&format!("fn {test}(")), "`{test}` does not exist");
    }
}

/// Where the relative links of a page lead, from the page's own folder.
fn links(page: &str) -> Vec<String> {
    let targets = page.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let local = targets.filter(|target| !target.contains("://") && !target.starts_with('#'));
    local.map(|target| target.split('#').next().unwrap_or(target).to_owned()).collect()
}

#[test]
fn links_lead_somewhere() {
    let mut broken = Vec::new();
    for page in files(&package()).into_iter().filter(|path| path.ends_with(".md")) {
        let text = std::fs::read_to_string(package().join(&page)).unwrap();
        let folder = package().join(&page).parent().unwrap().to_owned();
        let dead = links(&text).into_iter().filter(|target| !folder.join(target).exists());
        broken.extend(dead.map(|target| format!("{page}: {target}")));
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}

#[test]
fn links_are_read() {
    let page = "[a](docs/a.md) and [b](https://b) and ![c](c.png#d), [e](#e)";
    assert_eq!(links(page), ["docs/a.md", "c.png"]);
}
