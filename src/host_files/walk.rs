//! Walks a folder by the rules that it holds itself, none from above it or from the user's home.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ignore::{DirEntry, WalkBuilder};

use super::rules::Rules;

/// A walk that leaves out what the rules of `start` and of the folders beneath it say, and what `keep` does not.
/// Hidden names are kept and links are not followed, so that the same content gives the same names everywhere.
pub fn builder(start: &Path, keep: impl Fn(&DirEntry) -> bool + Send + Sync + 'static) -> WalkBuilder {
    let mut builder = WalkBuilder::new(start);
    let way = Mutex::new(Way { start: start.to_owned(), folders: Vec::new() });
    builder.standard_filters(false).follow_links(false).filter_entry(move |found| {
        let is_folder = found.file_type().is_some_and(|kind| kind.is_dir());
        let mut way = way.lock().unwrap_or_else(PoisonError::into_inner);
        keep(found) && !way.ignores(found.path(), is_folder)
    });
    builder
}

/// The folders from the start down to where a walk is, each with the rules that apply in it.
struct Way {
    start: PathBuf,
    folders: Vec<(PathBuf, Arc<Rules>)>,
}

impl Way {
    fn ignores(&mut self, path: &Path, is_folder: bool) -> bool {
        let Some(parent) = path.parent() else { return false };
        self.rules(parent).is_some_and(|rules| rules.ignore(path, is_folder))
    }

    /// The rules in a folder. A walk goes down one folder at a time, so that all above it are known.
    fn rules(&mut self, folder: &Path) -> Option<Arc<Rules>> {
        while self.folders.last().is_some_and(|(last, _)| !folder.starts_with(last)) {
            self.folders.pop();
        }
        let below = match self.folders.last() {
            Some((last, _)) => folder.strip_prefix(last).ok()?,
            None => {
                self.folders.push((self.start.clone(), Rules::within(None, &self.start)));
                folder.strip_prefix(&self.start).ok()?
            }
        };
        for name in below {
            let (last, above) = self.folders.last()?;
            let next = last.join(name);
            let rules = Rules::within(Some(Arc::clone(above)), &next);
            self.folders.push((next, rules));
        }
        self.folders.last().map(|(_, rules)| Arc::clone(rules))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    use rustix::fs::{CWD, FileType, Mode};

    /// Names beneath a folder as a walk of the crate gives them, which agon's is to equal.
    fn names(walk: &WalkBuilder, root: &Path) -> BTreeSet<String> {
        let name = |entry: DirEntry| Some(entry.path().strip_prefix(root).ok()?.to_str()?.to_owned());
        walk.build().flatten().filter_map(name).collect()
    }

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn crates(root: &Path) -> WalkBuilder {
        let mut builder = WalkBuilder::new(root);
        builder.hidden(false).parents(false).git_global(false).require_git(false).follow_links(false);
        builder
    }

    #[test]
    fn the_same_is_left_out_as_by_ripgreps_walk() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for (path, text) in [
            (".gitignore", "\u{feff}*.log\n/build/\n!keep.log\n[broken\nend \r\n"),
            (".ignore", "!a.log\nsecret.txt\n"),
            (".git/info/exclude", "notes\n*.tmp\n"),
            ("deep/.gitignore", "!x.log\n/only-here\nsub/inner\n"),
            ("deep/.ignore", "x.tmp\n"),
            ("deep/sub/.gitignore", "!secret.txt\n*.rs\n"),
            ("nested/.git/info/exclude", "hidden\n"),
            ("nested/.gitignore", "bad\n\u{0}\n"),
            ("binary/.gitignore", "one\n"),
        ] {
            put(root, path, text);
        }
        std::fs::write(root.join("binary/.gitignore"), b"one\n\xff\xfe\ntwo\n").unwrap();
        for folder in ["", "deep/", "deep/sub/", "nested/", "build/", "binary/"] {
            for name in [
                "a.log",
                "x.log",
                "keep.log",
                "end",
                "secret.txt",
                "notes",
                "x.tmp",
                "only-here",
                "inner",
                "m.rs",
                "hidden",
                "one",
                "two",
            ] {
                put(root, &format!("{folder}{name}"), "");
            }
        }
        let (expected, found) = (names(&crates(root), root), names(&builder(root, |_| true), root));
        assert_eq!(found, expected);
        assert!(
            found.contains("a.log") && !found.contains("x.log") && found.contains("deep/x.log"),
            "{found:?}"
        );
        assert!(
            !found.contains("build") && !found.contains("deep/sub/m.rs") && !found.contains("nested/hidden")
        );
    }

    #[test]
    fn a_pipe_in_place_of_rules_is_no_rule_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        put(root, "sub/a.txt", "");
        std::fs::create_dir_all(root.join(".git/info")).unwrap();
        for pipe in
            [".ignore", ".gitignore", ".git/info/exclude", "sub/.ignore", "sub/.gitignore", "sub/.git"]
        {
            rustix::fs::mknodat(CWD, root.join(pipe), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        }
        assert!(names(&builder(root, |_| true), root).contains("sub/a.txt"));
    }

    #[test]
    fn a_work_tree_has_the_exclusions_of_the_repository_it_shares() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        put(root, "main/.git/info/exclude", "left-out\n");
        put(root, "main/.git/worktrees/side/commondir", "../..\n");
        put(root, "side/.git", "gitdir: ../main/.git/worktrees/side\n");
        put(root, "side/left-out", "");
        put(root, "side/kept", "");
        let side = root.join("side");
        let found = names(&builder(&side, |_| true), &side);
        assert!(found.contains("kept") && !found.contains("left-out"), "{found:?}");
    }
}
