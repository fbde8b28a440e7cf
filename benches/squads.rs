//! A hundred squads at once in one process against a local server: wall time, processor time and peak memory.
//!
//! Each squad makes three model calls (a plan, a role's work, the answer) and has a log of its own in which every entry
//! is durable before it is acted upon. `AGON_SQUADS=N` changes their number. Results belong into `docs/performance.md`.
#![expect(clippy::unwrap_used, reason = "a bench that cannot set itself up has nothing to measure")]
#![expect(clippy::print_stdout, reason = "what was measured is printed")]

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agon::ports::Provider;
use agon::protocol::spec::{Blueprint, Mode, ModelSpec, PersonaSpec, RoleSpec};
use agon::protocol::{ArenaEvent, Command, Entry, StopCause};
use agon::provider::ServerConfig;
use agon::provider::openai;
use agon::{Arena, ArenaBuilder};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio_stream::StreamExt;

fn main() {
    let count: usize = std::env::var("AGON_SQUADS").map_or(100, |text| text.parse().unwrap());
    let address = serve();
    // On the disk the bench is started on: a file system in memory would sync nothing.
    let folder = tempfile::tempdir_in(".").unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    for round in ["first", "again", "again"] {
        let place = folder.path().join(uuid::Uuid::now_v7().to_string());
        for squad in 0..count {
            fs::create_dir_all(place.join(format!("work-{squad}"))).unwrap();
            fs::write(place.join(format!("work-{squad}/notes.txt")), "a note\n").unwrap();
        }
        let (began, busy) = (Instant::now(), processor_time());
        let entries = runtime.block_on(squads(&place, address, count));
        let (wall, busy) = (began.elapsed(), processor_time() - busy);
        println!(
            "{round}: {count} squads, {} calls, {entries} durable entries: {:.3} s wall, {:.2} s processor, {} MB at most",
            count * 3,
            wall.as_secs_f64(),
            busy.as_secs_f64(),
            peak_kib() / 1024,
        );
    }
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    for _ in 0..2 {
        let place = tempfile::tempdir_in(".").unwrap();
        let (began, busy) = (Instant::now(), processor_time());
        runtime.block_on(limit(place.path(), address, &client, count));
        let (wall, busy) = (began.elapsed(), processor_time() - busy);
        println!(
            "limit: the same calls and syncs by hand, all at once: {:.3} s wall, {:.2} s processor",
            wall.as_secs_f64(),
            busy.as_secs_f64(),
        );
    }
}

/// The limit: of each squad only its three calls, its nine syncs of a file and of folders, and nothing said or decided.
async fn limit(place: &Path, address: SocketAddr, client: &reqwest::Client, count: usize) {
    let all = (0..count).map(|squad| {
        let (folder, client) = (place.join(squad.to_string()), client.clone());
        tokio::spawn(async move {
            let mut file = on_disk(move || {
                fs::create_dir(&folder).unwrap();
                let file = fs::File::create(folder.join("log")).unwrap();
                for folder in [folder.as_path(), folder.parent().unwrap()] {
                    fs::File::open(folder).unwrap().sync_all().unwrap();
                }
                appended(file)
            })
            .await;
            for _ in 0..3 {
                file = on_disk(|| appended(file)).await;
                let request =
                    client.post(format!("http://{address}/v1/chat/completions")).body("x".repeat(2_000));
                let _ = request.send().await.unwrap().bytes().await.unwrap();
                file = on_disk(|| appended(file)).await;
            }
        })
    });
    for one in all.collect::<Vec<_>>() {
        one.await.unwrap();
    }
}

async fn on_disk<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

fn appended(mut file: fs::File) -> fs::File {
    file.write_all(&[b'x'; 800]).unwrap();
    file.sync_data().unwrap();
    file
}

async fn squads(place: &Path, address: SocketAddr, count: usize) -> usize {
    let provider = openai::connect(ServerConfig::new("mock", format!("http://{address}/v1")));
    let provider: Arc<dyn Provider> = Arc::new(provider.unwrap());
    let all = (0..count).map(|squad| tokio::spawn(squad_of(place.to_owned(), squad, Arc::clone(&provider))));
    let mut entries = 0;
    for one in all.collect::<Vec<_>>() {
        entries += one.await.unwrap();
    }
    entries
}

/// One squad from its opening to its seal; gives the entries of its log.
async fn squad_of(place: std::path::PathBuf, squad: usize, provider: Arc<dyn Provider>) -> usize {
    let role = |name: &str, after: &[&str]| RoleSpec {
        name: name.to_owned(),
        persona: name.to_owned(),
        model: None,
        fallbacks: None,
        tools: Some(Vec::new()),
        effort: None,
        after: after.iter().map(|name| (*name).to_owned()).collect(),
        revise: Vec::new(),
        sandbox: None,
        read_only: false,
        revisions: 0,
        max_steps: None,
    };
    let (lead, coder) = (role("coordinator", &[]), role("coder", &["coordinator"]));
    let blueprint =
        Blueprint { name: "bench".to_owned(), lead: None, roles: vec![lead, coder], checks: Vec::new() };
    let running = ArenaBuilder::new(place.join(format!("work-{squad}")), place.join("state"))
        .provider("mock", provider)
        .model(ModelSpec::named("mock/any"))
        .persona(PersonaSpec::with_text("coordinator", "You are the coordinator."))
        .persona(PersonaSpec::with_text("coder", "You are the coder."))
        .blueprint(blueprint)
        .open()
        .await
        .unwrap();
    let arena: Arena = running.arena;
    let mut news = arena.subscribe();
    let text = format!("Say what {squad} is.");
    arena.submit(Command::Prompt { text, mode: Mode::Squad, schema: None }).await.unwrap();
    let closed = |entry: &Entry| entry.events.iter().any(|event| matches!(event, ArenaEvent::TurnClosed(_)));
    while let Some(entry) = news.entries.next().await {
        if closed(&entry) {
            break;
        }
    }
    arena.submit(Command::Stop { cause: StopCause::Finished }).await.unwrap();
    let log = Arc::clone(arena.log());
    arena.ended().await;
    usize::try_from(log.head().count).unwrap()
}

/// A server on a thread of its own that answers every request with the same words.
fn serve() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(talk(stream));
            }
        });
    });
    address
}

async fn talk(stream: tokio::net::TcpStream) {
    let words = r#"{\"answer\":\"done\",\"claims\":[],\"open\":[]}"#;
    let delta =
        format!(r#"{{"choices":[{{"index":0,"delta":{{"role":"assistant","content":"{words}"}}}}]}}"#);
    let end = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":50,"completion_tokens":9,"total_tokens":59}}"#;
    let body = format!("data: {delta}\n\ndata: {end}\n\ndata: [DONE]\n\n");
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    loop {
        let (mut line, mut length) = (String::new(), 0);
        loop {
            line.clear();
            if reader.read_line(&mut line).await.unwrap_or(0) == 0 {
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
        if reader.read_exact(&mut request).await.is_err()
            || writer.write_all(answer.as_bytes()).await.is_err()
        {
            return;
        }
    }
}

/// Processor time of this process, the server's included.
fn processor_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

/// The most memory this process had so far.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse().unwrap()
}
