//! Engines, images and containers that fail: each says what failed and what to try.

use std::os::unix::net::UnixListener as StdListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agon::ports::{Exec, ExecEnd, Sandbox};
use agon::protocol::Lane;
use agon::sandbox::docker::{
    DockerError, DockerPlace, DockerSandbox, DockerSettings, Engine, MountSettings, Owner, host_name, reap,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::kit::{Bench, IMAGE};
use crate::sandbox::contract::{Heard, exec};
use crate::support::env::Env;
use crate::tui::pty::Terminal;

async fn connect(address: &str) -> DockerError {
    Engine::connect(Some(address), None).await.unwrap_err()
}

#[tokio::test]
async fn no_engine_says_where_it_was_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("docker.sock");
    let address = format!("unix://{}", socket.display());
    let error = connect(&address).await;
    assert!(matches!(error, DockerError::NoEngine { .. }), "{error:?}");
    assert!(error.to_string().contains(&address) && error.hint().unwrap().contains("DOCKER_HOST"), "{error}");
    // A socket that nobody listens at any more.
    drop(StdListener::bind(&socket).unwrap());
    assert!(matches!(connect(&address).await, DockerError::NoEngine { .. }));
    assert!(matches!(connect("ssh://somewhere").await, DockerError::BadAddress { .. }));
    assert!(matches!(connect("tcp://127.0.0.1:1").await, DockerError::NoEngine { .. }));
}

#[tokio::test]
async fn a_socket_that_is_closed_to_us_says_how_to_get_in() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    if crate::support::env::is_root(folder.path()) {
        println!("skipped: root may use any socket");
        return;
    }
    let socket = folder.path().join("docker.sock");
    let _listener = StdListener::bind(&socket).unwrap();
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o000)).unwrap();
    let error = connect(&format!("unix://{}", socket.display())).await;
    assert!(matches!(error, DockerError::Refused { .. }), "{error:?}");
    assert!(error.hint().unwrap().contains("group"), "{error}");
}

/// A server that gives every caller the same bytes and hangs up.
fn parrot(folder: &std::path::Path, says: &'static [u8]) -> String {
    let socket = folder.join("parrot.sock");
    let _ = std::fs::remove_file(&socket);
    let listener = UnixListener::bind(&socket).unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut asked = [0; 1024];
            let _ = stream.read(&mut asked).await;
            let _ = stream.write_all(says).await;
        }
    });
    format!("unix://{}", socket.display())
}

#[tokio::test]
async fn what_is_no_engine_is_not_taken_for_one() {
    let folder = tempfile::tempdir().unwrap();
    let answers: [&[u8]; 5] = [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 500 Oops\r\nContent-Length: 21\r\n\r\n{\"message\":\"on fire\"}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{\"ApiVersion\":\"1.4",
    ];
    for says in answers {
        let error = connect(&parrot(folder.path(), says)).await;
        let text = String::from_utf8_lossy(says);
        assert!(
            matches!(error, DockerError::NotAnEngine { .. } | DockerError::NoEngine { .. }),
            "{text}: {error:?}"
        );
        assert!(error.to_string().contains("parrot.sock") && error.hint().is_some(), "{text}: {error}");
    }
}

/// An engine without images, at whose first image nothing moves any more.
fn stuck_builder(folder: &std::path::Path) -> String {
    use std::io::{BufRead, BufReader, Write};
    let socket = folder.join("stuck.sock");
    let listener = StdListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        let mut waiting = Vec::new();
        for stream in listener.incoming().map(Result::unwrap) {
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let asked = lines.next().unwrap().unwrap();
            lines.find(|line| line.as_ref().unwrap().is_empty()).unwrap().unwrap();
            let (status, body) = match asked {
                asked if asked.contains("/build") => {
                    waiting.push(stream);
                    continue;
                }
                asked if asked.contains("/images/") => ("404 None", r#"{"message":"no such image"}"#),
                asked if asked.contains("/info") => {
                    ("200 OK", r#"{"OSType":"linux","Architecture":"x86_64"}"#)
                }
                _ => ("200 OK", r#"{"ApiVersion":"1.43","Version":"24.0","Os":"linux","Arch":"amd64"}"#),
            };
            let head = "Content-Type: application/json\r\nConnection: close";
            let mut stream = stream;
            write!(stream, "HTTP/1.1 {status}\r\n{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
                .unwrap();
        }
    });
    format!("unix://{}", socket.display())
}

#[test]
fn what_a_question_has_begun_is_still_ended_by_an_interrupt() {
    let env = Env::new();
    let engine = format!("DOCKER_HOST={}", stuck_builder(&env.temporary()));
    let program = env!("CARGO_BIN_EXE_agon");
    let arguments = [&engine, program, "run", "hi", "--sandbox", "docker", "-m", "demo/script"];
    let mut terminal = Terminal::of("/usr/bin/env".as_ref(), &env, &arguments, 100, 30);
    terminal.wait_for("yes | no");
    terminal.press("yes\r");
    terminal.wait_for("building `");
    terminal.press("\x03");
    assert_eq!(terminal.end(), 130);
}

#[tokio::test]
async fn images_that_cannot_serve_are_told_apart() {
    let Some(bench) = Bench::new().await else { return };
    let open = |image: &str| bench.open_with(DockerSettings { image: image.into(), ..bench.settings() });
    let error = open("agon-test-missing").await.unwrap_err();
    assert!(matches!(error, DockerError::NoImage { .. }), "{error:?}");
    assert!(error.hint().unwrap().contains("agon sandbox pull"), "{error}");
    let error = open("agon-sandbox").await.unwrap_err();
    assert!(error.hint().unwrap().contains("agon sandbox build"), "{error:?}");
    let error = open("agon-test-other").await.unwrap_err();
    assert!(matches!(error, DockerError::WrongMachine { .. }), "{error:?}");
    let error = open("agon-test-bare").await.unwrap_err();
    assert!(matches!(error, DockerError::NoShell { .. }), "{error:?}");
    let error = open("NOT an image").await.unwrap_err();
    assert!(
        error.to_string().contains("NOT an image") || matches!(error, DockerError::BadSettings(_)),
        "{error:?}"
    );
    bench.until_containers(0).await;
}

#[tokio::test]
async fn settings_the_engine_cannot_follow_are_named() {
    let Some(bench) = Bench::new().await else { return };
    let settings = DockerSettings { network: "no-such-network".into(), ..bench.settings() };
    let error = bench.open_with(settings).await.unwrap_err();
    assert!(error.to_string().contains("`network`: network no-such-network"), "{error:?}");
    assert!(error.hint().unwrap().contains("[sandbox.docker]"), "{error:?}");
    let error =
        bench.open_with(DockerSettings { milli_cpus: 999_000, ..bench.settings() }).await.unwrap_err();
    assert!(error.to_string().contains("`cpus`: ") && error.hint().is_some(), "{error:?}");
    let mount = |source: &str, target: &str| MountSettings {
        source: source.into(),
        target: target.into(),
        writable: true,
    };
    for (mounts, part) in [
        (vec![mount("/no/such/folder", "/x")], "/no/such/folder"),
        (vec![mount("/usr", "relative")], "relative"),
        (vec![mount("/usr", "/x"), mount("/usr", "/x")], "`mounts`: "),
    ] {
        let error = bench.open_with(DockerSettings { mounts, ..bench.settings() }).await.unwrap_err();
        assert!(error.to_string().contains(part), "{part}: {error:?}");
    }
    let root = DockerPlace { root: PathBuf::from("/"), ..bench.place() };
    let error = DockerSandbox::open(bench.engine.clone(), bench.settings(), &root).await.unwrap_err();
    assert!(matches!(error, DockerError::BadMount { .. }), "{error:?}");
    bench.until_containers(0).await;
}

#[tokio::test]
async fn a_container_removed_behind_our_back_is_replaced_or_told() {
    let Some(bench) = Bench::new().await else { return };
    let sandbox = bench.open().await;
    // Between two commands nothing is lost.
    for how in [&["rm", "-f"][..], &["stop", "-t", "0"][..], &["kill"][..]] {
        assert_eq!(bench.run(&sandbox, "echo one").await.stdout, "one\n");
        let name = bench.containers().await[0].name.clone();
        bench.client(&[how, &[name.as_str()]].concat());
        assert_eq!(bench.run(&sandbox, "echo two").await.stdout, "two\n", "{how:?}");
    }
    // While a command runs, nobody knows what it did.
    let (heard, never) = (Heard::default(), CancellationToken::new());
    let running = sandbox.exec(exec("touch begun; echo begun; sleep 600"), &heard, &never);
    let removing = async {
        while heard.lane(Lane::Stdout).is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let name = bench.containers().await[0].name.clone();
        bench.client(&["rm", "-f", &name]);
    };
    let (end, ()) = tokio::join!(running, removing);
    let words = end.unwrap_err();
    assert!(words.contains("from outside while a command ran") && words.contains("new container"), "{words}");
    assert_eq!(bench.run(&sandbox, "ls").await.stdout, "begun\n");
}

#[tokio::test]
async fn a_command_whose_container_was_stopped_under_it_is_told_and_never_run_again() {
    let Some(bench) = Bench::new().await else { return };
    for how in [&["stop", "-t", "0"][..], &["kill"][..], &["pause"][..]] {
        let sandbox = bench.open().await;
        let (heard, never) = (Heard::default(), CancellationToken::new());
        let command = Exec { timeout_ms: 3_000, ..exec("echo run >>runs; echo begun; sleep 600") };
        let running = sandbox.exec(command, &heard, &never);
        let stopping = async {
            while heard.lane(Lane::Stdout).is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let name = bench.containers().await[0].name.clone();
            bench.client(&[how, &[name.as_str()]].concat());
        };
        let (end, ()) = tokio::join!(running, stopping);
        let words = end.unwrap_err();
        assert!(words.contains("not known") && words.contains("not run again"), "{how:?}: {words}");
        assert_eq!(std::fs::read_to_string(bench.root().join("runs")).unwrap(), "run\n", "{how:?}");
        std::fs::remove_file(bench.root().join("runs")).unwrap();
        assert_eq!(bench.run(&sandbox, "echo next").await.stdout, "next\n");
        sandbox.close().await;
    }
}

/// Stands between agon and the engine, and can hang up for good, or hold everything back while `gate` is held.
struct Wire {
    address: String,
    cut: CancellationToken,
    gate: Arc<Mutex<()>>,
}

impl Wire {
    fn to(address: &str, folder: &std::path::Path) -> Self {
        let (socket, real) = (folder.join("wire.sock"), address.strip_prefix("unix://").unwrap().to_owned());
        let listener = UnixListener::bind(&socket).unwrap();
        let (cut, gate) = (CancellationToken::new(), Arc::new(Mutex::new(())));
        let (token, held) = (cut.clone(), gate.clone());
        let carrying = async move {
            while let Ok((near, _)) = listener.accept().await {
                let (real, token, held) = (real.clone(), token.clone(), held.clone());
                tokio::spawn(async move {
                    let (near, far) =
                        (near.into_split(), UnixStream::connect(real).await.unwrap().into_split());
                    tokio::select! {
                        () = token.cancelled() => {}
                        _ = async { tokio::join!(carry(near.0, far.1, &held), carry(far.0, near.1, &held)) } => {}
                    }
                });
            }
        };
        let token = cut.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = token.cancelled() => {}
                () = carrying => {}
            }
        });
        Wire { address: format!("unix://{}", socket.display()), cut, gate }
    }
}

async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, gate: &Mutex<()>) {
    let mut piece = [0; 8192];
    while let Ok(size @ 1..) = from.read(&mut piece).await {
        drop(gate.lock().await);
        if to.write_all(&piece[..size]).await.is_err() {
            return;
        }
    }
}

/// What a command ends with whose engine is held back once it has begun, for as long as `held` takes.
async fn frozen(command: &str, limit: u64, held: Duration) -> Option<Result<ExecEnd, String>> {
    let bench = Bench::new().await?;
    let wire = Wire::to(bench.engine.address(), bench.folder());
    let engine = Engine::connect(Some(&wire.address), None).await.unwrap();
    let sandbox = DockerSandbox::open(engine, bench.settings(), &bench.place()).await.unwrap();
    let (heard, never) = (Heard::default(), CancellationToken::new());
    let running = sandbox.exec(Exec { timeout_ms: limit, ..exec(command) }, &heard, &never);
    let freezing = async {
        while heard.lane(Lane::Stdout).is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let gate = wire.gate.lock().await;
        tokio::time::sleep(held).await;
        drop(gate);
    };
    let mut running = std::pin::pin!(running);
    let end = tokio::select! {
        end = &mut running => end,
        () = freezing => running.await,
    };
    wire.cut.cancel();
    bench.until_containers(0).await;
    Some(end)
}

#[tokio::test]
async fn an_engine_that_is_frozen_is_told_soon_after_the_limit_of_the_call() {
    let held = Duration::from_secs(3600);
    let Some(end) = frozen("echo begun; sleep 600", 500, held).await else { return };
    let words = end.unwrap_err();
    for part in
        ["wire.sock", "stopped answering while a command ran", "may still run", "look whether the engine"]
    {
        assert!(words.contains(part), "{words}");
    }
}

#[tokio::test]
async fn a_command_that_ended_while_its_engine_was_frozen_is_not_told_as_ended_by_us() {
    let held = Duration::from_secs(3);
    let Some(end) = frozen("echo begun; sleep 1; echo done", 2_000, held).await else { return };
    let end = end.unwrap();
    assert_eq!((end.exit, end.timed_out, end.stdout.as_str()), (Some(0), false, "begun\ndone\n"), "{end:?}");
}

#[tokio::test]
async fn an_engine_that_dies_under_a_command_is_told() {
    let Some(bench) = Bench::new().await else { return };
    let wire = Wire::to(bench.engine.address(), bench.folder());
    let engine = Engine::connect(Some(&wire.address), None).await.unwrap();
    let sandbox = DockerSandbox::open(engine, bench.settings(), &bench.place()).await.unwrap();
    let (heard, never) = (Heard::default(), CancellationToken::new());
    let running = sandbox.exec(exec("echo begun; sleep 600"), &heard, &never);
    let cutting = async {
        while heard.lane(Lane::Stdout).is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        wire.cut.cancel();
    };
    let (end, ()) = tokio::join!(running, cutting);
    let words = end.unwrap_err();
    assert!(
        words.contains("stopped answering while a command ran")
            && words.contains("may still run")
            && words.contains("wire.sock"),
        "{words}"
    );
    let words = sandbox.exec(exec("echo again"), &heard, &never).await.unwrap_err();
    assert!(words.contains("wire.sock"), "{words}");
    // The container went with the wire that held it.
    bench.until_containers(0).await;
}

#[tokio::test]
async fn a_sandbox_leaves_nothing_however_it_ends() {
    let Some(bench) = Bench::new().await else { return };
    let sandbox = bench.open().await;
    bench.until_containers(1).await;
    drop(sandbox);
    bench.until_containers(0).await;
    let sandbox = bench.open().await;
    // A call that is dropped halfway.
    let (heard, never) = (Heard::default(), CancellationToken::new());
    {
        let mut running = std::pin::pin!(sandbox.exec(exec("echo ready; sleep 600"), &heard, &never));
        while heard.lane(Lane::Stdout).is_empty() {
            let tick = tokio::time::sleep(Duration::from_millis(5));
            tokio::select! { _ = &mut running => panic!("ended by itself"), () = tick => {} }
        }
    }
    bench.until_containers(0).await;
    // One that is closed has nothing left when it says so.
    assert_eq!(sandbox.exec(exec("echo again"), &heard, &never).await.unwrap().stdout, "again\n");
    sandbox.close().await;
    assert_eq!(bench.containers().await, []);
    assert!(sandbox.exec(exec("true"), &heard, &never).await.unwrap_err().contains("closed"));
    assert_eq!(std::fs::read_dir(bench.place().claims).unwrap().count(), 0, "no claim is left");
}

#[tokio::test]
async fn only_the_dead_are_reaped() {
    let Some(bench) = Bench::new().await else { return };
    let alive = bench.open().await;
    let claims = bench.place().claims;
    let session = format!("agon.session={}", bench.session());
    let host = format!("agon.host={}", host_name());
    let made = |claim: &str, host: &str| {
        let claim = format!("agon.claim={claim}");
        bench.client(&["create", "--label", &session, "--label", &claim, "--label", host, IMAGE, "sh"]);
    };
    made(claims.join("dead.lock").to_str().unwrap(), &host);
    made(claims.join("dead.lock").to_str().unwrap(), "agon.host=another");
    made("/elsewhere/x.lock", &host);
    let owners = || async {
        let mut owners: Vec<Owner> = bench.containers().await.iter().map(|found| found.owner).collect();
        owners.sort_by_key(|owner| format!("{owner:?}"));
        owners
    };
    assert_eq!(owners().await, [Owner::Alive, Owner::Dead, Owner::Other, Owner::Other]);
    let reaped = reap(&bench.engine, &claims, &host_name()).await.unwrap();
    assert_eq!((reaped.len(), reaped[0].state.as_str()), (1, "created"));
    assert_eq!(owners().await, [Owner::Alive, Owner::Other, Owner::Other]);
    assert_eq!(bench.run(&alive, "echo alive").await.stdout, "alive\n");
    for found in bench.containers().await.iter().filter(|found| found.owner == Owner::Other) {
        bench.client(&["rm", "-f", &found.id]);
    }
}
