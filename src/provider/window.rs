//! Asks a server how many tokens a model holds, in whichever way that server tells.

use serde_json::{Value, json};

use crate::ports::Window;
use crate::provider::http::Endpoint;

/// Tokens that Ollama and LM Studio give a model they have not loaded, unless their own settings say more.
const UNLOADED: u64 = 4096;

fn sure(context: Option<u64>) -> Option<Window> {
    let context = context.filter(|tokens| *tokens > 0)?;
    Some(Window { context, max_output: None, is_sure: true })
}

/// Asks in every way at once. Hosted services are asked for their list only: the rest is local software's own.
pub(super) async fn ask(endpoint: &Endpoint, model: &str) -> Option<Window> {
    let at = |own: &[&str], is_root: bool| {
        let mut url = endpoint.base.clone();
        url.set_query(None);
        let mut path = url.path_segments_mut().ok()?;
        path.pop_if_empty();
        if is_root {
            path.pop();
        }
        path.extend(own);
        drop(path);
        Some(url)
    };
    let get = |url| async move { endpoint.fetch(url?, None).await };
    let list = get(at(&["models"], false));
    if endpoint.url.scheme() == "https" {
        return of_list(&list.await?, model);
    }
    let show = async { endpoint.fetch(at(&["api", "show"], true)?, Some(json!({"model": model}))).await };
    let (list, props, studio, loaded, show) = futures_util::join!(
        list,
        get(at(&["props"], true)),
        get(at(&["api", "v0", "models", model], true)),
        get(at(&["api", "ps"], true)),
        show,
    );
    list.and_then(|list| of_list(&list, model))
        .or_else(|| of_props(&props?))
        .or_else(|| of_studio(&studio?))
        .or_else(|| of_ollama(loaded.as_ref(), &show?, model))
}

/// The first of these fields that is a count.
fn count(value: &Value, fields: &[&str]) -> Option<u64> {
    fields.iter().find_map(|field| value.pointer(field)?.as_u64())
}

/// A list of models: vLLM has `max_model_len`, OpenRouter `context_length`, Groq `context_window`,
/// Anthropic `max_input_tokens`.
fn of_list(list: &Value, model: &str) -> Option<Window> {
    let rows = list.get("data").unwrap_or(list).as_array()?;
    let row = rows.iter().find(|row| row.get("id").and_then(Value::as_str) == Some(model))?;
    let context = count(
        row,
        &[
            "/max_model_len",
            "/top_provider/context_length",
            "/context_length",
            "/context_window",
            "/max_input_tokens",
        ],
    );
    let max_output =
        count(row, &["/top_provider/max_completion_tokens", "/max_completion_tokens", "/max_tokens"]);
    Some(Window { max_output, ..sure(context)? })
}

/// llama-server's `/props`: the window of one slot.
fn of_props(props: &Value) -> Option<Window> {
    sure(count(props, &["/default_generation_settings/n_ctx", "/n_ctx"]))
}

/// LM Studio's own list.
fn of_studio(model: &Value) -> Option<Window> {
    let most = count(model, &["/max_context_length"]);
    sure(count(model, &["/loaded_context_length"])).or_else(|| unloaded(most?))
}

/// Ollama: a loaded model's window, else what its file sets, else what it is loaded with by default.
fn of_ollama(loaded: Option<&Value>, show: &Value, model: &str) -> Option<Window> {
    let is_it = |row: &&Value| {
        let name = row.get("model").or_else(|| row.get("name")).and_then(Value::as_str).unwrap_or_default();
        name == model || name.strip_suffix(":latest") == Some(model)
    };
    let rows = loaded.and_then(|loaded| loaded.get("models")?.as_array());
    let running =
        rows.and_then(|rows| rows.iter().find(is_it)).and_then(|row| count(row, &["/context_length"]));
    let parameters = show.get("parameters").and_then(Value::as_str).unwrap_or_default();
    let set = parameters.lines().find_map(|line| line.trim().strip_prefix("num_ctx")?.trim().parse().ok());
    let info = show.get("model_info").and_then(Value::as_object);
    let most =
        info.and_then(|info| info.iter().find(|(key, _)| key.ends_with(".context_length"))?.1.as_u64());
    sure(running.or(set)).or_else(|| unloaded(most?))
}

fn unloaded(most: u64) -> Option<Window> {
    Some(Window { is_sure: false, ..sure(Some(most.min(UNLOADED)))? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(context: u64) -> Option<Window> {
        sure(Some(context))
    }

    #[test]
    fn windows_are_read_as_real_servers_tell_them() {
        let vllm = json!({"object": "list", "data": [{"id": "Qwen/Qwen3-8B", "object": "model", "max_model_len": 40960}]});
        assert_eq!(of_list(&vllm, "Qwen/Qwen3-8B"), tokens(40_960));
        assert_eq!(of_list(&vllm, "other"), None);
        let router = json!({"data": [{"id": "z/m", "context_length": 200000,
            "top_provider": {"context_length": 131072, "max_completion_tokens": 16384}}]});
        let told = of_list(&router, "z/m").unwrap();
        assert_eq!((told.context, told.max_output), (131_072, Some(16_384)));
        let openai = json!({"data": [{"id": "gpt-9", "object": "model", "owned_by": "system"}]});
        assert_eq!(of_list(&openai, "gpt-9"), None);
        let props = json!({"default_generation_settings": {"n_ctx": 8192}, "total_slots": 4});
        assert_eq!(of_props(&props), tokens(8192));
        let studio = json!({"id": "q", "state": "loaded", "max_context_length": 32768, "loaded_context_length": 16000});
        assert_eq!(of_studio(&studio), tokens(16_000));
        let idle = json!({"id": "q", "state": "not-loaded", "max_context_length": 32768});
        assert_eq!(of_studio(&idle).map(|window| (window.context, window.is_sure)), Some((4096, false)));
    }

    #[test]
    fn ollama_is_believed_for_what_runs_before_what_could() {
        let show = json!({"parameters": "stop \"<|im_end|>\"\nnum_ctx                        16384",
            "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40960}});
        let ps =
            json!({"models": [{"name": "qwen3:latest", "model": "qwen3:latest", "context_length": 32768}]});
        assert_eq!(of_ollama(Some(&ps), &show, "qwen3"), tokens(32_768));
        assert_eq!(of_ollama(Some(&ps), &show, "qwen3:4b"), tokens(16_384));
        let plain = json!({"model_info": {"qwen3.context_length": 40960}});
        let assumed = of_ollama(None, &plain, "qwen3").unwrap();
        assert_eq!((assumed.context, assumed.is_sure), (4096, false));
        assert_eq!(of_ollama(None, &json!({"error": "model not found"}), "x"), None);
    }
}
