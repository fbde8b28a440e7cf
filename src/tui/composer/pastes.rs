//! Long pastes, folded to one mark each in the text that is written; what is sent has them whole.

use crate::projection::phrases;

/// A paste with more than this is folded.
const LINES: usize = 12;
const BYTES: usize = 2_000;

/// The marks, in a plane of Unicode that no text uses.
const MARKS: std::ops::RangeInclusive<char> = '\u{100000}'..='\u{10FFFD}';

/// The pastes of a text by their marks.
#[derive(Clone, Debug, Default)]
pub(super) struct Pastes(Vec<String>);

impl Pastes {
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The text as it comes into what is written: a long one is its mark.
    pub fn fold(&mut self, text: &str) -> String {
        let text = text.replace("\r\n", "\n").replace('\r', "\n").replace(is_mark, "\u{FFFD}");
        let nth = u32::try_from(self.0.len()).ok();
        let mark =
            nth.and_then(|nth| char::from_u32(u32::from(*MARKS.start()) + nth)).filter(|c| is_mark(*c));
        match mark.filter(|_| text.len() > BYTES || text.lines().count() > LINES) {
            Some(mark) => {
                self.0.push(text);
                mark.to_string()
            }
            None => text,
        }
    }

    /// The paste behind a mark.
    pub fn get(&self, mark: char) -> Option<&str> {
        let nth = u32::from(mark).checked_sub(u32::from(*MARKS.start()))?;
        self.0.get(usize::try_from(nth).ok()?).map(String::as_str)
    }

    /// What is shown for a mark: how much was pasted.
    pub fn shown(&self, grapheme: &str) -> Option<String> {
        let text = self.get(grapheme.chars().next()?)?;
        let size = match text.lines().count() {
            0 | 1 => phrases::counted(text.len() as u64, "byte"),
            lines => phrases::counted(lines as u64, "line"),
        };
        Some(format!("[pasted {size}; Tab opens]"))
    }

    /// A text with every mark replaced by its paste.
    pub fn whole(&self, text: &str) -> String {
        text.chars().fold(String::with_capacity(text.len()), |mut whole, c| {
            match self.get(c) {
                Some(paste) => whole.push_str(paste),
                None => whole.push(c),
            }
            whole
        })
    }
}

/// What a pasted path of a picture becomes, as a terminal writes it for a file that is dropped on it: a mention, or why
/// it is none. Nothing for any other text.
pub fn picture(text: &str, root: &str) -> Option<Result<String, &'static str>> {
    let path = text.trim().trim_matches(['\'', '"']);
    let path = path.strip_prefix("file://").unwrap_or(path).replace("\\ ", " ").replace("%20", " ");
    let is_picture =
        [".png", ".jpg", ".jpeg", ".gif", ".webp"].iter().any(|end| path.to_lowercase().ends_with(end));
    if !is_picture || !path.starts_with('/') || path.contains(char::is_control) {
        return None;
    }
    Some(match path.strip_prefix(root).and_then(|path| path.strip_prefix('/')) {
        Some(path) if path.contains(' ') => Ok(format!("@\"{path}\" ")),
        Some(path) => Ok(format!("@{path} ")),
        None => Err("the picture is outside of the workspace: copy it into the workspace to mention it"),
    })
}

/// True for a character that only ever is a mark.
pub(super) fn is_mark(c: char) -> bool {
    MARKS.contains(&c)
}
