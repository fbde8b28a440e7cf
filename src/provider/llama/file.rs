//! Finds model files and reads their heads: the window, whether the template knows tools; loads no weights.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use llama_cpp_2::gguf::GgufContext;
use llama_cpp_2::{LlamaBackendDeviceType, list_llama_ggml_backend_devices};

use crate::ports::OfferedModel;
use crate::protocol::event::ErrorKind;
use crate::provider::llama::engine::{Failure, backend};
use crate::provider::llama::shown;

/// How model files end.
const ENDING: &str = "gguf";

/// What every such file begins with.
const MAGIC: &[u8] = b"GGUF";

/// Windows are made in steps of this many tokens.
const STEP: u64 = 1024;

/// The smallest window that is worth offering.
const LEAST: u64 = 4096;

/// The file of a model: a path, or a name in the folder, with or without its ending.
pub(super) fn find(folder: &Path, model: &str) -> Result<PathBuf, Failure> {
    // An absolute path replaces the folder.
    let named = folder.join(model);
    let ended = folder.join(format!("{model}.{ENDING}"));
    let found = [named, ended].into_iter().find(|path| path.is_file());
    let missing = || {
        let words =
            format!("has no model `{model}` in {}; `agon models pull URL` fetches one", shown(folder));
        Failure::new(ErrorKind::BadRequest, words)
    };
    found.ok_or_else(missing).and_then(|path| std::path::absolute(&path).map_err(|_| missing()))
}

/// What can be run of a folder. The later parts of a model in several files are no models of their own.
pub(super) fn list(folder: &Path, gpu_layers: Option<u32>) -> Result<Vec<OfferedModel>, Failure> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            let words = format!("cannot read its folder {}: {error}", shown(folder));
            return Err(Failure::new(ErrorKind::BadRequest, words));
        }
    };
    let files = entries.flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|ending| ending == ENDING) && path.is_file())
        .collect();
    files.sort();
    let offered = files.iter().filter_map(|path| {
        let name = path.file_stem()?.to_str()?.to_owned();
        let is_later_part = name.rsplit_once("-of-").is_some_and(|(before, _)| !before.ends_with("-00001"));
        (!is_later_part).then(|| describe(path, name, gpu_layers).ok()).flatten()
    });
    Ok(offered.collect())
}

/// What a file says of itself.
pub(super) fn describe(path: &Path, name: String, gpu_layers: Option<u32>) -> Result<OfferedModel, Failure> {
    let head = Head::read(path)?;
    Ok(OfferedModel {
        id: name,
        context: head.window(gpu_layers),
        // Any model here is held to a grammar, so that each can call tools.
        tools: Some(head.architecture.is_some()),
        images: Some(false),
        ..OfferedModel::default()
    })
}

/// What stands at the beginning of a file.
pub(super) struct Head {
    architecture: Option<String>,
    bytes: u64,
    context: Option<u64>,
    /// Bytes of the model's memory for one token.
    token_bytes: u64,
}

impl Head {
    /// Refuses what is no model file.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let fail = |words: String| Failure::new(ErrorKind::BadRequest, words);
        let cannot = |error: std::io::Error| fail(format!("cannot read {}: {error}", shown(path)));
        let mut file = File::open(path).map_err(cannot)?;
        let bytes = file.metadata().map_err(cannot)?.len();
        let mut magic = Vec::new();
        Read::by_ref(&mut file).take(MAGIC.len() as u64).read_to_end(&mut magic).map_err(cannot)?;
        if magic != MAGIC {
            return Err(fail(format!("cannot use {}: it is no GGUF file", shown(path))));
        }
        backend().map_err(fail)?;
        let damaged = || fail(format!("cannot read {}: its head is cut or damaged", shown(path)));
        let head = GgufContext::from_file(path).ok_or_else(damaged)?;
        let architecture = text(&head, "general.architecture");
        let number = |key: &str| number(&head, &format!("{}.{key}", architecture.as_deref()?));
        let heads = number("attention.head_count").filter(|heads| *heads > 0);
        let length = number("attention.key_length")
            .or_else(|| Some(number("embedding_length")? / heads?))
            .unwrap_or_default();
        let kept = number("attention.head_count_kv").or(heads).unwrap_or_default();
        // Keys and values, two bytes each.
        let token_bytes = [number("block_count").unwrap_or_default(), kept, length, 2 * 2]
            .into_iter()
            .fold(1, u64::saturating_mul);
        Ok(Head { context: number("context_length"), architecture, bytes, token_bytes })
    }

    /// That the model cannot be loaded, since this machine has less memory than the file has bytes.
    pub fn check_memory(&self, path: &Path, gpu_layers: Option<u32>) -> Result<(), Failure> {
        match memory(gpu_layers) {
            Some(memory) if memory < self.bytes => {
                let gib = |bytes: u64| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30));
                let words = format!(
                    "cannot load {}: it takes {}, and this machine has {} of memory; use a smaller model or quantisation",
                    shown(path),
                    gib(self.bytes),
                    gib(memory)
                );
                Err(Failure::new(ErrorKind::BadRequest, words))
            }
            _ => Ok(()),
        }
    }

    /// The window the model was made with, or what half of the remaining memory holds of it.
    fn window(&self, gpu_layers: Option<u32>) -> Option<u64> {
        let context = self.context?;
        let room = memory(gpu_layers).map(|memory| memory.saturating_sub(self.bytes) / 2);
        let fits = room.and_then(|room| room.checked_div(self.token_bytes)).unwrap_or(context);
        Some(context.min((fits / STEP * STEP).max(LEAST)))
    }
}

/// Bytes a model can have; none where a GPU has it.
fn memory(gpu_layers: Option<u32>) -> Option<u64> {
    let devices = list_llama_ggml_backend_devices();
    let is_processor =
        |kind| matches!(kind, LlamaBackendDeviceType::Cpu | LlamaBackendDeviceType::Accelerator);
    if gpu_layers != Some(0) && devices.iter().any(|device| !is_processor(device.device_type)) {
        return None;
    }
    devices.iter().map(|device| device.memory_total as u64).max().filter(|total| *total > 0)
}

fn text(head: &GgufContext, key: &str) -> Option<String> {
    let at = head.find_key(key);
    (at >= 0 && head.kv_type(at) == TEXT).then(|| head.val_str(at).map(str::to_owned)).flatten()
}

/// A number, read by its own type: llama.cpp ends the process where another is asked for.
fn number(head: &GgufContext, key: &str) -> Option<u64> {
    let at = head.find_key(key);
    if at < 0 {
        return None;
    }
    match head.kv_type(at) {
        UNSIGNED_32 => Some(head.val_u32(at).into()),
        SIGNED_32 => head.val_i32(at).try_into().ok(),
        UNSIGNED_64 => Some(head.val_u64(at)),
        _ => None,
    }
}

/// Types of values, by their numbers in the format.
const UNSIGNED_32: u32 = 4;
const SIGNED_32: u32 = 5;
const TEXT: u32 = 8;
const UNSIGNED_64: u32 = 10;
