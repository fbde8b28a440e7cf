//! Writes a report as one HTML file that needs nothing else: no script, no font, no picture, no connection.

mod figures;
pub mod markup;

use std::collections::BTreeSet;

use markup::Markup;

use super::contents::{self, TITLE};
use super::document::{Article, Block, Card, Fact, Figure, Line, Look, Table, Tone};
use super::{Excerpt, Report, prose, wording};
use crate::projection::phrases;

const STYLE: &str = include_str!("html/style.css");

/// The longest answer that is set in large type.
const LARGE: usize = 320;

/// The whole page. `head` is where the log's chain ends, if the caller knows.
pub fn page(report: &Report, head: Option<&str>) -> String {
    let document = contents::whole(report, head);
    let mut page = Markup::default();
    page.raw("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    // Nothing may be loaded or run, whatever a model has written.
    page.raw("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n");
    page.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    page.raw("<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n<title>");
    page.line(&document.title).raw(" \u{2014} agon</title>\n<style>\n").raw(STYLE);
    page.raw("</style>\n</head>\n<body>\n<main>\n");
    if document.blocks.is_empty() {
        page.raw("<header><h1>No request was made.</h1></header>");
    }
    let mut writer = Writer { page, ids: BTreeSet::new() };
    writer.blocks(&document.blocks);
    writer.page.raw("<footer><p>");
    writer.line(&document.colophon);
    writer.page.raw("</p></footer>\n</main>\n</body>\n</html>\n");
    writer.page.finish()
}

struct Writer {
    page: Markup,
    /// Anchors that are taken: of sections that come more than once the first has it.
    ids: BTreeSet<&'static str>,
}

impl Writer {
    fn blocks(&mut self, blocks: &[Block<'_>]) {
        blocks.iter().for_each(|block| self.block(block));
    }

    fn block(&mut self, block: &Block<'_>) {
        match block {
            Block::Article(article) => self.article(article),
            Block::Section { id, heading, lead, blocks } => self.section(id, heading, lead.as_ref(), blocks),
            Block::Part { heading, blocks } => {
                self.page.raw("<div class=\"part\">");
                self.tagged("<h3>", heading, "</h3>");
                self.blocks(blocks);
                self.page.raw("</div>");
            }
            Block::Words(blocks) => {
                let is_large = matches!(blocks.as_slice(), [Block::Para(..)]) && length(blocks) <= LARGE;
                self.page.raw(if is_large { "<div class=\"prose large\">" } else { "<div class=\"prose\">" });
                self.blocks(blocks);
                self.page.raw("</div>");
            }
            Block::Heading(line) => self.tagged("<h4>", line, "</h4>"),
            Block::Para(tone, line) => {
                let open = match tone {
                    Tone::Plain => "<p>",
                    Tone::Quiet => "<p class=\"source\">",
                    Tone::Notice => "<p class=\"state\">",
                    Tone::Alarm => "<p class=\"state warn alarm\">",
                };
                self.tagged(open, line, "</p>");
            }
            Block::List(first, items) => self.list(*first, items),
            Block::Facts(facts) => facts.iter().for_each(|fact| self.fact(fact)),
            Block::Cards(cards) => {
                self.page.raw("<ol class=\"moves\">");
                cards.iter().for_each(|card| self.card(card));
                self.page.raw("</ol>");
            }
            Block::Table(table) => self.table(table),
            Block::Quote(blocks, by) => {
                self.page.raw("<blockquote>");
                self.blocks(blocks);
                if !by.0.is_empty() {
                    self.tagged("<footer>", by, "</footer>");
                }
                self.page.raw("</blockquote>");
            }
            Block::Code(language, text) => self.code(language == "diff", text),
            Block::Fold(summary, blocks) => {
                self.tagged("<details><summary>", summary, "</summary>");
                self.blocks(blocks);
                self.page.raw("</details>");
            }
            Block::Figure(Figure::Positions(debate), _) => figures::positions(&mut self.page, debate),
            Block::Figure(Figure::Convergence(debate), _) => figures::convergence(&mut self.page, debate),
            Block::Figure(Figure::Votes(debate), _) => figures::matrix(&mut self.page, debate),
            Block::Excerpt(excerpt) => self.excerpt(excerpt),
        }
    }

    /// The request as a heading; the whole text is under it when it is too long to be one.
    fn article(&mut self, article: &Article<'_>) {
        const MOST: usize = 240;
        self.page.raw("<article><header><p class=\"dateline\">");
        for word in &article.dateline {
            self.page.raw("<span>").line(word).raw("</span>");
        }
        let heading = phrases::start(article.request, MOST);
        self.page.raw(if heading.chars().count() > TITLE { "</p><h1 class=\"long\">" } else { "</p><h1>" });
        let (on, off) = if article.is_struck { ("<del>", "</del>") } else { ("", "") };
        self.page.raw(on);
        self.line(&Line::default().words(&heading));
        self.page.raw(off).raw("</h1>");
        if heading.ends_with('\u{2026}') || article.request.trim().contains('\n') {
            self.page.raw("<details class=\"whole\"><summary>the whole text</summary><div class=\"prose\">");
            self.blocks(&prose::blocks(article.request));
            self.page.raw("</div></details>");
        }
        self.page.raw("</header>\n");
        self.blocks(&article.blocks);
        self.page.raw("</article>\n");
    }

    fn section(
        &mut self,
        id: &'static str,
        heading: &'static str,
        lead: Option<&Line>,
        blocks: &[Block<'_>],
    ) {
        // What a reader looks for first is next to the words.
        let (facts, words): (Vec<&Block<'_>>, Vec<&Block<'_>>) =
            blocks.iter().partition(|block| matches!(block, Block::Facts(_)));
        self.page.raw("<section class=\"").raw(id).raw(if facts.is_empty() { "" } else { " beside" });
        if self.ids.insert(id) {
            self.page.raw("\" id=\"").raw(id);
        }
        self.page.raw(if facts.is_empty() { "\"><h2>" } else { "\"><div class=\"words\"><h2>" });
        self.page.raw(heading).raw("</h2>");
        if let Some(lead) = lead {
            self.tagged("<p class=\"lead\">", lead, "</p>");
        }
        words.into_iter().for_each(|block| self.block(block));
        if !facts.is_empty() {
            self.page.raw("</div><aside>");
            facts.into_iter().for_each(|block| self.block(block));
            self.page.raw("</aside>");
        }
        self.page.raw("</section>\n");
    }

    fn tagged(&mut self, open: &'static str, line: &Line, close: &'static str) {
        self.page.raw(open);
        self.line(line);
        self.page.raw(close);
    }

    fn line(&mut self, line: &Line) {
        for (look, text) in &line.0 {
            let page = &mut self.page;
            let (open, close) = match look {
                Look::Plain => ("", ""),
                Look::Strong => ("<strong>", "</strong>"),
                Look::Slanted => ("<em>", "</em>"),
                Look::Code => ("<code>", "</code>"),
                Look::Quiet => ("<small>", "</small>"),
                Look::Warn => ("<span class=\"warn\">", "</span>"),
                Look::Bar(_) => continue,
                Look::Break => ("<br>", ""),
                Look::Side(side) => {
                    figures::side(page, *side, text);
                    continue;
                }
                Look::Rating(side) => {
                    figures::rating(page, *side, text);
                    continue;
                }
                Look::Stroke(level) => {
                    stroke(page, *level);
                    continue;
                }
                Look::Cite(at, doubt) => {
                    match at {
                        Some(_) => page
                            .raw(" <a class=\"ref\" href=\"#")
                            .text(text)
                            .raw("\">")
                            .text(text)
                            .raw("</a>"),
                        None => page.raw(" <q class=\"ref\">").line(text).raw("</q>"),
                    };
                    if let Some(doubt) = doubt {
                        page.raw(" <small class=\"doubt\">").raw(doubt).raw("</small>");
                    }
                    continue;
                }
            };
            page.raw(open).line(text).raw(close);
        }
    }

    fn list(&mut self, first: Option<u64>, items: &[Vec<Block<'_>>]) {
        match first {
            None => self.page.raw("<ul>"),
            Some(first) => self.page.raw("<ol start=\"").text(&first.to_string()).raw("\">"),
        };
        for item in items {
            self.page.raw("<li>");
            match item.as_slice() {
                [Block::Para(_, line), rest @ ..] => {
                    self.line(line);
                    self.blocks(rest);
                }
                blocks => self.blocks(blocks),
            }
            self.page.raw("</li>");
        }
        self.page.raw(if first.is_some() { "</ol>" } else { "</ul>" });
    }

    fn fact(&mut self, fact: &Fact) {
        self.page.raw("<div class=\"fact");
        if fact.warns {
            self.page.raw(" warn");
        }
        if self.ids.insert(fact.id) {
            self.page.raw("\" id=\"").raw(fact.id);
        }
        self.page.raw("\"><h3>").raw(fact.label).raw("</h3>");
        if let Some(level) = fact.level {
            self.page.raw("<p class=\"big\">").text(&wording::per_cent(level)).raw("</p>");
            stroke(&mut self.page, level);
        }
        fact.lines.iter().for_each(|line| self.tagged("<p>", line, "</p>"));
        self.page.raw("</div>");
    }

    fn card(&mut self, card: &Card) {
        self.page.raw("<li><h3>").line(&card.who).raw("</h3><p class=\"step\">");
        self.line(&card.what);
        self.page.raw(" <small>").line(&card.when).raw("</small></p><dl>");
        for (label, words) in &card.said {
            self.page.raw(if words.0.is_empty() { "<dt class=\"warn\">" } else { "<dt>" }).raw(label);
            self.tagged("</dt><dd>", words, "</dd>");
        }
        self.page.raw("</dl></li>");
    }

    fn table(&mut self, table: &Table) {
        self.page.raw("<div class=\"scroll\"><table class=\"").raw(table.class).raw("\"><thead><tr>");
        for name in &table.head {
            self.page.raw("<th scope=\"col\">").line(name).raw("</th>");
        }
        self.page.raw("</tr></thead><tbody>");
        for (stands_out, row) in &table.rows {
            self.page.raw(if *stands_out { "<tr class=\"differs\">" } else { "<tr>" });
            self.row(&table.head, row);
        }
        self.page.raw("</tbody>");
        if let Some(row) = &table.foot {
            self.page.raw("<tfoot><tr>");
            self.row(&table.head, row);
            self.page.raw("</tfoot>");
        }
        self.page.raw("</table></div>");
    }

    fn row(&mut self, head: &[String], row: &[Vec<Line>]) {
        for (nth, cell) in row.iter().enumerate() {
            match head.get(nth).filter(|_| nth > 0) {
                None => self.page.raw("<th scope=\"row\">"),
                Some(name) => self.page.raw("<td data-label=\"").line(name).raw("\">"),
            };
            match cell.as_slice() {
                [only] => self.line(only),
                lines => (0..).zip(lines).for_each(|(nth, line)| {
                    self.tagged(if nth == 0 { "<p>" } else { "<p class=\"because\">" }, line, "</p>");
                }),
            }
            self.page.raw(if nth == 0 { "</th>" } else { "</td>" });
        }
        self.page.raw("</tr>");
    }

    /// Text as it is; of a diff each line with its side.
    fn code(&mut self, is_diff: bool, text: &str) {
        let page = &mut self.page;
        page.raw(if is_diff { "<pre class=\"diff\">" } else { "<pre>" });
        for line in text.trim_end().lines().filter(|_| is_diff) {
            page.raw(match line.as_bytes() {
                [b'+', b'+', b'+', b' ', ..] | [b'-', b'-', b'-', b' ', ..] => "<span class=\"file\">",
                [b'@', ..] => "<span class=\"hunk\">",
                [b'+', ..] => "<span class=\"add\">",
                [b'-', ..] => "<span class=\"del\">",
                _ => "<span>",
            });
            page.text(line).raw("\n</span>");
        }
        if !is_diff {
            page.text(text.trim_end());
        }
        page.raw("</pre>");
    }

    fn excerpt(&mut self, excerpt: &Excerpt) {
        let at = excerpt.at.to_string();
        let page = &mut self.page;
        page.raw("<div class=\"event\" id=\"")
            .text(&at)
            .raw("\"><h3><span class=\"ref\">")
            .text(&at)
            .raw("</span> ");
        if let Some(who) = &excerpt.who {
            page.raw("<strong>").line(who).raw("</strong> ");
        }
        page.raw("<span class=\"kind\">").line(&excerpt.kind).raw("</span> ");
        if let Some(title) = &excerpt.title {
            page.raw("<code>").line(title).raw("</code> ");
        }
        page.raw("<time>").text(&wording::when(excerpt.time)).raw("</time></h3>");
        if let Some(letters) = &excerpt.letters {
            page.raw("<p class=\"letters\">").line(letters).raw("</p>");
        }
        self.code(false, &excerpt.text);
        self.page.raw("</div>\n");
    }
}

/// How much of a whole something is.
fn stroke(page: &mut Markup, level: u32) {
    page.raw("<svg class=\"share\" viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect class=\"rail\" width=\"1000\" height=\"10\"/><rect class=\"level\" height=\"10\" width=\"");
    page.number(level.min(1_000)).raw("\"/></svg>");
}

fn length(blocks: &[Block<'_>]) -> usize {
    let lines =
        blocks.iter().filter_map(|block| if let Block::Para(_, line) = block { Some(line) } else { None });
    lines.map(|line| line.text().chars().count()).sum()
}
