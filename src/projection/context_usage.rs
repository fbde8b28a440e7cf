//! How full each spark's context window is; reads events, estimates nothing.

use std::collections::BTreeMap;

use crate::protocol::spec::{ModelSpec, Setting};
use crate::protocol::{ArenaEvent, CallId, Entry, SparkId};

/// Windows, and what was last sent into them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContextUsage {
    windows: BTreeMap<String, u64>,
    /// The last call of each spark, and its model.
    called: BTreeMap<SparkId, (CallId, String)>,
    used: BTreeMap<SparkId, u64>,
}

impl ContextUsage {
    /// Drops what is known of sparks before this one.
    pub fn forget(&mut self, oldest: SparkId) {
        self.called.retain(|spark, _| *spark >= oldest);
        self.used.retain(|spark, _| *spark >= oldest);
    }

    /// Folds one entry.
    pub fn apply(&mut self, entry: &Entry) {
        for (_, event) in entry.effective() {
            self.settings(event.changed());
            match event {
                ArenaEvent::SessionOpened(data) => {
                    data.spec.models.iter().for_each(|model| self.window(model))
                }
                ArenaEvent::ModelCalled(data) => {
                    self.called.insert(data.spark, (data.call, data.model.clone()));
                }
                ArenaEvent::ModelAnswered(data) => {
                    let asked = self.called.iter().find(|(_, (call, _))| *call == data.call);
                    if let Some((spark, _)) = asked {
                        self.used.insert(*spark, data.body.usage.total());
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
        let window = *self.windows.get(&self.called.get(&spark)?.1)?;
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
