//! Which models answered in place of those that were asked.

use std::collections::{BTreeMap, BTreeSet};

use super::phrases;
use crate::protocol::event::ErrorKind;
use crate::protocol::text::grouped;
use crate::protocol::{ArenaEvent, CallId};

/// The models asked in open calls, those that answered for another, and those that wrote more than they were allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answering {
    /// With the output limit each was sent.
    asked: BTreeMap<CallId, (String, u64)>,
    /// By model, the answer that went past its limit most.
    wordy: BTreeMap<String, (u64, u64)>,
    /// Asked, and the last other model that answered.
    others: BTreeMap<String, String>,
    /// Given up, what took over, and why.
    fallbacks: BTreeSet<String>,
    failed: Option<ErrorKind>,
}

impl Answering {
    /// Folds one event; gives what there is to say of an answer, the first time another model gives one.
    pub fn apply(&mut self, event: &ArenaEvent) -> Option<String> {
        match event {
            ArenaEvent::ModelCalled(data) => {
                let most = data.params.max_output.unwrap_or(u64::MAX);
                self.asked.insert(data.call, (data.model.clone(), most));
            }
            ArenaEvent::ModelFailed(data) => {
                self.asked.remove(&data.call);
                self.failed = Some(data.body.kind);
            }
            // What says so as it happens is the event's own telling.
            ArenaEvent::FallbackTaken(data) => {
                let why = self.failed.map(phrases::error_kind).unwrap_or_default();
                self.fallbacks.insert(format!("{} took over from {}: {why}", data.to, data.from));
            }
            ArenaEvent::ModelAnswered(data) => {
                let (asked, most) = self.asked.remove(&data.call)?;
                let wrote = data.body.usage.output;
                // Servers count a few tokens otherwise.
                if wrote > most.saturating_add(most / 8) {
                    let row = self.wordy.entry(asked.clone()).or_insert((wrote, most));
                    *row = (*row).max((wrote, most));
                }
                if is_same(&asked, &data.body.model) || self.others.get(&asked) == Some(&data.body.model) {
                    return None;
                }
                let said = words(&asked, &data.body.model);
                self.others.insert(asked, data.body.model.clone());
                return Some(said);
            }
            _ => {}
        }
        None
    }

    /// A line for each model that another one answered for or took over from, or that took no notice of its limit.
    pub fn lines(&self) -> Vec<String> {
        let others = self.others.iter().map(|(asked, answered)| words(asked, answered));
        let wordy = self.wordy.iter().map(|(model, (wrote, most))| {
            format!("{model} wrote {} tokens where {} were allowed", grouped(*wrote), grouped(*most))
        });
        others.chain(self.fallbacks.iter().cloned()).chain(wordy).collect()
    }
}

fn words(asked: &str, answered: &str) -> String {
    format!("{asked} was asked, {answered} answered")
}

/// True for the model that was asked, by its last name: also with a date, a file's ending or a tag behind it.
fn is_same(asked: &str, answered: &str) -> bool {
    let last = |name: &str| {
        let name = name.rsplit(['/', '\\']).next().unwrap_or(name).to_lowercase();
        name.strip_suffix(".gguf").map(str::to_owned).unwrap_or(name)
    };
    let (asked, answered) = (last(asked), last(answered));
    let is_version = |rest: &str| {
        let rest = rest.trim_start_matches(['-', ':', '@']);
        rest.is_empty() || rest == "latest" || rest.chars().all(|c| c.is_ascii_digit() || c == '-')
    };
    let is_more = |long: &str, short: &str| long.strip_prefix(short).is_some_and(is_version);
    answered.is_empty() || is_more(&answered, &asked) || is_more(&asked, &answered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_behind_the_name_is_the_same_model_and_another_size_is_not() {
        for (asked, answered) in [
            ("openai/gpt-5", "gpt-5-2025-08-07"),
            ("openrouter/openai/gpt-5", "openai/gpt-5"),
            ("ollama/qwen3", "qwen3:latest"),
            ("llama/qwen3-8b", "/models/Qwen3-8B.gguf"),
            ("mistral/mistral-large-latest", "mistral-large"),
            ("x/y", ""),
        ] {
            assert!(is_same(asked, answered), "{asked} {answered}");
        }
        for (asked, answered) in
            [("openai/gpt-5", "gpt-5-mini"), ("mock/any", "gpt-other"), ("o/gpt-5", "gpt-5.1")]
        {
            assert!(!is_same(asked, answered), "{asked} {answered}");
        }
    }
}
