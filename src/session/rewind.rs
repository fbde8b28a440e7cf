//! Going back: what the conversations were before each of the last prompts, and what a rewind makes of them.

use std::collections::{BTreeMap, VecDeque};

use crate::protocol::event::{Notice, TurnRewound};
use crate::protocol::text::names_shown;
use crate::protocol::{EventRef, SparkId};

use super::Session;
use super::state::Spark;

/// Prompts and rewinds whose conversations are kept. They share their messages; what a compaction left out stays in
/// memory this long.
const MOST: usize = 32;

/// Paths that a notice names.
const NAMED: usize = 20;

/// The conversations with the person before each of the last prompts and rewinds, the newest last.
#[derive(Clone, Debug, Default)]
pub(super) struct Rewinds(VecDeque<(EventRef, BTreeMap<SparkId, Spark>)>);

impl Rewinds {
    fn find(&self, at: EventRef) -> Option<&BTreeMap<SparkId, Spark>> {
        self.0.iter().rfind(|(known, _)| *known == at).map(|(_, sparks)| sparks)
    }

    /// Entries that their requests would need.
    pub(super) fn seqs(&self) -> impl Iterator<Item = u64> {
        self.0.iter().flat_map(|(_, sparks)| sparks.values()).flat_map(Spark::seqs)
    }
}

impl Session {
    /// Keeps the conversations as they are before an event.
    pub(super) fn remember(&mut self, at: EventRef) {
        let lead = self.lead_name().map(str::to_owned);
        let talkers = self.sparks.iter().filter(|(_, spark)| spark.talks(lead.as_deref()));
        let talkers = talkers.map(|(id, spark)| (*id, spark.clone())).collect();
        self.rewinds.0.push_back((at, talkers));
        if self.rewinds.0.len() > MOST {
            self.rewinds.0.pop_front();
        }
    }

    pub(super) fn admit_rewound(&self, data: &TurnRewound) -> Result<(), String> {
        if self.turn.is_some() {
            return Err("a turn is open; interrupt it first".to_owned());
        }
        match data.talk && self.rewinds.find(data.to).is_none() {
            true => Err(format!(
                "the conversation before {} is not in memory: {MOST} turns are kept; take back the files alone, or fork the \
                 session at an earlier entry",
                data.to
            )),
            false => Ok(()),
        }
    }

    pub(super) fn fold_rewound(&mut self, at: EventRef, data: &TurnRewound) {
        self.remember(at);
        if let Some(sparks) = self.rewinds.find(data.to).filter(|_| data.talk) {
            self.sparks = sparks.clone();
        }
        if let Some(files) = &data.files {
            self.checkpoints.tree = Some(files.to.clone());
            (self.checkpoints.fresh, self.checkpoints.touched) = (true, false);
            self.checkpoints.compare = None;
        }
    }

    /// Where only files or only words went back, the conversation and the files no longer fit.
    pub(super) fn on_rewound(&mut self, data: &TurnRewound) {
        let text = match (&data.files, data.talk) {
            (Some(files), false) if files.count > 0 => {
                let more = files.count.saturating_sub(NAMED as u64);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                let named = names_shown(files.paths.iter().take(NAMED));
                format!(
                    "The user took back changes to files: {named}{more}. Read files again before you rely on what you saw."
                )
            }
            (None, true) => {
                "The user took back a part of this conversation and kept the files it left. Read files \
                             before you rely on what you saw."
                    .to_owned()
            }
            _ => return,
        };
        let (last, chat) = (self.last_talker(), self.chat());
        for spark in last.into_iter().chain(chat.filter(|chat| Some(*chat) != last)) {
            self.notice(spark, Notice::Workspace, &text);
        }
    }
}
