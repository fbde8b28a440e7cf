//! What a pure world needs for the team cache: hits, misses and their kin.

use agon::protocol::effect::{CacheGetOrder, CachePutOrder};
use agon::protocol::effect::{Effect, OutcomeBody};
use agon::protocol::event::*;
use agon::protocol::need::Need;
use agon::protocol::spec::{CacheSpec, Risk};

use super::world::Dice;

/// Switches the cache on.
pub fn cache() -> Option<CacheSpec> {
    let providers = [("mock".to_owned(), "0a".repeat(32))];
    Some(CacheSpec { providers: providers.into_iter().collect(), environment: None })
}

/// A recorded run that changed these files.
pub fn hit(key: &str, paths: &[&str]) -> CacheHit {
    CacheHit {
        key: key.to_owned(),
        session: "00000000-0000-7000-8000-00000000000a".to_owned(),
        stored_at: 1_700_000_000_000_000,
        answer: r#"{"answer":"It was mended before.","claims":[],"open":[]}"#.to_owned(),
        calls: 4,
        tokens: 440,
        micro_usd: 12,
        ran_commands: false,
        flags: vec![],
        plan: Plan {
            needs: paths
                .iter()
                .map(|path| Need::Write(PathBase { path: (*path).to_owned(), sha256: None }))
                .collect(),
            cwd: String::new(),
            preview: "--- /dev/null\n+++ b/f\n+new\n".to_owned(),
            risk: Risk::Write,
            digest: "1b".repeat(32),
        },
    }
}

pub fn missed(key: &str, reason: &str) -> OutcomeBody {
    OutcomeBody::CacheMissed(CacheMissed { key: key.to_owned(), reason: reason.to_owned() })
}

pub fn print(fingerprint: &str) -> OutcomeBody {
    OutcomeBody::WorkspaceFingerprinted(WorkspaceFingerprinted {
        fingerprint: fingerprint.to_owned(),
        files: 1,
        git: None,
        ignored: None,
    })
}

fn failed(error: &str) -> OutcomeBody {
    OutcomeBody::EffectFailed(EffectFailed { status: FailStatus::Failed, error: error.to_owned() })
}

/// An empty cache that takes what it is given; none for effects that are not about it.
pub fn succeed(effect: &Effect) -> Option<OutcomeBody> {
    Some(match effect {
        Effect::Fingerprint { .. } => print("print"),
        Effect::CacheGet { order: CacheGetOrder { key }, .. } => missed(key, "absent"),
        Effect::CachePut { order: CachePutOrder { key, .. }, .. } => {
            OutcomeBody::CacheStored(CacheStored { key: key.clone(), bytes: 1000 })
        }
        Effect::Patch { .. } => {
            OutcomeBody::PatchApplied(PatchApplied { paths: vec!["f".to_owned()], removed: vec![] })
        }
        _ => return None,
    })
}

/// Whatever may come of an effect about the cache.
pub fn random(effect: &Effect, dice: &mut Dice) -> Option<OutcomeBody> {
    Some(match (effect, dice.roll(6)) {
        (Effect::Fingerprint { .. }, 0) => failed("unreadable"),
        (Effect::Fingerprint { .. }, 1) => print("another"),
        (Effect::CacheGet { order: CacheGetOrder { key }, .. }, 0 | 1) => {
            OutcomeBody::CacheHit(hit(key, &["f"]))
        }
        (Effect::CacheGet { order: CacheGetOrder { key }, .. }, 2) => OutcomeBody::CacheHit(hit(key, &[])),
        (Effect::CacheGet { order: CacheGetOrder { key }, .. }, 3) => {
            missed(key, "damaged: the record is not JSON")
        }
        (Effect::CacheGet { .. }, 4) => failed("a bug"),
        (Effect::CachePut { .. }, 0 | 1) => failed("the run is not stored: no room"),
        (Effect::Patch { .. }, 0) => OutcomeBody::PatchRefused(PatchRefused {
            path: "f".to_owned(),
            reason: "it does not hold what it held before the recorded run".to_owned(),
        }),
        (Effect::Patch { .. }, 1) => failed("no room"),
        _ => return succeed(effect),
    })
}
