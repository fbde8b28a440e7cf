//! Every way the screen ends or is interrupted leaves the terminal as it was; nobody's terminal stops the agents.

use std::io::Read;
use std::time::{Duration, Instant};

use agon::tui::screen::{self, Desk};
use agon::tui::{Act, Msg, Profile, State};
use rustix::process::Signal;

use portable_pty::{PtySize, native_pty_system};

use super::pty::{PATIENCE, Terminal, command};
use crate::support::env::Env;

#[test]
fn every_signal_that_ends_it_gives_the_terminal_back() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
        let env = Env::new();
        let terminal = Terminal::start(&env, &[], 80, 24);
        terminal.wait_for("write a task");
        terminal.signal(signal);
        assert_eq!(terminal.end(), 130, "{signal:?}");
    }
}

/// Only the program that leads a session gets a signal when its terminal is closed.
#[test]
fn a_terminal_that_is_closed_without_a_signal_ends_the_screen() {
    let env = Env::new();
    let pair = native_pty_system().openpty(PtySize::default()).unwrap();
    let mut begin = command(env!("CARGO_BIN_EXE_agon").as_ref(), &env, &[]);
    begin.set_controlling_tty(false);
    let mut child = pair.slave.spawn_command(begin).unwrap();
    drop(pair.slave);
    let mut reader = pair.master.try_clone_reader().unwrap();
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("write a task") {
        let mut bytes = [0; 4096];
        let count = reader.read(&mut bytes).unwrap();
        seen.extend_from_slice(&bytes[..count]);
    }
    drop((pair.master, reader));
    let end = Instant::now() + PATIENCE;
    while child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < end, "it does not end");
        std::thread::sleep(Duration::from_millis(20));
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
    terminal.press("\x03\x03\x03");
    assert_eq!(terminal.end(), 0);
}

/// A shell sets its own modes as soon as its job is stopped, whatever stopped it.
#[test]
fn it_takes_the_terminal_again_after_a_stop_it_did_not_see() {
    let env = Env::new();
    let mut terminal = Terminal::start(&env, &["--model", "demo/script"], 80, 24);
    terminal.wait_for("write a task");
    let ours = terminal.modes();
    terminal.signal(Signal::STOP);
    terminal.wait("it to be stopped", |_| terminal.is_stopped());
    terminal.set_sane();
    assert_ne!(terminal.modes(), ours);
    terminal.signal(Signal::CONT);
    terminal.wait("its own modes", |_| terminal.modes() == ours);
    terminal.press("half a sentence");
    terminal.wait_for("❯ half a sentence");
    terminal.press("\x03\x03\x03");
    assert_eq!(terminal.end(), 0);
}

/// While the shell has the terminal, nothing is drawn over its prompt and no mode of it is changed.
#[test]
fn it_leaves_the_terminal_to_the_shell_until_it_is_in_the_foreground() {
    let env = Env::new();
    let mut terminal = Terminal::of("/bin/sh".as_ref(), &env, &["-i"], 80, 24);
    let (program, before) = (env!("CARGO_BIN_EXE_agon"), terminal.modes());
    terminal.press(&format!("sh -c 'echo $$ > pid; exec {program} --model demo/script'\r"));
    terminal.wait_for("write a task");
    let ours = terminal.modes();
    let pid = std::fs::read_to_string(env.work().join("pid")).unwrap().trim().parse().unwrap();
    let agon = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(agon, Signal::STOP).unwrap();
    terminal.wait_for("Stopped");
    terminal.set_sane();
    terminal.press("printf '\\033[2J'; echo the-$((1+1))\r");
    terminal.wait_for("the-2");
    let shells = terminal.modes();
    rustix::process::kill_process(agon, Signal::CONT).unwrap();
    terminal.resize(90, 26);
    std::thread::sleep(Duration::from_millis(600));
    assert!(
        !terminal.text().contains("Enter sends") || terminal.text().contains("the-2"),
        "{}",
        terminal.text()
    );
    terminal.press("echo the-$((2+2))\r");
    terminal.wait_for("the-4");
    assert_eq!(terminal.modes(), shells);
    terminal.press("fg\r");
    terminal.wait("the screen", |screen| screen.contains("write a task") && !screen.contains("the-4"));
    terminal.wait("its own modes", |_| terminal.modes() == ours);
    terminal.press("/quit\r");
    terminal.wait("the modes from before", |_| terminal.modes() == before);
    terminal.press("exit\r");
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
    let projects = || std::fs::read_dir(env.temporary()).unwrap().flatten();
    let projects =
        || projects().filter(|one| one.file_name().to_string_lossy().starts_with("agon-demo-")).count();
    assert_eq!(projects(), 1, "the demo's project is there while its screen is");
    terminal.press("\x04");
    assert_eq!((terminal.end(), projects()), (0, 0), "and goes with it");
    let ran = env.run(&["demo", "run"]);
    assert_eq!((ran.code, projects()), (0, 0), "{ran}");
}

#[test]
fn a_session_of_another_process_is_followed() {
    let env = Env::new();
    let mut first = Terminal::start(&env, &["demo", "run", "--tui"], 100, 30);
    first.wait_for("y once");
    let mut second = Terminal::start(&env, &["replay", "latest", "--tui"], 100, 30);
    second.wait_for("another agon has this session open");
    second.wait_for("runs elsewhere e8");
    std::thread::sleep(Duration::from_millis(500));
    first.press("n\r");
    second.wait("what the other one does", |screen| !screen.contains("elsewhere e8 "));
    first.signal(Signal::TERM);
    assert_eq!(first.end(), 130);
    second.wait_for("record e");
    second.press("q\r");
    assert_eq!(second.end(), 0);
}

#[test]
fn a_damaged_log_is_no_welcome_page() {
    let env = Env::new();
    let whole = include_str!("../../golden/earlier/demo-run.jsonl");
    let (nothing, half) = (env.work().join("nothing.jsonl"), env.work().join("half.jsonl"));
    std::fs::write(&nothing, format!("X{whole}")).unwrap();
    let terminal = Terminal::start(&env, &["replay", nothing.to_str().unwrap(), "--tui"], 80, 24);
    assert_eq!(terminal.end(), 5);
    let at = whole.len() * 2 / 3;
    std::fs::write(&half, format!("{}XX{}", &whole[..at], &whole[at + 2..])).unwrap();
    let mut terminal = Terminal::start(&env, &["replay", half.to_str().unwrap(), "--tui"], 80, 24);
    terminal.wait_for(" ! ");
    terminal.wait_for("check.sh");
    terminal.press("k[[");
    terminal.wait("the fault to stay", |screen| screen.contains("◀ e") && screen.contains(" ! "));
    terminal.press("q\r");
    assert_eq!(terminal.end(), 0);
}

/// A desk that breaks as soon as it is asked.
struct Broken;

impl Desk for Broken {
    fn edit(&mut self, text: &str) -> Msg {
        Msg::Edited(text.to_owned())
    }

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
