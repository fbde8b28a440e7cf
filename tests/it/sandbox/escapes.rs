//! The forbidden acts, tried in a sandbox that has to refuse every one: one suite, run unchanged for each kind.

use std::path::Path;
use std::sync::Arc;

use agon::ports::Sandbox;
use agon::sandbox::proof::{self, Stage, Verdict};

/// Held while the table is tried: a sandbox that lets a command change the machine's devices changes them for all.
pub static TABLE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Tries the whole table and panics with every act that succeeded. `may_lack` names acts that cannot be tried
/// where a program is missing inside; every other has to be tried.
pub async fn every_forbidden_act_is_refused(
    base: &Path,
    may_lack: &[&str],
    open: impl AsyncFnOnce(&Path) -> Arc<dyn Sandbox>,
) {
    let _alone = TABLE.lock().await;
    let stage = Stage::set(base).unwrap();
    let sandbox = open(&stage.workspace()).await;
    let proofs = proof::prove(&stage, &*sandbox).await;
    sandbox.close().await;
    let holes: Vec<_> = proofs
        .iter()
        .filter(|proof| match &proof.verdict {
            Verdict::Refused | Verdict::Opened => false,
            Verdict::Succeeded(_) => true,
            Verdict::NotTried(_) | Verdict::Unavailable(_) => !may_lack.contains(&proof.id),
        })
        .collect();
    assert!(holes.is_empty(), "{holes:#?}");
}
