//! Markup that cannot be broken out of: only literals of this program go in as they are; knows no section of a page.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::projection::report::said::Citation;
use crate::projection::report::wording;
use crate::projection::safe_text::{safe, safe_line};
use crate::protocol::EventRef;

/// A piece of a page while it is written.
///
/// A text whose lifetime is not that of the program goes through [`Markup::text`], [`Markup::line`],
/// [`Markup::words`] or [`Markup::prose`]: control and hidden characters are dropped or shown, and `&`, `<`, `>`, `"`, `'` escaped, so that
/// it may stand between tags and in a quoted attribute alike.
#[derive(Debug, Default)]
pub struct Markup(String);

impl Markup {
    /// The page.
    pub fn finish(self) -> String {
        self.0
    }

    /// Markup of this program.
    pub fn raw(&mut self, literal: &'static str) -> &mut Self {
        self.0.push_str(literal);
        self
    }

    /// A number.
    pub fn number(&mut self, number: impl Into<i64>) -> &mut Self {
        let _ = write!(self.0, "{}", number.into());
        self
    }

    /// Text of others, its lines kept.
    pub fn text(&mut self, text: &str) -> &mut Self {
        escape(&mut self.0, &safe(text));
        self
    }

    /// Text of others on one line.
    pub fn line(&mut self, text: &str) -> &mut Self {
        escape(&mut self.0, &safe_line(text));
        self
    }

    /// The same between tags only: what stands between backticks is set as code.
    pub fn words(&mut self, text: &str) -> &mut Self {
        with_code(&mut self.0, &safe_line(text));
        self
    }

    /// Text of others in paragraphs; blank lines part them, and backticks enclose code.
    pub fn prose(&mut self, text: &str) -> &mut Self {
        let text: Cow<'_, str> = safe(text);
        for paragraph in text.split("\n\n").map(|paragraph| paragraph.trim_matches('\n')) {
            if !paragraph.trim().is_empty() {
                self.0.push_str("<p>");
                with_code(&mut self.0, paragraph);
                self.0.push_str("</p>");
            }
        }
        self
    }

    /// A link to an excerpt further down.
    pub fn cite(&mut self, at: EventRef) -> &mut Self {
        let _ = write!(self.0, "<a class=\"ref\" href=\"#{at}\">{at}</a>");
        self
    }

    /// Links to several excerpts.
    pub fn cites<'a>(&mut self, all: impl IntoIterator<Item = &'a EventRef>) -> &mut Self {
        for at in all {
            self.raw(" ").cite(*at);
        }
        self
    }

    /// What was cited, each with what is wrong with it.
    pub fn citations(&mut self, all: &[Citation]) -> &mut Self {
        for cited in all {
            self.raw(" ");
            match cited.at {
                Some(at) => self.cite(at),
                None => self.raw("<q class=\"ref\">").line(&cited.written).raw("</q>"),
            };
            if let Some(doubt) = wording::doubt(cited) {
                self.raw(" <small class=\"doubt\">").raw(doubt).raw("</small>");
            }
        }
        self
    }

    /// Texts of others as the items of a list.
    pub fn items(&mut self, texts: &[String]) -> &mut Self {
        for text in texts {
            self.raw("<li>").words(text).raw("</li>");
        }
        self
    }

    /// Another piece, already markup.
    pub fn piece(&mut self, piece: Markup) -> &mut Self {
        self.0.push_str(&piece.0);
        self
    }
}

/// Escapes a text; what stands between two backticks on one line is code.
fn with_code(out: &mut String, text: &str) {
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('`') {
        let code = after.split_once('`').filter(|(code, _)| !code.is_empty() && !code.contains('\n'));
        let Some((code, left)) = code else {
            escape(out, before);
            out.push('`');
            rest = after;
            continue;
        };
        escape(out, before);
        out.push_str("<code>");
        escape(out, code);
        out.push_str("</code>");
        rest = left;
    }
    escape(out, rest);
}

fn escape(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all_ways(text: &str) -> [String; 4] {
        [Markup::text, Markup::line, Markup::prose, Markup::words].map(|write| {
            let mut markup = Markup::default();
            write(&mut markup, text);
            markup.finish()
        })
    }

    #[test]
    fn tags_quotes_and_hidden_characters_are_shown() {
        let [text, line, prose, words] = all_ways("</script><b a=\"'\">&\u{202E}\x1B[31m\n\nx");
        assert_eq!(text, "&lt;/script&gt;&lt;b a=&quot;&#39;&quot;&gt;&amp;&lt;U+202E&gt;\n\nx");
        assert_eq!(line, "&lt;/script&gt;&lt;b a=&quot;&#39;&quot;&gt;&amp;&lt;U+202E&gt; x");
        assert_eq!(words, line);
        assert_eq!(prose, "<p>&lt;/script&gt;&lt;b a=&quot;&#39;&quot;&gt;&amp;&lt;U+202E&gt;</p><p>x</p>");
    }

    #[test]
    fn what_stands_between_backticks_is_code_and_no_more() {
        let line = |text: &str| {
            let mut markup = Markup::default();
            markup.words(text);
            markup.finish()
        };
        assert_eq!(line("use `case` & `<b>`"), "use <code>case</code> &amp; <code>&lt;b&gt;</code>");
        assert_eq!(line("a ` b"), "a ` b");
        assert_eq!(line("``` x"), "``` x");
    }

    proptest! {
        #[test]
        fn nothing_of_others_is_markup(text in "[<>&`\"'a\n\u{0}-\u{9f}\u{202a}-\u{202e}]{0,60}") {
            for written in all_ways(&text) {
                let bare = written.replace("<p>", "").replace("</p>", "");
                let bare = bare.replace("<code>", "").replace("</code>", "");
                prop_assert!(!bare.contains(['<', '>', '"', '\'']), "{bare}");
                prop_assert!(!bare.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
                let amps = bare.matches('&').count();
                let known = ["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"];
                prop_assert_eq!(amps, known.iter().map(|name| bare.matches(name).count()).sum::<usize>());
            }
        }
    }
}
