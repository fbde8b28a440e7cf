//! Lays the state out on a frame: header, roster, story, approval, composer, status; changes nothing.

pub(super) mod approval;
mod bars;
mod consent;
mod events;
mod header;
mod inspect;
mod lists;
mod matrix;
mod pick;
mod review;
mod rewind;
mod roster;
mod todo;
mod welcome;
mod writing;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Clear, Paragraph, Wrap};

use super::state::{Overlay, Pane, State};
use super::text;
use super::theme::Tone;
use super::view_model::ViewModel;

pub(super) use events::rows as event_rows;
pub(super) use lists::matching;
pub(super) use pick::fitting;

/// The smallest screen that shows anything useful.
const SMALLEST: (u16, u16) = (40, 8);

/// From here on a squad's roster stands beside the story.
const BESIDE: u16 = 110;

/// Draws the whole screen.
pub fn draw(state: &State, frame: &mut Frame<'_>) {
    let area = frame.area();
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        let text = format!("agon needs {}×{} cells", SMALLEST.0, SMALLEST.1);
        return frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), area);
    }
    let scene = state.scene();
    let composer_rows = writing::rows(state, area);
    let asks = approval::rows(state, area);
    let head = if area.height >= 20 { 2 } else { 1 };
    let slider = u16::from(state.past.is_some() || state.profile.is_record);
    let faults = bars::fault_rows(state, area.width);
    let list = todo::rows(state, area, asks);
    let told = bars::told_rows(state, area, head + 2 + asks + list + slider + faults + composer_rows);
    let [header, rule, body, todo, approval, slide, fault, note, composer, status] = Layout::vertical([
        Constraint::Length(head),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(list),
        Constraint::Length(asks),
        Constraint::Length(slider),
        Constraint::Length(faults),
        Constraint::Length(told),
        Constraint::Length(composer_rows),
        Constraint::Length(1),
    ])
    .areas(area);
    header::draw(state, &scene, frame, header);
    bars::rule(&scene, frame, rule);
    let has_review = draw_body(state, &scene, frame, body, asks);
    state.has_review.set(has_review);
    todo::draw(&scene, frame, todo);
    if asks > 0 {
        approval::draw(state, &scene, frame, approval);
    }
    if slider > 0 {
        bars::slider(state, &scene, frame, slide);
    }
    bars::fault(state, frame, fault);
    bars::told(state, frame, note);
    writing::draw(state, &scene, frame, composer);
    bars::status(state, &scene, frame, status, told > 0);
    writing::offer(state, &scene, frame, composer);
    match state.overlays.last() {
        None => {}
        Some(Overlay::Review { is_whole: false }) if has_review => {}
        Some(overlay) => {
            draw_overlay(state, &scene, overlay, frame, Rect { height: area.height - 1, ..area })
        }
    }
}

/// Draws what is going on; true when what was proposed is shown beside it.
fn draw_body(state: &State, scene: &ViewModel<'_>, frame: &mut Frame<'_>, area: Rect, asks: u16) -> bool {
    if state.record.last().is_none() {
        welcome::draw(state, scene, frame, area);
        return false;
    }
    let sparks = scene.at_work().count();
    let many = sparks > 1;
    let story = match (many, area.width >= BESIDE) {
        (false, _) => area,
        (true, true) => {
            let [left, gap, story] = Layout::horizontal([
                Constraint::Length(if area.width >= 160 { 52 } else { 34 }),
                Constraint::Length(2),
                Constraint::Min(1),
            ])
            .areas(area);
            roster::column(state, scene, frame, left);
            bars::divider(scene, frame, gap);
            story
        }
        (true, false) => {
            let wanted = u16::try_from(sparks).unwrap_or(u16::MAX);
            // Beside a question every lane keeps its line, and the story what is left.
            let most = if asks > 0 { area.height.saturating_sub(2) } else { area.height / 3 };
            let rows = wanted.min(most);
            let [top, rule, story] =
                Layout::vertical([Constraint::Length(rows), Constraint::Length(1), Constraint::Min(1)])
                    .areas(area);
            roster::lines(state, scene, frame, top);
            bars::rule(scene, frame, rule);
            story
        }
    };
    let (story, pane) = review::divide(scene, story);
    draw_story(state, scene, frame, story);
    if let Some(pane) = pane {
        review::pane(state, scene, frame, pane, pane.y == story.y);
    }
    pane.is_some()
}

fn draw_story(state: &State, scene: &ViewModel<'_>, frame: &mut Frame<'_>, area: Rect) {
    // One cell of room on each side keeps the text off the edges.
    let inner = Rect { x: area.x + 1, width: area.width.saturating_sub(2), ..area };
    let (mut lines, is_end) = state.story.window(scene, usize::from(inner.width), usize::from(inner.height));
    if let Some(Overlay::Find(find)) = state.overlays.last() {
        lines.iter_mut().for_each(|line| text::mark(line, find.words.trim(), scene.style(Tone::Chosen)));
    }
    frame.render_widget(Paragraph::new(lines), inner);
    if !is_end && area.height > 1 {
        more(scene, frame, inner);
    }
}

/// Says in the lower right corner that there is more.
fn more(scene: &ViewModel<'_>, frame: &mut Frame<'_>, area: Rect) {
    let note = " ↓ more ";
    let width = u16::try_from(note.chars().count()).unwrap_or(0).min(area.width);
    let at = Rect { x: area.right() - width, y: area.bottom().saturating_sub(1), width, height: 1 };
    frame.render_widget(Paragraph::new(Line::styled(note, scene.style(Tone::Chosen))), at);
}

fn draw_overlay(state: &State, scene: &ViewModel<'_>, overlay: &Overlay, frame: &mut Frame<'_>, area: Rect) {
    match overlay {
        Overlay::Help { scroll } => lists::help(state, scene, frame, area, *scroll),
        Overlay::Cost { scroll } => lists::cost(state, scene, frame, area, *scroll),
        Overlay::Context { scroll } => lists::context(state, scene, frame, area, *scroll),
        Overlay::Matrix { scroll, back } => matrix::draw(state, scene, frame, area, (*scroll, *back)),
        Overlay::Review { .. } => review::whole(state, scene, frame, area),
        Overlay::Changes(sheet) => review::changes(state, scene, sheet, frame, area),
        Overlay::Events(list) => events::draw(scene, list, frame, area),
        Overlay::Inspect { at, scroll } => inspect::draw(state, scene, (*at, *scroll), frame, area),
        Overlay::Sessions(list) => lists::sessions(state, scene, list, frame, area),
        Overlay::Pick(list) => pick::draw(state, scene, list, frame, area),
        Overlay::Find(find) => lists::find(scene, frame, area, find),
        Overlay::Turns(list) => rewind::draw(state, scene, list, frame, area),
        Overlay::Jump(digits) => lists::jump(scene, frame, area, digits),
        Overlay::Consent(asked) => consent::draw(scene, frame, area, asked),
        Overlay::Fork { seq } => lists::fork(state, scene, frame, area, *seq),
        Overlay::Quit => lists::question(scene, frame, area, "Leave? Enter leaves, any other key stays."),
    }
}

/// A frame with a title over what lies beneath; gives the room inside.
fn sheet(scene: &ViewModel<'_>, frame: &mut Frame<'_>, area: Rect, title: &str, foot: &str) -> Rect {
    frame.render_widget(Clear, area);
    let block = Block::new()
        .borders(Borders::TOP | Borders::BOTTOM)
        .border_style(scene.style(Tone::Quiet))
        .title_top(Line::styled(format!(" {title} "), scene.style(Tone::Accent)))
        .title_bottom(Line::styled(format!(" {foot} "), scene.style(Tone::Quiet)));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    Rect { x: inner.x + 1, width: inner.width.saturating_sub(2), ..inner }
}

/// Lines in a sheet, scrolled no further than their end.
fn scrolled(state: &State, frame: &mut Frame<'_>, area: Rect, mut lines: Vec<Line<'static>>, scroll: usize) {
    let most = lines.len().saturating_sub(usize::from(area.height));
    state.most.set(most);
    lines.drain(..scroll.min(most));
    lines.truncate(usize::from(area.height));
    frame.render_widget(Paragraph::new(lines), area);
}

/// True when keys go to this pane.
fn has_keys(state: &State, pane: Pane) -> bool {
    state.pane == pane && state.overlays.is_empty()
}
