//! Which folders outside the system's may be shown to a command: no home, nothing of agon's own, and of a home only
//! what holds programs.

use std::fs;
use std::path::{Path, PathBuf};

use super::tools;
use crate::host_files::real;

/// Folders of a home that hold keys or a person's settings, whatever else is in them.
const CLOSED: &[&str] = &[
    ".aws",
    ".azure",
    ".config",
    ".docker",
    ".gnupg",
    ".kube",
    ".mozilla",
    ".netrc",
    ".password-store",
    ".pki",
    ".ssh",
    ".thunderbird",
    "Library",
];

/// The homes of this machine and agon's own folders, real paths.
#[derive(Clone, Debug, Default)]
pub struct HomeLayout {
    homes: Vec<PathBuf>,
    own: Vec<PathBuf>,
}

impl HomeLayout {
    /// The caller's home, those of the machine's people, and agon's own folders.
    pub fn of(home: Option<&Path>, own: &[PathBuf]) -> Self {
        let table = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let people = table.lines().filter_map(|line| {
            let mut fields = line.split(':').skip(2);
            let (uid, home) = (fields.next()?.parse::<u32>().ok()?, fields.nth(2)?);
            (uid == 0 || uid >= 1000).then(|| PathBuf::from(home))
        });
        let homes = home.map(Path::to_owned).into_iter().chain(people);
        let homes = homes.filter(|home| home.parent().is_some() && home.is_dir());
        HomeLayout {
            homes: homes.map(|home| real(&home)).collect(),
            own: own.iter().map(|own| real(own)).collect(),
        }
    }

    /// Whether a folder may be shown.
    pub fn may_show(&self, folder: &Path) -> bool {
        self.may(folder, is_of_tools)
    }

    /// Whether the parts of a tool's folder may be shown that a variable names: it may have any name that is not closed.
    pub fn may_hold_tools(&self, folder: &Path, workspace: &Path) -> bool {
        let is_apart = !workspace.starts_with(folder) && !folder.starts_with(workspace);
        let is_folder = folder.is_absolute() && folder.is_dir() && folder.parent().is_some();
        is_apart && is_folder && self.may(folder, |beneath| !is_closed(beneath))
    }

    fn may(&self, folder: &Path, beneath_a_home: fn(&Path) -> bool) -> bool {
        let folder = &real(folder);
        let is_home = folder.parent().is_some_and(|parent| parent == Path::new("/home"));
        let holds = |other: &PathBuf| other.starts_with(folder);
        if is_home || self.homes.iter().any(holds) {
            return false;
        }
        if self.own.iter().any(|own| own.starts_with(folder) || folder.starts_with(own)) {
            return false;
        }
        self.homes.iter().filter_map(|home| folder.strip_prefix(home).ok()).all(beneath_a_home)
    }
}

fn is_closed(beneath: &Path) -> bool {
    beneath.components().next().is_some_and(|first| CLOSED.iter().any(|closed| first.as_os_str() == *closed))
}

/// Whether a folder beneath a home holds programs and what they need, as far as its path tells.
fn is_of_tools(beneath: &Path) -> bool {
    let is_hidden = beneath.as_os_str().as_encoded_bytes().starts_with(b".");
    let is_bin = beneath.file_name().is_some_and(|name| name == "bin" || name == "shims");
    !is_closed(beneath) && (tools::shows(beneath) || is_bin || !is_hidden)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes_and_agons_own_folders_are_never_shown_and_tools_of_a_home_are() {
        let folder = tempfile::tempdir().unwrap();
        let base = &fs::canonicalize(folder.path()).unwrap();
        for name in ["home/.config/gh", "home/.cargo/bin", "home/.foo/bin", "home/tools", "own/sessions"] {
            fs::create_dir_all(base.join(name)).unwrap();
        }
        let homes = HomeLayout { homes: vec![base.join("home")], own: vec![base.join("own")] };
        for name in [
            "",
            "home",
            "home/.config",
            "home/.config/gh",
            "home/.ssh",
            "own",
            "own/sessions",
            "home/.foo",
            "home/.cargo",
        ] {
            assert!(!homes.may_show(&base.join(name)), "{name}");
        }
        std::os::unix::fs::symlink(base.join("own"), base.join("home/link")).unwrap();
        assert!(!homes.may_show(&base.join("home/link")), "a link to it is it");
        for name in ["home/.cargo/bin", "home/.foo/bin", "home/tools", "elsewhere"] {
            assert!(homes.may_show(&base.join(name)), "{name}");
        }
    }
}
