//! Text to be approved: every character is on the screen as itself or as its number, in whatever font.

use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use icu_properties::props::{DefaultIgnorableCodePoint, EmojiModifier, GeneralCategory, RegionalIndicator};
use icu_properties::{CodePointMapData, CodePointSetData};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use crate::protocol::text::{name_shown, quoted};

/// Marks on one letter that are shown as they are.
const MARKS: usize = 3;

/// Characters of one cell that are shown as they are.
pub const CELL_CHARS: usize = 8;

/// Blanks in a row that are shown as they are: more than any indentation, less than a line.
const BLANKS: usize = 32;

/// From so many lines that are like the one before them on, their number is shown instead.
const ALIKE: usize = 5;

/// Drawn as nothing, though Unicode counts them among letters, marks and symbols: Braille blank, musical null
/// notehead, Tifinagh joiner, Khitan filler, Brahmi joiner, the place of an object.
const BLANK: [char; 6] = ['\u{2800}', '\u{1D159}', '\u{2D7F}', '\u{16FE4}', '\u{1107F}', '\u{FFFC}'];

/// Stems and flags of musical notes, which no terminal draws alone.
const STEMS: std::ops::RangeInclusive<char> = '\u{1D165}'..='\u{1D172}';

const CONTROLS: [&str; 32] = [
    "NUL", "SOH", "STX", "ETX", "EOT", "ENQ", "ACK", "BEL", "BS", "HT", "LF", "VT", "FF", "CR", "SO", "SI",
    "DLE", "DC1", "DC2", "DC3", "DC4", "NAK", "SYN", "ETB", "CAN", "EM", "SUB", "ESC", "FS", "GS", "RS",
    "US",
];

/// Text in which nothing is missing and nothing is where it does not stand: what is invisible, blank but no space,
/// reorders text, has no agreed look or is heaped on one letter is shown as `<ESC>` or `<U+202E>`. Newlines and tabs
/// are kept. Safe to print.
pub fn shown(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t')) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for cell in text.graphemes(true) {
        show_cell(cell, &mut out);
    }
    if out == text { Cow::Borrowed(text) } else { Cow::Owned(out) }
}

/// A path that is approved, whole and on one line.
pub fn path(path: &Path) -> String {
    let line = path.to_str().map_or_else(|| quoted(path.as_os_str().as_bytes()).into(), name_shown);
    blanks(&shown(&line)).into_owned()
}

/// One character as its name or number.
pub fn escape(c: char, out: &mut String) {
    use std::fmt::Write;
    // Writing into a String cannot fail.
    let _ = match CONTROLS.get(c as usize) {
        Some(name) => write!(out, "<{name}>"),
        None if c == '\x7F' => write!(out, "<DEL>"),
        None => write!(out, "<U+{:04X}>", u32::from(c)),
    };
}

/// Every character as its name or number.
pub fn numbers(text: &str) -> String {
    let mut out = String::new();
    text.chars().for_each(|c| escape(c, &mut out));
    out
}

/// [`shown`] text in which long runs are told by their number: blanks as `<3000 blanks>`, lines that are alike as
/// `<298 more lines like it>`.
pub fn collapsed(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut lines = text.split('\n').peekable();
    while let Some(line) = lines.next() {
        let mut more = 0;
        while lines.next_if_eq(&line).is_some() {
            more += 1;
        }
        let line = blanks(line);
        let kept = if more < ALIKE { more } else { 0 };
        out.push_str(&line);
        (0..kept).for_each(|_| out.extend(["\n", &line]));
        if kept < more {
            out.push_str(&format!("\n<{more} more lines like it>"));
        }
        if lines.peek().is_some() {
            out.push('\n');
        }
    }
    out
}

/// A line in which long runs of blanks are told by their number. The first character is kept: in a diff it says what
/// the line is.
pub fn blanks(line: &str) -> Cow<'_, str> {
    let is_blank = |c: char| matches!(c, ' ' | '\t');
    let is_long = |run: &str| run.chars().count() > BLANKS;
    let start = line.chars().next().map_or(0, char::len_utf8);
    let (mut out, mut kept, mut at) = (String::new(), 0, start);
    while let Some(from) = line[at..].find(is_blank).map(|found| at + found) {
        let to = line[from..].find(|c| !is_blank(c)).map_or(line.len(), |end| from + end);
        if is_long(&line[from..to]) {
            out.push_str(&line[kept..from]);
            out.push_str(&format!("<{} blanks>", line[from..to].chars().count()));
            kept = to;
        }
        at = to;
    }
    if kept == 0 { Cow::Borrowed(line) } else { Cow::Owned(out + &line[kept..]) }
}

fn show_cell(cell: &str, out: &mut String) {
    // What takes no cell is drawn by no terminal.
    let is_drawn = matches!(cell, "\n" | "\t") || cell.width() > 0;
    let mut marks = 0;
    for (at, c) in cell.chars().enumerate() {
        let category = CodePointMapData::<GeneralCategory>::new().get(c);
        marks += usize::from(is_mark(category));
        match is_drawn && at < CELL_CHARS && marks <= MARKS && is_visible(c, category) {
            true => out.push(c),
            false => escape(c, out),
        }
    }
}

fn is_mark(category: GeneralCategory) -> bool {
    use GeneralCategory as G;
    matches!(category, G::NonspacingMark | G::SpacingMark | G::EnclosingMark)
}

fn is_visible(c: char, category: GeneralCategory) -> bool {
    use GeneralCategory as G;
    let is_nothing = match category {
        G::Control => !matches!(c, '\n' | '\t'),
        G::SpaceSeparator => c != ' ',
        // Fonts may draw what is nobody's or not assigned as they like.
        G::Format
        | G::LineSeparator
        | G::ParagraphSeparator
        | G::PrivateUse
        | G::Unassigned
        | G::Surrogate => true,
        _ => BLANK.contains(&c) || STEMS.contains(&c),
    };
    !is_nothing
        && !CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(c)
        && !CodePointSetData::new::<EmojiModifier>().contains(c)
        && !CodePointSetData::new::<RegionalIndicator>().contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::projection::safe_text::safe;
    use proptest::prelude::*;

    #[test]
    fn what_is_approved_shows_its_control_characters_and_loses_nothing() {
        assert_eq!(shown("rm x\x1B[2K\recho \0hi\x7F\u{9B}m"), "rm x<ESC>[2K<CR>echo <NUL>hi<DEL><U+009B>m");
        assert_eq!(shown("a\tb\n\u{202E}c"), "a\tb\n<U+202E>c");
        assert!(matches!(shown("plain — é\n"), Cow::Borrowed(_)));
        assert_eq!(safe(&shown("x\x1B]0;t\x07y")), "x<ESC>]0;t<BEL>y", "safe as it is");
    }

    #[test]
    fn what_is_invisible_blank_or_reordering_is_shown_by_its_number() {
        let hidden = "sh bu\u{1D173}ild\u{FE0F}.sh\u{1F3FB}";
        assert_eq!(shown(hidden), "sh bu<U+1D173>ild<U+FE0F>.sh<U+1F3FB>");
        for c in [
            '\u{34F}',
            '\u{2800}',
            '\u{3000}',
            '\u{A0}',
            '\u{AD}',
            '\u{61C}',
            '\u{115F}',
            '\u{1161}',
            '\u{17B4}',
            '\u{180B}',
            '\u{1680}',
            '\u{2003}',
            '\u{200B}',
            '\u{200D}',
            '\u{2028}',
            '\u{202E}',
            '\u{2066}',
            '\u{2D7F}',
            '\u{3164}',
            '\u{E000}',
            '\u{FE00}',
            '\u{FEFF}',
            '\u{FFA0}',
            '\u{FFF9}',
            '\u{FFFC}',
            '\u{1D165}',
            '\u{1BCA0}',
            '\u{1D159}',
            '\u{1D17A}',
            '\u{1F1E6}',
            '\u{1F3FF}',
            '\u{E0041}',
            '\u{E0100}',
            '\u{10FFFD}',
            '\u{378}',
        ] {
            assert_eq!(shown(&format!("a{c}b")), format!("a<U+{:04X}>b", u32::from(c)));
        }
        for text in ["naïve “quotes” — 日本語 👍 é", "e\u{301}\u{302}\u{303}", "हिन्दी ไทย עברית 한국어"]
        {
            assert_eq!(shown(text), text);
        }
    }

    #[test]
    fn what_is_heaped_on_one_letter_is_shown_by_its_number() {
        assert_eq!(shown("e\u{301}\u{301}\u{301}\u{301}x"), "e\u{301}\u{301}\u{301}<U+0301>x");
        assert_eq!(shown("\u{301}x"), "<U+0301>x", "a mark on nothing");
        let heap = "\u{1100}".repeat(CELL_CHARS + 2);
        assert_eq!(shown(&heap), format!("{}<U+1100><U+1100>", "\u{1100}".repeat(CELL_CHARS)));
    }

    #[test]
    fn every_character_is_on_the_screen_as_itself_or_as_its_number() {
        for c in (0..=u32::from(char::MAX)).filter_map(char::from_u32) {
            let text = format!("a{c}b");
            match shown(&text) {
                Cow::Borrowed(_) => assert!(c.is_whitespace() == matches!(c, ' ' | '\n' | '\t'), "{c:?}"),
                Cow::Owned(changed) => {
                    assert!(changed.starts_with("a<") && changed.ends_with(">b"), "{changed}")
                }
            }
        }
    }

    #[test]
    fn long_runs_are_told_by_their_number_and_both_ends_stay() {
        assert_eq!(collapsed(&format!("top{}end", " ".repeat(3000))), "top<3000 blanks>end");
        assert_eq!(collapsed(&format!("echo{}\tx", " ".repeat(32))), "echo<33 blanks>x");
        assert_eq!(collapsed(&format!("+{}x", " ".repeat(32))), format!("+{}x", " ".repeat(32)));
        assert_eq!(
            collapsed(&format!("{}x", " ".repeat(40))),
            " <39 blanks>x",
            "the sign of a diff's line is kept"
        );
        let text = format!("echo top{}touch PWN\n", "\n".repeat(300));
        assert_eq!(collapsed(&text), "echo top\n\n<298 more lines like it>\ntouch PWN\n");
        assert_eq!(collapsed("a\na\na\na\na\n"), "a\na\na\na\na\n");
    }

    proptest! {
        #[test]
        fn nothing_shown_is_dropped_or_moved_by_a_screen(text in any::<String>()) {
            let shown = shown(&text).into_owned();
            prop_assert_eq!(safe(&shown), shown.as_str());
            for cell in shown.graphemes(true).filter(|cell| !matches!(*cell, "\n" | "\t")) {
                prop_assert!(cell.width() > 0 && cell.chars().count() <= CELL_CHARS, "{:?}", cell);
            }
            prop_assert!(collapsed(&shown).lines().all(|line| line.len() <= shown.len() + 24));
        }
    }
}
