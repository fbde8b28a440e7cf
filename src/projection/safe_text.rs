//! Makes text from models and tools safe to print on a terminal; knows no terminal, colour or event.

use std::borrow::Cow;

use super::visible::escape;

/// Text that is safe to print: no control byte but newline and tab, nothing invisible.
///
/// - Terminal control sequences (CSI, OSC, DCS, SOS, PM, APC, in 7-bit and 8-bit form) are dropped whole. A
///   control string that is never ended loses only its opening, so that it cannot swallow what follows.
/// - Other C0 and C1 controls are dropped; a carriage return starts a new line (progress bars stay readable).
/// - Characters that hide or reorder text (bidi controls, zero-width and filler characters, line separators,
///   tag characters, supplementary variation selectors) are shown as `<U+202E>`.
///
/// Idempotent; borrows when there is nothing to change.
pub fn safe(text: &str) -> Cow<'_, str> {
    match first_suspect(text.as_bytes(), 0).and_then(|from| first_change(text, from)) {
        None => Cow::Borrowed(text),
        Some(from) => Cow::Owned(rewrite(text, from)),
    }
}

/// Text with every control character shown (`<ESC>`, `<CR>`) instead of dropped, and safe like [`safe`]. What is approved
/// is shown by [`super::visible::shown`], which leaves less as it is.
pub fn shown(text: &str) -> Cow<'_, str> {
    replaced(text, escape)
}

/// Lines of JSON with the same values in which no character steers or reorders a terminal: those are written as `\u009b`.
pub fn json(text: &str) -> Cow<'_, str> {
    replaced(text, |c, out| {
        use std::fmt::Write;
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing into a String cannot fail.
            let _ = write!(out, "\\u{unit:04x}");
        }
    })
}

/// Text with each character that does not stay as it is replaced.
fn replaced(text: &str, replace: impl Fn(char, &mut String)) -> Cow<'_, str> {
    let is_hidden = |c: char| !matches!(c, '\n' | '\t') && !matches!(judge(c), Verdict::Keep);
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_hidden(c) {
            true => replace(c, &mut out),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// [`safe`] text on a single line: each run of newlines and tabs becomes one space.
pub fn safe_line(text: &str) -> Cow<'_, str> {
    let safe = safe(text);
    if !safe.contains(['\n', '\t']) {
        return safe;
    }
    Cow::Owned(safe.split(['\n', '\t']).filter(|piece| !piece.is_empty()).collect::<Vec<_>>().join(" "))
}

/// Bytes that may begin something unsafe: controls, and the lead bytes of the characters judged below.
const SUSPECT: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = byte != b'\n' as usize && byte != b'\t' as usize;
        byte += 1;
    }
    table[0x7F] = true;
    table[0xC2] = true; // C1 controls, soft hyphen
    table[0xCD] = true; // combining grapheme joiner
    table[0xD8] = true; // Arabic letter mark
    table[0xE1] = true; // Hangul and Mongolian fillers
    table[0xE2] = true; // general punctuation
    table[0xE3] = true; // Hangul filler
    table[0xEF] = true; // byte order mark, annotation marks
    table[0xF0] = true; // shorthand and musical format controls
    table[0xF3] = true; // tags, variation selectors
    table
};

/// Position of the first suspect byte at or after `from`.
fn first_suspect(bytes: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?;
    rest.iter().position(|byte| SUSPECT[usize::from(*byte)]).map(|at| from + at)
}

/// What is to be done at a suspect character.
enum Verdict {
    Keep,
    Drop,
    Newline,
    Escape,
    /// ESC or an 8-bit introducer.
    Sequence,
}

fn judge(c: char) -> Verdict {
    match c {
        '\r' => Verdict::Newline,
        '\x1B' | '\u{90}' | '\u{98}' | '\u{9B}' | '\u{9D}'..='\u{9F}' => Verdict::Sequence,
        '\n' | '\t' => Verdict::Keep,
        '\0'..='\x1F' | '\x7F'..='\u{9F}' => Verdict::Drop,
        '\u{AD}'
        | '\u{34F}'
        | '\u{61C}'
        | '\u{115F}'
        | '\u{1160}'
        | '\u{17B4}'
        | '\u{17B5}'
        | '\u{180B}'..='\u{180F}'
        | '\u{200B}'..='\u{200F}'
        | '\u{2028}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}'
        | '\u{3164}'
        | '\u{FEFF}'
        | '\u{FFA0}'
        | '\u{FFF0}'..='\u{FFFC}'
        | '\u{1BCA0}'..='\u{1BCA3}'
        | '\u{1D165}'..='\u{1D17A}'
        | '\u{E0000}'..='\u{E0FFF}' => Verdict::Escape,
        _ => Verdict::Keep,
    }
}

/// Position of the first character that does not stay as it is, looking from `from` on.
fn first_change(text: &str, mut from: usize) -> Option<usize> {
    loop {
        let c = text.get(from..)?.chars().next()?;
        if !matches!(judge(c), Verdict::Keep) {
            return Some(from);
        }
        from = first_suspect(text.as_bytes(), from + c.len_utf8())?;
    }
}

fn rewrite(text: &str, from: usize) -> String {
    let mut out = String::with_capacity(text.len());
    let mut scan = Scan { text, unended: false };
    let (mut kept, mut at) = (0, Some(from));
    while let Some(position) = at {
        let Some(c) = text[position..].chars().next() else { break };
        let mut next = position + c.len_utf8();
        let verdict = judge(c);
        if !matches!(verdict, Verdict::Keep) {
            out.push_str(&text[kept..position]);
            match verdict {
                Verdict::Newline if !text[next..].starts_with('\n') => out.push('\n'),
                Verdict::Escape => escape(c, &mut out),
                Verdict::Sequence => next = scan.sequence_end(c, next),
                Verdict::Keep | Verdict::Drop | Verdict::Newline => {}
            }
            kept = next;
        }
        at = first_suspect(text.as_bytes(), next);
    }
    out.push_str(&text[kept..]);
    out
}

struct Scan<'a> {
    text: &'a str,
    /// True once a control string was found to have no end: none after it has one either.
    unended: bool,
}

impl Scan<'_> {
    /// Where the sequence introduced by `c` ends, given the position after `c`.
    fn sequence_end(&mut self, c: char, after: usize) -> usize {
        match c {
            '\x1B' => match self.byte(after) {
                Some(b'[') => self.csi_end(after + 1),
                Some(b']' | b'P' | b'X' | b'^' | b'_') => self.string_end(after + 1),
                Some(0x20..=0x2F) => self.intermediates_end(after),
                Some(0x30..=0x7E) => after + 1,
                _ => after,
            },
            '\u{9B}' => self.csi_end(after),
            _ => self.string_end(after),
        }
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    fn skip(&self, mut at: usize, range: std::ops::RangeInclusive<u8>) -> usize {
        while self.byte(at).is_some_and(|byte| range.contains(&byte)) {
            at += 1;
        }
        at
    }

    /// Parameters, intermediates, one final byte; a byte that does not belong ends it unfinished.
    fn csi_end(&self, at: usize) -> usize {
        let at = self.skip(self.skip(at, 0x30..=0x3F), 0x20..=0x2F);
        self.skip_one(at, 0x40..=0x7E)
    }

    fn intermediates_end(&self, at: usize) -> usize {
        let at = self.skip(at, 0x20..=0x2F);
        self.skip_one(at, 0x30..=0x7E)
    }

    fn skip_one(&self, at: usize, range: std::ops::RangeInclusive<u8>) -> usize {
        at + usize::from(self.byte(at).is_some_and(|byte| range.contains(&byte)))
    }

    /// The end of a control string: after BEL or ST, before any other escape or abort.
    fn string_end(&mut self, from: usize) -> usize {
        if self.unended {
            return from;
        }
        let ends = |c: char| matches!(c, '\x07' | '\x18' | '\x1A' | '\x1B' | '\u{9C}');
        let Some(at) = self.text[from..].find(ends).map(|at| from + at) else {
            self.unended = true;
            return from;
        };
        match self.byte(at) {
            Some(0x1B) if self.byte(at + 1) == Some(b'\\') => at + 2,
            Some(0x1B) => at,
            Some(0xC2) => at + 2,
            _ => at + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(input: &str, expected: &str) {
        assert_eq!(safe(input), expected);
    }

    #[test]
    fn plain_text_is_borrowed() {
        for text in ["", "plain", "tab\tand\nnewline", "naïve “quotes” — 日本語 👍 é"] {
            assert!(matches!(safe(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn control_sequences_are_dropped_whole() {
        check("a\x1B[31mred\x1B[0m", "ared");
        check("a\x1B[2J\x1B[1;1Hb", "ab");
        check("\x1B]0;title\x07text", "text");
        check("\x1B]8;;http://x\x1B\\link\x1B]8;;\x1B\\", "link");
        check("\x1BP1$r0m\x1B\\x\x1B_apc\x1B\\y\x1B^pm\x1B\\z\x1BXsos\x1B\\!", "xyz!");
        check("a\u{9B}31mb\u{9D}0;t\u{9C}c\u{90}q\u{9C}d", "abcd");
        check("\x1B(Bline\x1Bcdrawing\x1B=", "linedrawing");
        check("a\x08b\0c\x7Fd\u{85}e", "abcde");
    }

    #[test]
    fn a_sequence_without_end_hides_nothing() {
        check("\x1B]0;still here", "0;still here");
        check("\x1B[31", "");
        check("\x1B[31\nnext", "\nnext");
        check("\x1B", "");
        check("\x1B]52;c;\x1B[31mshown", "shown");
        check("\x1B]one\x1B]two", "two");
        check("\x1B日本", "日本");
    }

    #[test]
    fn control_characters_are_shown_by_their_names() {
        assert_eq!(shown("rm x\x1B[2K\recho \0hi\x7F\u{9B}m"), "rm x<ESC>[2K<CR>echo <NUL>hi<DEL><U+009B>m");
        assert!(matches!(shown("«\u{A0}❤\u{FE0F}\u{A0}»"), Cow::Borrowed(_)));
    }

    #[test]
    fn json_keeps_its_values_and_steers_no_terminal() {
        let value =
            serde_json::json!({ "a\u{202E}": "\u{7F}\u{80}\u{9B}31m\u{9F}\u{2066}é\u{E0041}\u{61C}" });
        let line = format!("{value}\n");
        let escaped = json(&line);
        assert!(safe(&escaped) == escaped.as_ref() && escaped.contains("\\u009b31m"), "{escaped}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
        assert!(matches!(json("{\"a\":\"é\\n\"}\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn hidden_characters_are_shown() {
        check("a\u{202E}b", "a<U+202E>b");
        check("zero\u{200B}width\u{FEFF}", "zero<U+200B>width<U+FEFF>");
        check("\u{E0041}\u{E007F}", "<U+E0041><U+E007F>");
        check("a\u{34F}b\u{1D173}c\u{1BCA0}", "a<U+034F>b<U+1D173>c<U+1BCA0>");
        check("\u{2066}x\u{2069}\u{AD}\u{3164}\u{2028}", "<U+2066>x<U+2069><U+00AD><U+3164><U+2028>");
    }

    #[test]
    fn carriage_returns_start_lines() {
        check("a\r\nb", "a\nb");
        check("10%\r20%\r", "10%\n20%\n");
    }

    #[test]
    fn one_line_is_one_line() {
        assert_eq!(safe_line("a\n\tb\r\nc\x1B[1m"), "a b c");
        assert_eq!(safe_line("plain"), "plain");
    }

    #[test]
    fn unended_strings_cost_linear_time() {
        let text = "\x1B]".repeat(200_000);
        assert_eq!(safe(&text), "");
        let text = "\u{9D}x".repeat(200_000);
        assert_eq!(safe(&text).len(), 200_000);
    }

    /// Text made of pieces that matter to terminals, in any order.
    fn hostile() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            any::<char>().prop_map(String::from),
            (0u32..0xA0).prop_map(|c| char::from_u32(c).unwrap_or(' ').to_string()),
            prop::sample::select(vec![
                "\x1B[", "\x1B]", "\x1BP", "\x1B\\", "\x1B", "\u{9B}", "31m", "\x07", "\u{9C}"
            ])
            .prop_map(str::to_owned),
            (0xE0000u32..0xE0200).prop_map(|c| char::from_u32(c).unwrap_or(' ').to_string()),
            (0x2000u32..0x2070).prop_map(|c| char::from_u32(c).unwrap_or(' ').to_string()),
        ];
        prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn output_is_safe_and_stays_the_same(text in hostile()) {
            let once = safe(&text).into_owned();
            prop_assert!(!once.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
            prop_assert!(once.chars().all(|c| matches!(judge(c), Verdict::Keep)));
            prop_assert!(matches!(safe(&once), Cow::Borrowed(_)));
            let line = safe_line(&text).into_owned();
            prop_assert!(!line.chars().any(char::is_control));
            prop_assert_eq!(safe_line(&line).into_owned(), line);
        }

        #[test]
        fn visible_text_is_kept(text in "[ -~\n\té日🙂]{0,80}") {
            prop_assert_eq!(safe(&text).into_owned(), text);
        }
    }
}
