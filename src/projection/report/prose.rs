//! Reads the words of models and people as Markdown into blocks; markup of any other kind stays text.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use super::document::{Block, Line, Look, Table, Tone};

/// Lists and quotes within each other that are distinguished; deeper ones are read as if they were at this depth.
const DEEPEST: usize = 8;

/// The blocks of a text.
pub fn blocks<'a>(text: &str) -> Vec<Block<'a>> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut reader = Reader { open: vec![Vec::new()], ..Reader::default() };
    Parser::new_ext(text.trim(), options).for_each(|event| reader.event(event));
    reader.flush();
    reader.open.into_iter().flatten().collect()
}

#[derive(Default)]
struct Reader<'a> {
    /// The blocks of each open quote and item, the text's own first.
    open: Vec<Vec<Block<'a>>>,
    lists: Vec<(Option<u64>, Vec<Vec<Block<'a>>>)>,
    /// For each open list, item and quote whether it is shown as one.
    kept: Vec<bool>,
    line: Line,
    looks: Vec<Look>,
    link: Option<(String, usize)>,
    code: Option<(String, String)>,
    table: Option<Table>,
    row: Vec<Vec<Line>>,
}

impl<'a> Reader<'a> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.text(None, &text),
            Event::Code(text) => self.text(Some(Look::Code), &text),
            Event::Html(text) | Event::InlineHtml(text) => self.text(None, &text),
            Event::SoftBreak => self.text(None, " "),
            Event::HardBreak => self.text(Some(Look::Break), ""),
            Event::Rule => self.push(Block::Para(Tone::Quiet, Line::new("\u{2014}\u{2014}\u{2014}"))),
            Event::TaskListMarker(done) => self.text(None, if done { "\u{2611} " } else { "\u{2610} " }),
            _ => {}
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Strong => self.looks.push(Look::Strong),
            Tag::Emphasis | Tag::Strikethrough => self.looks.push(Look::Slanted),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.link = Some((dest_url.into_string(), self.line.text().len()));
            }
            Tag::CodeBlock(kind) => {
                self.flush();
                let language = match kind {
                    CodeBlockKind::Fenced(language) => language.into_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((language, String::new()));
            }
            Tag::List(first) => self.enter(|reader| reader.lists.push((first, Vec::new()))),
            Tag::Item | Tag::BlockQuote(_) => self.enter(|reader| reader.open.push(Vec::new())),
            Tag::Table(_) => self.table = Some(Table { class: "words", ..Table::default() }),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Strong | TagEnd::Emphasis | TagEnd::Strikethrough => drop(self.looks.pop()),
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.flush(),
            TagEnd::Heading(_) => self.heading(),
            TagEnd::Link | TagEnd::Image => self.end_link(),
            TagEnd::CodeBlock => {
                if let Some((language, text)) = self.code.take() {
                    self.push(Block::Code(language, text));
                }
            }
            TagEnd::List(_) if self.leave() => {
                if let Some((first, items)) = self.lists.pop() {
                    self.push(Block::List(first, items));
                }
            }
            TagEnd::Item if self.leave() => {
                if let (Some(blocks), Some((_, items))) = (self.open.pop(), self.lists.last_mut()) {
                    items.push(blocks);
                }
            }
            TagEnd::BlockQuote(_) if self.leave() => {
                let blocks = self.open.pop().unwrap_or_default();
                self.push(Block::Quote(blocks, Line::default()));
            }
            TagEnd::TableCell => self.row.push(vec![std::mem::take(&mut self.line)]),
            TagEnd::TableHead => {
                let row = std::mem::take(&mut self.row);
                if let Some(table) = &mut self.table {
                    table.head = row.iter().flatten().map(Line::text).collect();
                }
            }
            TagEnd::TableRow => {
                let row = std::mem::take(&mut self.row);
                if let Some(table) = &mut self.table {
                    table.rows.push((false, row));
                }
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    self.push(Block::Table(table));
                }
            }
            _ => {}
        }
    }

    /// A list, an item or a quote begins.
    fn enter(&mut self, open: impl FnOnce(&mut Self)) {
        self.flush();
        let keeps = self.kept.len() < 2 * DEEPEST;
        self.kept.push(keeps);
        if keeps {
            open(self);
        }
    }

    /// It ends; true where it is shown as one.
    fn leave(&mut self) -> bool {
        self.flush();
        self.kept.pop().unwrap_or_default()
    }

    fn text(&mut self, look: Option<Look>, text: &str) {
        match &mut self.code {
            Some((_, code)) => code.push_str(text),
            None => {
                let look = look.or(self.looks.last().copied()).unwrap_or(Look::Plain);
                self.line = std::mem::take(&mut self.line).with(look, text);
            }
        }
    }

    /// Where a link leads is said; it cannot be followed from a report.
    fn end_link(&mut self) {
        let Some((target, from)) = self.link.take() else { return };
        let is_shown = self.line.text().get(from..) == Some(target.as_str());
        if !is_shown && !target.is_empty() {
            self.line = std::mem::take(&mut self.line).quiet(format!(" ({target})"));
        }
    }

    fn heading(&mut self) {
        let line = std::mem::take(&mut self.line);
        self.push(Block::Heading(line));
    }

    fn flush(&mut self) {
        let line = std::mem::take(&mut self.line);
        if !line.text().trim().is_empty() {
            self.push(Block::Para(Tone::Plain, line));
        }
    }

    fn push(&mut self, block: Block<'a>) {
        if let Some(blocks) = self.open.last_mut() {
            blocks.push(block);
        }
    }
}
