//! What a report consists of, whatever its form: a closed list of blocks made of lines, each piece of a line with a look.
//!
//! Texts are kept as the log has them. Each renderer makes them safe for its own medium.

use crate::protocol::EventRef;

use super::Excerpt;
use super::debate::DebateReport;
use super::said::Citation;
use super::wording;

/// A report before it has a form.
pub struct Document<'a> {
    /// What it is about, on one line.
    pub title: String,
    /// Its parts, in order.
    pub blocks: Vec<Block<'a>>,
    /// Where it comes from.
    pub colophon: Line,
}

/// One part of a report.
#[derive(Clone)]
pub enum Block<'a> {
    /// One turn: what was asked, and all about it.
    Article(Article<'a>),
    /// Blocks under a heading.
    Section { id: &'static str, heading: &'static str, lead: Option<Line>, blocks: Vec<Block<'a>> },
    /// Blocks under a small heading.
    Part { heading: Line, blocks: Vec<Block<'a>> },
    /// The words of a model or a person, set to be read.
    Words(Vec<Block<'a>>),
    /// A heading in such words.
    Heading(Line),
    /// One paragraph.
    Para(Tone, Line),
    /// Items, with their numbers where a first one is given.
    List(Option<u64>, Vec<Vec<Block<'a>>>),
    /// What a reader looks for first, each with its label.
    Facts(Vec<Fact>),
    /// Steps of persons, each with what was said to it.
    Cards(Vec<Card>),
    /// Rows and columns.
    Table(Table),
    /// Words of a person or model, and whose they are.
    Quote(Vec<Block<'a>>, Line),
    /// Text whose every character counts, with its language.
    Code(String, String),
    /// What is shown on demand, below a line that sums it up.
    Fold(Line, Vec<Block<'a>>),
    /// A drawing; forms that cannot draw show the words.
    Figure(Figure<'a>, Vec<Block<'a>>),
    /// An event of the log that something refers to.
    Excerpt(&'a Excerpt),
}

/// A turn of a session.
#[derive(Clone)]
pub struct Article<'a> {
    /// What kind of work it was, when, how long.
    pub dateline: Vec<String>,
    /// The request, whole.
    pub request: &'a str,
    /// True where it was taken back.
    pub is_struck: bool,
    /// The `prompt_given`.
    pub asked_in: Option<EventRef>,
    /// Its parts.
    pub blocks: Vec<Block<'a>>,
}

/// A drawing.
#[derive(Clone, Copy)]
pub enum Figure<'a> {
    /// Who was on which side, phase by phase.
    Positions(&'a DebateReport),
    /// How agreement grew or fell.
    Convergence(&'a DebateReport),
    /// The first and the last ratings in numbers.
    Votes(&'a DebateReport),
}

/// How a paragraph sounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// As it is.
    Plain,
    /// Said by the way.
    Quiet,
    /// What a reader must know before the rest.
    Notice,
    /// What must be seen.
    Alarm,
}

/// A label with what is under it.
#[derive(Clone)]
pub struct Fact {
    /// Its anchor.
    pub id: &'static str,
    /// What it is, or a question.
    pub label: &'static str,
    /// The number in it, per mille.
    pub level: Option<u32>,
    /// What there is to say.
    pub lines: Vec<Line>,
    /// True where a reader should look twice.
    pub warns: bool,
}

/// A step of a person.
#[derive(Clone)]
pub struct Card {
    /// Who.
    pub who: String,
    /// What.
    pub what: Line,
    /// When.
    pub when: String,
    /// Why, each with what introduces it.
    pub said: Vec<(&'static str, Line)>,
}

/// Rows and columns.
#[derive(Clone, Default)]
pub struct Table {
    /// What kind of table it is.
    pub class: &'static str,
    /// Names of the columns.
    pub head: Vec<String>,
    /// Rows of cells of lines; true where a row stands out.
    pub rows: Vec<(bool, Vec<Vec<Line>>)>,
    /// The sum.
    pub foot: Option<Vec<Vec<Line>>>,
}

/// How a piece of a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// As it is.
    Plain,
    /// Strong.
    Strong,
    /// Emphasised.
    Slanted,
    /// Every character counts.
    Code,
    /// Small.
    Quiet,
    /// A warning.
    Warn,
    /// For, neither or against.
    Side(i8),
    /// A rating.
    Rating(i8),
    /// A new line.
    Break,
    /// A length, per mille, in forms without drawings.
    Bar(u32),
    /// The same in forms with drawings.
    Stroke(u32),
    /// A reference, with what is wrong with it.
    Cite(Option<EventRef>, Option<&'static str>),
}

/// A line of words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line(pub Vec<(Look, String)>);

impl Line {
    /// A line of plain words.
    pub fn new(text: impl Into<String>) -> Self {
        Line::default().plain(text)
    }

    /// The same with a piece of a look.
    pub fn with(mut self, look: Look, text: impl Into<String>) -> Self {
        let text = text.into();
        match self.0.last_mut().filter(|last| last.0 == look && look == Look::Plain) {
            Some((_, last)) => last.push_str(&text),
            None => self.0.push((look, text)),
        }
        self
    }

    /// With plain words.
    pub fn plain(self, text: impl Into<String>) -> Self {
        self.with(Look::Plain, text)
    }

    /// With strong words.
    pub fn strong(self, text: impl Into<String>) -> Self {
        self.with(Look::Strong, text)
    }

    /// With small words.
    pub fn quiet(self, text: impl Into<String>) -> Self {
        self.with(Look::Quiet, text)
    }

    /// With words as they are typed.
    pub fn code(self, text: impl Into<String>) -> Self {
        self.with(Look::Code, text)
    }

    /// With a word that is for (1), neither (0) or against (-1).
    pub fn side(self, side: i8, text: impl Into<String>) -> Self {
        self.with(Look::Side(side), text)
    }

    /// With the words of others, in which backticks enclose code.
    pub fn words(mut self, text: &str) -> Self {
        let mut rest = text.trim();
        while let Some((before, after)) = rest.split_once('`') {
            let code = after.split_once('`').filter(|(code, _)| !code.is_empty() && !code.contains('\n'));
            (self, rest) = match code {
                Some((code, left)) => (self.plain(before).code(code), left),
                None => (self.plain(before).plain("`"), after),
            };
        }
        self.plain(rest)
    }

    /// With references.
    pub fn cites<'r>(self, all: impl IntoIterator<Item = &'r EventRef>) -> Self {
        all.into_iter().fold(self, |line, at| line.with(Look::Cite(Some(*at), None), at.to_string()))
    }

    /// With what was cited, each with what is wrong with it.
    pub fn citations(self, all: &[Citation]) -> Self {
        all.iter().fold(self, |line, cited| {
            let words = cited.at.map_or_else(|| cited.written.clone(), |at| at.to_string());
            line.with(Look::Cite(cited.at, wording::doubt(cited)), words)
        })
    }

    /// The words without their looks.
    pub fn text(&self) -> String {
        self.0.iter().map(|(_, text)| text.as_str()).collect()
    }
}

impl From<String> for Line {
    fn from(text: String) -> Self {
        Line::new(text)
    }
}

impl From<&str> for Line {
    fn from(text: &str) -> Self {
        Line::new(text)
    }
}

/// A paragraph of plain words.
pub fn para<'a>(text: impl Into<Line>) -> Block<'a> {
    Block::Para(Tone::Plain, text.into())
}

/// A cell of one line.
pub fn cell(text: impl Into<Line>) -> Vec<Line> {
    vec![text.into()]
}
