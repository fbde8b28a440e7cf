//! What each host of this format takes and refuses: one row a host, with the public report of its refusal.

use crate::protocol::message::Structured;

/// How one host wants its requests.
///
/// `docs/models.md` prints this table; a test of each row asks a server that refuses what the host refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// Its name in the configuration, `dialect = "mistral"`.
    pub name: &'static str,
    /// Hosts it is chosen for, subdomains included.
    hosts: &'static [&'static str],
    /// What the output limit is called.
    pub max_output: &'static str,
    /// `stream_options.include_usage` is sent; a host that refuses it counts without being asked.
    pub stream_options: bool,
    /// Users and assistants must take turns: neighbours are merged, and a word of the assistant is put
    /// between a tool's result and a user's message.
    pub alternating: bool,
    /// Tool-call ids have exactly nine letters and digits.
    pub nine_character_ids: bool,
    /// The field in which an answer's thinking goes back as text, on every message of the assistant.
    pub reasoning_field: Option<&'static str>,
    /// What `response_format` takes.
    pub formats: Formats,
    /// A tool can be forced by `tool_choice`.
    pub forced_tool: bool,
    /// Effort is read from the variables of the model's template as well.
    pub template_effort: bool,
    /// Takes a `prompt_cache_key`.
    pub cache_key: bool,
    /// Headers say who asks, which is what the host counts, and that there are pictures.
    pub copilot: bool,
    /// Where what the row avoids was published.
    pub source: &'static str,
}

/// What a host's `response_format` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Formats {
    /// `json_schema` and `json_object`.
    Both,
    /// `json_schema` only.
    Schema,
    /// `json_object` only.
    Object,
}

/// How a typed answer is asked for on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Typed {
    /// `response_format` with the schema.
    Schema,
    /// `response_format` without it. True: the schema has to be put into words as well.
    Object { in_words: bool },
    /// A tool the model must call.
    Tool,
    /// The session said it in words.
    Words,
}

/// What everybody takes: the row of a server nothing is known of.
const GENERIC: Dialect = Dialect {
    name: "generic",
    hosts: &[],
    max_output: "max_tokens",
    stream_options: true,
    alternating: true,
    nine_character_ids: false,
    reasoning_field: None,
    formats: Formats::Both,
    forced_tool: true,
    template_effort: false,
    cache_key: false,
    copilot: false,
    // Chat templates that refuse two user messages in a row, whatever server applies them.
    source: "https://github.com/charmbracelet/crush/issues/279",
};

/// The table.
pub const DIALECTS: &[Dialect] = &[
    Dialect {
        name: "openai",
        hosts: &["openai.com"],
        cache_key: true,
        max_output: "max_completion_tokens",
        alternating: false,
        source: "https://github.com/anomalyco/opencode/issues/37964",
        ..GENERIC
    },
    Dialect {
        name: "azure",
        hosts: &["openai.azure.com", "services.ai.azure.com"],
        max_output: "max_completion_tokens",
        alternating: false,
        source: "https://github.com/langgenius/dify/issues/9746",
        ..GENERIC
    },
    Dialect {
        name: "openrouter",
        hosts: &["openrouter.ai"],
        source: "https://github.com/massgen/MassGen/issues/624",
        ..GENERIC
    },
    Dialect {
        name: "groq",
        hosts: &["groq.com"],
        alternating: false,
        source: "https://github.com/janhq/jan/issues/8136",
        ..GENERIC
    },
    Dialect {
        name: "together",
        hosts: &["together.ai", "together.xyz"],
        source: "https://github.com/stanford-crfm/helm/pull/2079",
        ..GENERIC
    },
    Dialect {
        name: "mistral",
        hosts: &["mistral.ai"],
        stream_options: false,
        nine_character_ids: true,
        source: "https://github.com/dnakov/anon-kode/issues/53",
        ..GENERIC
    },
    Dialect {
        name: "deepseek",
        hosts: &["deepseek.com"],
        alternating: false,
        reasoning_field: Some("reasoning_content"),
        formats: Formats::Object,
        forced_tool: false,
        source: "https://github.com/zed-industries/zed/issues/55321",
        ..GENERIC
    },
    Dialect {
        name: "xai",
        hosts: &["x.ai"],
        alternating: false,
        source: "https://github.com/open-webui/open-webui/issues/21266",
        ..GENERIC
    },
    Dialect {
        name: "gemini",
        hosts: &["generativelanguage.googleapis.com"],
        alternating: false,
        source: "https://github.com/securo-finance/securo/issues/884",
        ..GENERIC
    },
    Dialect {
        name: "github-copilot",
        hosts: &["githubcopilot.com"],
        alternating: false,
        copilot: true,
        source: "https://github.com/BerriAI/litellm/issues/12859",
        ..GENERIC
    },
    Dialect {
        name: "ollama",
        alternating: false,
        source: "https://github.com/ollama/ollama/issues/5793",
        ..GENERIC
    },
    Dialect {
        name: "lmstudio",
        formats: Formats::Schema,
        source: "https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/189",
        ..GENERIC
    },
    Dialect { name: "vllm", source: "https://github.com/vllm-project/vllm/issues/41114", ..GENERIC },
    Dialect {
        name: "llama-server",
        template_effort: true,
        source: "https://github.com/ggml-org/llama.cpp/issues/20733",
        ..GENERIC
    },
    GENERIC,
];

impl Dialect {
    /// The row of this name.
    pub fn named(name: &str) -> Option<&'static Dialect> {
        DIALECTS.iter().find(|row| row.name == name)
    }

    /// The row of a host; else that of a server which runs anywhere and the provider is named after; else the
    /// generic one.
    pub(super) fn of(host: &str, provider: &str) -> &'static Dialect {
        let by_host = DIALECTS.iter().find(|row| row.serves(host));
        let by_name = || Dialect::named(provider).filter(|row| row.hosts.is_empty());
        by_host.or_else(by_name).unwrap_or(&GENERIC)
    }

    fn serves(&self, host: &str) -> bool {
        let is_known = |known: &&str| {
            host.strip_suffix(*known).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        self.hosts.iter().any(is_known)
    }

    /// How a typed answer is asked for where the session chose this way.
    pub(super) fn typed(&self, via: Structured) -> Typed {
        match (via, self.formats) {
            (Structured::Words | Structured::Any | Structured::Unknown(_), _) => Typed::Words,
            (Structured::ForcedTool, _) if self.forced_tool => Typed::Tool,
            (Structured::JsonObject, Formats::Both | Formats::Object) => Typed::Object { in_words: false },
            (_, Formats::Object) => Typed::Object { in_words: true },
            _ => Typed::Schema,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn hosts_come_first_then_names() {
        let rows = [
            ("api.openai.com", "x", "openai"),
            ("eu.api.openai.com", "x", "openai"),
            ("x.openai.azure.com", "x", "azure"),
            ("notopenai.com", "x", "generic"),
            ("api.mistral.ai", "openai", "mistral"),
            ("127.0.0.1", "ollama", "ollama"),
            ("gpu-box", "llama-server", "llama-server"),
            ("gpu-box", "gpu", "generic"),
            ("127.0.0.1", "openai", "generic"),
        ];
        for (host, provider, name) in rows {
            assert_eq!(Dialect::of(host, provider).name, name, "{host} {provider}");
        }
    }

    #[test]
    fn every_row_has_one_name_and_a_public_source() {
        let names: BTreeSet<&str> = DIALECTS.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), DIALECTS.len());
        assert!(DIALECTS.iter().all(|row| row.source.starts_with("https://")));
    }

    #[test]
    fn typed_answers_are_asked_for_as_the_host_takes_them() {
        use Structured as S;
        let rows = [
            ("generic", S::ResponseFormat, Typed::Schema),
            ("generic", S::JsonObject, Typed::Object { in_words: false }),
            ("generic", S::ForcedTool, Typed::Tool),
            ("lmstudio", S::JsonObject, Typed::Schema),
            ("deepseek", S::ResponseFormat, Typed::Object { in_words: true }),
            ("deepseek", S::JsonObject, Typed::Object { in_words: false }),
            ("deepseek", S::ForcedTool, Typed::Object { in_words: true }),
            ("deepseek", S::Words, Typed::Words),
        ];
        for (name, via, typed) in rows {
            assert_eq!(Dialect::named(name).unwrap().typed(via), typed, "{name} {via:?}");
        }
    }
}
