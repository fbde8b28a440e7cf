//! Package tools work inside once the hosts are allowed that they ask for. No host is named here: each test allows what
//! the result of the call before says was refused, as a person would, and says aloud where a registry is not reached.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use agon::ports::{Exec, ExecEnd, Opens, Sandbox};
use agon::protocol::need::Need;
use agon::sandbox::proxy::{SystemWire, Wire};
use agon::sandbox::{LocalOptions, LocalSandbox};

use super::contract::{Opened, exec};
use super::local::{can_be_had, options};
use super::proxy::kit::Net;

pub(super) async fn open(wire: Arc<dyn Wire>) -> Option<Opened> {
    if !can_be_had().await {
        return None;
    }
    Some(Opened::new(|root| {
        let options = LocalOptions { wire, ..options() };
        Arc::new(LocalSandbox::open(root, options).unwrap()) as Arc<dyn Sandbox>
    }))
}

async fn run(opened: &Opened, command: &str, hosts: &[String]) -> ExecEnd {
    let opens = Opens { needs: hosts.iter().cloned().map(Need::Host).collect(), ..Opens::default() };
    opened.run(Exec { timeout_ms: 180_000, opens, ..exec(command) }).await
}

/// The hosts that a result says to ask for.
fn refused(end: &ExecEnd) -> Vec<String> {
    let quoted = end.notes.iter().filter_map(|line| line.split("needs: [\"host:").nth(1)?.split('"').next());
    quoted.map(str::to_owned).collect()
}

/// Runs a command again and again, each time with the hosts that the time before was refused.
pub(super) async fn with_hosts(
    opened: &Opened,
    needs: &str,
    command: &str,
) -> Option<(ExecEnd, Vec<String>)> {
    if opened.sh(needs).await.exit != Some(0) {
        println!("skipped: `{needs}` does not work inside");
        return None;
    }
    let mut hosts = Vec::new();
    for _ in 0..5 {
        let end = run(opened, command, &hosts).await;
        let new = refused(&end);
        if let Some(line) =
            end.notes.iter().find(|line| line.contains("its name cannot be") || line.contains("it cannot be"))
        {
            println!("skipped: no registry is reached from here: {line}");
            return None;
        }
        if new.is_empty() {
            return Some((end, hosts));
        }
        assert_ne!(end.exit, Some(0), "it needs what is refused: {end:?}");
        hosts.extend(new);
    }
    panic!("it asks for ever more: {hosts:?}");
}

#[tokio::test]
async fn cargo_adds_fetches_and_builds_a_package() {
    let Some(opened) = open(Arc::new(SystemWire)).await else { return };
    opened.put("Cargo.toml", "[package]\nname = \"inside\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    opened.put("src/main.rs", "fn main() { println!(\"{}\", itoa::Buffer::new().format(42)); }\n");
    let fetch = "cargo add -q itoa && cargo fetch -q";
    let Some((end, hosts)) = with_hosts(&opened, "cargo --version", fetch).await else { return };
    assert!(end.exit == Some(0) && !hosts.is_empty(), "{end:?}");
    // What was fetched stays for the session, and nothing of it is left in the user's own folders.
    let end = run(&opened, "cargo run -q --offline", &[]).await;
    assert_eq!((end.exit, end.stdout.as_str()), (Some(0), "42\n"), "{end:?}");
}

#[tokio::test]
async fn pip_installs_a_package() {
    let Some(opened) = open(Arc::new(SystemWire)).await else { return };
    let install = "test -d .venv || python3 -m venv .venv; .venv/bin/pip install -q --no-cache-dir six && \
                   .venv/bin/python -c 'import six; print(six.PY3)'";
    let needs = "python3 -c 'import venv, ensurepip'";
    let Some((end, hosts)) = with_hosts(&opened, needs, install).await else { return };
    assert!(end.stdout.ends_with("True\n") && !hosts.is_empty(), "{end:?}");
}

#[tokio::test]
async fn npm_installs_a_package() {
    let Some(opened) = open(Arc::new(SystemWire)).await else { return };
    opened.put("package.json", r#"{"name": "inside", "version": "1.0.0", "private": true}"#);
    let install =
        "npm install --no-audit --no-fund is-number && node -e 'console.log(require(\"is-number\")(42))'";
    let Some((end, hosts)) = with_hosts(&opened, "npm --version", install).await else { return };
    assert!(end.stdout.ends_with("true\n") && !hosts.is_empty(), "{end:?}");
}

/// A server of a folder, over TLS if there is a certificate; ended with this value.
struct Folder(Child);

impl Folder {
    fn serve(folder: &Path, port: u16, certificate: Option<&Path>) -> Self {
        let script = "import functools, http.server, ssl, sys\n\
                      handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[1])\n\
                      server = http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[2])), handler)\n\
                      if len(sys.argv) > 3:\n    \
                      context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)\n    \
                      context.load_cert_chain(sys.argv[3])\n    \
                      server.socket = context.wrap_socket(server.socket, server_side=True)\n\
                      server.serve_forever()\n";
        let mut command = Command::new("python3");
        command.arg("-c").arg(script).arg(folder).arg(port.to_string()).args(certificate);
        Folder(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Serves a folder under a name of the tests' own network.
async fn served(
    net: &Net,
    (host, port): (&str, u16),
    folder: &Path,
    certificate: Option<&Path>,
) -> Option<Folder> {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    if !has("python3") {
        return None;
    }
    let server = Folder::serve(folder, free.port(), certificate);
    for _ in 0..100 {
        if std::net::TcpStream::connect(free).is_ok() {
            net.name(host, &[&["203.0.113.7"]]);
            net.place(&format!("203.0.113.7:{port}"), free);
            return Some(server);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the server does not start");
}

fn has(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output().unwrap();
    if !found.status.success() {
        println!("skipped: there is no {program}");
    }
    found.status.success()
}

#[tokio::test]
async fn go_takes_a_module_from_a_proxy_by_name() {
    let net = Arc::new(Net::default());
    let Some(opened) = open(net.clone()).await else { return };
    let module = opened.folder.path().join("proxy/mod.example/answer/@v");
    std::fs::create_dir_all(&module).unwrap();
    let text = "module mod.example/answer\n\ngo 1.19\n";
    std::fs::write(module.join("v1.0.0.mod"), text).unwrap();
    std::fs::write(module.join("list"), "v1.0.0\n").unwrap();
    std::fs::write(module.join("v1.0.0.info"), r#"{"Version":"v1.0.0","Time":"2026-01-01T00:00:00Z"}"#)
        .unwrap();
    let zip = "import sys, zipfile\nz = zipfile.ZipFile(sys.argv[1] + '/v1.0.0.zip', 'w')\n\
               z.writestr('mod.example/answer@v1.0.0/go.mod', sys.argv[2])\n\
               z.writestr('mod.example/answer@v1.0.0/answer.go', 'package answer\\n\\nconst Value = 42\\n')\nz.close()\n";
    if !has("python3") {
        return;
    }
    assert!(Command::new("python3").args(["-c", zip]).arg(&module).arg(text).status().unwrap().success());
    let folder = opened.folder.path().join("proxy");
    let Some(_server) = served(&net, ("goproxy.example", 80), &folder, None).await else { return };
    opened.put("go.mod", "module inside\n\ngo 1.19\n");
    opened.put(
        "main.go",
        "package main\n\nimport \"mod.example/answer\"\n\nfunc main() { println(answer.Value) }\n",
    );
    let get = "export GOPROXY=http://goproxy.example GONOSUMDB='*' GOFLAGS=-mod=mod; go get mod.example/answer@v1.0.0 && go run .";
    let Some((end, hosts)) = with_hosts(&opened, "go version", get).await else { return };
    assert!(end.stderr.contains("42\n") && hosts == ["goproxy.example"], "{end:?}");
}

#[tokio::test]
async fn git_fetches_over_https_from_a_host_that_is_allowed() {
    let net = Arc::new(Net::default());
    let Some(opened) = open(net.clone()).await else { return };
    if !["git", "openssl", "python3"].into_iter().all(has) {
        return;
    }
    let folder = opened.folder.path().join("served");
    std::fs::create_dir(&folder).unwrap();
    let make = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=git.example -keyout key.pem -out cert.pem \
                2>/dev/null && cat key.pem cert.pem >both.pem && git init -q work && cd work && echo hello >file && \
                git add file && git -c user.name=a -c user.email=a@b -c commit.gpgsign=false commit -qm one && \
                git clone -q --bare . ../served/repo.git && cd ../served/repo.git && git update-server-info";
    let home = opened.folder.path();
    let made = Command::new("sh").args(["-c", make]).current_dir(home).env("HOME", home).status().unwrap();
    assert!(made.success());
    let certificate = home.join("both.pem");
    let Some(_server) = served(&net, ("git.example", 443), &folder, Some(&certificate)).await else { return };
    let clone = "rm -rf /tmp/copy; git -c http.sslVerify=false clone -q https://git.example/repo.git /tmp/copy && cat /tmp/copy/file";
    let Some((end, hosts)) = with_hosts(&opened, "git --version", clone).await else { return };
    assert_eq!((end.exit, end.stdout.as_str()), (Some(0), "hello\n"), "{end:?}");
    assert_eq!(hosts, ["git.example"]);
}
