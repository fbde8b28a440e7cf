//! Changed settings as lines of the story, and lines that were taken back; changes none.

use ratatui::text::{Line, Span};

use crate::projection::phrases;
use crate::projection::transcript::Item;
use crate::protocol::event::ArenaEvent;
use crate::protocol::spec::Setting;
use crate::protocol::text::names_shown;

use super::block::Page;
use crate::tui::text::clean_line;
use crate::tui::theme::Tone;

impl Page<'_> {
    /// A line that was taken back.
    pub(super) fn struck(&self, line: Line<'static>) -> Line<'static> {
        let style = self.scene.style(Tone::Struck).patch(self.scene.style(Tone::Quiet));
        line.into_iter().map(|span| Span::styled(span.content, style)).collect()
    }

    /// What an item's event changes, a line each.
    pub(super) fn settings(&self, item: &Item) -> Vec<Line<'static>> {
        let changed = match self.scene.event(item.source) {
            Some(ArenaEvent::SettingsChanged(data)) => &data.changed,
            Some(ArenaEvent::PromptGiven(data)) => &data.changed,
            Some(ArenaEvent::SessionResumed(data)) => &data.changed,
            Some(ArenaEvent::SessionForked(data)) => &data.changed,
            _ => return Vec::new(),
        };
        let told = changed.iter().filter_map(told);
        told.flat_map(|(tone, text)| self.wrapped(tone, "⚙ ", &clean_line(&text))).collect()
    }
}

/// A setting in words; none for what only stands ready to be used.
fn told(setting: &Setting) -> Option<(Tone, String)> {
    let quiet = |text: String| Some((Tone::Quiet, text));
    match setting {
        Setting::Model { spec, default: true } => quiet(format!("model {}", spec.name)),
        Setting::Persona { spec, default: true } => quiet(format!("persona {}", spec.id)),
        Setting::Model { .. } | Setting::Persona { .. } => None,
        Setting::Policy(policy) => {
            quiet(format!("policy of {}", phrases::counted(policy.rules.len() as u64, "rule")))
        }
        Setting::Limits(all) => quiet(format!("limits: {}", phrases::limits(all))),
        Setting::Retry(retry) => quiet(format!("up to {} attempts a model call", retry.attempts)),
        Setting::Blueprint(blueprint) => quiet(format!("blueprint {}", blueprint.name)),
        Setting::Workspace(workspace) => match workspace.sandbox.kind.as_str() {
            "none" => Some((Tone::Bad, format!("tools UNCONFINED in {}", workspace.root))),
            kind => quiet(format!("sandbox {kind} in {}", workspace.root)),
        },
        Setting::Cache(cache) => {
            quiet(if cache.is_some() { "team cache on" } else { "team cache off" }.to_owned())
        }
        Setting::RoleModel { role, model } => quiet(format!("{role} works with {model}")),
        Setting::Offered(offered) => quiet(phrases::offered(offered.as_deref())),
        Setting::Sources(sources) => quiet(format!("tool sources: {}", names_shown(sources))),
        Setting::Effort(effort) => quiet(phrases::effort(*effort)),
        Setting::Gates(gates) => quiet(format!("gates {}", names_shown(gates))),
        Setting::Unknown(_) => quiet(phrases::NEWER.to_owned()),
    }
}
