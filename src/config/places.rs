//! Where configuration and state live on this machine; creates nothing.

use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;

use crate::config::{ConfigError, Environment};

/// The folders of the user. Nothing is created by asking for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// Folder of `config.toml`, `personas/` and `AGENTS.md`.
    pub config: PathBuf,
    /// Folder of `sessions/`, `blobs/` and `trust/`.
    pub state: PathBuf,
    /// Folder of what can be made again.
    pub cache: PathBuf,
}

impl Places {
    /// Everything under `AGON_HOME` when it is set, else the XDG folders.
    pub fn find(environment: &Environment) -> Result<Self, ConfigError> {
        if let Some(home) = environment.get("AGON_HOME") {
            let home =
                std::path::absolute(home).map_err(|error| ConfigError::read(Path::new(home), error))?;
            return Ok(Places::beneath(&home));
        }
        let xdg = etcetera::base_strategy::Xdg::new().map_err(|_| ConfigError::NoHome)?;
        let state = xdg.state_dir().unwrap_or_else(|| xdg.data_dir());
        Ok(Places {
            config: xdg.config_dir().join("agon"),
            state: state.join("agon"),
            cache: xdg.cache_dir().join("agon"),
        })
    }

    /// Everything in one folder.
    pub fn beneath(home: &Path) -> Self {
        Places { config: home.to_owned(), state: home.to_owned(), cache: home.join("cache") }
    }

    /// The user's configuration file.
    pub fn config_file(&self) -> PathBuf {
        self.config.join("config.toml")
    }

    /// Rules that the user kept when asked.
    pub fn kept_rules(&self) -> PathBuf {
        self.config.join("kept-rules.toml")
    }

    /// The user's personas.
    pub fn personas(&self) -> PathBuf {
        self.config.join("personas")
    }

    /// The user's blueprints.
    pub fn blueprints(&self) -> PathBuf {
        self.config.join("blueprints")
    }

    /// The user's instruction file, the twin of the workspace's.
    pub fn instructions(&self) -> PathBuf {
        self.config.join("AGENTS.md")
    }

    /// What agon has learnt about models.
    pub fn learnt(&self) -> PathBuf {
        self.state.join("models-learnt.toml")
    }

    /// Keys that agon keeps.
    pub fn keys(&self) -> PathBuf {
        self.state.join("keys.toml")
    }

    /// Model files that run in this process.
    pub fn models(&self) -> PathBuf {
        self.state.join("models")
    }

    /// What is kept of servers: the tools that were accepted, and a folder for each.
    pub fn mcp(&self) -> PathBuf {
        self.state.join("mcp")
    }

    /// Records of trusted workspaces.
    pub fn trust(&self) -> PathBuf {
        self.state.join("trust")
    }
}

/// The project's configuration file.
pub fn project_file(workspace: &Path) -> PathBuf {
    workspace.join(".agon").join("config.toml")
}

/// The project's personas.
pub fn project_personas(workspace: &Path) -> PathBuf {
    workspace.join(".agon").join("personas")
}

/// The project's blueprints.
pub fn project_blueprints(workspace: &Path) -> PathBuf {
    workspace.join(".agon").join("blueprints")
}

/// Whether its owner cannot look into a folder. For root the permission bits count as well: without capabilities, as
/// commands run, it is closed to them.
pub(super) fn is_closed(folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let denied = |error: std::io::Error| error.kind() == std::io::ErrorKind::PermissionDenied;
    let own = rustix::process::geteuid().as_raw();
    std::fs::metadata(folder).is_ok_and(|data| data.uid() == own && data.mode() & 0o500 != 0o500)
        || std::fs::symlink_metadata(folder.join(".agon")).is_err_and(denied)
        || std::fs::read_dir(folder).is_err_and(denied)
}
