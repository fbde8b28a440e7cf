//! How much of a result, a mention, a check's output or a diff a model is shown: what its window can hold.

use crate::protocol::SparkId;
use crate::protocol::spec::ModelSpec;
use crate::protocol::text::MOST_SHOWN;

use super::Session;
use super::context::SMALL;
use super::conversation::Item;

/// Bytes of a text that are always shown; a window too small for that is too small for the work.
const LEAST_SHOWN: u64 = 1024;

impl Session {
    /// Bytes that are shown of the result of one of a spark's calls: all results of one answer share its window.
    pub(super) fn most_shown_to(&self, id: SparkId) -> u32 {
        let Some(spark) = self.sparks.get(&id) else { return u32::MAX };
        let Some(model) = self.model_spec(&spark.model) else { return u32::MAX };
        let left = self.left_for_work(id, model).unwrap_or(model.context);
        // A third of what is left: three results are read before the first summary.
        let window = (left / 3 * 4).min(model.context);
        self.most_within(Some(&model.name), window, spark.uses.len() as u64)
    }

    /// Tokens that persona, instructions, tools and room for an answer leave of a window; of a large one nearly all.
    fn left_for_work(&self, id: SparkId, model: &ModelSpec) -> Option<u64> {
        let spark = self.sparks.get(&id).filter(|_| model.context < 4 * SMALL)?;
        let pinned = spark.transcript().into_iter().filter(Item::is_pinned).collect::<Vec<_>>();
        let bytes = self.bytes_in(&pinned) + self.tool_bytes(spark);
        let answer = self.output_limit(id, model).min(model.context / 4);
        let fixed = self.ledger.estimate(&model.name, bytes, pinned.len() as u64) + answer;
        Some(model.context.saturating_sub(fixed))
    }

    /// The same of one of several texts that any of the session's models may be shown.
    pub(super) fn most_shown(&self, texts: u64) -> u32 {
        let models = self.spec.iter().flat_map(|spec| &spec.models);
        let window = models.map(|model| model.context).min().unwrap_or(u64::MAX);
        self.most_within(None, window, texts).min(MOST_SHOWN as u32)
    }

    /// One text may fill a quarter of a window, and all texts of a step one half.
    fn most_within(&self, model: Option<&str>, window: u64, texts: u64) -> u32 {
        let tokens = (window / 4).min(window / 2 / texts.max(1));
        let bytes = self.ledger.bytes_of(model, tokens).max(LEAST_SHOWN);
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }

    /// How many texts the open turn begins with.
    pub(super) fn mentions(&self) -> u64 {
        self.turn.as_ref().map_or(1, |turn| turn.said.len() as u64 + 1)
    }
}
