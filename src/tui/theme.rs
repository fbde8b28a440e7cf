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
    /// For light text on a dark screen that has 16 colours: no backgrounds, as they would drown the text.
    DarkFew,
    /// The same for dark text on a light screen.
    LightFew,
}

/// Which side of a diff a line is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Removed,
    Added,
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

    /// The same for a terminal that has 16 colours only.
    pub fn few(self) -> Theme {
        match self {
            Theme::Dark => Theme::DarkFew,
            Theme::Light => Theme::LightFew,
            other => other,
        }
    }

    /// True where a terminal has no more than 16 colours.
    pub fn is_few(self) -> bool {
        matches!(self, Theme::DarkFew | Theme::LightFew)
    }

    /// A piece of a line that was added or removed: on its background the side's colours are no letter's, so that the
    /// side is seen before the syntax. Without backgrounds the whole line has the colour of its side. What differs
    /// within a line is marked once more.
    pub(super) fn on_side(self, style: Style, side: Side, is_marked: bool) -> Style {
        let ground = match (self, side, is_marked) {
            (Theme::Dark, Side::Added, false) => 22,
            (Theme::Dark, Side::Added, true) => 28,
            (Theme::Dark, Side::Removed, false) => 52,
            (Theme::Dark, Side::Removed, true) => 88,
            (Theme::Light, Side::Added, false) => 194,
            (Theme::Light, Side::Added, true) => 157,
            (Theme::Light, Side::Removed, false) => 224,
            (Theme::Light, Side::Removed, true) => 217,
            _ => {
                let tone = if side == Side::Added { Tone::Good } else { Tone::Bad };
                let style = self.style(tone);
                return if is_marked { style.add_modifier(Modifier::UNDERLINED) } else { style };
            }
        };
        let letter = match (self, style.fg) {
            (Theme::Dark, Some(Color::DarkGray)) => Color::Gray,
            (Theme::Dark, Some(Color::Green | Color::Yellow | Color::Red)) => Color::LightYellow,
            (Theme::Dark, Some(Color::Magenta)) => Color::LightMagenta,
            (Theme::Dark, Some(Color::Cyan | Color::LightBlue)) => Color::LightCyan,
            (Theme::Dark, _) => Color::White,
            (_, Some(Color::Green | Color::Red)) | (_, None) => Color::Black,
            (_, Some(colour)) => colour,
        };
        style.fg(letter).bg(Color::Indexed(ground))
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
            Theme::Dark | Theme::DarkFew => Some(dark),
            Theme::Light | Theme::LightFew => Some(light),
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

    #[test]
    fn no_syntax_looks_like_a_side_of_a_diff() {
        let sides = [Some(Color::Green), Some(Color::Red), Some(Color::LightGreen), Some(Color::LightRed)];
        for theme in [Theme::Dark, Theme::Light] {
            for tone in [
                Tone::Text,
                Tone::Comment,
                Tone::Literal,
                Tone::Number,
                Tone::Keyword,
                Tone::Name,
                Tone::Kind,
            ] {
                let [added, removed] =
                    [Side::Added, Side::Removed].map(|side| theme.on_side(theme.style(tone), side, false));
                assert!(!sides.contains(&added.fg) && added.fg == removed.fg, "{theme:?} {tone:?} {added:?}");
                assert!(
                    added.bg.is_some() && removed.bg.is_some() && added.bg != removed.bg,
                    "{theme:?} {tone:?}"
                );
            }
        }
        for theme in [Theme::DarkFew, Theme::LightFew, Theme::Plain] {
            let literal = theme.style(Tone::Literal);
            let [added, removed] =
                [Side::Added, Side::Removed].map(|side| theme.on_side(literal, side, false));
            assert_eq!([added, removed], [theme.style(Tone::Good), theme.style(Tone::Bad)]);
            assert_eq!(added.bg, None);
            assert_ne!(theme.on_side(literal, Side::Added, true), added, "what differs is marked");
        }
    }
}
