//! How full each spark's context window is, and which spark each call was for; reads events, estimates nothing.

use std::collections::BTreeMap;

use crate::protocol::spec::{ModelSpec, Setting};
use crate::protocol::{ArenaEvent, CallId, Entry, SparkId};

/// Windows, what was last sent into them, and the owners of calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gauge {
    windows: BTreeMap<String, u64>,
    called: BTreeMap<SparkId, String>,
    used: BTreeMap<SparkId, u64>,
    thinking: BTreeMap<CallId, SparkId>,
}

impl Gauge {
    /// Drops what is known of sparks before this one.
    pub fn forget(&mut self, oldest: SparkId) {
        self.called.retain(|spark, _| *spark >= oldest);
        self.used.retain(|spark, _| *spark >= oldest);
    }

    /// Folds one entry.
    pub fn apply(&mut self, entry: &Entry) {
        for (_, event) in entry.effective() {
            match event {
                ArenaEvent::SessionOpened(data) => {
                    data.spec.models.iter().for_each(|model| self.window(model))
                }
                ArenaEvent::SessionResumed(data) => self.settings(&data.changed),
                ArenaEvent::SessionForked(data) => self.settings(&data.changed),
                ArenaEvent::PromptGiven(data) => self.settings(&data.changed),
                ArenaEvent::SettingsChanged(data) => self.settings(&data.changed),
                ArenaEvent::ModelCalled(data) => {
                    self.thinking.insert(data.call, data.spark);
                    self.called.insert(data.spark, data.model.clone());
                }
                ArenaEvent::ModelAnswered(data) => {
                    if let Some(spark) = self.thinking.remove(&data.call) {
                        self.used.insert(spark, data.body.usage.total());
                    }
                }
                _ => {}
            }
        }
    }

    /// Tokens of a spark's last request and answer, and the window they share; none before the first answer or
    /// when the model's window is unknown.
    pub fn of(&self, spark: SparkId) -> Option<(u64, u64)> {
        let used = *self.used.get(&spark)?;
        let window = *self.windows.get(self.called.get(&spark)?)?;
        (window > 0).then_some((used, window))
    }

    fn settings(&mut self, changed: &[Setting]) {
        for setting in changed {
            if let Setting::Model { spec, .. } = setting {
                self.window(spec);
            }
        }
    }

    fn window(&mut self, model: &ModelSpec) {
        self.windows.insert(model.name.clone(), model.context);
    }
}
