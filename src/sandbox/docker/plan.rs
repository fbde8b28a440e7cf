//! What a container of ours looks like, from settings and workspace to the engine's own terms; asks no engine.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use bollard::models::{
    ContainerCreateBody, HostConfig, Mount, MountBindOptions, MountType, ResourcesUlimits,
};

use super::engine::Traits;
use super::error::DockerError;
use crate::protocol::text::quoted;

/// Label of every container of ours: the session's id.
pub const SESSION: &str = "agon.session";
/// Label that names the file whose lock says that the container is needed.
pub const CLAIM: &str = "agon.claim";
/// Label that names the machine the file is on.
pub const HOST: &str = "agon.host";
/// Label that names the workspace.
pub const WORKSPACE: &str = "agon.workspace";

/// What is run when nobody runs anything: it lives as long as somebody holds its standard input, so that a container
/// dies with the process that made it, and it says which shell there is.
const KEEPER: &str = "command -v bash || echo sh; while read -r line; do :; done";

/// The path commands are found by where the image names none.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Settings of `[sandbox.docker]`, complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DockerSettings {
    /// The image.
    pub image: String,
    /// Bytes of memory of a container, `/tmp` included; swap is not given.
    pub memory: u64,
    /// Thousandths of a processor.
    pub milli_cpus: u64,
    /// Processes and threads at once.
    pub pids: u32,
    /// The network, as the engine names it; `none` is none.
    pub network: String,
    /// Folders and files that are shown beside the workspace.
    pub mounts: Vec<MountSettings>,
    /// Variables that commands see, with their values.
    pub env: BTreeMap<String, String>,
}

/// A folder or file that is shown to a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountSettings {
    /// Where it is on this machine.
    pub source: PathBuf,
    /// Where it is in the container.
    pub target: PathBuf,
    /// True when commands may change it.
    pub writable: bool,
}

impl MountSettings {
    /// True where somebody answers on it.
    fn is_socket(&self) -> bool {
        use std::os::unix::fs::FileTypeExt;
        std::fs::metadata(&self.source).is_ok_and(|data| data.file_type().is_socket())
    }

    /// True for a single ordinary file, in which no socket can lie.
    pub fn is_file(&self) -> bool {
        self.source.is_file()
    }
}

/// The engine's profile of system calls lets a command make such files; inside they give nothing.
const SET_USER_ID: &str =
    "a command can leave files in the workspace that run with its user's rights outside (set-user-id)";

/// What a container is made for.
#[derive(Clone, Debug)]
pub struct ContainerPlan {
    /// The settings.
    pub settings: DockerSettings,
    /// The workspace's real root.
    pub root: PathBuf,
    /// The session, for the label.
    pub session: String,
    /// The machine, for the label.
    pub host: String,
    /// Folders in the workspace that cannot be renamed, because of what lies beneath them.
    pub pinned: Vec<PathBuf>,
    /// The git folder outside that the workspace's `.git` file names.
    pub repository: Option<PathBuf>,
    /// Names in the root that are shown read-only.
    pub guarded: Vec<PathBuf>,
    /// Files of the workspace that are shown empty.
    pub masked: Vec<PathBuf>,
    /// Folders shown empty.
    pub closed: Vec<PathBuf>,
    /// Whether commands may change the workspace.
    pub writable: bool,
    /// The caller.
    pub caller: (u32, u32),
    /// How the engine maps users.
    pub traits: Traits,
}

impl ContainerPlan {
    /// The user of commands, as the engine wants it. Where the engine runs without root, root inside is the caller.
    pub fn user(&self) -> String {
        match self.traits.rootless && !self.traits.podman {
            true => "0:0".to_owned(),
            false => format!("{}:{}", self.caller.0, self.caller.1),
        }
    }

    /// The user of the process that keeps the container: never the one of commands, so that none of them can end it,
    /// and all of them can be ended without it.
    fn keeper(&self) -> &'static str {
        if self.user().starts_with("65534:") { "65533:65533" } else { "65534:65534" }
    }

    /// Variables of a command: nothing of agon's own but what the settings pass on.
    pub fn environment(&self, image_path: Option<&str>) -> Vec<String> {
        let mut all = BTreeMap::from([
            ("PATH".to_owned(), image_path.unwrap_or(PATH).to_owned()),
            ("HOME".to_owned(), "/tmp".to_owned()),
            ("TMPDIR".to_owned(), "/tmp".to_owned()),
            ("LANG".to_owned(), "C.UTF-8".to_owned()),
            ("TERM".to_owned(), "dumb".to_owned()),
        ]);
        all.extend(self.settings.env.clone());
        all.into_iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    /// The engine's order for one container.
    pub fn container(&self, claim: &Path) -> Result<ContainerCreateBody, DockerError> {
        let labels = [
            (SESSION, self.session.clone()),
            (CLAIM, text(claim)?.to_owned()),
            (HOST, self.host.clone()),
            (WORKSPACE, text(&self.root)?.to_owned()),
        ];
        Ok(ContainerCreateBody {
            image: Some(self.settings.image.clone()),
            entrypoint: Some(vec!["sh".to_owned(), "-c".to_owned(), KEEPER.to_owned()]),
            cmd: Some(Vec::new()),
            user: Some(self.keeper().to_owned()),
            working_dir: Some("/".to_owned()),
            open_stdin: Some(true),
            stdin_once: Some(true),
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            network_disabled: Some(self.settings.network == "none"),
            labels: Some(labels.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
            host_config: Some(self.host_config()?),
            ..ContainerCreateBody::default()
        })
    }

    fn host_config(&self) -> Result<HostConfig, DockerError> {
        let memory = i64::try_from(self.settings.memory).unwrap_or(i64::MAX);
        Ok(HostConfig {
            auto_remove: Some(true),
            init: Some(true),
            network_mode: Some(self.settings.network.clone()),
            cap_drop: Some(vec!["ALL".to_owned()]),
            // No profile is named, so the engine's own seccomp profile stays.
            security_opt: Some(vec!["no-new-privileges".to_owned()]),
            readonly_rootfs: Some(true),
            ipc_mode: Some("private".to_owned()),
            userns_mode: self.user_mapping(),
            memory: Some(memory),
            memory_swap: Some(memory),
            nano_cpus: i64::try_from(self.settings.milli_cpus)
                .ok()
                .map(|milli| milli.saturating_mul(1_000_000)),
            pids_limit: Some(i64::from(self.settings.pids)),
            ulimits: Some(vec![no_core_files()]),
            tmpfs: self.temporary(),
            mounts: Some(self.mounts()?),
            ..HostConfig::default()
        })
    }

    /// Files must belong to the caller outside.
    fn user_mapping(&self) -> Option<String> {
        match (self.traits.podman && self.traits.rootless, self.traits.remaps) {
            (true, _) => Some("keep-id".to_owned()),
            (_, true) => Some("host".to_owned()),
            _ => None,
        }
    }

    /// Half of the memory may be used for temporary files. A workspace that is `/tmp` itself needs none.
    fn temporary(&self) -> Option<HashMap<String, String>> {
        let size = self.settings.memory / 2;
        let options = format!("rw,exec,nosuid,nodev,mode=1777,size={size}");
        (self.root != Path::new("/tmp")).then(|| HashMap::from([("/tmp".to_owned(), options)]))
    }

    /// The workspace, what lies upon it after it, and before it its repository, in which it may lie.
    fn mounts(&self) -> Result<Vec<Mount>, DockerError> {
        let mut mounts = Vec::new();
        if let Some(repository) = &self.repository {
            mounts.push(bind(repository, repository, false)?);
        }
        mounts.push(bind(&self.root, &self.root, self.writable)?);
        for pinned in self.pinned.iter().filter(|_| self.writable) {
            mounts.push(bind(pinned, pinned, true)?);
        }
        for guarded in &self.guarded {
            mounts.push(bind(guarded, guarded, false)?);
        }
        for masked in &self.masked {
            mounts.push(bind(Path::new("/dev/null"), masked, false)?);
        }
        for closed in &self.closed {
            mounts.push(Mount {
                typ: Some(MountType::TMPFS),
                target: Some(text(closed)?.to_owned()),
                read_only: Some(true),
                ..Mount::default()
            });
        }
        for mount in &self.settings.mounts {
            mounts.push(bind(&mount.source, &mount.target, mount.writable)?);
        }
        Ok(mounts)
    }

    /// What a container of this plan does not hold back, in words.
    pub fn gaps(&self) -> Vec<String> {
        let mut gaps = Vec::new();
        if self.writable {
            gaps.push(crate::protocol::spec::SandboxSpec::NEW_INSTRUCTIONS.to_owned());
            gaps.push(SET_USER_ID.to_owned());
        }
        if self.settings.network != "none" {
            gaps.push(format!("commands can use the network `{}`", self.settings.network));
        }
        if !self.traits.seccomp {
            gaps.push(
                "the engine runs containers without seccomp, so commands can ask the kernel anything"
                    .to_owned(),
            );
        }
        for limit in &self.traits.unlimited {
            gaps.push(format!("the engine cannot limit {limit}"));
        }
        for mount in &self.settings.mounts {
            let what = if mount.writable { "read and change" } else { "read" };
            let socket =
                if mount.is_socket() { ", which is a socket: its owner does what commands ask" } else { "" };
            gaps.push(format!("commands can {what} `{}`{socket}", mount.source.display()));
        }
        for name in self.settings.env.keys() {
            gaps.push(format!("commands can read the variable `{name}`"));
        }
        gaps
    }
}

/// A core file would hold what the command had in memory, in the workspace.
fn no_core_files() -> ResourcesUlimits {
    ResourcesUlimits { name: Some("core".to_owned()), soft: Some(0), hard: Some(0) }
}

/// A bind mount. Without propagation, so that nothing that is mounted later on either side reaches the other.
fn bind(source: &Path, target: &Path, writable: bool) -> Result<Mount, DockerError> {
    let options = MountBindOptions {
        propagation: Some(bollard::models::MountBindOptionsPropagationEnum::RPRIVATE),
        ..MountBindOptions::default()
    };
    Ok(Mount {
        typ: Some(MountType::BIND),
        source: Some(text(source)?.to_owned()),
        target: Some(text(target)?.to_owned()),
        read_only: Some(!writable),
        bind_options: Some(options),
        ..Mount::default()
    })
}

/// The engine takes names as JSON, so they must be text.
pub fn text(path: &Path) -> Result<&str, DockerError> {
    path.to_str().ok_or_else(|| DockerError::BadMount {
        path: quoted(path.as_os_str().as_bytes()),
        reason: "its name is not UTF-8, and the engine takes no other: rename it, or use the sandbox `local`"
            .to_owned(),
    })
}

/// A plan for tests.
#[cfg(test)]
pub fn sample() -> ContainerPlan {
    ContainerPlan {
        settings: DockerSettings {
            image: "img".to_owned(),
            memory: 1 << 30,
            milli_cpus: 1500,
            pids: 99,
            network: "none".to_owned(),
            mounts: Vec::new(),
            env: BTreeMap::from([("GOPROXY".to_owned(), "off".to_owned())]),
        },
        root: PathBuf::from("/w/[id] +a"),
        session: "s1".to_owned(),
        host: "h".to_owned(),
        pinned: Vec::new(),
        repository: None,
        guarded: vec![PathBuf::from("/w/[id] +a/.git")],
        masked: vec![PathBuf::from("/w/[id] +a/.env")],
        closed: Vec::new(),
        writable: true,
        caller: (1000, 100),
        traits: Traits { seccomp: true, ..Traits::default() },
    }
}

#[cfg(test)]
mod tests {
    use super::sample as plan;
    use super::*;

    fn host(plan: &ContainerPlan) -> HostConfig {
        plan.container(Path::new("/state/c.lock")).unwrap().host_config.unwrap()
    }

    #[test]
    fn everything_is_taken_away_that_can_be() {
        let host = host(&plan());
        assert_eq!(host.cap_drop, Some(vec!["ALL".to_owned()]));
        assert_eq!(host.cap_add, None);
        assert_eq!(host.security_opt, Some(vec!["no-new-privileges".to_owned()]));
        assert_eq!((host.privileged, host.readonly_rootfs, host.init), (None, Some(true), Some(true)));
        assert_eq!(host.network_mode.as_deref(), Some("none"));
        assert_eq!((host.memory, host.memory_swap), (Some(1 << 30), Some(1 << 30)));
        assert_eq!((host.nano_cpus, host.pids_limit), (Some(1_500_000_000), Some(99)));
        assert_eq!((host.pid_mode, host.binds, host.devices), (None, None, None));
    }

    #[test]
    fn mounts_lie_upon_the_workspace_and_only_it_is_writable() {
        let rows = |writable| {
            let mounts = host(&ContainerPlan { writable, ..plan() }).mounts.unwrap();
            mounts
                .into_iter()
                .map(|m| (m.source.unwrap(), m.target.unwrap(), m.read_only.unwrap()))
                .collect::<Vec<_>>()
        };
        let (root, git, env) = ("/w/[id] +a", "/w/[id] +a/.git", "/w/[id] +a/.env");
        let row = |a: &str, b: &str, ro| (a.to_owned(), b.to_owned(), ro);
        assert_eq!(rows(true), [row(root, root, false), row(git, git, true), row("/dev/null", env, true)]);
        assert_eq!(rows(false)[0], row(root, root, true));
    }

    #[test]
    fn commands_are_the_caller_and_the_keeper_is_nobody_they_could_end() {
        let mut plan = plan();
        assert_eq!((plan.user().as_str(), plan.keeper()), ("1000:100", "65534:65534"));
        plan.caller = (65534, 65534);
        assert_eq!((plan.user().as_str(), plan.keeper()), ("65534:65534", "65533:65533"));
        plan.traits.rootless = true;
        assert_eq!((plan.user().as_str(), plan.user_mapping()), ("0:0", None));
        plan.traits.podman = true;
        assert_eq!((plan.user().as_str(), plan.user_mapping().as_deref()), ("65534:65534", Some("keep-id")));
        plan.traits = Traits { remaps: true, ..Traits::default() };
        assert_eq!(plan.user_mapping().as_deref(), Some("host"));
    }

    #[test]
    fn the_environment_is_ours_and_what_the_settings_pass_on() {
        let names = |path| plan().environment(path);
        assert_eq!(
            names(Some("/opt/bin")),
            ["GOPROXY=off", "HOME=/tmp", "LANG=C.UTF-8", "PATH=/opt/bin", "TERM=dumb", "TMPDIR=/tmp"]
        );
        assert!(names(None).contains(&format!("PATH={PATH}")));
    }

    #[test]
    fn what_is_left_open_is_named() {
        let mut plan = plan();
        assert_eq!(plan.gaps().len(), 3, "{:?}", plan.gaps());
        assert_eq!(
            ContainerPlan { writable: false, ..plan.clone() }.gaps(),
            ["commands can read the variable `GOPROXY`"]
        );
        plan.settings.network = "bridge".to_owned();
        plan.traits = Traits { unlimited: vec!["memory"], ..Traits::default() };
        let (source, target) = (PathBuf::from("/data"), PathBuf::from("/data"));
        plan.settings.mounts = vec![MountSettings { source, target, writable: true }];
        assert_eq!(plan.gaps().len(), 7, "{:?}", plan.gaps());
    }

    #[test]
    fn a_name_that_is_no_text_is_refused() {
        use std::os::unix::ffi::OsStrExt;
        let mut plan = plan();
        plan.root = PathBuf::from(std::ffi::OsStr::from_bytes(b"/w/\xff"));
        let error = plan.container(Path::new("/l")).unwrap_err().to_string();
        assert!(error.contains(r#"`"/w/\xff"`"#) && error.contains("not UTF-8"), "{error}");
        assert!(error.contains("rename it"), "{error}");
    }
}
