//! What a session came to, as one typed value for people and programs: a pure fold of entries; judges nothing.
//!
//! [`Report::of`] reads, `contents` says it in a closed list of blocks, and [`markdown`], [`html`] and [`plain`] write
//! these. A report keeps texts as the log has them; each writer makes them safe for its own medium.

mod contents;
pub mod debate;
mod document;
pub mod excerpt;
mod fold;
pub mod html;
pub mod markdown;
pub mod plain;
mod prose;
pub mod said;
pub mod session;
mod voices;
pub mod wording;
pub mod work;

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::protocol::{ArenaEvent, CallId, Entry, EventRef, SparkId};

pub use debate::DebateReport;
pub use excerpt::Excerpt;
pub use session::SessionReport;

/// Version of the report's JSON form; fields may be added without changing it. Since 2 propositions are named `P1`,
/// as people read them, and a citation says what it leads to. Since 3 what could not be measured is null.
/// Since 4 a probe is as the log has it.
pub const VERSION: u32 = 4;

/// What a session came to.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Report {
    /// Version of this form.
    pub version: u32,
    /// What every session has: turns, findings, costs.
    pub session: SessionReport,
    /// The debates it held, oldest first.
    pub debates: Vec<DebateReport>,
    /// The entries the report cites, in the order of the log, shortened.
    pub excerpts: Vec<Excerpt>,
}

impl Report {
    /// Reads a log. Entries must be in order; gaps and events of newer programs are no error.
    pub fn of(entries: &[Arc<Entry>]) -> Self {
        let log = Log::of(entries);
        let session = SessionReport::of(entries, &log);
        let debates = fold::debates(&log, &session.costs);
        let excerpts = excerpt::cited(&log, &session, &debates);
        Report { version: VERSION, session, debates, excerpts }
    }

    /// The newest debate.
    pub fn debate(&self) -> Option<&DebateReport> {
        self.debates.last()
    }
}

/// Entries that can be looked up, and who is who in them.
struct Log<'a> {
    entries: &'a [Arc<Entry>],
    roles: BTreeMap<SparkId, String>,
    calls: BTreeMap<CallId, SparkId>,
}

impl<'a> Log<'a> {
    fn of(entries: &'a [Arc<Entry>]) -> Self {
        let (mut roles, mut calls) = (BTreeMap::new(), BTreeMap::new());
        for event in entries.iter().flat_map(|entry| &entry.events) {
            match event {
                ArenaEvent::SparkIgnited(data) => _ = roles.insert(data.spark, data.role.clone()),
                ArenaEvent::ModelCalled(data) => _ = calls.insert(data.call, data.spark),
                ArenaEvent::ToolInvoked(data) => _ = calls.insert(data.call, data.spark),
                _ => {}
            }
        }
        Log { entries, roles, calls }
    }

    /// The role of a spark, as debaters and squads are named.
    fn role(&self, spark: SparkId) -> String {
        self.roles.get(&spark).cloned().unwrap_or_else(|| spark.to_string())
    }

    /// The role of the spark an event came from.
    fn who(&self, event: &ArenaEvent) -> Option<String> {
        if let ArenaEvent::RoleFailed(data) = event {
            return Some(data.role.clone());
        }
        let spark = event.spark().or_else(|| self.calls.get(&event.call()?).copied());
        spark.map(|spark| self.role(spark))
    }

    fn entry(&self, seq: u64) -> Option<&'a Entry> {
        let at = self.entries.binary_search_by_key(&seq, |entry| entry.seq).ok()?;
        self.entries.get(at).map(Arc::as_ref)
    }

    fn event(&self, at: EventRef) -> Option<&'a ArenaEvent> {
        self.entry(at.seq)?.events.get(usize::from(at.i))
    }
}
