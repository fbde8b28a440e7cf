//! What one step costs agon itself, early and late in a session: processor time and allocations of a whole step (a model
//! call, a tool call, their durable entries), and how long the finished log takes to be verified.
//!
//! The model's server is a process of its own, so its work is not counted. What may grow with the session is the request
//! on the wire. `AGON_STEPS=N` ends earlier or later. Results belong into `docs/performance.md`.
#![expect(clippy::unwrap_used, reason = "a bench that cannot set itself up has nothing to measure")]
#![expect(clippy::print_stdout, reason = "what was measured is printed")]
#![expect(unsafe_code, reason = "an allocator that counts is one")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command as Process, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use agon::ArenaBuilder;
use agon::arena::replay;
use agon::protocol::spec::{Limits, Mode, ModelSpec, PersonaSpec};
use agon::protocol::{ArenaEvent, Command, Entry, StopCause};
use agon::provider::ServerConfig;
use agon::provider::openai;
use tokio_stream::StreamExt;

/// Makes this program the server; its value is the number of answers that call a tool.
const SERVE: &str = "AGON_STEP_SERVE";

/// Steps at which the last few are measured.
const MARKS: [u64; 5] = [10, 100, 1_000, 2_000, 5_000];

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: each call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_add(size.saturating_sub(layout.size()) as u64, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn main() {
    let steps: u64 = std::env::var("AGON_STEPS").map_or(5_000, |text| text.parse().unwrap());
    if std::env::var_os(SERVE).is_some() {
        return serve(steps);
    }
    let mut server = Process::new(std::env::current_exe().unwrap())
        .env(SERVE, "1")
        .env("AGON_STEPS", steps.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut address = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut address).unwrap();
    // On the disk the bench is started on: a file system in memory would sync nothing.
    let folder = tempfile::tempdir_in(".").unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(session(folder.path(), address.trim(), steps));
    server.kill().unwrap();
    server.wait().unwrap();
}

/// What this process has used so far.
#[derive(Clone, Copy)]
struct Used {
    time: Duration,
    allocations: u64,
    bytes: u64,
}

impl Used {
    fn now() -> Self {
        Used {
            time: processor_time(),
            allocations: ALLOCATIONS.load(Ordering::Relaxed),
            bytes: BYTES.load(Ordering::Relaxed),
        }
    }
}

async fn session(folder: &Path, address: &str, steps: u64) {
    let work = folder.join("work");
    fs::create_dir_all(&work).unwrap();
    let lines: String = (0..200).map(|i| format!("line {i}: {}\n", "a note ".repeat(8))).collect();
    fs::write(work.join("notes.txt"), lines).unwrap();
    let provider = openai::connect(ServerConfig::new("mock", format!("http://{address}/v1"))).unwrap();
    let running = ArenaBuilder::new(&work, folder.join("state"))
        .provider("mock", Arc::new(provider))
        .model(ModelSpec { context: 100_000_000, ..ModelSpec::named("mock/any") })
        .persona(PersonaSpec::with_text("worker", "You read files."))
        .limits(Limits { max_steps: u32::MAX, ..Limits::default() })
        .open()
        .await
        .unwrap();
    let arena = running.arena;
    let mut news = arena.subscribe();
    let prompt = Command::Prompt { text: "Read the notes.".to_owned(), mode: Mode::Solo, schema: None };
    arena.submit(prompt).await.unwrap();
    let (mut asked, mut before, mut wire) = (0, Used::now(), 0);
    while let Some(entry) = news.entries.next().await {
        for event in &entry.events {
            match event {
                ArenaEvent::ModelCalled(_) => {
                    asked += 1;
                    measure(asked, &mut before, wire);
                }
                // The server says how many bytes it was sent.
                ArenaEvent::ModelAnswered(answered) => wire = answered.body.usage.input,
                _ => {}
            }
        }
        if entry.events.iter().any(|event| matches!(event, ArenaEvent::TurnClosed(_))) {
            break;
        }
    }
    assert_eq!(asked, steps + 1, "every step was made");
    arena.submit(Command::Stop { cause: StopCause::Finished }).await.unwrap();
    let log = Arc::clone(arena.log());
    arena.ended().await;
    let entries: Vec<Arc<Entry>> =
        log.lines(0).unwrap().iter().map(|line| Arc::new(Entry::read(line).unwrap())).collect();
    let (began, before) = (Instant::now(), processor_time());
    assert!(replay::verify(&entries).holds(true));
    let (wall, busy) = (began.elapsed().as_secs_f64(), (processor_time() - before).as_secs_f64());
    println!("verify: {} entries in {wall:.3} s wall, {busy:.3} s processor", entries.len());
}

/// Looks at the last steps before each mark: a tenth of them, of 100 at most.
fn measure(asked: u64, before: &mut Used, wire: u64) {
    let window = |mark: u64| (mark / 2).clamp(1, 100);
    if MARKS.iter().any(|mark| mark - window(*mark) == asked) {
        *before = Used::now();
    }
    if let Some(mark) = MARKS.iter().find(|mark| **mark == asked) {
        let (now, steps) = (Used::now(), window(*mark));
        println!(
            "step {mark:>5}: {:>6} µs processor, {:>6} allocations of {:>6} KiB in all, {:>6} KiB sent",
            (now.time - before.time).as_micros() as u64 / steps,
            (now.allocations - before.allocations) / steps,
            (now.bytes - before.bytes) / steps / 1024,
            wire / 1024,
        );
    }
}

/// Answers each request with a call, and at the end with words.
fn serve(steps: u64) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("{}", listener.local_addr().unwrap());
    let answered = Arc::new(AtomicU64::new(0));
    for stream in listener.incoming() {
        let answered = Arc::clone(&answered);
        std::thread::spawn(move || talk(stream.unwrap(), steps, &answered));
    }
}

fn talk(stream: TcpStream, steps: u64, answered: &AtomicU64) {
    let (mut reader, mut writer) = (BufReader::new(stream.try_clone().unwrap()), stream);
    loop {
        let (mut line, mut length) = (String::new(), 0);
        loop {
            line.clear();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut request = vec![0; length];
        if reader.read_exact(&mut request).is_err() {
            return;
        }
        let nth = answered.fetch_add(1, Ordering::Relaxed);
        let first = nth % 190 + 1;
        let args = format!(r#"{{\"path\":\"notes.txt\",\"start_line\":{first},\"end_line\":{}}}"#, first + 3);
        let delta = match nth < steps {
            true => format!(
                r#"{{"role":"assistant","content":"Next.","tool_calls":[{{"index":0,"id":"call_{nth}","type":"function","function":{{"name":"read_file","arguments":"{args}"}}}}]}}"#
            ),
            false => r#"{"role":"assistant","content":"Read."}"#.to_owned(),
        };
        let finish = if nth < steps { "tool_calls" } else { "stop" };
        let body = format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}\n\ndata: {{\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"{finish}\"}}],\"usage\":{{\"prompt_tokens\":{length},\"completion_tokens\":9,\"total_tokens\":{}}}}}\n\ndata: [DONE]\n\n",
            length + 9
        );
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length:";
        if writer.write_all(format!("{head} {}\r\n\r\n{body}", body.len()).as_bytes()).is_err() {
            return;
        }
    }
}

/// Processor time of all threads of this process.
fn processor_time() -> Duration {
    let threads = fs::read_dir("/proc/self/task").unwrap();
    let spent = threads.map(|thread| {
        let path = thread.unwrap().path().join("schedstat");
        let text = fs::read_to_string(path).unwrap_or_default();
        text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0)
    });
    Duration::from_nanos(spent.sum())
}
