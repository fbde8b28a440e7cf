//! Reads what servers say of the models they offer, each server in its own way.

use std::time::Duration;

use futures_util::future::join_all;
use futures_util::join;
use reqwest::Url;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::ports::OfferedModel;
use crate::protocol::event::ModelFailed;
use crate::protocol::spec::Price;
use crate::provider::http::Endpoint;

/// Tokens that Ollama and LM Studio give a model they have not loaded, unless their own settings say more.
const UNLOADED: u64 = 4096;

/// The most models of a list that are asked about one by one, and how long all that may take.
const MOST_SHOWN: usize = 64;
const PATIENCE: Duration = Duration::from_secs(1);

/// The most pages of a list that are read.
const MOST_PAGES: usize = 50;

/// Words in the names of models that take no conversation.
const NO_CHAT: [&str; 16] = [
    "embed",
    "whisper",
    "tts",
    "transcribe",
    "moderation",
    "dall-e",
    "image",
    "imagen",
    "audio",
    "realtime",
    "sora",
    "veo",
    "rerank",
    "guard",
    "ocr",
    "davinci",
];

/// The server's list, with what software that people run themselves says of its models elsewhere.
pub(super) async fn list(endpoint: &Endpoint) -> Result<Vec<OfferedModel>, ModelFailed> {
    let models = pages(endpoint).await?;
    if !is_own_software(endpoint) {
        return Ok(models);
    }
    let described = async {
        let own = Own::ask(endpoint).await;
        let each = models.iter().enumerate().map(|(nth, model)| {
            let own = &own;
            async move {
                let is_shown = own.loaded.is_some() && nth < MOST_SHOWN;
                let show = if is_shown { shown(endpoint, &model.id).await } else { None };
                own.complete(&model.id, Some(model.clone()), show.as_ref())
            }
        });
        join_all(each).await.into_iter().flatten().collect()
    };
    let described = timeout(PATIENCE, described).await;
    Ok(described.unwrap_or(models))
}

/// The list with all its pages: Anthropic gives twenty models at a time.
async fn pages(endpoint: &Endpoint) -> Result<Vec<OfferedModel>, ModelFailed> {
    let (mut models, mut url) = (Vec::new(), address(&endpoint.base, false, &["models"]));
    for _ in 0..MOST_PAGES {
        let list = endpoint.fetch(url.clone(), None).await?;
        models.extend(of_list(&list));
        let last = list.get("last_id").and_then(Value::as_str);
        match last.filter(|_| list.get("has_more").and_then(Value::as_bool) == Some(true)) {
            Some(last) => {
                url = address(&endpoint.base, false, &["models"]);
                url.query_pairs_mut().append_pair("after_id", last);
            }
            None => break,
        }
    }
    Ok(models)
}

/// Asks in every way at once. Hosted services are asked for their list only: the rest is local software's own.
pub(super) async fn describe(endpoint: &Endpoint, model: &str) -> Option<OfferedModel> {
    let list = async { pages(endpoint).await.ok()?.into_iter().find(|row| row.id == model) };
    if !is_own_software(endpoint) {
        return list.await;
    }
    let (listed, own, show) = join!(list, Own::ask(endpoint), shown(endpoint, model));
    own.complete(model, listed, show.as_ref())
}

/// What such software says next to its list: LM Studio of all models, llama-server of the one it runs, Ollama of those
/// it has loaded.
struct Own {
    studio: Vec<OfferedModel>,
    props: Option<Value>,
    loaded: Option<Value>,
}

impl Own {
    async fn ask(endpoint: &Endpoint) -> Self {
        let get = |path: &'static [&'static str]| async move {
            endpoint.fetch(address(&endpoint.base, true, path), None).await.ok()
        };
        let (studio, props, loaded) =
            join!(get(&["api", "v0", "models"]), get(&["props"]), get(&["api", "ps"]));
        Own { studio: studio.as_ref().map(of_list).unwrap_or_default(), props, loaded }
    }

    /// One model with all that is said of it, Ollama's `/api/show` of it included.
    fn complete(&self, id: &str, listed: Option<OfferedModel>, show: Option<&Value>) -> Option<OfferedModel> {
        let studio = self.studio.iter().find(|row| row.id == id).cloned();
        let can = show.map(of_row_without_name).unwrap_or_default();
        let context = listed.as_ref().and_then(|row| row.context).or_else(|| of_props(self.props.as_ref()?));
        let sure = context.map(|context| OfferedModel { context: Some(context), ..OfferedModel::default() });
        let told = sure
            .or_else(|| studio.clone().filter(|row| row.context.is_some()))
            .or_else(|| of_ollama(self.loaded.as_ref(), show?, id));
        let base = studio.or(listed).or_else(|| told.clone())?;
        Some(OfferedModel {
            id: id.to_owned(),
            context: told.as_ref().and_then(|told| told.context),
            is_context_assumed: told.is_some_and(|told| told.is_context_assumed),
            tools: base.tools.or(can.tools),
            images: base.images.or(can.images),
            thinks: base.thinks.or(can.thinks),
            ..base
        })
    }
}

/// Ollama's word on one model.
async fn shown(endpoint: &Endpoint, model: &str) -> Option<Value> {
    let url = address(&endpoint.base, true, &["api", "show"]);
    endpoint.fetch(url, Some(json!({"model": model}))).await.ok()
}

/// True where the server may be software that people run themselves, which has addresses of its own.
fn is_own_software(endpoint: &Endpoint) -> bool {
    endpoint.url.scheme() == "http"
}

/// An address under the base URL, with its query: Azure wants a version everywhere. Or, for software that has addresses of
/// its own next to `v1`, an address of the server itself.
fn address(base: &Url, is_root: bool, own: &[&str]) -> Url {
    let mut url = base.clone();
    if is_root {
        url.set_query(None);
    }
    // Only an address without a host has no path.
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty();
        if is_root {
            path.pop();
        }
        path.extend(own);
    }
    url
}

/// The first of these fields that is a count.
fn count(value: &Value, fields: &[&str]) -> Option<u64> {
    fields.iter().find_map(|field| value.pointer(field)?.as_u64()).filter(|count| *count > 0)
}

/// A list of models: `{"data": […]}`, or the list alone (Together).
fn of_list(list: &Value) -> Vec<OfferedModel> {
    let rows = list.get("data").or(list.get("models")).unwrap_or(list);
    rows.as_array().into_iter().flatten().filter_map(of_row).collect()
}

/// One model of a list. vLLM has `max_model_len`, OpenRouter `context_length`, Groq `context_window`, Mistral
/// `max_context_length`, Anthropic `max_input_tokens`; LM Studio both `loaded_context_length` and the most its file allows.
fn of_row(row: &Value) -> Option<OfferedModel> {
    let id = row.get("id").or(row.get("name"))?.as_str()?;
    // Gemini lists `models/gemini-…`.
    let id = id.strip_prefix("models/").unwrap_or(id).to_owned();
    Some(OfferedModel { has_no_chat: has_no_chat(row, &id), id, ..of_row_without_name(row) })
}

fn of_row_without_name(row: &Value) -> OfferedModel {
    let names = [
        "/max_model_len",
        "/loaded_context_length",
        "/top_provider/context_length",
        "/context_length",
        "/context_window",
        "/max_input_tokens",
    ];
    let (known, most) = (count(row, &names), count(row, &["/max_context_length"]));
    let is_loaded_on_demand = row.get("state").is_some();
    let assumed = most.map(|most| if is_loaded_on_demand { most.min(UNLOADED) } else { most });
    let params = words(row, "/supported_parameters");
    let abilities = words(row, "/capabilities");
    let ability = |names: [&str; 2], flag: &str| match (&abilities, row.pointer(flag)) {
        (_, Some(flag)) => flag.as_bool(),
        (Some(list), None) => Some(list.iter().any(|word| names.contains(word))),
        (None, None) => None,
    };
    let param = |name: &str| params.as_ref().map(|list| list.contains(&name));
    let modalities = words(row, "/architecture/input_modalities");
    let is_vlm = row.get("type").and_then(Value::as_str).map(|kind| kind == "vlm");
    OfferedModel {
        id: String::new(),
        context: known.or(assumed),
        is_context_assumed: known.is_none() && is_loaded_on_demand,
        max_output: count(
            row,
            &["/top_provider/max_completion_tokens", "/max_completion_tokens", "/max_tokens"],
        ),
        tools: param("tools").or(ability(["tools", "tool_use"], "/capabilities/function_calling")),
        images: modalities
            .map(|list| list.contains(&"image"))
            .or(ability(["vision", "images"], "/capabilities/vision"))
            .or(is_vlm.filter(|_| is_loaded_on_demand)),
        thinks: param("reasoning").or(ability(["thinking", "reasoning"], "/capabilities/reasoning")),
        price: price(row),
        has_no_chat: false,
    }
}

/// The words of a list; none where there is no list.
fn words<'a>(row: &'a Value, pointer: &str) -> Option<Vec<&'a str>> {
    row.pointer(pointer)?.as_array().map(|list| list.iter().filter_map(Value::as_str).collect())
}

/// By what the row says of it, else by its name.
fn has_no_chat(row: &Value, id: &str) -> bool {
    let kind = row.get("type").and_then(Value::as_str);
    let output = words(row, "/architecture/output_modalities");
    match (row.pointer("/capabilities/completion_chat").and_then(Value::as_bool), output, kind) {
        (Some(chats), _, _) => !chats,
        (None, Some(output), _) => !output.contains(&"text"),
        (None, None, Some("chat" | "language" | "llm" | "vlm")) => false,
        _ => {
            let id = id.to_lowercase();
            NO_CHAT.iter().any(|word| id.contains(word))
        }
    }
}

/// OpenRouter: dollars a token, as text. Together: dollars a million tokens.
fn price(row: &Value) -> Option<Price> {
    let dollars = |field: &str| {
        let value = row.pointer(&format!("/pricing/{field}"))?;
        let number = value.as_f64().or_else(|| value.as_str()?.parse().ok())?;
        (number.is_finite() && number >= 0.0).then_some(number)
    };
    // Millionths of a dollar for a million tokens.
    let [token, million] = [1e12, 1e6].map(|scale| move |dollars: f64| (dollars * scale).round() as u64);
    match (dollars("prompt"), dollars("completion")) {
        (Some(input), Some(output)) => Some(Price {
            input: token(input),
            cached: token(dollars("input_cache_read").unwrap_or(input)),
            written: dollars("input_cache_write").map(token),
            output: token(output),
        }),
        _ => {
            let (input, output) = (million(dollars("input")?), million(dollars("output")?));
            Some(Price { input, cached: input, written: None, output })
        }
    }
}

/// llama-server's `/props`: the window of one slot.
fn of_props(props: &Value) -> Option<u64> {
    count(props, &["/default_generation_settings/n_ctx", "/n_ctx"])
}

/// Ollama: a loaded model's window, else what its file sets, else what it is loaded with by default.
fn of_ollama(loaded: Option<&Value>, show: &Value, model: &str) -> Option<OfferedModel> {
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
    let known = running.or(set);
    let context = Some(known.or(most.map(|most| most.min(UNLOADED)))?);
    Some(OfferedModel { context, is_context_assumed: known.is_none(), ..OfferedModel::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(value: Value) -> OfferedModel {
        of_row(&value).unwrap()
    }

    #[test]
    fn rows_are_read_as_real_servers_write_them() {
        let vllm = row(json!({"id": "Qwen/Qwen3-8B", "object": "model", "max_model_len": 40960}));
        assert_eq!((vllm.context, vllm.tools, vllm.price), (Some(40_960), None, None));
        let router = row(json!({"id": "z/m", "context_length": 200000, "created": 1,
            "architecture": {"input_modalities": ["text", "image"], "output_modalities": ["text"]},
            "pricing": {"prompt": "0.00000125", "completion": "0.00001", "input_cache_read": "0.000000125"},
            "supported_parameters": ["max_tokens", "tools", "reasoning"],
            "top_provider": {"context_length": 131072, "max_completion_tokens": 16384}}));
        assert_eq!((router.context, router.max_output), (Some(131_072), Some(16_384)));
        assert_eq!((router.tools, router.images, router.thinks), (Some(true), Some(true), Some(true)));
        assert_eq!(
            router.price,
            Some(Price { input: 1_250_000, cached: 125_000, written: None, output: 10_000_000 })
        );
        // `openrouter/auto` costs what the model costs that it takes.
        assert_eq!(row(json!({"id": "a", "pricing": {"prompt": "-1", "completion": "-1"}})).price, None);
        let together = row(json!({"id": "t", "type": "chat", "pricing": {"input": 0.2, "output": 0.6}}));
        assert_eq!(together.price.map(|price| (price.input, price.output)), Some((200_000, 600_000)));
        let mistral = row(json!({"id": "m", "max_context_length": 131072,
            "capabilities": {"completion_chat": true, "function_calling": true, "vision": false}}));
        assert_eq!(
            (mistral.context, mistral.tools, mistral.images),
            (Some(131_072), Some(true), Some(false))
        );
        let gemini = row(json!({"id": "models/gemini-3-pro", "object": "model"}));
        assert_eq!((gemini.id.as_str(), gemini.has_no_chat), ("gemini-3-pro", false));
        let studio = json!({"id": "q", "state": "loaded", "max_context_length": 32768, "loaded_context_length": 16000});
        assert_eq!(row(studio).context, Some(16_000));
        let idle = row(json!({"id": "q", "state": "not-loaded", "type": "vlm", "max_context_length": 32768}));
        assert_eq!((idle.context, idle.is_context_assumed, idle.images), (Some(4096), true, Some(true)));
    }

    #[test]
    fn what_takes_no_conversation_is_marked() {
        for (value, marked) in [
            (json!({"id": "text-embedding-3-small"}), true),
            (json!({"id": "gpt-image-1"}), true),
            (json!({"id": "gpt-9"}), false),
            (json!({"id": "my-image-talker", "type": "llm"}), false),
            (json!({"id": "m", "capabilities": {"completion_chat": false}}), true),
            (json!({"id": "m", "architecture": {"output_modalities": ["image"]}}), true),
        ] {
            assert_eq!(row(value.clone()).has_no_chat, marked, "{value}");
        }
    }

    #[test]
    fn lists_of_every_shape_and_size_are_read() {
        assert_eq!(of_list(&json!({"object": "list", "data": [{"id": "a"}, {"id": 3}, {}]})).len(), 1);
        assert_eq!(of_list(&json!([{"id": "a"}, {"id": "b"}])).len(), 2);
        for none in [json!(null), json!({"data": null}), json!({"error": "x"}), json!("x")] {
            assert_eq!(of_list(&none), [], "{none}");
        }
        let many: Vec<Value> = (0..10_000).map(|n| json!({"id": format!("m{n}")})).collect();
        assert_eq!(of_list(&json!({"data": many})).len(), 10_000);
    }

    #[test]
    fn props_are_read_by_slot() {
        assert_eq!(
            of_props(&json!({"default_generation_settings": {"n_ctx": 8192}, "n_ctx": 3})),
            Some(8192)
        );
        assert_eq!(of_props(&json!({"n_ctx": 0})), None);
    }

    #[test]
    fn ollama_is_believed_for_what_runs_before_what_could() {
        let show = json!({"parameters": "stop \"<|im_end|>\"\nnum_ctx                        16384",
            "capabilities": ["completion", "tools"],
            "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40960}});
        let ps =
            json!({"models": [{"name": "qwen3:latest", "model": "qwen3:latest", "context_length": 32768}]});
        let context = |loaded, show, model| of_ollama(loaded, show, model).and_then(|told| told.context);
        assert_eq!(context(Some(&ps), &show, "qwen3"), Some(32_768));
        assert_eq!(context(Some(&ps), &show, "qwen3:4b"), Some(16_384));
        let can = of_row_without_name(&show);
        assert_eq!((can.tools, can.images, can.thinks), (Some(true), Some(false), Some(false)));
        let plain = json!({"model_info": {"qwen3.context_length": 40960}});
        let assumed = of_ollama(None, &plain, "qwen3").unwrap();
        assert_eq!((assumed.context, assumed.is_context_assumed), (Some(4096), true));
        assert_eq!(of_ollama(None, &json!({"error": "model not found"}), "x"), None);
    }
}
