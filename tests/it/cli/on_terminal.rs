//! Lines of JSON on a real terminal: the same values, and no character that steers or reorders it.

use std::io::Read;

use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use serde_json::Value;

use super::run::{log, scripted};
use crate::support::env::Env;

/// All the bytes the program writes to its terminal.
fn on_terminal(env: &Env, arguments: &[&str]) -> Vec<u8> {
    let pair = native_pty_system().openpty(PtySize::default()).unwrap();
    let plain = env.command(arguments);
    let mut command = CommandBuilder::new(plain.get_program());
    command.args(plain.get_args());
    command.cwd(env.work());
    command.env_clear();
    plain
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)))
        .for_each(|(name, value)| command.env(name, value));
    let mut child = pair.slave.spawn_command(command).unwrap();
    drop(pair.slave);
    let mut reader = pair.master.try_clone_reader().unwrap();
    let mut bytes = Vec::new();
    // A terminal whose last writer has gone is an error and no end.
    let _ = reader.read_to_end(&mut bytes);
    assert!(child.wait().unwrap().success(), "{}", String::from_utf8_lossy(&bytes));
    bytes
}

#[test]
fn json_lines_steer_no_terminal_and_are_the_logs_own_bytes_elsewhere() {
    let env =
        scripted("[[answer]]\nspark = \"solo\"\ntext = \"a\\u009b31m\\u009d0;t\\u009c \\u202eb\\u007f\"\n");
    let seen = on_terminal(&env, &["run", "greet", "--json", "--signals"]);
    assert!(log(&env).contains("\u{9b}31m"), "the log has it raw");
    let commands: [&[&str]; 3] = [
        &["replay", "latest", "--json"],
        &["sessions", "export", "latest"],
        &["replay", "latest", "--json", "--at", "3"],
    ];
    let seen = commands.iter().map(|arguments| on_terminal(&env, arguments)).chain([seen]);
    for bytes in seen {
        let text = String::from_utf8(bytes).unwrap();
        let steers = |c: &char| matches!(c, '\u{7f}'..='\u{9f}' | '\u{202a}'..='\u{202e}');
        assert_eq!(text.chars().find(steers), None, "{text:?}");
        assert!(text.contains("\\u009b31m") || text.lines().count() < 5, "{text}");
    }
    let bytes = on_terminal(&env, &["replay", "latest", "--json"]);
    let values =
        |text: &str| -> Vec<Value> { text.lines().map(|line| serde_json::from_str(line).unwrap()).collect() };
    assert_eq!(values(&String::from_utf8(bytes).unwrap()), values(&log(&env)));
    assert_eq!(env.run(&["replay", "latest", "--json"]).stdout, env.scrub(log(&env).as_bytes()));
}
