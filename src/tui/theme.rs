//! What tones look like: named terminal colours for dark and light screens, or none; knows no widget.

use ratatui::style::{Color, Modifier, Style};

/// What a piece of text is, as far as its look goes. The words always say it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Text,
    Strong,
    Quiet,
    Accent,
    Good,
    Bad,
    Warn,
    Code,
    Comment,
    Literal,
    Number,
    Keyword,
    Name,
    Kind,
    Slanted,
    Struck,
    Chosen,
}

/// A set of looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// For light text on a dark screen.
    #[default]
    Dark,
    /// For dark text on a light screen.
    Light,
    /// No colours at all; bold, dim, underlined and reversed remain.
    Plain,
}

impl Theme {
    /// The theme of a name: `dark`, `light` or `plain`.
    pub fn named(name: &str) -> Option<Theme> {
        match name {
            "dark" => Some(Theme::Dark),
            "light" => Some(Theme::Light),
            "plain" => Some(Theme::Plain),
            _ => None,
        }
    }

    pub(super) fn style(self, tone: Tone) -> Style {
        let style = Style::new();
        let styled = match tone {
            Tone::Text => style,
            Tone::Strong => style.add_modifier(Modifier::BOLD),
            Tone::Accent => style.add_modifier(Modifier::BOLD),
            Tone::Slanted => style.add_modifier(Modifier::ITALIC),
            Tone::Struck => style.add_modifier(Modifier::CROSSED_OUT),
            Tone::Chosen => style.add_modifier(Modifier::REVERSED),
            Tone::Quiet | Tone::Comment if self == Theme::Plain => style.add_modifier(Modifier::DIM),
            Tone::Bad | Tone::Warn | Tone::Keyword if self == Theme::Plain => {
                style.add_modifier(Modifier::BOLD)
            }
            _ => style,
        };
        match self.colour(tone) {
            Some(colour) => styled.fg(colour),
            None => styled,
        }
    }

    fn colour(self, tone: Tone) -> Option<Color> {
        // Cyan, yellow and whatever is bright can hardly be read on white.
        let (dark, light) = match tone {
            Tone::Quiet | Tone::Comment => (Color::DarkGray, Color::DarkGray),
            Tone::Accent | Tone::Code => (Color::Cyan, Color::Blue),
            Tone::Good => (Color::Green, Color::Green),
            Tone::Bad => (Color::Red, Color::Red),
            Tone::Warn => (Color::Yellow, Color::Magenta),
            Tone::Literal => (Color::Green, Color::Magenta),
            Tone::Number => (Color::Yellow, Color::Magenta),
            Tone::Keyword => (Color::Magenta, Color::Blue),
            Tone::Name => (Color::LightBlue, Color::Blue),
            Tone::Kind => (Color::Cyan, Color::Magenta),
            _ => return None,
        };
        match self {
            Theme::Dark => Some(dark),
            Theme::Light => Some(light),
            Theme::Plain => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_light_theme_has_only_colours_that_can_be_read_on_white() {
        use Tone::{Accent, Bad, Code, Comment, Good, Keyword, Kind, Literal, Name, Number, Quiet, Warn};
        for tone in [Accent, Bad, Code, Comment, Good, Keyword, Kind, Literal, Name, Number, Quiet, Warn] {
            let colour = Theme::Light.colour(tone);
            let dark = [Color::Blue, Color::DarkGray, Color::Green, Color::Magenta, Color::Red];
            assert!(colour.is_some_and(|colour| dark.contains(&colour)), "{tone:?} {colour:?}");
            assert_eq!(Theme::Plain.colour(tone), None);
        }
    }
}
