//! Mission control without a screen: lines of standard input are tasks and slash commands.

use std::io::{BufRead as _, Write as _};
use std::process::Stdio;

use rustix::process::Signal;

use super::run::{HELLO, WRITES, scripted, waits_for};
use crate::support::env::Env;
use crate::tui::pty::Terminal;

const TWO: &str = "[[answer]]\nspark = \"solo\"\nexpect = \"one\"\ntext = \"first\"\n\
                   [[answer]]\nspark = \"solo\"\nexpect = \"/two\"\ntext = \"second\"\n";

#[test]
fn lines_are_tasks_in_one_session_and_slash_commands_reach_no_model() {
    let env = scripted(TWO);
    let lines = "/help\none\n/rename mine\n /two is a path\n/sessions\n/new\n/cost\n";
    let ran = env.run_with(&["--plain"], lines.as_bytes());
    assert_eq!(ran.stdout.lines().filter(|line| ["first", "second"].contains(line)).count(), 2);
    assert!(ran.stderr.contains("/squad [FLAGS] TASK"), "{}", ran.stderr);
    assert!(ran.stdout.contains("  mine\n"), "{}", ran.stdout);
    // Once there is a new session, nothing of it can be shown: a script ends there.
    assert!(
        ran.stderr.ends_with("there is no session yet\nhint: a task begins one; /resume SESSION opens one\n")
    );
    assert_eq!(ran.code, 2);
    assert_eq!(env.run(&["verify", "latest"]).code, 0);
}

#[test]
fn an_unknown_slash_command_is_refused_before_a_model_is_paid_for_it() {
    let env = scripted(TWO);
    for (line, said) in [
        ("/nonsense\n", "there is no /nonsense; /help lists what there is"),
        ("/squad\n", "/squad expects a task"),
        ("/squad --json x y\n", "/squad has no `--json`"),
        ("/mode frog\n", "/mode expects solo, squad or debate"),
        ("/sandbox frog\n", "no sandbox is called `frog`"),
        ("/model\n", "/model expects PROVIDER/MODEL"),
        ("/model frog\n", "`frog`"),
        ("/model demo/x\n", "`demo/x` is the script of the demo and knows no other task"),
        ("/policy nope.toml\n", "there is no file"),
        ("/limits --max-steps\n", "--max-steps expects a value"),
        ("/resume nope\n", "nope"),
        ("/theme dark\n", "/theme is for the screen"),
    ] {
        let ran = env.run_with(&["--plain"], line.as_bytes());
        assert!(ran.code == 2 && ran.stderr.contains(said), "{line}{}", ran.stderr);
    }
    assert_eq!(env.run(&["sessions"]).stdout, "");
}

#[test]
fn what_is_set_counts_from_the_next_task_on_and_a_fork_is_gone_on_with() {
    let env = scripted(TWO);
    let lines = "/limits\none\n/fork\n/persona coder\n/limits --max-steps 7\n/limits\n/two\n";
    let ran = env.run_with(&["--plain"], lines.as_bytes());
    for told in ["in force: 100 model calls a turn\n", "in force: 7 model calls a turn\n"] {
        assert!(ran.stderr.contains(told), "{}", ran.stderr);
    }
    assert!(ran.stderr.contains("forked into"), "{}", ran.stderr);
    assert!(ran.stderr.contains("limits --max-steps 7, from the next task on"), "{}", ran.stderr);
    let ran = env.run_with(&["--plain", "--continue", "--max-steps", "7"], b" /two\n/events\n");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.starts_with("second\n"), "{}", ran.stdout);
}

#[test]
fn a_demo_among_the_lines_works_in_the_sandbox_that_was_asked_for() {
    let env = Env::new();
    let ran = env.run_with(&["--plain", "--sandbox", "none"], b"/demo run\n");
    assert!(ran.code == 0 && ran.stderr.contains("UNCONFINED"), "{}", ran.stderr);
}

/// The program at a terminal, in lines.
fn terminal(env: &Env) -> Terminal {
    Terminal::start(env, &["--plain", "--sandbox", "none"], 100, 60)
}

#[test]
fn at_a_terminal_an_interrupt_ends_the_task_and_one_more_leaves_and_says_how_to_go_on() {
    let waits = "[[answer]]\nspark = \"solo\"\ntext = \"slow\"\ndelay_ms = 60000\n";
    let env = scripted(&format!("{WRITES}{waits}"));
    let mut terminal = terminal(&env);
    terminal.wait_for("> ");
    terminal.press("first\r");
    terminal.wait_for("n REASON no: ");
    terminal.press("yes\r");
    terminal.wait_for("· session ");
    // What answered a question takes no line of what comes after it.
    terminal.press("second\r");
    terminal.wait_for("prompt    second");
    terminal.press("\x03");
    terminal.wait_for("interrupted; write on");
    terminal.press("/sessions\r");
    terminal.wait_for("stopped   first");
    terminal.press("\x03");
    terminal.wait_for("continue: agon run --resume");
    assert_eq!(terminal.end(), 130);
    assert_eq!(env.run(&["verify", "latest"]).code, 0);
}

#[test]
fn between_two_tasks_every_signal_that_asks_for_the_end_ends_it() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let env = scripted(HELLO);
        let mut terminal = terminal(&env);
        terminal.wait_for("> ");
        terminal.press("greet\r");
        terminal.wait_for("· session ");
        terminal.signal(signal);
        assert_eq!(terminal.end(), 130, "{signal:?}");
    }
}

#[test]
fn a_script_that_is_asked_to_end_while_a_task_is_being_opened_ends() {
    let env = scripted(&HELLO.repeat(100));
    let mut command = env.command(&["--plain", "--sandbox", "none"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all("hello\n".repeat(100).as_bytes()).unwrap();
    let mut answers = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
    answers.next().unwrap().unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::TERM).unwrap();
    assert!(answers.count() < 50);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn a_script_whose_task_is_interrupted_takes_no_further_line() {
    let env = scripted("[[answer]]\nspark = \"solo\"\ntext = \"slow\"\ndelay_ms = 60000\n");
    let mut command = env.command(&["--plain"]);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"one\nanother task\n").unwrap();
    waits_for(&env, "model_called");
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!env.run(&["sessions", "export", "latest"]).stdout.contains("another task"));
}
