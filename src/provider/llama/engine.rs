//! One loaded model on a thread of its own: takes one job after another, answers token by token.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::context::params::LlamaContextParams;
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::llama_batch::LlamaBatch;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::model::params::LlamaModelParams;
use llama_cpp_2::token::LlamaToken;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

use crate::protocol::event::{ErrorKind, ModelLimits};
use crate::protocol::message::AnswerSchema;
use crate::provider::llama::file::Head;
use crate::provider::llama::grammar::{self, Grammar};
use crate::provider::llama::prompt::{Piece, Template};
use crate::provider::llama::sampling::Sampling;
use crate::provider::llama::shown;

/// Tokens of a prompt that are read at once: a cancel waits for them at most.
const BATCH: usize = 256;

/// Windows in memory grow in steps of this many tokens.
const STEP: usize = 4096;

/// Tokens of an answer that has no limit of its own.
const USUAL_OUTPUT: usize = 8192;

/// How control tokens end that are part of an answer: calls and thinking.
const MARKS: [&str; 3] = ["tool_call>", "think>", "THINK]"];

/// What is loaded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub file: PathBuf,
    pub threads: Option<u32>,
    pub gpu_layers: Option<u32>,
}

/// Why there is no answer.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub kind: ErrorKind,
    /// Follows the provider's name.
    pub words: String,
    pub limits: Option<ModelLimits>,
}

impl Failure {
    pub fn new(kind: ErrorKind, words: impl Into<String>) -> Self {
        Failure { kind, words: words.into(), limits: None }
    }
}

/// One call.
pub(super) struct Job {
    /// The request, as chat completions have it.
    pub body: Value,
    pub schema: Option<AnswerSchema>,
    /// Fires when nothing waits any more.
    pub gone: CancellationToken,
    pub said: UnboundedSender<Said>,
}

impl Job {
    fn says(&self, said: Said) {
        // A call that is gone reads nothing.
        let _ = self.said.send(said);
    }
}

/// What comes of a job.
pub(super) enum Said {
    Text(String),
    Ended(Result<Ended, Failure>),
}

/// How an answer ended, in tokens.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ended {
    pub input: u64,
    pub cached: u64,
    pub output: u64,
    /// It ran into its limit.
    pub is_full: bool,
}

/// llama.cpp, which is started once in a process and writes nothing to the terminal.
pub(super) fn backend() -> Result<&'static LlamaBackend, String> {
    static BACKEND: OnceLock<Option<LlamaBackend>> = OnceLock::new();
    let started = BACKEND.get_or_init(|| {
        let mut backend = LlamaBackend::init().ok()?;
        backend.void_logs();
        Some(backend)
    });
    started.as_ref().ok_or_else(|| "llama.cpp could not be started in this process".to_owned())
}

/// A thread with a model. It ends when nothing can send it a job any more.
pub(super) struct Engine {
    jobs: Sender<Job>,
    is_running: Arc<AtomicBool>,
}

impl Engine {
    /// Starts the thread; the model is loaded with the first job.
    pub fn start(place: Place) -> Result<Self, Failure> {
        let fail = |words: String| Failure::new(ErrorKind::BadRequest, words);
        let (jobs, taken) = channel();
        let is_running = Arc::new(AtomicBool::new(true));
        let ends = Ends(Arc::clone(&is_running));
        let name = format!("llama {}", place.file.file_stem().unwrap_or_default().to_string_lossy());
        let run = move || {
            let _ends = ends;
            serve(&place, &taken);
        };
        let thread = std::thread::Builder::new().name(name).spawn(run);
        thread.map_err(|error| fail(format!("cannot start a thread: {error}")))?;
        Ok(Engine { jobs, is_running })
    }

    /// False once the thread is gone.
    pub fn is_running(&self) -> bool {
        self.is_running.load(Ordering::Acquire)
    }

    /// Puts a job in the queue. What a thread that ended leaves behind ends without a word.
    pub fn take(&self, job: Job) {
        let _ = self.jobs.send(job);
    }
}

/// Says that the thread is gone, however it went.
struct Ends(Arc<AtomicBool>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Answers jobs until there is no engine any more. A model that could not be loaded is tried again with the next job.
fn serve(place: &Place, jobs: &Receiver<Job>) {
    while let Ok(job) = jobs.recv() {
        if job.gone.is_cancelled() {
            continue;
        }
        let model = match load(place, &job.gone) {
            Ok(model) => model,
            Err(failure) => {
                job.says(Said::Ended(Err(failure)));
                continue;
            }
        };
        let mut speaker = match Speaker::new(&model, place) {
            Ok(speaker) => speaker,
            Err(failure) => {
                job.says(Said::Ended(Err(failure)));
                continue;
            }
        };
        for job in std::iter::once(job).chain(jobs.iter()).filter(|job| !job.gone.is_cancelled()) {
            let ended = speaker.answer(&job);
            job.says(Said::Ended(ended));
        }
    }
}

fn load(place: &Place, gone: &CancellationToken) -> Result<LlamaModel, Failure> {
    let fail = |words: String| Failure::new(ErrorKind::BadRequest, words);
    Head::read(&place.file)?.check_memory(&place.file, place.gpu_layers)?;
    let stops = gone.clone();
    let mut params = LlamaModelParams::default().with_progress_callback(move |_| !stops.is_cancelled());
    if let Some(layers) = place.gpu_layers {
        params = params.with_n_gpu_layers(layers);
    }
    let backend = backend().map_err(fail)?;
    LlamaModel::load_from_file(backend, &place.file, &params).map_err(|_| match gone.is_cancelled() {
        true => Failure::new(ErrorKind::Cancelled, "was stopped"),
        false => fail(format!(
            "cannot load {}: the file is cut or damaged, or of an architecture that this agon does not know; compare its SHA-256",
            shown(&place.file)
        )),
    })
}

/// A model that answers, with what it still remembers of the last prompt.
struct Speaker<'a> {
    model: &'a LlamaModel,
    place: &'a Place,
    template: Template,
    context: Option<LlamaContext<'a>>,
    /// The tokens in the context's memory.
    held: Vec<LlamaToken>,
}

impl<'a> Speaker<'a> {
    fn new(model: &'a LlamaModel, place: &'a Place) -> Result<Self, Failure> {
        let vocab = model.vocab();
        // Some vocabularies have no token that begins a text.
        let text = |token: LlamaToken| match token.0 {
            0.. => String::from_utf8_lossy(&vocab.token_to_piece(token, true, None)).into_owned(),
            _ => String::new(),
        };
        let controls = vocab.tokens().filter(|token| vocab.is_control(*token)).map(text).collect();
        let source = model.chat_template(None).ok().and_then(|template| template.to_string().ok());
        let template = Template::new(source, (text(vocab.bos()), text(vocab.eos())), controls);
        let template = template.map_err(|error| {
            let words = format!("cannot use {}: its chat template is invalid: {error}", shown(&place.file));
            Failure::new(ErrorKind::BadRequest, words)
        })?;
        Ok(Speaker { model, place, template, context: None, held: Vec::new() })
    }

    fn answer(&mut self, job: &Job) -> Result<Ended, Failure> {
        let prompt = self.prompt(job)?;
        let window = usize::try_from(self.model.n_ctx_train()).unwrap_or(usize::MAX);
        if prompt.len() >= window {
            let input = prompt.len() as u64;
            let limits = ModelLimits { context: Some(window as u64), input: Some(input), output: None };
            let words = format!("cannot read {input} tokens: the window of this model has {window}");
            return Err(Failure { limits: Some(limits), ..Failure::new(ErrorKind::ContextOverflow, words) });
        }
        let limit = ["max_tokens", "max_completion_tokens"].iter().find_map(|name| job.body[*name].as_u64());
        let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(USUAL_OUTPUT);
        let limit = limit.min(window - prompt.len());
        let grammar = self.grammar(job);
        let temperature = job.body["temperature"].as_f64();
        let sampling = Sampling::new(self.model, temperature, grammar.as_ref());
        let mut sampling = sampling.map_err(|words| Failure::new(ErrorKind::BadRequest, words))?;
        self.make_room(prompt.len() + limit)?;
        let cached = self.keep_common(&prompt);
        let fresh = prompt.get(cached..).unwrap_or_default();
        for piece in fresh.chunks(BATCH) {
            self.read(piece, job)?;
        }
        let mut ended = Ended { input: prompt.len() as u64, cached: cached as u64, ..Ended::default() };
        self.write(job, &mut sampling, limit, &mut ended)?;
        Ok(ended)
    }

    fn grammar(&self, job: &Job) -> Option<Grammar> {
        let tools = job.body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
        grammar::of(job.schema.as_ref().map(|schema| &schema.schema), tools)
    }

    /// The prompt in tokens.
    fn prompt(&self, job: &Job) -> Result<Vec<LlamaToken>, Failure> {
        let has_tools = job.body["tools"].is_array();
        let pieces = self.template.write(&job.body, has_tools, job.schema.is_some());
        let pieces = pieces.map_err(|error| {
            let words = format!("cannot write the conversation by the chat template of its file: {error}");
            Failure::new(ErrorKind::BadRequest, words)
        })?;
        let vocab = self.model.vocab();
        let mut tokens = Vec::new();
        for piece in &pieces {
            match piece {
                Piece::Template(text) => tokens.extend(vocab.tokenize(text.as_bytes(), false, true)),
                Piece::Quoted(text) => tokens.extend(vocab.tokenize(text.as_bytes(), false, false)),
            }
        }
        if vocab.should_add_bos() && tokens.first() != Some(&vocab.bos()) {
            tokens.insert(0, vocab.bos());
        }
        Ok(tokens)
    }

    /// A context for this many tokens. One that is too small is made again, and reads the whole prompt.
    fn make_room(&mut self, tokens: usize) -> Result<(), Failure> {
        let has = self.context.as_ref().map_or(0, |context| context.n_ctx() as usize);
        if has >= tokens {
            return Ok(());
        }
        (self.context, self.held) = (None, Vec::new());
        let window = usize::try_from(self.model.n_ctx_train()).unwrap_or(usize::MAX);
        let size = tokens.next_multiple_of(STEP).min(window.max(tokens));
        let size = u32::try_from(size).ok().and_then(NonZeroU32::new);
        let threads = self.place.threads.and_then(|threads| i32::try_from(threads).ok());
        let processors = || std::thread::available_parallelism().map_or(1, |all| all.get());
        let threads = threads.unwrap_or_else(|| i32::try_from(processors()).unwrap_or(1));
        let params = LlamaContextParams::default()
            .with_n_ctx(size)
            .with_n_batch(u32::try_from(BATCH).unwrap_or(u32::MAX))
            .with_n_threads(threads)
            .with_n_threads_batch(threads);
        let made = backend()
            .and_then(|backend| self.model.new_context(backend, params).map_err(|error| error.to_string()));
        let context = made.map_err(|error| {
            let words =
                format!("has no memory for a window of {tokens} tokens ({error}); set a smaller `context`");
            Failure::new(ErrorKind::BadRequest, words)
        })?;
        self.context = Some(context);
        Ok(())
    }

    /// Keeps what the memory and the prompt begin with; gives its length. One token at least is read again.
    fn keep_common(&mut self, prompt: &[LlamaToken]) -> usize {
        let same = self.held.iter().zip(prompt).take_while(|(a, b)| a == b).count();
        let mut same = same.min(prompt.len().saturating_sub(1));
        if let Some(context) = &mut self.context
            && context.kv_cache_seq_rm(0, u32::try_from(same).ok(), None).is_err()
        {
            // A memory that is one state (Mamba) cannot be cut.
            context.clear_kv_cache();
            same = 0;
        }
        self.held.truncate(same);
        same
    }

    /// Reads tokens into the memory.
    fn read(&mut self, tokens: &[LlamaToken], job: &Job) -> Result<(), Failure> {
        if job.gone.is_cancelled() {
            return Err(Failure::new(ErrorKind::Cancelled, "was stopped"));
        }
        let mut batch = LlamaBatch::new(tokens.len(), 1);
        let last = tokens.len().saturating_sub(1);
        let added = tokens.iter().enumerate().try_for_each(|(nth, token)| {
            let place = i32::try_from(self.held.len() + nth).unwrap_or(i32::MAX);
            batch.add(*token, place, &[0], nth == last).map_err(|error| error.to_string())
        });
        let decoded = added.and_then(|()| match &mut self.context {
            Some(context) => context.decode(&mut batch).map_err(|error| error.to_string()),
            None => Err("there is no window".to_owned()),
        });
        if let Err(error) = decoded {
            // What the memory holds now is unknown.
            (self.context, self.held) = (None, Vec::new());
            return Err(Failure::new(ErrorKind::BadResponse, format!("could not go on: {error}")));
        }
        self.held.extend_from_slice(tokens);
        Ok(())
    }

    /// Writes the answer, token by token, up to `limit` of them.
    fn write(
        &mut self,
        job: &Job,
        sampling: &mut Sampling,
        limit: usize,
        ended: &mut Ended,
    ) -> Result<(), Failure> {
        let (vocab, mut letters) = (self.model.vocab(), Letters::default());
        loop {
            let next = self.context.as_ref().and_then(|context| sampling.next(context));
            let Some(token) = next else {
                return Err(Failure::new(ErrorKind::BadResponse, "found no token that fits the schema"));
            };
            if vocab.is_eog(token) {
                return Ok(());
            }
            ended.output += 1;
            let mut text = letters.feed(&vocab.token_to_piece(token, true, None));
            if vocab.is_control(token) && !MARKS.iter().any(|mark| text.ends_with(mark)) {
                text.clear();
            }
            let mut read = vec![token];
            if let Some(kept) = sampling.wrote(&text) {
                text.truncate(kept);
                read = vocab.tokenize(text.as_bytes(), false, true);
            }
            if !text.is_empty() {
                job.says(Said::Text(text));
            }
            if ended.output >= limit as u64 {
                ended.is_full = true;
                return Ok(());
            }
            self.read(&read, job)?;
        }
    }
}

/// Puts letters together whose bytes come in several tokens.
#[derive(Default)]
struct Letters(Vec<u8>);

impl Letters {
    fn feed(&mut self, bytes: &[u8]) -> String {
        self.0.extend_from_slice(bytes);
        let mut text = String::new();
        loop {
            match std::str::from_utf8(&self.0) {
                Ok(whole) => {
                    text.push_str(whole);
                    self.0.clear();
                    return text;
                }
                Err(error) => {
                    let (good, rest) = self.0.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(good));
                    match error.error_len() {
                        Some(bad) => {
                            text.push(char::REPLACEMENT_CHARACTER);
                            self.0 = rest.get(bad..).unwrap_or_default().to_vec();
                        }
                        None => {
                            self.0 = rest.to_vec();
                            return text;
                        }
                    }
                }
            }
        }
    }
}
