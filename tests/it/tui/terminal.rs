//! The real program in a real pseudo-terminal: keys, an approval, resize, signals, and the terminal as it was before.

use std::io::{Read, Write};
use std::num::NonZero;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, SlavePty, native_pty_system};

use crate::support::env::Env;

/// How long something may take on a busy machine before a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

struct Terminal {
    master: Box<dyn MasterPty + Send>,
    /// Kept open, so that the modes can be read once the program is gone.
    _slave: Box<dyn SlavePty + Send>,
    writer: Box<dyn Write + Send>,
    screen: Arc<Mutex<vt100::Parser>>,
    child: Box<dyn Child + Send + Sync>,
    before: String,
}

impl Terminal {
    fn start(env: &Env, arguments: &[&str], columns: u16, rows: u16) -> Terminal {
        let size = PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let before = format!("{:?}", pair.master.get_termios());
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_agon"));
        command.args(arguments);
        command.cwd(env.work());
        command.env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        for (name, value) in [("HOME", env.home()), ("AGON_HOME", env.home()), ("TMPDIR", env.home())] {
            command.env(name, value);
        }
        command.env("TERM", "xterm-256color");
        let child = pair.slave.spawn_command(command).unwrap();
        let screen = Arc::new(Mutex::new(vt100::Parser::new(cells(rows), cells(columns), 0)));
        let mut reader = pair.master.try_clone_reader().unwrap();
        let shared = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                shared.lock().unwrap().process(&bytes[..count]);
            }
        });
        let writer = pair.master.take_writer().unwrap();
        Terminal { master: pair.master, _slave: pair.slave, writer, screen, child, before }
    }

    fn resize(&self, columns: u16, rows: u16) {
        self.screen.lock().unwrap().screen_mut().set_size(cells(rows), cells(columns));
        let size = PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 };
        self.master.resize(size).unwrap();
    }

    fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    fn press(&mut self, keys: &str) {
        self.writer.write_all(keys.as_bytes()).unwrap();
        self.writer.flush().unwrap();
    }

    fn wait(&self, what: &str, until: impl Fn(&str) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !until(&self.text()) {
            assert!(Instant::now() < end, "waited for {what} in vain:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn wait_for(&self, text: &str) {
        self.wait(text, |screen| screen.contains(text));
    }

    /// Waits for the end and checks that the terminal is what it was.
    fn end(mut self) -> u32 {
        let end = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < end, "it does not end:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(20));
        };
        assert_eq!(format!("{:?}", self.master.get_termios()), self.before, "the terminal's modes differ");
        self.wait("the ordinary screen", |_| {
            let parser = self.screen.lock().unwrap();
            let screen = parser.screen();
            !screen.alternate_screen() && !screen.bracketed_paste() && !screen.hide_cursor()
        });
        status.exit_code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Only a test that failed leaves it running.
        let _ = self.child.kill();
    }
}

fn cells(count: u16) -> NonZero<u16> {
    NonZero::new(count).unwrap()
}

#[test]
fn the_demo_with_its_approvals_from_the_first_key_to_the_last() {
    let env = Env::new();
    let mut terminal = Terminal::start(&env, &["demo", "run", "--tui"], 100, 30);
    let is_done = |screen: &str| screen.contains("── done");
    let mut answered = 0;
    loop {
        terminal.wait("an approval or the end", |screen| screen.contains("y once") || is_done(screen));
        if is_done(&terminal.text()) {
            break;
        }
        // A key that comes right after the approval is not taken for an answer.
        std::thread::sleep(Duration::from_millis(500));
        terminal.press("y");
        terminal.wait_for("Enter allows this once");
        terminal.press("\r");
        answered += 1;
        terminal.wait("the answer to be taken", |screen| !screen.contains("Enter allows this once"));
    }
    assert_eq!(answered, 3, "two commands and an edit are asked about");
    terminal.wait_for("0 of 7 failed");
    terminal.resize(60, 16);
    terminal.wait("the smaller screen", |screen| {
        screen.lines().last().is_some_and(|line| line.contains("live e"))
    });
    assert!(terminal.text().lines().all(|line| line.chars().count() <= 60));
    terminal.press("\x1b[200~/quit\r\x1b[201~");
    terminal.wait_for("❯ /quit");
    terminal.press("\x03");
    terminal.wait_for("what next?");
    terminal.press("/quit\r");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn nothing_set_up_is_no_dead_end_and_a_signal_ends_it() {
    let env = Env::new();
    let terminal = Terminal::start(&env, &[], 80, 24);
    terminal.wait_for("/demo");
    let process = i32::try_from(terminal.child.process_id().unwrap()).unwrap();
    let process = rustix::process::Pid::from_raw(process).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    assert_eq!(terminal.end(), 130);
}

#[test]
fn a_storm_of_sizes_ends_with_a_whole_screen() {
    let env = Env::new();
    let mut terminal = Terminal::start(&env, &[], 80, 24);
    terminal.wait_for("write a task");
    for step in 0..200u16 {
        let size =
            PtySize { rows: 8 + step % 40, cols: 40 + (step * 7) % 160, pixel_width: 0, pixel_height: 0 };
        terminal.master.resize(size).unwrap();
    }
    terminal.resize(90, 30);
    terminal.press("\x0c");
    terminal.wait("a whole screen", |screen| {
        let is_last = screen.lines().last().is_some_and(|line| line.contains("Enter sends"));
        is_last && screen.lines().count() == 30 && screen.matches("write a task").count() == 1
    });
    terminal.press("\x04");
    assert_eq!(terminal.end(), 0);
}
