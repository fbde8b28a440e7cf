//! Servers that nobody here wrote, from the registries of npm and Python, driven by `agon run`.
//!
//! `bash tests/run mcp` installs them and runs this.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use super::results;
use crate::run::kit::{all, entries};
use crate::support::env::{Env, Ran};

/// The folder with the installed servers, which is the workspace too: their sandboxes show nothing else of it.
fn installed() -> PathBuf {
    PathBuf::from(std::env::var_os("AGON_TEST_MCP").expect("bash tests/run mcp says where the servers are"))
}

/// A model that makes these calls, and the servers of these lines: what `agon mcp add` is told.
fn with(servers: &[&str], calls: &[(&str, &str)]) -> Env {
    let env = Env::new();
    env.config("model = \"mock/any\"\n[providers.mock]\nkind = \"script\"\nfile = \"mock.toml\"\n");
    let call = |(tool, args): &(&str, &str)| {
        format!("[[answer]]\ncalls = [{{ tool = \"mcp__{tool}\", args = {args} }}]\n")
    };
    let script = calls.iter().map(call).collect::<String>() + "[[answer]]\ntext = \"done\"\n";
    env.write("home/mock.toml", &script);
    for server in servers {
        let words = ["mcp", "add"].into_iter().chain(server.split_whitespace()).collect::<Vec<_>>();
        let output = env.command(&words).current_dir(installed()).output().unwrap();
        let (said, errors) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && said.contains("mcp__"), "{server}: {said}{errors}");
    }
    env
}

fn go(env: &Env) -> Ran {
    let home = installed();
    let workspace = home.to_str().unwrap();
    env.ends(&["run", "go", "--workspace", workspace, "--yes", "--allow", "tool:*", "--allow", "confirm:*"])
}

/// Gives one page to whoever asks, and no rules for robots; its port.
fn page() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut head) = (stream.unwrap(), [0; 4096]);
            let read = stream.read(&mut head).unwrap_or_default();
            let is_robots = head[..read].starts_with(b"GET /robots.txt");
            let (status, body) =
                if is_robots { ("404 Not Found", "") } else { ("200 OK", "<p>from a page</p>") };
            let answer = format!(
                "HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            // Who has left gets no page.
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    port
}

#[test]
#[ignore = "bash tests/run mcp installs the servers"]
fn five_servers_of_others_answer() {
    let (home, port) = (installed(), page());
    let folder = home.join("files");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("a.txt"), "found by the server").unwrap();
    let made = Command::new("git").args(["init", "-q"]).current_dir(&folder).status().unwrap();
    assert!(made.success());
    let fetch = format!("fetch --workspace-access read --host port:{port} -- py/bin/mcp-server-fetch");
    let servers = [
        "time --workspace-access read -- py/bin/mcp-server-time --local-timezone UTC",
        "git --workspace-access read -- py/bin/mcp-server-git",
        fetch.as_str(),
        "files --workspace-access write -- node node_modules/.bin/mcp-server-filesystem files",
        "all --workspace-access read -- node node_modules/.bin/mcp-server-everything",
    ];
    let status = format!("{{ repo_path = \"{}\" }}", folder.display());
    let url = format!("{{ url = \"http://127.0.0.1:{port}/page\" }}");
    let calls = [
        (
            "time__convert_time",
            "{ source_timezone = \"Europe/Warsaw\", time = \"16:30\", target_timezone = \"Asia/Tokyo\" }",
        ),
        ("git__git_status", status.as_str()),
        ("fetch__fetch", url.as_str()),
        ("files__read_text_file", "{ path = \"files/a.txt\" }"),
        ("files__write_file", "{ path = \"files/b.txt\", content = \"by the server\" }"),
        ("files__read_text_file", "{ path = \"/etc/hostname\" }"),
        ("all__echo", "{ message = \"hello\" }"),
        ("all__get-tiny-image", "{}"),
    ];
    let env = with(&servers, &calls);
    let ran = go(&env);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "done\n"), "{ran} {:#?}", results(&env));
    let results = results(&env);
    let said = ["Asia/Tokyo", "a.txt", "from a page", "found by the server", "b.txt", "denied", "hello", ""];
    for (n, words) in said.iter().enumerate() {
        assert!(results[n].1.contains(words), "{n}: {:?}", results[n]);
    }
    assert_eq!(std::fs::read_to_string(folder.join("b.txt")).unwrap(), "by the server");
    let log = entries(&env);
    let picture = &all(&log, "tool_resolved")[7].1["body"]["parts"][0]["image"];
    assert_eq!(picture["mime"], "image/png", "{picture}");
    let ran = env.run(&["verify", "latest"]);
    assert_eq!(ran.code, 0, "{ran}");
}

#[test]
#[ignore = "bash tests/run mcp installs the servers"]
fn one_that_is_killed_in_the_middle_of_a_call_is_started_again_and_the_turn_goes_on() {
    let slow = ("all__trigger-long-running-operation", "{ duration = 60, steps = 2 }");
    let env = with(
        &["all --workspace-access read -- node node_modules/.bin/mcp-server-everything"],
        &[slow, ("all__echo", "{ message = \"again\" }")],
    );
    let home = installed();
    let arguments = ["run", "go", "--workspace", home.to_str().unwrap(), "--yes", "--allow", "tool:*"];
    let mut run = env.command(&arguments).spawn().unwrap();
    // The call is in the log when it is sent.
    let begun = Instant::now();
    let is_called = || {
        let exported = env.run(&["sessions", "export", "latest"]);
        exported.stdout.contains("tool_invoked")
    };
    while !is_called() {
        assert!(begun.elapsed() < Duration::from_secs(50), "the call is never sent");
        std::thread::sleep(Duration::from_millis(50));
    }
    // The server of this run alone: the youngest that descends from it.
    while !end_server_of(run.id()) {
        assert!(begun.elapsed() < Duration::from_secs(60), "the server is not found");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(run.wait().unwrap().code(), Some(0));
    let results = results(&env);
    assert!(results[0].0 == "failed" && results[0].1.contains("ended before it answered"), "{results:?}");
    assert!(results[1].1.contains("again"), "{results:?}");
}

/// Ends the `node` that descends from a process; false where there is none.
fn end_server_of(ancestor: u32) -> bool {
    let parent = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    let descends =
        |pid: u32| std::iter::successors(Some(pid), |pid| parent(*pid)).take(9).any(|pid| pid == ancestor);
    let processes =
        std::fs::read_dir("/proc").unwrap().filter_map(|one| one.unwrap().file_name().to_str()?.parse().ok());
    let is_node = |pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "node")
    };
    let found = processes.filter(is_node).find(|pid| descends(*pid));
    found.is_some_and(|pid| Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success())
}
