//! Markdown of models as lines; every piece is made safe again, because entities can spell control characters.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::diff;
use super::highlight::Painter;
use super::text::{Wrap, clean, clean_line, width};
use super::theme::{Theme, Tone};

/// Renders a text that [`clean`] has seen, `wide` cells at most.
pub(super) fn markdown(theme: Theme, text: &str, wide: usize) -> Vec<Line<'static>> {
    rendered(theme, text, wide, false)
}

/// The same for a text that is still coming in: code gets its colours once it is whole.
pub(super) fn coming_in(theme: Theme, text: &str, wide: usize) -> Vec<Line<'static>> {
    rendered(theme, text, wide, true)
}

fn rendered(theme: Theme, text: &str, wide: usize, is_quick: bool) -> Vec<Line<'static>> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut page = Page { theme, wide: wide.max(4), is_quick, ..Page::default() };
    for event in Parser::new_ext(text, options) {
        page.event(event);
    }
    page.flush();
    while page.out.last().is_some_and(|line| line.width() == 0) {
        page.out.pop();
    }
    page.out
}

/// Where a list stands: the number to come, or none for bullets.
type Count = Option<u64>;

#[derive(Default)]
struct Page {
    theme: Theme,
    wide: usize,
    is_quick: bool,
    out: Vec<Line<'static>>,
    pieces: Vec<(Style, String)>,
    tones: Vec<Tone>,
    lists: Vec<Count>,
    quotes: usize,
    /// What stands before the next line only: a bullet or a number.
    mark: Option<String>,
    code: Option<(String, String)>,
    link: Option<String>,
    table: Option<Table>,
    /// True when a blank line goes before the next block.
    is_apart: bool,
}

#[derive(Default)]
struct Table {
    rows: Vec<Vec<String>>,
}

impl Page {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.text(&text, None),
            Event::Code(text) => self.text(&text, Some(Tone::Code)),
            Event::Html(text) | Event::InlineHtml(text) => self.text(&text, Some(Tone::Quiet)),
            Event::SoftBreak => self.text(" ", None),
            Event::HardBreak => self.flush(),
            Event::Rule => self.rule(),
            Event::TaskListMarker(done) => self.mark = Some(if done { "[x] " } else { "[ ] " }.to_owned()),
            _ => {}
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => self.open_block(),
            Tag::Heading { level, .. } => {
                self.open_block();
                self.tones.push(if level == HeadingLevel::H1 { Tone::Accent } else { Tone::Strong });
            }
            Tag::BlockQuote(_) => {
                self.open_block();
                self.quotes += 1;
            }
            Tag::CodeBlock(kind) => {
                self.open_block();
                let language = match kind {
                    CodeBlockKind::Fenced(language) => clean_line(&language),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((language, String::new()));
            }
            Tag::List(first) => {
                self.flush();
                if self.lists.is_empty() {
                    self.open_block();
                }
                self.lists.push(first);
            }
            Tag::Item => self.item(),
            Tag::Emphasis => self.tones.push(Tone::Slanted),
            Tag::Strong => self.tones.push(Tone::Strong),
            Tag::Strikethrough => self.tones.push(Tone::Struck),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.link = Some(clean_line(&dest_url))
            }
            Tag::Table(_) => {
                self.open_block();
                self.table = Some(Table::default());
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.rows.push(Vec::new());
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => self.close_block(),
            TagEnd::Heading(_) => {
                self.flush();
                self.tones.pop();
                self.is_apart = true;
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.quotes = self.quotes.saturating_sub(1);
                self.is_apart = true;
            }
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::List(_) => {
                self.flush();
                self.lists.pop();
                self.is_apart = self.lists.is_empty();
            }
            TagEnd::Item => self.flush(),
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => drop(self.tones.pop()),
            TagEnd::Link | TagEnd::Image => self.end_link(),
            TagEnd::TableCell => self.end_cell(),
            TagEnd::Table => self.end_table(),
            _ => {}
        }
    }

    fn open_block(&mut self) {
        self.flush();
        if self.is_apart && self.lists.is_empty() && !self.out.is_empty() {
            self.out.push(Line::default());
        }
        self.is_apart = false;
    }

    fn close_block(&mut self) {
        self.flush();
        self.is_apart = true;
    }

    fn item(&mut self) {
        self.flush();
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                let mark = format!("{number}. ");
                *number = number.saturating_add(1);
                mark
            }
            _ => "• ".to_owned(),
        };
        self.mark = Some(mark);
    }

    fn text(&mut self, text: &str, tone: Option<Tone>) {
        let text = clean(text);
        if let Some((_, code)) = &mut self.code {
            code.push_str(&text);
            return;
        }
        let mut style = self.theme.style(Tone::Text);
        for tone in self.tones.iter().chain(tone.as_ref()) {
            style = style.patch(self.theme.style(*tone));
        }
        self.pieces.push((style, text.replace('\n', " ")));
    }

    fn end_link(&mut self) {
        let Some(target) = self.link.take() else { return };
        let shown = self.pieces.last().is_some_and(|(_, text)| *text == target);
        if !shown && !target.is_empty() {
            self.pieces.push((self.theme.style(Tone::Quiet), format!(" ({target})")));
        }
    }

    /// Cells before the text: quotes, then the indent of lists.
    fn prefix(&self) -> Vec<Span<'static>> {
        let mut spans = Vec::new();
        if self.quotes > 0 {
            spans.push(Span::styled("│ ".repeat(self.quotes), self.theme.style(Tone::Quiet)));
        }
        let indent = 2 * self.lists.len().saturating_sub(1).min(8);
        if indent > 0 {
            spans.push(Span::raw(" ".repeat(indent)));
        }
        spans
    }

    fn flush(&mut self) {
        if self.pieces.is_empty() || self.table.is_some() {
            return;
        }
        let pieces = std::mem::take(&mut self.pieces);
        let (mut first, mut rest) = (self.prefix(), self.prefix());
        if let Some(mark) = self.mark.take() {
            rest.push(Span::raw(" ".repeat(width(&mark))));
            first.push(Span::styled(mark, self.theme.style(Tone::Quiet)));
        } else if !self.lists.is_empty() {
            first.push(Span::raw("  "));
            rest.push(Span::raw("  "));
        }
        let pieces: Vec<(Style, &str)> = pieces.iter().map(|(style, text)| (*style, text.as_str())).collect();
        Wrap::to(self.wide).with(first, rest).line(&pieces, &mut self.out);
    }

    fn end_code(&mut self) {
        let Some((language, text)) = self.code.take() else { return };
        let mut prefix = self.prefix();
        prefix.push(Span::styled("▏ ", self.theme.style(Tone::Quiet)));
        let wrap = Wrap::to(self.wide).barred(prefix).anywhere();
        let painter = match self.is_quick {
            true => Painter::quick(self.theme, &language),
            false => Painter::of(self.theme, &language),
        };
        diff::code(painter, language == "diff", &text, &wrap, &mut self.out);
        self.is_apart = true;
    }

    fn rule(&mut self) {
        self.open_block();
        let line = "─".repeat(self.wide.min(24));
        self.out.push(Line::styled(line, self.theme.style(Tone::Quiet)));
        self.is_apart = true;
    }

    fn end_cell(&mut self) {
        let cell: String = self.pieces.drain(..).map(|(_, text)| text).collect();
        if let Some(row) = self.table.as_mut().and_then(|table| table.rows.last_mut()) {
            row.push(cell);
        }
    }

    fn end_table(&mut self) {
        let Some(table) = self.table.take() else { return };
        let columns = table.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|at| {
                table.rows.iter().filter_map(|row| row.get(at)).map(|cell| width(cell)).max().unwrap_or(0)
            })
            .collect();
        let fits = widths.iter().sum::<usize>() + 2 * columns <= self.wide;
        for (nth, row) in table.rows.iter().enumerate() {
            let style = self.theme.style(if nth == 0 { Tone::Strong } else { Tone::Text });
            let line = match fits {
                true => padded(row, &widths),
                false => row.join(" · "),
            };
            Wrap::to(self.wide).line(&[(style, line.as_str())], &mut self.out);
        }
        self.is_apart = true;
    }
}

fn padded(row: &[String], widths: &[usize]) -> String {
    let cells =
        row.iter().zip(widths).map(|(cell, wide)| format!("{cell}{}", " ".repeat(wide - width(cell))));
    cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, wide: usize) -> String {
        let lines = markdown(Theme::Plain, text, wide);
        lines.iter().map(|line| line.to_string() + "\n").collect()
    }

    #[test]
    fn blocks_are_laid_out() {
        let text = "# Title\n\nOne *two* `three`\nfour.\n\n- a\n- b\n  1. c\n\n> q\n\n```sh\nls  -l\n```\n\n| a | bb |\n|---|---|\n| ccc | d |\n";
        insta::assert_snapshot!(shown(text, 30));
    }

    #[test]
    fn an_entity_cannot_spell_a_control_character() {
        let text = "&#27;[31mred&#x9b;31m `&#7;` [a](&#27;b) ```&#27;\n&#27;\n```";
        assert!(shown(text, 30).chars().all(|c| c == '\n' || !c.is_control()), "{:?}", shown(text, 30));
    }
}
