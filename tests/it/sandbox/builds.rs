//! What projects do all day works inside `local`, without a network: packages from folders and archives, tests,
//! servers on the loopback, and what a commit that fails says.

use super::contract::Opened;
use super::local::{open, options};
use agon::sandbox::{LocalOptions, LocalSandbox};

/// Also where a machine's settings name a wrapper for the compiler, which may lie where nobody sees it.
const CARGO: &str = "cargo --version";

/// Runs a command, or says that what it needs is not on this machine.
async fn works(opened: &Opened, needs: &str, command: &str) -> Option<String> {
    if opened.sh(needs).await.exit != Some(0) {
        println!("skipped: `{needs}` does not work inside");
        return None;
    }
    let end = opened.run(agon::ports::Exec { timeout_ms: 120_000, ..super::contract::exec(command) }).await;
    assert_eq!(end.exit, Some(0), "{end:?}");
    Some(end.stdout)
}

#[tokio::test]
async fn npm_packs_installs_and_tests() {
    let Some(opened) = open().await else { return };
    opened.put("lib/package.json", r#"{"name": "answer", "version": "1.0.0", "main": "index.js"}"#);
    opened.put("lib/index.js", "module.exports = 42;\n");
    opened.put(
        "app/package.json",
        r#"{"name": "app", "version": "1.0.0", "scripts": {"test": "node test.js"}, "private": true}"#,
    );
    opened.put(
        "app/test.js",
        "const server = require('http').createServer((_, answer) => answer.end(String(require('answer'))));\n\
         server.listen(0, '127.0.0.1', () => require('http').get(server.address(), (got) =>\n\
         got.on('data', (text) => { console.log('served ' + text); server.close(); })));\n",
    );
    let command = "npm pack ./lib --silent && cd app && \
                   npm install --offline --no-audit --no-fund ../answer-1.0.0.tgz && npm test --silent";
    if let Some(said) = works(&opened, "npm --version", command).await {
        assert!(said.contains("served 42"), "{said}");
        assert!(opened.root.join("app/node_modules/answer/index.js").exists());
    }
}

/// A backend of the package's own, so that building it needs nothing from anywhere.
const BACKEND: &str = r#"
import zipfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "answer-1.0-py3-none-any.whl"
    with zipfile.ZipFile(folder + "/" + name, "w") as wheel:
        wheel.write("answer.py")
        wheel.writestr("answer-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: answer\nVersion: 1.0\n")
        wheel.writestr("answer-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("answer-1.0.dist-info/RECORD", "")
    return name
"#;

#[tokio::test]
async fn pip_builds_and_installs_into_a_virtual_environment() {
    let Some(opened) = open().await else { return };
    opened.put(
        "pkg/pyproject.toml",
        "[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n\
         [project]\nname = \"answer\"\nversion = \"1.0\"\n",
    );
    opened.put("pkg/backend.py", BACKEND);
    opened.put("pkg/answer.py", "VALUE = 42\n");
    let command = "python3 -m venv .venv && .venv/bin/pip install --no-index --disable-pip-version-check -q ./pkg && \
                   .venv/bin/python -c 'import answer; print(answer.VALUE)'";
    let needs = "python3 -c 'import venv, ensurepip'";
    if let Some(said) = works(&opened, needs, command).await {
        assert!(said.ends_with("42\n"), "{said}");
    }
}

#[tokio::test]
async fn cargo_tests_a_workspace_with_a_dependency_by_path() {
    let Some(opened) = open().await else { return };
    opened.put("Cargo.toml", "[workspace]\nmembers = [\"app\", \"lib\"]\nresolver = \"2\"\n");
    opened.put("lib/Cargo.toml", "[package]\nname = \"answer\"\nversion = \"1.0.0\"\nedition = \"2021\"\n");
    opened.put("lib/src/lib.rs", "pub const VALUE: u32 = 42;\n");
    opened.put(
        "app/Cargo.toml",
        "[package]\nname = \"app\"\nversion = \"1.0.0\"\nedition = \"2021\"\n[dependencies]\nanswer = { path = \"../lib\" }\n",
    );
    opened.put(
        "app/src/main.rs",
        "fn main() {}\n#[test]\nfn it_is() {\n    let door = std::net::TcpListener::bind(\"127.0.0.1:0\").unwrap();\n    \
         std::net::TcpStream::connect(door.local_addr().unwrap()).unwrap();\n    assert_eq!(answer::VALUE, 42);\n}\n",
    );
    if let Some(said) = works(&opened, CARGO, "cargo test -q").await {
        assert!(said.contains("1 passed"), "{said}");
    }
}

#[tokio::test]
async fn a_commit_that_fails_says_why_and_what_to_do() {
    let Some(opened) = open().await else { return };
    if opened.sh("git --version").await.exit != Some(0) {
        return println!("skipped: there is no git");
    }
    let git = |words: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.current_dir(&opened.root).args(words).env("HOME", opened.folder.path());
        assert!(command.output().unwrap().status.success(), "{words:?}");
    };
    git(&["init", "-q"]);
    opened.put("file", "new\n");
    let end = opened
        .sh("git status --short; git add file && git -c user.name=a -c user.email=b commit -qm x")
        .await;
    assert!(end.stdout.contains("?? file"), "looking works: {end:?}");
    assert_ne!(end.exit, Some(0), "{end:?}");
    assert!(end.stderr.contains("[agon: `.git` is read-only for this command"), "{end:?}");
    assert!(end.stderr.contains("repeat the call with `needs: [\"git\"]`"), "{end:?}");
    assert!(!opened.sh("false").await.stderr.contains("agon"), "another failure is not explained away");
}

#[tokio::test]
async fn in_a_workspace_that_cannot_be_changed_tests_run_and_writing_says_why() {
    if open().await.is_none() {
        return;
    }
    let opened = Opened::new(|root| {
        std::fs::write(root.join("test.sh"), "test -e file || echo missing >file\n").unwrap();
        std::sync::Arc::new(LocalSandbox::open(root, LocalOptions { read_only: true, ..options() }).unwrap())
    });
    let end = opened.sh("sh test.sh").await;
    assert!(end.exit != Some(0) && end.stderr.contains("[agon: the workspace cannot be changed"), "{end:?}");
    // No place for a mount is left where nothing can be made, also when somebody else works here.
    assert_eq!(std::fs::read_dir(&opened.root).unwrap().count(), 1);
    opened.put("Cargo.toml", "[package]\nname = \"inside\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    opened.put("src/lib.rs", "#[test]\nfn it_is() {}\n");
    // As cargo itself writes it, so that it has nothing to mend.
    let head =
        "# This file is automatically @generated by Cargo.\n# It is not intended for manual editing.\n";
    let lock = format!("{head}version = 4\n\n[[package]]\nname = \"inside\"\nversion = \"0.1.0\"\n");
    opened.put("Cargo.lock", &lock);
    if let Some(said) = works(&opened, CARGO, "cargo test -q").await {
        assert!(said.contains("1 passed"), "{said}");
    }
}
