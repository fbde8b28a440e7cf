//! Runs models of a folder in this process, with llama.cpp; knows no session, retries nothing.
//!
//! Written as a server of chat completions inside this process would be: requests and answers have the shapes of that
//! format, so that roles, thinking and calls are treated as everywhere else.

mod engine;
mod file;
mod grammar;
mod prompt;
mod sampling;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::mpsc::unbounded_channel;
use tokio_util::sync::CancellationToken;

use crate::ports::{Live, OfferedModel, Provider};
use crate::protocol::event::{ErrorKind, ModelFailed, ModelReply};
use crate::protocol::message::{Pictures, Request, Usage};
use crate::provider::exchange::{Incoming, model_name};
use crate::provider::llama::engine::{Engine, Failure, Job, Place, Said};
use crate::provider::openai;
use crate::provider::written_calls::Splitter;

/// Where models are and how they are run.
#[derive(Clone, Debug)]
pub struct LlamaConfig {
    /// Name in the configuration, for messages.
    pub name: String,
    /// The folder of the files; it need not exist.
    pub folder: PathBuf,
    /// Threads; one for each processor when absent.
    pub threads: Option<u32>,
    /// Layers kept on the GPU; as many as there are when absent.
    pub gpu_layers: Option<u32>,
}

/// Models of a folder. A model is loaded with its first call, once in this process, and given up with the last session
/// that uses it; its calls are answered one after another.
pub struct Llama {
    config: LlamaConfig,
    writer: openai::Completions,
    /// Those in use: nothing else keeps a model loaded.
    engines: Mutex<Vec<Arc<Engine>>>,
}

impl fmt::Debug for Llama {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Llama").field(&self.config).finish()
    }
}

impl Llama {
    /// Checks the configuration; opens no file yet.
    pub fn new(config: LlamaConfig) -> Result<Self, String> {
        let gpu = engine::backend()?.supports_gpu_offload();
        if config.gpu_layers.is_some_and(|layers| layers > 0) && !gpu {
            let name = &config.name;
            return Err(format!(
                "provider `{name}`: `gpu_layers` is set, and this agon was built for processors only; build it with `--features llama-cuda` or `llama-vulkan`"
            ));
        }
        Ok(Llama {
            config,
            writer: openai::Completions::in_process("llama-server"),
            engines: Mutex::default(),
        })
    }

    fn engine(&self, model: &str) -> Result<Arc<Engine>, Failure> {
        let file = file::find(&self.config.folder, model)?;
        let place = Place { file, threads: self.config.threads, gpu_layers: self.config.gpu_layers };
        let engine = loaded(place)?;
        let mut own = self.engines.lock().unwrap_or_else(PoisonError::into_inner);
        own.retain(|other| other.is_running() && !Arc::ptr_eq(other, &engine));
        own.push(Arc::clone(&engine));
        Ok(engine)
    }

    fn failed(&self, failure: Failure) -> ModelFailed {
        let message = format!("`{}` {}", self.config.name, failure.words);
        ModelFailed { limits: failure.limits.map(Box::new), ..ModelFailed::new(failure.kind, message) }
    }

    /// The request as a server of chat completions would get it.
    fn body(&self, request: &Request) -> Value {
        // No picture is sent: no file here takes any. A schema is the grammar's matter alone.
        let mut request = Request { pictures: Pictures::default(), ..request.clone() };
        request.params.schema = None;
        serde_json::from_slice(&self.writer.write(&request)).unwrap_or_default()
    }
}

/// The engine of a file, for every session of this process.
fn loaded(place: Place) -> Result<Arc<Engine>, Failure> {
    static ENGINES: Mutex<BTreeMap<Place, Weak<Engine>>> = Mutex::new(BTreeMap::new());
    let mut engines = ENGINES.lock().unwrap_or_else(PoisonError::into_inner);
    engines.retain(|_, engine| engine.strong_count() > 0);
    if let Some(engine) = engines.get(&place).and_then(Weak::upgrade).filter(|engine| engine.is_running()) {
        return Ok(engine);
    }
    let engine = Arc::new(Engine::start(place.clone())?);
    engines.insert(place, Arc::downgrade(&engine));
    Ok(engine)
}

#[async_trait]
impl Provider for Llama {
    async fn call(
        &self,
        request: &Request,
        live: &dyn Live,
        cancel: &CancellationToken,
    ) -> Result<ModelReply, ModelFailed> {
        let engine = self.engine(model_name(request)).map_err(|failure| self.failed(failure))?;
        let (sender, mut said) = unbounded_channel();
        let body = self.body(request);
        // What is dropped with this call stops the model after the token it is at.
        let gone = cancel.child_token();
        let _stops = gone.clone().drop_guard();
        engine.take(Job { body, schema: request.params.schema.clone(), gone, said: sender });
        let mut splitter = Splitter::new(!request.tools.is_empty());
        let mut answer = openai::Answer::new(None, Vec::new(), String::new());
        let mut feed = |chunk: Value| answer.event(&chunk.to_string(), live);
        let ended = loop {
            let next = tokio::select! {
                biased;
                () = cancel.cancelled() => break Err(Failure::new(ErrorKind::Cancelled, "was stopped")),
                next = said.recv() => next,
            };
            match next {
                Some(Said::Text(text)) => {
                    if splitter.feed(&text).into_iter().any(|delta| feed(chunk(delta)).is_err()) {
                        let words = "answered more than a log line can hold; set a lower output limit";
                        break Err(Failure::new(ErrorKind::TooLarge, words));
                    }
                }
                Some(Said::Ended(ended)) => break ended,
                None => {
                    break Err(Failure::new(
                        ErrorKind::BadResponse,
                        "stopped in the middle: its thread ended",
                    ));
                }
            }
        };
        let ended = ended.map_err(|failure| {
            let usage = answer.usage_so_far(request);
            ModelFailed { usage, ..self.failed(failure) }
        })?;
        if let Some(delta) = splitter.finish() {
            // The limit on an answer was kept before.
            let _ = answer.event(&chunk(delta).to_string(), live);
        }
        let word = if ended.is_full { "length" } else { "stop" };
        let _ = answer.event(&json!({"choices": [{"delta": {}, "finish_reason": word}]}).to_string(), live);
        let usage =
            Usage { input: ended.input, cached: ended.cached, output: ended.output, ..Usage::default() };
        Ok(ModelReply { usage, model: model_name(request).to_owned(), ..answer.into_reply() })
    }

    async fn models(&self) -> Result<Vec<OfferedModel>, ModelFailed> {
        let (folder, gpu) = (self.config.folder.clone(), self.config.gpu_layers);
        let list = tokio::task::spawn_blocking(move || file::list(&folder, gpu)).await;
        let broken = || Failure::new(ErrorKind::BadResponse, "could not read its folder");
        list.map_err(|_| self.failed(broken()))?.map_err(|failure| self.failed(failure))
    }

    async fn model(&self, name: &str) -> Option<OfferedModel> {
        let (folder, gpu, name) = (self.config.folder.clone(), self.config.gpu_layers, name.to_owned());
        let describe = move || file::describe(&file::find(&folder, &name).ok()?, name, gpu).ok();
        tokio::task::spawn_blocking(describe).await.ok().flatten()
    }
}

fn chunk(delta: Value) -> Value {
    json!({"choices": [{"delta": delta}]})
}

/// How a path is shown in an error.
fn shown(path: &Path) -> String {
    format!("`{}`", path.display())
}
