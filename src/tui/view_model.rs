//! What every pane draws from: a session at one moment, in one look; changes nothing.

use std::borrow::Cow;

use crate::projection::Matrix;
use crate::projection::board::SparkRow;
use crate::projection::costs::Costs;
use crate::projection::phrases;
use crate::projection::transcript::{Item, ItemKind};
use crate::protocol::spec::Mode;
use crate::protocol::{ArenaEvent, EventRef, SparkId};

use super::session_view::{SessionView, Snapshot};
use super::text::clean_line;
use super::theme::{Theme, Tone};

/// A session at one moment.
#[derive(Clone, Copy)]
pub(super) struct ViewModel<'a> {
    pub record: &'a SessionView,
    /// The folds at this moment.
    pub moment: &'a Snapshot,
    /// The last entry that is seen; none when looking at the newest.
    pub cut: Option<u64>,
    pub theme: Theme,
    /// Microseconds since the Unix epoch: for live work the present, else the moment's own time.
    pub now: u64,
    /// Turns with the time while something is at work; 0 when nothing may move.
    pub beat: u64,
    /// What is open was left so: nobody works on it.
    pub is_left: bool,
}

impl<'a> ViewModel<'a> {
    /// How many items there are at this moment.
    pub fn count(&self) -> usize {
        self.record.count_items(self.cut)
    }

    /// An item of this moment; the caller knows that it is one.
    pub fn item(&self, at: usize) -> Option<&'a Item> {
        self.record.item(at)
    }

    /// Items of this moment before a position, the nearest first.
    pub fn back_from(&self, at: usize) -> impl Iterator<Item = &'a Item> {
        let record = self.record;
        (0..at.min(self.count())).rev().map_while(move |at| record.item(at))
    }

    /// Finds an event.
    pub fn event(&self, at: EventRef) -> Option<&'a ArenaEvent> {
        self.record.event(at)
    }

    /// An end as it was known at this moment.
    pub fn known(&self, end: Option<EventRef>) -> Option<EventRef> {
        end.filter(|end| self.cut.is_none_or(|cut| end.seq <= cut))
    }

    /// A style.
    pub fn style(&self, tone: Tone) -> ratatui::style::Style {
        self.theme.style(tone)
    }

    /// What a spark is called: its role.
    pub fn name(&self, spark: SparkId) -> String {
        self.record.role(spark).map_or_else(|| spark.to_string(), clean_line)
    }

    /// The sparks of the turn: those of earlier turns are part of the story only.
    pub fn at_work(&self) -> impl Iterator<Item = &'a SparkRow> {
        let board = &self.moment.board;
        let opened = board.turn_opened;
        board.sparks.iter().filter(move |row| row.ended.is_none() || row.started >= opened)
    }

    /// What was used. Where nobody works on what is open, what may have been used by what still ran is counted.
    pub fn costs(&self) -> Cow<'a, Costs> {
        match self.is_left {
            true => Cow::Owned(self.moment.costs.clone().at_the_end()),
            false => Cow::Borrowed(&self.moment.costs),
        }
    }

    /// True when different roles speak, so that each needs its name.
    pub fn has_voices(&self) -> bool {
        let sparks = &self.moment.board.sparks;
        sparks.iter().any(|row| row.role != sparks[0].role)
    }

    /// True while what the debaters hold is sealed.
    pub fn is_sealed(&self, item: &Item) -> bool {
        let board = &self.moment.board;
        use ItemKind::{Answer, CutAnswer, Thinking};
        let says = matches!(item.kind, Answer { .. } | CutAnswer | Thinking { .. });
        board.sealed_ballots && says && item.at >= board.turn_opened
    }

    /// The debate that was on at a time, of the newest turn; none where that is none.
    pub fn debate_at(&self, at: u64) -> Option<&'a Matrix> {
        let board = &self.moment.board;
        let is_on = matches!(board.mode, Some(Mode::Debate(_))) && at >= board.turn_opened;
        is_on.then_some(&self.moment.matrix)
    }

    /// Time between two moments, in words; whole seconds once there are any, so that a clock stays calm.
    pub fn elapsed(&self, since: u64) -> String {
        let ms = self.now.saturating_sub(since) / 1_000;
        match ms {
            0..1_000 => "0 s".to_owned(),
            1_000..60_000 => format!("{} s", ms / 1_000),
            _ => phrases::duration(ms),
        }
    }
}

/// A piece of a line that turns while something is at work.
pub(super) fn spinner(beat: u64) -> &'static str {
    const FRAMES: [&str; 8] = ["⠋", "⠙", "⠸", "⠴", "⠦", "⠇", "⠏", "⠛"];
    FRAMES[(beat % 8) as usize]
}
