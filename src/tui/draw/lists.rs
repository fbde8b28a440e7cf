//! Sheets with lists: help, costs, sessions, small questions.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};

use crate::projection::costs::Scope;
use crate::projection::phrases;
use crate::tui::keys::{KEYS, KeyContext};
use crate::tui::slash::SLASHES;
use crate::tui::state::{Find, SessionRow, Sessions, State};
use crate::tui::text::{Wrap, clean_line, cut, width};
use crate::tui::theme::Tone;
use crate::tui::view_model::ViewModel;

pub(super) fn help(state: &State, scene: &ViewModel<'_>, frame: &mut Frame<'_>, area: Rect, scroll: usize) {
    let inner = super::sheet(scene, frame, area, "help", "↑↓ scroll · Esc closes");
    let wide = usize::from(inner.width);
    let mut lines = Vec::new();
    let title = |text: &'static str| Line::styled(text, scene.style(Tone::Accent));
    let places = [
        (KeyContext::Composer, "While writing"),
        (KeyContext::Timeline, "In the story"),
        (KeyContext::Anywhere, "Anywhere"),
    ];
    for (place, name) in places {
        lines.push(title(name));
        for row in KEYS.iter().filter(|row| row.place == place && !row.help.is_empty()) {
            lines.extend(pair(scene, row.keys, row.help, wide));
        }
        lines.push(Line::default());
    }
    lines.push(title("When something waits for your answer"));
    for (keys, help) in [
        ("y Enter", "Allow this once"),
        ("s Enter", "Allow this exact call for the rest of the session"),
        ("r … Enter", "Allow whatever fits a rule for the session; the rule is shown and can be changed"),
        ("n … Enter", "Deny; what you write is sent to the model"),
        ("h, 1-9", "Look at the next one that waits, or at one of the list"),
    ] {
        lines.extend(pair(scene, keys, help, wide));
    }
    lines.push(Line::default());
    lines.push(title("Commands"));
    for slash in SLASHES {
        let name = format!("{} {}", slash.name, slash.takes);
        lines.extend(pair(scene, name.trim(), slash.help, wide));
        for flag in slash.flags {
            lines.extend(pair(scene, &format!("  {} {}", flag.name, flag.takes), flag.help, wide));
        }
    }
    lines.push(Line::default());
    let mentions = "@ and a part of a name completes a file or folder; what is mentioned is read and shown to the model.";
    Wrap::to(wide).line(&[(scene.style(Tone::Quiet), mentions)], &mut lines);
    super::scrolled(state, frame, inner, lines, scroll);
}

/// A name and what it means, in a column of its own where there is room.
fn pair(scene: &ViewModel<'_>, name: &str, text: &str, wide: usize) -> Vec<Line<'static>> {
    let room = if wide >= 90 { 36 } else { 26.min(wide / 2) };
    let gap = room.saturating_sub(width(name) + 2);
    let mut first = vec![Span::styled(format!("  {name}"), scene.style(Tone::Code))];
    let (mut out, rest) = (Vec::new(), vec![Span::raw(" ".repeat(room))]);
    if gap == 0 {
        out.push(Line::from(std::mem::take(&mut first)));
        first = rest.clone();
    } else {
        first.push(Span::raw(" ".repeat(gap)));
    }
    Wrap::to(wide).with(first, rest).line(&[(scene.style(Tone::Text), text)], &mut out);
    out
}

pub(super) fn cost(state: &State, scene: &ViewModel<'_>, frame: &mut Frame<'_>, area: Rect, scroll: usize) {
    let inner = super::sheet(scene, frame, area, "cost", "↑↓ scroll · Esc closes");
    // Where not everything has room, what was read from a cache is left out and never the money.
    let is_narrow = inner.width < 76;
    let names = if is_narrow { 18 } else { 26 };
    let cells = |name: &str, [calls, input, cached, output]: [&str; 4], money: &str| {
        let cached = if is_narrow { String::new() } else { format!("{cached:>10}") };
        let pad = " ".repeat(names - width(name));
        format!("{name}{pad}{calls:>7}{input:>10}{cached}{output:>10}  {money}")
    };
    let head = cells("", ["calls", "in", "cached", "out"], "money");
    let mut lines = vec![Line::styled(head, scene.style(Tone::Quiet))];
    for row in scene.costs().rows() {
        let (name, tone) = match &row.scope {
            Scope::Spark(spark) => (scene.name(*spark), Tone::Text),
            Scope::WithSubagents(spark) => (format!("{} + subagents", scene.name(*spark)), Tone::Text),
            Scope::Turn(turn) => (scene.costs().turn_name(*turn), Tone::Text),
            Scope::Role(role) => (format!("role {}", clean_line(role)), Tone::Text),
            Scope::Model(model) => (clean_line(model), Tone::Text),
            Scope::Total => ("everything".to_owned(), Tone::Strong),
        };
        let tally = &row.tally.at_most();
        let name = cut(&name, names - 1);
        let [input, cached, output] =
            [tally.usage.input, tally.usage.cached, tally.usage.output].map(phrases::grouped);
        let [input, output] = [input, output].map(|count| format!("{}{count}", tally.about()));
        let money = tally.money();
        let text = cells(&name, [&tally.calls.to_string(), &input, &cached, &output], &money);
        lines.push(Line::styled(cut(&text, usize::from(inner.width)), scene.style(tone)));
    }
    if let Some(saved) = phrases::saved(scene.costs().total.saved_micro_usd) {
        lines.push(Line::styled(cut(&saved, usize::from(inner.width)), scene.style(Tone::Quiet)));
    }
    super::scrolled(state, frame, inner, lines, scroll);
}

/// What fills the windows of the sparks at work.
pub(super) fn context(
    state: &State,
    scene: &ViewModel<'_>,
    frame: &mut Frame<'_>,
    area: Rect,
    scroll: usize,
) {
    let inner = super::sheet(scene, frame, area, "context", "↑↓ scroll · Esc closes");
    let wide = usize::from(inner.width);
    let usage = &scene.moment.gauge;
    let mut lines = Vec::new();
    for spark in usage.at_work() {
        let Some(filled) = usage.filled(spark, &|at| scene.event(at)) else { continue };
        let name = clean_line(&scene.name(spark));
        let Ok(filled) = filled else {
            let words = format!("{name}: its beginning is no longer in memory; `agon context` reads the log");
            lines.extend([Line::styled(cut(&words, wide), scene.style(Tone::Quiet)), Line::default()]);
            continue;
        };
        let head = format!("{name} · {}", clean_line(&filled.model));
        lines.push(Line::styled(cut(&head, wide), scene.style(Tone::Strong)));
        let (rows, sum) = phrases::filled(&filled);
        for [part, tokens, share] in rows {
            lines.push(Line::styled(format!("  {part:<14}{tokens:>12}{share:>9}"), scene.style(Tone::Text)));
        }
        Wrap::to(wide).line(&[(scene.style(Tone::Quiet), &sum)], &mut lines);
        lines.push(Line::default());
    }
    if lines.is_empty() {
        lines.push(Line::styled("no model was called yet", scene.style(Tone::Quiet)));
    }
    super::scrolled(state, frame, inner, lines, scroll);
}

/// The sessions that contain every word that was typed, newest first.
pub(in crate::tui) fn matching<'a>(rows: &'a [SessionRow], search: &str) -> Vec<&'a SessionRow> {
    let search = search.to_lowercase();
    let words: Vec<&str> = search.split_whitespace().collect();
    let fits = |row: &&SessionRow| {
        let text = format!(
            "{} {} {} {} {}",
            row.id,
            row.name.as_deref().unwrap_or_default(),
            row.prompt,
            row.workspace,
            row.state
        )
        .to_lowercase();
        words.iter().all(|word| text.contains(word))
    };
    rows.iter().filter(fits).collect()
}

pub(super) fn sessions(
    state: &State,
    scene: &ViewModel<'_>,
    list: &Sessions,
    frame: &mut Frame<'_>,
    area: Rect,
) {
    let foot = match (&list.doomed, &list.naming) {
        (Some(id), _) => {
            format!("Enter removes {} with its log; any other key keeps it", cut(&clean_line(id), 13))
        }
        (_, Some(_)) => "Enter gives the name · Esc keeps the old one".to_owned(),
        _ if area.width < 76 => "Enter opens · Ctrl-F fork · -R name · -X remove".to_owned(),
        _ => "Enter opens · Ctrl-F forks · Ctrl-R renames · Ctrl-X removes · Esc".to_owned(),
    };
    let inner = super::sheet(scene, frame, area, "sessions", &foot);
    let wide = usize::from(inner.width);
    let search = match &list.naming {
        Some((_, name)) => format!("name: {}▏", clean_line(name)),
        None => format!("search: {}▏", clean_line(&list.search)),
    };
    let mut lines = vec![Line::styled(search, scene.style(Tone::Text)), Line::default()];
    let Some(all) = &state.sessions else {
        lines.push(Line::styled("reading…", scene.style(Tone::Quiet)));
        return frame.render_widget(Paragraph::new(lines), inner);
    };
    let rows = matching(all, &list.search);
    if rows.is_empty() {
        lines.push(Line::styled("no session fits", scene.style(Tone::Quiet)));
    }
    let height = usize::from(inner.height).saturating_sub(2).max(1);
    let chosen = list.chosen.min(rows.len().saturating_sub(1));
    let from = (chosen + 1).saturating_sub(height);
    for (nth, row) in rows.iter().enumerate().skip(from).take(height) {
        let is_chosen = nth == chosen;
        let text = session_row(row, scene.record.now.board.id == row.id, wide.saturating_sub(2));
        let (mark, tone) = if is_chosen { ("▸ ", Tone::Chosen) } else { ("  ", Tone::Text) };
        lines.push(Line::styled(cut(&format!("{mark}{text}"), wide), scene.style(tone)));
    }
    frame.render_widget(Paragraph::new(lines), inner);
}

/// Time, state, size and name; on a wide screen its id and folder as well.
fn session_row(row: &SessionRow, is_here: bool, wide: usize) -> String {
    let what = match (&row.fault, &row.name) {
        (Some(fault), _) => format!("! {}", clean_line(fault)),
        (None, Some(name)) => format!("“{}”  {}", clean_line(name), clean_line(&row.prompt)),
        (None, None) => clean_line(&row.prompt),
    };
    let when = format!("{} {}", phrases::day(row.newest_at), &phrases::time_of_day(row.newest_at)[..5]);
    let state = if is_here { "here" } else { row.state };
    let head = format!("{when}  {state:<8}{:>7}  ", phrases::short_count(row.entries));
    if wide < 100 {
        return format!("{head}{what}");
    }
    let folder = row.workspace.rsplit('/').next().unwrap_or_default();
    let folder = cut(&clean_line(folder), 18);
    let gap = " ".repeat(20usize.saturating_sub(width(&folder)));
    format!("{head}{:<15}{folder}{gap}{what}", cut(&clean_line(&row.id), 13))
}

/// What is looked for, and how it goes on.
pub(super) fn find(scene: &ViewModel<'_>, frame: &mut Frame<'_>, area: Rect, find: &Find) {
    let missed = if find.is_missed && !find.words.is_empty() { "no more of it; " } else { "" };
    let words = clean_line(&find.words);
    question(scene, frame, area, &format!("Find {words}▏  {missed}Enter older, ↓ newer, Esc stays here"));
}

pub(super) fn jump(scene: &ViewModel<'_>, frame: &mut Frame<'_>, area: Rect, digits: &str) {
    let last = scene.record.last().unwrap_or(0);
    question(
        scene,
        frame,
        area,
        &format!("Go to entry e{digits}▏  of e0 to e{last}; Enter goes, g the beginning"),
    );
}

/// What a fork would do, before it is done.
pub(super) fn fork(state: &State, scene: &ViewModel<'_>, frame: &mut Frame<'_>, area: Rect, seq: u64) {
    let is_open = scene.moment.board.has_open_turn();
    let then = if is_open { "its open turn waits for you" } else { "it waits for your next task" };
    let left = if state.is_working() { "; what runs here is left" } else { "" };
    question(
        scene,
        frame,
        area,
        &format!("Fork at e{seq}? Enter copies session and files up to there; {then}{left}. Esc stays"),
    );
}

/// A question in the last rows of the screen.
pub(super) fn question(scene: &ViewModel<'_>, frame: &mut Frame<'_>, area: Rect, text: &str) {
    let mut lines = vec![Line::styled("─".repeat(usize::from(area.width)), scene.style(Tone::Warn))];
    let wrap = Wrap::to(usize::from(area.width).saturating_sub(1)).barred(vec![Span::raw(" ")]);
    wrap.line(&[(scene.style(Tone::Strong), text)], &mut lines);
    let height = u16::try_from(lines.len()).unwrap_or(2).min(area.height);
    let area = Rect { y: area.bottom() - height, height, ..area };
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines), area);
}
