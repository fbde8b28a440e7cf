//! The real program in a real pseudo-terminal: keys in, a screen out, the modes before and after.

use std::io::{Read, Write};
use std::num::NonZero;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, SlavePty, native_pty_system};

use rustix::process::{Pid, Signal};

use crate::support::env::Env;

/// How long something may take on a busy machine before a test gives up.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Terminal {
    pub master: Box<dyn MasterPty + Send>,
    /// Kept open, so that the modes can be read once the program is gone.
    slave: Option<Box<dyn SlavePty + Send>>,
    writer: Box<dyn Write + Send>,
    screen: Arc<Mutex<vt100::Parser>>,
    pub child: Box<dyn Child + Send + Sync>,
    before: String,
    reading: Arc<Reading>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread that reads the screen is told.
#[derive(Default)]
struct Reading {
    is_held: AtomicBool,
    is_over: AtomicBool,
}

/// How the program is started in a terminal.
pub fn command(program: &Path, env: &Env, arguments: &[&str]) -> CommandBuilder {
    let mut command = CommandBuilder::new(program);
    command.args(arguments);
    command.cwd(env.work());
    command.env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("AGON_LOCAL_SERVERS", "none");
    for (name, value) in [("HOME", env.home()), ("AGON_HOME", env.home()), ("TMPDIR", env.temporary())] {
        command.env(name, value);
    }
    command.env("TERM", "xterm-256color");
    for (name, value) in env.variables() {
        command.env(name, value);
    }
    command
}

impl Terminal {
    pub fn start(env: &Env, arguments: &[&str], columns: u16, rows: u16) -> Terminal {
        Terminal::of(env!("CARGO_BIN_EXE_agon").as_ref(), env, arguments, columns, rows)
    }

    /// The same with another program.
    pub fn of(program: &Path, env: &Env, arguments: &[&str], columns: u16, rows: u16) -> Terminal {
        let size = PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let before = format!("{:?}", pair.master.get_termios());
        let command = command(program, env, arguments);
        let child = pair.slave.spawn_command(command).unwrap();
        let screen = Arc::new(Mutex::new(vt100::Parser::new(cells(rows), cells(columns), 0)));
        let mut reader = pair.master.try_clone_reader().unwrap();
        let (shared, reading) = (Arc::clone(&screen), Arc::new(Reading::default()));
        let mine = Arc::clone(&reading);
        let thread = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                shared.lock().unwrap().process(&bytes[..count]);
                if mine.is_over.load(Ordering::Relaxed) {
                    return;
                }
                while mine.is_held.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        });
        let writer = pair.master.take_writer().unwrap();
        Terminal {
            master: pair.master,
            slave: Some(pair.slave),
            writer,
            screen,
            child,
            before,
            reading,
            thread: Some(thread),
        }
    }

    pub fn resize(&self, columns: u16, rows: u16) {
        self.screen.lock().unwrap().screen_mut().set_size(cells(rows), cells(columns));
        let size = PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 };
        self.master.resize(size).unwrap();
    }

    pub fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    pub fn press(&mut self, keys: &str) {
        self.writer.write_all(keys.as_bytes()).unwrap();
        self.writer.flush().unwrap();
    }

    pub fn wait(&self, what: &str, until: impl Fn(&str) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !until(&self.text()) {
            assert!(Instant::now() < end, "waited for {what} in vain:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn wait_for(&self, text: &str) {
        self.wait(text, |screen| screen.contains(text));
    }

    /// Sends a signal to the program.
    pub fn signal(&self, signal: Signal) {
        let process = i32::try_from(self.child.process_id().unwrap()).unwrap();
        rustix::process::kill_process(Pid::from_raw(process).unwrap(), signal).unwrap();
    }

    /// True once the program is stopped by the shell's key.
    pub fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.process_id().unwrap()));
        stat.is_ok_and(|stat| {
            stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
        })
    }

    /// The modes of the terminal now.
    pub fn modes(&self) -> String {
        format!("{:?}", self.master.get_termios())
    }

    /// Sets the modes as a shell does.
    pub fn set_sane(&self) {
        let name = self.master.tty_name().unwrap();
        assert!(
            std::process::Command::new("stty").arg("-F").arg(name).arg("sane").status().unwrap().success()
        );
    }

    /// Nobody reads what the program writes, or somebody does again.
    pub fn hold(&self, held: bool) {
        self.reading.is_held.store(held, Ordering::Relaxed);
    }

    /// The modes are those before, and the screen is the ordinary one.
    pub fn check_given_back(&self) {
        assert_eq!(format!("{:?}", self.master.get_termios()), self.before, "the terminal's modes differ");
        self.wait("the ordinary screen", |_| {
            let parser = self.screen.lock().unwrap();
            let screen = parser.screen();
            !screen.alternate_screen() && !screen.bracketed_paste() && !screen.hide_cursor()
        });
    }

    /// Takes the terminal away; gives the program's exit code.
    pub fn vanish(mut self) -> u32 {
        self.reading.is_over.store(true, Ordering::Relaxed);
        // Something to write, so that the reader wakes and lets go.
        self.press("x");
        self.thread.take().unwrap().join().unwrap();
        self.slave = None;
        self.writer = Box::new(std::io::sink());
        let size = PtySize { rows: 24, cols: 80, pixel_width: 0, pixel_height: 0 };
        self.master = native_pty_system().openpty(size).unwrap().master;
        self.wait_for_end()
    }

    fn wait_for_end(&mut self) -> u32 {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.exit_code();
            }
            assert!(Instant::now() < end, "it does not end:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for the end and checks that the terminal is what it was.
    pub fn end(mut self) -> u32 {
        let code = self.wait_for_end();
        self.check_given_back();
        code
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
