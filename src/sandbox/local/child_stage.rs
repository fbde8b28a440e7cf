//! The two stages that become the sandbox, each a process of its own: the first makes the namespaces, the second
//! is the first process in them. Both are single-threaded and know no workspace rules.
//!
//! Both talk to the parent over the socket that is their standard input: it brings the plan, and takes back lines
//! of what happened. When it closes, the parent is gone, and the sandbox ends.

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Pid, PidfdFlags, Signal, WaitOptions, WaitStatus};
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags};

use super::plan::StagePlan;
use super::{confine, loopback, mounts};

/// First argument of a program that is to become a sandbox.
pub const ENTRY: &str = "__agon_sandbox";

/// Becomes the sandbox if this process was started for that, and then never returns.
pub fn enter() {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_none_or(|first| first != ENTRY) {
        return;
    }
    let done = match arguments.next().as_ref().and_then(|stage| stage.to_str()) {
        Some("namespaces") => make_namespaces(),
        Some("init") => be_init(),
        Some("guard") => be_guard(),
        _ => Err("this is no command".to_owned()),
    };
    if let Err(error) = done {
        tell(&format!("failed {}", error.replace('\n', " ")));
        std::process::exit(1);
    }
    std::process::exit(0);
}

/// Stage one.
fn make_namespaces() -> Result<(), String> {
    yield_memory();
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let wanted = UnshareFlags::NEWUSER
        | UnshareFlags::NEWNS
        | UnshareFlags::NEWPID
        | UnshareFlags::NEWNET
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS
        | UnshareFlags::NEWCGROUP;
    #[expect(
        deprecated,
        reason = "its unsafe twin is about shared descriptor tables, which are not touched here"
    )]
    rustix::thread::unshare(wanted)
        .map_err(|error| format!("namespaces are refused here: {}", refusal_in_words(error)))?;
    let map = |file: &str, text: &str| {
        let words = |error: &std::io::Error| {
            Errno::from_io_error(error).map_or_else(|| error.to_string(), refusal_in_words)
        };
        std::fs::write(file, text)
            .map_err(|error| format!("namespaces are refused here: `{file}`: {}", words(&error)))
    };
    map("/proc/self/setgroups", "deny")?;
    map("/proc/self/uid_map", &format!("{uid} {uid} 1\n"))?;
    map("/proc/self/gid_map", &format!("{gid} {gid} 1\n"))?;
    keep_capabilities().map_err(|error| format!("the capabilities cannot be kept: {error}"))?;
    let mut init = Command::new("/proc/self/exe");
    init.arg0("agon-sandbox").args([ENTRY, "init"]).env_clear().stdin(Stdio::inherit());
    let mut init = init.spawn().map_err(|error| format!("the first process cannot be started: {error}"))?;
    tell(&format!("pid {}", init.id()));
    init.wait().map_err(|error| format!("the first process cannot be waited for: {error}"))?;
    Ok(())
}

/// The setting that refuses them, where one does; else the kernel's own words, which name none.
fn refusal_in_words(error: Errno) -> String {
    let closing = [
        ("/proc/sys/user/max_user_namespaces", "0"),
        ("/proc/sys/kernel/unprivileged_userns_clone", "0"),
        ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"),
    ];
    let closes =
        |(file, value): &(&str, &str)| std::fs::read_to_string(file).is_ok_and(|now| now.trim() == *value);
    match closing.into_iter().find(closes) {
        Some((file, value)) => format!("`{file}` is {value}"),
        None if error == Errno::NOSPC => "a limit of `/proc/sys/user/max_*_namespaces` is reached".to_owned(),
        None => error.to_string(),
    }
}

/// Where the machine runs out of memory, what runs in here is ended before agon and whatever else its user has open:
/// memory is limited for each process, not for all of them together.
fn yield_memory() {
    // A kernel that cannot be told so chooses as it always did.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
}

/// Another program may be started without losing what mounting needs.
fn keep_capabilities() -> rustix::io::Result<()> {
    let now = rustix::thread::capabilities(None)?;
    let kept = CapabilitySets { inheritable: now.permitted, ..now };
    rustix::thread::set_capabilities(None, kept)?;
    for capability in [CapabilitySet::SYS_ADMIN, CapabilitySet::NET_ADMIN, CapabilitySet::SETPCAP] {
        rustix::thread::configure_capability_in_ambient_set(capability, true)?;
    }
    Ok(())
}

/// Stage two: builds the view, gives up every right, starts the command and buries the dead until it ends. Its own
/// end is the end of everything in the namespace.
fn be_init() -> Result<(), String> {
    let system = |what: &str, error: rustix::io::Errno| format!("{what}: {error}");
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|e| system("death signal", e))?;
    // A session of its own: no terminal to type into, and a group the parent can signal.
    rustix::process::setsid().map_err(|e| system("session", e))?;
    let plan = read_plan()?;
    rustix::system::sethostname(b"agon").map_err(|e| system("host name", e))?;
    loopback::up().map_err(|error| format!("the loopback cannot be switched on: {error}"))?;
    mounts::build(&plan)?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|e| system("dumpable", e))?;
    confine::confine(&plan)?;
    let mut command = Command::new("sh");
    command.arg("-c").arg(&plan.command).current_dir(&plan.cwd).env_clear().envs(&plan.environment);
    let child = command.stdin(Stdio::null()).spawn().map_err(|e| format!("`sh` cannot be started: {e}"))?;
    let child = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or("the command has no number")?;
    match wait_for(child)? {
        Some(status) => tell(&words(status)),
        None => tell("failed the parent is gone"),
    }
    Ok(())
}

/// Where namespaces are refused: one process that takes rights from itself, starts the command in a group of its
/// own, and ends whatever the command leaves behind, which all falls to it.
fn be_guard() -> Result<(), String> {
    yield_memory();
    let system = |what: &str, error: rustix::io::Errno| format!("{what}: {error}");
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|e| system("subreaper", e))?;
    let plan = read_plan()?;
    confine::confine(&plan)?;
    let mut command = Command::new("sh");
    command.arg("-c").arg(&plan.command).current_dir(&plan.cwd).env_clear().envs(&plan.environment);
    let child = command.stdin(Stdio::null()).process_group(0).spawn();
    let child = child.map_err(|e| format!("`sh` cannot be started: {e}"))?;
    tell(&format!("pid {}", child.id()));
    let child = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or("the command has no number")?;
    let status = wait_for(child)?;
    end_children();
    match status {
        Some(status) => tell(&words(status)),
        None => tell("failed the parent is gone"),
    }
    Ok(())
}

/// Ends every child, and those that fall to this process when their parents end, until there is none.
fn end_children() {
    let list = format!("/proc/self/task/{}/children", rustix::thread::gettid().as_raw_nonzero());
    loop {
        let children = std::fs::read_to_string(&list).unwrap_or_default();
        for child in children.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)) {
            // One that is gone already is what was wanted.
            let _ = rustix::process::kill_process(child, Signal::KILL);
        }
        // Waits for one and looks again: it may have left children of its own.
        if rustix::process::wait(WaitOptions::empty()).is_err() {
            return;
        }
    }
}

fn read_plan() -> Result<StagePlan, String> {
    let mut text = Vec::new();
    std::io::stdin().read_to_end(&mut text).map_err(|error| format!("the plan cannot be read: {error}"))?;
    serde_json::from_slice(&text).map_err(|error| format!("the plan cannot be read: {error}"))
}

/// How the command ended; none when the parent went away before.
fn wait_for(child: Pid) -> Result<Option<WaitStatus>, String> {
    let watched = rustix::process::pidfd_open(child, PidfdFlags::empty())
        .map_err(|error| format!("the command cannot be watched: {error}"))?;
    let parent = std::io::stdin();
    loop {
        let mut fds = [
            PollFd::new(&watched, PollFlags::IN),
            PollFd::from_borrowed_fd(parent.as_fd(), PollFlags::empty()),
        ];
        let tick = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
        // Interrupted or not, the next round looks again.
        let _ = rustix::event::poll(&mut fds, Some(&tick));
        let is_alone = fds[1].revents().intersects(PollFlags::HUP | PollFlags::ERR);
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            if pid == child {
                return Ok(Some(status));
            }
        }
        if is_alone {
            return Ok(None);
        }
    }
}

fn words(status: WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "failed the command's end is not known".to_owned(),
    }
}

/// A line to the parent. When it cannot be told any more, it is not there any more.
fn tell(line: &str) {
    let _ = rustix::io::write(std::io::stdin().as_fd(), format!("{line}\n").as_bytes());
}
