//! What every kind of sandbox must do, whichever it is: one suite, run unchanged for each.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agon::ports::{Checks, Exec, ExecEnd, Live, Opens, Sandbox};
use agon::protocol::Lane;
use agon::protocol::event::PathBase;
use agon::sandbox::SandboxChecks;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

pub use super::odd_names::tools_take_names_of_every_kind_to_the_letter;

/// Makes a module's tests of the suite. `open` is an `async fn() -> Option<Opened>`; none: not to be had here.
macro_rules! contract {
    ($open:path) => {
        $crate::sandbox::contract::contract!(@each $open;
            a_command_reports_code_signal_and_both_streams
            the_environment_holds_few_names_and_no_descriptor_of_ours
            time_running_out_ends_everything
            a_command_that_is_stopped_may_say_goodbye
            cancelling_ends_everything
            a_call_that_is_dropped_leaves_nothing_running
            a_background_child_that_holds_the_pipe_holds_nobody
            huge_output_keeps_head_and_tail_and_says_how_much_is_gone
            checks_report_code_and_output
            names_of_every_kind_are_the_same_inside_and_outside
            tools_take_names_of_every_kind_to_the_letter
            files_of_tools_and_of_commands_are_the_same_files
            calls_at_once_do_not_meet
            a_closed_sandbox_leaves_the_workspace_alone
        );
    };
    (@each $open:path; $($name:ident)*) => {
        $(
            #[tokio::test]
            async fn $name() {
                match $open().await {
                    Some(opened) => $crate::sandbox::contract::$name(opened).await,
                    None => println!("skipped: this kind of sandbox is not to be had here"),
                }
            }
        )*
    };
}
pub(crate) use contract;

/// A sandbox and its workspace.
pub struct Opened {
    /// What is removed in the end.
    pub folder: TempDir,
    /// The workspace.
    pub root: PathBuf,
    /// The sandbox.
    pub sandbox: Arc<dyn Sandbox>,
}

impl Opened {
    /// A new workspace `ws` with something secret beside it, opened.
    pub fn new(open: impl FnOnce(&Path) -> Arc<dyn Sandbox>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("ws")).unwrap();
        fs::create_dir(folder.path().join("ws-evil")).unwrap();
        fs::write(folder.path().join("ws-evil/secret"), "secret").unwrap();
        let root = fs::canonicalize(folder.path().join("ws")).unwrap();
        let sandbox = open(&root);
        Opened { folder, root, sandbox }
    }

    /// Writes a file of the workspace, from outside.
    pub fn put(&self, path: &str, content: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Runs a command to its end.
    pub async fn run(&self, exec: Exec) -> ExecEnd {
        read(self.sandbox.exec(exec, &Heard::default(), &CancellationToken::new()).await.unwrap())
    }

    /// Runs a command line to its end.
    pub async fn sh(&self, command: &str) -> ExecEnd {
        self.run(exec(command)).await
    }

    /// Runs a command and cancels it once it has said something.
    async fn cancelled(&self, command: &str) -> ExecEnd {
        let (heard, cancel) = (Heard::default(), CancellationToken::new());
        let trigger = async {
            while !heard.lane(Lane::Stdout).ends_with('\n') {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            cancel.cancel();
        };
        let (end, ()) = tokio::join!(self.sandbox.exec(exec(command), &heard, &cancel), trigger);
        end.unwrap()
    }

    /// Waits until nobody writes to the file any more. Whoever beats in it does so every 20 ms.
    async fn quiet(&self, path: &str) {
        let length = || fs::metadata(self.root.join(path)).map_or(0, |data| data.len());
        assert!(length() > 0, "nobody was ever at work");
        for _ in 0..50 {
            let before = length();
            tokio::time::sleep(Duration::from_millis(200)).await;
            if length() == before {
                return;
            }
        }
        panic!("a process is still at work");
    }
}

/// A shell loop that writes a byte into `beat` again and again for half a minute, deaf to a polite request.
const BEATS: &str = "(trap '' TERM HUP INT; i=0; while [ $i -lt 1500 ]; do echo x >>beat; i=$((i+1)); \
                     sleep 0.02; done)";
/// Waits for the first beat.
const BEATEN: &str = "while [ ! -s beat ]; do sleep 0.02; done";

/// Collects the live lanes.
#[derive(Default)]
pub struct Heard(Mutex<Vec<(Lane, String)>>);

impl Live for Heard {
    fn push(&self, lane: Lane, text: &str) {
        self.0.lock().unwrap().push((lane, text.to_owned()));
    }
}

impl Heard {
    /// One lane's text.
    pub fn lane(&self, lane: Lane) -> String {
        self.0.lock().unwrap().iter().filter(|(l, _)| *l == lane).map(|(_, text)| text.as_str()).collect()
    }
}

/// A command line in the root with a minute of time.
pub fn exec(command: &str) -> Exec {
    Exec {
        command: command.into(),
        cwd: String::new(),
        timeout_ms: 60_000,
        capture_cap: 64 * 1024,
        opens: Opens::default(),
        background: false,
    }
}

/// Runs a command line in any sandbox to its end.
pub async fn run(sandbox: &dyn Sandbox, command: &str) -> ExecEnd {
    read(sandbox.exec(exec(command), &Heard::default(), &CancellationToken::new()).await.unwrap())
}

/// With agon's own lines after what the command wrote.
pub fn read(end: ExecEnd) -> ExecEnd {
    ExecEnd { stderr: format!("{}{}", end.stderr, end.said()), ..end }
}

pub async fn a_command_reports_code_signal_and_both_streams(opened: Opened) {
    opened.put("sub/x", "");
    let (heard, never) = (Heard::default(), CancellationToken::new());
    let end = opened.sandbox.exec(exec("echo out; echo err >&2; exit 3"), &heard, &never).await.unwrap();
    assert_eq!(
        (end.exit, end.signal, end.timed_out, end.cancelled),
        (Some(3), None, false, false),
        "{end:?}"
    );
    assert_eq!((end.stdout.as_str(), end.stderr.as_str()), ("out\n", "err\n"));
    assert_eq!((heard.lane(Lane::Stdout), heard.lane(Lane::Stderr)), ("out\n".into(), "err\n".into()));
    for (command, exit, signal) in [
        ("exit 0", Some(0), None),
        ("exit 127", Some(127), None),
        ("exit 137", Some(137), None),
        ("kill -9 $$", None, Some(9)),
        ("kill -15 $$", None, Some(15)),
        ("no-such-program-at-all", Some(127), None),
    ] {
        let end = opened.sh(command).await;
        assert_eq!((end.exit, end.signal), (exit, signal), "{command}");
    }
    let end = opened.run(Exec { cwd: "sub".into(), ..exec("pwd; cat") }).await;
    assert_eq!(end.stdout, format!("{}/sub\n", opened.root.display()), "empty standard input");
    for cwd in ["..", "missing", "sub/x", "/etc"] {
        let exec = Exec { cwd: cwd.into(), ..exec("true") };
        assert!(opened.sandbox.exec(exec, &heard, &never).await.is_err(), "{cwd}");
    }
}

pub async fn the_environment_holds_few_names_and_no_descriptor_of_ours(opened: Opened) {
    let end = opened.sh("env | cut -d= -f1").await;
    let allowed =
        ["PATH", "HOME", "LANG", "TERM", "USER", "TMPDIR", "PWD", "OLDPWD", "SHLVL", "_", "HOSTNAME"];
    let tools = [
        "CARGO_HOME",
        "RUSTUP_HOME",
        "GOPATH",
        "NVM_DIR",
        "PYENV_ROOT",
        "RUSTC_WRAPPER",
        "npm_config_cache",
        "npm_config_update_notifier",
        "PIP_CACHE_DIR",
        "UV_CACHE_DIR",
        "GOCACHE",
        "GIT_EDITOR",
        "GIT_TERMINAL_PROMPT",
        "LSAN_OPTIONS",
        "COREPACK_HOME",
        "SSH_AUTH_SOCK",
        "XDG_RUNTIME_DIR",
        "GPG_TTY",
    ];
    // How tools find agon's proxy.
    let is_of_the_proxy = |name: &str| {
        let of_java = ["MAVEN_OPTS", "GRADLE_OPTS", "JAVA_OPTS"];
        let retries = ["CARGO_NET_RETRY", "PIP_RETRIES", "npm_config_fetch_retries"];
        let is_setting = agon::sandbox::proxy::origins::is_passed_on(name);
        is_setting
            || name.to_lowercase().contains("proxy")
            || of_java.contains(&name)
            || retries.contains(&name)
    };
    let is_of_git = |name: &str| name.starts_with("GIT_CONFIG_");
    let names: Vec<&str> = end.stdout.lines().collect();
    assert!(names.contains(&"PATH") && names.contains(&"TERM"), "{names:?}");
    assert!(
        names.iter().all(|name| {
            allowed.contains(name) || tools.contains(name) || is_of_the_proxy(name) || is_of_git(name)
        }),
        "{names:?}"
    );
    // What agon opened itself is never passed on; what it was started with by others may be.
    let _held = fs::File::open(opened.folder.path().join("ws-evil/secret")).unwrap();
    let end = opened.sh("ls -l /proc/self/fd /dev/fd/").await;
    assert!(!end.stdout.contains("ws-evil"), "{}", end.stdout);
}

pub async fn time_running_out_ends_everything(opened: Opened) {
    let command = format!("trap '' TERM; {BEATS} & {BEATEN}; echo started; sleep 600; sleep 600");
    let end = opened.run(Exec { timeout_ms: 2_000, ..exec(&command) }).await;
    assert!(end.timed_out && !end.cancelled && end.exit != Some(0), "{end:?}");
    assert_eq!(end.stdout, "started\n");
    opened.quiet("beat").await;
}

pub async fn a_command_that_is_stopped_may_say_goodbye(opened: Opened) {
    let end = opened.cancelled("trap 'echo bye; exit 7' TERM; sleep 600 & echo ready; wait").await;
    assert!(end.cancelled);
    assert_eq!((end.exit, end.stdout.as_str()), (Some(7), "ready\nbye\n"));
}

pub async fn cancelling_ends_everything(opened: Opened) {
    let end = opened.cancelled(&format!("{BEATS} & {BEATEN}; echo started; wait")).await;
    assert!(end.cancelled && !end.timed_out && end.exit != Some(0), "{end:?}");
    opened.quiet("beat").await;
}

pub async fn a_call_that_is_dropped_leaves_nothing_running(opened: Opened) {
    let (heard, never) = (Heard::default(), CancellationToken::new());
    {
        let command = exec(&format!("{BEATS} & {BEATEN}; echo started; wait"));
        let mut running = std::pin::pin!(opened.sandbox.exec(command, &heard, &never));
        while !heard.lane(Lane::Stdout).ends_with('\n') {
            let tick = tokio::time::sleep(Duration::from_millis(5));
            tokio::select! { _ = &mut running => panic!("ended by itself"), () = tick => {} }
        }
    }
    opened.quiet("beat").await;
}

pub async fn a_background_child_that_holds_the_pipe_holds_nobody(opened: Opened) {
    let end = opened.sh(&format!("{BEATS} & {BEATEN}; echo started")).await;
    assert_eq!((end.exit, end.timed_out, end.stdout.as_str()), (Some(0), false, "started\n"));
    opened.quiet("beat").await;
    fs::remove_file(opened.root.join("beat")).unwrap();
    opened.sh(&format!("{BEATS} >/dev/null 2>&1 & {BEATEN}")).await;
    opened.quiet("beat").await;
    // One that left the group may outlive the call where nothing is confined, yet its pipe is not waited for.
    let left = opened.sh("command -v setsid >/dev/null && setsid sleep 5 & echo started").await;
    assert_eq!((left.exit, left.stdout.as_str()), (Some(0), "started\n"));
}

pub async fn huge_output_keeps_head_and_tail_and_says_how_much_is_gone(opened: Opened) {
    let command = "echo first; head -c 5000000 /dev/zero | tr '\\0' x; echo; echo last";
    let end = opened.run(Exec { capture_cap: 1_000, ..exec(command) }).await;
    assert!(end.stdout.starts_with("first\nxxx") && end.stdout.ends_with("xxx\nlast\n"));
    assert!(end.stdout.contains(&format!("[… {} bytes left out …]", 6 + 5_000_000 + 1 + 5 - 1_000)));
    assert!(end.stdout.len() < 1_100);
    // What a program floods its pipe with is dropped as it comes: 1 GB with AGON_LONG, else a tenth.
    let bytes = if std::env::var_os("AGON_LONG").is_some() { 1_000_000_000 } else { 100_000_000 };
    let end =
        opened.run(Exec { capture_cap: 1_000, ..exec(&format!("head -c {bytes} /dev/zero >&2")) }).await;
    assert_eq!(end.exit, Some(0));
    assert!(end.stderr.len() < 1_100 && end.stderr.contains(&format!("{} bytes left out", bytes - 1_000)));
}

pub async fn checks_report_code_and_output(opened: Opened) {
    let checks = SandboxChecks::new(opened.sandbox.clone());
    let (heard, never) = (Heard::default(), CancellationToken::new());
    let ran = checks.run("printf out; printf err >&2; exit 1", 60_000, &heard, &never).await;
    assert_eq!((ran.exit, ran.output.as_str()), (Some(1), "out\nerr"));
    let ran = checks.run("trap 'exit 0' TERM; sleep 600 & wait", 400, &heard, &never).await;
    assert_eq!(ran.exit, None, "a check that was stopped has not passed");
    assert!(ran.output.contains("time ran out"), "{}", ran.output);
    let ran = checks.run("yes | head -c 1000000; yes no | head -c 1000000 >&2", 60_000, &heard, &never);
    assert!(ran.await.output.len() <= 64 * 1024);
}

pub async fn names_of_every_kind_are_the_same_inside_and_outside(opened: Opened) {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    let names: &[&[u8]] = &[
        b"with spaces  and tabs\t",
        b"quote'and\"double`back",
        b"new\nline",
        b"$(touch pwned)",
        b"-rf",
        b"*",
        b"[id].tsx",
        b"+page.svelte",
        b"back\\slash",
        b"not utf-8 \xff\xfe",
        "ünïcödé 漢字 🦀".as_bytes(),
    ];
    fs::create_dir_all(opened.root.join("@scope/odd")).unwrap();
    for name in names {
        let name = OsString::from_vec(name.to_vec());
        fs::write(opened.root.join("@scope/odd").join(&name), name.as_encoded_bytes()).unwrap();
    }
    // Every file is copied under its own name, which also stands in it.
    let command = "mkdir ../copy && for f in ./* ; do cat \"$f\" >\"../copy/$f\" || exit 1; done";
    let end = opened.run(Exec { cwd: "@scope/odd".into(), ..exec(command) }).await;
    assert_eq!((end.exit, end.stderr.as_str()), (Some(0), ""));
    let copied = fs::read_dir(opened.root.join("@scope/copy")).unwrap().map(Result::unwrap);
    let mut count = 0;
    for entry in copied {
        assert_eq!(fs::read(entry.path()).unwrap(), entry.file_name().as_encoded_bytes());
        count += 1;
    }
    assert_eq!(count, names.len());
    assert!(!opened.root.join("pwned").exists() && !opened.root.join("@scope/odd/pwned").exists());
    opened.put("+page/[slug]/a b'c", "");
    let end = opened.run(Exec { cwd: "+page/[slug]".into(), ..exec("pwd; ls") }).await;
    assert_eq!(end.stdout, format!("{}/+page/[slug]\na b'c\n", opened.root.display()));
}

pub async fn files_of_tools_and_of_commands_are_the_same_files(opened: Opened) {
    let files = opened.sandbox.files();
    files.write("a/tool", b"by a tool\n", &PathBase { path: "a/tool".into(), sha256: None }).unwrap();
    let end = opened.sh("cat a/tool; echo by a command >a/command; chmod 640 a/command").await;
    assert_eq!(end.stdout, "by a tool\n", "{end:?}");
    assert_eq!(files.read("a/command", 100).unwrap(), b"by a command\n");
    use std::os::unix::fs::MetadataExt;
    let (made, ours) = (fs::metadata(opened.root.join("a/command")), fs::metadata(&opened.root));
    assert_eq!(made.unwrap().uid(), ours.unwrap().uid(), "files belong to the caller");
    let sha256 = files.digest("a/command").unwrap();
    files.write("a/command", b"again\n", &PathBase { path: "a/command".into(), sha256 }).unwrap();
    assert_eq!(opened.sh("cat a/command; rm -r a").await.stdout, "again\n");
    assert!(!opened.root.join("a").exists());
}

pub async fn calls_at_once_do_not_meet(opened: Opened) {
    let calls = (0..8).map(|i| {
        let (sandbox, command) =
            (opened.sandbox.clone(), format!("echo {i} >f{i}; sleep 0.1; cat f{i}; exit {i}"));
        async move {
            let (heard, never) = (Heard::default(), CancellationToken::new());
            let end = sandbox.exec(exec(&command), &heard, &never).await.unwrap();
            assert_eq!((end.exit, end.stdout), (Some(i), format!("{i}\n")));
        }
    });
    futures_util::future::join_all(calls).await;
}

pub async fn a_closed_sandbox_leaves_the_workspace_alone(opened: Opened) {
    opened.put("kept", "1");
    opened.sh("echo 2 >made").await;
    opened.sandbox.close().await;
    let mut names: Vec<_> = fs::read_dir(&opened.root)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["kept", "made"]);
}
