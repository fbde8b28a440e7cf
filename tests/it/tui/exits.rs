//! Every way the screen ends or is interrupted leaves the terminal as it was; nobody's terminal stops the agents.

use std::time::Duration;

use agon::tui::screen::{self, Desk};
use agon::tui::{Act, Msg, Profile, State};
use rustix::process::Signal;

use super::pty::Terminal;
use crate::support::env::Env;

#[test]
fn every_signal_that_ends_it_gives_the_terminal_back() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let env = Env::new();
        let terminal = Terminal::start(&env, &[], 80, 24);
        terminal.wait_for("write a task");
        terminal.signal(signal);
        assert_eq!(terminal.end(), 130, "{signal:?}");
    }
}

#[test]
fn it_is_put_aside_and_taken_up_again() {
    let env = Env::new();
    let mut terminal = Terminal::start(&env, &["--model", "demo/script"], 80, 24);
    terminal.wait_for("write a task");
    terminal.press("half a sen\x1a");
    terminal.wait("the shell's turn", |_| terminal.is_stopped());
    terminal.check_given_back();
    terminal.signal(Signal::CONT);
    terminal.wait_for("❯ half a sen");
    terminal.press("tence");
    terminal.wait_for("❯ half a sentence");
    terminal.press("\x03\x03");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn a_terminal_that_disappears_ends_it() {
    let env = Env::new();
    let terminal = Terminal::start(&env, &[], 80, 24);
    terminal.wait_for("write a task");
    assert_eq!(terminal.vanish(), 130);
}

#[test]
fn agents_go_on_while_nobody_reads_the_screen() {
    let env = Env::new();
    let mut terminal = Terminal::start(&env, &["demo", "run", "--tui", "--yes"], 200, 60);
    terminal.hold(true);
    let end = std::time::Instant::now() + Duration::from_secs(60);
    let is_closed = || {
        let sessions = std::fs::read_dir(env.home().join("sessions")).into_iter().flatten().flatten();
        let logs = sessions
            .filter_map(|folder| std::fs::read_to_string(folder.path().join("log-000000.jsonl")).ok());
        logs.into_iter().any(|log| log.contains("turn_closed"))
    };
    while !is_closed() {
        assert!(std::time::Instant::now() < end, "the turn does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    terminal.hold(false);
    terminal.wait_for("── done");
    terminal.press("\x04");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn a_session_of_another_process_is_followed() {
    let env = Env::new();
    let mut first = Terminal::start(&env, &["demo", "run", "--tui"], 100, 30);
    first.wait_for("y once");
    let mut second = Terminal::start(&env, &["replay", "latest", "--tui"], 100, 30);
    second.wait_for("another agon works on this session");
    second.wait_for("record e8");
    std::thread::sleep(Duration::from_millis(500));
    first.press("n\r");
    second.wait("what the other one does", |screen| !screen.contains("record e8 "));
    first.signal(Signal::TERM);
    assert_eq!(first.end(), 130);
    second.press("q\r");
    assert_eq!(second.end(), 0);
}

/// A desk that breaks as soon as it is asked.
struct Broken;

impl Desk for Broken {
    async fn news(&mut self) -> Vec<Msg> {
        tokio::time::sleep(Duration::from_millis(200)).await;
        panic!("a desk that breaks")
    }

    fn perform(&mut self, _: Act) -> Vec<Msg> {
        Vec::new()
    }
}

/// Run by the test below in a terminal of its own.
#[test]
#[ignore = "draws on the terminal it is run in, and panics"]
fn a_screen_that_panics() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut state = State::new(Profile::default(), 80, 24);
    let _ = runtime.block_on(screen::run(&mut Broken, &mut state));
}

#[test]
fn a_panic_gives_the_terminal_back_and_is_told() {
    let env = Env::new();
    let program = std::env::current_exe().unwrap();
    let arguments = ["tui::exits::a_screen_that_panics", "--exact", "--ignored", "--no-capture"];
    let terminal = Terminal::of(&program, &env, &arguments, 80, 24);
    terminal.wait_for("a desk that breaks");
    assert_eq!(terminal.end(), 101);
}
