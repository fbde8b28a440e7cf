//! Folders that are no workspace unless a person says so: homes, and what belongs to the system.

use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::config::file::WorkspaceTable;
use crate::host_files::real;
use crate::protocol::spec::{Action, Risk, Rule};

/// Folders of the system that hold no projects.
const SYSTEM: &str = "/proc /sys /dev /boot /bin /sbin /lib /lib32 /lib64 /libx32 /usr/bin /usr/sbin /usr/lib \
                      /usr/lib32 /usr/lib64 /usr/libx32 /usr/libexec /usr/local/bin /usr/local/sbin /usr/local/lib";
/// Folders of the system that may hold projects further down.
const ABOVE: [&str; 3] = ["/run", "/var", "/usr/local"];
/// Folders whose children are homes.
const HOMES: [&str; 2] = ["/home", "/Users"];

impl Config {
    /// Why a folder is no workspace without a question; none for any other, where a person said so, and where no yes
    /// would help, because it holds agon's own files.
    pub fn wide(&self, root: &Path) -> Option<&'static str> {
        let root = &real(root);
        let allowed = self.file.workspace.iter().flat_map(|table| &table.allow);
        if allowed.map(|folder| real(Path::new(folder))).any(|folder| folder == *root) {
            return None;
        }
        if self.own_within(root).is_some() {
            return None;
        }
        self.why_wide(root)
    }

    fn why_wide(&self, root: &Path) -> Option<&'static str> {
        let home = self.environment.get("HOME").map(|home| real(Path::new(home)));
        why(&real(root), home.as_deref())
    }

    /// What is asked about at every level in such a folder: the sandbox keeps commands from everything but the workspace,
    /// and here that is what other programs run and trust.
    pub fn asks_in(&self, root: &Path) -> Vec<Rule> {
        let asks = |(what, risk): (&str, Risk), why: &str| Rule {
            risk: Some(risk),
            why: Some(format!("{why}, and other programs run and trust what is written there")),
            ..Rule::named(format!("wide workspace: {what} asked about"), Action::Ask)
        };
        let of = [("changes are", Risk::Write), ("commands are", Risk::Execute)];
        self.why_wide(root).into_iter().flat_map(|why| of.map(|of| asks(of, why))).collect()
    }

    /// A folder of agon's own that is in a folder, or one of its records that the folder is in.
    pub fn own_within(&self, root: &Path) -> Option<PathBuf> {
        const RECORDS: [&str; 7] = ["sessions", "objects", "index", "calls", "locks", "trust", "containers"];
        let (root, places) = (real(root), &self.places);
        let own = [&places.state, &places.config, &places.cache].map(|own| real(own));
        let records = RECORDS.iter().map(|name| places.state.join(name));
        let records = records.chain([places.personas(), places.blueprints()]).map(|own| real(&own));
        own.into_iter()
            .find(|own| own.starts_with(&root))
            .or(records.into_iter().find(|own| root.starts_with(own)))
    }

    /// A person said so, for this run.
    pub fn allow_workspace(&mut self, root: &Path) {
        let table = self.file.workspace.get_or_insert_with(WorkspaceTable::default);
        table.allow.push(root.display().to_string());
    }
}

fn why(root: &Path, home: Option<&Path>) -> Option<&'static str> {
    let is_home = home == Some(root)
        || root == Path::new("/root")
        || HOMES.iter().any(|homes| root.parent() == Some(Path::new(homes)));
    let holds_homes =
        home.is_some_and(|home| home.starts_with(root)) || HOMES.iter().any(|homes| root == Path::new(homes));
    match () {
        () if root.parent().is_none() => Some("it is the whole machine"),
        () if is_home => Some("it is a home folder"),
        () if holds_homes => Some("it holds home folders"),
        // Memory that programs share is a place like `/tmp`.
        () if root.starts_with("/dev/shm") && root != Path::new("/dev/shm") => None,
        () if SYSTEM.split(' ').any(|system| root.starts_with(system)) => Some("it belongs to the system"),
        () if ABOVE.iter().any(|system| root == Path::new(system)) => Some("it belongs to the system"),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes_and_the_systems_folders_are_wide_and_projects_in_them_are_not() {
        let home = Some(Path::new("/srv/people/ann"));
        for wide in [
            "/",
            "/proc",
            "/sys/kernel",
            "/dev",
            "/dev/shm",
            "/root",
            "/home",
            "/home/ben",
            "/Users/cy",
            "/srv/people/ann",
            "/srv",
            "/boot/efi",
            "/run",
            "/lib",
            "/usr/lib64/x",
            "/usr/local",
            "/usr/local/lib",
            "/usr/bin",
            "/var",
        ] {
            assert!(why(Path::new(wide), home).is_some(), "{wide}");
        }
        for narrow in [
            "/home/ben/project",
            "/root/project",
            "/srv/people/ann/project",
            "/tmp",
            "/dev/shm/x",
            "/srv/other",
            "/run/user/1000/x",
            "/usr/local/src/x",
            "/usr/src/app",
            "/opt/app",
            "/library",
            "/var/www",
        ] {
            assert_eq!(why(Path::new(narrow), home), None, "{narrow}");
        }
    }
}
