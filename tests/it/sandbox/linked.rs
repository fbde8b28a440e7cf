//! Protected names that are links, and repositories that a `.git` file names: one scene and one attack for each kind
//! of sandbox; and files that hold secrets.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use agon::ports::{ExecEnd, Files};
use agon::protocol::event::PathBase;

/// What a command tries.
pub const ATTACK: &str = "rm AGENTS.md; echo EVIL >AGENTS.md; echo EVIL >docs/RULES.md; echo EVIL >>docs/RULES.md; \
    mv docs docs2 && mkdir docs && echo EVIL >docs/RULES.md; \
    echo EVIL >n && mv -f n docs/RULES.md; ln -sfn /tmp/none CLAUDE.md; \
    echo EVIL >ci/e.yml; rm -rf .github/workflows; mkdir -p .github/workflows; echo EVIL >.github/workflows/e.yml; \
    mkdir -p .bare/hooks; echo EVIL >.bare/hooks/pre-commit; echo EVIL >>.bare/config; \
    echo EVIL >>.bare/worktrees/main/gitdir; mv .bare .other; echo free >free; true";

/// Links of every kind, and the layout of a bare repository with worktrees.
pub fn set(root: &Path) {
    for folder in ["docs", "ci", ".github", ".bare/objects", ".bare/refs", ".bare/worktrees/main", "main"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    for (name, text) in [
        ("docs/RULES.md", "rules"),
        ("ci/ci.yml", "ci"),
        (".bare/HEAD", "ref: refs/heads/main\n"),
        (".bare/config", "[core]\n"),
        (".bare/worktrees/main/commondir", "../..\n"),
        (".bare/worktrees/main/HEAD", "ref: refs/heads/main\n"),
        (".bare/worktrees/main/gitdir", "main/.git\n"),
        ("main/.git", "gitdir: ../.bare/worktrees/main\n"),
    ] {
        fs::write(root.join(name), text).unwrap();
    }
    symlink("docs/RULES.md", root.join("AGENTS.md")).unwrap();
    symlink("AGENTS.md", root.join("CLAUDE.md")).unwrap();
    symlink("../ci", root.join(".github/workflows")).unwrap();
}

/// Nothing of what steers agents, CI or git says what the command wanted.
pub fn check(root: &Path, end: &ExecEnd) {
    let text =
        |name: &str| fs::read_to_string(root.join(name)).unwrap_or_else(|error| format!("{name}: {error}"));
    assert_eq!(text("free"), "free\n", "{end:?}");
    for (name, want) in [
        ("AGENTS.md", "rules"),
        ("CLAUDE.md", "rules"),
        ("docs/RULES.md", "rules"),
        (".github/workflows/ci.yml", "ci"),
        (".bare/config", "[core]\n"),
        (".bare/worktrees/main/gitdir", "main/.git\n"),
    ] {
        assert_eq!(text(name), want, "{name}: {end:?}");
    }
    for name in [".github/workflows/e.yml", "ci/e.yml", ".bare/hooks"] {
        assert!(fs::symlink_metadata(root.join(name)).is_err(), "{name}: {end:?}");
    }
    assert!(end.stderr.contains("`AGENTS.md` is a protected link to `docs/RULES.md`"), "{end:?}");
}

/// Tools write neither through nor behind such names.
pub fn check_files(files: &dyn Files) {
    for name in ["docs/RULES.md", "ci/new.yml", ".bare/hooks/x", ".bare/worktrees/main/x", "AGENTS.md"] {
        let base = PathBase { path: name.to_owned(), sha256: None };
        let refused = files.write(name, b"EVIL", &base).unwrap_err().to_string();
        assert!(refused.contains("protected") || refused.contains("leads"), "{name}: {refused}");
    }
}

/// Makes the folder it is in, and one further down, a repository whose settings run a command.
pub const BARE: &str = "for at in . sub; do mkdir -p $at/objects $at/refs; \
    printf '[core]\nbare=true\nfsmonitor=touch ran\n' >$at/config; echo ref: refs/heads/main >$at/HEAD; done; \
    echo evil >fixture.git/config; true";

/// A repository that is there before, by the name of no `.git`.
pub fn set_bare(root: &Path) {
    ["objects", "refs"]
        .iter()
        .for_each(|name| fs::create_dir_all(root.join("fixture.git").join(name)).unwrap());
    ["HEAD", "config"]
        .iter()
        .for_each(|name| fs::write(root.join("fixture.git").join(name), "mine").unwrap());
}

/// The folder is no repository, the command is told, and no tool makes one either.
pub fn check_bare(root: &Path, end: &ExecEnd, files: &dyn Files) {
    assert!(end.stderr.contains("`HEAD` makes a git repository of its folder"), "{end:?}");
    assert!(root.join("HEAD.untrusted").exists() && !root.join("HEAD").exists(), "{end:?}");
    assert_eq!(fs::read_to_string(root.join("fixture.git/config")).unwrap(), "mine", "{end:?}");
    let write = |name: &str| files.write(name, b"x", &PathBase { path: name.to_owned(), sha256: None });
    for name in ["tool/refs/heads/x", "tool/objects/x", "tool/config"] {
        write(name).unwrap();
    }
    for name in ["tool/HEAD", "HEAD", "fixture.git/hooks/x"] {
        let refused = write(name).unwrap_err().to_string();
        assert!(refused.contains("take its folder for a repository"), "{name}: {refused}");
    }
}

/// Files that commonly hold secrets, by every kind of name.
const SECRETS: [&str; 33] = [
    "id_dsa",
    "id_ecdsa_sk",
    "id_ed25519_sk",
    "secrets.yml",
    "store.kdbx",
    "main.tfvars",
    "gh/hosts.yml",
    ".cargo/credentials.toml",
    ".env",
    ".env.local",
    ".envrc",
    ".netrc",
    ".pgpass",
    ".pypirc",
    ".npmrc",
    ".git-credentials",
    ".yarnrc.yml",
    ".htpasswd",
    "credentials.json",
    "kubeconfig",
    ".aws/credentials",
    ".kube/config",
    ".docker/config.json",
    "server.pem",
    "server.KEY",
    "store.p12",
    "store.pfx",
    "store.jks",
    "store.keystore",
    "id_rsa",
    "id_ecdsa",
    "id_ed25519",
    ".ssh/config",
];

/// Puts them at the top and further down.
pub fn put_secrets(root: &Path) {
    for name in SECRETS.iter().flat_map(|name| [(*name).to_owned(), format!("deep/er/{name}")]) {
        fs::create_dir_all(root.join(&name).parent().unwrap()).unwrap();
        fs::write(root.join(name), "TOKEN-OF-THE-PROJECT\n").unwrap();
    }
    // What is protected, or empty to a command, hides none.
    for name in [
        ".git/deploy.pem",
        ".agon/.env",
        ".claude/.env",
        ".github/workflows/.env",
        "sub/.git/.env",
        ".env.d/AGENTS.md",
        "lib.key/sub/.git/x",
    ] {
        fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
        fs::write(root.join(name), "TOKEN-OF-THE-PROJECT\n").unwrap();
    }
    assert!(std::process::Command::new("mkfifo").arg(root.join(".env.pipe")).status().unwrap().success());
    // A name that leads to one that tells nothing.
    fs::create_dir(root.join("plain")).unwrap();
    fs::write(root.join("plain/settings"), "TOKEN-OF-THE-PROJECT\n").unwrap();
    symlink("plain/settings", root.join(".env.shared")).unwrap();
    fs::write(root.join("open.txt"), "TOKEN-OF-NOBODY\n").unwrap();
}

/// Prints every file a command can read, hidden ones and those in folders as well.
pub const READ_ALL: &str =
    "find . -type f -exec cat {} +; [ ! -p .env.pipe ] || echo TOKEN-OF-THE-PROJECT can be listened for";

/// What a command could read of them: nothing but what is no secret.
pub fn check_secrets(end: &ExecEnd) {
    assert!(end.stdout.contains("TOKEN-OF-NOBODY"), "{end:?}");
    assert!(!end.stdout.contains("TOKEN-OF-THE-PROJECT"), "{end:?}");
}
