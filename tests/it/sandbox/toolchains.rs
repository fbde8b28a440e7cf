//! Tools as people have them: caches that are written to, programs in a folder of the home, key files that git tracks.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use agon::sandbox::LocalSandbox;

use super::contract::Opened;
use super::local::{can_be_had, open, options};
use crate::cli::run::scripted;

fn call(command: &str) -> String {
    format!(
        "[[answer]]\nspark = \"solo\"\ncalls = [{{ tool = \"bash\", args = {{ command = '''{command}''' }} }}]\n"
    )
}

fn program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn caches_keep_what_commands_add_for_the_session_and_the_users_own_stay_as_they_are() {
    if !can_be_had().await {
        return;
    }
    let first =
        call("cat ~/.npm/_cacache/old && echo new >~/.npm/_cacache/new && rm ~/.npm/_cacache/old && tool");
    let second =
        call("cat ~/.npm/_cacache/new; ls ~/.npm/_cacache; echo p >$PIP_CACHE_DIR/new; echo ${GOCACHE-none}");
    let second = second + &call("cat $PIP_CACHE_DIR/*");
    let mut env = scripted(&format!("{first}{second}[[answer]]\nspark = \"solo\"\ntext = \"done\"\n"));
    let user = env.temporary().join("user");
    fs::create_dir_all(user.join(".npm/_cacache")).unwrap();
    fs::write(user.join(".npm/_cacache/old"), "old\n").unwrap();
    // Where a variable puts a cache, if it is there.
    let pip = env.temporary().join("elsewhere/pip");
    fs::create_dir_all(&pip).unwrap();
    fs::write(pip.join("old"), "of pip\n").unwrap();
    env.set("PIP_CACHE_DIR", pip.to_str().unwrap()).set("GOCACHE", "/nowhere/go");
    // A program that was unpacked into the home finds what lies next to it.
    program(&user.join("opt/kit/bin/tool"), "#!/bin/sh\ncat \"${0%/bin/*}/lib/words\"\n");
    fs::create_dir(user.join("opt/kit/lib")).unwrap();
    fs::write(user.join("opt/kit/lib/words"), "from the kit\n").unwrap();
    let path = format!("{}:{}", user.join("opt/kit/bin").display(), std::env::var("PATH").unwrap());
    env.set("HOME", user.to_str().unwrap()).set("PATH", &path);
    let ran = env.run(&["run", "go", "--yes", "--sandbox", "local"]);
    let log = crate::cli::run::log(&env);
    assert!(log.contains("stdout:\\nold\\nfrom the kit\\n"), "{ran} {log}");
    assert!(log.contains("stdout:\\nnew\\nnew\\nnone\\n"), "{ran} {log}");
    assert!(log.contains("stdout:\\np\\nof pip\\n") && !pip.join("new").exists(), "{ran} {log}");
    let left: Vec<_> =
        fs::read_dir(user.join(".npm/_cacache")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["old"]);
}

#[tokio::test]
async fn a_second_test_of_go_is_warm() {
    let Some(opened) = open().await else { return };
    if opened.sh("go version").await.exit != Some(0) {
        return println!("skipped: there is no go");
    }
    opened.put("go.mod", "module example.org/answer\n\ngo 1.18\n");
    opened.put("answer.go", "package answer\n\nfunc Value() int { return 42 }\n");
    let test = "package answer\n\nimport \"testing\"\n\nfunc TestValue(t *testing.T) {\n\tif Value() != 42 {\n\t\tt.Fail()\n\t}\n}\n";
    opened.put("answer_test.go", test);
    let exec = agon::ports::Exec { timeout_ms: 300_000, ..super::contract::exec("go test ./...") };
    let first = opened.run(exec.clone()).await;
    assert_eq!(first.exit, Some(0), "{first:?}");
    let second = opened.run(exec).await;
    assert!(second.stdout.contains("(cached)"), "{second:?}");
}

#[tokio::test]
async fn programs_with_sanitizers_run_inside_as_they_do_outside() {
    let Some(opened) = open().await else { return };
    opened.put(
        "a.c",
        "#include <pthread.h>\n#include <stdlib.h>\nstatic int n;\n\
         static void *add(void *x) { for (int i = 0; i < 1000; i++) n++; return x; }\n\
         int main(int c, char **v) {\n  char *p = malloc(4 * c);\n  pthread_t t;\n  if (c > 1) return p[9];\n  \
         pthread_create(&t, 0, add, 0);\n  add(0);\n  p = 0;\n  return pthread_join(t, 0);\n}\n",
    );
    for (kind, run, found) in [
        ("address", "./address", ""),
        ("address", "./address x", "heap-buffer-overflow"),
        ("thread", "./thread", "data race"),
    ] {
        let build = format!("gcc -g -pthread -fsanitize={kind} -o {kind} a.c");
        if opened.sh(&build).await.exit != Some(0) {
            println!("skipped: there is no gcc with {kind}");
            continue;
        }
        let mut outside = Command::new("sh");
        outside.args(["-c", run]).current_dir(&opened.root).env("LSAN_OPTIONS", "detect_leaks=0");
        let outside = outside.output().unwrap();
        let (inside, words) = (opened.sh(run).await, String::from_utf8_lossy(&outside.stderr));
        assert_eq!(inside.exit, outside.status.code(), "{inside:?} {words}");
        assert!(inside.stderr.contains(found) || !words.contains(found), "{inside:?} {words}");
        assert!(!inside.stderr.contains("[agon:"), "{inside:?}");
    }
}

#[tokio::test]
async fn npm_ci_that_fails_leaves_the_packages_as_they_were() {
    let Some(opened) = open().await else { return };
    opened.put("node_modules/a/index.js", "1\n");
    // The real one empties the folder first as well, and then misses a package.
    program(
        &opened.root.join("bin/npm"),
        "#!/bin/sh\nrm -rf node_modules/*\n[ -e fits ] && mkdir -p node_modules/b\n",
    );
    let end = opened.sh("PATH=$PWD/bin:$PATH; set -e; npm ci && echo never").await;
    assert!(end.exit == Some(1) && end.stderr.contains("`node_modules` is as it was before"), "{end:?}");
    assert!(opened.root.join("node_modules/a/index.js").exists(), "{end:?}");
    let end = opened.sh("PATH=$PWD/bin:$PATH; touch fits; npm clean-install; npm run x").await;
    assert!(
        opened.root.join("node_modules/b").exists() && !opened.root.join("node_modules/a").exists(),
        "{end:?}"
    );
    assert_eq!(fs::read_dir(&opened.root).unwrap().count(), 3, "nothing is left aside");
}

#[tokio::test]
async fn a_key_that_git_tracks_can_be_read_as_long_as_it_is_the_tracked_one() {
    if !can_be_had().await {
        return;
    }
    let opened = Opened::new(|root| {
        for name in ["test.key", "changed.key", "own.key", ".env.example"] {
            fs::write(root.join(name), format!("of {name}\n")).unwrap();
        }
        for arguments in [&["init", "-q"][..], &["add", "test.key", "changed.key"]] {
            assert!(Command::new("git").args(arguments).current_dir(root).status().unwrap().success());
        }
        fs::write(root.join("changed.key"), "a real one\n").unwrap();
        Arc::new(LocalSandbox::open(root, options()).unwrap())
    });
    let end = opened.sh("cat test.key .env.example; cat changed.key; cat own.key; true").await;
    assert_eq!(end.stdout, "of test.key\nof .env.example\n", "{end:?}");
    assert!(end.stderr.contains(".key` is hidden from commands"), "{end:?}");
    // A person fills in what was a template when the session was opened.
    fs::write(opened.root.join("test.key"), "a real one\n").unwrap();
    let end = opened.sh("cat test.key").await;
    assert!(end.stdout.is_empty() && end.stderr.contains("`test.key` is hidden from commands"), "{end:?}");
    fs::write(opened.root.join("test.key"), "of test.key\n").unwrap();
    assert_eq!(opened.sh("cat test.key").await.stdout, "of test.key\n");
}
