//! Writes a conversation as the model was taught to read it: by the chat template in its file.

use aho_corasick::{AhoCorasick, MatchKind};
use minijinja::value::{Kwargs, Value as Jinja};
use minijinja::{Environment, Error, ErrorKind};
use serde::Serialize;
use serde_json::{Value, json};

use crate::provider::written_calls::{BEGIN, END};

/// For files without a template: ChatML, as llama.cpp takes it.
const CHATML: &str = "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n";

/// Steps a template may take: far more than any needs, and a second at most.
const FUEL: u64 = 20_000_000;

/// The name of the only template.
const NAME: &str = "chat";

/// Characters for private use: each takes the place of a control text while the template is applied.
const PRIVATE: u32 = 0xF_0000;
const MOST_PRIVATE: usize = 0xFFFE;

/// A piece of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// The template's own words: control texts in them are control tokens.
    Template(String),
    /// A control text that another writer wrote: it is text.
    Quoted(String),
}

/// The template of a file.
pub(super) struct Template {
    environment: Environment<'static>,
    /// It writes tools and calls in the form that answers are read in.
    has_tools: bool,
    tokens: (String, String),
    controls: Vec<String>,
    finder: Option<AhoCorasick>,
}

impl Template {
    /// `tokens` are the texts of begin and end; `controls` all texts that would be control tokens.
    pub fn new(
        source: Option<String>,
        tokens: (String, String),
        mut controls: Vec<String>,
    ) -> Result<Self, String> {
        let source = source.unwrap_or_else(|| CHATML.to_owned());
        let has_tools = source.contains("tools") && source.contains(BEGIN) && !source.contains("<function=");
        let mut environment = Environment::new();
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.set_fuel(Some(FUEL));
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |words: String| -> Result<Jinja, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, words))
        });
        environment.add_filter("tojson", |value: Jinja, options: Kwargs| {
            let _ = options.get::<Option<usize>>("indent");
            python_json(&value)
        });
        environment.add_template_owned(NAME, source).map_err(|error| error.to_string())?;
        // Both sides write these.
        controls.retain(|text| !["", BEGIN, END].contains(&text.as_str()));
        controls.truncate(MOST_PRIVATE);
        let finder = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&controls).ok();
        Ok(Template { environment, has_tools, tokens, controls, finder })
    }

    /// The prompt of a request of chat completions. `is_typed`: the answer is held to a schema, so that thinking has no
    /// place in it.
    pub fn write(&self, body: &Value, has_tools: bool, is_typed: bool) -> Result<Vec<Piece>, String> {
        let mut messages: Vec<Value> = body["messages"].as_array().cloned().unwrap_or_default();
        messages.iter_mut().for_each(plain);
        let tools = body["tools"].as_array().filter(|_| has_tools).cloned();
        let mut shown = Value::Null;
        match tools {
            Some(tools) if self.has_tools => {
                messages.iter_mut().for_each(read_arguments);
                shown = tools.into();
            }
            tools => messages = in_words(messages, tools.as_deref()),
        }
        messages.iter_mut().chain([&mut shown]).for_each(|value| self.quote(value));
        let mut fields = json!({"messages": messages, "add_generation_prompt": true,
            "bos_token": self.tokens.0, "eos_token": self.tokens.1});
        if !shown.is_null() {
            fields["tools"] = shown;
        }
        if is_typed {
            fields["enable_thinking"] = false.into();
        }
        if let Some(more) = body["chat_template_kwargs"].as_object() {
            more.iter().for_each(|(name, value)| fields[name] = value.clone());
        }
        // Some templates take no system message: then the first user says it.
        let text = self.render(&fields).or_else(|error| {
            fields["messages"] = without_system(&messages).ok_or(error)?.into();
            self.render(&fields)
        });
        text.map(|text| self.pieces(&text)).map_err(|error| error.to_string())
    }

    fn render(&self, fields: &Value) -> Result<String, Error> {
        self.environment.get_template(NAME)?.render(jinja(fields))
    }

    /// Puts private characters in the place of control texts.
    fn quote(&self, value: &mut Value) {
        match (value, &self.finder) {
            (Value::String(text), Some(finder)) if finder.is_match(&*text) => {
                let mut quoted = String::new();
                finder.replace_all_with(text, &mut quoted, |found, _, to| {
                    let at = u32::try_from(found.pattern().as_usize()).unwrap_or_default();
                    to.extend(char::from_u32(PRIVATE + at));
                    true
                });
                *text = quoted;
            }
            (Value::Object(map), _) => map.values_mut().for_each(|inner| self.quote(inner)),
            (Value::Array(list), _) => list.iter_mut().for_each(|inner| self.quote(inner)),
            _ => {}
        }
    }

    fn pieces(&self, text: &str) -> Vec<Piece> {
        let (mut pieces, mut own) = (Vec::new(), String::new());
        for letter in text.chars() {
            let at = u32::from(letter).checked_sub(PRIVATE).and_then(|at| usize::try_from(at).ok());
            match at.and_then(|at| self.controls.get(at)) {
                Some(control) => {
                    pieces.push(Piece::Template(std::mem::take(&mut own)));
                    pieces.push(Piece::Quoted(control.clone()));
                }
                None => own.push(letter),
            }
        }
        pieces.push(Piece::Template(own));
        pieces
    }
}

/// Content as one text.
fn plain(message: &mut Value) {
    let content = match message["content"].take() {
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n\n")
        }
        Value::String(text) => text,
        _ => String::new(),
    };
    message["content"] = content.into();
}

/// Templates expect arguments as values, not as text.
fn read_arguments(message: &mut Value) {
    for call in message["tool_calls"].as_array_mut().into_iter().flatten() {
        let arguments = &mut call["function"]["arguments"];
        if let Some(read) = arguments.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok()) {
            *arguments = read;
        }
    }
}

/// For templates that know no tools, or other calls than answers are read in: tools, calls and results as text.
fn in_words(messages: Vec<Value>, tools: Option<&[Value]>) -> Vec<Value> {
    let mut written: Vec<Value> = Vec::new();
    for mut message in messages {
        let mut text = message["content"].as_str().unwrap_or_default().to_owned();
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let function = &call["function"];
            let arguments = function["arguments"].as_str().unwrap_or("{}");
            text +=
                &format!("\n{BEGIN}\n{{\"name\": {}, \"arguments\": {arguments}}}\n{END}", function["name"]);
        }
        let mut role = message["role"].take();
        if role == "tool" {
            role = "user".into();
            text = format!("<tool_response>\n{text}\n</tool_response>");
            if let Some(last) = written.last_mut().filter(|last| last["role"] == "user") {
                let before = last["content"].as_str().unwrap_or_default();
                last["content"] = format!("{before}\n{text}").into();
                continue;
            }
        }
        written.push(json!({"role": role, "content": text.trim_start_matches('\n')}));
    }
    if let Some(tools) = tools {
        let list: Vec<String> = tools.iter().map(Value::to_string).collect();
        let words = format!(
            "# Tools\n\nYou may call these functions:\n<tools>\n{}\n</tools>\n\nTo call one, write:\n{BEGIN}\n{{\"name\": NAME, \"arguments\": {{…}}}}\n{END}",
            list.join("\n")
        );
        match written.first_mut().filter(|first| first["role"] == "system") {
            Some(first) => {
                first["content"] =
                    format!("{}\n\n{words}", first["content"].as_str().unwrap_or_default()).into();
            }
            None => written.insert(0, json!({"role": "system", "content": words})),
        }
    }
    written
}

/// The messages with the first user saying what the system says; none where there is nothing to move.
fn without_system(messages: &[Value]) -> Option<Vec<Value>> {
    let (first, rest) = messages.split_first()?;
    let system = first["content"].as_str().filter(|_| first["role"] == "system")?;
    let mut rest = rest.to_vec();
    match rest.first_mut().filter(|next| next["role"] == "user") {
        Some(user) => {
            user["content"] = format!("{system}\n\n{}", user["content"].as_str().unwrap_or_default()).into()
        }
        None => rest.insert(0, json!({"role": "user", "content": system})),
    }
    Some(rest)
}

/// A value for the template; numbers as numbers, whatever serde_json keeps them as.
fn jinja(value: &Value) -> Jinja {
    match value {
        Value::Null => Jinja::from(()),
        Value::Bool(yes) => Jinja::from(*yes),
        Value::Number(number) => {
            let whole = number.as_i64().map(Jinja::from).or_else(|| number.as_u64().map(Jinja::from));
            whole.unwrap_or_else(|| Jinja::from(number.as_f64().unwrap_or_default()))
        }
        Value::String(text) => Jinja::from(text.as_str()),
        Value::Array(list) => list.iter().map(jinja).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), jinja(value))).collect(),
    }
}

/// JSON as Python writes it, and as models were shown it: blanks after commas and colons, nothing escaped for HTML.
fn python_json(value: &Jinja) -> Result<String, Error> {
    struct Python;
    impl serde_json::ser::Formatter for Python {
        fn begin_array_value<W: ?Sized + std::io::Write>(
            &mut self,
            to: &mut W,
            first: bool,
        ) -> std::io::Result<()> {
            if first { Ok(()) } else { to.write_all(b", ") }
        }
        fn begin_object_key<W: ?Sized + std::io::Write>(
            &mut self,
            to: &mut W,
            first: bool,
        ) -> std::io::Result<()> {
            if first { Ok(()) } else { to.write_all(b", ") }
        }
        fn begin_object_value<W: ?Sized + std::io::Write>(&mut self, to: &mut W) -> std::io::Result<()> {
            to.write_all(b": ")
        }
    }
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, Python);
    let failed = |words: String| Error::new(ErrorKind::BadSerialization, words);
    value.serialize(&mut serializer).map_err(|error| failed(error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| failed(error.to_string()))
}
