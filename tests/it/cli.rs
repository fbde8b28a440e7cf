//! Tests of the command line through the real program: help, arguments, exit codes, streams.

mod background;
mod foreign;
mod foreign_words;
mod forks;
mod habits;
mod levels;
mod lines;
mod many;
mod mentions;
mod on_terminal;
mod policy;
mod prices;
mod pull;
mod rights;
pub(crate) mod run;
mod secrets;
mod setup;
mod takeup;
mod why;
mod words;

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use clap::CommandFactory;

use crate::support::env::{Env, is_root};

/// The help of a command and of all commands beneath it.
fn whole_help(command: &mut clap::Command, text: &mut String) {
    *text += &format!(
        "===== {}\n{}\n",
        command.get_bin_name().unwrap_or_default().to_owned(),
        command.render_long_help()
    );
    for inner in command.get_subcommands_mut().filter(|inner| inner.get_name() != "help") {
        whole_help(inner, text);
    }
}

#[test]
fn the_whole_help() {
    let mut command = agon::cli::args::Typed::command().term_width(100);
    command.build();
    let mut text = String::new();
    whole_help(&mut command, &mut text);
    insta::assert_snapshot!(text);
}

#[test]
fn help_lines_are_imperative_sentences_without_a_full_stop() {
    fn check(command: &clap::Command) {
        for argument in command.get_arguments() {
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            assert!(!help.is_empty(), "`{} {}` has no help", command.get_name(), argument.get_id());
            assert!(!help.ends_with('.'), "`{} {}`: {help}", command.get_name(), argument.get_id());
        }
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        assert!(!about.is_empty() && !about.ends_with('.'), "`{}`: {about}", command.get_name());
        command.get_subcommands().for_each(check);
    }
    check(&agon::cli::args::Typed::command());
}

#[test]
fn version_and_help_are_data() {
    let env = Env::new();
    let version = concat!("agon ", env!("CARGO_PKG_VERSION"), "\n");
    for arguments in [&["--version"][..], &["-V"]] {
        let ran = env.run(arguments);
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, version, ""));
    }
    let ran = env.run(&["--help"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert!(ran.stdout.contains("Exit codes:"), "{ran}");
}

#[test]
fn the_version_needs_no_home_and_no_environment() {
    let mut command = Env::new().command(&["--version"]);
    command.env_clear().current_dir("/");
    assert!(command.output().unwrap().status.success());
}

#[test]
fn bad_usage_is_exit_2_with_nothing_on_standard_output() {
    let env = Env::new();
    for arguments in [
        &[][..],
        &["walk"],
        &["run", "--modle", "a/b", "x"],
        &["run", "x", "--max-tokens", "-1"],
        &["run", "x", "--max-usd", "1e3"],
        &["run", "x", "--signals"],
        &["run", "x", "-m", "gpt-5"],
        &["run", "x", "--workspace", "/nowhere/at/all"],
        &["run", "x", "--workspace", "/dev/null"],
        &["run", "x", "--sandbox", "glass"],
        &["schema", "nothing"],
        &["completions", "cmd"],
        &["personas", "show", "sole"],
        &["config", "trust"],
    ] {
        let ran = env.run(arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{arguments:?}\n{ran}");
        assert!(!ran.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn similar_names_are_suggested() {
    let env = Env::new();
    assert!(env.run(&["run", "--modle", "a/b", "x"]).stderr.contains("--model"));
    assert!(env.run(&["personas", "show", "sole"]).stderr.contains("did you mean `solo`?"));
    let ran = env.run(&["run", "x", "-m", "opnai/gpt-5"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("did you mean `openai`?"), "{ran}");
}

#[test]
fn an_empty_prompt_is_exit_2() {
    let env = Env::new();
    for (arguments, input) in [(&["run"][..], ""), (&["run", ""], ""), (&["run", " "], "\n \n")] {
        let ran = env.run_with(arguments, input.as_bytes());
        assert_eq!(ran.code, 2, "{ran}");
        assert!(ran.stderr.starts_with("error: the prompt is empty\nhint: "), "{ran}");
    }
}

#[test]
fn input_that_is_too_long_or_no_text_is_exit_2() {
    let env = Env::new();
    let ran = env.run_with(&["run", "x"], &vec![b'a'; 512 * 1024 + 1]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("standard input has more than 524288 bytes"), "{ran}");
    assert_eq!(env.run_with(&["run", "x"], &[0xff, 0xfe]).code, 2);
}

#[test]
fn an_output_schema_must_be_a_schema() {
    let env = Env::new();
    for (text, said) in [
        ("{\"type\": \"objekt\"}", "is not a JSON Schema"),
        ("{\"type\": ", "is not a JSON Schema"),
        ("true", "must be a JSON object"),
    ] {
        env.write("work/schema.json", text);
        let ran = env.run(&["run", "x", "--output-schema", "schema.json"]);
        assert_eq!(ran.code, 2, "{ran}");
        assert!(ran.stderr.contains(said), "{ran}");
    }
    let ran = env.run(&["run", "x", "--output-schema", "missing.json"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (2, "error: there is no file `missing.json`\n"));
}

#[test]
fn a_policy_file_must_be_a_policy() {
    let env = Env::new();
    env.write("work/policy.toml", "[[rules]]\nname = \"a\"\naction = \"maybe\"\n");
    let ran = env.run(&["run", "x", "--policy", "policy.toml"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.starts_with("error: `policy.toml` line 3: "), "{ran}");
}

#[test]
fn schemas_are_json_schemas() {
    let env = Env::new();
    for kind in ["events", "commands", "signals", "config", "policy", "report"] {
        let ran = env.run(&["schema", kind]);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{kind}");
        let schema: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        jsonschema::validator_for(&schema).unwrap();
    }
    assert_eq!(env.run(&["schema", "config"]).stdout, env.run(&["config", "schema"]).stdout);
}

#[test]
fn the_event_schema_accepts_an_entry_and_knows_every_kind() {
    use agon::protocol::event::{CATALOGUE, StopRequested};
    use agon::protocol::{ArenaEvent, Entry, Fact, StopCause};
    let schema: serde_json::Value = serde_json::from_str(&Env::new().run(&["schema"]).stdout).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let fact = Fact::new(ArenaEvent::StopRequested(StopRequested { cause: StopCause::Finished })).unwrap();
    let mut entry = serde_json::to_value(Entry::new(0, 1, fact, vec![])).unwrap();
    assert!(validator.is_valid(&entry));
    entry["events"][0]["data"]["cause"] = "tired".into();
    assert!(!validator.is_valid(&entry));
    let text = schema.to_string();
    assert!(CATALOGUE.iter().all(|kind| text.contains(&format!("\"const\":\"{}\"", kind.kind))));
}

#[test]
fn completions_exist_for_every_shell() {
    let env = Env::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = env.run(&["completions", shell]);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{shell}");
        assert!(ran.stdout.contains("AGON_COMPLETE"), "{shell}");
    }
}

#[test]
fn personas_are_listed_and_a_broken_file_is_named_beside_them() {
    let env = Env::new();
    env.write("home/personas/critic.md", "---\ndescription: Finds faults\n---\nFind faults.\n");
    env.write("home/personas/broken.md", "---\nno end\n");
    insta::assert_snapshot!(env.run(&["personas", "list"]));
}

#[test]
fn what_others_wrote_cannot_steer_the_terminal() {
    let env = Env::new();
    env.write("home/personas/bad.md", "\u{1b}]0;owned\u{7}\u{1b}[2Jhello\n");
    let ran = env.run(&["personas", "show", "bad"]);
    assert!(!ran.stdout.contains('\u{1b}') && ran.stdout.contains("hello"), "{ran:?}");
}

#[test]
fn nothing_is_coloured_without_a_terminal() {
    let mut env = Env::new();
    env.set("NO_COLOR", "1");
    for arguments in [&["--help"][..], &["walk"], &["run"], &["personas", "show", "x"], &["doctor"]] {
        assert!(!env.run(arguments).to_string().contains('\u{1b}'), "{arguments:?}");
    }
}

#[test]
fn a_reader_that_goes_away_is_a_clean_end() {
    let env = Env::new();
    let mut child = env.command(&["schema", "events"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn doctor_reports_a_state_folder_that_cannot_be_written() {
    let env = Env::new();
    if is_root(&env.home()) {
        println!("skipped: permission bits do not stop root");
        return;
    }
    std::fs::set_permissions(env.home(), std::fs::Permissions::from_mode(0o500)).unwrap();
    let ran = env.run(&["doctor"]);
    std::fs::set_permissions(env.home(), std::fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(ran.code, 2, "{ran}");
    assert!(ran.stdout.contains("broken   state folder     `[HOME]` cannot be written"), "{ran}");
}

#[test]
fn doctor_leaves_nothing_behind_and_reports_a_bad_configuration() {
    let env = Env::new();
    env.config("nonsense = 1\n");
    let ran = env.run(&["doctor", "--json"]);
    assert_eq!(ran.code, 2, "{ran}");
    let checks: Vec<serde_json::Value> = serde_json::from_str(&ran.stdout).unwrap();
    let configuration = checks.iter().find(|check| check["name"] == "configuration").unwrap();
    assert_eq!(configuration["verdict"], "broken");
    let files: Vec<_> =
        std::fs::read_dir(env.home()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(files, ["config.toml"]);
}
