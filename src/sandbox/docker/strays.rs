//! Containers of ours on an engine: found by label, told alive from dead by their claims, taken away.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bollard::models::ContainerSummary;
use bollard::query_parameters::ListContainersOptionsBuilder;

use super::claim;
use super::container::remove;
use super::engine::Engine;
use super::error::{DockerError, Trouble, trouble};
use super::plan::{CLAIM, HOST, SESSION, WORKSPACE};

/// How often a list is asked for again that cannot be read, and how long is waited before.
const LOOKS: usize = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// One container of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundContainers {
    /// The engine's number.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The session it was made for.
    pub session: String,
    /// The workspace it shows.
    pub workspace: String,
    /// Its image.
    pub image: String,
    /// Seconds since 1970 when it was made.
    pub created: u64,
    /// The engine's word for its state (`running`, `created`, `exited`…).
    pub state: String,
    /// Who needs it.
    pub owner: Owner,
}

/// Who needs a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A session of this state folder that lives.
    Alive,
    /// A session of this state folder that is dead.
    Dead,
    /// Somebody else: another user, another state folder, another machine.
    Other,
}

/// Every container of ours, the oldest first. `claims` is the folder of this state folder's claims.
pub async fn list(engine: &Engine, claims: &Path, host: &str) -> Result<Vec<FoundContainers>, DockerError> {
    let filters = HashMap::from([("label", vec![SESSION])]);
    let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
    let mut listed = engine.client.list_containers(Some(options.clone())).await;
    for _ in 0..LOOKS {
        // Podman has states that Docker has not, as long as a container is on its way out.
        if listed.as_ref().is_err_and(|error| trouble(error) == Trouble::Nonsense) {
            tokio::time::sleep(PAUSE).await;
            listed = engine.client.list_containers(Some(options.clone())).await;
        }
    }
    let listed = listed.map_err(|error| engine.failure("listing containers", &error))?;
    let mut found: Vec<FoundContainers> =
        listed.into_iter().map(|summary| found(summary, claims, host)).collect();
    found.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
    Ok(found)
}

/// Takes away what dead sessions left: their containers, their claims, the folders that were made for mounts.
/// Gives the containers.
pub async fn reap(engine: &Engine, claims: &Path, host: &str) -> Result<Vec<FoundContainers>, DockerError> {
    let mut found = list(engine, claims, host).await?;
    found.retain(|container| container.owner == Owner::Dead);
    for container in &found {
        remove(engine, &container.id).await;
    }
    for dead in claim::list(claims) {
        claim::clear(&dead);
    }
    Ok(found)
}

fn found(summary: ContainerSummary, claims: &Path, host: &str) -> FoundContainers {
    let labels = summary.labels.unwrap_or_default();
    let label = |name: &str| labels.get(name).cloned().unwrap_or_default();
    let names = summary.names.unwrap_or_default();
    FoundContainers {
        id: summary.id.unwrap_or_default(),
        name: names.first().map(|name| name.trim_start_matches('/').to_owned()).unwrap_or_default(),
        session: label(SESSION),
        workspace: label(WORKSPACE),
        image: summary.image.unwrap_or_default(),
        created: summary.created.and_then(|created| u64::try_from(created).ok()).unwrap_or_default(),
        state: summary.state.map(|state| state.to_string()).unwrap_or_default(),
        owner: owner(&PathBuf::from(label(CLAIM)), label(HOST) == host, claims),
    }
}

/// Only a claim of this machine and this state folder can be looked at; of any other nothing is known.
fn owner(claim: &Path, is_here: bool, claims: &Path) -> Owner {
    match is_here && claim.parent() == Some(claims) {
        false => Owner::Other,
        true if claim::is_held(claim) => Owner::Alive,
        true => Owner::Dead,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_claim_of_ours_that_nobody_holds_is_dead() {
        let folder = tempfile::tempdir().unwrap();
        let claim = claim::Claim::take(folder.path(), &[]).unwrap();
        let here = folder.path();
        assert_eq!(owner(claim.path(), true, here), Owner::Alive);
        assert_eq!(owner(&here.join("gone.lock"), true, here), Owner::Dead);
        assert_eq!(owner(&here.join("gone.lock"), false, here), Owner::Other);
        assert_eq!(owner(Path::new("/elsewhere/x.lock"), true, here), Owner::Other);
        assert_eq!(owner(&here.join("sub/x.lock"), true, here), Owner::Other);
        assert_eq!(owner(Path::new(""), true, here), Owner::Other);
    }
}
