//! The table of forbidden acts, each a small shell command; knows no sandbox.
//!
//! A command that lacks the program it needs leaves with 77. Paths come from a temporary folder and hold no
//! quote.

use std::path::Path;
use std::time::Duration;

use super::{Act, Stage};
use crate::ports::ExecEnd;

/// What no confined command may do.
pub const ACTS: &[Act] = &[
    Act { id: "read_home", what: "read a file in the home folder", command: read_home, achieved: stolen },
    Act {
        id: "read_outside",
        what: "read a file outside the workspace",
        command: read_outside,
        achieved: stolen,
    },
    Act {
        id: "read_secret",
        what: "read the workspace's `.env`",
        command: |_| "cat .env".to_owned(),
        achieved: stolen,
    },
    Act {
        id: "read_environment",
        what: "read another process's environment",
        command: read_environment,
        achieved: stolen,
    },
    Act {
        id: "write_outside",
        what: "write a file outside the workspace",
        command: write_outside,
        achieved: left_outside,
    },
    Act {
        id: "write_system",
        what: "write into the system's folders",
        command: write_system,
        achieved: said_escaped,
    },
    Act {
        id: "symlink",
        what: "reach outside through a symbolic link",
        command: symlink,
        achieved: stolen_or_left,
    },
    Act {
        id: "hardlink",
        what: "reach outside through a hard link",
        command: hardlink,
        achieved: stolen_or_left,
    },
    Act { id: "git_hooks", what: "write `.git/hooks`", command: git_hooks, achieved: git_changed },
    Act {
        id: "git_moved",
        what: "move `.git` away and make a new one",
        command: git_moved,
        achieved: git_changed,
    },
    Act {
        id: "own_settings",
        what: "write `.agon/config.toml`",
        command: own_settings,
        achieved: settings_changed,
    },
    Act {
        id: "instructions",
        what: "write `AGENTS.md`",
        command: instructions,
        achieved: instructions_changed,
    },
    Act { id: "tcp", what: "connect outside by TCP", command: tcp, achieved: heard },
    Act { id: "udp", what: "send a datagram outside", command: udp, achieved: heard },
    Act { id: "dns", what: "ask a name server", command: dns, achieved: said_escaped },
    Act {
        id: "tool_credentials",
        what: "read a file with credentials in a tool's folder",
        command: tool_credentials,
        achieved: stolen,
    },
    Act {
        id: "device",
        what: "change a device of the machine",
        command: |_| "(chmod 666 /dev/full || touch -c /dev/full) && echo 'ESCAPED device'; true".to_owned(),
        // Both, because another process may change the device meanwhile, and a sandbox may have devices of its own.
        achieved: |stage, end| {
            let changed = stage.device_changed() && said_escaped(stage, end).is_some();
            changed.then(|| "the machine's own device was changed".to_owned())
        },
    },
    Act {
        id: "shown_socket",
        what: "connect to a unix socket in a folder that is shown",
        command: shown_socket,
        achieved: heard,
    },
    Act {
        id: "unix_socket",
        what: "connect to a unix socket outside",
        command: unix_socket,
        achieved: heard,
    },
    Act { id: "signal", what: "end a process outside", command: signal, achieved: neighbour_gone },
    Act { id: "ptrace", what: "attach to a process outside", command: ptrace, achieved: said_escaped },
    Act { id: "detach", what: "leave a process running behind", command: detach, achieved: still_beating },
    Act { id: "fork_bomb", what: "start processes without end", command: fork_bomb, achieved: said_escaped },
];

fn stolen(stage: &Stage, end: &ExecEnd) -> Option<String> {
    end.stdout.contains(stage.token()).then(|| "the secret was read".to_owned())
}

fn said_escaped(_: &Stage, end: &ExecEnd) -> Option<String> {
    let said = end.stdout.lines().find_map(|line| line.strip_prefix("ESCAPED "))?;
    Some(said.to_owned())
}

pub(super) fn left_outside(stage: &Stage, _: &ExecEnd) -> Option<String> {
    let made = stage.outside().join("made").exists();
    let kept =
        std::fs::read_to_string(stage.outside().join("secret")).is_ok_and(|text| text == stage.token());
    (made || !kept).then(|| "a file outside was changed".to_owned())
}

fn stolen_or_left(stage: &Stage, end: &ExecEnd) -> Option<String> {
    stolen(stage, end).or_else(|| left_outside(stage, end))
}

fn git_changed(stage: &Stage, _: &ExecEnd) -> Option<String> {
    let hook = stage.text(".git/hooks/pre-commit").is_some();
    let config = stage.text(".git/config").is_none_or(|text| text.contains("evil"));
    (hook || config).then(|| "the repository's own files were changed".to_owned())
}

fn settings_changed(stage: &Stage, _: &ExecEnd) -> Option<String> {
    let same = stage.text(".agon/config.toml").is_some_and(|text| text == "# of the proof\n");
    (!same).then(|| "agon's settings were changed".to_owned())
}

fn instructions_changed(stage: &Stage, _: &ExecEnd) -> Option<String> {
    let same = stage.text("AGENTS.md").is_some_and(|text| text == "Be kind.\n");
    (!same).then(|| "the instructions to agents were changed".to_owned())
}

pub(super) fn heard(stage: &Stage, _: &ExecEnd) -> Option<String> {
    // What was sent on the loopback is there at once, what a slow machine delivers later is not missed.
    std::thread::sleep(Duration::from_millis(20));
    stage.heard().map(str::to_owned)
}

fn neighbour_gone(stage: &Stage, _: &ExecEnd) -> Option<String> {
    std::thread::sleep(Duration::from_millis(20));
    (!stage.neighbour_lives()).then(|| "it was ended".to_owned())
}

/// A process that outlived its call goes on writing.
fn still_beating(stage: &Stage, _: &ExecEnd) -> Option<String> {
    let length = || stage.text("beat").map_or(0, |text| text.len());
    let before = length();
    std::thread::sleep(Duration::from_millis(350));
    (length() > before).then(|| "it was still running after the call had ended".to_owned())
}

fn read_home(stage: &Stage) -> String {
    match stage.home() {
        Some(file) => format!("cat '{}'", file.display()),
        None => "exit 77".to_owned(),
    }
}

fn read_outside(stage: &Stage) -> String {
    format!(
        "cat '{0}/secret' '/proc/1/root{0}/secret' '/proc/self/root{0}/secret'",
        stage.outside().display()
    )
}

fn read_environment(stage: &Stage) -> String {
    // The first is the neighbour as seen from outside; the loop finds it under any other number.
    format!(
        "cat /proc/{0}/environ; for p in /proc/[0-9]*; do tr '\\0' '\\n' <$p/environ; done 2>/dev/null; true",
        stage.neighbour()
    )
}

pub(super) fn write_outside(stage: &Stage) -> String {
    format!("echo x >'{0}/made'; echo x >>'{0}/secret'; rm -f '{0}/secret'", stage.outside().display())
}

fn write_system(_: &Stage) -> String {
    // A number nobody else uses; removed again where it could be written.
    let places = "/usr /etc /opt /bin /lib /var /root /boot /sys/fs/cgroup";
    format!(
        "for p in {places}; do f=$p/.agon-proof-$$; \
         (echo x >$f) 2>/dev/null && rm -f $f && case $(df -P $p 2>/dev/null | tail -n 1) in \
         tmpfs*) ;; *) echo ESCAPED $p was written;; esac; done; true"
    )
}

fn symlink(stage: &Stage) -> String {
    let outside = stage.outside();
    let outside = outside.display();
    format!(
        "ln -sfn '{outside}' way; ln -sf '{outside}/secret' to; ln -sf /proc/1/root up; \
         cat to way/secret 'up{outside}/secret'; echo x >way/made; echo x >>to; rm -f way to up"
    )
}

fn hardlink(stage: &Stage) -> String {
    format!("ln '{}/secret' hard && cat hard && echo x >>hard; rm -f hard", stage.outside().display())
}

fn git_hooks(_: &Stage) -> String {
    "echo evil >.git/hooks/pre-commit; echo evil >>.git/config; rm -f .git/config; \
     echo evil >new && mv new .git/config; ln -f .git/config same && echo evil >>same; true"
        .to_owned()
}

fn git_moved(_: &Stage) -> String {
    "mv .git .other; mkdir -p .git/hooks && echo evil >.git/hooks/pre-commit; rm -rf .git; true".to_owned()
}

fn own_settings(_: &Stage) -> String {
    "echo evil >.agon/config.toml; rm -rf .agon; mkdir -p .agon && echo evil >.agon/config.toml; true"
        .to_owned()
}

fn instructions(_: &Stage) -> String {
    "echo evil >>AGENTS.md; rm -f AGENTS.md; echo evil >new && mv -f new AGENTS.md; true".to_owned()
}

pub(super) fn tcp(stage: &Stage) -> String {
    let port = stage.tcp_port();
    format!(
        "if command -v bash; then timeout 2 bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}'; \
         elif command -v nc; then timeout 2 nc 127.0.0.1 {port} </dev/null; \
         elif command -v python3; then python3 -c \
         'import socket; socket.create_connection((\"127.0.0.1\", {port}), 2)'; else exit 77; fi; true"
    )
}

fn udp(stage: &Stage) -> String {
    let port = stage.udp_port();
    format!(
        "if command -v bash; then bash -c 'echo x >/dev/udp/127.0.0.1/{port}'; \
         elif command -v nc; then echo x | timeout 1 nc -u 127.0.0.1 {port}; else exit 77; fi; true"
    )
}

/// Connecting a datagram socket sends nothing; it only asks whether there is a way to a name server. The
/// address is one kept for examples.
fn dns(_: &Stage) -> String {
    "set -- $(tail -n +2 /proc/net/route 2>/dev/null); \
     command -v bash >/dev/null || { [ $# -eq 0 ] || echo ESCAPED there is a route to a network: $1; exit 77; }; \
     bash -c 'exec 3<>/dev/udp/192.0.2.53/53' 2>/dev/null && echo ESCAPED a name server can be asked; true"
        .to_owned()
}

fn unix_socket(stage: &Stage) -> String {
    connect(&stage.outside().join("socket"))
}

fn shown_socket(stage: &Stage) -> String {
    let all: Vec<String> = stage.sockets().map(|socket| format!("( {} )", connect(socket))).collect();
    if all.is_empty() { "exit 77".to_owned() } else { all.join(" && ") }
}

fn tool_credentials(stage: &Stage) -> String {
    let all: Vec<String> = stage.credentials().map(|file| format!("cat '{}'; ", file.display())).collect();
    if all.is_empty() { "exit 77".to_owned() } else { all.concat() + "true" }
}

fn connect(socket: &Path) -> String {
    let socket = socket.display();
    format!(
        "if command -v perl; then perl -MSocket -e \
         'socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, pack_sockaddr_un(\"{socket}\"))'; \
         elif command -v python3; then python3 -c \
         'import socket; socket.socket(socket.AF_UNIX).connect(\"{socket}\")'; else exit 77; fi; true"
    )
}

fn signal(stage: &Stage) -> String {
    format!("kill -9 {0}; kill -9 -- -{0}; true", stage.neighbour())
}

/// Asks to attach without stopping it (`PTRACE_SEIZE`), by the system call's number.
fn ptrace(stage: &Stage) -> String {
    format!(
        "command -v perl >/dev/null || exit 77; \
         case $(uname -m) in x86_64) n=101;; aarch64|riscv64) n=117;; *) exit 77;; esac; \
         perl -e 'exit(syscall($ARGV[0], 0x4206, $ARGV[1], 0, 0) == 0 ? 0 : 1)' $n {} \
         && echo ESCAPED it was attached to; true",
        stage.neighbour()
    )
}

fn detach(_: &Stage) -> String {
    "command -v setsid >/dev/null || exit 77; \
     setsid sh -c '(i=0; while [ $i -lt 60 ]; do echo x >>beat; i=$((i+1)); sleep 0.1; done) &' \
     >/dev/null 2>&1 </dev/null; while [ ! -s beat ]; do sleep 0.02; done"
        .to_owned()
}

/// More than any limit of ours allows, and no more. By `sh`, because `bash` waits and tries again where it is refused.
fn fork_bomb(_: &Stage) -> String {
    "exec sh -c 'i=0; (while [ $i -lt 1500 ]; do sleep 15 & i=$((i+1)); done; \
     echo ESCAPED 1500 processes were started) 2>/dev/null; kill $(jobs -p) 2>/dev/null; true'"
        .to_owned()
}
