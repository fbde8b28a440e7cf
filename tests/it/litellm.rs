//! Every wire format through the `litellm` proxy, which translates it into every other: software nobody here wrote.
//!
//! `bash tests/litellm/run` installs the proxy from a lock and runs this.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use agon::protocol::event::{ErrorKind, ModelFailed, ModelReply};
use agon::protocol::message::{AnswerSchema, Finish, Part, Request, Structured, ToolDecl};
use agon::protocol::{Lane, Role};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::server::{Reply, Server};
use crate::support::wires::{KEY, Says, Stop, Wire};
use crate::support::{Recorder, message, request, said};

const KINDS: [&str; 3] = ["openai", "openai-responses", "anthropic"];

/// The running proxy; ends when dropped.
struct Proxy {
    child: Child,
    url: String,
    _folder: tempfile::TempDir,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Proxy {
    /// Starts it before these servers, each behind the name of its format.
    fn start(upstream: &BTreeMap<&str, Server>) -> Proxy {
        let program = std::env::var("AGON_LITELLM").expect("bash tests/litellm/run says where the proxy is");
        let folder = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let row = |(kind, server): (&&str, &Server)| {
            let host = server.host();
            let (model, base) = match *kind {
                "openai" => ("openai/thinker", format!("http://{host}/v1")),
                "openai-responses" => ("openai/responses/thinker", format!("http://{host}/v1")),
                _ => ("anthropic/bound", format!("http://{host}")),
            };
            json!({"model_name": kind, "litellm_params": {"model": model, "api_base": base, "api_key": KEY, "max_retries": 0}})
        };
        let rows: Vec<Value> = upstream.iter().map(row).collect();
        let config =
            json!({"model_list": rows, "router_settings": {"num_retries": 0, "disable_cooldowns": true}});
        let file = folder.path().join("config.yaml");
        std::fs::write(&file, config.to_string()).unwrap();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let child = Command::new(program)
            .args(["--host", "127.0.0.1", "--port", &port.to_string(), "--config"])
            .arg(&file)
            .env("HOME", folder.path())
            .env("LITELLM_LOCAL_MODEL_COST_MAP", "True")
            .env("LITELLM_MASTER_KEY", KEY)
            .env("LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY", "true")
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let proxy = Proxy { child, url: format!("http://127.0.0.1:{port}/v1"), _folder: folder };
        let begun = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(120), "the proxy does not start");
            std::thread::sleep(Duration::from_millis(200));
        }
        proxy
    }
}

/// What a model says to a request that names a scenario in its first message.
fn play(wire: Wire, asked: &Value) -> Reply {
    let body = asked.to_string();
    let has = |word: &str| body.contains(word);
    let has_result = has("[e4] the file");
    let ballot = json!({"vote": "yes"});
    wire.reply(&match () {
        () if has("scenario: text") => {
            Says { thought: "Let me think.", proof: "p1".into(), ..Says::text("Grüße one two") }
        }
        () if has("scenario: length") => Says { stop: Stop::Length, ..Says::text("one two") },
        () if has("scenario: typed") && asked["tool_choice"].is_object() => {
            Says { calls: vec![("call1aaaa".into(), "ballot", ballot)], ..Says::default() }
        }
        () if has("scenario: typed") => Says::text(&ballot.to_string()),
        () if has("scenario: overload") => {
            return Reply::status(529, &wire.error("overloaded_error", "Overloaded").to_string())
                .header("content-type", "application/json");
        }
        () if has_result => Says { thought: "Done.", proof: "p2".into(), ..Says::text("finished") },
        () => Says {
            thought: "Step one.",
            proof: "p1".into(),
            calls: ["ä.txt", "b.txt"]
                .into_iter()
                .enumerate()
                .map(|(n, path)| (format!("call{n}aaaa"), "read", json!({"path": path})))
                .collect(),
            ..Says::default()
        },
    })
}

struct Pair<'a> {
    front: &'a str,
    back: &'a str,
    url: &'a str,
}

impl Pair<'_> {
    fn request(&self, scenario: &str) -> Request {
        let mut request = request(vec![
            said(Role::System, "Be brief."),
            said(Role::User, &format!("scenario: {scenario}")),
        ]);
        request.model = format!("mock/{}", self.back);
        request.params.max_output = Some(2000);
        request
    }

    async fn call(&self, request: &Request) -> (Result<ModelReply, ModelFailed>, Recorder) {
        let live = Recorder::default();
        let wire = Wire { kind: KINDS.iter().find(|kind| **kind == self.front).unwrap(), dialect: None };
        // A model that refuses a parameter says so once, and the session leaves it out.
        let mut request = request.clone();
        loop {
            let ended = wire.provider(self.url).call(&request, &live, &CancellationToken::new()).await;
            match ended {
                Err(failed) if !failed.refused.is_empty() => request.params.without.extend(failed.refused),
                ended => return (ended, live),
            }
        }
    }

    async fn text(&self) -> Result<(), String> {
        let (ended, live) = self.call(&self.request("text")).await;
        let reply = ended.map_err(|failed| failed.message)?;
        same("text", live.lane(Lane::Text), "Grüße one two".to_owned())?;
        same("finish", reply.finish, Finish::Stop)?;
        same("usage", (reply.usage.input, reply.usage.output), (100, 25))
    }

    async fn calls(&self) -> Result<(), String> {
        let mut talk = self.request("calls");
        let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"], "additionalProperties": false});
        talk.tools = vec![ToolDecl { name: "read".into(), description: "Reads.".into(), schema }];
        let reply = self.call(&talk).await.0.map_err(|failed| failed.message)?;
        same("finish", reply.finish, Finish::ToolCalls)?;
        let results: Vec<Part> = reply
            .message
            .iter()
            .filter_map(|part| match part {
                Part::Call { id, name, .. } => Some(Part::Result {
                    id: id.clone(),
                    name: name.clone(),
                    content: "[e4] the file".into(),
                    is_error: false,
                }),
                _ => None,
            })
            .collect();
        same("calls", results.len(), 2)?;
        talk.messages.push(message(Role::Assistant, reply.message));
        talk.messages.push(message(Role::Tool, results));
        let (ended, live) = self.call(&talk).await;
        ended.map_err(|failed| failed.message)?;
        same("text after the results", live.lane(Lane::Text), "finished".to_owned())
    }

    async fn typed(&self) -> Result<(), String> {
        let schema = json!({"type": "object", "properties": {"vote": {"type": "string"}}, "required": ["vote"], "additionalProperties": false});
        let mut request = self.request("typed");
        let via = Structured::ResponseFormat;
        request.params.schema = Some(AnswerSchema { name: "ballot".into(), schema, via });
        let reply = self.call(&request).await.0.map_err(|failed| failed.message)?;
        let said: String = reply
            .message
            .iter()
            .filter_map(|part| match part {
                Part::Text { text } => Some(text.as_str()),
                _ => None,
            })
            .collect();
        same("answer", serde_json::from_str::<Value>(&said).ok(), Some(json!({"vote": "yes"})))
    }

    async fn length(&self) -> Result<(), String> {
        let reply = self.call(&self.request("length")).await.0.map_err(|failed| failed.message)?;
        same("finish", reply.finish, Finish::Length)
    }

    async fn overload(&self) -> Result<(), String> {
        let failed = self.call(&self.request("overload")).await.0.err().ok_or("it answered")?;
        same("kind", failed.kind, ErrorKind::Overloaded)
            .map_err(|words| format!("{words}: {}", failed.message))
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, is: T, wanted: T) -> Result<(), String> {
    if is == wanted { Ok(()) } else { Err(format!("{what} is {is:?}, not {wanted:?}")) }
}

/// What does not work, and is the proxy's own doing: front, back, scenario.
const KNOWN: &[(&str, &str, &str)] = &[];

#[tokio::test]
#[ignore = "needs litellm: bash tests/litellm/run"]
async fn every_format_through_the_proxy_into_every_other() {
    let upstream: BTreeMap<&str, Server> = KINDS
        .map(|kind| (kind, Server::start(move |asked, _| play(Wire { kind, dialect: None }, asked))))
        .into_iter()
        .collect();
    let proxy = Proxy::start(&upstream);
    let mut wrong = Vec::new();
    for front in KINDS {
        for back in KINDS {
            let pair = Pair { front, back, url: &proxy.url };
            let rows = [
                ("text", pair.text().await),
                ("calls", pair.calls().await),
                ("typed", pair.typed().await),
                ("length", pair.length().await),
                ("overload", pair.overload().await),
            ];
            for (scenario, ended) in rows {
                let refused = upstream[back].take_violations();
                let words = ended.err().map(|words| format!("{words} {refused:?}"));
                println!("{front:17} {back:17} {scenario:9} {}", words.as_deref().unwrap_or("ok"));
                let is_known = KNOWN.contains(&(front, back, scenario));
                if words.is_some() != is_known {
                    wrong.push(format!(
                        "{front} → {back}, {scenario}: {}",
                        words.unwrap_or("works again".into())
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
