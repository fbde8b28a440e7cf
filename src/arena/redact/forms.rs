//! The ways in which a secret may be written: as it is, in JSON, Base64, hexadecimal or percent-encoded.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use crate::protocol::expand;

/// Values longer than this, in bytes, are looked for as they are only: their forms would fill the memory.
const LONGEST: usize = 8 * 1024;

/// Every form of a value, the value itself first.
pub fn of(value: &str) -> Vec<String> {
    let mut forms = vec![value.to_owned()];
    if value.len() > LONGEST {
        return forms;
    }
    let hex = expand::hex(value.as_bytes());
    forms.extend([hex.to_ascii_uppercase(), hex]);
    forms.extend([
        percent(value, |byte| format!("%{byte:02X}")),
        percent(value, |byte| format!("%{byte:02x}")),
        value.bytes().map(|byte| format!("%{byte:02X}")).collect(),
        value.bytes().map(|byte| format!("%{byte:02x}")).collect(),
    ]);
    forms.extend((0..3).flat_map(|offset| base64_at(value.as_bytes(), offset)));
    // As JSON writes it: with as few escapes as it needs, with those that some writers make of `/` as well, and with
    // every sign as its number.
    let quoted = serde_json::Value::from(value).to_string();
    let quoted = quoted.get(1..quoted.len() - 1).unwrap_or_default();
    forms.extend([
        quoted.to_owned(),
        quoted.replace('/', "\\/"),
        numbered(value, |unit| format!("\\u{unit:04x}")),
        numbered(value, |unit| format!("\\u{unit:04X}")),
    ]);
    // The same in JSON within JSON, as a fact holds it: one look at the fact's own JSON is enough to find them.
    forms.extend(
        forms
            .iter()
            .filter(|form| form.contains('\\'))
            .map(|form| form.replace('\\', "\\\\"))
            .collect::<Vec<_>>(),
    );
    let mut seen = std::collections::BTreeSet::new();
    forms.retain(|form| seen.insert(form.clone()));
    forms
}

fn numbered(value: &str, escaped: impl Fn(u16) -> String) -> String {
    let written = value.chars().map(|c| match c.is_ascii_alphanumeric() {
        true => c.to_string(),
        false => c.encode_utf16(&mut [0; 2]).iter().map(|unit| escaped(*unit)).collect(),
    });
    written.collect()
}

fn percent(value: &str, escaped: impl Fn(u8) -> String) -> String {
    let written = value.bytes().map(|byte| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        other => escaped(other),
    });
    written.collect()
}

/// What Base64 makes of the bytes when `offset` other bytes are before them: the characters that depend on nothing
/// else, and the same up to the end where nothing follows; in both alphabets.
fn base64_at(bytes: &[u8], offset: usize) -> Vec<String> {
    let padded = [&vec![0; offset], bytes].concat();
    // Six bits a character; one that holds bits of a neighbour is not known.
    let (from, whole) = ((offset * 8).div_ceil(6), padded.len() * 8 / 6);
    [STANDARD_NO_PAD, URL_SAFE_NO_PAD]
        .iter()
        .flat_map(|alphabet| {
            let text = alphabet.encode(&padded);
            [text[from..whole].to_owned(), text[from..].to_owned()]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_found_at_every_offset_whatever_is_around_it() {
        let value = "s3cret/va+lue?9";
        let forms = of(value);
        for before in ["", "x", "Be", "Bearer ", "user:", "ab:cd"] {
            for after in ["", "!", "\n", " more", "ÿÿ"] {
                for alphabet in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
                    let text = alphabet.encode(format!("{before}{value}{after}"));
                    assert!(forms.iter().any(|form| text.contains(form)), "{before:?} {after:?}: {text}");
                }
            }
        }
    }

    #[test]
    fn no_form_of_a_key_is_short_or_written_twice() {
        let forms = of("Ab3$5678");
        assert!(forms.iter().all(|form| form.len() >= 8), "{forms:?}");
        assert_eq!(forms.iter().collect::<std::collections::BTreeSet<_>>().len(), forms.len());
        assert_eq!(of(&"x".repeat(LONGEST + 1)).len(), 1);
    }
}
