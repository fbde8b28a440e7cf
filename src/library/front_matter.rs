//! Front matter: YAML at the head of a Markdown file whose values are texts and lists of texts.

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError};

/// One `key: value`.
pub(super) struct Pair {
    /// The line of the file that it begins in.
    pub line: usize,
    pub key: String,
    pub value: Value,
}

/// All that a value may be.
pub(super) enum Value {
    Text(String),
    List(Vec<String>),
}

/// The pairs of a file's front matter, and the text after it. A file without front matter is all text.
pub(super) fn read(text: &str) -> Result<(Vec<Pair>, &str), String> {
    let Some(rest) = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n")) else {
        return Ok((Vec::new(), text));
    };
    let mut start = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            let pairs = pairs(&rest[..start]).map_err(|(line, error)| format!("line {line}: {error}"))?;
            return Ok((pairs, &rest[start + line.len()..]));
        }
        start += line.len();
    }
    Err("line 1: the front matter that begins here is not closed by a line `---`".to_owned())
}

/// The pairs, or the line of the file that is at fault and what is wrong with it.
fn pairs(head: &str) -> Result<Vec<Pair>, (usize, String)> {
    let (mut pairs, mut is_open) = (Vec::new(), false);
    let (mut key, mut list): (Option<(usize, String)>, Option<Vec<String>>) = (None, None);
    for event in Parser::new_from_str(head) {
        // The first line of the file is the one before, and no fault is after the last.
        let at = |line: usize| line.min(head.lines().count()) + 1;
        let (event, span) = event.map_err(|error| (at(error.marker().line()), words(&error)))?;
        let line = at(span.start.line());
        match event {
            Event::Scalar(text, style, ..) => {
                let is_none = style == ScalarStyle::Plain && matches!(&*text, "" | "~" | "null");
                let text = if is_none { String::new() } else { text.trim_end().to_owned() };
                match (&mut list, key.take()) {
                    _ if !is_open => return Err((line, format!("`{text}` is not of the form `key: value`"))),
                    (Some(items), of) => {
                        items.push(text);
                        key = of;
                    }
                    (None, Some((line, key))) => pairs.push(Pair { line, key, value: Value::Text(text) }),
                    (None, None) if pairs.iter().any(|known: &Pair| known.key == text) => {
                        return Err((line, format!("`{text}` is there twice")));
                    }
                    (None, None) => key = Some((line, text)),
                }
            }
            Event::MappingStart(..) if !is_open => is_open = true,
            Event::SequenceStart(..) if key.is_some() && list.is_none() => list = Some(Vec::new()),
            Event::SequenceEnd => {
                let value = Value::List(list.take().unwrap_or_default());
                pairs.extend(key.take().map(|(line, key)| Pair { line, key, value }));
            }
            Event::MappingStart(..) | Event::SequenceStart(..) | Event::Alias(_) => {
                let of = key.map(|(_, key)| format!("`{key}`")).unwrap_or("front matter".to_owned());
                return Err((line, format!("{of} must be text or a list of texts; put text into quotes")));
            }
            _ => {}
        }
    }
    Ok(pairs)
}

fn words(error: &ScanError) -> String {
    match error.info() {
        "mapping values are not allowed in this context" => {
            "text with a colon and a space in it must be in quotes".to_owned()
        }
        "simple key expected" | "simple key expect ':'" => "expected `key: value`".to_owned(),
        "while parsing a flow sequence, expected ',' or ']'" => {
            "a list that begins with `[` is not closed by `]`; text that begins with `[` must be in quotes"
                .to_owned()
        }
        "while scanning a quoted scalar, found unexpected end of stream" => {
            "a quote is not closed".to_owned()
        }
        other => format!("not valid YAML: {other}"),
    }
}
