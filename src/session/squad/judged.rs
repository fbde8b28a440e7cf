//! Whose the changes in the workspace are: decided once from each comparison; looks at no file itself.

use crate::protocol::effect::{DiffOrder, Order};
use crate::protocol::event::{ArenaEvent, DiffTaken, PathBase, WorkJudged};
use crate::protocol::{EventRef, SparkId};
use crate::session::Session;

use super::state::{Squad, Wrote};

impl Session {
    /// Decides what the last comparison for a spark shows, once.
    pub(super) fn judge_work(&mut self, spark: SparkId) {
        let Some((squad, i)) = self.role(spark) else { return };
        let Some(at) = squad.roles[i].proof.unjudged() else { return };
        let Some(ArenaEvent::DiffTaken(taken)) = self.event(at) else { return };
        let before = squad.work.as_ref().filter(|_| i == squad.lead);
        let judged = squad.judged(spark, at, &taken.body, before);
        self.emit(ArenaEvent::WorkJudged(judged));
    }
}

impl Squad {
    /// `before` is what was decided when the work was shown, for the last comparison.
    fn judged(
        &self,
        spark: SparkId,
        diff: EventRef,
        taken: &DiffTaken,
        before: Option<&WorkJudged>,
    ) -> WorkJudged {
        let restored = taken.restored.clone();
        let work = match before {
            // Of a workspace that is as it was shown the comparison lists nothing.
            Some(before) if taken.touched.is_empty() => WorkJudged { spark, restored, ..before.clone() },
            _ => {
                let (own, others): (Vec<String>, Vec<String>) = taken
                    .files
                    .iter()
                    .cloned()
                    .partition(|path| self.ran_command || self.written.contains_key(path));
                let checked = self.roles.iter().any(|role| role.proof.ran().next().is_some());
                let (unknown, foreign) = if checked { (others, Vec::new()) } else { (Vec::new(), others) };
                WorkJudged { spark, diff, own, foreign, unknown, restored, undone: Vec::new() }
            }
        };
        let mut undone: Vec<String> = work.undone.clone();
        undone.extend(before.map(|before| self.lost_since(before, taken)).unwrap_or_default());
        undone.extend(taken.removed.iter().filter(|path| self.is_removed(path)).cloned());
        if undone.is_empty() && work.own.is_empty() {
            undone = self.lost(&work);
        }
        undone.sort();
        undone.dedup();
        WorkJudged { undone, ..work }
    }

    /// Files of the work that are not as they were when it was shown; of what git ignores only so much is seen.
    fn lost_since(&self, before: &WorkJudged, taken: &DiffTaken) -> Vec<String> {
        let touched = taken.touched.iter().filter(|path| before.own.contains(path));
        let restored = taken.restored.iter();
        let restored =
            restored.filter(|path| !before.restored.contains(path) && !taken.touched.contains(path));
        touched.chain(restored).cloned().collect()
    }

    /// True for a file that a tool wrote and that no command of a role can have removed.
    fn is_removed(&self, path: &str) -> bool {
        !self.ran_command && self.written.get(path).is_some_and(|wrote| wrote.after.is_some())
    }

    /// Where nothing of what was written is left, the files that were there before. New files that are gone may have
    /// been for the time of the work.
    fn lost(&self, work: &WorkJudged) -> Vec<String> {
        let all = self.wrote().all(|base| work.restored.contains(&base.path));
        let old = self.wrote().filter(|base| all && base.sha256.is_some());
        old.map(|base| base.path).collect()
    }

    /// The last comparison, before the lead's answer stands.
    pub fn next_look(&self) -> Option<Order> {
        let proof = &self.roles.get(self.lead)?.proof;
        let worked = self.roles.iter().any(|role| role.writes && role.tasks > 0);
        (proof.diff.is_none() && (worked || self.cache.may_store())).then_some(())?;
        self.look(self.shown.clone())
    }

    /// A comparison with the squad's beginning, and with the tree that was shown last.
    pub fn look(&self, shown: Option<String>) -> Option<Order> {
        let from = self.base.clone()?;
        Some(Order::Diff(DiffOrder { from, written: self.wrote().collect(), shown }))
    }

    /// Files that tools of the squad are known to have changed, with what each held before.
    fn wrote(&self) -> impl Iterator<Item = PathBase> {
        self.written.iter().filter_map(|(path, Wrote { before, after })| {
            let base = PathBase { path: path.clone(), sha256: before.clone() };
            (after.is_some() && after != before).then_some(base)
        })
    }
}
