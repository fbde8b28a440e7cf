//! A chat completions server on a real socket that checks what it is sent and breaks its answers on demand.
//!
//! ```ignore
//! let server = Server::start(|request, n| Reply::text("hello"));   // n counts requests from 1
//! run("agon", ["run", "-m", "mock/any"], base_url = server.url());
//! assert_eq!(server.requests().len(), 1);
//! ```
//! It runs on a thread of its own, so that it serves async tests and tests of the real binary alike. A
//! request that the real API would refuse gets a 400, and dropping the server fails the test.

mod hosts;
mod messages_api;
mod reply;
mod responses_api;
mod validate;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

pub use reply::Reply;
use reply::{End, Framing};

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// `POST /v1/chat/completions`.
    pub line: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, or null when it is no JSON.
    pub json: Value,
}

impl Recorded {
    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

type Respond = dyn Fn(&Value, usize) -> Reply + Send + Sync;

struct Shared {
    /// The host whose own rules apply as well.
    host: Option<&'static str>,
    respond: Box<Respond>,
    requests: Mutex<Vec<Recorded>>,
    /// What it says of itself and its models, by request line; anything else answers 404.
    told: Mutex<BTreeMap<String, Value>>,
    violations: Mutex<Vec<String>>,
    connections: Mutex<usize>,
    hung_up: Mutex<usize>,
}

/// The running server; stops when dropped.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: CancellationToken,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    /// Starts on a free port; `respond` gets each valid request and its number, from 1.
    pub fn start(respond: impl Fn(&Value, usize) -> Reply + Send + Sync + 'static) -> Server {
        Server::launch(None, respond)
    }

    /// As [`Server::start`], and what this host refuses gets the answer that was published of it.
    pub fn strict(
        host: &'static str,
        respond: impl Fn(&Value, usize) -> Reply + Send + Sync + 'static,
    ) -> Server {
        Server::launch(Some(host), respond)
    }

    fn launch(
        host: Option<&'static str>,
        respond: impl Fn(&Value, usize) -> Reply + Send + Sync + 'static,
    ) -> Server {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            host,
            respond: Box::new(respond),
            requests: Mutex::default(),
            told: Mutex::default(),
            violations: Mutex::default(),
            connections: Mutex::default(),
            hung_up: Mutex::default(),
        });
        let stop = CancellationToken::new();
        let (theirs, stopped) = (Arc::clone(&shared), stop.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(accept(TcpListener::from_std, listener, theirs, stopped));
        });
        Server { address, shared, stop, thread: Some(thread) }.holding(Some(128_000))
    }

    /// The base URL, ending in `/v1`.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Host and port.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// Says another window than 128,000 tokens; null says none.
    pub fn holding(self, tokens: Option<u64>) -> Server {
        self.telling("GET /props", json!({"default_generation_settings": {"n_ctx": tokens}}))
    }

    /// Lists these models.
    pub fn listing(self, list: Value) -> Server {
        self.telling("GET /v1/models", list)
    }

    /// Answers this to a question that is no call: `GET /api/ps`, or `POST /api/show MODEL`.
    pub fn telling(self, line: &str, answer: Value) -> Server {
        lock(&self.shared.told).insert(line.to_owned(), answer);
        self
    }

    /// Everything that was asked so far.
    pub fn requests(&self) -> Vec<Recorded> {
        lock(&self.shared.requests).clone()
    }

    /// The bodies of everything that was asked so far.
    pub fn bodies(&self) -> Vec<Value> {
        self.requests().into_iter().map(|request| request.json).collect()
    }

    /// How many connections a model was asked over.
    pub fn connections(&self) -> usize {
        *lock(&self.shared.connections)
    }

    /// How many answers the client left before their end.
    pub fn hung_up(&self) -> usize {
        *lock(&self.shared.hung_up)
    }

    /// Posts a body by hand and gives the whole answer back, which is JSON on one line.
    pub async fn post(&self, path: &str, headers: &str, body: &Value) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(body.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"}}") {
            assert_ne!(
                stream.read_buf(&mut answer).await.unwrap(),
                0,
                "{}",
                String::from_utf8_lossy(&answer)
            );
        }
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Takes the violations, for a test that provokes them.
    pub fn take_violations(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.shared.violations))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let violations = self.take_violations();
        if !std::thread::panicking() {
            assert!(violations.is_empty(), "the server was sent what the real API refuses: {violations:#?}");
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(
    from_std: fn(std::net::TcpListener) -> std::io::Result<TcpListener>,
    listener: std::net::TcpListener,
    shared: Arc<Shared>,
    stop: CancellationToken,
) {
    let listener = from_std(listener).unwrap();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        if let Ok((stream, _)) = accepted {
            let _ = stream.set_nodelay(true);
            let shared = Arc::clone(&shared);
            // Dropped with the runtime when the server stops.
            tokio::spawn(async move { while_connected(stream, &shared).await });
        }
    }
}

async fn while_connected(stream: TcpStream, shared: &Shared) {
    let mut stream = BufReader::new(stream);
    let mut is_counted = false;
    while let Some(request) = read_request(&mut stream).await {
        // Asked what it holds, it tells as llama-server does; that is no request to a model.
        if request.line.starts_with("GET ") || request.line.ends_with("/api/show") {
            let model = request.json.get("model").and_then(Value::as_str).unwrap_or_default();
            let told = lock(&shared.told).get(format!("{} {model}", request.line).trim_end()).cloned();
            let reply = told.map_or_else(|| Reply::status(404, "{}"), |props| Reply::json(&props));
            match write_reply(stream.get_mut(), reply, "").await {
                Ok(true) => continue,
                _ => return,
            }
        }
        if !std::mem::replace(&mut is_counted, true) {
            *lock(&shared.connections) += 1;
        }
        let (number, violations) = {
            let mut requests = lock(&shared.requests);
            let violations = match request.line.rsplit('/').next() {
                Some("messages") => messages_api::violations(&request, &requests),
                Some("responses") => responses_api::violations(&request),
                _ => validate::violations(&request),
            };
            requests.push(request.clone());
            (requests.len(), violations)
        };
        let refused = shared.host.and_then(|host| hosts::refusal(host, &request.json));
        let reply = if let Some((status, body)) = refused {
            lock(&shared.violations).push(body.to_string());
            Reply::status(status, &body.to_string()).header("content-type", "application/json")
        } else if violations.is_empty() {
            (shared.respond)(&request.json, number)
        } else {
            let error = json!({"message": violations.join("; "), "type": "invalid_request_error"});
            let body = json!({"type": "error", "error": error});
            lock(&shared.violations).extend(violations);
            Reply::status(400, &body.to_string()).header("content-type", "application/json")
        };
        let model = request.json.get("model").and_then(Value::as_str).unwrap_or_default();
        match write_reply(stream.get_mut(), reply, model).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(_) => {
                *lock(&shared.hung_up) += 1;
                return;
            }
        }
    }
}

async fn read_request(stream: &mut BufReader<TcpStream>) -> Option<Recorded> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok().filter(|read| *read > 0)?;
    let mut headers = Vec::new();
    loop {
        let mut header = String::new();
        stream.read_line(&mut header).await.ok().filter(|read| *read > 0)?;
        match header.trim_end().split_once(':') {
            Some((name, value)) => headers.push((name.to_lowercase(), value.trim().to_owned())),
            None => break,
        }
    }
    let length = headers.iter().find(|(name, _)| name == "content-length").and_then(|(_, v)| v.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).await.ok()?;
    let line = line.trim_end().trim_end_matches(" HTTP/1.1").to_owned();
    Some(Recorded { line, headers, json: serde_json::from_slice(&body).unwrap_or(Value::Null) })
}

/// Writes a reply; false when the connection must be closed after it.
async fn write_reply(stream: &mut TcpStream, reply: Reply, model: &str) -> std::io::Result<bool> {
    let script = reply.into_script(model);
    if script.silent {
        let mut byte = [0];
        stream.read_exact(&mut byte).await?;
        return Ok(false);
    }
    if let Some(barrier) = &script.together {
        let all = tokio::time::timeout(std::time::Duration::from_secs(60), barrier.wait()).await;
        if all.is_err() {
            return Ok(false);
        }
    }
    if script.framing == Framing::Nothing {
        return Ok(false);
    }
    let mut head = format!("HTTP/1.1 {} x\r\n", script.status);
    for (name, value) in &script.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    match script.framing {
        Framing::Length => head.push_str(&format!("content-length: {}\r\n\r\n", script.len())),
        Framing::Chunked | Framing::Nothing => head.push_str("transfer-encoding: chunked\r\n\r\n"),
    }
    stream.write_all(head.as_bytes()).await?;
    for piece in &script.pieces {
        if script.delay_ms > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(script.delay_ms)).await;
        }
        if script.framing == Framing::Chunked {
            stream.write_all(format!("{:x}\r\n", piece.len()).as_bytes()).await?;
            stream.write_all(piece).await?;
            stream.write_all(b"\r\n").await?;
        } else {
            stream.write_all(piece).await?;
        }
        stream.flush().await?;
    }
    match script.end {
        End::Proper if script.framing == Framing::Chunked => {
            stream.write_all(b"0\r\n\r\n").await?;
            Ok(true)
        }
        End::Proper => Ok(true),
        End::Cut => Ok(false),
        End::Stall => {
            // Until the client leaves: reading gives nothing or an end.
            let mut byte = [0];
            stream.read_exact(&mut byte).await?;
            Ok(false)
        }
    }
}
