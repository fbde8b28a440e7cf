//! Lets a written answer cite what it was shown: `{{cite:WORDS}}` becomes the reference of the last such result.

use crate::protocol::EventRef;
use crate::protocol::message::{Message, Part};

const OPEN: &str = "{{cite:";
const CLOSE: &str = "}}";

/// The text with every citation filled in, or the words that nothing in the request holds.
pub(super) fn fill(text: &str, messages: &[Message]) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(OPEN) {
        let Some((words, after)) = after.split_once(CLOSE) else { break };
        out.push_str(before);
        out.push_str(&reference(words, messages).ok_or_else(|| words.to_owned())?.to_string());
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

fn reference(words: &str, messages: &[Message]) -> Option<EventRef> {
    let parts = messages.iter().rev().flat_map(|message| message.parts.iter().rev());
    parts.filter_map(content).filter(|text| text.contains(words)).find_map(|text| {
        let (reference, _) = text.strip_prefix('[')?.split_once(']')?;
        reference.parse().ok()
    })
}

fn content(part: &Part) -> Option<&str> {
    match part {
        Part::Text { text } => Some(text),
        Part::Result { content, .. } => Some(content),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Role;

    #[test]
    fn the_last_result_that_holds_the_words_is_cited() {
        let said = |text: &str| Message {
            role: Role::User,
            parts: vec![Part::Text { text: text.to_owned() }],
            from: EventRef::fact(0),
        };
        let messages =
            [said("[e3] $ sh check.sh\n1 failed"), said("[e9] $ sh check.sh\nok"), said("sh check.sh")];
        assert_eq!(fill("see {{cite:sh check.sh}}, {{cite:1 failed}}.", &messages).unwrap(), "see e9, e3.");
        assert_eq!(fill("{{cite:nothing}}", &messages), Err("nothing".to_owned()));
        assert_eq!(fill("{{cite:open", &messages).unwrap(), "{{cite:open");
    }
}
