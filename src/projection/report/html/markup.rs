//! Markup that cannot be broken out of: only literals of this program go in as they are; knows no section of a page.

use std::fmt::Write as _;

use crate::projection::safe_text::{safe, safe_line};

/// A piece of a page while it is written.
///
/// A text whose lifetime is not that of the program goes through [`Markup::text`] or [`Markup::line`]: control and
/// hidden characters are dropped or shown, and `&`, `<`, `>`, `"`, `'` escaped, so that it is safe between tags and in a
/// quoted attribute alike.
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

    fn all_ways(text: &str) -> [String; 2] {
        [Markup::text, Markup::line].map(|write| {
            let mut markup = Markup::default();
            write(&mut markup, text);
            markup.finish()
        })
    }

    #[test]
    fn tags_quotes_and_hidden_characters_are_shown() {
        let [text, line] = all_ways("</script><b a=\"'\">&\u{202E}\x1B[31m\n\nx");
        assert_eq!(text, "&lt;/script&gt;&lt;b a=&quot;&#39;&quot;&gt;&amp;&lt;U+202E&gt;\n\nx");
        assert_eq!(line, "&lt;/script&gt;&lt;b a=&quot;&#39;&quot;&gt;&amp;&lt;U+202E&gt; x");
    }

    proptest! {
        #[test]
        fn nothing_of_others_is_markup(text in "[<>&`\"'a\n\u{0}-\u{9f}\u{202a}-\u{202e}]{0,60}") {
            for bare in all_ways(&text) {
                prop_assert!(!bare.contains(['<', '>', '"', '\'']), "{bare}");
                prop_assert!(!bare.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
                let amps = bare.matches('&').count();
                let known = ["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"];
                prop_assert_eq!(amps, known.iter().map(|name| bare.matches(name).count()).sum::<usize>());
            }
        }
    }
}
