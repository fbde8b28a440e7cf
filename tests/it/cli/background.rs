//! Commands in the background through the real program: reached by other calls, read, stopped, and gone with agon.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use super::run::{entries, kinds, log, scripted, started};
use crate::support::env::Env;

/// The call that the first command in the background of these scripts has.
const NUMBER: u64 = 5;

fn answer(tool: &str, args: &str) -> String {
    format!(
        "[[answer]]\nspark = \"solo\"\ntext = \"next\"\ncalls = [{{ tool = \"{tool}\", args = {{ {args} }} }}]\n"
    )
}

const DONE: &str = "[[answer]]\nspark = \"solo\"\ntext = \"done\"\n";

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The contents of the results of tools, in order.
fn results(env: &Env) -> Vec<String> {
    let log = entries(&log(env));
    let events = log.iter().flat_map(|entry| entry["events"].as_array().unwrap());
    let ended = events.filter(|event| event["kind"] == "tool_resolved");
    ended.map(|event| event["data"]["body"]["content"].as_str().unwrap().to_owned()).collect()
}

/// One of the system's, which every sandbox shows.
const PYTHON: &str = "/usr/bin/python3";

fn has_python() -> bool {
    let has = std::path::Path::new(PYTHON).exists();
    if !has {
        println!("skipped: there is no python3");
    }
    has
}

#[test]
fn other_calls_reach_what_runs_in_the_background_until_it_is_stopped() {
    if !has_python() {
        return;
    }
    for sandbox in ["local", "none"] {
        let port = free_port();
        let serve = format!("echo serving; exec {PYTHON} -m http.server {port} --bind 127.0.0.1");
        let fetch = format!("curl -sS --noproxy '*' http://127.0.0.1:{port}/page.txt");
        let script = [
            answer("bash", &format!("command = \"{serve}\", background = true")),
            answer("bash", &format!("command = \"{fetch}\"")),
            answer("bash_output", &format!("id = {NUMBER}, wait_ms = 1")),
            answer("bash_stop", &format!("id = {NUMBER}")),
            answer("bash", &format!("command = \"{fetch}\"")),
            DONE.to_owned(),
        ];
        let env = scripted(&script.concat());
        env.write("work/page.txt", "a page\n");
        let ran = env.run(&["run", "serve", "--yes", "--sandbox", sandbox]);
        if sandbox == "local" && ran.code == 2 {
            println!("skipped: {ran}");
            continue;
        }
        assert_eq!(ran.code, 0, "{ran}");
        let said = results(&env);
        // Without a sandbox, ports that others opened meanwhile are named too.
        assert!(
            said[0].contains("listening on port")
                && said[0].contains(&port.to_string())
                && said[0].contains("serving"),
            "{said:?}"
        );
        assert!(said[1].contains("exit code 0") && said[1].contains("a page"), "{said:?}");
        assert!(said[2].contains("running in the background"), "{said:?}");
        assert!(!said[3].contains("exit code 0"), "it is stopped: {said:?}");
        let log = log(&env);
        assert!(log.contains("\"how\":\"stopped\"") && log.contains("the agent stopped it"), "{log}");
        assert_eq!(env.run(&["verify", "latest"]).code, 0);
    }
}

#[test]
fn what_cannot_run_in_the_background_says_why_at_once() {
    let script = [
        answer("bash", "command = \"echo no such thing >&2; exit 3\", background = true"),
        answer("bash_output", "id = 99"),
        answer("bash_stop", "id = 99"),
        answer("bash", "command = \"(sleep 60 &) ; echo forked\", background = true"),
        DONE.to_owned(),
    ];
    let env = scripted(&script.concat());
    let ran = env.run(&["run", "try", "--yes", "--sandbox", "none"]);
    assert_eq!(ran.code, 0, "{ran}");
    let said = results(&env);
    assert!(said[0].contains("ended: exit code 3") && said[0].contains("no such thing"), "{said:?}");
    assert!(said[1].contains("no command runs in the background as 99; running: nothing"), "{said:?}");
    assert!(said[2].contains("start a server without `&`"), "{said:?}");
    assert!(log(&env).contains("no command runs in the background as 99; running: nothing"));
}

/// Killed in the middle agon can end nothing: what ran in the background ends by itself, and a resume says so.
#[test]
fn a_command_in_the_background_ends_with_a_killed_agon_and_a_resume_says_so() {
    let beats = "while :; do echo x >>beat; sleep 0.05; done";
    let waits = format!("{}delay_ms = 60000\n", DONE);
    let env = scripted(&(answer("bash", &format!("command = \"{beats}\", background = true")) + &waits));
    let mut child = started(&env, &["run", "beat", "--yes", "--sandbox", "none"], "tool_resolved");
    child.kill().unwrap();
    child.wait().unwrap();
    let length = || std::fs::metadata(env.work().join("beat")).map_or(0, |data| data.len());
    assert!(length() > 0, "it ran");
    let (end, mut last) = (Instant::now() + Duration::from_secs(60), 0);
    while length() != last {
        assert!(Instant::now() < end, "it still runs");
        last = length();
        std::thread::sleep(Duration::from_secs(1));
    }
    env.write("home/mock.toml", &(answer("bash", "command = \"true\"") + DONE + DONE));
    let ran = env.run(&["resume", "latest", "--yes", "--sandbox", "none"]);
    assert_eq!(ran.code, 0, "{ran}");
    let log = entries(&log(&env));
    let resumed = log.iter().find(|entry| kinds(entry)[0] == "session_resumed").unwrap();
    let told = resumed.to_string();
    assert!(
        told.contains("call_lost") && told.contains(&format!("Command {NUMBER} in the background")),
        "{told}"
    );
    assert_eq!(env.run(&["verify", "latest"]).code, 0);
}
