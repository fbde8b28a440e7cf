//! A place of its own for each run of the real program: own folders, empty environment, no terminal.

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A temporary home and workspace, and the variables the program is given.
pub struct Env {
    folder: tempfile::TempDir,
    variables: Vec<(String, String)>,
}

/// What a run of the program left behind. Its text is the snapshot.
#[derive(Debug, PartialEq, Eq)]
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exit {}\n--- stdout\n{}--- stderr\n{}", self.code, self.stdout, self.stderr)
    }
}

impl Env {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["home", "work", "tmp"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        Env { folder, variables: Vec::new() }
    }

    /// The user's folder: `AGON_HOME`.
    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// The workspace, and the folder the program is started in.
    pub fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Where the program puts what is temporary: `TMPDIR`.
    pub fn temporary(&self) -> PathBuf {
        self.folder.path().join("tmp")
    }

    /// Sets a variable for every later run.
    pub fn set(&mut self, name: &str, value: &str) -> &mut Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// What was set so.
    pub fn variables(&self) -> &[(String, String)] {
        &self.variables
    }

    /// Writes the user's configuration.
    pub fn config(&self, text: &str) -> &Self {
        self.write("home/config.toml", text)
    }

    /// Writes the project's configuration.
    pub fn project(&self, text: &str) -> &Self {
        self.write("work/.agon/config.toml", text)
    }

    /// Writes a file under the temporary folder, with the folders above it.
    pub fn write(&self, path: &str, text: &str) -> &Self {
        let path = self.folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    /// The program, ready to be started in the workspace with nothing of the real environment but the path.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agon"));
        command.args(arguments).current_dir(self.work()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.home()).env("AGON_HOME", self.home());
        command.env("TMPDIR", self.temporary()).env("AGON_LOCAL_SERVERS", "none");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the program to its end.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with(arguments, b"")
    }

    /// Runs the program with something on standard input.
    pub fn run_with(&self, arguments: &[&str], input: &[u8]) -> Ran {
        let mut child = self.command(arguments).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_owned();
        // A program that does not read all of its input closes the pipe; that is its right.
        let feeder = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().unwrap();
        feeder.join().unwrap();
        self.ran(&output)
    }

    /// Runs the program, which must end by itself within a minute.
    pub fn ends(&self, arguments: &[&str]) -> Ran {
        let mut child = self.command(arguments).spawn().unwrap();
        let patience = Instant::now() + Duration::from_secs(60);
        while child.try_wait().unwrap().is_none() {
            if Instant::now() > patience {
                child.kill().unwrap();
                panic!("{arguments:?} hangs: {:?}", child.wait_with_output());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.ran(&child.wait_with_output().unwrap())
    }

    fn ran(&self, output: &Output) -> Ran {
        Ran {
            code: output.status.code().unwrap_or(-1),
            stdout: self.scrub(&output.stdout),
            stderr: self.scrub(&output.stderr),
        }
    }

    /// Text with the temporary folders replaced by `[HOME]` and `[WORK]`.
    pub fn scrub(&self, bytes: &[u8]) -> String {
        let mut text = String::from_utf8(bytes.to_owned()).unwrap();
        for (path, name) in [(self.home(), "[HOME]"), (self.work(), "[WORK]")] {
            for path in [path.canonicalize().unwrap(), path] {
                text = text.replace(&path.display().to_string(), name);
            }
        }
        text
    }
}

/// True when permission bits do not stop this process, so that tests of them prove nothing.
pub fn is_root(folder: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let probe = folder.join("probe");
    std::fs::create_dir(&probe).unwrap();
    std::fs::set_permissions(&probe, std::fs::Permissions::from_mode(0o500)).unwrap();
    std::fs::write(probe.join("file"), "").is_ok()
}
