//! What of the machine a command in `local` must not reach though its folder is shown: devices, sockets, pipes,
//! credentials of tools, files that are closed to others. The program is the real one, in a home of the tests' own.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use agon::sandbox::LocalSandbox;
use agon::sandbox::proof::{self, ACTS, Stage, Verdict};

use super::docker::program::command_script;
use super::local::{can_be_had, open, options};
use crate::support::env::Env;

/// A program whose user has a home with these files, each with its own name in it.
fn with_home(files: &[&str]) -> Env {
    let mut env = Env::new();
    env.config("model = \"mock/any\"\n[providers.mock]\nkind = \"script\"\nfile = \"mock.toml\"\n");
    for file in files {
        env.write(&format!("user/{file}"), &format!("TOKEN in {file}\n"));
    }
    let user = env.home().parent().unwrap().join("user");
    fs::create_dir_all(&user).unwrap();
    env.set("HOME", user.to_str().unwrap());
    env
}

/// What a command wrote; none where namespaces are refused.
fn said(env: &Env, command: &str) -> Option<String> {
    env.write("home/mock.toml", &command_script(&format!("{{ {command}\n}} >said 2>&1; true")));
    let ran = env.run(&["run", "go", "--yes", "--sandbox", "local"]);
    match fs::read_to_string(env.work().join("said")) {
        Ok(said) => Some(said),
        Err(_) => {
            assert!(std::env::var_os("AGON_NEEDS_LOCAL").is_none(), "{ran}");
            println!("skipped: namespaces are refused here");
            None
        }
    }
}

/// Each is set to what it is already, so that a hole changes nothing but a time.
#[tokio::test]
async fn the_machines_devices_can_be_used_and_not_be_changed() {
    let Some(opened) = open().await else { return };
    let devices = ["null", "zero", "full", "random", "urandom"].map(|name| Path::new("/dev").join(name));
    let state = || {
        devices
            .clone()
            .map(|path| fs::metadata(path).map(|data| (data.mode(), data.ctime(), data.ctime_nsec())).ok())
    };
    let before = state();
    for device in &devices {
        let device = device.display();
        let command = format!(
            "chmod 666 {device} && echo ESCAPED; touch -c {device} && echo ESCAPED; chown $(id -u):$(id -g) {device} && \
             echo ESCAPED; chmod 666 /proc/self/fd/3 3>{device} && echo ESCAPED; setfacl -m u:1:r {device} && echo ESCAPED; true"
        );
        let end = opened.sh(&command).await;
        assert!(!end.stdout.contains("ESCAPED"), "{device}: {end:?}");
    }
    assert_eq!(state(), before);
    let command = "echo x >/dev/null && echo x >>/dev/null && head -c 3 /dev/zero | wc -c && head -c 4 /dev/urandom | wc -c && \
                   head -c 5 /dev/random | wc -c && ! echo x 2>/dev/null >/dev/full && cat /dev/null && echo ok";
    assert_eq!(opened.sh(command).await.stdout, "3\n4\n5\nok\n");
}

#[tokio::test]
async fn sockets_and_pipes_in_folders_that_are_shown_cannot_be_reached() {
    let env = with_home(&[".cargo/bin/tool", ".local/bin/tool", ".cargo/registry/tool"]);
    let home = env.home().parent().unwrap().join("user");
    let mut folders = vec![
        home.join(".cargo"),
        home.join(".cargo/bin"),
        home.join(".local/bin"),
        home.join(".cargo/registry"),
    ];
    let name = format!("agon-test-{}", std::process::id());
    if rustix::process::geteuid().is_root() {
        folders.extend(["/etc", "/opt", "/usr/local"].map(PathBuf::from));
    }
    let (mut sockets, mut pipes) = (Vec::new(), Vec::new());
    for folder in &folders {
        let place = folder.join(&name);
        let socket = UnixListener::bind(&place).unwrap();
        socket.set_nonblocking(true).unwrap();
        fs::set_permissions(&place, Permissions::from_mode(0o666)).unwrap();
        sockets.push((place, socket));
        let pipe = folder.join(format!("{name}.pipe"));
        assert!(
            std::process::Command::new("mkfifo").args(["-m", "666"]).arg(&pipe).status().unwrap().success()
        );
        pipes.push(pipe);
    }
    let mut command = String::new();
    for (place, _) in &sockets {
        command += &format!(
            "perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, pack_sockaddr_un(\"{0}\")) and print \"ESCAPED\"'\n",
            place.display()
        );
    }
    for pipe in &pipes {
        command += &format!("[ -p '{}' ] && [ -r '{0}' ] && echo ESCAPED '{0}'\n", pipe.display());
    }
    let said = said(&env, &format!("{command}\ncat $HOME/.local/bin/tool"));
    let heard: Vec<_> =
        sockets.iter().filter(|(_, socket)| socket.accept().is_ok()).map(|(place, _)| place).collect();
    sockets.iter().map(|(place, _)| place).chain(&pipes).for_each(|place| fs::remove_file(place).unwrap());
    assert!(heard.is_empty(), "{heard:?}");
    assert!(said.is_none_or(|said| !said.contains("ESCAPED") && said.contains("TOKEN in .local/bin/tool")));
}

/// The machine's table of sockets has the path by which each was bound, so those are found by a search alone.
#[test]
fn a_socket_in_a_folder_of_packages_is_not_reached_however_it_got_there() {
    let folders = [
        ".cargo/registry/x",
        ".rustup/toolchains/t/lib",
        ".cache/pip/http",
        "go/pkg/mod/m",
        ".m2/repository/org",
        ".nvm/versions/node/lib/node_modules/m",
    ];
    let files: Vec<String> = folders.iter().map(|folder| format!("{folder}/file")).collect();
    let env = with_home(&files.iter().map(String::as_str).collect::<Vec<_>>());
    let base = env.home().parent().unwrap().to_owned();
    let (mut sockets, mut command) = (Vec::new(), String::new());
    let mut add = |place: PathBuf, socket: UnixListener| {
        socket.set_nonblocking(true).unwrap();
        command += &format!(
            "perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, pack_sockaddr_un(\"{0}\")) and print \"ESCAPED\"'\n",
            place.display()
        );
        sockets.push((place, socket));
    };
    for (i, folder) in folders.iter().enumerate() {
        let folder = base.join("user").join(folder);
        // Bound elsewhere and moved, bound elsewhere and linked, and by a way that is gone.
        let elsewhere = |kind: &str| base.join(format!("{kind}{i}"));
        let moved = UnixListener::bind(elsewhere("moved")).unwrap();
        fs::rename(elsewhere("moved"), folder.join("moved")).unwrap();
        add(folder.join("moved"), moved);
        let linked = UnixListener::bind(elsewhere("linked")).unwrap();
        fs::hard_link(elsewhere("linked"), folder.join("linked")).unwrap();
        add(folder.join("linked"), linked);
        std::os::unix::fs::symlink(&folder, elsewhere("way")).unwrap();
        let reached = UnixListener::bind(elsewhere("way").join("reached")).unwrap();
        if i % 2 == 0 {
            fs::remove_file(elsewhere("way")).unwrap();
        }
        add(folder.join("reached"), reached);
    }
    let said = said(&env, &format!("{command}\ncat $HOME/.m2/repository/org/file"));
    let heard: Vec<_> =
        sockets.iter().filter(|(_, socket)| socket.accept().is_ok()).map(|(at, _)| at).collect();
    assert!(heard.is_empty(), "{heard:?}");
    assert!(said.is_none_or(|said| !said.contains("ESCAPED") && said.contains("TOKEN in .m2")));
}

/// One that a service opens later, also in a folder that is too large to be searched.
#[tokio::test]
async fn a_socket_that_is_made_after_the_session_began_is_covered_as_well() {
    if !can_be_had().await || !rustix::process::geteuid().is_root() {
        return println!("skipped: only root can make one in a folder that is shown");
    }
    let Some(opened) = open().await else { return };
    let place = PathBuf::from(format!("/usr/local/lib/agon-test-{}", std::process::id()));
    let socket = UnixListener::bind(&place).unwrap();
    socket.set_nonblocking(true).unwrap();
    let command = format!(
        "perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, pack_sockaddr_un(\"{}\")) or print \"refused\"'",
        place.display()
    );
    let end = opened.sh(&command).await;
    fs::remove_file(&place).unwrap();
    assert_eq!((end.stdout.as_str(), socket.accept().is_err()), ("refused", true), "{end:?}");
}

/// Where tools keep keys, passwords and tokens.
const CREDENTIALS: &[&str] = &[
    ".local/share/uv/credentials/credentials.toml",
    ".dotnet/corefx/cryptography/x509stores/my/A.pfx",
    ".dotnet/tools/my.pfx",
    ".nvm/versions/node/v20.0.0/etc/npmrc",
    ".volta/tools/image/node/20.0.0/etc/npmrc",
    ".asdf/installs/nodejs/20.0.0/etc/npmrc",
    ".asdf/.netrc",
    ".local/share/mise/installs/node/20.0.0/etc/npmrc",
    ".local/share/fnm/node-versions/v20.0.0/installation/etc/npmrc",
    ".fnm/node-versions/v20.0.0/installation/etc/npmrc",
    ".pyenv/versions/3.12.0/pip.conf",
    ".rbenv/versions/3.3.0/etc/gemrc",
    ".julia/logs/repl_history.jl",
    ".julia/servers/host/auth.toml",
    ".julia/environments/v1.10/auth.toml",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".cargo/credentials.toml.bak",
    ".cargo/git/db/x-0123/FETCH_HEAD",
    "go/pkg/mod/cache/vcs/0123/config",
    ".cargo/bin/hosts.yml",
    ".cargo/bin/key.pem",
    ".rustup/toolchains/stable/etc/key.pem",
    ".rustup/toolchains/stable/.aws/credentials",
    ".local/bin/.env",
    ".local/share/pnpm/auth.ini",
    ".bun/.npmrc",
    ".nvm/.npmrc",
    ".rvm/user/db",
    ".gradle/gradle.properties",
    ".m2/settings.xml",
    ".nuget/NuGet.Config",
    ".npm/_logs/log",
    ".sdkman/var/token",
    ".ssh/id_ed25519",
    ".aws/credentials",
];

/// What tools need to work.
const NEEDED: &[&str] = &[
    ".cargo/bin/cargo",
    ".cargo/registry/serde/credentials.rs",
    ".cargo/git/db/x-0123/HEAD",
    ".cargo/config.toml",
    ".rustup/toolchains/stable/bin/rustc",
    ".rustup/toolchains/stable/lib/rustlib/src/rust/library/key.pem",
    ".rustup/toolchains/stable/etc/cacert.pem",
    ".rustup/settings.toml",
    ".nvm/nvm.sh",
    ".nvm/versions/node/v20.0.0/bin/node",
    ".nvm/versions/node/v20.0.0/lib/node_modules/npm/package.json",
    ".volta/tools/image/node/20.0.0/bin/node",
    ".asdf/shims/node",
    ".pyenv/versions/3.12.0/lib/python3.12/site-packages/boto/credentials.py",
    ".pyenv/shims/python3",
    ".local/share/uv/python/cpython/bin/python3",
    ".local/share/uv/tools/ruff/bin/ruff",
    ".cache/uv/wheels/x",
    ".dotnet/dotnet",
    ".dotnet/sdk/8.0/dotnet.dll",
    ".sdkman/candidates/java/current/bin/java",
    ".opam/4.14/bin/ocaml",
    ".julia/packages/X/src/X.jl",
    ".m2/repository/a/a.jar",
    ".npm/_cacache/index-v5/x",
    "go/pkg/mod/cache/download/x/@v/list",
    "go/bin/gopls",
];

#[test]
fn tools_are_shown_without_the_files_that_hold_their_credentials() {
    let env = with_home(&[CREDENTIALS, NEEDED].concat());
    let command = "find $HOME -type f -exec cat {} +";
    let Some(said) = said(&env, command) else { return };
    let read: Vec<&&str> =
        CREDENTIALS.iter().filter(|file| said.contains(&format!("TOKEN in {file}\n"))).collect();
    assert!(read.is_empty(), "readable: {read:#?}");
    let missing: Vec<&&str> =
        NEEDED.iter().filter(|file| !said.contains(&format!("TOKEN in {file}\n"))).collect();
    assert!(missing.is_empty(), "not shown: {missing:#?}");
}

/// The same where a variable names the folder.
#[test]
fn a_tool_that_a_variable_names_is_shown_without_its_credentials_too() {
    let mut env =
        with_home(&["x/cargo/bin/tool", "x/cargo/credentials.toml", "x/cargo/registry/x", "x/cargo/logs/x"]);
    let cargo = env.home().parent().unwrap().join("user/x/cargo");
    env.set("CARGO_HOME", cargo.to_str().unwrap());
    let Some(said) = said(&env, "find $CARGO_HOME -type f -exec cat {} +") else { return };
    let mut read: Vec<&str> = said.lines().collect();
    read.sort_unstable();
    assert_eq!(read, ["TOKEN in x/cargo/bin/tool", "TOKEN in x/cargo/registry/x"]);
}

/// As root a file's owner is the caller, so its mode alone would close nothing.
#[tokio::test]
async fn what_is_closed_to_others_is_closed_at_any_depth() {
    if !can_be_had().await || !rustix::process::geteuid().is_root() {
        return println!("skipped: only root can put files there");
    }
    let name = format!("agon-test-{}", std::process::id());
    let tops = ["/etc", "/opt", "/usr/local"].map(|top| Path::new(top).join(&name));
    for top in &tops {
        let deep = top.join("b/c/d/e/f/g");
        fs::create_dir_all(&deep).unwrap();
        for (file, mode) in [("key", 0o600), ("group", 0o640), ("open", 0o644)] {
            fs::write(deep.join(file), format!("TOKEN {file}\n")).unwrap();
            fs::set_permissions(deep.join(file), Permissions::from_mode(mode)).unwrap();
        }
    }
    // A workspace in a folder that is closed is reached all the same.
    let closed = tops[1].join("closed");
    fs::create_dir_all(closed.join("ws")).unwrap();
    fs::write(closed.join("key"), "TOKEN beside\n").unwrap();
    fs::set_permissions(&closed, Permissions::from_mode(0o700)).unwrap();
    let sandbox = LocalSandbox::open(&closed.join("ws"), options()).unwrap();
    let command = format!(
        "cat /etc/{name}/b/c/d/e/f/g/* /opt/{name}/b/c/d/e/f/g/* /usr/local/{name}/b/c/d/e/f/g/*; cat ../key; echo x >new"
    );
    let end = super::contract::run(&sandbox, &command).await;
    let has_written = closed.join("ws/new").exists();
    tops.iter().for_each(|top| fs::remove_dir_all(top).unwrap());
    assert_eq!((end.stdout.as_str(), has_written), ("TOKEN open\nTOKEN open\nTOKEN open\n", true), "{end:?}");
    // What was there when the session began may be gone by now, and no call fails for it.
    let opened = open().await.unwrap();
    assert_eq!(opened.sh("echo ok").await.stdout, "ok\n");
}

/// The doctor's rows for them, with the folders they were tried in.
#[tokio::test]
async fn the_doctor_tries_devices_sockets_and_credentials_where_they_are_shown() {
    if !can_be_had().await {
        return;
    }
    let Some(home) = std::env::var_os("HOME").map(PathBuf::from) else { return };
    let made = [home.join(".local/bin"), home.join(".local")];
    let made: Vec<PathBuf> = made.into_iter().filter(|folder| !folder.exists()).collect();
    fs::create_dir_all(home.join(".local/bin")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::set(folder.path()).unwrap();
    let left: Vec<PathBuf> = stage.sockets().chain(stage.credentials()).map(Path::to_owned).collect();
    let sandbox = LocalSandbox::open(&stage.workspace(), options()).unwrap();
    for act in ACTS.iter().filter(|act| ["device", "shown_socket", "tool_credentials"].contains(&act.id)) {
        let proof = proof::attempt(act, &stage, &sandbox).await;
        assert_eq!(proof.verdict, Verdict::Refused, "{proof:?}");
        let is_placed = proof.places.iter().any(|place| place.ends_with(".local/bin"));
        assert!(is_placed || act.id == "device", "{proof:?}");
    }
    drop(stage);
    made.iter().for_each(|folder| fs::remove_dir(folder).unwrap());
    assert!(left.iter().all(|place| !place.exists()) && left.len() >= 2, "{left:?}");
}
