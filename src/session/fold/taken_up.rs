//! The fold of a resume and of a fork: what holds from here on; decides nothing.

use std::sync::Arc;

use crate::protocol::EventRef;
use crate::protocol::event::{SessionForked, SessionResumed};
use crate::protocol::spec::Setting;
use crate::session::Session;

impl Session {
    pub(super) fn fold_resumed(&mut self, at: EventRef, data: &SessionResumed) {
        if data.foreign {
            self.grants.clear();
            self.foreign_words = true;
        }
        let root = |session: &Session| session.spec.as_ref().map(|spec| spec.workspace.root.clone());
        let before = root(self);
        self.fold_taken_up(at, &data.changed);
        if before != root(self) {
            self.former_roots.extend(before);
        }
    }

    fn fold_taken_up(&mut self, at: EventRef, changed: &[Setting]) {
        self.sealed = None;
        self.stopping = None;
        // Only a tree that nothing has changed since can tell that somebody else changed the workspace.
        let tree = self.checkpoints.tree.clone().filter(|_| self.is_recorded());
        // A resume that was itself cut off leaves its comparison open.
        self.checkpoints.compare = self.checkpoints.compare.take().or(tree);
        self.checkpoints.fresh = false;
        self.fold_settings(at, changed);
        for setting in changed {
            if let (Setting::Blueprint(blueprint), Some(squad)) = (setting, self.squad.as_mut()) {
                squad.follow(blueprint);
            }
        }
    }

    pub(super) fn fold_forked(&mut self, at: EventRef, data: &SessionForked) {
        self.id.clone_from(&data.id);
        self.forked = Some(at.seq);
        self.grants.clear();
        self.foreign_words |= data.foreign;
        if let Some(spec) = self.spec.as_mut() {
            let root = &mut Arc::make_mut(spec).workspace.root;
            self.former_roots.push(std::mem::replace(root, data.workspace.clone()));
        }
        self.fold_taken_up(at, &data.changed);
    }
}
