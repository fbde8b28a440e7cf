//! A disk that is really full: a small tmpfs as the user's folder, in a mount namespace of its own.

use std::process::{Command, Output};

use serde_json::json;

use super::kit::*;
use crate::support::env::Env;
use crate::support::server::{Reply, Server};

/// Runs a shell script in which `$HOME` is a tmpfs of so many KiB; none where that may not be mounted.
pub fn on_small_disk(env: &Env, kib: u32, script: &str) -> Option<Output> {
    let mount = format!(
        "cp \"$HOME/config.toml\" /tmp/agon-config.$$ && mount -t tmpfs -o size={kib}k tmpfs \"$HOME\" && \
         mv /tmp/agon-config.$$ \"$HOME/config.toml\" || exit 99\n{script}"
    );
    let plain = env.command(&[]);
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &mount]).current_dir(env.work());
    command.env_clear().envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("AGON", plain.get_program());
    let output = command.output().ok()?;
    let refused =
        output.status.code() == Some(99) || String::from_utf8_lossy(&output.stderr).starts_with("unshare:");
    if refused {
        println!("skipped: no tmpfs may be mounted here: {}", String::from_utf8_lossy(&output.stderr));
        return None;
    }
    Some(output)
}

#[test]
fn a_full_disk_ends_the_run_with_the_reason_and_a_whole_log() {
    // The model asks for one long listing after the other, until nothing more can be recorded.
    let server = Server::start(|_, n| {
        call(
            &format!("x{n}"),
            "bash",
            json!({"command": format!("yes {n} | head -c 20000; echo {n} >> ran")}),
        )
    });
    let env = served(&server);
    let script = "\"$AGON\" run fill --yes; echo \"code $?\"; cp \"$HOME\"/sessions/*/log-000000.jsonl copy.jsonl; \
        \"$AGON\" verify latest; echo \"verify $?\"";
    let Some(output) = on_small_disk(&env, 300, script) else { return };
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(out.contains("code 2\n"), "{out}{err}");
    assert!(out.contains("verify 0\n"), "{out}{err}");
    assert_eq!(err.matches("error: ").count(), 1, "one clear error: {err}");
    assert!(err.contains("error: the disk is full"), "{err}");
    assert!(err.contains("hint: "), "{err}");
    let log = std::fs::read_to_string(env.work().join("copy.jsonl")).unwrap();
    let invoked = log.matches("\"kind\":\"tool_invoked\"").count();
    let ran = std::fs::read_to_string(env.work().join("ran")).unwrap().lines().count();
    assert!(ran <= invoked, "{ran} commands ran, {invoked} were recorded as ordered");
    assert!(log.lines().last().unwrap().contains("\"session_paused\""), "the log says so: {err}");
}

#[test]
fn a_disk_that_is_full_from_the_start_is_told_before_anything_is_asked() {
    let server = Server::start(|_, _| Reply::text("hello"));
    let env = served(&server);
    let script = "head -c 100000 /dev/zero > \"$HOME/filler\" 2>/dev/null; \"$AGON\" run x; echo \"code $?\"";
    let Some(output) = on_small_disk(&env, 16, script) else { return };
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(out.contains("code 2\n"), "{out}{err}");
    assert!(err.to_lowercase().contains("no space left") || err.contains("disk is full"), "{err}");
    assert_eq!(server.requests().len(), 0);
}
