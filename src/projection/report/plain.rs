//! Writes a report as plain lines of 80 columns for a terminal; what is folded away elsewhere is one line here.

use unicode_width::UnicodeWidthStr;

use crate::projection::phrases;
use crate::projection::safe_text::{safe, safe_line};
use crate::projection::wrapping::{WIDTH, hanging};

use super::contents;
use super::debate::DebateReport;
use super::document::{Article, Block, Line, Look, Table};
use super::{Report, wording};

/// The newest debate, else every turn; then what the session cost.
pub fn page(report: &Report) -> String {
    let mut out = String::new();
    match report.debate() {
        Some(debate) => {
            let article = contents::debate(report, debate);
            out.push_str(&request(&article));
            out.push_str(&outcome(debate));
            out.push('\n');
        }
        None => report.session.turns.iter().for_each(|turn| {
            let article = contents::article(report, turn);
            out.push_str(&request(&article));
            out.push_str(&lines(&article.blocks, 0));
            out.push('\n');
        }),
    }
    let total = &report.session.total;
    let tokens = wording::tokens(total, total.input.saturating_add(total.output));
    let calls = phrases::counted(u64::from(total.calls), "call");
    out.push_str(&format!("cost         {}, {tokens} tokens, {calls}\n", wording::money(total)));
    out.extend(wording::cut_off(total).map(|why| hanging("             ", &why, WIDTH)));
    out.push_str(&format!("session      {}\n", safe_line(&report.session.id)));
    out
}

/// What a debate came to, from the verdict to the last number.
pub fn outcome(debate: &DebateReport) -> String {
    lines(&contents::outcome(debate, WIDTH), 0)
}

/// The request; of a long one the beginning.
fn request(article: &Article<'_>) -> String {
    let whole = article.asked_in.map(|at| format!("All of it is in {at}."));
    let undone = if article.is_struck { "(undone)\n" } else { "" };
    match wording::head(article.request, &whole.unwrap_or_default()) {
        Some((head, size)) => format!("{undone}{}\n{}\n", words(&head, 0), hanging("  ", &size, WIDTH)),
        None => format!("{undone}{}\n", words(article.request, 0)),
    }
}

/// Text of others, its own lines kept.
fn words(text: &str, indent: usize) -> String {
    let line = |line: &str| match hanging(&" ".repeat(indent), line, WIDTH) {
        rows if rows.is_empty() => "\n".to_owned(),
        rows => rows,
    };
    safe(text).trim().lines().map(line).collect()
}

fn lines(blocks: &[Block<'_>], indent: usize) -> String {
    let mut out = String::new();
    for block in blocks {
        let text = one(block, indent);
        // Lines that sum something up are a list.
        let is_close = matches!(block, Block::Fold(..)) && !out.is_empty();
        if is_close && out.ends_with("\n\n") {
            out.pop();
        }
        out.push_str(&text);
        if !text.is_empty() {
            out.push('\n');
        }
    }
    out.truncate(out.trim_end().len());
    if !out.is_empty() {
        out.push('\n');
    }
    out
}

fn one(block: &Block<'_>, indent: usize) -> String {
    let pad = " ".repeat(indent);
    match block {
        Block::Article(article) => lines(&article.blocks, indent),
        Block::Section { heading, lead, blocks, .. } => {
            let lead = lead.iter().map(|lead| item(&format!("{pad}  "), lead)).collect::<String>();
            format!("{pad}{heading}\n{lead}{}", lines(blocks, indent + 2))
        }
        Block::Part { heading, blocks } => format!("{}{}", item(&pad, heading), lines(blocks, indent + 4)),
        Block::Words(blocks) => lines(blocks, indent),
        Block::Heading(line) | Block::Para(_, line) => item(&pad, line),
        Block::List(first, items) => {
            let marks = (first.unwrap_or_default()..).map(|nth| match first {
                Some(_) => format!("{pad}{nth}. "),
                None => format!("{pad}- "),
            });
            items.iter().zip(marks).map(|(blocks, mark)| marked(&mark, &lines(blocks, mark.len()))).collect()
        }
        Block::Facts(facts) => facts
            .iter()
            .map(|fact| {
                let level =
                    fact.level.map(|level| format!("{}, ", wording::per_cent(level))).unwrap_or_default();
                let colon = if fact.label.ends_with('?') { "" } else { ":" };
                let words: Vec<_> = fact.lines.iter().map(shown).collect();
                hanging(&pad, &format!("{}{colon} {level}{}", fact.label, words.join(" ")), WIDTH)
            })
            .collect(),
        Block::Cards(cards) => cards
            .iter()
            .map(|card| {
                let head = format!("{}, {}, {}", card.who, shown(&card.what), card.when);
                let said = card.said.iter().map(|(label, words)| {
                    let colon = if words.0.is_empty() { "" } else { ": " };
                    hanging(&format!("{pad}    "), &format!("{label}{colon}{}", shown(words)), WIDTH)
                });
                format!("{}{}", hanging(&pad, &safe_line(&head), WIDTH), said.collect::<String>())
            })
            .collect(),
        Block::Table(rows) => table(rows, indent),
        Block::Quote(blocks, by) if by.0.is_empty() => {
            lines(blocks, 0).lines().map(|line| format!("{pad}> {line}\n")).collect()
        }
        Block::Quote(blocks, by) => format!("{}{}", item(&pad, by), lines(blocks, indent + 4)),
        Block::Code(_, text) => safe(text)
            .trim_end()
            .lines()
            .map(|line| format!("{}\n", format!("{pad}    {line}").trim_end()))
            .collect(),
        Block::Fold(line, _) => item(&format!("{pad}- "), line),
        Block::Figure(_, words) => lines(words, indent),
        Block::Excerpt(_) => String::new(),
    }
}

/// Lines with a mark in the place of the indent of the first.
fn marked(mark: &str, lines: &str) -> String {
    format!("{mark}{}", lines.get(mark.len()..).unwrap_or("\n"))
}

fn item(first: &str, line: &Line) -> String {
    let text = shown(line);
    text.lines().map(|line| hanging(first, line, WIDTH)).collect()
}

/// A line of words; only its own breaks break it.
fn shown(line: &Line) -> String {
    const EIGHTHS: [&str; 8] =
        ["\u{2581}", "\u{2582}", "\u{2583}", "\u{2584}", "\u{2585}", "\u{2586}", "\u{2587}", "\u{2588}"];
    let mut out = String::new();
    for (look, text) in &line.0 {
        let text = safe_line(text);
        match look {
            Look::Break => out.push('\n'),
            Look::Bar(level) => {
                let nth = usize::try_from(level * 8 / 1_001).unwrap_or_default();
                out.push_str(&format!(" {}", EIGHTHS[nth.min(7)]));
            }
            Look::Cite(at, doubt) => {
                let what = if at.is_none() { format!("\u{201c}{text}\u{201d}") } else { text.into_owned() };
                let doubt = doubt.map(|doubt| format!(": {doubt}")).unwrap_or_default();
                out.push_str(&format!(" [{what}{doubt}]"));
            }
            _ => out.push_str(&text),
        }
    }
    out.trim().to_owned()
}

/// Columns next to each other where they fit, else a row after another.
fn table(table: &Table, indent: usize) -> String {
    let pad = " ".repeat(indent);
    let text = |cell: &Vec<Line>| cell.iter().map(shown).collect::<Vec<_>>();
    let rows: Vec<Vec<Vec<String>>> = table
        .rows
        .iter()
        .map(|(_, row)| row)
        .chain(&table.foot)
        .map(|row| row.iter().map(text).collect())
        .collect();
    let width = |at: usize| {
        let cells =
            rows.iter().filter_map(|row: &Vec<Vec<String>>| row.get(at)?.first()).map(|cell| cell.width());
        cells.chain([table.head.get(at).map_or(0, |name| name.width())]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..table.head.len()).map(width).collect();
    let needs = indent + widths.iter().map(|width| width + 2).sum::<usize>();
    if needs > WIDTH + 2 || table.class == "disputes" {
        return rows.iter().map(|row| tall(&table.head, row, &pad)).collect();
    }
    let line = |cells: Vec<&str>| {
        let cells = cells
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell}{}  ", " ".repeat(width.saturating_sub(cell.width()))));
        format!("{}\n", format!("{pad}{}", cells.collect::<String>()).trim_end())
    };
    let mut out = line(table.head.iter().map(String::as_str).collect());
    for row in &rows {
        out.push_str(&line(row.iter().map(|cell| cell.first().map_or("", String::as_str)).collect()));
        let more = row.iter().flat_map(|cell| cell.iter().skip(1));
        more.for_each(|words| out.push_str(&hanging(&format!("{pad}    "), words, WIDTH)));
    }
    out
}

/// A row that is too wide for one line: its name and first words, then the other cells with their names.
fn tall(head: &[String], row: &[Vec<String>], pad: &str) -> String {
    let mut cells = row.iter().zip(head).map(|(cell, name)| (name.as_str(), cell));
    let first = |cell: Option<(&str, &Vec<String>)>| {
        cell.and_then(|(_, cell)| cell.first().cloned()).unwrap_or_default()
    };
    let (name, second) = (first(cells.next()), cells.next());
    let more = second.map(|(_, cell)| cell.iter().skip(1).cloned().collect::<Vec<_>>()).unwrap_or_default();
    let rest = cells.filter(|(_, cell)| cell.iter().any(|line| !line.is_empty()));
    let rest: Vec<_> = rest.map(|(name, cell)| format!("{name}: {}", cell.join(", "))).collect();
    let under = format!("{pad}    ");
    let mut out = hanging(&format!("{pad}{name}  "), &first(second), WIDTH);
    if !rest.is_empty() {
        out.push_str(&hanging(&under, &rest.join(", "), WIDTH));
    }
    more.iter().for_each(|words| out.push_str(&hanging(&under, words, WIDTH)));
    out
}
