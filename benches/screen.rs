//! The screen as a person has it: first paint, idle, an answer of 5,000 tokens at 2 ms, a very long session. One
//! line per measure; `AGON_BENCH_ENTRIES` sets the length of the long session (default 100,000).
#![expect(clippy::unwrap_used, reason = "a bench that cannot set itself up has nothing to measure")]
#![expect(clippy::print_stderr, reason = "this is what a bench is for")]

#[path = "../tests/it/support/long.rs"]
mod long;

use std::fs;
use std::io::{Read, Write};
use std::num::NonZero;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use agon::assembly::RandomAccessLog;
use agon::eventlog::SessionStore;
use agon::ports::EventLog;
use agon::protocol::Entry;
use agon::tui::{EntrySource, Msg, Profile, SessionView, State, draw, update};
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

const TOKENS: usize = 5_000;

fn main() {
    // `cargo test` builds and runs benches as well; there is nothing to test here.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("work")).unwrap();
    first_paint_and_idle(home.path());
    streaming(home.path());
    long_session(home.path());
}

/// The program in a pseudo-terminal of 120×40, and what it wrote.
struct Pane {
    _master: Box<dyn MasterPty + Send>,
    keys: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    screen: Arc<Mutex<vt100::Parser>>,
    bytes: Arc<Mutex<usize>>,
    started: Instant,
}

impl Pane {
    fn start(home: &Path, arguments: &[&str]) -> Pane {
        let size = PtySize { rows: 40, cols: 120, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_agon"));
        command.args(arguments);
        command.cwd(home.join("work"));
        command.env_clear();
        for (name, value) in [("PATH", "/usr/bin:/bin"), ("TERM", "xterm-256color")] {
            command.env(name, value);
        }
        command.env("AGON_HOME", home);
        command.env("HOME", home);
        let started = Instant::now();
        let child = pair.slave.spawn_command(command).unwrap();
        let (rows, columns) = (NonZero::new(40).unwrap(), NonZero::new(120).unwrap());
        let screen = Arc::new(Mutex::new(vt100::Parser::new(rows, columns, 0)));
        let bytes = Arc::new(Mutex::new(0));
        let (mut reader, keys) =
            (pair.master.try_clone_reader().unwrap(), pair.master.take_writer().unwrap());
        let answers = Arc::new(Mutex::new(keys));
        let pane_keys = Arc::clone(&answers);
        let (shared, count) = (Arc::clone(&screen), Arc::clone(&bytes));
        std::thread::spawn(move || {
            let mut block = [0; 65_536];
            while let Ok(read @ 1..) = reader.read(&mut block) {
                *count.lock().unwrap() += read;
                // Terminals answer this question at once; one that does not costs everybody a wait.
                if block[..read].windows(3).any(|seen| seen == b"\x1b[c") {
                    answers.lock().unwrap().write_all(b"\x1b[?2026;2$y\x1b[?62;c").unwrap();
                }
                shared.lock().unwrap().process(&block[..read]);
            }
        });
        Pane { _master: pair.master, keys: Box::new(Shared(pane_keys)), child, screen, bytes, started }
    }

    fn wait_for(&self, text: &str) -> Duration {
        let end = Instant::now() + Duration::from_secs(120);
        while !self.screen.lock().unwrap().screen().contents().contains(text) {
            assert!(Instant::now() < end, "{}", self.screen.lock().unwrap().screen().contents());
            std::thread::sleep(Duration::from_millis(1));
        }
        self.started.elapsed()
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    fn proc(&self, file: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{file}", self.child.process_id().unwrap())).unwrap_or_default()
    }

    /// CPU seconds of the process, by the clock ticks the kernel counts.
    fn cpu(&self) -> f64 {
        let stat = self.proc("stat");
        let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
        let ticks: f64 =
            after.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<f64>().ok()).sum();
        ticks / 100.0
    }

    fn status(&self, field: &str) -> u64 {
        let status = self.proc("status");
        let line = status.lines().find(|line| line.starts_with(field)).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0)
    }

    /// How often threads of the process have gone to sleep by themselves.
    fn sleeps(&self) -> u64 {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.process_id().unwrap()));
        let texts = tasks.into_iter().flatten().flatten().map(|task| task.path().join("status"));
        let field = |text: String| {
            let line = text.lines().find(|line| line.starts_with("voluntary_ctxt")).map(str::to_owned)?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        };
        texts.filter_map(|path| fs::read_to_string(path).ok()).filter_map(field).sum()
    }

    fn quit(mut self) {
        self.press("/quit\r");
        let _ = self.child.wait();
    }
}

struct Shared(Arc<Mutex<Box<dyn Write + Send>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.lock().unwrap().flush()
    }
}

fn first_paint_and_idle(home: &Path) {
    let mut paints: Vec<Duration> = (0..11)
        .map(|_| {
            let pane = Pane::start(home, &["--model", "demo/script"]);
            let paint = pane.wait_for("write a task");
            pane.quit();
            paint
        })
        .collect();
    paints.sort();
    eprintln!("first paint: median {} ms, worst {} ms", paints[5].as_millis(), paints[10].as_millis());
    let pane = Pane::start(home, &["--model", "demo/script"]);
    pane.wait_for("write a task");
    std::thread::sleep(Duration::from_secs(1));
    let (cpu, sleeps, bytes) = (pane.cpu(), pane.sleeps(), *pane.bytes.lock().unwrap());
    std::thread::sleep(Duration::from_secs(10));
    let written = *pane.bytes.lock().unwrap() - bytes;
    let (spent, woken) = (pane.cpu() - cpu, pane.sleeps() - sleeps);
    let memory = pane.status("VmHWM") / 1024;
    eprintln!("idle, 10 s: {spent:.2} CPU s, {woken} wake-ups, {written} bytes; {memory} MB at most");
    pane.quit();
}

fn streaming(home: &Path) {
    let sentence = "The quick brown fox jumps over **the** lazy dog and `runs` on without rest. ";
    let words: String = sentence.split_inclusive(' ').cycle().take(TOKENS).collect();
    let text: String = words.split(". ").map(|line| format!("{line}.\n\n")).collect();
    let script = format!("[[answer]]\nspark = \"solo\"\ndelay_ms = {}\ntext = '''\n{text}'''\n", 2 * TOKENS);
    fs::write(home.join("words.toml"), script).unwrap();
    let config = format!(
        "model = \"words/any\"\n[providers.words]\nkind = \"script\"\nfile = \"{}\"\n",
        home.join("words.toml").display()
    );
    fs::write(home.join("config.toml"), config).unwrap();
    let mut pane = Pane::start(home, &[]);
    pane.wait_for("write a task");
    let (cpu, bytes) = (pane.cpu(), *pane.bytes.lock().unwrap());
    pane.press("go\r");
    let took = pane.wait_for("── done");
    let (spent, written) = (pane.cpu() - cpu, *pane.bytes.lock().unwrap() - bytes);
    let (memory, took) = (pane.status("VmHWM") / 1024, took.as_secs_f32());
    let written = written / 1000;
    eprintln!(
        "{TOKENS} tokens at 2 ms: {spent:.2} CPU s, {written} kB to the terminal, {memory} MB, {took:.1} s"
    );
    pane.quit();
}

struct OnDisk(Arc<RandomAccessLog>);

impl EntrySource for OnDisk {
    fn read(&self, range: Range<u64>) -> Vec<Arc<Entry>> {
        self.0.entries(range)
    }
}

fn long_session(home: &Path) {
    let count =
        std::env::var("AGON_BENCH_ENTRIES").ok().and_then(|count| count.parse().ok()).unwrap_or(100_000);
    let log = written(home, count);
    let size = fs::metadata(&log).unwrap().len() >> 20;
    eprintln!("a session of {count} entries, {size} MB");
    let (first, counted) = opened(home);
    eprintln!(
        "  the program: its end is seen after {} ms, all of it counted after {} ms",
        first.0, counted.0
    );
    eprintln!("  memory: {} MB at first, {} MB at most", first.1, counted.1);
    let log = Arc::new(RandomAccessLog::open(&log).unwrap());
    let mut record = SessionView::begin(0, Some(Box::new(OnDisk(Arc::clone(&log)))));
    for from in (0..count).step_by(4_096) {
        log.entries(from..from + 4_096).into_iter().for_each(|entry| assert!(record.apply(entry)));
    }
    let mut state = State::new(Profile::default(), 120, 40);
    let _ = update(
        &mut state,
        Msg::SessionView { record: Box::new(record), is_live: false, is_elsewhere: false },
    );
    let mut terminal = Terminal::new(TestBackend::new(120, 40)).unwrap();
    let mut jumps: Vec<Duration> = (1..40u64)
        .map(|nth| {
            let to = nth * 7_919_793 % count;
            let started = Instant::now();
            let mut press =
                |code| drop(update(&mut state, Msg::Key(KeyEvent::new(code, KeyModifiers::NONE))));
            if nth == 1 {
                press(KeyCode::Tab);
            }
            format!("g{to}").chars().for_each(|c| press(KeyCode::Char(c)));
            press(KeyCode::Enter);
            terminal.draw(|frame| draw(&state, frame)).unwrap();
            started.elapsed()
        })
        .collect();
    jumps.sort();
    eprintln!("  jumps: median {} ms, worst {} ms", jumps[19].as_millis(), jumps[38].as_millis());
}

/// Writes the session's log, hash chain and all.
fn written(home: &Path, count: u64) -> std::path::PathBuf {
    let golden = include_str!("../tests/golden/earlier/demo-run.jsonl");
    let id = serde_json::from_str::<serde_json::Value>(golden.lines().next().unwrap()).unwrap();
    let id = id["events"][0]["data"]["id"].as_str().unwrap().to_owned();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let log = SessionStore::new(home).create(&id).unwrap();
        let mut entries = long::entries(golden, count).take(usize::try_from(count).unwrap());
        loop {
            let batch: Vec<Arc<Entry>> = entries
                .by_ref()
                .take(2_000)
                .map(|entry| Arc::new(serde_json::from_value(entry).unwrap()))
                .collect();
            if batch.is_empty() {
                break;
            }
            log.append(batch).await.unwrap();
        }
    });
    home.join("sessions").join(id).join("log-000000.jsonl")
}

/// Milliseconds and megabytes when its end was seen, and when all was counted.
fn opened(home: &Path) -> ((u128, u64), (u128, u64)) {
    let pane = Pane::start(home, &["replay", "latest", "--tui"]);
    pane.wait_for("record e");
    let first = (pane.started.elapsed().as_millis(), pane.status("VmHWM") / 1024);
    while pane.screen.lock().unwrap().screen().contents().contains("counting…") {
        std::thread::sleep(Duration::from_millis(5));
    }
    let counted = (pane.started.elapsed().as_millis(), pane.status("VmHWM") / 1024);
    let mut pane = pane;
    pane.press("q\r");
    let _ = pane.child.wait();
    (first, counted)
}
