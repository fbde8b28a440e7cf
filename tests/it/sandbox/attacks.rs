//! Ways out of `local` that were tried by hand, each as a row; none may be one.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::Command;

use super::contract::exec;
use super::local::open;

/// A command that says `ESCAPED` and why when it got through, and what it tries.
const ROWS: &[(&str, &str)] = &[
    ("overwrite the program that is the first process", "(echo x >/proc/1/exe) 2>/dev/null && echo ESCAPED"),
    (
        "look at the first process's files",
        "ls -l /proc/1/fd 2>/dev/null | grep -q 'socket\\|/' && echo ESCAPED",
    ),
    ("write into the first process's memory", "(echo x >/proc/1/mem) 2>/dev/null && echo ESCAPED"),
    (
        "a descriptor that was left open",
        "ls -l /proc/self/fd | grep -v '/dev/null\\|pipe:\\|/proc/\\|^total' | grep -- '->' && echo ESCAPED",
    ),
    (
        "set what the kernel runs when a program dumps",
        "(echo '|/bin/sh' >/proc/sys/kernel/core_pattern) 2>/dev/null && echo ESCAPED",
    ),
    (
        "ask the kernel for a reboot by its trigger",
        "(echo h >/proc/sysrq-trigger) 2>/dev/null && echo ESCAPED",
    ),
    (
        "raise the number of processes again",
        "(echo 4194304 >/proc/sys/kernel/pid_max) 2>/dev/null && echo ESCAPED",
    ),
    ("see the control groups", "[ -e /sys/fs/cgroup ] && echo ESCAPED"),
    (
        "make a disk's device",
        "mknod /tmp/disk b 254 0 2>/dev/null && echo ESCAPED; mknod disk c 1 1 2>/dev/null && echo ESCAPED",
    ),
    (
        "mount something",
        "mount -t tmpfs none /mnt 2>/dev/null && echo ESCAPED; mount --bind / /tmp 2>/dev/null && echo ESCAPED",
    ),
    ("make the system writable", "mount -o remount,rw,bind /usr 2>/dev/null && echo ESCAPED"),
    (
        "take the cover off `.git`",
        "umount .git 2>/dev/null && echo ESCAPED; umount -l .git 2>/dev/null && echo ESCAPED",
    ),
    (
        "namespaces of one's own",
        "unshare -Ur true 2>/dev/null && echo ESCAPED; unshare -m true 2>/dev/null && echo ESCAPED",
    ),
    ("another's namespaces", "nsenter -t 1 -m true 2>/dev/null && echo ESCAPED"),
    ("another root", "chroot /tmp /bin/true 2>/dev/null && echo ESCAPED"),
    ("another clock", "date -s '2001-01-01' >/dev/null 2>&1 && echo ESCAPED"),
    ("another host name", "hostname evil 2>/dev/null && echo ESCAPED"),
    ("read what only root may", "cat /etc/shadow 2>/dev/null && echo ESCAPED"),
    ("open what nobody may", "chmod 644 /etc/shadow 2>/dev/null && [ -s /etc/shadow ] && echo ESCAPED"),
    ("a right of the file system's owner", "chown 1:1 Makefile 2>/dev/null && echo ESCAPED"),
    (
        "a terminal's input",
        "script -qc 'perl -e \"ioctl(STDIN, 0x5412, qq(x)) and print qq(ESC), qq(APED)\"' /dev/null 2>/dev/null",
    ),
    ("memory shared by key", "perl -e 'print qq(ESCAPED\\n) if defined shmget(0x61676f6e, 64, 0)'"),
];

/// System calls by number on x86_64 and aarch64. Anything but EPERM and ENOSYS says that the kernel took it.
const CALLS: &[(&str, u32, u32)] = &[
    ("ptrace", 101, 117),
    ("process_vm_readv", 310, 270),
    ("keyctl", 250, 219),
    ("add_key", 248, 217),
    ("bpf", 321, 280),
    ("userfaultfd", 323, 282),
    ("perf_event_open", 298, 241),
    ("io_uring_setup", 425, 425),
    ("unshare", 272, 97),
    ("setns", 308, 268),
    ("clone3", 435, 435),
    ("mount", 165, 40),
    ("open_tree", 428, 428),
    ("open_tree_attr", 467, 467),
    ("fsopen", 430, 430),
    ("mount_setattr", 442, 442),
    ("pivot_root", 155, 41),
    ("chroot", 161, 51),
    ("openat2", 437, 437),
    ("open_by_handle_at", 304, 265),
    ("kexec_load", 246, 104),
    ("pidfd_getfd", 438, 438),
    // The one that is allowed: without it a probe that never asks would look like one that is refused.
    ("getpid", 39, 172),
    ("x32 getpid", 0x4000_0027, 172 | 0x4000_0000),
];

#[tokio::test]
async fn none_is_a_way_out() {
    let Some(opened) = open().await else { return };
    opened.put(".git/HEAD", "ref: refs/heads/main\n");
    opened.put("Makefile", "all:\n");
    let shared = Command::new("perl").args(["-e", "print shmget(0x61676f6e, 64, 01666)"]).output();
    let mut holes = Vec::new();
    for (what, command) in ROWS {
        let end = opened.sh(command).await;
        if end.stdout.contains("ESCAPED") || end.timed_out {
            holes.push(format!("{what}: {end:?}"));
        }
    }
    if shared.is_ok() {
        let remove = "shmctl(shmget(0x61676f6e, 64, 0), 0, 0)";
        Command::new("perl").args(["-e", remove]).status().unwrap();
    }
    assert!(holes.is_empty(), "{holes:#?}");
}

#[tokio::test]
async fn the_kernel_refuses_what_no_build_needs() {
    let Some(opened) = open().await else { return };
    let mut holes = Vec::new();
    let has_perl = opened.sh("command -v perl").await.exit == Some(0);
    for (name, x86_64, aarch64) in CALLS {
        let number = match std::env::consts::ARCH {
            "x86_64" => x86_64,
            "aarch64" if *name != "x32 getpid" => aarch64,
            _ => continue,
        };
        let script = "$r = syscall($ARGV[0] + 0, 0, 0, 0, 0, 0); exit 0 if $r == -1 && ($! == 1 || $! == 38); \
                      print \"$r \", $! + 0; exit 1";
        let end =
            opened.sh(&format!("command -v perl >/dev/null || exit 0; perl -e '{script}' {number}")).await;
        let is_allowed = *name == "getpid" && end.exit == Some(1);
        if end.exit != Some(0) && !is_allowed {
            holes.push(format!("{name}: {end:?}"));
        }
        assert!(*name != "getpid" || is_allowed || !has_perl, "{end:?}");
    }
    for family in [3, 17, 38, 40] {
        let script = "exit(socket(S, $ARGV[0] + 0, 1, 0) ? 1 : 0)";
        let end =
            opened.sh(&format!("command -v perl >/dev/null || exit 0; perl -e '{script}' {family}")).await;
        if end.exit != Some(0) {
            holes.push(format!("a socket of family {family}: {end:?}"));
        }
    }
    assert!(holes.is_empty(), "{holes:#?}");
}

/// A file that runs with its owner's rights would keep them outside, for whoever starts it.
#[tokio::test]
async fn no_file_gets_to_run_with_its_owners_rights() {
    use std::os::unix::fs::PermissionsExt;
    let Some(opened) = open().await else { return };
    opened.put("there", "");
    let command = "chmod 4755 there; chmod u+s there; install -m 4755 /bin/sh installed; cp -p /usr/bin/passwd copied; \
                   perl -e 'use Fcntl; sysopen(F, q(opened), O_CREAT|O_WRONLY, 04755); chmod 06755, F; mkdir q(kept), 02755'; \
                   perl -e 'syscall(259, -100, q(made), 0104755, 0); syscall(452, -100, q(there), 04755, 0); syscall(85, q(creat), 04755)'; \
                   mkdir -m 2775 shared; chmod g+s shared; chmod 755 there && echo ok";
    let end = opened.sh(command).await;
    assert!(end.stdout.ends_with("ok\n"), "{end:?}");
    for entry in std::fs::read_dir(&opened.root).unwrap().map(Result::unwrap) {
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o4000, 0, "{:?} has mode {mode:o}: {end:?}", entry.file_name());
    }
}

#[tokio::test]
async fn an_abstract_socket_is_not_reached() {
    let Some(opened) = open().await else { return };
    let name = format!("agon-{}", opened.folder.path().file_name().unwrap().display());
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    listener.set_nonblocking(true).unwrap();
    let script =
        "socket(S, AF_UNIX, SOCK_STREAM, 0); print connect(S, pack_sockaddr_un(\"\\0$ARGV[0]\")) ? 1 : 0";
    let end =
        opened.sh(&format!("command -v perl >/dev/null || exit 0; perl -MSocket -e '{script}' {name}")).await;
    assert_ne!(end.stdout, "1", "{end:?}");
    assert!(listener.accept().is_err(), "somebody called");
}

#[tokio::test]
async fn links_laid_for_the_next_call_lead_it_nowhere() {
    let Some(opened) = open().await else { return };
    let above = opened.root.parent().unwrap().display();
    let command = format!(
        "mv '{above}' /tmp/away; rm -rf '{above}'; ln -s /etc '{above}'; ln -s /etc ws-link; \
         mv .git .g; ln -s /etc .git; rm -rf /tmp/.X11-unix; ln -s /root /tmp/root; true"
    );
    opened.sh(&command).await;
    let end = opened.sh("echo works >file; cat file").await;
    assert_eq!(end.stdout, "works\n", "{end:?}");
    assert_eq!(std::fs::read_to_string(opened.root.join("file")).unwrap(), "works\n");
}

#[tokio::test]
async fn one_that_ends_everything_in_reach_ends_only_its_own_call() {
    let Some(opened) = open().await else { return };
    let end = opened.sh("kill -9 1; kill -9 -1; echo still here").await;
    assert!(end.exit == Some(0) || end.signal == Some(9), "{end:?}");
    assert_eq!(opened.sh("echo next").await.stdout, "next\n");
}

#[tokio::test]
async fn a_disk_that_is_full_inside_is_the_commands_own_trouble() {
    let Some(opened) = open().await else { return };
    let end = opened.sh("head -c 200000000 /dev/zero >/dev/shm/full; echo $?; echo x >free; cat free").await;
    assert!(end.stdout.ends_with("1\nx\n") && end.stderr.contains("No space left"), "{end:?}");
    assert_eq!(opened.sh("ls /dev/shm | wc -l").await.stdout.trim(), "0", "gone with its call");
}

#[tokio::test]
async fn processes_without_end_are_counted_and_die_with_the_call() {
    let Some(opened) = open().await else { return };
    let command =
        "i=0; while [ $i -lt 3000 ]; do (setsid sleep 60 >/dev/null 2>&1 &) || exit 9; i=$((i+1)); done";
    let end = opened.run(agon::ports::Exec { timeout_ms: 30_000, ..exec(command) }).await;
    assert!(end.exit != Some(0) || end.timed_out, "{end:?}");
    assert_eq!(opened.sh("ls -d /proc/[0-9]* | wc -l").await.exit, Some(0));
}
