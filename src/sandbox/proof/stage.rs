//! The scene of a proof: a workspace of its own, things outside that are worth stealing, and ears that hear
//! who calls; knows no act.

use std::fs;
use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// A workspace with something secret beside it, in the user's home and its tools' folders, in a neighbour process and
/// on the loopback, and sockets in folders of the system.
///
/// Everything is removed, closed and ended when it is dropped.
pub struct Stage {
    folder: TempDir,
    /// A file in the user's home; none where that cannot be written.
    home: Option<tempfile::NamedTempFile>,
    token: String,
    tcp: TcpListener,
    udp: UdpSocket,
    unix: UnixListener,
    shown: Shown,
    /// When the machine's `/dev/full` was last changed.
    device: Option<(i64, i64)>,
    neighbour: Child,
}

/// What was put into folders of the machine that a sandbox may show. It goes with this value.
#[derive(Default)]
struct Shown {
    sockets: Vec<(PathBuf, UnixListener)>,
    credentials: Vec<PathBuf>,
}

impl Shown {
    /// In every such folder that can be written.
    fn put(token: &str) -> Self {
        let mut shown = Shown::default();
        let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        let (tools, packages) = home.as_deref().map(tool_folders).unwrap_or_default();
        let name = format!(".agon-proof-{}", uuid::Uuid::now_v7().simple());
        let system = ["/etc", "/opt", "/usr/local"].map(PathBuf::from);
        for folder in system.iter().chain(&tools).chain(&packages) {
            let (made, place) = (folder.join(&name[1..]), folder.join(&name));
            if let Ok(socket) = UnixListener::bind(&made) {
                // The machine's table of sockets goes on naming the first. Folders of packages may have been searched
                // before, for another session.
                let is_searched = !packages.contains(folder);
                let is_moved = is_searched && fs::rename(&made, &place).is_ok();
                let place = if is_moved { place } else { made };
                // Whoever may use the folder may use the socket.
                let _ = fs::set_permissions(&place, fs::Permissions::from_mode(0o666));
                let _ = socket.set_nonblocking(true);
                shown.sockets.push((place, socket));
            }
        }
        for folder in tools {
            let place = folder.join(format!("credentials.toml.{}", &name[1..]));
            if fs::write(&place, format!("{token} of {}\n", folder.display())).is_ok() {
                shown.credentials.push(place);
            }
        }
        shown
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        for place in self.sockets.iter().map(|(place, _)| place).chain(&self.credentials) {
            // A folder that cannot be written any more keeps it.
            let _ = fs::remove_file(place);
        }
    }
}

#[cfg(target_os = "linux")]
fn tool_folders(home: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    crate::sandbox::local::tool_folders_of(home)
}

#[cfg(not(target_os = "linux"))]
fn tool_folders(_: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    (Vec::new(), Vec::new())
}

fn device() -> Option<(i64, i64)> {
    fs::metadata("/dev/full").ok().map(|data| (data.ctime(), data.ctime_nsec()))
}

impl Stage {
    /// Sets the scene in a new folder beneath `base`.
    pub fn set(base: &Path) -> std::io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("agon-proof-").tempdir_in(base)?;
        let root = fs::canonicalize(folder.path())?;
        let token = format!("agon-{}", uuid::Uuid::now_v7().simple());
        for name in
            ["work/.git/hooks", "work/.git/objects", "work/.git/refs", "work/.agon", "work/src", "outside"]
        {
            fs::create_dir_all(root.join(name))?;
        }
        for (name, text) in [
            ("work/.git/HEAD", "ref: refs/heads/main\n"),
            ("work/.git/config", "[core]\n\tbare = false\n"),
            ("work/.agon/config.toml", "# of the proof\n"),
            ("work/AGENTS.md", "Be kind.\n"),
            ("work/src/main.c", "int main(void) { return 0; }\n"),
            ("work/.env", &token),
            ("outside/secret", &token),
        ] {
            fs::write(root.join(name), text)?;
        }
        let home = std::env::var_os("HOME").and_then(|home| {
            let mut file = tempfile::Builder::new().prefix(".agon-proof-").tempfile_in(home).ok()?;
            std::io::Write::write_all(&mut file, token.as_bytes()).ok()?;
            Some(file)
        });
        let (tcp, udp) = (TcpListener::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
        let unix = UnixListener::bind(root.join("outside/socket"))?;
        tcp.set_nonblocking(true)?;
        udp.set_nonblocking(true)?;
        unix.set_nonblocking(true)?;
        let (shown, device) = (Shown::put(&token), device());
        let neighbour = Command::new("sleep")
            .arg("600")
            .env("AGON_PROOF", &token)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Stage { folder, home, token, tcp, udp, unix, shown, device, neighbour })
    }

    /// The workspace to open the sandbox with.
    pub fn workspace(&self) -> PathBuf {
        self.root().join("work")
    }

    /// A folder that is none of the sandbox's business, with `secret` and `socket` in it.
    pub fn outside(&self) -> PathBuf {
        self.root().join("outside")
    }

    /// What stands in everything secret.
    pub fn token(&self) -> &str {
        &self.token
    }

    pub(super) fn home(&self) -> Option<&Path> {
        self.home.as_ref().map(tempfile::NamedTempFile::path)
    }

    pub(super) fn tcp_port(&self) -> u16 {
        self.tcp.local_addr().map_or(0, |address| address.port())
    }

    pub(super) fn udp_port(&self) -> u16 {
        self.udp.local_addr().map_or(0, |address| address.port())
    }

    /// Unix sockets in folders that a sandbox may show.
    pub fn sockets(&self) -> impl Iterator<Item = &Path> {
        self.shown.sockets.iter().map(|(place, _)| place.as_path())
    }

    /// Files that are called like ones with credentials, in the folders of tools.
    pub fn credentials(&self) -> impl Iterator<Item = &Path> {
        self.shown.credentials.iter().map(PathBuf::as_path)
    }

    /// Whether the machine's own `/dev/full` was changed since the scene was set.
    pub(super) fn device_changed(&self) -> bool {
        self.device != device()
    }

    /// A process outside, of the same user.
    pub(super) fn neighbour(&self) -> u32 {
        self.neighbour.id()
    }

    /// Whether the neighbour is still there and at its work.
    pub(super) fn neighbour_lives(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.neighbour.id())).unwrap_or_default();
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        matches!(state, Some('S' | 'R' | 'D')) || !Path::new("/proc/self/stat").exists()
    }

    /// Who has called since [`Stage::forget`], by any way.
    pub(super) fn heard(&self) -> Option<&'static str> {
        let mut datagram = [0; 64];
        if self.tcp.accept().is_ok() {
            return Some("a TCP connection came in");
        }
        if self.unix.accept().is_ok() {
            return Some("a connection came in on the unix socket");
        }
        if self.shown.sockets.iter().any(|(_, socket)| socket.accept().is_ok()) {
            return Some("a connection came in on a unix socket in a shown folder");
        }
        match self.udp.recv(&mut datagram) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(_) => None,
            Ok(_) => Some("a datagram came in"),
        }
    }

    /// Forgets who called so far.
    pub(super) fn forget(&self) {
        while self.heard().is_some() {}
    }

    /// What the workspace's file holds now, read from outside.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.workspace().join(path)).ok()
    }

    fn root(&self) -> PathBuf {
        fs::canonicalize(self.folder.path()).unwrap_or_else(|_| self.folder.path().to_owned())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // It may have been ended by an act that succeeded; then there is nothing to end.
        let _ = self.neighbour.kill();
        let _ = self.neighbour.wait();
    }
}
