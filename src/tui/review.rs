//! The diff a squad has under review as lines, what reviewers found beside the lines it is about; looks up the body.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use ratatui::text::Line;

use crate::projection::changes::{Changes, counts};
use crate::projection::phrases;
use crate::protocol::EventRef;
use crate::protocol::event::{ArenaEvent, DiffTaken, Finding, Judgement};

use super::diff;
use super::text::{Wrap, bare, bare_line, clean_line};
use super::theme::{Theme, Tone};
use super::view_model::ViewModel;

/// What the lines depend on.
type Look = (EventRef, usize, Theme, Vec<Finding>);

/// Where somebody is in what was proposed.
#[derive(Debug, Default)]
pub(super) struct Review {
    /// The proposal and the line at the top.
    seen: (Option<EventRef>, usize),
    made: RefCell<Option<(Look, Rc<Vec<Line<'static>>>)>>,
}

impl Review {
    /// The line at the top; a new proposal is read from its beginning.
    pub fn scroll(&self, proposed: Option<EventRef>) -> usize {
        if self.seen.0 == proposed { self.seen.1 } else { 0 }
    }

    /// The same, to be changed.
    pub fn scroll_of(&mut self, proposed: Option<EventRef>) -> &mut usize {
        self.seen = (proposed, self.scroll(proposed));
        &mut self.seen.1
    }

    /// The lines, made anew only when something about them changed.
    pub fn lines(&self, scene: &ViewModel<'_>, width: usize) -> Made {
        let board = &scene.moment.board;
        let Some((at, diff)) = proposal(scene) else { return Rc::default() };
        let look = (at, width, scene.theme, board.findings.clone());
        if let Some((_, made)) = self.made.borrow().as_ref().filter(|(old, _)| *old == look) {
            return Rc::clone(made);
        }
        let made = Rc::new(lay_out(scene, &diff.diff, width));
        *self.made.borrow_mut() = Some((look, Rc::clone(&made)));
        made
    }
}

/// What was proposed last, and where it stands.
pub(super) fn proposal<'a>(scene: &ViewModel<'a>) -> Option<(EventRef, &'a DiffTaken)> {
    let at = scene.moment.board.proposed?;
    match scene.event(at)? {
        ArenaEvent::DiffTaken(data) => Some((at, &data.body)),
        _ => None,
    }
}

/// `proposal 1 (e22), changes wanted · 1 file · +1 -1`: which one it is, and what was said of it.
pub(super) fn title(scene: &ViewModel<'_>, at: EventRef, taken: &DiffTaken) -> String {
    let board = &scene.moment.board;
    let files = phrases::counted(taken.files.len() as u64, "file");
    let (added, removed) = counts(&taken.diff);
    let (spark, verdict) = board.judged.unzip();
    let nth = spark.and_then(|spark| board.proposals.get(&spark)).copied().unwrap_or(1);
    let word = match verdict.flatten() {
        Some(Judgement::Approve) => ", approved",
        Some(Judgement::RequestChanges) => ", changes wanted",
        None if board.has_open_turn() => ", under review",
        Some(Judgement::Unknown(_)) | None => "",
    };
    format!("proposal {nth} ({at}){word} · {files} · +{added} -{removed}")
}

/// The width and the colours that lines were made for, and the lines.
type Shape = (usize, Theme);
type Made = Rc<Vec<Line<'static>>>;

/// What the whole session changed, in a sheet of its own.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    /// How much it is, in words.
    pub title: String,
    /// The line at the top.
    pub scroll: usize,
    changes: Changes,
    made: RefCell<Option<(Shape, Made)>>,
}

impl Sheet {
    /// The sheet of some changes.
    pub fn of(changes: Changes) -> Self {
        let (added, removed) = changes.counts();
        let files = phrases::counted(changes.files.len() as u64, "file");
        let title = match changes.files.is_empty() {
            true => "nothing was changed by file tools".to_owned(),
            false => format!("the session's changes · {files} · +{added} -{removed}"),
        };
        Sheet { title, changes, ..Sheet::default() }
    }

    /// Its lines, a file after another.
    pub fn lines(&self, theme: Theme, width: usize) -> Made {
        if let Some((_, made)) = self.made.borrow().as_ref().filter(|(old, _)| *old == (width, theme)) {
            return Rc::clone(made);
        }
        let (mut out, wrap) = (Vec::new(), Wrap::to(width).anywhere());
        let quiet = |text: String| Line::styled(text, theme.style(Tone::Quiet));
        if self.changes.commands > 0 {
            let commands = phrases::counted(self.changes.commands, "command");
            out.push(quiet(format!("{commands} ran; what they changed is not shown here")));
        }
        for (file, diffs) in &self.changes.files {
            if !out.is_empty() {
                out.push(Line::default());
            }
            let edits = phrases::counted(diffs.len() as u64, "change");
            wrap.line(&[(theme.style(Tone::Accent), &format!("{} · {edits}", bare_line(file)))], &mut out);
            diffs.iter().for_each(|text| diff::diff(theme, &bare(text.trim_end()), &wrap, &mut out));
        }
        let made = Rc::new(out);
        *self.made.borrow_mut() = Some(((width, theme), Rc::clone(&made)));
        made
    }
}

/// First what was found elsewhere, then the diff with what was found in it.
fn lay_out(scene: &ViewModel<'_>, text: &str, width: usize) -> Vec<Line<'static>> {
    let findings = &scene.moment.board.findings;
    let wrap = Wrap::to(width).anywhere();
    let (mut body, mut placed) = (Vec::new(), BTreeSet::new());
    diff::diff_beside(scene.theme, &bare(text.trim_end()), &wrap, &mut body, |(file, line), out| {
        for finding in findings {
            if finding.file.as_deref() == Some(file) && finding.line == Some(line) {
                placed.insert(&finding.id);
                tell(scene, finding, "", width, out);
            }
        }
    });
    let mut out = Vec::new();
    for finding in findings.iter().filter(|finding| !placed.contains(&finding.id)) {
        tell(scene, finding, &finding.place(), width, &mut out);
    }
    if !out.is_empty() {
        out.insert(0, Line::styled("about no line of this diff:", scene.style(Tone::Quiet)));
        out.push(Line::default());
    }
    out.append(&mut body);
    out
}

/// A finding, beneath the line it is about.
fn tell(scene: &ViewModel<'_>, finding: &Finding, place: &str, width: usize, out: &mut Vec<Line<'static>>) {
    let severity = finding.severity.word();
    let text = format!("{} {severity}{place}: {}", finding.id, finding.problem);
    let wrap = Wrap::to(width)
        .with(diff::prefix(scene.theme, Tone::Warn, "  ▲ "), diff::prefix(scene.theme, Tone::Warn, "    "));
    wrap.line(&[(scene.style(Tone::Warn), &clean_line(&text))], out);
}
