//! Images that are fetched: a small registry on the loopback, which an engine may use without certificates.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agon::protocol::expand::hex;
use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use sha2::{Digest, Sha256};

use super::program::{command_script, place, until_none_is_left};
use crate::support::env::Env;

const MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}

/// Serves the one image `tools:1`, which has busybox.
struct Registry {
    port: u16,
}

impl Registry {
    fn start(env: &Env) -> Self {
        let layer = layer(env);
        let machine = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
        let config = format!(
            "{{\"architecture\":\"{machine}\",\"os\":\"linux\",\"config\":{{}},\
             \"rootfs\":{{\"type\":\"layers\",\"diff_ids\":[\"{}\"]}}}}",
            digest(&layer)
        )
        .into_bytes();
        let manifest = format!(
            "{{\"schemaVersion\":2,\"mediaType\":\"{MANIFEST}\",\
             \"config\":{{\"mediaType\":\"application/vnd.docker.container.image.v1+json\",\"size\":{},\"digest\":\"{}\"}},\
             \"layers\":[{{\"mediaType\":\"application/vnd.docker.image.rootfs.diff.tar.gzip\",\"size\":{},\"digest\":\"{}\"}}]}}",
            config.len(),
            digest(&config),
            layer.len(),
            digest(&layer)
        )
        .into_bytes();
        let mut things = HashMap::from([("/v2/".to_owned(), b"{}".to_vec())]);
        for name in ["1".to_owned(), digest(&manifest)] {
            things.insert(format!("/v2/tools/manifests/{name}"), manifest.clone());
        }
        for blob in [config, layer] {
            things.insert(format!("/v2/tools/blobs/{}", digest(&blob)), blob);
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let things = Arc::new(things);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let things = Arc::clone(&things);
                std::thread::spawn(move || serve(stream, &things));
            }
        });
        Registry { port }
    }

    fn image(&self, name: &str) -> String {
        format!("127.0.0.1:{}/{name}", self.port)
    }
}

/// An archive with busybox under the names that are needed.
fn layer(env: &Env) -> Vec<u8> {
    let bin = env.home().join("layer/bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::fs::copy("/bin/busybox", bin.join("busybox")).unwrap();
    for name in ["sh", "echo", "id", "cat"] {
        std::os::unix::fs::symlink("busybox", bin.join(name)).unwrap();
    }
    let tar = Command::new("tar").args(["-C", bin.parent().unwrap().to_str().unwrap(), "-c", "bin"]).output();
    tar.unwrap().stdout
}

/// Answers one connection's requests until it is closed.
fn serve(stream: TcpStream, things: &HashMap<String, Vec<u8>>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if lines.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let mut words = head.split(' ');
        let (verb, path) = (words.next().unwrap(), words.next().unwrap());
        let (status, body) = match things.get(path) {
            Some(body) => ("200 OK", body.as_slice()),
            None => (
                "404 Not Found",
                &b"{\"errors\":[{\"code\":\"MANIFEST_UNKNOWN\",\"message\":\"unknown here\"}]}"[..],
            ),
        };
        let kind =
            if path.contains("/manifests/") && status == "200 OK" { MANIFEST } else { "application/json" };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nDocker-Content-Digest: {}\r\nContent-Length: {}\r\n\r\n",
            digest(body),
            body.len()
        );
        let body = if verb == "HEAD" { &[][..] } else { body };
        if stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).is_err() {
            return;
        }
    }
}

fn configure(env: &Env, image: &str) {
    env.config(&format!(
        "model = \"mock/any\"\n[providers.mock]\nkind = \"script\"\nfile = \"mock.toml\"\n[sandbox]\nkind = \"docker\"\n\
         [sandbox.docker]\nimage = \"{image}\"\nmemory = \"128m\"\n"
    ));
}

#[test]
fn an_image_is_fetched_and_named_with_its_digest() {
    let Some(env) = place(&command_script("id -u")) else { return };
    let registry = Registry::start(&env);
    let image = registry.image("tools:1");
    configure(&env, &image);
    let ran = env.run(&["sandbox", "pull"]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(
        ran.stdout.starts_with(&format!("{image} (id sha256:")) && ran.stdout.contains(", digest sha256:"),
        "{ran}"
    );
    let ran = env.run(&["run", "go", "--yes", "--json"]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stdout.contains(", digest sha256:"), "{ran}");
    let ran = env.run(&["sandbox", "pull", &registry.image("missing:2")]);
    assert_eq!(ran.code, 2, "{ran}");
    assert!(ran.stderr.contains("missing:2` cannot be fetched: "), "{ran}");
    until_none_is_left(&env);
}

#[test]
fn a_person_is_offered_the_image_that_is_missing() {
    let Some(env) = place(&command_script("echo ran in it")) else { return };
    let registry = Registry::start(&env);
    configure(&env, &registry.image("tools:1"));
    // The first answer is no: nothing is fetched, and the way out is told.
    let text = talk(&env, "no\n");
    assert!(text.contains("is not on this machine") && text.contains("agon sandbox pull"), "{text}");
    let text = talk(&env, "yes\n");
    assert!(text.contains("fetching `127.0.0.1") && text.contains("1 layer"), "{text}");
    assert!(text.contains("ran in it"), "{text}");
    until_none_is_left(&env);
}

/// Runs a task on a terminal, answers the first question, and gives everything that was shown.
fn talk(env: &Env, answer: &str) -> String {
    let pair = native_pty_system()
        .openpty(PtySize { rows: 40, cols: 120, pixel_width: 0, pixel_height: 0 })
        .unwrap();
    let real = env.command(&["run", "go", "--yes"]);
    let mut command = CommandBuilder::new(real.get_program());
    command.args(real.get_args());
    command.cwd(env.work());
    command.env_clear();
    for (name, value) in real.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    let mut child = pair.slave.spawn_command(command).unwrap();
    drop(pair.slave);
    let (mut reader, mut writer) =
        (pair.master.try_clone_reader().unwrap(), pair.master.take_writer().unwrap());
    let (mut shown, mut bytes, mut answered) = (Vec::new(), [0; 4096], false);
    let patience = Instant::now() + Duration::from_secs(120);
    while let Ok(count @ 1..) = reader.read(&mut bytes) {
        shown.extend_from_slice(&bytes[..count]);
        if !answered && String::from_utf8_lossy(&shown).contains("yes | no: ") {
            writer.write_all(answer.as_bytes()).unwrap();
            answered = true;
        }
        assert!(Instant::now() < patience, "{}", String::from_utf8_lossy(&shown));
    }
    child.wait().unwrap();
    String::from_utf8_lossy(&shown).into_owned()
}
