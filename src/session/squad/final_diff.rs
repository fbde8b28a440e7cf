//! What the looks at the workspace say of a squad's work: whether it is still there; looks at no file itself.

use crate::protocol::effect::{DiffOrder, Order};
use crate::protocol::event::PathBase;

use super::state::{Changes, RoleKind, RoleState, Squad, Wrote};

impl Squad {
    /// What the last look at the workspace found changed since the work was shown; none before it.
    pub fn last_look(&self) -> Option<&Changes> {
        let lead = self.roles.get(self.lead)?;
        lead.proof.left.as_ref()?.as_ref().map(|(_, left)| left)
    }

    /// Files of the squad's work that are not any more as they were when it was shown.
    pub fn overwritten(&self) -> impl Iterator<Item = &String> {
        let left = self.last_look().into_iter().flat_map(|left| &left.files);
        let touched = left.filter(|path| self.works().any(|work| work.own().any(|own| own == *path)));
        // Of what git ignores only this much is seen.
        let undone = self.last_look().into_iter().flat_map(|left| &left.undone);
        touched.chain(undone.filter(|path| !self.is_told(path)))
    }

    /// True for a file that the proof of anybody's work speaks of already.
    fn is_told(&self, path: &String) -> bool {
        let told = |role: &RoleState| {
            let left = role.proof.left.iter().flatten().map(|(_, left)| left);
            let mut looks = role.proof.work.iter().chain(left);
            looks.any(|look| look.undone.contains(path) || look.files.contains(path))
        };
        self.roles.iter().filter(|role| role.kind == RoleKind::Writer).any(told)
    }

    /// What is to be looked at before the lead's answer stands: whether the work is still there, then what is left.
    pub fn next_look(&self) -> Option<Order> {
        let proof = &self.roles.get(self.lead)?.proof;
        let base = self.base.as_ref()?;
        let changed = self.last_change.is_some() || self.works().any(|work| !work.files.is_empty());
        let from = match &proof.left {
            None if changed || self.cache.may_store() => self.shown.as_ref().unwrap_or(base),
            Some(Some((_, left))) if proof.whole.is_none() && !left.files.is_empty() => base,
            _ => return None,
        };
        Some(self.look_from(from.clone()))
    }

    /// A look at what differs from a tree, and at what became of the files that were written.
    pub fn look_from(&self, from: String) -> Order {
        Order::Diff(DiffOrder { from, written: self.wrote().collect() })
    }

    /// Files that tools of the squad are known to have changed, with what each held before.
    fn wrote(&self) -> impl Iterator<Item = PathBase> {
        self.written.iter().filter_map(|(path, Wrote { before, after })| {
            let base = PathBase { path: path.clone(), sha256: before.clone() };
            (after.is_some() && after != before).then_some(base)
        })
    }

    /// A file that was there before and was changed for nothing: of all that was written, nothing is left. New files
    /// that are gone alone may have been for the time of the work.
    pub fn lost(&self) -> Option<String> {
        let is_left = self.works().any(|work| work.own().next().is_some());
        let all_undone = self.wrote().all(|base| self.undone.contains(&base.path));
        let first = self.wrote().find(|base| base.sha256.is_some())?;
        (all_undone && !is_left).then_some(first.path)
    }
}
