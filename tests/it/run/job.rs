//! The main job: a task on a small real project, over HTTP, until the project's own test passes; then its log.

use std::process::Command;

use serde_json::{Value, json};

use super::kit::*;
use crate::support::answers;
use crate::support::env::Env;
use crate::support::server::{Reply, Server};

const SUM: &str = "# adds two numbers\necho $(( $1 - $2 ))\n";
/// Prints a word that only this run of the tests knows, so that no server can guess the output.
const TEST: &str = "got=$(sh sum.sh 2 3)\nif [ \"$got\" = 5 ]; then echo \"pass $(cat word)\"; else echo \"FAIL $(cat word): 2 + 3 gives $got\"; exit 1; fi\n";

/// Goes on only when the request shows what really happened; says where it would go otherwise.
fn respond(request: &Value, word: &str) -> Reply {
    let seen = results(request);
    let needs: [&[&str]; 4] = [
        &[],
        &["echo $(( $1 - $2 ))", &format!("FAIL {word}: 2 + 3 gives -1")],
        &["+echo $(( $1 + $2 ))"],
        &[&format!("pass {word}")],
    ];
    let step = answers(request);
    let Some(needed) = needs.get(step) else { return Reply::text("I have gone too far.") };
    for (text, shown) in needed.iter().zip(seen.iter().rev().take(needed.len()).rev()) {
        if !shown.contains(text) {
            return Reply::status(
                400,
                &json!({"error": {"message": format!("`{text}` was not shown: {shown}")}}).to_string(),
            );
        }
    }
    let edit = json!({"path": "sum.sh", "edits": [{"old": "$1 - $2", "new": "$1 + $2"}]});
    match step {
        0 => Reply::calls_with_ids([
            ("a1".to_owned(), "read_file", json!({"path": "sum.sh"}).to_string()),
            ("a2".to_owned(), "bash", json!({"command": "sh test.sh"}).to_string()),
        ])
        .with_usage(1000, 50),
        1 => call("b1", "edit_file", edit).with_usage(2000, 60),
        2 => call("c1", "bash", json!({"command": "sh test.sh"})).with_usage(3000, 70),
        _ => Reply::text("The sum is right now: test.sh passes.").with_usage(4000, 80),
    }
}

/// The project mended once by the real program; the server lives as long as this.
struct Mended {
    server: Server,
    env: Env,
    word: String,
}

fn mended() -> Mended {
    let word = uuid::Uuid::now_v7().simple().to_string();
    let known = word.clone();
    let server = Server::start(move |request, _| respond(request, &known));
    let env = served(&server);
    env.write("work/sum.sh", SUM).write("work/test.sh", TEST).write("work/word", &word);
    let ran = env.run(&["run", "make test.sh pass", "--yes"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "The sum is right now: test.sh passes.\n"), "{ran}");
    Mended { server, env, word }
}

fn passes(folder: &std::path::Path) -> bool {
    Command::new("sh").arg("test.sh").current_dir(folder).output().unwrap().status.success()
}

#[test]
fn a_real_project_is_edited_until_its_own_test_passes() {
    let Mended { server, env, .. } = mended();
    assert!(passes(&env.work()));
    let requests = server.bodies();
    assert_eq!(requests.len(), 4);
    let shown = results(&requests[1]);
    assert!(shown[0].starts_with("[e") && shown[1].contains("exit code 1"), "{shown:?}");

    let log = entries(&env);
    let named = |kind: &str, key: &str| -> Vec<String> {
        all(&log, kind).iter().map(|(_, data)| data[key].as_str().unwrap_or_default().to_owned()).collect()
    };
    // The first two are prepared at the same time.
    let mut rules = named("policy_decided", "rule");
    rules[..2].sort();
    assert_eq!(
        rules,
        [
            "default: reading is allowed",
            "default: running commands is asked about",
            "default: writing is asked about",
            "default: running commands is asked about"
        ]
    );
    assert_eq!(named("approval_answered", "by"), ["--yes"; 3], "who allowed each of them");
    assert_eq!(all(&log, "tool_invoked").len(), 4);
    let costs: Vec<u64> =
        all(&log, "budget_settled").iter().map(|(_, data)| data["micro_usd"].as_u64().unwrap()).collect();
    assert_eq!(costs, [1100, 2120, 3140, 4160], "1 $ and 2 $ a million tokens");
    let sealed = all(&log, "session_sealed").remove(0).1;
    assert_eq!(sealed["micro_usd"], 1100 + 2120 + 3140 + 4160);
    nothing_lost(&env);
}

#[test]
fn a_replay_needs_no_server_and_no_workspace() {
    let Mended { server, env, word } = mended();
    drop(server);
    let folder = env.work();
    for file in ["sum.sh", "test.sh", "word"] {
        std::fs::remove_file(folder.join(file)).unwrap();
    }
    let program = env.command(&["replay", "latest"]).current_dir(env.home()).output();
    std::fs::remove_dir(&folder).unwrap();
    let gone = env.command(&["replay", "latest"]).current_dir(env.home()).output().unwrap();
    assert_eq!(gone.stdout, program.unwrap().stdout);
    let (out, err) = (String::from_utf8(gone.stdout).unwrap(), String::from_utf8(gone.stderr).unwrap());
    assert_eq!((gone.status.code(), err.as_str()), (Some(0), ""), "{err}");
    for shown in ["make test.sh pass", "sh test.sh", &format!("pass {word}"), "The sum is right now"] {
        assert!(out.contains(shown), "`{shown}` in {out}");
    }
    let verified = env.command(&["verify", "latest"]).current_dir(env.home()).output().unwrap();
    assert_eq!(verified.status.code(), Some(0));
}

#[test]
fn one_flipped_byte_is_exit_5_and_named() {
    let Mended { env, .. } = mended();
    let file = log_file(&env);
    let whole = std::fs::read(&file).unwrap();
    let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    for seq in [1, lines.len() / 2, lines.len() - 2] {
        let before: usize = lines[..seq].iter().map(|line| line.len()).sum();
        let mut damaged = whole.clone();
        damaged[before + lines[seq].len() / 2] ^= 1;
        std::fs::write(&file, &damaged).unwrap();
        let ran = env.run(&["verify", "latest"]);
        assert_eq!(ran.code, 5, "{ran}");
        assert!(ran.stderr.contains(&format!("damaged at entry {seq} ")), "{ran}");
        let resumed = env.run(&["run", "more", "--resume", "latest"]);
        assert_eq!(resumed.code, 5, "{resumed}");
        assert!(resumed.stderr.contains("hint: "), "{resumed}");
        assert_eq!(std::fs::read(&file).unwrap(), damaged, "nothing is mended in silence");
    }
    std::fs::write(&file, &whole).unwrap();
    assert_eq!(env.run(&["verify", "latest"]).code, 0);
}

#[test]
fn a_fork_on_another_model_works_on_the_files_as_they_were_and_leaves_the_parent_alone() {
    let Mended { server, env, word } = mended();
    let parent_file = log_file(&env);
    let parent = std::fs::read(&parent_file).unwrap();
    let log = entries(&env);
    // The answer that asks for the edit: nothing has been edited yet.
    let at = all(&log, "model_answered")[1].0;
    std::fs::remove_dir_all(env.work()).unwrap();
    let start = |arguments: &[&str]| {
        let output = env.command(arguments).current_dir(env.home()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (code, out, err) =
        start(&["fork", "latest", "--at", &at.to_string(), "--model", "mock/other", "--no-run"]);
    assert_eq!(code, Some(0), "{err}");
    let fork = out.trim().to_owned();
    let folder = env.home().join("forks").join(&fork);
    assert_eq!(std::fs::read_to_string(folder.join("sum.sh")).unwrap(), SUM);
    assert_eq!(std::fs::read_to_string(folder.join("word")).unwrap(), word);
    let asked = server.bodies().len();
    assert_eq!(asked, 4, "nothing is asked without being told to");

    let (code, out, err) = start(&["resume", &fork, "--yes"]);
    assert_eq!((code, out.as_str()), (Some(0), "The sum is right now: test.sh passes.\n"), "{err}");
    assert!(passes(&folder));
    let models: Vec<String> =
        server.bodies()[asked..].iter().map(|body| body["model"].as_str().unwrap().to_owned()).collect();
    assert_eq!(models, ["other"; 2], "only what came after the fork is asked again");
    assert_eq!(std::fs::read(&parent_file).unwrap(), parent, "the parent is byte for byte what it was");
    let own = std::fs::read(env.home().join("sessions").join(&fork).join("log-000000.jsonl")).unwrap();
    let shared =
        parent.split_inclusive(|b| *b == b'\n').take(at as usize + 1).map(<[u8]>::len).sum::<usize>();
    assert_eq!(own[..shared], parent[..shared], "what came before the fork is copied as it stands");
    assert_eq!(start(&["verify", &fork]).0, Some(0));
}
