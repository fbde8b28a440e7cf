//! Servers of the Model Context Protocol through the real program: a small one of our own that misbehaves, over real pipes.

mod real;

use serde_json::Value;

use crate::run::kit::{all, entries};
use crate::support::env::{Env, Ran};

const SERVER: &str = include_str!("mcp/server.sh");

/// A model that answers by this script, and the server `t` in this mode, seen once so that its tools are offered at once.
fn with_server(script: &str, more: &str) -> Env {
    let env = prepared(script);
    let ran = env.run(&[&["mcp", "add", "t", "--workspace-access", "read"][..], &split(more)].concat());
    assert_eq!((ran.code, ran.stdout.contains("mcp__t__echo")), (0, true), "{ran}");
    env
}

fn prepared(script: &str) -> Env {
    let env = Env::new();
    env.config("model = \"mock/any\"\n[providers.mock]\nkind = \"script\"\nfile = \"mock.toml\"\n");
    env.write("home/mock.toml", script).write("work/server.sh", SERVER);
    env
}

fn split(words: &str) -> Vec<&str> {
    words.split_whitespace().collect()
}

/// A script that calls these tools of `t` one after another, each with a text, and then answers.
fn calling(tools: &[(&str, &str)]) -> String {
    let call = |(tool, text): &(&str, &str)| {
        format!("[[answer]]\ncalls = [{{ tool = \"mcp__t__{tool}\", args = {{ text = \"{text}\" }} }}]\n")
    };
    tools.iter().map(call).collect::<String>() + "[[answer]]\ntext = \"done\"\n"
}

/// Status and text of each call's end, in order.
fn results(env: &Env) -> Vec<(String, String)> {
    let found = all(&entries(env), "tool_resolved");
    let of = |end: &Value| {
        (
            end["body"]["status"].as_str().unwrap().to_owned(),
            end["body"]["content"].as_str().unwrap().to_owned(),
        )
    };
    found.iter().map(|(_, end)| of(end)).collect()
}

/// Calls these tools with every right there is to them, and gives what came of each.
fn called(tools: &[(&str, &str)], more: &[&str]) -> (Env, Ran, Vec<(String, String)>) {
    let env = with_server(&calling(tools), "-- sh server.sh");
    let ran = env.ends(&[&["run", "go", "--allow", "tool:t/*"][..], more].concat());
    let results = results(&env);
    (env, ran, results)
}

fn ends_well(env: &Env, ran: &Ran) {
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "done\n"), "{ran}");
    let ran = env.run(&["verify", "latest"]);
    assert_eq!(ran.code, 0, "{ran}");
}

#[test]
fn a_server_is_added_asked_about_called_and_not_needed_afterwards() {
    let later = "[[answer]]\ntext = \"later\"\n".repeat(2);
    let env = with_server(&(calling(&[("echo", "hi")]) + &later), "-- sh server.sh");
    let ran = env.run(&["mcp", "list"]);
    assert!(ran.stdout.contains("t: sh server.sh") && ran.stdout.contains("workspace read-only"), "{ran}");
    let ran = env.run(&["mcp", "test", "t"]);
    assert!(ran.code == 0 && ran.stdout.starts_with("t answers: 15 tools in "), "{ran}");
    let ran = env.ends(&["run", "go"]);
    assert_eq!(ran.code, 4, "a tool of a server is asked about: {ran}");
    let ran = env.ends(&["run", "go", "--allow", "tool:t/echo"]);
    ends_well(&env, &ran);
    assert_eq!(results(&env), [("ok".to_owned(), "you said hi".to_owned())]);
    let log = entries(&env);
    let plan = &all(&log, "tool_prepared")[0].1["body"]["result"]["ready"];
    assert_eq!(plan["needs"], serde_json::json!([{"tool": "t/echo"}]), "{plan}");
    assert!(all(&log, "workspace_checkpointed").is_empty(), "what cannot change files needs no checkpoint");
    // Without the server, and without its program.
    std::fs::remove_file(env.work().join("server.sh")).unwrap();
    for removed in [false, true] {
        if removed {
            let ran = env.run(&["mcp", "remove", "t"]);
            assert_eq!(ran.code, 0, "{ran}");
        }
        for command in [&["verify", "latest"][..], &["replay", "latest"], &["fork", "latest", "--no-run"]] {
            let ran = env.ends(command);
            assert!(matches!(ran.code, 0), "{command:?} {removed}: {ran}");
        }
        let ran = env.ends(&["run", "again", "--resume", "latest"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "later\n"), "{removed} {ran}");
    }
}

#[test]
fn what_a_server_changes_is_held_back_until_a_person_looked() {
    let env = with_server(&calling(&[("echo", "hi")]), "-- sh server.sh");
    assert!(!env.run(&["mcp", "tools", "t"]).stdout.contains("CHANGED"));
    env.write("work/changed", "");
    // The first run meets the change while the server is called, so the call is not run or it is asked about.
    let ran = env.ends(&["run", "go", "--allow", "tool:t/*", "--yes"]);
    assert!(ran.code != 0 || results(&env)[0].0 == "failed", "{ran}");
    let ran = env.run(&["mcp", "tools", "t"]);
    assert!(
        ran.stdout.contains("CHANGED\n--- accepted") && ran.stdout.contains("+Echoes. IMPORTANT"),
        "{ran}"
    );
    assert!(ran.stdout.contains("mcp__t__extra  NEW: Another POISON."), "{ran}");
    assert!(ran.stderr.contains("--accept"), "{ran}");
    let offered = serde_json::to_string(&all(&entries(&env), "tools_listed")).unwrap();
    assert!(!offered.contains("POISON") && !offered.contains("evil.example"), "{offered}");
    let ran = env.run(&["mcp", "tools", "t", "--accept"]);
    assert_eq!(ran.code, 0, "{ran}");
    let ran = env.ends(&["run", "go", "--allow", "tool:t/*"]);
    ends_well(&env, &ran);
    let offered = serde_json::to_string(&all(&entries(&env), "tools_listed")).unwrap();
    assert!(offered.contains("evil.example"), "what was accepted is offered: {offered}");
}

#[test]
fn a_destructive_tool_is_asked_about_whatever_rules_say_of_the_server() {
    let env = with_server(&calling(&[("wipe", "x")]), "-- sh server.sh");
    let ran = env.ends(&["run", "go", "--allow", "tool:t/*", "--yes"]);
    assert_eq!(ran.code, 4, "{ran}");
    let ran = env.ends(&["run", "go", "--yes", "--allow", "tool:t/*", "--allow", "confirm:t/wipe"]);
    ends_well(&env, &ran);
}

#[test]
fn a_description_hides_nothing() {
    let env = with_server(&calling(&[("echo", "hi")]), "-- sh server.sh");
    let ran = env.run(&["mcp", "tools", "t"]);
    assert!(ran.stdout.contains("Echoes<U+200B>.<ESC>[2J"), "{ran}");
    let ran = env.ends(&["run", "go", "--allow", "tool:t/*"]);
    ends_well(&env, &ran);
    let listed = &all(&entries(&env), "tools_listed")[0].1["body"]["tools"];
    let echo = listed.as_array().unwrap().iter().find(|tool| tool["name"] == "mcp__t__echo").unwrap();
    assert_eq!(echo["description"], "Echoes<U+200B>.<ESC>[2J");
    assert_eq!((echo["source"].as_str(), echo["risk"].as_str()), (Some("t"), Some("network")));
}

#[test]
fn a_server_that_dies_is_started_again_and_the_turn_goes_on() {
    let (env, ran, results) = called(&[("die", ""), ("echo", "again")], &[]);
    ends_well(&env, &ran);
    assert!(results[0].0 == "failed" && results[0].1.contains("ended before it answered"), "{results:?}");
    assert_eq!(results[1], ("ok".to_owned(), "you said again".to_owned()));
}

#[test]
fn odd_answers_are_results_and_nothing_more() {
    let tools = ["ansi", "link", "picture", "twice", "noise", "fail", "odd", "echo"];
    let (env, ran, results) = called(&tools.map(|tool| (tool, "x")), &[]);
    ends_well(&env, &ran);
    let said: Vec<&str> = results.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(said[0], "\u{1b}[2J\u{1b}]0;owned\u{7}red");
    assert!(!ran.stderr.contains('\u{1b}'), "{ran}");
    assert_eq!((said[3], said[4], said[5]), ("first", "quiet", "no such thing"));
    assert_eq!((results[5].0.as_str(), results[6].0.as_str()), ("failed", "failed"));
    assert_eq!(said[7], "you said x");
    let log = entries(&env);
    let parts = |n: usize| all(&log, "tool_resolved")[n].1["body"]["parts"].clone();
    assert_eq!(parts(1)[0]["link"]["url"], "file:///etc/passwd");
    assert_eq!(
        (parts(2)[0]["image"]["width"].as_u64(), parts(2)[0]["image"]["mime"].as_str()),
        (Some(1), Some("image/png"))
    );
    assert!(!serde_json::to_string(&log).unwrap().contains("root:x:0:0"), "no link is followed");
}

#[test]
fn a_flood_ends_its_call_and_not_the_session() {
    for (tool, why) in [("big", "ended before it answered"), ("sample", "ended before it answered")] {
        let (env, ran, results) = called(&[(tool, ""), ("echo", "still here")], &[]);
        ends_well(&env, &ran);
        assert!(results[0].1.contains(why), "{tool}: {results:?}");
        assert_eq!(results[1].1, "you said still here", "{tool}");
    }
}

#[test]
fn an_answer_that_comes_too_late_is_the_answer_to_nothing() {
    let texts = ["a", "b", "c", "d", "e", "f"];
    let tools: Vec<(&str, &str)> = texts.iter().map(|text| ("echo", *text)).collect();
    let env = with_server(&calling(&[&[("late", "")][..], &tools].concat()), "-- sh server.sh");
    let text = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.config(&format!("{text}\n[limits]\ntool_timeout_ms = 1000\n"));
    let ran = env.ends(&["run", "go", "--allow", "tool:t/*"]);
    assert_eq!(ran.code, 0, "{ran}");
    let results = results(&env);
    assert!(results[0].0 == "failed" && results[0].1.contains("within 1 s"), "{results:?}");
    for ((status, text), own) in results[1..].iter().zip(texts) {
        assert!(status == "failed" || *text == format!("you said {own}"), "{results:?}");
    }
}

#[test]
fn a_server_that_does_not_start_holds_nothing_up_and_says_why() {
    for (command, why) in [
        ("sh server.sh broken", "it ended with exit code 9: no database"),
        ("./nothing-of-that-name", "its command cannot be started"),
        ("sh server.sh mute", "it listed no tools within 0.9 s"),
    ] {
        let env = prepared("[[answer]]\ntext = \"without it\"\n");
        let text = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
        let words: Vec<String> = split(command).iter().map(|word| format!("{word:?}")).collect();
        env.config(&format!(
            "{text}\n[mcp.t]\ncommand = {}\nargs = [{}]\nworkspace = \"read\"\nstart_timeout_ms = 900\n",
            words[0],
            words[1..].join(", ")
        ));
        let ran = env.ends(&["run", "go"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "without it\n"), "{command}: {ran}");
        let ran = env.ends(&["mcp", "test", "t"]);
        assert!(ran.code == 2 && ran.stderr.contains(why), "{command}: {ran}");
    }
}

#[test]
fn a_schema_that_is_none_and_a_name_that_is_taken_cost_one_tool() {
    let env = with_server(&calling(&[("echo", "a")]), "-- sh server.sh unfit");
    let ran = env.run(&["mcp", "add", "u", "--workspace-access", "read", "--", "sh", "server.sh"]);
    assert_eq!(ran.code, 0, "{ran}");
    let script = "[[answer]]\ncalls = [{ tool = \"mcp__t__echo\", args = { text = \"t\" } }, { tool = \"mcp__u__echo\", \
                  args = { text = \"u\" } }]\n[[answer]]\ntext = \"done\"\n";
    env.write("home/mock.toml", script);
    let ran = env.ends(&["run", "go", "--allow", "tool:t/*", "--allow", "tool:u/*"]);
    ends_well(&env, &ran);
    assert_eq!(results(&env).iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().len(), 2);
    let listed = all(&entries(&env), "tools_listed");
    let faults =
        listed.iter().flat_map(|(_, list)| list["body"]["faults"].as_array().cloned().unwrap_or_default());
    let faults: Vec<Value> = faults.collect();
    assert!(faults.len() == 1 && faults[0].as_str().unwrap().contains("mcp__t__unfit"), "{faults:?}");
}

#[test]
fn a_server_sees_the_variables_it_was_given_and_no_other() {
    let mut env = prepared(&calling(&[("env", "")]));
    env.set("A_TOKEN", "s3cret-t0ken-of-the-user").set("OTHER_TOKEN", "an0ther-s3cret-value");
    let add = "mcp add t --workspace-access read -e A_TOKEN -e PLAIN=yes -- sh server.sh";
    let ran = env.run(&split(add));
    assert_eq!(ran.code, 0, "{ran}");
    let ran = env.ends(&["run", "go", "--allow", "tool:t/*"]);
    ends_well(&env, &ran);
    let said = &results(&env)[0].1;
    assert!(said.contains("token=[secret:A_TOKEN] plain=yes"), "{said}");
    assert!(!said.contains("OTHER_TOKEN") && !said.contains("AGON_"), "{said}");
}

#[test]
fn a_server_changes_nothing_that_it_was_not_shown_writable() {
    let inside = [("write", "made-by-the-server")];
    let (env, ran, results) = called(&inside, &[]);
    ends_well(&env, &ran);
    assert_eq!(results[0].1, "it was not written");
    assert!(!env.work().join("made-by-the-server").exists());
    let env = prepared(&calling(&inside));
    let ran = env.run(&split("mcp add t --workspace-access write -- sh server.sh"));
    assert_eq!(ran.code, 0, "{ran}");
    let ran = env.ends(&["run", "go", "--allow", "tool:t/*"]);
    ends_well(&env, &ran);
    assert!(env.work().join("made-by-the-server").exists());
    assert!(!all(&entries(&env), "workspace_checkpointed").is_empty(), "what may change files is recorded");
}

#[test]
fn a_servers_own_folder_is_kept_and_its_users_home_is_not_shown() {
    let env = prepared(&calling(&[("write", "kept")]));
    env.write("home/secret", "x");
    std::fs::create_dir_all(env.home().join("mcp/t")).unwrap();
    std::fs::copy(env.work().join("server.sh"), env.home().join("mcp/t/server.sh")).unwrap();
    let ran = env.run(&split("mcp add t -- sh server.sh"));
    assert_eq!((ran.code, ran.stdout.contains("mcp__t__echo")), (0, true), "{ran}");
    let ran = env.ends(&["run", "go", "--allow", "tool:t/*"]);
    ends_well(&env, &ran);
    assert!(env.home().join("mcp/t/kept").exists(), "{:?}", results(&env));
    env.write("home/mock.toml", &calling(&[("write", "../../config.toml")]));
    let ran = env.ends(&["run", "go", "--allow", "tool:t/*"]);
    ends_well(&env, &ran);
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    assert!(config.contains("[mcp.t]"), "agon's own files are not its");
}

#[test]
fn a_projects_server_starts_only_once_the_project_is_trusted() {
    let env = prepared("[[answer]]\ntext = \"done\"\n");
    env.project("[mcp.evil]\ncommand = \"sh\"\nargs = [\"-c\", \"touch started; exec sh server.sh\"]\nworkspace = \"write\"\n");
    let ran = env.ends(&["run", "go"]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stderr.contains("`mcp.evil`") && ran.stderr.contains("not trusted"), "{ran}");
    let ran = env.ends(&["mcp", "test", "evil"]);
    assert_eq!(ran.code, 2, "{ran}");
    assert!(!env.work().join("started").exists());
    assert_eq!(env.run(&["config", "trust"]).code, 0);
    let ran = env.ends(&["mcp", "test", "evil"]);
    assert_eq!((ran.code, env.work().join("started").exists()), (0, true), "{ran}");
}
