//! Sources of tools: asked for their lists as a turn begins, which waits for them a moment and no longer.

use std::sync::Arc;

use crate::protocol::effect::{Order, TimerOrder, TimerPurpose, ToolsOrder};
use crate::protocol::event::{Answered, EffectFailed, FailStatus, Selected, ToolsListed};
use crate::protocol::{CallId, EventRef};

use super::Session;
use super::state::OfferedTool;

/// Milliseconds that a turn waits for lists before it begins without them. One that comes later counts from then on.
const WAITED_MS: u64 = 300;

impl Session {
    /// Asks every source what it offers now.
    pub(super) fn order_lists(&mut self) {
        let sources = self.spec.as_ref().map(|spec| spec.sources.clone()).unwrap_or_default();
        if sources.is_empty() {
            return;
        }
        for source in sources {
            let known = self.places.listed.get(&source).cloned();
            self.order(None, Order::Tools(ToolsOrder { source, known }));
        }
        self.order(None, Order::Timer(TimerOrder { ms: WAITED_MS, purpose: TimerPurpose::Loads }));
    }

    /// True while a turn that has not begun waits for a list.
    pub(super) fn waits_for_lists(&self) -> bool {
        self.loads_timer().is_some() && self.calls.values().any(|call| matches!(call.order, Order::Tools(_)))
    }

    /// Nothing is waited for any more.
    pub(super) fn stop_waiting(&mut self) {
        if let Some(timer) = self.loads_timer() {
            self.cancel(timer, "nothing waits for it any more");
        }
    }

    fn loads_timer(&self) -> Option<CallId> {
        let is_it =
            |order: &Order| matches!(order, Order::Timer(TimerOrder { purpose: TimerPurpose::Loads, .. }));
        self.calls.iter().find(|(_, call)| is_it(&call.order)).map(|(id, _)| *id)
    }

    pub(super) fn fold_listed(&mut self, at: EventRef, data: &Answered<ToolsListed>) {
        self.close(data.call);
        let ToolsListed { source, digest, tools, .. } = &data.body;
        self.places.listed.insert(source.clone(), digest.clone());
        let (Some(tools), Some(spec)) = (tools, self.spec.as_mut().map(Arc::make_mut)) else { return };
        spec.list(source, tools);
        self.places.tools.retain(|_, tool| tool.spec.source.as_ref() != Some(source));
        for (i, tool) in tools.iter().enumerate() {
            let taken = spec.tools.iter().find(|known| known.name == tool.name);
            if let Some(tool) = taken.filter(|known| known.source.as_ref() == Some(source)) {
                let place = Selected { from: at, sel: format!("/body/tools/{i}") };
                self.places.tools.insert(tool.name.clone(), OfferedTool::new(tool.clone(), place));
            }
        }
    }

    /// A source that gives no list offers nothing.
    pub(super) fn fold_unlisted(&mut self, source: &str, data: &Answered<EffectFailed>) {
        self.close(data.call);
        if data.body.status == FailStatus::Cancelled {
            return;
        }
        self.places.listed.remove(source);
        self.places.tools.retain(|_, tool| tool.spec.source.as_deref() != Some(source));
        if let Some(spec) = self.spec.as_mut().map(Arc::make_mut) {
            spec.list(source, &[]);
        }
    }
}
