//! Syntax colours of code: grammars unpacked with the first code that is shown, tones out of their scopes. A language
//! nobody knows gets comments and literals; what is too long to be read gets no colours.

use std::sync::OnceLock;

use ratatui::style::Style;
use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};

use super::theme::{Theme, Tone};

/// Bytes of one block that are parsed; the rest of it is shown without colours.
const MOST: usize = 16 * 1024;

/// Bytes of a line that is parsed: longer ones were written by no person.
const LONGEST: usize = 1_000;

/// Tones by the beginning of a scope's name; the innermost scope that has one counts.
const SCOPES: [(&str, Tone); 15] = [
    ("comment", Tone::Comment),
    ("string", Tone::Literal),
    ("constant.character.escape", Tone::Literal),
    ("constant", Tone::Number),
    ("keyword.operator", Tone::Text),
    ("keyword", Tone::Keyword),
    ("storage.type.function", Tone::Keyword),
    ("storage.type", Tone::Kind),
    ("storage", Tone::Keyword),
    ("entity.name.function", Tone::Name),
    ("support.function", Tone::Name),
    ("entity.name.tag", Tone::Keyword),
    ("entity.name", Tone::Kind),
    ("support.type", Tone::Kind),
    ("support.class", Tone::Kind),
];

struct Grammars {
    set: SyntaxSet,
    tones: Vec<(Scope, Tone)>,
}

/// The grammars, unpacked when code is shown for the first time.
fn grammars() -> &'static Grammars {
    static GRAMMARS: OnceLock<Grammars> = OnceLock::new();
    GRAMMARS.get_or_init(|| {
        let tones = SCOPES.iter().filter_map(|(name, tone)| Some((Scope::new(name).ok()?, *tone)));
        Grammars { set: SyntaxSet::load_defaults_newlines(), tones: tones.collect() }
    })
}

impl Grammars {
    fn find(&self, language: &str) -> Option<&SyntaxReference> {
        let name = match language {
            "" | "text" | "txt" | "plain" | "diff" | "patch" => return None,
            "typescript" | "ts" | "tsx" | "jsx" | "mjs" => "js",
            "shell" | "zsh" | "console" => "sh",
            name => name,
        };
        self.set.find_syntax_by_token(name).filter(|syntax| syntax.name != "Plain Text")
    }

    fn tone(&self, stack: &ScopeStack) -> Option<Tone> {
        let tone = |scope: &Scope| {
            let fits = self.tones.iter().filter(|(prefix, _)| prefix.is_prefix_of(*scope));
            fits.max_by_key(|(prefix, _)| prefix.len()).map(|(_, tone)| *tone)
        };
        stack.scopes.iter().rev().find_map(tone)
    }
}

/// Colours the lines of one text, one after another.
#[derive(Clone)]
pub(super) struct Painter {
    theme: Theme,
    language: String,
    /// Where the grammar stands; none when there is no grammar or no room left.
    grammar: Option<(ParseState, ScopeStack)>,
    read: usize,
}

impl Painter {
    /// A painter with the grammar of a language: a name, or the ending of a file.
    pub fn of(theme: Theme, language: &str) -> Self {
        let language = language.split([',', ' ', '{']).next().unwrap_or_default().to_lowercase();
        let known = |language: &str| {
            let syntax = grammars().find(language)?;
            Some((ParseState::new(syntax), ScopeStack::new()))
        };
        let grammar = if language.is_empty() { None } else { known(&language) };
        Painter { theme, language, grammar, read: 0 }
    }

    /// A painter that knows comments and literals only: for text that comes in piece by piece.
    pub fn quick(theme: Theme, language: &str) -> Self {
        Painter { theme, language: language.to_lowercase(), grammar: None, read: 0 }
    }

    pub fn theme(&self) -> Theme {
        self.theme
    }

    /// The pieces of the next line, what has no colour of its own in `plain`.
    pub fn line<'a>(&mut self, plain: Tone, line: &'a str) -> Vec<(Style, &'a str)> {
        self.read += line.len() + 1;
        if self.read > MOST || line.len() > LONGEST {
            self.grammar = None;
            return vec![(self.theme.style(plain), line)];
        }
        let whole = format!("{line}\n");
        let Some((state, stack)) = &mut self.grammar else { return self.simple(plain, line) };
        let Ok(changes) = state.parse_line(&whole, &grammars().set) else {
            self.grammar = None;
            return vec![(self.theme.style(plain), line)];
        };
        let (theme, mut from, mut pieces) = (self.theme, 0, Vec::new());
        for (at, change) in changes {
            let at = at.min(line.len());
            if at > from {
                let tone = grammars().tone(stack).filter(|tone| *tone != Tone::Text).unwrap_or(plain);
                pieces.push((theme.style(tone), &line[from..at]));
                from = at;
            }
            if stack.apply(&change).is_err() {
                break;
            }
        }
        let tone = grammars().tone(stack).filter(|tone| *tone != Tone::Text).unwrap_or(plain);
        pieces.push((theme.style(tone), &line[from..]));
        pieces
    }

    fn simple<'a>(&self, plain: Tone, line: &'a str) -> Vec<(Style, &'a str)> {
        let base = self.theme.style(plain);
        let mut pieces = Vec::new();
        let (mut from, mut at) = (0, 0);
        while let Some(c) = line[at..].chars().next() {
            let at_word = line[..at].chars().next_back().is_none_or(|before| !before.is_alphanumeric());
            if at_word && comment_of(&self.language).iter().any(|mark| line[at..].starts_with(mark)) {
                pieces.push((base, &line[from..at]));
                pieces.push((self.theme.style(Tone::Comment), &line[at..]));
                return pieces;
            }
            if (c == '"' || c == '\'' && at_word)
                && let Some(end) = literal_end(&line[at..], c)
            {
                pieces.push((base, &line[from..at]));
                pieces.push((self.theme.style(Tone::Literal), &line[at..at + end]));
                (from, at) = (at + end, at + end);
                continue;
            }
            at += c.len_utf8();
        }
        pieces.push((base, &line[from..]));
        pieces
    }
}

/// How a language begins a comment that runs to the end of the line.
fn comment_of(language: &str) -> &'static [&'static str] {
    match language {
        "sh" | "bash" | "python" | "py" | "toml" | "yaml" | "yml" | "ruby" | "make" | "dockerfile" => &["#"],
        "sql" | "lua" | "haskell" => &["--"],
        "json" | "text" | "txt" | "markdown" | "md" | "" => &[],
        _ => &["//"],
    }
}

/// Bytes of the literal a text begins with, quotes included; none when it does not end on this line.
fn literal_end(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return Some(at + c.len_utf8()),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toned(language: &str, line: &str) -> Vec<(String, bool)> {
        let plain = Theme::Dark.style(Tone::Text);
        let pieces = Painter::quick(Theme::Dark, language).line(Tone::Text, line);
        pieces.into_iter().filter(|p| !p.1.is_empty()).map(|(s, t)| (t.to_owned(), s != plain)).collect()
    }

    #[test]
    fn comments_and_literals_stand_out() {
        let of = |text: &str, marked| (text.to_owned(), marked);
        assert_eq!(
            toned("sh", "echo \"a # b\" # c"),
            [of("echo ", false), of("\"a # b\"", true), of(" ", false), of("# c", true)]
        );
        assert_eq!(toned("rust", "it's // so"), [of("it's ", false), of("// so", true)]);
        assert_eq!(toned("text", "an \"open end"), [of("an \"open end", false)]);
    }

    #[test]
    fn a_grammar_goes_on_from_line_to_line() {
        let mut painter = Painter::of(Theme::Dark, "rust");
        let style = |tone| Theme::Dark.style(tone);
        let first = painter.line(Tone::Text, "fn main() { /* a");
        assert!(first.contains(&(style(Tone::Name), "main")), "{first:?}");
        let second = painter.line(Tone::Text, "let b */ let x = 7;");
        assert_eq!(second[0].0, style(Tone::Comment), "{second:?}");
        assert!(second.iter().any(|(look, text)| *look == style(Tone::Number) && *text == "7"), "{second:?}");
        let whole: String = second.iter().map(|(_, text)| *text).collect();
        assert_eq!(whole, "let b */ let x = 7;");
    }

    #[test]
    fn nothing_is_lost_whatever_is_shown() {
        for language in ["rust", "py", "html", "toml", "nonsense", "md", "rs,ignore"] {
            let mut painter = Painter::of(Theme::Dark, language);
            for line in ["", "\u{feff}日本 \"x", "'", "</", &"ab ".repeat(900), "fn é() {}"] {
                let whole: String = painter.line(Tone::Text, line).iter().map(|(_, text)| *text).collect();
                assert_eq!(whole, line, "{language}");
            }
        }
    }
}
