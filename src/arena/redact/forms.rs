//! The ways in which a secret may be written: as it is, in JSON, Base64, hexadecimal or percent-encoded.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use crate::protocol::expand;

/// Values longer than this, in bytes, are looked for as they are only: their forms would fill the memory.
const LONGEST: usize = 8 * 1024;

/// What common writers leave as it is in percent-encoding, next to letters and digits: RFC 3986, Python with and without
/// `/`, PHP, forms, `encodeURIComponent`, `encodeURI`, Go's paths, passwords in an address, nothing.
const KEPT: [&str; 9] =
    ["-_.~", "-_.~/", "-_.", "-_.*", "-_.~!*'()", "-_.~!*'();,/?:@&=+$#", "-_.~$&+:=@", "-_.~!$%&'()*+,", ""];

/// What common writers of JSON write as a number for the sake of HTML: nothing, Go and Ruby, Jinja, Gson, JavaScript.
const HTML: [&str; 5] = ["", "<>&\u{2028}\u{2029}", "<>&'", "<>&'=", "<>/\u{2028}\u{2029}"];
/// What .NET writes as a number.
const DOTNET: &str = "<>&'\"+`";

/// Every form of a value, the value itself first.
pub fn of(value: &str) -> Vec<String> {
    let mut forms = vec![value.to_owned()];
    if value.len() > LONGEST {
        return forms;
    }
    let hex = expand::hex(value.as_bytes());
    forms.extend([hex.to_ascii_uppercase(), hex]);
    for kept in KEPT {
        for escaped in [|byte| format!("%{byte:02X}"), |byte| format!("%{byte:02x}")] {
            let written = percent(value, kept, escaped);
            forms.extend([written.replace("%20", "+"), written]);
        }
    }
    forms.extend((0..3).flat_map(|offset| base64_at(value.as_bytes(), offset)));
    // As JSON writes it: with as few escapes as it needs, with those that some writers make of `/`, of signs of HTML or
    // of all that is not ASCII as well, and with every sign as its number.
    let quoted = quoted(value);
    let slashed = quoted.replace('/', "\\/");
    for escaped in [|unit| format!("\\u{unit:04x}"), |unit| format!("\\u{unit:04X}")] {
        for html in HTML {
            let is_html = |c: char| html.contains(c);
            forms.push(numbered(&quoted, is_html, escaped));
            forms.push(numbered(&quoted, |c| is_html(c) || !c.is_ascii(), escaped));
        }
        // One of them writes even the quote as a number.
        forms.push(numbered(&quoted.replace("\\\"", "\""), |c| DOTNET.contains(c) || !c.is_ascii(), escaped));
        forms.push(numbered(&slashed, |c| !c.is_ascii(), escaped));
        forms.push(numbered(value, |c| !c.is_ascii_alphanumeric(), escaped));
    }
    forms.push(slashed);
    forms.push(quoted);
    // The same in JSON within JSON, as a fact holds it, and once more: a text may hold JSON in JSON itself.
    for _ in 0..2 {
        let within: Vec<String> = forms.iter().map(|form| self::quoted(form)).collect();
        forms.extend(within);
    }
    let mut seen = std::collections::BTreeSet::new();
    forms.retain(|form| seen.insert(form.clone()));
    forms
}

/// A text as JSON holds it, without the quotes around it.
fn quoted(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    json.get(1..json.len() - 1).unwrap_or_default().to_owned()
}

/// The text with these characters as their numbers.
fn numbered(text: &str, is_numbered: impl Fn(char) -> bool, escaped: impl Fn(u16) -> String) -> String {
    let written = text.chars().map(|c| match is_numbered(c) {
        true => c.encode_utf16(&mut [0; 2]).iter().map(|unit| escaped(*unit)).collect(),
        false => c.to_string(),
    });
    written.collect()
}

fn percent(value: &str, kept: &str, escaped: impl Fn(u8) -> String) -> String {
    let is_kept = |c: char| (c.is_ascii_alphanumeric() && !kept.is_empty()) || kept.contains(c);
    let written = value.bytes().map(char::from).map(|c| match is_kept(c) {
        true => c.to_string(),
        false => escaped(c as u8),
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
    fn json_is_found_as_common_writers_escape_it_and_within_json() {
        let cases = [
            ("pa&ss-word+Value<123456", r#"{"pa\u0026ss-word+Value\u003c123456":1}"#),
            ("Grüße-aus-Köln-2026", r#"{"k":"Gr\u00fc\u00dfe-aus-K\u00f6ln-2026"}"#),
            ("Quote\"live-Key-0123456789b", r#"{"Quote\"live-Key-0123456789b":1}"#),
            ("Größe/2026-Key+x", r#"["Gr\u00f6\u00dfe\/2026-Key+x"]"#),
            ("it's=a&Key<0123", r#"["it\u0027s\u003da\u0026Key\u003c0123"]"#),
            ("a/b<c>-Key-0123", r#"["a\u002Fb\u003Cc\u003E-Key-0123"]"#),
            ("ä\"b'c+d`-Key-0123", r#"["\u00E4\u0022b\u0027c\u002Bd\u0060-Key-0123"]"#),
        ];
        for (value, written) in cases {
            let twice = serde_json::Value::from(written).to_string();
            let thrice = serde_json::Value::from(twice.as_str()).to_string();
            for text in [written, &twice, &thrice] {
                assert!(of(value).iter().any(|form| text.contains(form)), "{value}: {text}");
            }
        }
    }

    #[test]
    fn percent_encoding_is_found_whatever_its_writer_leaves_as_it_is() {
        let value = "k~y/Va+lue (2)'*!&=:%";
        let cases = [
            "k~y%2FVa%2Blue%20%282%29%27%2A%21%26%3D%3A%25",
            "k~y/Va%2Blue%20%282%29%27%2A%21%26%3D%3A%25",
            "k~y%2FVa%2Blue%20(2)'*!%26%3D%3A%25",
            "k~y/Va+lue%20(2)'*!&=:%25",
            "k%7Ey%2FVa%2Blue+%282%29%27*%21%26%3D%3A%25",
            "k~y%2FVa+lue%20%282%29%27%2A%21&=:%25",
        ];
        for text in cases {
            let lower: String = text.split('%').enumerate().fold(String::new(), |all, (i, piece)| match i {
                0 => piece.to_owned(),
                _ => format!("{all}%{}{}", piece[..2].to_ascii_lowercase(), &piece[2..]),
            });
            let forms = of(value);
            assert!(forms.iter().any(|form| form == text), "{text}");
            assert!(forms.contains(&lower), "{lower}");
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
