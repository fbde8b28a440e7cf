//! The kind `docker` as an arena and the command line see it: made from the configuration.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::assembly::WireError;
use crate::assembly::confine::{Wanted, own_folders, protected, secrets};
use crate::config::{Config, DockerTable, KeyPath, Source};
use crate::host_files::real;
use crate::ports::Sandbox;
use crate::sandbox::docker::{
    self, DockerError, DockerPlace, DockerSandbox, DockerSettings, Engine, ImageFacts, MountSettings,
};
pub use crate::sandbox::docker::{DEFAULT_IMAGE, DOCKERFILE, FoundContainers, Owner, Progress};

/// The engine of a configuration with agon's containers and its image.
pub struct Containers {
    engine: Engine,
    settings: DockerSettings,
    claims: PathBuf,
}

impl Containers {
    /// Connects to the engine that `DOCKER_HOST` names, or the one at the usual place.
    pub async fn connect(config: &Config) -> Result<Self, WireError> {
        let settings = settings(config)?;
        let environment = config.environment();
        let engine =
            Engine::connect(environment.get("DOCKER_HOST"), environment.get("XDG_RUNTIME_DIR")).await?;
        Ok(Containers { engine, settings, claims: docker::claims_of(&config.places().state) })
    }

    /// The engine in words: what it is and where.
    pub fn engine(&self) -> String {
        format!("{} at {}", self.engine.traits().name, self.engine.address())
    }

    /// The configured image.
    pub fn image(&self) -> &str {
        &self.settings.image
    }

    /// True when the configured image is one that only `build` makes.
    pub fn is_own_image(&self) -> bool {
        self.settings.image == docker::DEFAULT_IMAGE
    }

    /// The configured image with its content's number, or why it cannot serve.
    pub async fn look(&self) -> Result<String, WireError> {
        Ok(ImageFacts::look(&self.engine, &self.settings.image).await?.label())
    }

    /// Every container of agon's on the engine, the oldest first.
    pub async fn list(&self) -> Result<Vec<FoundContainers>, WireError> {
        Ok(docker::list(&self.engine, &self.claims, &docker::host_name()).await?)
    }

    /// Removes those whose session is dead; gives them.
    pub async fn reap(&self) -> Result<Vec<FoundContainers>, WireError> {
        Ok(docker::reap(&self.engine, &self.claims, &docker::host_name()).await?)
    }

    /// Fetches an image; gives it with its content's number.
    pub async fn pull(
        &self,
        image: &str,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<String, WireError> {
        Ok(docker::pull(&self.engine, image, progress).await?.label())
    }

    /// Makes an image from a Dockerfile, or from agon's own; gives it with its content's number.
    pub async fn build(
        &self,
        image: &str,
        dockerfile: Option<&str>,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<String, WireError> {
        Ok(docker::build(&self.engine, image, dockerfile.unwrap_or(DOCKERFILE), progress).await?.label())
    }
}

/// The sandbox of one session.
pub(super) async fn open(config: &Config, wanted: Wanted<'_>) -> Result<Arc<dyn Sandbox>, WireError> {
    let Containers { engine, settings, claims } = Containers::connect(config).await?;
    for mount in &settings.mounts {
        keeps_apart(config, &engine, mount)?;
        keeps_covers(&[wanted.root, config.workspace()], mount)?;
    }
    let secrets = secrets(config.policy(), wanted.rules);
    let (root, session) = (wanted.root.to_owned(), wanted.session.to_owned());
    let own = own_folders(config);
    let (read_only, protected) = (wanted.read_only, protected(config));
    let place = DockerPlace { root, session, claims, secrets, protected, read_only, own };
    Ok(Arc::new(DockerSandbox::open(engine, settings, &place).await?))
}

/// What hands the machine over, to whoever may read it or ask it.
const MACHINE: [&str; 9] = [
    "/proc",
    "/sys",
    "/dev",
    "/etc",
    "/run",
    "/run/docker.sock",
    "/run/containerd",
    "/run/podman",
    "/var/lib/docker",
];

/// What a container needs as it is.
const NEEDED: [&str; 3] = ["/proc", "/dev", "/sys"];

/// Refuses a mount that shows files of the workspace without what lies upon them, or that lies upon it itself.
fn keeps_covers(workspaces: &[&Path], mount: &MountSettings) -> Result<(), DockerError> {
    let touches = |one: &Path, other: &Path| one.starts_with(other) || other.starts_with(one);
    let source = real(&mount.source);
    let target = mount.target.as_path();
    if workspaces.iter().any(|workspace| touches(&real(workspace), &source)) {
        return refused(
            &mount.source,
            "it is in the workspace or holds it, so that its `.git` and its secrets would be open to commands",
        );
    }
    let needed = NEEDED.map(Path::new);
    match workspaces.iter().map(|workspace| real(workspace)).find(|workspace| touches(workspace, target)) {
        Some(workspace) => {
            let reason =
                format!("its target would hide the workspace `{}` or a part of it", workspace.display());
            refused(target, &reason)
        }
        None if needed.iter().any(|needed| touches(needed, target)) => {
            refused(target, "a container needs what is there as it is")
        }
        None => Ok(()),
    }
}

fn refused(path: &Path, reason: &str) -> Result<(), DockerError> {
    let path = path.display().to_string();
    Err(DockerError::BadMount { path, reason: format!("{reason}; {}", docker::MOUNTS_KEY) })
}

/// Refuses a mount that shows agon's own files, or what whoever has it is as good as root by.
fn keeps_apart(config: &Config, engine: &Engine, mount: &MountSettings) -> Result<(), DockerError> {
    let source = real(&mount.source);
    let refused = |reason: &str| refused(&mount.source, reason);
    let socket = engine.address().strip_prefix("unix://").map(|socket| real(Path::new(socket)));
    if socket.is_some_and(|socket| socket.starts_with(&source)) {
        return refused("it holds the engine's own socket, and access to that equals root");
    }
    // What lies in them may be wanted (`/run/postgresql`, `/etc/ssl/certs`), but for what is the kernel's own.
    let holds = |machine: &&&str| {
        Path::new(machine).starts_with(&source)
            || (source.starts_with(machine) && !["/etc", "/run"].contains(machine))
    };
    if let Some(machine) = MACHINE.iter().find(holds) {
        return refused(&format!("with `{machine}` it hands the machine over to commands"));
    }
    let own: Vec<PathBuf> = own_folders(config).iter().map(|own| real(own)).collect();
    match own.iter().find(|own| own.starts_with(&source) || source.starts_with(own)) {
        Some(own) => refused(&format!("agon's own files (`{}`) would be open to commands", own.display())),
        None => Ok(()),
    }
}

/// True when somebody has named an image, and not only the default stands.
pub(super) fn names_an_image(config: &Config) -> bool {
    let leaf = config.layer().0.get(&KeyPath::of(&["sandbox", "docker", "image"]));
    leaf.is_some_and(|leaf| leaf.sources.iter().any(|source| *source != Source::Default))
}

fn settings(config: &Config) -> Result<DockerSettings, WireError> {
    let (table, defaults) = (config.docker()?, DockerTable::defaults());
    let missing = || WireError::Internal("a default of `[sandbox.docker]` is missing".to_owned());
    let env: BTreeMap<String, String> = table
        .env
        .iter()
        .filter_map(|name| config.environment().get(&name.0).map(|value| (name.0.clone(), value.to_owned())))
        .collect();
    let mounts = table.mounts.into_iter().map(|mount| MountSettings {
        target: mount.target.unwrap_or_else(|| mount.source.clone()).0,
        source: mount.source.0,
        writable: mount.writable,
    });
    Ok(DockerSettings {
        image: table.image.or(defaults.image).ok_or_else(missing)?,
        memory: table.memory.or(defaults.memory).ok_or_else(missing)?.0,
        milli_cpus: table.cpus.or(defaults.cpus).ok_or_else(missing)?.0,
        pids: table.pids.or(defaults.pids).ok_or_else(missing)?,
        network: table.network.or(defaults.network).ok_or_else(missing)?,
        mounts: mounts.collect(),
        env,
    })
}

/// True when the only trouble is that the image is not there.
pub fn lacks_image(error: &WireError) -> bool {
    matches!(error, WireError::Docker(DockerError::NoImage { .. }))
}
