//! Lets a written answer cite what it was shown: `{{cite:WORDS}}` becomes the reference of the last such result.

use std::sync::Arc;

use crate::protocol::EventRef;
use crate::protocol::message::{Message, Part};

const OPEN: &str = "{{cite:";
const CLOSE: &str = "}}";

/// The text with every citation filled in, or the words that nothing in the request holds.
pub(super) fn fill(text: &str, messages: &[Arc<Message>]) -> Result<String, String> {
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

fn reference(words: &str, messages: &[Arc<Message>]) -> Option<EventRef> {
    let parts = messages.iter().rev().flat_map(|message| message.parts.iter().rev());
    parts.filter_map(content).find_map(|text| {
        // Several results may stand in one text: the words are in the one that begins last before them.
        let whole = text.rfind(words)? + words.len();
        text[..whole].lines().rev().find_map(reference_of)
    })
}

/// What a line begins to show: a result, or the evidence of a ballot.
fn reference_of(line: &str) -> Option<EventRef> {
    let result = || line.strip_prefix('[')?.split_once(']');
    let evidence = || line.strip_prefix("- evidence ")?.split_once(':');
    result().or_else(evidence)?.0.parse().ok()
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
        let said = |text: &str| {
            let parts = vec![Part::Text { text: text.to_owned() }];
            Arc::new(Message { role: Role::User, parts, from: EventRef::fact(0) })
        };
        let messages =
            [said("[e3] $ sh check.sh\n1 failed"), said("[e9] $ sh check.sh\nok"), said("sh check.sh")];
        assert_eq!(fill("see {{cite:sh check.sh}}, {{cite:1 failed}}.", &messages).unwrap(), "see e9, e3.");
        let quoted = [said("# Evidence\n\n[e4] one\ntwo\n\n[e7] two\nthree\n- evidence e8: four\n")];
        assert_eq!(fill("{{cite:two}} {{cite:one\ntwo}} {{cite:four}}", &quoted).unwrap(), "e7 e4 e8");
        assert_eq!(fill("{{cite:nothing}}", &messages), Err("nothing".to_owned()));
        assert_eq!(fill("{{cite:open", &messages).unwrap(), "{{cite:open");
    }
}
