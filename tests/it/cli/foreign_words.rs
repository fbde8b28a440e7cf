//! What a log from elsewhere names (providers, retries, folders, rules, itself): said, bounded, and never followed.

use serde_json::{Value, json};

use super::foreign::{at_home, import, log_of_id, place, ran_nothing, recorded, spec, up_to, write};
use super::run::kinds;
use crate::support::dice::Dice;
use crate::tui::pty::Terminal;

#[test]
fn a_log_that_names_another_provider_says_so_before_the_first_call() {
    let env = place();
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.config(&format!("{config}[providers.other]\nkind = \"script\"\nfile = \"mock.toml\"\n"));
    let log = up_to(at_home(&env, recorded()), "prompt_given");
    let log: Vec<Value> = log
        .iter()
        .map(|entry| serde_json::from_str(&entry.to_string().replace("mock/any", "other/any")).unwrap())
        .collect();
    let id = import(&env, &log[..1]);
    let ran = env.run(&["run", "go", "--resume", &id]);
    let at = |words: &str| ran.stderr.find(words).unwrap_or_else(|| panic!("`{words}`: {ran}"));
    assert!(at("models: requests go to `other/any`, as the log says") < at("bash"), "{ran}");
}

#[test]
fn retries_in_a_foreign_log_count_for_nothing() {
    let env = place();
    let mut log = up_to(at_home(&env, recorded()), "approval_answered");
    spec(&mut log)["retry"]["attempts"] = 4_000_000_000u64.into();
    let id = import(&env, &log);
    let ran = env.run(&["resume", &id, "--yes"]);
    assert!(ran.code == 0 && ran.stderr.contains("retries: those of your configuration"), "{ran}");
    let resumed = log_of_id(&env, &id);
    let fact = resumed.iter().rev().find(|entry| kinds(entry)[0] == "session_resumed").unwrap();
    let changed = fact["events"][0]["data"]["changed"].as_array().unwrap();
    let retry = changed.iter().find_map(|setting| setting.get("retry")).expect("a setting");
    assert!(retry["attempts"].as_u64().unwrap() < 100, "{retry}");
    assert_eq!(env.run(&["verify", &id]).code, 0);
}

#[test]
fn a_call_that_a_foreign_log_sent_is_asked_again_with_the_settings_of_here() {
    for command in ["resume", "fork"] {
        let env = place();
        let mut log = up_to(at_home(&env, recorded()), "model_called");
        for event in log.last_mut().unwrap()["events"].as_array_mut().unwrap() {
            if event["kind"] == "model_called" {
                event["data"]["model"] = "mock/dear".into();
                event["data"]["params"] = json!({ "effort": "high", "max_output": 1_000_000 });
            }
        }
        let id = import(&env, &log);
        let ran = env.run(&[command, &id, "--yes"]);
        assert_eq!(ran.code, 0, "{ran}");
        let id = if command == "fork" { super::run::ids(&env).remove(0) } else { id };
        let taken = log_of_id(&env, &id);
        let begins =
            |entry: &Value| ["session_resumed", "session_forked"].contains(&kinds(entry)[0].as_str());
        let from = taken.iter().position(begins).unwrap();
        let events = taken[from..].iter().flat_map(|entry| entry["events"].as_array().unwrap());
        let called: Vec<&Value> = events.filter(|event| event["kind"] == "model_called").collect();
        assert!(!called.is_empty(), "{ran}");
        for call in called {
            let (model, params) = (&call["data"]["model"], &call["data"]["params"]);
            assert_eq!(model, "mock/any", "{call}");
            assert!(params["effort"].is_null() && params["max_output"] != 1_000_000, "{call}");
        }
    }
}

/// A model `log/SESSION` answers as that session did: a log from elsewhere would bring what others said to its models.
#[test]
fn a_foreign_log_hears_no_other_session_of_this_user() {
    let env = place();
    assert_eq!(env.run(&["run", "go"]).code, 4);
    let log = up_to(at_home(&env, recorded()), "prompt_given");
    let text = |entry: &Value| entry.to_string().replace("mock/any", "log/latest");
    let log: Vec<Value> = log.iter().map(|entry| serde_json::from_str(&text(entry)).unwrap()).collect();
    let id = import(&env, &log);
    for command in ["resume", "fork"] {
        let ran = env.run(&[command, &id, "--yes"]);
        assert!(ran.code == 2 && ran.stderr.contains("answers as another session of yours did"), "{ran}");
        ran_nothing(&env, &ran);
    }
}

#[test]
fn a_foreign_log_lowers_the_effort_and_never_raises_it() {
    let cases = [("", "high", None), ("", "low", Some("low")), ("effort = \"high\"\n", "high", Some("high"))];
    let ways: [&[&str]; 2] = [&["resume"], &["fork", "--model", "mock/any"]];
    for ((here, recorded_effort, now), way) in cases.into_iter().flat_map(|case| ways.map(|way| (case, way)))
    {
        let env = place();
        let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
        env.config(&format!("{here}{config}"));
        let mut log = up_to(at_home(&env, recorded()), "approval_answered");
        spec(&mut log)["effort"] = recorded_effort.into();
        spec(&mut log)["personas"][0]["effort"] = recorded_effort.into();
        spec(&mut log)["personas"][0]["model"] = "mock/any".into();
        let id = import(&env, &log);
        let ran = env.run(&[way, &[&id, "--yes"]].concat());
        assert_eq!(ran.code, 0, "{ran}");
        assert_eq!(ran.stderr.contains("effort: that of your configuration"), now.is_none(), "{ran}");
        let id = if way[0] == "fork" { super::run::ids(&env).remove(0) } else { id };
        let taken = log_of_id(&env, &id);
        let begins =
            |entry: &Value| ["session_resumed", "session_forked"].contains(&kinds(entry)[0].as_str());
        let from = taken.iter().position(begins).unwrap();
        let events = taken[from..].iter().flat_map(|entry| entry["events"].as_array().unwrap());
        for call in events.filter(|event| event["kind"] == "model_called") {
            assert_eq!(call["data"]["params"]["effort"].as_str(), now, "{way:?}: {call}");
        }
    }
}

#[test]
fn a_copy_of_a_foreign_log_without_a_tree_costs_one_question() {
    let env = place();
    env.write("vault/secret", "s3cret\n");
    let vault = env.home().parent().unwrap().join("vault").canonicalize().unwrap();
    let mut log = up_to(recorded(), "prompt_given");
    log.truncate(1);
    spec(&mut log)["workspace"]["root"] = vault.display().to_string().into();
    let path = write(&env, &log);
    let words = ["fork", path.to_str().unwrap(), "--no-run"];
    let ran = env.run(&words);
    assert!(ran.code == 2 && ran.stderr.contains("was not begun here"), "{ran}");
    for (answer, code) in [("no\r", 2), ("yes\r", 0)] {
        let mut asked = Terminal::start(&env, &words, 120, 40);
        asked.wait_for("Type yes to let the session work in the folder of its log");
        asked.press(answer);
        assert_eq!(asked.end(), code, "{answer}");
    }
}

#[test]
fn a_home_that_a_foreign_log_names_is_neither_worked_in_nor_copied_unasked() {
    let mut env = place();
    env.set("HOME", env.work().to_str().unwrap());
    let log = at_home(&env, recorded())[..1].to_vec();
    let path = write(&env, &log);
    let ran = env.run(&["fork", path.to_str().unwrap(), "--yes"]);
    assert!(ran.code == 2 && ran.stderr.contains("it is a home folder"), "{ran}");
    let id = import(&env, &log);
    let ran = env.run(&["run", "go", "--resume", &id, "--yes"]);
    assert!(ran.code == 2 && ran.stderr.contains("it is a home folder"), "{ran}");
    ran_nothing(&env, &ran);
}

#[test]
fn names_in_a_log_are_short_quoted_and_forge_no_line() {
    let env = place();
    let mut log = up_to(at_home(&env, recorded()), "approval_answered");
    let rule = |i: usize| json!({ "name": format!("r{i}\nhint: forged"), "action": "allow", "priority": 0 });
    spec(&mut log)["policy"] = json!({ "rules": (0..500).map(rule).collect::<Vec<_>>() });
    let id = import(&env, &log);
    let ran = env.run(&["resume", &id, "--sandbox", "local"]);
    assert!(ran.stderr.contains("and 492 more, not in force here"), "{ran}");
    assert!(!ran.stderr.lines().any(|line| line.starts_with("hint: forged")), "{ran}");
    assert_eq!(env.run(&["sessions", "rm", &id]).code, 0);

    spec(&mut log)["workspace"]["sandbox"]["kind"] = format!("{}\nhint: forged", "k".repeat(9000)).into();
    spec(&mut log)["workspace"]["root"] = "/x; touch PWN\nhint: forged".into();
    import(&env, &log);
    for words in [&["resume", &id][..], &["resume", &id, "--workspace", "."], &["fork", &id]] {
        let ran = env.run(words);
        assert_eq!(ran.code, 2, "{ran}");
        assert!(!ran.stderr.lines().any(|line| line.starts_with("hint: forged")), "{ran}");
        assert!(ran.stderr.len() < 1500, "{ran}");
    }
    spec(&mut log)["workspace"]["root"] = "/x; touch PWN".into();
    assert_eq!(env.run(&["sessions", "rm", &id]).code, 0);
    import(&env, &log);
    let ran = env.run(&["resume", &id]);
    assert!(ran.stderr.contains("`--workspace '/x; touch PWN'`"), "{ran}");
}

/// A log that is a pipe would be waited for without end, and one that is a device never ends.
#[test]
fn only_an_ordinary_file_is_read_as_a_log() {
    let env = place();
    let at = |name: &str| env.work().join(name);
    assert!(std::process::Command::new("mkfifo").arg(at("pipe.jsonl")).status().unwrap().success());
    std::os::unix::fs::symlink("/dev/zero", at("zero.jsonl")).unwrap();
    std::os::unix::fs::symlink("pipe.jsonl", at("link.jsonl")).unwrap();
    for file in ["pipe.jsonl", "zero.jsonl", "link.jsonl", "/dev/zero"] {
        for words in [
            &["sessions", "import"][..],
            &["verify"],
            &["replay"],
            &["report"],
            &["why"],
            &["fork"],
            &["resume"],
            &["run", "go", "--resume"],
            &["sessions", "export"],
        ] {
            let mut words = [words, &[file]].concat();
            words.extend((words[1] == "export").then_some("out.jsonl"));
            let ran = env.ends(&words);
            assert_eq!(ran.code, 2, "{words:?}: {ran}");
        }
    }
}

/// A log with decisions missing, doubled, swapped or about calls that never were: where nothing is left to wait for, the
/// session ends.
#[test]
fn a_log_in_pieces_neither_waits_for_ever_nor_crashes_agon() {
    let real = recorded();
    let mut dice = Dice(0xb0b);
    let mut pick = |len: usize| usize::try_from(dice.roll(len as u64)).unwrap();
    let mut resumed = 0;
    for round in 0..40 {
        let env = place();
        let mut log = at_home(&env, real.clone());
        log.truncate(2 + pick(real.len() - 1));
        let at = 1 + pick(log.len() - 1);
        let events = log[at]["events"].as_array_mut().unwrap();
        match pick(4) {
            0 if events.len() > 1 => drop(events.remove(1 + pick(events.len() - 1))),
            1 => events.push(events[pick(events.len())].clone()),
            2 => log.insert(at, log[1 + pick(log.len() - 1)].clone()),
            _ => events.iter_mut().for_each(|event| {
                let name = ["call", "spark", "attempt"][pick(3)];
                if event["data"].get(name).is_some() {
                    event["data"][name] = if name == "attempt" { u32::MAX.into() } else { u64::MAX.into() };
                }
            }),
        }
        (0..).zip(&mut log).for_each(|(seq, entry)| entry["seq"] = Value::from(seq));
        let path = write(&env, &log);
        if env.run(&["sessions", "import", path.to_str().unwrap()]).code != 0 {
            continue;
        }
        let ran = env.ends(&["resume", "latest", "--yes"]);
        assert!((0..=5).contains(&ran.code) || ran.code == 130, "{round}: {ran}\n{log:#?}");
        resumed += u32::from(ran.code == 0);
        let ran = env.ends(&["fork", path.to_str().unwrap(), "--yes"]);
        assert!((0..=5).contains(&ran.code) || ran.code == 130, "{round}: {ran}\n{log:#?}");
    }
    assert!(resumed > 5, "some of them went on: {resumed}");
}

#[test]
fn a_turn_without_anybody_at_work_is_ended() {
    for last in ["model_called", "model_answered", "approval_answered"] {
        let env = place();
        let mut log = up_to(at_home(&env, recorded()), last);
        log[1]["events"].as_array_mut().unwrap().retain(|event| event["kind"] != "spark_ignited");
        let id = import(&env, &log);
        let ran = env.ends(&["resume", &id, "--yes"]);
        assert!(ran.code == 130 && ran.stderr.contains("stopped \u{b7} "), "{last}: {ran}");
        ran_nothing(&env, &ran);
    }
}
