//! What every pane draws from: a session at one moment, in one look; changes nothing.

use crate::projection::transcript::{Item, ItemKind};
use crate::projection::words;
use crate::protocol::{ArenaEvent, EventRef, SparkId};

use super::record::{Moment, Record};
use super::text::clean_line;
use super::theme::{Theme, Tone};

/// A session at one moment.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    pub record: &'a Record,
    /// The folds at this moment.
    pub moment: &'a Moment,
    /// The last entry that is seen; none when looking at the newest.
    pub cut: Option<u64>,
    pub theme: Theme,
    /// Microseconds since the Unix epoch: for live work the present, else the moment's own time.
    pub now: u64,
    /// Turns with the time while something is at work; 0 when nothing may move.
    pub beat: u64,
}

impl<'a> Scene<'a> {
    /// The transcript up to this moment.
    pub fn items(&self) -> &'a [Item] {
        let items = &self.record.transcript.items;
        match self.cut {
            Some(cut) => &items[..items.partition_point(|item| item.source.seq <= cut)],
            None => items,
        }
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

    /// What a spark is called: its role, numbered when another row has the same.
    pub fn name(&self, spark: SparkId) -> String {
        match self.moment.board.row(spark) {
            Some(row) => clean_line(&row.role),
            None => spark.to_string(),
        }
    }

    /// True while nobody may see what the debaters hold.
    pub fn is_sealed(&self, item: &Item) -> bool {
        let board = &self.moment.board;
        let says = matches!(item.kind, ItemKind::Answer { .. } | ItemKind::Thinking { .. });
        board.sealed_ballots && says && item.at >= board.turn_opened
    }

    /// Time between two moments, in words; whole seconds once there are any, so that a clock stays calm.
    pub fn elapsed(&self, since: u64) -> String {
        let ms = self.now.saturating_sub(since) / 1_000;
        match ms {
            0..1_000 => "0 s".to_owned(),
            1_000..60_000 => format!("{} s", ms / 1_000),
            _ => words::duration(ms),
        }
    }
}

/// A piece of a line that turns while something is at work.
pub(super) fn spinner(beat: u64) -> &'static str {
    const FRAMES: [&str; 8] = ["⠋", "⠙", "⠸", "⠴", "⠦", "⠇", "⠏", "⠛"];
    FRAMES[(beat % 8) as usize]
}
