//! What the team cache did for a squad's turn, in words for its last summary; decides nothing.

use super::phrases;
use crate::protocol::effect::Order;
use crate::protocol::event::{CacheHit, CacheStep};
use crate::protocol::{ArenaEvent, CallId, Entry, EventRef};

const UNUSED: &str = "a recorded run was not used";

/// The team cache in the last prompt's turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheSheet {
    /// The run that was found, and where it stands.
    hit: Option<(EventRef, Saved)>,
    /// The call that stores the run.
    put: Option<CallId>,
    notes: Vec<String>,
}

/// What a run that was found stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Saved {
    session: String,
    stored_at: u64,
    calls: u32,
    tokens: u64,
    micro_usd: u64,
}

impl CacheSheet {
    /// Folds one entry.
    pub fn apply(&mut self, entry: &Entry) {
        for (at, event) in entry.effective() {
            self.apply_event(at, event);
        }
    }

    fn apply_event(&mut self, at: EventRef, event: &ArenaEvent) {
        use ArenaEvent as E;
        match event {
            E::PromptGiven(_) => *self = CacheSheet::default(),
            E::EffectOrdered(data) if matches!(data.effect, Order::CachePut(_)) => {
                self.put = Some(data.call);
            }
            E::CacheHit(data) => self.hit = Some((at, Saved::by(&data.body))),
            // That nothing is there yet is no news.
            E::CacheMissed(data) => self.notes.extend(phrases::cache_miss(&data.body.reason)),
            E::CacheSkipped(data) => match data.step {
                CacheStep::Lookup => self.notes.push(format!("not asked: {}", data.reason)),
                CacheStep::Use => self.notes.push(format!("{UNUSED}: {}", data.reason)),
                CacheStep::Store => self.not_stored(&data.reason),
                CacheStep::Unknown(_) => {}
            },
            E::PatchRefused(data) => {
                let (path, reason) = (&data.body.path, &data.body.reason);
                self.notes.push(match path.is_empty() {
                    true => format!("{UNUSED}: {reason}"),
                    false => format!("a recorded run no longer fits: {path}: {reason}"),
                });
            }
            E::EffectFailed(data) if self.put == Some(data.call) => self.not_stored(&data.body.error),
            E::CacheStored(data) => {
                self.notes.push(format!("stored, {}", phrases::counted(data.body.bytes, "byte")));
            }
            E::TurnClosed(data) => {
                if let Some((hit, saved)) = &self.hit
                    && data.answer == Some(*hit)
                {
                    self.notes.push(saved.words());
                }
            }
            _ => {}
        }
    }

    /// What hindered the lookup or the use of a run as well is said once.
    fn not_stored(&mut self, reason: &str) {
        let reason = reason.strip_prefix("the run is not stored: ").unwrap_or(reason);
        let both = [
            (format!("no recorded run: unusable: {reason}"), "neither looked up nor stored".to_owned()),
            (format!("{UNUSED}: {reason}"), format!("{UNUSED} and this one is not stored")),
        ];
        let found = self
            .notes
            .iter_mut()
            .find_map(|note| both.iter().find(|(known, _)| known == note).map(|(_, words)| (note, words)));
        match found {
            Some((note, words)) => *note = format!("{words}: {reason}"),
            None => self.notes.push(format!("not stored: {reason}")),
        }
    }

    /// What there is to say; none when the cache had no part in it.
    pub fn words(&self) -> Option<String> {
        (!self.notes.is_empty()).then(|| self.notes.join("; "))
    }
}

impl Saved {
    fn by(hit: &CacheHit) -> Self {
        let CacheHit { session, stored_at, calls, tokens, micro_usd, .. } = hit;
        let (session, stored_at) = (session.clone(), *stored_at);
        Saved { session, stored_at, calls: *calls, tokens: *tokens, micro_usd: *micro_usd }
    }

    fn words(&self) -> String {
        format!(
            "the recorded run of session {} of {} {} UTC; saved {}, {}, {}",
            self.session,
            phrases::day(self.stored_at),
            phrases::time_of_day(self.stored_at),
            phrases::counted(u64::from(self.calls), "model call"),
            phrases::counted(self.tokens, "token"),
            phrases::money(self.micro_usd),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::effect::CachePutOrder;
    use crate::protocol::event::{
        Answered, CacheMissed, CacheSkipped, EffectFailed, EffectOrdered, FailStatus,
    };

    fn sheet(events: Vec<ArenaEvent>) -> Option<String> {
        let mut sheet = CacheSheet::default();
        for (i, event) in (0..).zip(&events) {
            sheet.apply_event(EventRef::fact(i), event);
        }
        sheet.words()
    }

    #[test]
    fn a_reason_not_to_store_and_a_failed_put_are_told() {
        let reason = "it was steered".to_owned();
        let skipped = ArenaEvent::CacheSkipped(CacheSkipped { step: CacheStep::Store, reason });
        assert_eq!(sheet(vec![skipped]).unwrap(), "not stored: it was steered");
        let effect = Order::CachePut(CachePutOrder {
            key: "k".into(),
            before: "t".into(),
            after: "u".into(),
            git: None,
            answer: EventRef::fact(1),
        });
        let put = EffectOrdered { call: CallId(7), attempt: 1, spark: None, effect };
        let error = "the run is not stored: no room".to_owned();
        let failed = |call| {
            let body = EffectFailed { status: FailStatus::Failed, error: error.clone() };
            ArenaEvent::EffectFailed(Answered { call: CallId(call), attempt: 1, body })
        };
        let put = ArenaEvent::EffectOrdered(put);
        assert_eq!(sheet(vec![put.clone(), failed(3), failed(7)]).unwrap(), "not stored: no room");
        assert_eq!(sheet(vec![put.clone()]), None);
        let missed = |reason: &str| {
            let body = CacheMissed { key: "k".into(), reason: reason.to_owned() };
            ArenaEvent::CacheMissed(Answered { call: CallId(2), attempt: 1, body })
        };
        let both = sheet(vec![missed("unusable: no room"), put.clone(), failed(7)]);
        assert_eq!(both.unwrap(), "neither looked up nor stored: no room");
        let differ = sheet(vec![missed("expired"), put, failed(7)]);
        assert_eq!(differ.unwrap(), "the recorded run was too old; not stored: no room");
        let again = sheet(vec![missed("refreshed")]).unwrap();
        assert_eq!(again, "no recorded run was looked for, as `--refresh` or `[cache] refresh` asks");
        assert_eq!(sheet(vec![missed("absent")]), None, "that nothing is there yet is no news");
    }
}
