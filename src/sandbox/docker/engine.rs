//! The connection to a container engine: found, greeted, asked what it can; knows no container of ours.

use std::path::Path;
use std::time::Duration;

use bollard::errors::Error as EngineError;
use bollard::models::SystemInfo;
use bollard::{API_DEFAULT_VERSION, Docker};

use super::error::{DockerError, Trouble, trouble, words};

/// Seconds an engine may take to begin its answer. Making a container from a large image takes its time.
const PATIENCE: u64 = 60;
/// How long an engine may take to say who it is.
const GREETING: Duration = Duration::from_secs(10);

/// Sockets that are looked for, in this order, when no address is given. `{run}` is the user's runtime folder.
const SOCKETS: &[&str] =
    &["/var/run/docker.sock", "{run}/docker.sock", "{run}/podman/podman.sock", "/run/podman/podman.sock"];

/// A container engine that has said who it is.
#[derive(Clone, Debug)]
pub struct Engine {
    /// The client, at the version both sides speak.
    pub(super) client: Docker,
    /// Where it is.
    pub(super) address: String,
    /// What it can.
    pub(super) traits: Traits,
}

/// What an engine can and how it maps users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// Its name and version, for people.
    pub name: String,
    /// Its machine, as images name it (`amd64`).
    pub machine: String,
    /// True when a seccomp profile holds containers by default.
    pub seccomp: bool,
    /// True when it runs without root, so that root inside is the caller outside.
    pub rootless: bool,
    /// True when it maps users to others.
    pub remaps: bool,
    /// True when it is Podman.
    pub podman: bool,
    /// Limits it cannot keep, in words.
    pub unlimited: Vec<&'static str>,
}

impl Engine {
    /// Finds the engine at `address` (the value of `DOCKER_HOST`) or at the usual places, and greets it.
    pub async fn connect(address: Option<&str>, runtime_folder: Option<&str>) -> Result<Self, DockerError> {
        let address = match address.filter(|address| !address.is_empty()) {
            Some(address) => address.to_owned(),
            None => usual_address(runtime_folder),
        };
        let greeted = async {
            let client = open(&address)?;
            let client = client.negotiate_version().await?;
            let info = client.info().await?;
            let version = client.version().await?;
            Ok::<_, EngineError>((client, info, version))
        };
        let greeted =
            tokio::time::timeout(GREETING, greeted).await.unwrap_or(Err(EngineError::RequestTimeoutError));
        let (client, info, version) = greeted.map_err(|error| not_reached(&address, &error))?;
        let components = version.components.unwrap_or_default();
        let podman = components.iter().any(|component| component.name.contains("Podman"));
        let traits = Traits { podman, ..Traits::of(&info) };
        Ok(Engine { client, address, traits })
    }

    /// The client with more time for each answer, for work that takes minutes.
    pub(super) fn patient(&self) -> Docker {
        self.client.clone().with_timeout(Duration::from_secs(15 * 60))
    }

    /// Where it is, as `DOCKER_HOST` would say it.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// What it can.
    pub fn traits(&self) -> &Traits {
        &self.traits
    }

    /// An error of the client in our words, for something that was being done.
    pub(super) fn failure(&self, doing: &'static str, error: &EngineError) -> DockerError {
        let address = self.address.clone();
        match trouble(error) {
            Trouble::Connection => DockerError::Silent { address, doing, error: words(error) },
            Trouble::Permission => DockerError::Refused { address },
            Trouble::Nonsense => DockerError::NotAnEngine { address, error: words(error) },
            Trouble::Missing | Trouble::Conflict | Trouble::Invalid | Trouble::Other => {
                DockerError::Failed { doing, error: words(error) }
            }
        }
    }
}

impl Traits {
    fn of(info: &SystemInfo) -> Self {
        let options = info.security_options.clone().unwrap_or_default();
        let has = |name: &str| options.iter().any(|option| option.split(',').any(|part| part == name));
        let mut unlimited = Vec::new();
        for (limit, known) in [
            ("memory", info.memory_limit),
            ("processor time", info.cpu_cfs_quota),
            ("processes", info.pids_limit),
        ] {
            if known == Some(false) {
                unlimited.push(limit);
            }
        }
        let profile = options.iter().find(|option| option.contains("name=seccomp"));
        Traits {
            name: format!("engine {}", info.server_version.as_deref().unwrap_or("of unknown version")),
            machine: image_machine(info.architecture.as_deref().unwrap_or_default()).to_owned(),
            seccomp: profile.is_some_and(|profile| !profile.contains("profile=unconfined")),
            rootless: has("name=rootless"),
            remaps: has("name=userns"),
            podman: false,
            unlimited,
        }
    }
}

/// Images and kernels name machines differently.
fn image_machine(kernel: &str) -> &str {
    match kernel {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "armv7l" | "armv6l" => "arm",
        "i386" | "i686" => "386",
        other => other,
    }
}

fn usual_address(runtime_folder: Option<&str>) -> String {
    let candidates =
        SOCKETS.iter().filter_map(|socket| match (socket.strip_prefix("{run}"), runtime_folder) {
            (Some(rest), Some(folder)) => Some(format!("{folder}{rest}")),
            (Some(_), None) => None,
            (None, _) => Some((*socket).to_owned()),
        });
    let found = candidates.into_iter().find(|socket| Path::new(socket).exists());
    format!("unix://{}", found.as_deref().unwrap_or("/var/run/docker.sock"))
}

fn open(address: &str) -> Result<Docker, EngineError> {
    match address.split_once("://") {
        Some(("unix", _)) => Docker::connect_with_unix(address, PATIENCE, API_DEFAULT_VERSION),
        Some(("tcp" | "http", _)) => Docker::connect_with_http(address, PATIENCE, API_DEFAULT_VERSION),
        _ => Err(EngineError::UnsupportedURISchemeError { uri: address.to_owned() }),
    }
}

fn not_reached(address: &str, error: &EngineError) -> DockerError {
    let address = address.to_owned();
    if matches!(error, EngineError::UnsupportedURISchemeError { .. }) {
        return DockerError::BadAddress { address };
    }
    match trouble(error) {
        Trouble::Permission => DockerError::Refused { address },
        Trouble::Connection => DockerError::NoEngine { address, error: words(error) },
        _ => DockerError::NotAnEngine { address, error: words(error) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traits(options: &[&str]) -> Traits {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let architecture = Some("aarch64".to_owned());
        Traits::of(&SystemInfo { security_options: Some(options), architecture, ..SystemInfo::default() })
    }

    #[test]
    fn an_engine_without_seccomp_is_noticed() {
        assert!(traits(&["name=seccomp,profile=default"]).seccomp);
        assert!(traits(&["name=apparmor", "name=seccomp,profile=builtin"]).seccomp);
        assert!(!traits(&["name=apparmor"]).seccomp);
        assert!(!traits(&["name=seccomp,profile=unconfined"]).seccomp);
    }

    #[test]
    fn how_users_are_mapped_is_noticed() {
        assert!(traits(&["name=rootless"]).rootless && !traits(&["name=rootless"]).remaps);
        assert!(traits(&["name=userns"]).remaps && !traits(&[]).rootless);
        assert_eq!(traits(&[]).machine, "arm64");
    }

    #[test]
    fn a_limit_the_engine_cannot_keep_is_named() {
        let info = SystemInfo { pids_limit: Some(false), memory_limit: Some(true), ..SystemInfo::default() };
        assert_eq!(Traits::of(&info).unlimited, ["processes"]);
    }
}
