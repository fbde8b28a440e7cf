//! Bad places and bad words: workspaces, state folders, configuration, prompts, two processes at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use super::kit::*;
use crate::support::env::Env;
use crate::support::server::{Reply, Server};

fn hello() -> (Server, Env) {
    let server = Server::start(|_, _| Reply::text("hello"));
    let env = served(&server);
    (server, env)
}

#[test]
fn a_workspace_that_is_not_there() {
    let (server, env) = hello();
    let ran = env.run(&["run", "x", "--workspace", "nowhere"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran}");
    assert!(ran.stderr.starts_with("error: cannot work in `nowhere`\n  because: No such file"), "{ran}");
    env.write("work/file", "");
    let ran = env.run(&["run", "x", "--workspace", "file"]);
    assert_eq!(ran.code, 2, "{ran}");
    assert!(ran.stderr.contains("cannot work in `file`: it is not a folder"), "{ran}");
    assert_eq!(server.requests().len(), 0);
    assert!(!env.home().join("sessions").exists(), "nothing was begun");
}

#[test]
fn a_workspace_that_has_gone_since() {
    let (_server, env) = hello();
    assert_eq!(env.run(&["run", "x"]).code, 0);
    std::fs::remove_dir(env.work()).unwrap();
    let output = env.command(&["run", "y", "--resume", "latest"]).current_dir(env.home()).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("/work` is not there any more"), "{err}");
    assert!(
        err.contains("hint: if it was moved, name it: `--workspace DIR`; `agon fork` makes a folder"),
        "{err}"
    );
}

#[test]
fn an_empty_prompt() {
    let (server, env) = hello();
    for prompt in ["", " \n\t"] {
        let ran = env.run(&["run", prompt]);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran}");
        assert_eq!(ran.stderr, "error: the prompt is empty\nhint: agon run \"what to do\"\n");
    }
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn an_unknown_key_in_the_configuration() {
    let (server, env) = hello();
    env.config(&format!("{}[limits]\nmax_setps = 3\n", config(&server.url())));
    let ran = env.run(&["run", "x"]);
    assert_eq!(ran.code, 2, "{ran}");
    assert!(ran.stderr.contains("max_setps") && ran.stderr.contains("did you mean `max_steps`?"), "{ran}");
    env.config("model = [");
    let ran = env.run(&["run", "x"]);
    assert_eq!(ran.code, 2, "{ran}");
    assert!(ran.stderr.contains("config.toml"), "{ran}");
    assert_eq!(
        std::fs::read_to_string(env.home().join("config.toml")).unwrap(),
        "model = [",
        "kept as it is"
    );
}

#[test]
fn a_state_folder_that_cannot_be_written_is_told_before_anything_is_asked() {
    use std::os::unix::fs::PermissionsExt;
    let (server, env) = hello();
    if crate::support::env::is_root(&env.work()) {
        println!("skipped: permission bits do not stop root");
        return;
    }
    std::fs::set_permissions(env.home(), std::fs::Permissions::from_mode(0o500)).unwrap();
    let ran = env.run(&["run", "x"]);
    std::fs::set_permissions(env.home(), std::fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran}");
    assert!(ran.stderr.contains("[HOME]") && ran.stderr.contains("denied"), "{ran}");
    assert_eq!(server.requests().len(), 0);
}

/// One run that takes a while, another that begins meanwhile and is refused, naming the first, and the same once more.
fn meanwhile(words: &[&str], refusal: impl Fn(u32) -> Vec<String>) {
    let may_answer = Flag::default();
    let held = may_answer.clone();
    let server = Server::start(move |_, n| {
        if n == 1 {
            held.wait();
        }
        Reply::text("hello")
    });
    let env = Env::new();
    env.config(&config(&server.url()).replace("idle_timeout_ms = 400", "idle_timeout_ms = 30000"));
    let mut first = env.command(&["run", "x"]).spawn().unwrap();
    Flag::default().wait_until(|| !server.requests().is_empty());
    let second = env.run(words);
    may_answer.raise();
    assert_eq!((second.code, second.stdout.as_str()), (2, ""), "{second}");
    for told in refusal(first.id()) {
        assert!(second.stderr.contains(&told), "`{told}` is missing: {second}");
    }
    assert_eq!(first.wait().unwrap().code(), Some(0));
    let third = env.run(words);
    assert_eq!((third.code, third.stdout.as_str()), (0, "hello\n"), "{third}");
}

#[test]
fn two_processes_on_one_session() {
    meanwhile(&["run", "y", "--resume", "latest"], |first| {
        vec![format!("process {first}"), "hint: it can be watched meanwhile: `agon replay`".to_owned()]
    });
}

#[test]
fn two_processes_in_one_workspace() {
    meanwhile(&["run", "y"], |first| vec![format!("pid {first}"), "[WORK]".to_owned()]);
}

/// Something one side waits for, never for ever.
#[derive(Clone, Default)]
struct Flag(Arc<AtomicBool>);

impl Flag {
    fn raise(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn wait(&self) {
        self.wait_until(|| self.0.load(Ordering::SeqCst));
    }

    fn wait_until(&self, what: impl Fn() -> bool) {
        let patience = Instant::now() + Duration::from_secs(30);
        while !what() && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A model that reads the shared file, says so, waits, edits it and says that.
fn editor(name: &'static str, has_read: Flag, may_write: Flag, is_done: Flag) -> Server {
    Server::start(move |request, _| match results(request).len() {
        0 => call("x1", "read_file", json!({"path": "shared.txt"})),
        1 => {
            has_read.raise();
            may_write.wait();
            let edits = json!([{"old": "line", "new": format!("{name} line")}]);
            call("x2", "edit_file", json!({"path": "shared.txt", "edits": edits}))
        }
        _ => {
            is_done.raise();
            Reply::text(results(request).last().unwrap())
        }
    })
}

#[test]
fn of_two_processes_that_edit_one_file_the_second_is_told_and_overwrites_nothing() {
    // Two users, so that no lock in a state folder keeps them apart: both read before either writes.
    let (first_read, second_read, first_done, last) = <(Flag, Flag, Flag, Flag)>::default();
    let one = editor("first", first_read.clone(), second_read.clone(), first_done.clone());
    let two = editor("second", second_read, first_done, last);
    let patient =
        |server: &Server| config(&server.url()).replace("idle_timeout_ms = 400", "idle_timeout_ms = 30000");
    let (mine, theirs) = (Env::new(), Env::new());
    mine.config(&patient(&one)).write("work/shared.txt", "a line\n");
    theirs.config(&patient(&two));
    let work = mine.work();
    let first = mine.command(&["run", "edit", "--yes"]).spawn().unwrap();
    let second = theirs.run(&["run", "edit", "--yes", "--workspace", work.to_str().unwrap()]);
    let first = first.wait_with_output().unwrap();
    assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));
    assert_eq!(std::fs::read_to_string(work.join("shared.txt")).unwrap(), "a first line\n");
    assert_eq!(second.code, 0, "{second}");
    assert!(second.stdout.contains("`shared.txt` has changed since you last read it"), "{second}");
}
