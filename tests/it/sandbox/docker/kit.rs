//! A workspace and an engine for tests of the docker sandbox; says why where there is no engine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use agon::ports::{Exec, ExecEnd, Sandbox};
use agon::sandbox::docker::{
    DockerError, DockerPlace, DockerSandbox, DockerSettings, Engine, FoundContainers, claims_of, host_name,
    list,
};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::sandbox::contract::{Heard, exec, read};

/// The image with nothing but busybox.
pub const IMAGE: &str = "agon-test";

/// The address of the tests' own engine. Without one, a test says why it is skipped, or fails where it must not be.
pub fn address() -> Option<String> {
    let address = std::env::var("AGON_TEST_DOCKER_HOST").ok();
    if address.is_none() {
        let why = "AGON_TEST_DOCKER_HOST names no engine with the image agon-test (`bash tests/run` as root starts one)";
        assert_ne!(std::env::var("AGON_TEST_DOCKER").as_deref(), Ok("required"), "{why}");
        println!("skipped: {why}");
    }
    address
}

/// An engine, and a workspace `ws` with something secret beside it.
pub struct Bench {
    folder: TempDir,
    pub engine: Engine,
}

impl Bench {
    pub async fn new() -> Option<Self> {
        let address = address()?;
        let engine = Engine::connect(Some(&address), None).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        for name in ["ws", "ws-evil"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        std::fs::write(folder.path().join("ws-evil/secret"), "secret").unwrap();
        std::fs::write(folder.path().join("secret"), "top secret").unwrap();
        Some(Bench { folder, engine })
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn root(&self) -> PathBuf {
        self.folder.path().join("ws")
    }

    pub fn secret(&self) -> PathBuf {
        self.folder.path().join("secret")
    }

    pub fn put(&self, path: &str, content: &str) {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub fn settings(&self) -> DockerSettings {
        DockerSettings {
            image: IMAGE.into(),
            memory: 256 << 20,
            milli_cpus: 2_000,
            pids: 128,
            network: "none".into(),
            mounts: Vec::new(),
            env: std::collections::BTreeMap::new(),
        }
    }

    pub fn place(&self) -> DockerPlace {
        DockerPlace {
            root: self.root(),
            session: self.session(),
            claims: claims_of(&self.folder.path().join("state")),
            secrets: Vec::new(),
            protected: agon::sandbox::ProtectedNames::default(),
            read_only: false,
            own: Vec::new(),
        }
    }

    /// A name no other test has.
    pub fn session(&self) -> String {
        self.folder.path().file_name().unwrap().to_str().unwrap().to_owned()
    }

    pub async fn open(&self) -> DockerSandbox {
        self.open_with(self.settings()).await.unwrap()
    }

    pub async fn open_with(&self, settings: DockerSettings) -> Result<DockerSandbox, DockerError> {
        DockerSandbox::open(self.engine.clone(), settings, &self.place()).await
    }

    /// A sandbox of the workspace, and what is removed after it.
    pub async fn into_sandbox(self) -> (TempDir, std::sync::Arc<dyn Sandbox>) {
        let mut settings = self.settings();
        settings.pids = 512;
        let sandbox = self.open_with(settings).await.unwrap();
        (self.folder, std::sync::Arc::new(sandbox))
    }

    /// What is removed in the end.
    pub fn into_folder(self) -> TempDir {
        self.folder
    }

    pub async fn run(&self, sandbox: &DockerSandbox, command: &str) -> ExecEnd {
        self.run_in(sandbox, exec(command)).await
    }

    pub async fn run_in(&self, sandbox: &DockerSandbox, exec: Exec) -> ExecEnd {
        read(sandbox.exec(exec, &Heard::default(), &CancellationToken::new()).await.unwrap())
    }

    /// The containers of this test, as the engine knows them.
    pub async fn containers(&self) -> Vec<FoundContainers> {
        let mut found = list(&self.engine, &self.place().claims, &host_name()).await.unwrap();
        found.retain(|container| container.session == self.session());
        found
    }

    /// Waits until this test has so many containers.
    pub async fn until_containers(&self, count: usize) {
        for _ in 0..600 {
            if self.containers().await.len() == count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        panic!("not {count} but {:?}", self.containers().await);
    }

    /// The engine's own program on the tests' engine, for what agon never does itself.
    pub fn client(&self, arguments: &[&str]) {
        let docker = if Path::new("/usr/bin/docker").exists() { "/usr/bin/docker" } else { "docker" };
        let mut command = std::process::Command::new(docker);
        command.args(["--config", "/nonexistent", "--host", self.engine.address()]).args(arguments);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
