//! The docker sandbox on a real engine: what commands see, that they end, that nothing of them stays.

mod faults;
pub(crate) mod kit;
pub(crate) mod program;
mod registry;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::Arc;
use std::time::Duration;

use agon::ports::{Exec, Sandbox};
use agon::protocol::Lane;
use agon::sandbox::docker::{DockerPlace, DockerSandbox, DockerSettings, MountSettings};
use tokio_util::sync::CancellationToken;

use super::contract::{self, Heard, Opened, exec};
use super::escapes;
use super::{linked, worktree};
use kit::{Bench, IMAGE};

#[tokio::test]
async fn streams_code_signal_and_directory() {
    let Some(bench) = Bench::new().await else { return };
    bench.put("sub/x", "");
    let sandbox = bench.open().await;
    let (heard, never) = (Heard::default(), CancellationToken::new());
    let end = sandbox.exec(exec("echo out; echo err >&2; exit 3"), &heard, &never).await.unwrap();
    assert_eq!((end.exit, end.signal, end.timed_out, end.cancelled), (Some(3), None, false, false));
    assert_eq!((end.stdout.as_str(), end.stderr.as_str()), ("out\n", "err\n"));
    assert_eq!((heard.lane(Lane::Stdout), heard.lane(Lane::Stderr)), ("out\n".into(), "err\n".into()));
    let end = bench.run(&sandbox, "kill -9 $$").await;
    assert_eq!((end.exit, end.signal), (None, Some(9)));
    let end = bench.run_in(&sandbox, Exec { cwd: "sub".into(), ..exec("pwd; cat; echo $0") }).await;
    let sub = fs::canonicalize(bench.root().join("sub")).unwrap();
    assert_eq!(end.stdout, format!("{}\nsh\n", sub.display()), "empty standard input, the image's shell");
    for cwd in ["..", "missing", "sub/x", "/etc"] {
        let exec = Exec { cwd: cwd.into(), ..exec("true") };
        assert!(sandbox.exec(exec, &heard, &never).await.is_err(), "{cwd}");
    }
    let spec = sandbox.spec();
    assert_eq!((spec.kind.as_str(), spec.gaps.len()), ("docker", 2), "{spec:?}");
    assert_eq!(spec.proven.len(), 7, "{spec:?}");
    let image = spec.image.unwrap();
    assert!(image.starts_with(&format!("{IMAGE} (id sha256:")), "{image}");
}

#[tokio::test]
async fn bash_is_taken_where_the_image_has_it() {
    let Some(bench) = Bench::new().await else { return };
    let settings = DockerSettings { image: "agon-test-bash".into(), ..bench.settings() };
    let sandbox = bench.open_with(settings).await.unwrap();
    let end = bench.run(&sandbox, "a=(1 2 3); echo ${#a[@]} ${BASH_VERSION:+bash}").await;
    assert_eq!(end.stdout, "3 bash\n", "{end:?}");
}

#[tokio::test]
async fn a_command_has_no_rights_beyond_the_callers() {
    let Some(bench) = Bench::new().await else { return };
    let sandbox = bench.open().await;
    let status =
        bench.run(&sandbox, "grep -E '^(Cap|NoNewPrivs|Seccomp:|Uid|Gid)' /proc/self/status").await.stdout;
    let row = |name: &str| {
        let row = status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap_or_else(|| panic!("{name}: {status}"));
        row.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
        assert_eq!(row(set), ["0000000000000000"], "{set}");
    }
    assert_eq!((row("NoNewPrivs:"), row("Seccomp:")), (vec!["1".into()], vec!["2".into()]));
    let mine = rustix::process::geteuid().as_raw().to_string();
    assert!(row("Uid:").iter().all(|uid| *uid == mine), "{status}");
    let forbidden = "for c in 'touch /x' 'touch /etc/x' 'mount -t tmpfs x /mnt' 'chroot / true' \
                     'unshare -U true' 'mknod /tmp/n b 8 0' 'reboot -f' 'kill -9 1'; do $c >/dev/null 2>&1 && echo \"$c\"; done; true";
    assert_eq!(bench.run(&sandbox, forbidden).await.stdout, "");
    let end = bench.run(&sandbox, "date -s 2001-01-01; date +%Y").await;
    assert!(end.stderr.contains("not permitted") && !end.stdout.ends_with("2001\n"), "{end:?}");
    assert_eq!(bench.run(&sandbox, "echo still here").await.stdout, "still here\n");
}

#[tokio::test]
async fn what_is_written_belongs_to_the_caller_and_what_is_guarded_stays() {
    let Some(bench) = Bench::new().await else { return };
    for path in [".git/config", ".git/hooks/sample"] {
        bench.put(path, "mine\n");
    }
    {
        let sandbox = bench.open().await;
        let end = bench.run(&sandbox, "mkdir -p a && echo made >a/b && chmod 700 a/b && cat a/b").await;
        assert_eq!((end.stdout.as_str(), end.exit), ("made\n", Some(0)), "{end:?}");
        let made = fs::metadata(bench.root().join("a/b")).unwrap();
        assert_eq!(made.uid(), rustix::process::geteuid().as_raw());
        assert_eq!(made.permissions().mode() & 0o777, 0o700);
        let evil = "for c in 'touch .git/hooks/pre-commit' 'rm -rf .git/config' 'mv .git x' 'touch .agon/config.toml' \
                    'rmdir .agon' 'ln -s /tmp .agon/x' 'rm -rf .git'; do $c 2>/dev/null && echo \"$c\"; done; true";
        assert_eq!(bench.run(&sandbox, evil).await.stdout, "");
        assert_eq!(fs::read_to_string(bench.root().join(".git/config")).unwrap(), "mine\n");
        let end = bench.run(&sandbox, "echo obey >CLAUDE.md").await;
        assert!(end.stderr.contains("`CLAUDE.md` is a protected name"), "{end:?}");
    }
    assert!(bench.root().join("CLAUDE.md.untrusted").exists() && !bench.root().join("CLAUDE.md").exists());
    assert!(!bench.root().join(".agon").exists(), "a mount point of ours is taken away again");
    assert!(bench.root().join(".git/hooks/sample").exists());
}

#[tokio::test]
async fn what_protected_links_and_git_files_lead_to_cannot_be_changed() {
    let Some(bench) = Bench::new().await else { return };
    linked::set(&bench.root());
    let sandbox = bench.open().await;
    let end = bench.run(&sandbox, linked::ATTACK).await;
    linked::check(&bench.root(), &end);
    linked::check_files(&*sandbox.files());
}

#[tokio::test]
async fn a_workspace_that_a_command_makes_a_repository_is_none_and_one_that_was_there_is_held() {
    let Some(opened) = opened_on(linked::set_bare).await else { return };
    let end = opened.sh(linked::BARE).await;
    linked::check_bare(&opened.root, &end, &*opened.sandbox.files());
}

#[tokio::test]
async fn files_that_commonly_hold_secrets_cannot_be_read() {
    let Some(bench) = Bench::new().await else { return };
    linked::put_secrets(&bench.root());
    let secrets = agon::session::policy::denied_to_all(&agon::session::policy::standard());
    let place = DockerPlace { secrets, ..bench.place() };
    let sandbox = DockerSandbox::open(bench.engine.clone(), bench.settings(), &place).await.unwrap();
    linked::check_secrets(&bench.run(&sandbox, linked::READ_ALL).await);
}

#[tokio::test]
async fn a_link_that_leads_nowhere_is_named_and_not_taken_for_a_weaker_engine() {
    let Some(bench) = Bench::new().await else { return };
    std::os::unix::fs::symlink("nowhere", bench.root().join(".git")).unwrap();
    let error = bench.open_with(bench.settings()).await.unwrap_err();
    assert!(error.to_string().contains("`.git` is a symbolic link"), "{error}");
    assert!(error.hint().unwrap().contains("let the link lead to one that is there"), "{error}");
    assert!(!bench.root().join("nowhere").exists(), "nothing was made by trying");
}

#[tokio::test]
async fn what_is_shown_beside_the_workspace_is_a_gap_and_no_proof() {
    let Some(bench) = Bench::new().await else { return };
    let (source, target) = (bench.folder().join("ws-evil"), "/keys".into());
    let mounts = vec![MountSettings { source, target, writable: false }];
    let env = std::collections::BTreeMap::from([("API_KEY".to_owned(), "x".to_owned())]);
    let sandbox = bench.open_with(DockerSettings { mounts, env, ..bench.settings() }).await.unwrap();
    let spec = sandbox.spec();
    let (gaps, proven) = (spec.gaps.join("\n"), spec.proven.join("\n"));
    assert!(gaps.contains("ws-evil") && gaps.contains("`API_KEY`") && gaps.contains("set-user-id"), "{gaps}");
    assert!(!proven.contains("outside") && !proven.contains("network"), "{proven}");
}

#[tokio::test]
async fn a_starved_child_does_not_speak_for_the_next_command_and_a_killed_watcher_is_told() {
    let Some(bench) = Bench::new().await else { return };
    let sandbox = bench.open().await;
    bench.run(&sandbox, "(x=a; while :; do x=$x$x; done) 2>/dev/null; true").await;
    let end = bench.run(&sandbox, "kill -9 $$").await;
    assert_eq!(end.signal, Some(9), "{end:?}");
    assert!(!end.stderr.contains("memory"), "{end:?}");
    let end = bench.run(&sandbox, "kill -9 -1; echo x").await;
    assert!(end.stderr.contains("how it ended is not known"), "{end:?}");
}

#[tokio::test]
async fn a_workspace_for_readers_cannot_be_changed() {
    let Some(bench) = Bench::new().await else { return };
    bench.put("a", "kept\n");
    let place = DockerPlace { read_only: true, ..bench.place() };
    let sandbox = DockerSandbox::open(bench.engine.clone(), bench.settings(), &place).await.unwrap();
    let end = bench
        .run(&sandbox, "cat a; touch b; rm -f a; echo x >>a; mkdir .git; touch /tmp/free && echo free")
        .await;
    assert_eq!(end.stdout, "kept\nfree\n", "{end:?}");
    let names: Vec<_> = fs::read_dir(bench.root()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["a"]);
}

#[tokio::test]
async fn there_is_no_network_no_home_and_nothing_of_our_environment() {
    let Some(bench) = Bench::new().await else { return };
    let mut settings = bench.settings();
    settings.env.insert("LET_IN".into(), "a b\n\"c\"".into());
    let sandbox = bench.open_with(settings).await.unwrap();
    let end = bench.run(&sandbox, "ls /sys/class/net; cat /proc/net/route | wc -l").await;
    assert_eq!(end.stdout, "lo\n1\n", "{end:?}");
    let end = bench
        .run(&sandbox, "wget -q -T 2 -O - http://1.1.1.1/; nslookup example.org; ping -c 1 -w 2 1.1.1.1")
        .await;
    assert_ne!(end.exit, Some(0), "{end:?}");
    let end = bench.run(&sandbox, "env | cut -d= -f1 | sort | tr '\\n' ' '; printf %s \"$LET_IN\"").await;
    let names: Vec<&str> = end.stdout.lines().next().unwrap().split(' ').collect();
    let allowed = [
        "HOME", "HOSTNAME", "LANG", "LET_IN", "OLDPWD", "PATH", "PWD", "SHLVL", "TERM", "TMPDIR", "\"c\"",
        "", "a", "b",
    ];
    assert!(names.iter().all(|name| allowed.contains(name)), "{end:?}");
    assert!(end.stdout.ends_with("a b\n\"c\""), "{end:?}");
    let beside = bench.secret();
    let end =
        bench.run(&sandbox, &format!("cat {}; ls {}", beside.display(), bench.folder().display())).await;
    assert!(!end.stdout.contains("secret") && end.exit != Some(0) || end.stdout == "ws\n", "{end:?}");
    assert!(!end.stdout.contains("top secret"), "{end:?}");
}

#[tokio::test]
async fn limits_hold_and_say_so() {
    let Some(bench) = Bench::new().await else { return };
    let settings = DockerSettings { memory: 64 << 20, pids: 40, ..bench.settings() };
    let sandbox = bench.open_with(settings).await.unwrap();
    // Processes: a bomb goes out by itself, and the next command runs.
    let bomb = "bomb() { bomb | bomb & }; bomb; sleep 1; echo survived";
    let end = bench.run_in(&sandbox, Exec { timeout_ms: 5_000, ..exec(bomb) }).await;
    assert!(end.stderr.contains("fork") || end.timed_out || end.exit.is_some(), "{end:?}");
    assert_eq!(bench.run(&sandbox, "echo next").await.stdout, "next\n");
    // Memory: a process that takes too much is killed, and that is said.
    let end = bench.run(&sandbox, "exec tail -c 200000000 /dev/zero").await;
    assert_eq!(end.signal, Some(9), "{end:?}");
    assert!(end.stderr.contains("memory ran out"), "{end:?}");
    // Disk: what is written outside the workspace is bounded as well.
    let end = bench
        .run(&sandbox, "dd if=/dev/zero of=/tmp/x bs=1M count=200; code=$?; rm -f /tmp/x; exit $code")
        .await;
    assert!(end.exit == Some(1) && end.stderr.contains("No space left"), "{end:?}");
}

#[tokio::test]
async fn time_running_out_ends_whatever_was_started() {
    let Some(bench) = Bench::new().await else { return };
    let sandbox = bench.open().await;
    let command = "trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 601' & sleep 602 & (setsid sleep 603 &) ; sleep 604";
    let end = bench.run_in(&sandbox, Exec { timeout_ms: 700, ..exec(command) }).await;
    assert!(end.timed_out && !end.cancelled && end.exit != Some(0), "{end:?}");
    assert_eq!(bench.run(&sandbox, "ps | grep -c 'sleep 6[0-9]'").await.stdout, "0\n");
    // One that a command leaves behind dies with it, though it holds the output.
    let end =
        bench.run(&sandbox, "setsid sleep 605 & env -i setsid sleep 606 >/dev/null 2>&1 & echo left").await;
    assert_eq!((end.stdout.as_str(), end.exit, end.timed_out), ("left\n", Some(0), false));
    assert_eq!(bench.run(&sandbox, "ps | grep -c 'sleep 6[0-9]'").await.stdout, "0\n");
}

#[tokio::test]
async fn a_command_that_is_cancelled_may_say_goodbye() {
    let Some(bench) = Bench::new().await else { return };
    let sandbox = bench.open().await;
    let (heard, cancel) = (Heard::default(), CancellationToken::new());
    let command = "trap 'echo bye; exit 7' TERM; sleep 607 & echo ready; wait";
    let trigger = async {
        while !heard.lane(Lane::Stdout).ends_with('\n') {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        cancel.cancel();
    };
    let (end, ()) = tokio::join!(sandbox.exec(exec(command), &heard, &cancel), trigger);
    let end = end.unwrap();
    assert!(end.cancelled && !end.timed_out);
    assert_eq!((end.exit, end.stdout.as_str()), (Some(7), "ready\nbye\n"));
    assert_eq!(bench.run(&sandbox, "ps | grep -c 'sleep 6[0-9]'").await.stdout, "0\n");
}

#[tokio::test]
async fn huge_output_keeps_head_and_tail() {
    let Some(bench) = Bench::new().await else { return };
    let sandbox = bench.open().await;
    let bytes: u64 = std::env::var("AGON_TEST_HUGE").ok().and_then(|n| n.parse().ok()).unwrap_or(20_000_000);
    let command = format!("echo first; head -c {bytes} /dev/zero | tr '\\0' x; echo; echo last");
    let end = bench.run_in(&sandbox, Exec { capture_cap: 1_000, ..exec(&command) }).await;
    assert!(end.stdout.starts_with("first\nxxx") && end.stdout.ends_with("xxx\nlast\n"), "{end:?}");
    assert!(end.stdout.contains(&format!("[… {} bytes left out …]", 6 + bytes + 1 + 5 - 1_000)));
    assert!(end.stdout.len() < 1_100);
}

#[tokio::test]
async fn commands_run_at_once_each_in_its_own_container() {
    let Some(bench) = Bench::new().await else { return };
    let sandbox = bench.open().await;
    let runs = (0..4).map(|i| {
        let sandbox = &sandbox;
        let bench = &bench;
        async move {
            // Each waits for all the others: none of them could end if one had to wait for its turn.
            let command =
                format!("touch w{i}; while [ $(ls | grep -c '^w') -lt 4 ]; do sleep 0.05; done; echo {i}");
            bench.run_in(sandbox, Exec { timeout_ms: 20_000, ..exec(&command) }).await.stdout
        }
    });
    assert_eq!(futures_util::future::join_all(runs).await, ["0\n", "1\n", "2\n", "3\n"]);
}

#[tokio::test]
async fn other_folders_are_shown_as_the_settings_say() {
    let Some(bench) = Bench::new().await else { return };
    let (read, write) = (bench.folder().join("read"), bench.folder().join("write +[x]"));
    for folder in [&read, &write] {
        fs::create_dir(folder).unwrap();
        fs::write(folder.join("f"), "shown").unwrap();
    }
    let row = |source: &std::path::Path, target: &str, writable| MountSettings {
        source: source.to_owned(),
        target: target.into(),
        writable,
    };
    let mounts = vec![row(&read, "/opt/read", false), row(&write, "/opt/write", true)];
    let sandbox = bench.open_with(DockerSettings { mounts, ..bench.settings() }).await.unwrap();
    let end = bench
        .run(&sandbox, "cat /opt/read/f /opt/write/f; echo new >/opt/write/g; echo no >/opt/read/g")
        .await;
    assert_eq!((end.stdout.as_str(), end.exit), ("shownshown", Some(1)), "{end:?}");
    assert!(write.join("g").exists() && !read.join("g").exists());
    assert!(sandbox.spec().gaps.contains(&format!("commands can read and change `{}`", write.display())));
}

/// A sandbox for the suite of all kinds.
async fn opened() -> Option<Opened> {
    let bench = Bench::new().await?;
    let (folder, sandbox) = bench.into_sandbox().await;
    let root = fs::canonicalize(folder.path().join("ws")).unwrap();
    Some(Opened { folder, root, sandbox })
}

contract::contract!(opened);

/// A workspace that is as somebody wants it before it is opened.
async fn opened_on(set: fn(&std::path::Path)) -> Option<Opened> {
    let bench = Bench::new().await?;
    set(&bench.root());
    let secrets = agon::session::policy::denied_to_all(&agon::session::policy::standard());
    let place = DockerPlace { secrets, ..bench.place() };
    let sandbox = DockerSandbox::open(bench.engine.clone(), bench.settings(), &place).await.unwrap();
    let root = fs::canonicalize(bench.root()).unwrap();
    Some(Opened { folder: bench.into_folder(), root, sandbox: Arc::new(sandbox) })
}

super::person::person!(opened_on);

#[tokio::test]
async fn the_repository_of_a_work_tree_is_seen_and_cannot_be_changed() {
    let Some(bench) = Bench::new().await else { return };
    let base = &fs::canonicalize(bench.folder()).unwrap();
    let Some(root) = worktree::set(base) else { return };
    let place = DockerPlace { root, ..bench.place() };
    let sandbox = DockerSandbox::open(bench.engine.clone(), bench.settings(), &place).await.unwrap();
    worktree::check(base, &bench.run(&sandbox, worktree::ATTACK).await);
    sandbox.close().await;
    let place = DockerPlace { own: vec![base.join("main/.git/state")], ..place };
    let sandbox = DockerSandbox::open(bench.engine.clone(), bench.settings(), &place).await.unwrap();
    let end = bench.run(&sandbox, "cat ../main/.git/HEAD; test -e ../main || echo unseen").await;
    assert_eq!(end.stdout, "unseen\n", "{end:?}");
}

#[tokio::test]
async fn no_forbidden_act_succeeds() {
    let Some(bench) = Bench::new().await else { return };
    let settings = DockerSettings { image: "agon-test-bash".into(), ..bench.settings() };
    escapes::every_forbidden_act_is_refused(
        bench.folder(),
        &["tool_credentials", "shown_socket", "git_open", "host_open", "port_open", "outside_open"],
        async |root| {
            let secrets = vec![agon::protocol::spec::DeniedPath::of("{,*/}{.env,.env.*}")];
            let place = DockerPlace { root: root.to_owned(), secrets, ..bench.place() };
            let sandbox = DockerSandbox::open(bench.engine.clone(), settings.clone(), &place).await.unwrap();
            let sandbox: Arc<dyn Sandbox> = Arc::new(sandbox);
            sandbox
        },
    )
    .await;
}
