//! An open approval: the whole command or diff, every control character visible, and how to answer.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};

use crate::projection::board::OpenApproval;
use crate::projection::changes::is_diff;
use crate::projection::phrases::{self, asked_about};
use crate::projection::visible;
use crate::protocol::event::Plan;
use crate::protocol::need::Need;
use crate::protocol::spec::{PermissionLevel, Risk};
use crate::tui::diff;
use crate::tui::rule::Lasts;
use crate::tui::state::{Armed, Pane, State};
use crate::tui::text::{Wrap, bare, bare_line, clean_line, cut, width};
use crate::tui::theme::Tone;
use crate::tui::view_model::ViewModel;

/// Rows around the preview: rule, what it is, blank, blank, how to answer.
const AROUND: usize = 5;

/// Rows of the list of what waits.
const QUEUED: usize = 4;

/// Alike rows that are shown after the first.
const ALIKE: usize = 4;

/// Rows the approval takes; 0 when nothing waits or an earlier moment is looked at.
pub(super) fn rows(state: &State, area: Rect) -> u16 {
    let Some(open) = shown(state) else { return 0 };
    let wide = usize::from(area.width);
    let foot = answer(state, &state.scene(), wide, usize::from(area.height) / 2).len();
    let lines = preview(&state.scene(), open, area.width).len() + AROUND - 1 + foot + queued(state);
    let most = (usize::from(area.height) * 6 / 10).min(beside_lanes(state, area)).max(7);
    u16::try_from(lines.min(most)).unwrap_or(7)
}

/// Rows that leave every lane of a squad its line where they stand above the story.
fn beside_lanes(state: &State, area: Rect) -> usize {
    let lanes = state.scene().at_work().count();
    if lanes < 2 || area.width >= super::BESIDE {
        return usize::MAX;
    }
    // Header, rules, two lines of the story, what is written, what the keys do.
    usize::from(area.height).saturating_sub(lanes + 9)
}

fn shown(state: &State) -> Option<&OpenApproval> {
    state.asked().filter(|_| state.is_asked() && state.past.is_none())
}

fn plan<'a>(scene: &ViewModel<'a>, open: &OpenApproval) -> Option<&'a Plan> {
    scene.event(open.prepared)?.plan()
}

fn preview(scene: &ViewModel<'_>, open: &OpenApproval, wide: u16) -> Vec<Line<'static>> {
    let Some(plan) = plan(scene, open) else { return Vec::new() };
    let mut out = Vec::new();
    let bar = |tone| diff::prefix(scene.theme, tone, "  ┃ ");
    let wrap =
        Wrap::to(usize::from(wide).saturating_sub(2)).with(bar(Tone::Warn), bar(Tone::Quiet)).anywhere();
    let text = approved(&asked_about(plan, &open.opens));
    match is_diff(&text) {
        true => diff::diff(scene.theme, &text, &wrap, &mut out),
        false => {
            let last = text.lines().count().saturating_sub(1);
            for (at, line) in text.lines().enumerate() {
                let tone = if at == last && !open.opens.is_empty() { Tone::Bad } else { Tone::Text };
                wrap.line(&[(scene.style(tone), line)], &mut out);
            }
        }
    }
    // agon's own previews name every need; those of another's log may not.
    for need in plan.other_needs().filter(|need| !plan.preview.contains(&*need.name())) {
        let line = format!("needs: {}", bare_line(&need.name()));
        wrap.line(&[(scene.style(Tone::Bad), line.as_str())], &mut out);
    }
    if let Some(command) = plan.command().filter(|command| !plan.preview.contains(command)) {
        approved(command).lines().for_each(|line| wrap.line(&[(scene.style(Tone::Strong), line)], &mut out));
    }
    counted_once(out, scene)
}

/// Text as it is approved: nothing hidden, long runs of blanks by their number.
fn approved(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(visible::blanks).collect();
    bare(&lines.join("\n"))
}

/// Rows that are alike are shown once, with how many more there are.
fn counted_once(rows: Vec<Line<'static>>, scene: &ViewModel<'_>) -> Vec<Line<'static>> {
    let mut out: Vec<Line<'static>> = Vec::with_capacity(rows.len());
    for alike in rows.chunk_by(|a, b| a == b) {
        match alike {
            [first, more @ ..] if more.len() >= ALIKE => {
                let note = format!("  ⋮ {} more rows like it", more.len());
                out.extend([first.clone(), Line::styled(note, scene.style(Tone::Warn))]);
            }
            alike => out.extend_from_slice(alike),
        }
    }
    out
}

/// The rows of a window: where it has no room for the rest, a gap with its size and the last rows, so that both ends
/// are seen at once. True when the window has come to the end.
fn window(
    lines: Vec<Line<'static>>,
    from: usize,
    height: usize,
    scene: &ViewModel<'_>,
) -> (Vec<Line<'static>>, bool) {
    let left = lines.len() - from;
    let page = page(height);
    if left <= height || page == height {
        return (lines.into_iter().skip(from).take(height).collect(), left <= height);
    }
    let gap = format!("  ⋮ {} not shown", phrases::counted((left - height + 1) as u64, "line"));
    let end = lines.len() - (height - page - 1);
    let mut rows = lines[from..from + page].to_vec();
    rows.push(Line::styled(gap, scene.style(Tone::Warn)));
    rows.extend_from_slice(&lines[end..]);
    (rows, false)
}

/// Rows of a window that move when it is scrolled; the others are the gap and the end.
pub(in crate::tui) fn page(height: usize) -> usize {
    match height {
        0..3 => height,
        3..7 => height - 2,
        _ => height - 3,
    }
}

pub(super) fn draw(state: &State, scene: &ViewModel<'_>, frame: &mut Frame<'_>, area: Rect) {
    let Some(open) = shown(state) else { return };
    frame.render_widget(Clear, area);
    let lines = preview(scene, open, area.width);
    let foot = answer(state, scene, usize::from(area.width), usize::from(area.height).saturating_sub(3));
    // Where there is little room, what is asked comes before what is said about it.
    let room = usize::from(area.height).saturating_sub(foot.len() + 1);
    let head = match room {
        room if room >= lines.len() + 3 || room > 5 => 3,
        room if room > 2 => 2,
        _ => 1,
    };
    let queue = if head == 3 { queue(state, scene, area.width) } else { Vec::new() };
    let height = usize::from(area.height).saturating_sub(head + queue.len() + 1 + foot.len()).max(1);
    state.asking.drawn.set((lines.len(), height));
    let from = state.asking.scroll.min(lines.len().saturating_sub(height));
    let (above, below) = (from, lines.len().saturating_sub(from + height));
    let (lines, is_end) = window(lines, from, height, scene);
    state.asking.is_seen.set(state.asking.is_seen.get() || is_end);
    let mut all = vec![title(state, scene, area.width), about(scene, open, area.width), Line::default()];
    all.truncate(head);
    all.splice(1.min(head)..1.min(head), queue);
    all.extend(lines);
    all.push(match is_ruling(state) {
        true => about_rule(state, scene, usize::from(area.width)),
        false => {
            // A gap tells its own size.
            let below = if page(height) == height { below } else { 0 };
            let text = hidden(above, below, is_end, state.asking.is_seen.get());
            Line::styled(cut(&text, usize::from(area.width)), scene.style(Tone::Warn))
        }
    });
    all.extend(foot);
    frame.render_widget(Paragraph::new(all), area);
}

/// How much of what is asked is not on the screen, and how it gets there.
fn hidden(above: usize, below: usize, is_end: bool, is_seen: bool) -> String {
    let lines = |count: usize| phrases::counted(count as u64, "line");
    let which = match (above, below) {
        (0, 0) if is_end => return String::new(),
        (0, 0) => String::new(),
        (0, below) => format!("{} below: ", lines(below)),
        (above, 0) => format!("{} above: ", lines(above)),
        (above, below) => format!("{} above, {below} below: ", lines(above)),
    };
    match is_seen {
        true => format!("  ⋮ {which}↑ ↓ scroll"),
        false => format!("  ⋮ {which}↓ to the end before you allow it"),
    }
}

fn title(state: &State, scene: &ViewModel<'_>, wide: u16) -> Line<'static> {
    let open = &state.record.now.board.approvals;
    let at = open.iter().position(|ask| Some(ask.call) == state.asking.call).unwrap_or(0) + 1;
    let queue =
        if open.len() > 1 { format!(" {at} of {}, h for the next", open.len()) } else { String::new() };
    let text = format!("── approval{queue} ");
    let rule = "─".repeat(usize::from(wide).saturating_sub(width(&text)));
    let tone = if super::has_keys(state, Pane::Approval) { Tone::Warn } else { Tone::Quiet };
    Line::styled(format!("{text}{rule}"), scene.style(tone))
}

/// Rows of the list of what waits; one alone needs none.
fn queued(state: &State) -> usize {
    let open = state.record.now.board.approvals.len();
    if open > 1 { open.min(QUEUED) } else { 0 }
}

/// What waits, a row each, with the digit that goes there.
fn queue(state: &State, scene: &ViewModel<'_>, wide: u16) -> Vec<Line<'static>> {
    let open = &state.record.now.board.approvals;
    let at = open.iter().position(|ask| Some(ask.call) == state.asking.call).unwrap_or(0);
    let from = (at + 1).saturating_sub(QUEUED);
    let row = |(nth, ask): (usize, &OpenApproval)| {
        let is_chosen = nth == at;
        let mark = if is_chosen { '▸' } else { ' ' };
        let what = bare_line(&format!("{} {}", ask.tool, ask.target));
        let text = format!("  {mark} {} {} wants {what}", nth + 1, scene.name(ask.spark));
        let tone = if is_chosen { Tone::Strong } else { Tone::Quiet };
        Line::styled(cut(&text, usize::from(wide).saturating_sub(2)), scene.style(tone))
    };
    open.iter().enumerate().skip(from).take(queued(state)).map(row).collect()
}

fn about(scene: &ViewModel<'_>, open: &OpenApproval, wide: u16) -> Line<'static> {
    let is_of_a_server =
        plan(scene, open).is_some_and(|plan| plan.needs.iter().any(|need| matches!(need, Need::Tool(_))));
    let risk = match plan(scene, open).map(|plan| plan.risk) {
        _ if is_of_a_server => "calls a server",
        Some(Risk::Read) => "reads files",
        Some(Risk::Write) => "changes files",
        Some(Risk::Execute) => "runs a command",
        Some(Risk::Network) => "uses the network",
        Some(Risk::Unknown(_)) | None => "",
    };
    let place = match plan(scene, open).map(|plan| plan.cwd.as_str()) {
        Some("") | None => String::new(),
        Some(cwd) => format!(" in {}", bare(cwd)),
    };
    let leaves = plan(scene, open).is_some_and(|plan| plan.needs.contains(&Need::Unconfined));
    let (tone, sandbox) = match &scene.moment.board.sandbox {
        _ if leaves => (Tone::Bad, "OUTSIDE the sandbox".to_owned()),
        // What holds the server is in the preview.
        _ if is_of_a_server => (Tone::Quiet, "outside this sandbox".to_owned()),
        Some(sandbox) if sandbox.is_confining() => {
            let is_planning = scene.moment.board.permission == PermissionLevel::Plan;
            let how = if is_planning { ", read-only" } else { "" };
            (Tone::Quiet, format!("inside {}{how}", clean_line(&sandbox.kind)))
        }
        _ => (Tone::Bad, "UNCONFINED".to_owned()),
    };
    let who = format!("{} wants {}", scene.name(open.spark), bare_line(&open.tool));
    let rest = format!(" · {risk}{place}");
    let mut room = usize::from(wide).saturating_sub(2);
    // What is cut on a narrow screen comes last, and is never that nothing confines.
    let pieces = match tone {
        Tone::Bad => vec![(tone, format!("  {sandbox} · ")), (Tone::Strong, who), (Tone::Quiet, rest)],
        _ => vec![(Tone::Strong, format!("  {who}")), (tone, format!("{rest} · {sandbox}"))],
    };
    Line::from_iter(pieces.into_iter().map(|(tone, text)| {
        let text = cut(&text, room);
        room = room.saturating_sub(width(&text));
        Span::styled(text, scene.style(tone))
    }))
}

/// How to answer; once a choice is made, what Enter will do.
fn answer(state: &State, scene: &ViewModel<'_>, wide: usize, most: usize) -> Vec<Line<'static>> {
    if state.pane == Pane::Approval && state.asking.armed == Some(Armed::Rule) {
        return rule_lines(state, scene, wide, most.max(1));
    }
    vec![choices(state, scene, wide)]
}

fn choices(state: &State, scene: &ViewModel<'_>, wide: usize) -> Line<'static> {
    if state.pane != Pane::Approval {
        return Line::styled("  Press Tab to answer", scene.style(Tone::Warn));
    }
    let armed = match state.asking.armed {
        Some(Armed::Once) => "Enter allows this once, Esc takes it back".to_owned(),
        Some(Armed::Session) => {
            "Enter allows this exact call for the rest of the session, Esc takes it back".to_owned()
        }
        Some(Armed::Deny) => format!("deny, because: {}▏  Enter says so", clean_line(&state.asking.reason)),
        Some(Armed::Rule) | None => {
            let key = |key: &'static str| Span::styled(key, scene.style(Tone::Strong));
            let text = |text: &'static str| Span::styled(text, scene.style(Tone::Quiet));
            if wide < 76 {
                let short =
                    [("  y", " once  "), ("s", " session  "), ("r", " rule  "), ("n", " no   then Enter")];
                return Line::from_iter(short.into_iter().flat_map(|(name, what)| [key(name), text(what)]));
            }
            return Line::from(vec![
                key("  y"),
                text(" once   "),
                key("s"),
                text(" for the session   "),
                key("r"),
                text(" by a rule   "),
                key("n"),
                text(" no, and why   then Enter"),
            ]);
        }
    };
    Line::styled(format!("  {}", cut(&armed, wide.saturating_sub(3))), scene.style(Tone::Warn))
}

fn is_ruling(state: &State) -> bool {
    state.pane == Pane::Approval && state.asking.armed == Some(Armed::Rule)
}

/// What a rule would do, or what is wrong with it.
fn about_rule(state: &State, scene: &ViewModel<'_>, wide: usize) -> Line<'static> {
    let (tone, text) = match &state.asking.fault {
        Some(why) => (Tone::Bad, clean_line(why)),
        None => {
            let lasts = match state.asking.lasts {
                Lasts::Session => "for the session",
                Lasts::Workspace => "kept for this workspace",
                Lasts::Everywhere => "kept for every workspace",
            };
            let plan = shown(state).and_then(|open| plan(scene, open));
            let needs =
                plan.filter(|plan| plan.connection().is_none()).into_iter().flat_map(Plan::other_needs);
            let needs: Vec<_> = needs.map(Need::name).collect();
            let with =
                if needs.is_empty() { String::new() } else { format!(" with {}", needs.join(" and ")) };
            (Tone::Warn, format!("Enter allows what fits{with}, {lasts} (Tab changes that); * is anything"))
        }
    };
    Line::styled(format!("  {}", cut(&text, wide.saturating_sub(3))), scene.style(tone))
}

/// The rule as it is written, all of it where it can be; else the lines around the cursor.
fn rule_lines(state: &State, scene: &ViewModel<'_>, wide: usize, most: usize) -> Vec<Line<'static>> {
    let line = &state.asking.rule;
    let (before, after) = line.text.split_at(line.cursor);
    let text = |part: &str| bare(part).replace('\n', "↵");
    let (before, after) = (format!("{}▏", text(before)), text(after));
    let prefix = |text: &str| diff::prefix(scene.theme, Tone::Warn, text);
    let wrap = Wrap::to(wide).with(prefix("  allow "), prefix("        ")).anywhere();
    let (style, mut all, mut until) = (scene.style(Tone::Strong), Vec::new(), Vec::new());
    wrap.line(&[(style, before.as_str()), (style, after.as_str())], &mut all);
    wrap.line(&[(style, before.as_str())], &mut until);
    let from = until.len().saturating_sub(most).min(all.len().saturating_sub(most));
    all.drain(..from);
    all.truncate(most);
    all
}
