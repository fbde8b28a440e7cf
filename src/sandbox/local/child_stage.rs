//! The processes that become the sandbox. One, the holder, is started with a session: it makes the mounts that stay the
//! same and waits. For each call it forks: one process makes the call's namespaces, with a copy of the mounts, and the
//! next is the first process in them. All are single-threaded and know no workspace rules.
//!
//! The holder talks to agon over the socket that is its standard input. A call has a socket of its own: it brings the
//! plan, and takes back lines of what happened. When a socket closes, agon is gone, and its process ends.

use std::ffi::OsString;
use std::io::{IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use rustix::process::{DumpableBehavior, Pid, PidfdFlags, Signal, WaitOptions, WaitStatus};
use rustix::thread::UnshareFlags;

use super::plan::{HeldPlan, StagePlan};
use super::{confine, door, loopback, mounts};

/// First argument of a program that is to become a sandbox.
pub const ENTRY: &str = "__agon_sandbox";

/// Becomes the sandbox if this process was started for that, and then never returns.
pub fn enter() {
    if std::env::args_os().nth(1).is_some_and(|first| first == ENTRY) {
        leave(be_holder());
    }
}

/// Ends this process with a word on what failed.
fn leave(done: Result<(), String>) -> ! {
    if let Err(error) = &done {
        tell(&format!("failed {}", error.replace('\n', " ")));
    }
    std::process::exit(i32::from(done.is_err()))
}

/// What comes with the order to carry out a call: its socket, and where its command writes.
struct Call {
    socket: OwnedFd,
    stdio: CallStdio,
    /// Where the sockets go out that listen in the call's network.
    door: OwnedFd,
}

/// What a call's command reads and writes.
struct CallStdio {
    outputs: [OwnedFd; 2],
    /// Only for a command that is talked with.
    input: Option<OwnedFd>,
}

/// Serves calls until agon is gone.
fn be_holder() -> Result<(), String> {
    yield_memory();
    // No terminal, and no signal that is meant for agon's own group.
    let _ = rustix::process::setsid();
    let plan = read_held()?;
    if plan.has_namespaces {
        own_namespaces()?;
        mounts::hold(&plan)?;
    }
    tell("ready");
    let mut running: Vec<(OwnedFd, safe_fork::Child)> = Vec::new();
    loop {
        if !wait_for_an_order(&mut running) {
            continue;
        }
        let Some(call) = receive()? else { return Ok(()) };
        match safe_fork::fork() {
            Ok(None) => {
                drop(running);
                serve(call, &plan)
            }
            Ok(Some(child)) => {
                let pid = i32::try_from(child.pid()).ok().and_then(Pid::from_raw);
                let watched = pid.and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok());
                running.extend(watched.map(|watched| (watched, child)));
            }
            // Its socket closes without a word.
            Err(_) => {}
        }
    }
}

/// Waits until agon says something or is gone; false when it was a call that ended.
fn wait_for_an_order(running: &mut Vec<(OwnedFd, safe_fork::Child)>) -> bool {
    let control = std::io::stdin();
    let mut fds = vec![PollFd::from_borrowed_fd(control.as_fd(), PollFlags::IN)];
    fds.extend(running.iter().map(|(watched, _)| PollFd::new(watched, PollFlags::IN)));
    // Interrupted, the next round looks again.
    let _ = rustix::event::poll(&mut fds, None);
    let has_order = !fds[0].revents().is_empty();
    let ended: Vec<bool> = fds[1..].iter().map(|fd| !fd.revents().is_empty()).collect();
    drop(fds);
    let mut ended = ended.into_iter();
    for (_, child) in running.extract_if(.., |_| ended.next() == Some(true)) {
        // Its end is all there is to know of it.
        let _ = child.join();
    }
    has_order
}

/// The next order; none when agon is gone.
fn receive() -> Result<Option<Call>, String> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(5))];
    let (mut came, mut word) = (RecvAncillaryBuffer::new(&mut space), [0_u8]);
    let control = std::io::stdin();
    let read = rustix::io::retry_on_intr(|| {
        let mut words = [IoSliceMut::new(&mut word)];
        rustix::net::recvmsg(control.as_fd(), &mut words, &mut came, RecvFlags::CMSG_CLOEXEC)
    });
    let mut fds = came.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => fds.collect(),
        _ => Vec::new(),
    });
    match (read.map(|read| read.bytes), fds.next(), fds.next(), fds.next(), fds.next()) {
        (Ok(1..), Some(socket), Some(stdout), Some(stderr), Some(door)) => {
            let stdio = CallStdio { outputs: [stdout, stderr], input: fds.next() };
            Ok(Some(Call { socket, stdio, door }))
        }
        (Ok(0), ..) => Ok(None),
        _ => Err("an order cannot be read".to_owned()),
    }
}

/// The plan of a session: its length in eight bytes, then its text.
fn read_held() -> Result<HeldPlan, String> {
    let failed = |error: &dyn std::fmt::Display| format!("the plan cannot be read: {error}");
    let mut control =
        std::fs::File::from(std::io::stdin().as_fd().try_clone_to_owned().map_err(|e| failed(&e))?);
    let mut length = [0; 8];
    control.read_exact(&mut length).map_err(|e| failed(&e))?;
    let mut text = Vec::new();
    control.take(u64::from_le_bytes(length)).read_to_end(&mut text).map_err(|e| failed(&e))?;
    serde_json::from_slice(&text).map_err(|e| failed(&e))
}

/// Carries out a call in a process of its own.
fn serve(call: Call, plan: &HeldPlan) -> ! {
    let Call { socket, stdio, door } = call;
    // From here on the call's socket is this process's ear and mouth.
    let heard = rustix::stdio::dup2_stdin(&socket).map_err(|error| format!("it cannot be heard: {error}"));
    drop(socket);
    leave(
        heard.and_then(
            |()| {
                if plan.has_namespaces { be_outer(plan, stdio, door) } else { be_guard(plan, stdio) }
            },
        ),
    )
}

#[expect(
    deprecated,
    reason = "its unsafe twin is about shared descriptor tables, which are not touched here"
)]
fn unshare(wanted: UnshareFlags) -> Result<(), String> {
    rustix::thread::unshare(wanted)
        .map_err(|error| format!("namespaces are refused here: {}", refusal_in_words(error)))
}

/// Users and mounts of the holder's own.
fn own_namespaces() -> Result<(), String> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?;
    let map = |file: &str, text: &str| {
        let words = |error: &std::io::Error| {
            Errno::from_io_error(error).map_or_else(|| error.to_string(), refusal_in_words)
        };
        std::fs::write(file, text)
            .map_err(|error| format!("namespaces are refused here: `{file}`: {}", words(&error)))
    };
    map("/proc/self/setgroups", "deny")?;
    map("/proc/self/uid_map", &format!("{uid} {uid} 1\n"))?;
    map("/proc/self/gid_map", &format!("{gid} {gid} 1\n"))
}

/// Makes the namespaces of a call and waits for the first process in them.
fn be_outer(plan: &HeldPlan, stdio: CallStdio, door: OwnedFd) -> Result<(), String> {
    end_with_parent()?;
    let mut wanted = UnshareFlags::NEWPID
        | UnshareFlags::NEWNET
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS
        | UnshareFlags::NEWCGROUP;
    wanted.set(UnshareFlags::NEWNS, !plan.is_single);
    if let Err(why) = unshare(wanted) {
        tell(&format!("refused {why}"));
        return Ok(());
    }
    let failed = |error: std::io::Error| format!("the first process cannot be started: {error}");
    let Some(init) = safe_fork::fork().map_err(failed)? else { leave(be_init(plan, stdio, door)) };
    drop((stdio, door));
    tell(&format!("pid {}", init.pid()));
    init.join().map(|_| ()).map_err(|error| format!("the first process cannot be waited for: {error}"))
}

fn end_with_parent() -> Result<(), String> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|e| format!("death signal: {e}"))
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

/// Where the machine runs out of memory, what runs in here is ended before agon and whatever else its user has open. A
/// limit of address space would refuse what sanitizers reserve and never use.
fn yield_memory() {
    // A kernel that cannot be told so chooses as it always did.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
}

/// The first process in a call's namespaces: builds the view, gives up every right, starts the command and buries the
/// dead until it ends. Its own end is the end of everything in the namespace.
fn be_init(held: &HeldPlan, stdio: CallStdio, door: OwnedFd) -> Result<(), String> {
    let system = |what: &str, error: rustix::io::Errno| format!("{what}: {error}");
    end_with_parent()?;
    // A session of its own: no terminal to type into, and a group the parent can signal.
    rustix::process::setsid().map_err(|e| system("session", e))?;
    let plan = read_plan()?;
    // The one name that every machine resolves without asking anybody.
    rustix::system::sethostname(b"localhost").map_err(|e| system("host name", e))?;
    loopback::up().map_err(|error| format!("the loopback cannot be switched on: {error}"))?;
    door::hand_out(door, &plan.listened)?;
    mounts::build(&held.base, &plan, held.limits.processes)?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|e| system("dumpable", e))?;
    confine::confine(held, &plan.layers().collect::<Vec<_>>())?;
    let child = begin(command(held, &plan, stdio))?;
    match wait_for(child)? {
        Some(status) => {
            tell(&format!("left {}", left_running()));
            tell(&words(status));
        }
        None => tell("failed the parent is gone"),
    }
    Ok(())
}

/// How many processes the command has left. Those that are just ending, as a server of git's that is hung up on, are given
/// a moment.
fn left_running() -> usize {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let mut left = 0;
    for _ in 0..40 {
        while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        left = numbers.filter(|number| *number != own).count();
        if left == 0 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    left
}

/// Where namespaces are refused: one process that takes rights from itself, starts the command in a group of its
/// own, and ends whatever the command leaves behind, which all falls to it.
fn be_guard(held: &HeldPlan, stdio: CallStdio) -> Result<(), String> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|error| format!("subreaper: {error}"))?;
    let plan = read_plan()?;
    confine::confine(held, &[])?;
    let mut command = command(held, &plan, stdio);
    command.process_group(0);
    let child = begin(command)?;
    tell(&format!("pid {}", child.as_raw_nonzero()));
    let status = wait_for(child)?;
    end_children();
    match status {
        Some(status) => tell(&words(status)),
        None => tell("failed the parent is gone"),
    }
    Ok(())
}

fn command(held: &HeldPlan, plan: &StagePlan, stdio: CallStdio) -> Command {
    let mut command = Command::new(&held.shell);
    let [stdout, stderr] = stdio.outputs.map(Stdio::from);
    let stdin = stdio.input.map_or_else(Stdio::null, Stdio::from);
    let arguments = [OsString::from("-c"), OsString::from(&plan.command)];
    command.args(arguments).current_dir(&plan.cwd).env_clear().envs(&held.environment);
    command.envs(&plan.environment);
    command.arg0("sh").stdin(stdin).stdout(stdout).stderr(stderr);
    command
}

/// Starts it, unless the parent has gone away. From then on only the command holds its outputs.
fn begin(mut command: Command) -> Result<Pid, String> {
    let parent = std::io::stdin();
    let mut fds = [PollFd::from_borrowed_fd(parent.as_fd(), PollFlags::empty())];
    if rustix::event::poll(&mut fds, Some(&Timespec::default())).is_ok_and(|gone| gone > 0) {
        return Err("the parent is gone".to_owned());
    }
    let child = command.spawn().map_err(|e| format!("`sh` cannot be started: {e}"))?;
    i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| "the command has no number".to_owned())
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
