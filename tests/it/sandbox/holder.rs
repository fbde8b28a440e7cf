//! The process that holds what `local` shows, between two calls: what becomes of a call when it is gone, refused or out
//! of date, and what a call costs with it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use agon::ports::Exec;
use agon::sandbox::{LocalOptions, LocalSandbox};
use rustix::process::{Pid, Signal, kill_process};

use super::contract::{Opened, exec};
use super::docker::program::command_script;
use super::local::{can_be_had, open, options};
use crate::support::env::Env;

/// Prints the number of the file system that is the root of what a command sees.
const ROOT: &str =
    "while read -r _ _ device _ point _; do [ $point = / ] && echo $device; done </proc/self/mountinfo";

/// The process that holds this root, by its mounts.
fn holder(device: &str) -> Option<Pid> {
    let holds = |process: &Path| {
        let table = fs::read_to_string(process.join("mountinfo")).unwrap_or_default();
        table.lines().any(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            fields[2] == device && fields[4].ends_with("/root/new")
        })
    };
    let all = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let mut numbers = all.filter(|process| holds(process)).filter_map(|process| {
        process.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok())
    });
    numbers.next().and_then(Pid::from_raw)
}

#[tokio::test]
async fn a_holder_that_is_killed_between_two_calls_is_replaced_and_the_result_says_so() {
    let Some(opened) = open().await else { return };
    let first = opened.sh(ROOT).await;
    let held = holder(first.stdout.trim()).expect("somebody holds it");
    kill_process(held, Signal::KILL).unwrap();
    let second = opened.sh(ROOT).await;
    assert_eq!(second.notes.len(), 1, "{second:?}");
    assert!(second.stderr.contains("agon started another"), "{second:?}");
    let third = opened.sh(ROOT).await;
    assert_eq!((third.stdout.as_str(), third.notes.len()), (second.stdout.as_str(), 0), "it serves them all");
    let held = holder(third.stdout.trim()).unwrap();
    opened.sandbox.close().await;
    assert!(!Path::new(&format!("/proc/{}", held.as_raw_nonzero())).exists(), "it ends with its session");
}

#[tokio::test]
async fn a_holder_that_is_killed_takes_its_calls_with_it() {
    let Some(opened) = open().await else { return };
    let device = opened.sh(ROOT).await.stdout;
    let killed = async {
        while !opened.root.join("begun").exists() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        kill_process(holder(device.trim()).unwrap(), Signal::KILL).unwrap();
    };
    let (heard, never) = (super::contract::Heard::default(), Default::default());
    let command = exec("touch begun; while :; do echo x >>beat; sleep 0.02; done");
    let (end, ()) = tokio::join!(opened.sandbox.exec(command, &heard, &never), killed);
    assert!(end.is_err(), "{end:?}");
    let length = || fs::metadata(opened.root.join("beat")).map_or(0, |data| data.len());
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    let before = length();
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert_eq!(length(), before, "a process is still at work");
    assert_eq!(opened.sh("echo on").await.stdout, "on\n");
}

#[tokio::test]
async fn nothing_that_a_call_makes_outside_its_workspace_and_tmp_is_seen_by_another() {
    let Some(opened) = open().await else { return };
    let makes = "for p in $HOME /dev /dev/shm /run /var /etc / $HOME/.cargo; do echo x >$p/agon-made; done 2>/dev/null; \
                 mkdir -p /mnt/x $HOME/y/z; true";
    let looks =
        "ls -d /*/agon-made /agon-made /dev/shm/agon-made $HOME/agon-made $HOME/y /mnt 2>/dev/null; true";
    opened.sh(makes).await;
    assert_eq!(opened.sh(looks).await.stdout, "");
    // While it still runs.
    let waits = opened.sh("echo x >$HOME/agon-made; echo x >/dev/shm/agon-made; touch made; while [ ! -e seen ]; do sleep 0.01; done");
    let other = async {
        while !opened.root.join("made").exists() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        let end = opened.sh(looks).await;
        opened.put("seen", "");
        end.stdout
    };
    assert_eq!(tokio::join!(waits, other).1, "");
}

/// An editor and `rustup` put a new file in an old one's place.
#[tokio::test]
async fn what_is_replaced_outside_is_shown_and_stays_hidden() {
    if !can_be_had().await {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (root, tools) = (folder.path().join("ws"), folder.path().join("tools"));
    let put = |name: &str, text: &str| {
        fs::create_dir_all(tools.join(name).parent().unwrap()).unwrap();
        fs::write(tools.join("new"), text).unwrap();
        fs::rename(tools.join("new"), tools.join(name)).unwrap();
    };
    fs::create_dir(&root).unwrap();
    put("bin/version", "1");
    put("bin/auth.json", "TOKEN");
    let env = Env::new();
    let script = |command: &str| {
        let call = |command: &str| {
            format!(
                "[[answer]]\nspark = \"solo\"\ncalls = [{{ tool = \"bash\", args = {{ command = {} }} }}]\n",
                toml::Value::String(command.to_owned())
            )
        };
        let turn: String =
            [command, "touch asked; while [ ! -e done ]; do sleep 0.01; done", command].map(call).concat();
        format!("{turn}[[answer]]\nspark = \"solo\"\ntext = \"done\"\n")
    };
    env.config("model = \"mock/any\"\n[providers.mock]\nkind = \"script\"\nfile = \"mock.toml\"\n");
    let show = format!("cat {0}/version {0}/auth.json >>said; echo >>said", tools.join("bin").display());
    env.write("home/mock.toml", &script(&show));
    let path = format!("{}:{}", tools.join("bin").display(), std::env::var("PATH").unwrap());
    let mut child = env
        .command(&["run", "go", "--yes", "--sandbox", "local", "--workspace", root.to_str().unwrap()])
        .env("PATH", path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !root.join("asked").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it has ended");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    // The folder itself, and then what is in it.
    fs::rename(tools.join("bin"), tools.join("old")).unwrap();
    put("bin/version", "2");
    put("bin/auth.json", "TOKEN");
    fs::write(root.join("done"), "").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(fs::read_to_string(root.join("said")).unwrap(), "1\n2\n");
}

/// A kernel that gives a user one mount namespace and no second: calls do without the copy.
#[test]
fn where_copies_are_refused_each_call_mounts_for_itself() {
    let env = Env::new();
    env.config("model = \"mock/any\"\n[providers.mock]\nkind = \"script\"\nfile = \"mock.toml\"\n");
    env.write("home/mock.toml", &command_script("echo x >$HOME/x && [ ! -w /usr ] && touch made"));
    let run = |limit: &str, arguments: &[&str]| {
        let inner = format!("echo {limit} >/proc/sys/user/max_mnt_namespaces && exec \"$@\"");
        let mut apart = Command::new("unshare");
        apart.args(["--user", "--map-root-user", "sh", "-c", &inner, "sh", env!("CARGO_BIN_EXE_agon")]);
        let plain = env.command(&[]);
        apart.args(arguments).current_dir(env.work()).env_clear();
        apart.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        apart.stdin(Stdio::null()).output().unwrap()
    };
    let doctor = run("1", &["doctor"]);
    let told = String::from_utf8_lossy(&doctor.stdout);
    if doctor.stdout.is_empty() {
        assert!(std::env::var_os("AGON_NEEDS_LOCAL").is_none(), "{doctor:?}");
        return println!("skipped: {}", String::from_utf8_lossy(&doctor.stderr));
    }
    assert!(told.contains("which is slower: a copy is refused"), "{told}");
    let ran = run("1", &["run", "go", "--yes", "--sandbox", "local"]);
    assert!(ran.status.success() && env.work().join("made").exists(), "{ran:?}");
    let more = run("100", &["doctor"]);
    let told = String::from_utf8_lossy(&more.stdout);
    assert!(told.contains("each command starts from a prepared copy"), "{told}");
    let none = run("0", &["run", "go", "--yes", "--sandbox", "local"]);
    assert!(!none.status.success(), "the proof that is kept is of another machine: {none:?}");
}

#[tokio::test]
async fn a_proof_is_kept_and_thrown_away_when_a_call_cannot_be_set_up() {
    if !can_be_had().await {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (root, file) = (folder.path().join("ws"), folder.path().join("proofs"));
    fs::create_dir(&root).unwrap();
    let open = |program: &Path| {
        let options = LocalOptions { proofs: Some(file.clone()), program: program.to_owned(), ..options() };
        Arc::new(LocalSandbox::open(&root, options).unwrap())
    };
    let program = folder.path().join("agon");
    fs::copy(env!("CARGO_BIN_EXE_agon"), &program).unwrap();
    let sandbox = open(&program);
    sandbox.start().await.unwrap();
    let kept = fs::read_to_string(&file).unwrap();
    assert!(kept.contains("there is no network"), "{kept}");
    let again = open(&program);
    again.start().await.unwrap();
    use agon::ports::Sandbox;
    assert_eq!(again.spec().proven, sandbox.spec().proven);
    let failing = Opened::new(|_| open(&program));
    let nowhere = || Exec { cwd: "nowhere".into(), ..exec("true") };
    let heard = super::contract::Heard::default();
    let cancelled = tokio_util::sync::CancellationToken::new();
    cancelled.cancel();
    for (cancel, keeps) in [(cancelled, true), (Default::default(), false)] {
        assert!(failing.sandbox.exec(nowhere(), &heard, &cancel).await.is_err());
        assert_eq!(fs::read_to_string(&file).unwrap().contains("there is no network"), keeps);
    }
    // It is gone when its first call begins.
    fs::rename(&program, folder.path().join("other")).unwrap();
    let opened = Opened::new(|_| again);
    let end =
        opened.sandbox.exec(exec("true"), &super::contract::Heard::default(), &Default::default()).await;
    assert!(end.is_err(), "{end:?}");
    fs::rename(folder.path().join("other"), &program).unwrap();
    assert!(open(Path::new("/nowhere/agon")).start().await.is_err(), "another program has shown nothing");
}

/// What a call costs in system calls: they are the same on every machine, where times are not.
#[test]
fn a_call_makes_few_mounts_and_opens_few_files() {
    let counts = |calls: usize| {
        let env = Env::new();
        env.config("model = \"mock/any\"\n[providers.mock]\nkind = \"script\"\nfile = \"mock.toml\"\n");
        let call = |i| {
            format!(
                "[[answer]]\nspark = \"solo\"\ncalls = [{{ tool = \"bash\", args = {{ command = \"echo {i}\" }} }}]\n"
            )
        };
        let script: String = (0..calls).map(call).collect();
        env.write("home/mock.toml", &format!("{script}[[answer]]\nspark = \"solo\"\ntext = \"done\"\n"));
        let (plain, trace) = (env.command(&[]), env.home().join("trace"));
        let mut traced = Command::new("strace");
        traced
            .args(["-f", "-qq", "-e", "trace=openat,openat2,open,mount,execve,read,landlock_create_ruleset"])
            .arg("-o")
            .arg(&trace);
        traced.arg(env!("CARGO_BIN_EXE_agon")).args(["run", "go", "--yes", "--sandbox", "local"]);
        traced.current_dir(env.work()).env_clear();
        traced.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let ran = traced.stdin(Stdio::null()).output().ok()?;
        ran.status.success().then_some(())?;
        let trace = fs::read_to_string(&trace).ok()?;
        let count = |what: &str| trace.lines().filter(|line| line.contains(what)).count();
        let opened = count(" openat(") + count(" openat2(");
        let rulesets = count(" landlock_create_ruleset(");
        let files = [count(" read("), count("/proc/self/mountinfo")];
        Some([opened, count(" mount("), count(" execve("), rulesets, files[0], files[1]])
    };
    let (Some(few), Some(many)) = (counts(2), counts(7)) else {
        return println!("skipped: strace or namespaces cannot be had here");
    };
    let each: Vec<usize> = few.iter().zip(&many).map(|(few, many)| many.saturating_sub(*few) / 5).collect();
    println!("openat, mount, execve, Landlock rulesets, read, mountinfo for each call: {each:?}");
    // A ruleset is a question for the version, and itself.
    let most = [200, 45, 1, 2, 60, 1];
    assert!(each.iter().zip(most).all(|(each, most)| *each <= most), "{each:?}, at most {most:?}");
}
