//! Writes a report as Markdown; what others wrote is escaped, so that it stays text in every viewer.

use crate::projection::safe_text::{safe, safe_line};
use crate::protocol::EventRef;

use super::contents;
use super::document::{Article, Block, Fact, Line, Look, Table, Tone};
use super::html::markup::Markup;
use super::{Excerpt, Report, wording};

/// The whole report.
pub fn page(report: &Report, head: Option<&str>) -> String {
    let document = contents::whole(report, head);
    let mut out = blocks(&document.blocks);
    out.push_str(&format!("\n---\n\n{}\n", shown(&document.colophon)));
    out
}

/// Text of others on one line, with everything escaped that Markdown or HTML would read.
fn line(text: &str) -> String {
    at_start(escaped(safe_line(text).trim()))
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in safe_line(text).chars() {
        if matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '|' | '~' | '!' | '&' | '$') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// At the start of a line these would begin a list, a quote or a heading.
fn at_start(mut out: String) -> String {
    match out.chars().next() {
        Some('-' | '+' | '=') => out.insert(0, '\\'),
        Some('0'..='9') => out = numbered(out),
        _ => {}
    }
    out
}

/// A line such as `1. x` or `1) x` would begin a numbered list.
fn numbered(line: String) -> String {
    let digits = line.chars().take_while(char::is_ascii_digit).count();
    match line[digits..].chars().next() {
        Some('.' | ')') => format!("{}\\{}", &line[..digits], &line[digits..]),
        _ => line,
    }
}

/// Text of others between backticks.
fn code(text: &str) -> String {
    safe_line(text).replace('`', "'")
}

/// The anchor of an excerpt: only letters, digits and hyphens, which every viewer takes.
fn anchor(at: EventRef) -> String {
    at.to_string().replace('.', "-")
}

/// Blocks with a blank line between them.
fn blocks(all: &[Block<'_>]) -> String {
    let texts = all.iter().map(one).filter(|text| !text.trim().is_empty());
    let texts: Vec<String> = texts.map(|text| text.trim_end().to_owned()).collect();
    texts.join("\n\n") + "\n"
}

fn one(block: &Block<'_>) -> String {
    match block {
        Block::Article(article) => format!("{}\n\n{}", request(article), blocks(&article.blocks)),
        // It is long, and there to be looked up.
        Block::Section { id: "log", heading, blocks: all, .. } => {
            folded(heading, &format!("## {heading}\n\n{}", blocks(all)))
        }
        Block::Section { heading, lead, blocks: all, .. } => {
            let lead = lead.iter().map(|lead| format!("{}\n\n", shown(lead))).collect::<String>();
            format!("## {heading}\n\n{lead}{}", blocks(all))
        }
        Block::Part { heading, blocks: all } => format!("{}\n\n{}", shown(heading), blocks(all)),
        Block::Words(all) => blocks(all),
        Block::Heading(line) => format!("**{}**", self::line(&line.text())),
        Block::Para(Tone::Alarm, line) => format!("**{}**", shown(line)),
        Block::Para(_, line) => shown(line),
        Block::List(first, items) => list(*first, items),
        Block::Facts(facts) => facts.iter().map(fact).collect(),
        Block::Cards(cards) => cards
            .iter()
            .map(|card| {
                let said = card.said.iter().map(|(label, words)| {
                    let colon = if words.0.is_empty() { "" } else { ": " };
                    format!("  - {label}{colon}{}\n", shown(words))
                });
                let head =
                    format!("- **{}**, {}, {}\n", line(&card.who), shown(&card.what), line(&card.when));
                head + &said.collect::<String>()
            })
            .collect(),
        Block::Table(rows) => table(rows),
        Block::Quote(all, by) => {
            let quoted = blocks(all)
                .lines()
                .map(|line| format!("{}\n", format!("> {line}").trim_end()))
                .collect::<String>();
            if by.0.is_empty() { quoted } else { format!("{}:\n\n{quoted}", shown(by)) }
        }
        Block::Code(language, text) => fenced(language, text),
        Block::Fold(summary, all) => folded(&summary.text(), &blocks(all)),
        Block::Figure(_, words) => blocks(words),
        Block::Excerpt(excerpt) => self::excerpt(excerpt),
    }
}

/// The request as a heading; of a long one the beginning.
fn request(article: &Article<'_>) -> String {
    let heading = line(&crate::projection::phrases::start(article.request, 240));
    let whole = article.asked_in.map(|at| format!("All of it is in {at}."));
    let rest = match wording::head(article.request, &whole.unwrap_or_default()) {
        Some((head, size)) => format!("{}\n{size}", fenced("", &head)),
        None if article.request.trim().contains('\n') || article.request.chars().count() > 240 => {
            fenced("", article.request)
        }
        None => String::new(),
    };
    let heading = if article.is_struck { format!("~~{heading}~~") } else { heading };
    format!("# {heading}\n\n{rest}").trim_end().to_owned()
}

/// What is shown on demand. A viewer takes the line for HTML.
fn folded(summary: &str, text: &str) -> String {
    let mut line = Markup::default();
    line.line(summary.trim());
    format!("<details><summary>{}</summary>\n\n{}\n\n</details>", line.finish(), text.trim_end())
}

fn fact(fact: &Fact) -> String {
    let level = fact.level.map(|level| format!("**{}**, ", wording::per_cent(level))).unwrap_or_default();
    let colon = if fact.label.ends_with('?') { "" } else { ":" };
    let words: Vec<_> = fact.lines.iter().map(shown).collect();
    format!("- {}{colon} {level}{}\n", fact.label, words.join(" "))
}

fn list(first: Option<u64>, items: &[Vec<Block<'_>>]) -> String {
    let is_tight = is_tight(items);
    let marks =
        (first.unwrap_or_default()..).map(|nth| first.map_or("- ".to_owned(), |_| format!("{nth}. ")));
    let item = |(item, mark): (&Vec<Block<'_>>, String)| {
        let text = blocks(item);
        let text = if is_tight { text.replace("\n\n", "\n") } else { text };
        let rest = " ".repeat(mark.len());
        let rows = text.trim_end().lines().enumerate().map(|(nth, row)| match (nth, row) {
            (0, row) => format!("{mark}{row}\n"),
            (_, "") => "\n".to_owned(),
            (_, row) => format!("{rest}{row}\n"),
        });
        rows.collect::<String>()
    };
    let items: Vec<String> = items.iter().zip(marks).map(item).collect();
    items.join(if is_tight { "" } else { "\n" })
}

/// True for items of one paragraph, and lists of such items.
fn is_tight(items: &[Vec<Block<'_>>]) -> bool {
    items.iter().all(|item| match item.as_slice() {
        [] | [Block::Para(..)] => true,
        [Block::Para(..), Block::List(_, items)] => is_tight(items),
        _ => false,
    })
}

fn table(table: &Table) -> String {
    let row = |cells: &[Vec<Line>]| {
        let cell = |cell: &Vec<Line>| {
            cell.iter().map(shown).collect::<Vec<_>>().join(" \u{2014} ").replace('\n', " ")
        };
        format!("| {} |\n", cells.iter().map(cell).collect::<Vec<_>>().join(" | "))
    };
    let head: Vec<_> = table.head.iter().map(|name| line(name)).collect();
    let right = if table.class.starts_with("numbers") { "--:|" } else { "---|" };
    let rule = format!("|---|{}", right.repeat(head.len().saturating_sub(1)));
    let rows = table.rows.iter().map(|(_, row)| row).chain(&table.foot).map(|cells| row(cells));
    format!("| {} |\n{rule}\n{}", head.join(" | "), rows.collect::<String>())
}

/// A line of words. Only its own hard breaks break it.
fn shown(words: &Line) -> String {
    let mut out = String::new();
    for (look, text) in &words.0 {
        let begins = out.trim().is_empty() || out.ends_with('\n');
        match look {
            Look::Cite(at, doubt) => {
                let what = match at {
                    Some(at) => format!(" [{at}](#{})", anchor(*at)),
                    None => format!(" \u{201c}{}\u{201d}", line(text)),
                };
                out.push_str(&what);
                out.extend(doubt.map(|doubt| format!(" **({doubt})**")));
            }
            Look::Bar(_) | Look::Stroke(_) => {}
            Look::Break => out.push_str("\\\n"),
            Look::Code => out.push_str(&wrapped("`", &code(text))),
            Look::Strong | Look::Warn => out.push_str(&wrapped("**", &escaped(text))),
            Look::Slanted => out.push_str(&wrapped("*", &escaped(text))),
            _ if begins => out.push_str(&at_start(escaped(text))),
            _ => out.push_str(&escaped(text)),
        }
    }
    out.trim().to_owned()
}

/// Words between two marks, blanks outside of them.
fn wrapped(mark: &str, text: &str) -> String {
    let inner = text.trim();
    if inner.is_empty() {
        return text.to_owned();
    }
    let (before, after) = (text.starts_with(' '), text.ends_with(' '));
    format!("{}{mark}{inner}{mark}{}", if before { " " } else { "" }, if after { " " } else { "" })
}

fn excerpt(each: &Excerpt) -> String {
    let who = each.who.as_deref().map(|who| format!(" {}", line(who))).unwrap_or_default();
    let title = each.title.as_deref().map(|title| format!(" `{}`", code(title))).unwrap_or_default();
    let letters = each.letters.as_deref().map(|letters| format!("{}\n\n", line(letters))).unwrap_or_default();
    let (at, anchor, kind) = (each.at, anchor(each.at), line(&each.kind));
    format!("<a id=\"{anchor}\"></a>**{at}**{who}, {kind}{title}\n\n{letters}{}", fenced("", &each.text))
}

/// Text of others as it is, within a fence that nothing in it can end.
fn fenced(language: &str, text: &str) -> String {
    let text = safe(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let language: String = language.chars().take_while(char::is_ascii_alphanumeric).take(20).collect();
    let language = if language.is_empty() { "text" } else { &language };
    format!("{fence}{language}\n{}\n{fence}\n", text.trim_matches('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_others_is_markup() {
        assert_eq!(line("<b>*x*</b> [a](b) `c` | d & e"), r"\<b\>\*x\*\</b\> \[a\](b) \`c\` \| d \& e");
        assert_eq!(line("# x\n- y\u{202E}"), r"\# x - y\<U+202E\>");
        assert_eq!(
            [line("- x"), line("1. x"), line("12) x"), line("3 x")],
            [r"\- x", r"1\. x", r"12\) x", "3 x"]
        );
        assert_eq!(code("a`b\nc"), "a'b c");
        assert_eq!(fenced("", "a\n````\n# b\u{202E}\n"), "`````text\na\n````\n# b<U+202E>\n`````\n");
    }
}
