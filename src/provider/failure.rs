//! Turns what providers and connections report into one kind of failure with words; knows no wire format of answers.

use serde_json::Value;

use crate::protocol::event::{ErrorKind, ModelFailed};
use crate::provider::refusal::{NO_TOOLS, refused};
use crate::provider::{Secret, limits, wait};

/// Bytes of a provider's own words that go into a message.
const MAX_WORDS: usize = 600;

/// Who was asked: what messages name, and what they must never show.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    /// Name in the configuration.
    pub name: String,
    /// Host and port.
    pub host: String,
    /// Keys and header values.
    pub secrets: Vec<Secret>,
}

impl Peer {
    /// A failure that names the peer. `what` follows the peer's name; the hint follows a semicolon.
    pub fn failed(&self, kind: ErrorKind, what: &str, hint: &str) -> ModelFailed {
        let what = self.scrub(what);
        let message = match hint {
            "" => format!("`{}` ({}) {what}", self.name, self.host),
            // Providers write sentences; ours goes on after theirs.
            hint => format!("`{}` ({}) {}; {hint}", self.name, self.host, what.trim_end_matches('.')),
        };
        ModelFailed::new(kind, message)
    }

    /// A failure the provider reported itself, in an answer or inside a stream.
    pub fn reported(&self, report: &Report) -> ModelFailed {
        let kind = report.kind();
        let what = match (report.status, report.words.as_str()) {
            (Some(status), "") => format!("answered {status} without a word"),
            (Some(status), words) => format!("answered {status}: {}", shortened(words)),
            (None, words) => format!("reported an error: {}", shortened(words)),
        };
        let limits = matches!(kind, ErrorKind::ContextOverflow | ErrorKind::OutputLimit)
            .then(|| limits::read(&report.words).map(Box::new))
            .flatten();
        let failed = self.failed(kind, &what, report.hint(kind));
        let retry_after_ms = wait::of_words(&report.words).filter(|_| kind.is_retryable());
        ModelFailed { refused: refused(report), limits, retry_after_ms, ..failed }
    }

    /// Some providers repeat a refused key in their answer.
    fn scrub(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.secrets {
            if secret.reveal().len() >= 4 && text.contains(secret.reveal()) {
                text = text.replace(secret.reveal(), "***");
            }
        }
        text
    }
}

/// An error as a provider words it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// HTTP status, or the one named inside the error.
    pub status: Option<u16>,
    /// Its `code` and `type`, joined; lower case.
    pub code: String,
    /// The parameter it is about, where it says so.
    pub param: String,
    /// Its message.
    pub words: String,
    /// It came inside an answer that had begun.
    pub in_stream: bool,
}

impl Report {
    /// Reads the error of an HTTP answer, whatever its body is.
    pub fn of_answer(status: u16, body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        let found = serde_json::from_slice::<Value>(body).ok().and_then(|value| Report::of_json(&value));
        let mut report = found.unwrap_or_else(|| Report { words: plain_words(&text), ..Report::default() });
        report.status = Some(status);
        report
    }

    /// Finds the error in a JSON answer or in one event of a stream; none when it holds none.
    ///
    /// Known shapes: `{"error": {message, type, code}}`, `{"error": "words"}`, `{"object": "error", message}`,
    /// `{"detail": …}`, and a list that holds one of them.
    pub fn of_json(value: &Value) -> Option<Self> {
        if let Value::Array(list) = value {
            return list.first().and_then(Report::of_json);
        }
        let error = match value.get("error") {
            Some(Value::Null) | None if value.get("object").and_then(Value::as_str) == Some("error") => value,
            Some(Value::Null) | None if value.get("choices").is_none() => {
                value.get("detail").or_else(|| value.get("message")).filter(|v| !v.is_null())?
            }
            Some(Value::Null) | None => return None,
            Some(error) => error,
        };
        if let Value::String(words) = error {
            return Some(Report { words: words.clone(), ..Report::default() });
        }
        let word = |key: &str| match error.get(key) {
            Some(Value::String(word)) => word.to_lowercase(),
            Some(Value::Number(number)) => number.to_string(),
            _ => String::new(),
        };
        let code = word("code");
        let status = code.parse().ok().filter(|status| (400..600).contains(status));
        let words = error.get("message").and_then(Value::as_str).map(str::to_owned);
        Some(
            Report {
                status,
                code: [code, word("type"), word("status")].join(" ").trim().to_owned(),
                param: word("param"),
                words: words.unwrap_or_else(|| error.to_string()),
                in_stream: false,
            }
            .with_upstream(error.pointer("/metadata/raw"))
            .with_filters(error.pointer("/innererror/content_filter_result")),
        )
    }

    /// Azure says beside its words which of its filters refused the input.
    fn with_filters(mut self, filters: Option<&Value>) -> Self {
        let filters = filters.and_then(Value::as_object).into_iter().flatten();
        let hit = |filter: &Value| ["filtered", "detected"].iter().any(|word| filter[*word] == true);
        let named = filters.filter(|(_, filter)| hit(filter)).map(|(name, filter)| {
            filter["severity"]
                .as_str()
                .map_or_else(|| name.clone(), |severity| format!("{name} ({severity})"))
        });
        let named: Vec<String> = named.collect();
        if !named.is_empty() {
            self.words = format!("{} Filtered: {}.", self.words.trim_end(), named.join(", "));
        }
        self
    }

    /// OpenRouter answers for others and puts what they said, as text, beside its own `Provider returned error`.
    fn with_upstream(mut self, raw: Option<&Value>) -> Self {
        let Some(raw) = raw.and_then(Value::as_str) else { return self };
        match serde_json::from_str::<Value>(raw).ok().and_then(|value| Report::of_json(&value)) {
            Some(theirs) => {
                self.words = format!("{}: {}", self.words, theirs.words);
                (self.code, self.param) = ([self.code, theirs.code].join(" "), theirs.param);
            }
            None => self.words = format!("{}: {raw}", self.words),
        }
        self
    }

    /// The kind of failure, from status, code and words together.
    pub fn kind(&self) -> ErrorKind {
        let status = self.status.unwrap_or(0);
        if self.is_out_of_quota() {
            return ErrorKind::Quota;
        }
        if self.is_loading() {
            return ErrorKind::Loading;
        }
        if self.is_larger_than_a_minute() {
            return ErrorKind::OutputLimit;
        }
        if (status == 0 || (400..=500).contains(&status)) && status != 429 {
            match self.too_large() {
                Some(kind) => return kind,
                // The model's call was none: asked again it may write a better one.
                None if self.code.contains("tool_use_failed") => return ErrorKind::BadResponse,
                None => {}
            }
        }
        match status {
            // OpenRouter refuses what its moderation flags as others refuse a key.
            0 | 403 if self.is_moderated() => ErrorKind::BadRequest,
            // Gemini calls a wrong key a bad request.
            400 if self.says(&[
                "api key not valid",
                "api key expired",
                "missing or invalid authorization",
            ]) =>
            {
                ErrorKind::Auth
            }
            0 => self.kind_of_code(),
            401..=403 => ErrorKind::Auth,
            408 => ErrorKind::Timeout,
            413 => ErrorKind::ContextOverflow,
            429 => ErrorKind::RateLimited,
            // llama-cpp-python calls a request it cannot read its own error.
            500 if self.words.contains("'loc': ('body'") => ErrorKind::BadRequest,
            500.. => ErrorKind::Overloaded,
            _ => ErrorKind::BadRequest,
        }
    }

    /// For an error without a status: by its code, else by its words, else by where it came.
    fn kind_of_code(&self) -> ErrorKind {
        let words = self.words.to_lowercase();
        let coded = |list: &[&str]| list.iter().any(|word| self.code.contains(word));
        let said = |list: &[&str]| self.code.is_empty() && list.iter().any(|word| words.contains(word));
        match () {
            () if coded(&["rate_limit", "too_many_requests", "resource_exhausted"]) => ErrorKind::RateLimited,
            () if coded(&["api_key", "authentication", "permission", "unauthorized"]) => ErrorKind::Auth,
            () if coded(&["invalid_request", "not_found", "bad_request", "invalid_prompt"]) => {
                ErrorKind::BadRequest
            }
            () if said(&["rate limit", "too many requests"]) => ErrorKind::RateLimited,
            () if said(&["api key", "unauthorized", "not authenticated"]) => ErrorKind::Auth,
            () if said(&[
                "no such",
                "not found",
                "does not exist",
                "not support",
                "unsupported",
                "invalid",
            ]) =>
            {
                ErrorKind::BadRequest
            }
            // What breaks an answer that had begun is the server's trouble; a bare refusal is final unless it
            // says that it will pass.
            () if !self.code.is_empty() || self.in_stream || said(&TRANSIENT) => ErrorKind::Overloaded,
            () => ErrorKind::BadRequest,
        }
    }

    /// A used-up account looks like a rate limit (429), but waiting does not help.
    fn is_out_of_quota(&self) -> bool {
        self.status == Some(402)
            || ["insufficient_quota", "billing", "insufficient_credits", "budget_exceeded"]
                .iter()
                .any(|word| self.code.contains(word))
            || self.says(&["credit balance is too low", "specified api usage limits"])
    }

    /// Groq, OpenAI: the request and the output it asks for are more tokens than the account may use in a minute, so that
    /// no waiting helps.
    fn is_larger_than_a_minute(&self) -> bool {
        self.says(&["request too large"]) && self.says(&["tokens per min"])
    }

    /// The request itself is refused, for every account.
    fn is_moderated(&self) -> bool {
        self.says(&["content_filter", "content management policy", "content policy", "moderation", "flagged"])
    }

    /// True when one of these is in its code or words.
    fn says(&self, list: &[&str]) -> bool {
        let words = self.words.to_lowercase();
        list.iter().any(|word| self.code.contains(word) || words.contains(word))
    }

    /// llama-server: `Loading model`; others in words of their own, all with 503.
    fn is_loading(&self) -> bool {
        let words = self.words.to_lowercase();
        let said = ["loading model", "model is loading", "currently loading", "still loading", "warming up"];
        matches!(self.status, None | Some(503)) && said.iter().any(|word| words.contains(word))
    }

    /// Whether the input is what does not fit, or only the output asked for beside it.
    fn too_large(&self) -> Option<ErrorKind> {
        let limits = limits::read(&self.words);
        let fits = limits.is_some_and(|limits| match (limits.context, limits.input) {
            (Some(context), Some(input)) => input < context,
            _ => limits.output.is_some(),
        });
        let is_output =
            self.says(&["max_tokens", "max_completion_tokens", "max_new_tokens", "maxoutputtokens"])
                && self.says(&[
                    "too large",
                    "valid range",
                    "supported range",
                    "less than or equal",
                    "must be <=",
                    "maximum allowed",
                ]);
        match self.says(&OVERFLOW) || is_output {
            true if fits => Some(ErrorKind::OutputLimit),
            true if is_output && limits.is_none_or(|limits| limits.input.is_none()) => {
                Some(ErrorKind::OutputLimit)
            }
            true => Some(ErrorKind::ContextOverflow),
            false => None,
        }
    }

    fn hint(&self, kind: ErrorKind) -> &'static str {
        match kind {
            ErrorKind::Quota => "waiting does not help: check the account's plan and billing",
            ErrorKind::Auth => "check the key and that it may use this model",
            ErrorKind::RateLimited => "wait, or ask fewer at a time",
            ErrorKind::Loading => "the server answers once the model is loaded",
            ErrorKind::Overloaded => "the trouble is on its side: try again later or use another model",
            ErrorKind::OutputLimit if self.is_larger_than_a_minute() => {
                "the account may use fewer tokens in a minute than this request needs: raise its limit or use another model"
            }
            ErrorKind::OutputLimit => "set `max_output` and `context` of the model in the configuration",
            ErrorKind::ContextOverflow => {
                "the conversation no longer fits: compact it or use a model with a larger window"
            }
            ErrorKind::BadRequest => self.hint_of_bad_request(),
            ErrorKind::BadResponse => "the model wrote a tool call the provider cannot read: try again",
            _ => "try again",
        }
    }

    fn hint_of_bad_request(&self) -> &'static str {
        match HINTS.iter().find(|(said, _)| self.says(said)) {
            _ if self.is_moderated() => "the provider's filter refused the input: rephrase it",
            Some((_, hint)) => hint,
            None if self.status == Some(404) => {
                "check the model's name (`agon models` lists them) and the base URL"
            }
            None if self.status == Some(422) => {
                "the server does not know a field: set `dialect` of the provider (docs/models.md)"
            }
            None => "trying again will not help: check the model's name and settings",
        }
    }
}

/// Published words of a refusal, and what a person can do. The first row counts.
const HINTS: [(&[&str], &str); 6] = [
    (
        &["editor-version header"],
        "set `headers` of the provider: `Editor-Version` and `Copilot-Integration-Id`",
    ),
    (&["only supported in v1/responses"], "set `kind = \"openai-responses\"` of the provider"),
    (
        &["only supported in v1/chat/completions", "not supported in v1/responses", "with the responses api"],
        "set `kind = \"openai\"` of the provider",
    ),
    (&NO_TOOLS, "use a model that can call tools"),
    (&["response_format", "json_schema"], "set `structured` of the model to `json_object` or `words`"),
    (
        &["no such model", "model_not_found", "model not found"],
        "check the model's name (`agon models` lists them) and the base URL",
    ),
];

/// Words of an input that is too large.
const OVERFLOW: [&str; 14] = [
    "context_length",
    "context length",
    "context window",
    "context size",
    "context limit",
    "exceed_context",
    "maximum context",
    "max_model_len",
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "too many tokens",
    "reduce the length of the messages",
    "reduce your message size",
];

/// Words of trouble that passes.
const TRANSIENT: [&str; 8] =
    ["overload", "busy", "try again", "unavailable", "capacity", "timed out", "timeout", "internal"];

/// An error page's text is of no use beyond its first line.
fn plain_words(text: &str) -> String {
    let text = text.trim();
    if text.starts_with('<') {
        return "an HTML page instead of an API answer".to_owned();
    }
    text.to_owned()
}

/// At most [`MAX_WORDS`] bytes, cut between characters.
pub(super) fn shortened(text: &str) -> String {
    let text = text.trim();
    if text.len() <= MAX_WORDS {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(MAX_WORDS)])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kinds() {
        let context = r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","code":"context_length_exceeded"}}"#;
        let quota = r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota"}}"#;
        let rows = [
            (400, context, ErrorKind::ContextOverflow),
            (413, "prompt is too long: 300000 tokens", ErrorKind::ContextOverflow),
            (413, "Payload Too Large", ErrorKind::ContextOverflow),
            (
                400,
                r#"{"error":{"message":"max_tokens is too large: 9. This model supports at most 8"}}"#,
                ErrorKind::OutputLimit,
            ),
            (
                400,
                r#"{"error":{"message":"maximum context length is 8192 tokens. However, you requested 10192 tokens (2000 in the messages, 8192 in the completion)"}}"#,
                ErrorKind::OutputLimit,
            ),
            (
                400,
                r#"{"error":{"message":"maximum context length is 8192 tokens. However, you requested 18192 tokens (10000 in the messages, 8192 in the completion)"}}"#,
                ErrorKind::ContextOverflow,
            ),
            (
                400,
                r#"{"error":{"message":"Failed to call a function.","code":"tool_use_failed"}}"#,
                ErrorKind::BadResponse,
            ),
            (
                503,
                r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#,
                ErrorKind::Loading,
            ),
            (503, r#"{"error":"Model m is currently loading","estimated_time":20.0}"#, ErrorKind::Loading),
            (503, "no healthy upstream", ErrorKind::Overloaded),
            (400, r#"{"error":"no such model"}"#, ErrorKind::BadRequest),
            (401, "", ErrorKind::Auth),
            (402, "pay first", ErrorKind::Quota),
            (403, "<html>no</html>", ErrorKind::Auth),
            (404, r#"{"detail":"Not Found"}"#, ErrorKind::BadRequest),
            (408, "", ErrorKind::Timeout),
            (429, r#"{"error":{"message":"slow down"}}"#, ErrorKind::RateLimited),
            (429, quota, ErrorKind::Quota),
            (500, "boom", ErrorKind::Overloaded),
            (529, r#"{"error":{"type":"overloaded_error"}}"#, ErrorKind::Overloaded),
        ];
        for (status, body, kind) in rows {
            assert_eq!(Report::of_answer(status, body.as_bytes()).kind(), kind, "{status} {body}");
        }
    }

    #[test]
    fn errors_inside_a_stream() {
        let kind = |value: Value| Report::of_json(&value).map(|report| report.kind());
        let rows = [
            (json!({"error": {"message": "x", "code": 429}}), Some(ErrorKind::RateLimited)),
            (json!({"error": {"message": "x", "type": "server_error"}}), Some(ErrorKind::Overloaded)),
            (json!({"error": {"code": "rate_limit_exceeded"}}), Some(ErrorKind::RateLimited)),
            (json!({"object": "error", "message": "bad", "code": 400}), Some(ErrorKind::BadRequest)),
            (json!({"error": "no such model"}), Some(ErrorKind::BadRequest)),
            (json!({"error": "the server is busy, try again"}), Some(ErrorKind::Overloaded)),
            (json!({"error": {"message": "something"}}), Some(ErrorKind::BadRequest)),
            (json!({"error": null, "choices": []}), None),
            (json!({"choices": [], "message": "hello"}), None),
        ];
        for (value, expected) in rows {
            assert_eq!(kind(value.clone()), expected, "{value}");
        }
    }

    #[test]
    fn keys_never_appear() {
        let peer = Peer { name: "p".into(), host: "h".into(), secrets: vec!["sk-12345678".into()] };
        let report = Report::of_answer(401, br#"{"error":{"message":"Incorrect API key: sk-12345678"}}"#);
        let message = peer.reported(&report).message;
        assert!(message.contains("Incorrect API key: ***"), "{message}");
        assert!(!format!("{peer:?}").contains("12345678"));
    }
}
