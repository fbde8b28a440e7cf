//! What a person does in the folder while a command runs stays theirs, and what a command makes of protected names
//! does not stay, whatever it closes: for each kind that confines.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use agon::ports::ExecEnd;

use super::contract::Opened;

/// Makes a module's tests. `open` is an `async fn(set: impl FnOnce(&Path)) -> Option<Opened>`.
macro_rules! person {
    ($open:path) => {
        $crate::sandbox::person::person!(@each $open;
            a_merge_and_packed_branches_of_a_person_are_left_alone
            a_repository_that_a_person_makes_is_left_alone
            what_a_command_made_is_set_aside_whatever_it_has_closed
            a_link_is_put_back_whatever_a_command_has_closed
            what_a_person_replaces_while_a_command_runs_is_told
            a_folder_that_was_closed_before_hides_nothing_from_its_covers
            thousands_of_secrets_are_covered
        );
    };
    (@each $open:path; $($name:ident)*) => {
        $(
            #[tokio::test]
            async fn $name() {
                match $open($crate::sandbox::person::set_for(stringify!($name))).await {
                    Some(opened) => $crate::sandbox::person::$name(opened).await,
                    None => println!("skipped: this kind of sandbox is not to be had here"),
                }
            }
        )*
    };
}
pub(crate) use person;

/// How the workspace stands before the sandbox is opened.
pub fn set_for(test: &str) -> fn(&Path) {
    match test {
        "a_merge_and_packed_branches_of_a_person_are_left_alone" => repository,
        "a_link_is_put_back_whatever_a_command_has_closed" => |root| {
            fs::create_dir_all(root.join("docs/deep")).unwrap();
            fs::write(root.join("docs/deep/RULES.md"), "rules").unwrap();
            symlink("docs/link", root.join("AGENTS.md")).unwrap();
            symlink("deep/RULES.md", root.join("docs/link")).unwrap();
            symlink("docs/none.md", root.join("CLAUDE.md")).unwrap();
        },
        "what_a_person_replaces_while_a_command_runs_is_told" => |root| {
            repository(root);
            fs::create_dir(root.join("sub")).unwrap();
            for name in ["AGENTS.md", "CLAUDE.md", "sub/CLAUDE.md", "sub/.env", ".env", ".env.local"] {
                fs::write(root.join(name), "first").unwrap();
            }
        },
        "a_folder_that_was_closed_before_hides_nothing_from_its_covers" => |root| {
            for (name, mode) in CLOSED {
                fs::create_dir_all(root.join(name).join(".git")).unwrap();
                for file in [".env", "AGENTS.md", ".git/config"] {
                    fs::write(root.join(name).join(file), "secret").unwrap();
                }
                fs::set_permissions(root.join(name), Permissions::from_mode(mode)).unwrap();
            }
        },
        "thousands_of_secrets_are_covered" => |root| secrets(root, 3_999),
        _ => |_| {},
    }
}

/// Runs git as a person would, without their settings; gives what it said and whether it was content.
pub fn git(root: &Path, line: &str) -> (bool, String) {
    let mut command = Command::new("git");
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").current_dir(root);
    command.args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]);
    let ran = command.args(line.split(' ')).output().unwrap();
    (ran.status.success(), String::from_utf8(ran.stdout).unwrap() + &String::from_utf8_lossy(&ran.stderr))
}

fn well(root: &Path, line: &str) -> String {
    let (is_well, said) = git(root, line);
    assert!(is_well, "git {line}: {said}");
    said
}

/// Two branches that cannot be merged without a conflict, and one more.
pub fn repository(root: &Path) {
    let put = |text: &str| fs::write(root.join("a"), text).unwrap();
    well(root, "init -q");
    put("one");
    well(root, "add a");
    well(root, "commit -qm first");
    well(root, "branch feature");
    well(root, "checkout -qb other");
    put("two");
    well(root, "commit -qam second");
    well(root, "checkout -q main");
    put("three");
    well(root, "commit -qam third");
}

/// What a person does in it: a merge that stops, and all branches into one file.
pub fn merge_and_pack(root: &Path) {
    let (is_well, said) = git(root, "merge other");
    assert!(!is_well && said.contains("CONFLICT"), "{said}");
    well(root, "pack-refs --all");
}

/// Nothing of it is lost.
pub fn check_repository(root: &Path) {
    assert_eq!(untrusted(root), "");
    assert_eq!(well(root, "branch --format=%(refname:short)"), "feature\nmain\nother\n");
    assert_eq!(well(root, "log --format=%s"), "third\nfirst\n");
    assert!(well(root, "status").contains("unmerged paths"));
    well(root, "fsck");
}

/// `.` asked for by its own name: beneath a closed folder not even it is found.
fn at(root: &Path, name: &str) -> PathBuf {
    if name == "." { root.to_owned() } else { root.join(name) }
}

/// Every name in the workspace that was set aside, a line each.
fn untrusted(root: &Path) -> String {
    let found = Command::new("find").arg(root).args(["-name", "*.untrusted*"]).output().unwrap();
    String::from_utf8(found.stdout).unwrap()
}

/// Does something in the workspace while a command runs.
async fn meanwhile(opened: &Opened, act: impl FnOnce(&Path)) -> ExecEnd {
    let there = |name: &str| opened.root.join(name).exists();
    let acting = async {
        while !there("up") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        act(&opened.root);
        opened.put("go", "");
    };
    opened.sh("rm -f go").await;
    let (end, ()) = tokio::join!(
        opened.sh(
            "touch up; while [ ! -e go ]; do sleep 0.05; done; touch .git/evil .git/objects/evil; rm up go"
        ),
        acting
    );
    end
}

pub async fn a_merge_and_packed_branches_of_a_person_are_left_alone(opened: Opened) {
    let end = meanwhile(&opened, merge_and_pack).await;
    assert!(!end.stderr.contains("protected"), "{end:?}");
    check_repository(&opened.root);
    // And for the next command as well.
    let end = opened.sh("true").await;
    assert!(!end.stderr.contains("protected"), "{end:?}");
    check_repository(&opened.root);
    assert!(!opened.root.join(".git/evil").exists() && !opened.root.join(".git/objects/evil").exists());
}

pub async fn a_repository_that_a_person_makes_is_left_alone(opened: Opened) {
    let end = meanwhile(&opened, |root| {
        repository(root);
        merge_and_pack(root);
    })
    .await;
    assert!(!end.stderr.contains("protected"), "{end:?}");
    opened.sandbox.close().await;
    check_repository(&opened.root);
    assert!(!opened.root.join(".git/evil").exists() && !opened.root.join(".git/objects/evil").exists());
}

pub async fn what_a_command_made_is_set_aside_whatever_it_has_closed(opened: Opened) {
    let mode = |name: &str| fs::metadata(at(&opened.root, name)).unwrap().permissions().mode() & 0o777;
    for (i, closing) in
        ["chmod 555 .", "chmod 0 .", "chmod 555 .github", "chmod 0 .github", "chmod 555 .github ."]
            .into_iter()
            .enumerate()
    {
        let make = "umask 022; echo EVIL >AGENTS.md; mkdir -p .github/workflows; echo EVIL >.github/workflows/e.yml; \
                    mkdir .circleci; echo EVIL >.circleci/config.yml; chmod 0 .circleci";
        let end = opened.sh(&format!("{make}; {closing}")).await;
        let folder = closing.split(' ').next_back().unwrap();
        let bits = if closing.contains("555") { 0o555 } else { 0 };
        assert_eq!(mode(folder), bits, "as the command left it");
        for name in [".", ".github"] {
            fs::set_permissions(at(&opened.root, name), Permissions::from_mode(0o755)).unwrap();
        }
        for name in ["AGENTS.md", ".github/workflows", ".circleci"] {
            assert!(!opened.root.join(name).exists(), "{closing}: {name}: {end:?}");
            assert_eq!(end.stderr.matches(&format!("`{name}` is a protected name")).count(), 1, "{end:?}");
        }
        assert!(!end.stderr.contains("config.yml"), "{closing}: {end:?}");
        assert_eq!(untrusted(&opened.root).lines().count(), 3 * (i + 1), "{closing}: {end:?}");
    }
    // Nor does it help to take every name they could get.
    let take = "i=0; mkdir CLAUDE.md.untrusted; touch CLAUDE.md.untrusted/x; while [ $i -lt 1000 ]; do i=$((i+1)); \
                >CLAUDE.md.untrusted$i; done; echo EVIL >CLAUDE.md";
    let end = opened.sh(take).await;
    assert!(
        !opened.root.join("CLAUDE.md").exists() && end.stderr.contains("is now `CLAUDE.md.untrusted"),
        "{end:?}"
    );
    opened.sh("chmod 555 .").await;
    opened.sandbox.close().await;
    for name in [".git", ".agon"] {
        assert!(!opened.root.join(name).exists(), "{name} is taken away all the same");
    }
    let opening = Command::new("chmod").args(["-R", "u+rwX"]).arg(&opened.root).status().unwrap();
    assert!(opening.success());
}

pub async fn a_link_is_put_back_whatever_a_command_has_closed(opened: Opened) {
    let root = &opened.root;
    let end = opened
        .sh("rm AGENTS.md; echo EVIL >AGENTS.md; rm docs/link; echo EVIL >docs/link; echo EVIL >docs/none.md; chmod 0 docs .")
        .await;
    for name in [".", "docs"] {
        fs::set_permissions(at(root, name), Permissions::from_mode(0o755)).unwrap();
    }
    for name in ["AGENTS.md", "docs/link"] {
        assert_eq!(fs::read_to_string(root.join(name)).unwrap(), "rules", "{name}: {end:?}");
    }
    assert!(!root.join("docs/none.md").exists(), "{end:?}");
    // Nor where a folder on the way has become a link to one that holds the same names.
    let end = opened
        .sh("mkdir other; echo EVIL >other/none.md; echo EVIL >other/link; mv docs was && ln -s other docs; chmod 555 .; true")
        .await;
    fs::set_permissions(root, Permissions::from_mode(0o755)).unwrap();
    for name in ["AGENTS.md", "CLAUDE.md"] {
        assert_ne!(fs::read_to_string(root.join(name)).unwrap_or_default(), "EVIL\n", "{name}: {end:?}");
    }
}

/// Folders of a workspace that nobody can look into before they are opened.
const CLOSED: [(&str, u32); 2] = [("shut", 0), ("unlisted", 0o111)];

pub async fn a_folder_that_was_closed_before_hides_nothing_from_its_covers(opened: Opened) {
    for (name, _) in CLOSED {
        let end =
            opened.sh(&format!("chmod 755 {name}; cat {name}/.env; mv {name} moved && cat moved/.env")).await;
        assert!(!end.stdout.contains("secret"), "{end:?}");
        let end = opened.sh(&format!("for f in AGENTS.md .git/config; do echo EVIL >>{name}/$f; done")).await;
        fs::set_permissions(opened.root.join(name), Permissions::from_mode(0o755)).unwrap();
        for file in ["AGENTS.md", ".git/config"] {
            let text = fs::read_to_string(opened.root.join(name).join(file)).unwrap();
            assert_eq!(text, "secret", "{name}/{file}: {end:?}");
        }
    }
}

pub async fn what_a_person_replaces_while_a_command_runs_is_told(opened: Opened) {
    let replaced = ["AGENTS.md", "sub/CLAUDE.md", "sub/.env", ".env"];
    let end = meanwhile(&opened, |root| {
        for name in replaced {
            fs::write(root.join("new"), "second").unwrap();
            fs::rename(root.join("new"), root.join(name)).unwrap();
        }
        // Written in place, its cover stays.
        fs::write(root.join("CLAUDE.md"), "second").unwrap();
        fs::write(root.join(".env.local"), "second").unwrap();
        merge_and_pack(root);
    })
    .await;
    assert_eq!(end.notes.len(), replaced.len(), "{end:?}");
    for name in replaced {
        let could = if name.ends_with(".env") { "could read and change it" } else { "could change it" };
        let line = end.notes.iter().find(|line| line.starts_with(&format!("`{name}` was replaced"))).unwrap();
        assert!(line.contains(could) && end.stderr.contains(line.as_str()), "{end:?}");
    }
    check_repository(&opened.root);
    assert!(opened.sh("true").await.notes.is_empty(), "once");
}

/// So many secret files, as a command may make them, and beneath them the one that matters.
pub fn secrets(root: &Path, count: usize) {
    fs::create_dir_all(root.join("made/sub")).unwrap();
    for i in 1..count {
        fs::write(root.join(format!("made/.env.{i}")), "TOKEN").unwrap();
    }
    fs::write(root.join("made/sub/.env"), "TOKEN").unwrap();
}

pub async fn thousands_of_secrets_are_covered(opened: Opened) {
    let end = opened.sh("cd made; cat .env.* sub/.env; ls -A | wc -l").await;
    assert_eq!(end.stdout.trim(), "3999", "{end:?}");
}
