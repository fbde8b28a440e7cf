//! Tests of what holds without anybody's word: files with secrets are neither read, searched nor written, and no
//! command gets what the person's shell has open.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::run::{check, log, scripted};
use crate::support::env::Env;
use crate::support::server::{Reply, Server};

/// Reads, searches and writes what holds a secret, and reads what only looks like it.
const CURIOUS: &str = "[[answer]]\nspark = \"solo\"\ncalls = [\
    { tool = \"read_file\", args = { path = \"app/.env.local\" } },\
    { tool = \"grep\", args = { pattern = \"hunter2\" } },\
    { tool = \"write_file\", args = { path = \"deploy.KEY\", content = \"x\" } },\
    { tool = \"read_file\", args = { path = \"environment.rs\" } }]\n\
    [[answer]]\nspark = \"solo\"\ntext = \"done\"\n";

fn curious(config: &str) -> (Env, Vec<(String, String)>) {
    let env = scripted(CURIOUS);
    let before = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.config(&format!("{before}{config}"));
    env.write("work/app/.env.local", "PASSWORD=hunter2\n");
    env.write("work/environment.rs", "// not hunter2\n");
    let ran = env.run(&["run", "--yes", "--json", "look around"]);
    assert_eq!(ran.code, 0, "{ran}");
    let ends = ran.stdout.lines().flat_map(|line| {
        let entry: Value = serde_json::from_str(line).unwrap();
        entry["events"].as_array().unwrap().clone()
    });
    let text = |event: &Value| match event["kind"].as_str().unwrap() {
        "tool_resolved" => Some(event["data"].to_string()),
        "tool_refused" => Some(event["data"].to_string()),
        _ => None,
    };
    let ends = ends.filter_map(|event| Some((event["kind"].as_str()?.to_owned(), text(&event)?))).collect();
    (env, ends)
}

#[test]
fn files_with_secrets_are_neither_read_nor_found_nor_written() {
    let (env, ends) = curious("");
    assert_eq!(ends.iter().filter(|(kind, _)| kind == "tool_refused").count(), 2, "{ends:?}");
    assert!(ends.iter().all(|(_, text)| !text.contains("PASSWORD")), "{ends:?}");
    assert!(ends.iter().any(|(_, text)| text.contains("1 files were not searched")), "{ends:?}");
    assert!(ends.iter().any(|(_, text)| text.contains("default: files that hold secrets")), "{ends:?}");
    assert!(!env.work().join("deploy.KEY").exists());
}

#[test]
fn a_person_can_switch_the_rules_off_and_a_strange_project_cannot() {
    let (env, ends) = curious("[policy]\ndefaults = false\n");
    assert!(ends.iter().all(|(kind, _)| kind == "tool_resolved"), "{ends:?}");
    assert!(ends.iter().any(|(_, text)| text.contains("PASSWORD=hunter2")), "{ends:?}");
    assert!(env.work().join("deploy.KEY").exists());

    let env = scripted("[[answer]]\nspark = \"solo\"\ntext = \"hello\"\n");
    env.project("[policy]\ndefaults = false\n");
    let ran = env.run(&["run", "greet"]);
    check(&ran, 0, "hello\n");
    assert!(ran.stderr.contains("`policy.defaults` ([WORK]/.agon/config.toml:2) is ignored"), "{ran}");
}

#[test]
fn a_file_the_shell_has_open_reaches_no_command() {
    let look = "echo began; cat <&7; ls /proc/self/fd | sort -n | tail -1";
    let script = format!(
        "[[answer]]\nspark = \"solo\"\ncalls = [{{ tool = \"bash\", args = {{ command = \"{look}\" }} }}]\n\
         [[answer]]\nspark = \"solo\"\ntext = \"done\"\n"
    );
    for kind in ["none", "auto"] {
        let env = scripted(&script);
        env.write("outside.txt", "out of reach\n");
        let plain = env.command(&["run", "look", "--yes", "--json", "--sandbox", kind]);
        let mut command = Command::new("sh");
        command.args(["-c", "exec 7<../outside.txt; exec \"$0\" \"$@\""]).arg(plain.get_program());
        command.args(plain.get_args()).current_dir(env.work()).env_clear().stdin(Stdio::null());
        command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = command.output().unwrap();
        if kind == "auto" && output.status.code() == Some(2) {
            println!("skipped: nothing confines here");
            continue;
        }
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && told.contains("began"), "{told}");
        assert!(!told.contains("out of reach"), "{kind}: {told}");
    }
}

/// A model that reads one file and then answers.
const READS: &str = "[[answer]]\nspark = \"solo\"\n\
    calls = [{ tool = \"read_file\", args = { path = \"notes.txt\" } }]\n\
    [[answer]]\nspark = \"solo\"\ntext = \"read\"\n";

/// A file with a token that no provider names, in the forms that hide it least.
fn with_token(config: &str) -> Env {
    let mut env = scripted(READS);
    let before = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.config(&format!("{before}{config}"));
    env.set("GITHUB_TOKEN", "ghp_0123456789abcdef+/").set("SHORT_KEY", "a1b2c3d4e5");
    env.set("OLD_PASSWORD", "correcthorsebatterystaple");
    env.write(
        "work/notes.txt",
        "ghp_0123456789abcdef+/\nQmVhcmVyIGdocF8wMTIzNDU2Nzg5YWJjZGVmKy8=\nghp_0123456789abcdef%2b%2f\n\
         6768705F303132333435363738396162636465662B2F\na1b2c3d4e5\ncorrecthorsebatterystaple\n",
    );
    env
}

#[test]
fn values_of_telling_variables_are_hidden_whoever_uses_them() {
    let env = with_token("");
    check(&env.run(&["run", "read"]), 0, "read\n");
    let log = log(&env);
    assert_eq!(log.matches("[secret:GITHUB_TOKEN]").count(), 4, "{log}");
    for hidden in ["ghp_0123456789abcdef", "ocF8wMTIzNDU2Nzg5YWJjZGVm", "303132333435363738396162636465662"] {
        assert!(!log.contains(hidden), "{hidden}: {log}");
    }
    assert!(log.contains("a1b2c3d4e5") && log.contains("correcthorsebatterystaple"), "{log}");
}

/// A session may go over to any provider while it runs, so that what each of them is configured with is hidden at once.
#[test]
fn secrets_of_providers_that_are_not_used_yet_are_hidden_and_ignore_holds_for_theirs_too() {
    let gateway = "[providers.gw]\nkind = \"openai\"\nbase_url = \"http://ann:p%40ss-0123@127.0.0.1:9/v1\"\n\
                   api_key_env = \"GW_KEY\"\nheaders = { authorization = \"Bearer gwtok-0123456789\", x-session = \"id=gwses-0123456789; a=b\" }\n\
                   [models.\"mock/any\"]\nfallbacks = [\"gw/x\"]\n";
    for (more, is_ignored) in
        [("", false), ("[redaction]\nignore = [\"GW_KEY\", \"gw authorization\"]\n", true)]
    {
        let mut env = with_token(&format!("{gateway}{more}"));
        env.set("GW_KEY", "gwkey-0123456789");
        env.write(
            "work/notes.txt",
            "gwkey-0123456789 gwtok-0123456789 gwses-0123456789 p@ss-0123 p%40ss-0123\n",
        );
        check(&env.run(&["run", "read"]), 0, "read\n");
        let log = log(&env);
        for secret in ["gwkey-0123456789", "gwtok-0123456789"] {
            assert_eq!(log.contains(secret), is_ignored, "{secret}: {log}");
        }
        assert!(!log.contains("gwses-0123456789"), "{log}");
        assert!(!log.contains("p@ss-0123") && !log.contains("p%40ss-0123"), "{log}");
        let ran = env.run(&["doctor"]);
        let said = if is_ignored { "not hidden: gw authorization, named in" } else { "gw authorization" };
        assert!(ran.stdout.contains(said) && ran.stdout.contains("gw base_url"), "{ran}");
    }
}

#[test]
fn doctor_names_what_is_hidden_and_what_is_not_and_never_a_value() {
    let env = with_token("[redaction]\nignore = [\"GITHUB_TOKEN\"]\n");
    check(&env.run(&["run", "read"]), 0, "read\n");
    assert!(log(&env).contains("ghp_0123456789abcdef"), "the configuration says it is no secret");
    let ran = env.run(&["doctor"]);
    for said in [
        "not hidden: GITHUB_TOKEN, named in [redaction] ignore",
        "not hidden: SHORT_KEY, shorter than 16 bytes",
        "not hidden: OLD_PASSWORD, only lower-case letters",
    ] {
        assert!(ran.stdout.contains(said), "{said}: {ran}");
    }
    let ran = with_token("").run(&["doctor"]);
    assert!(ran.stdout.contains("hidden: GITHUB_TOKEN\n"), "{ran}");
    assert!(!ran.to_string().contains("ghp_") && !ran.to_string().contains("a1b2c3d4e5"), "{ran}");

    let env = with_token("");
    env.project("[redaction]\nignore = [\"GITHUB_TOKEN\"]\n");
    let ran = env.run(&["run", "read"]);
    assert!(!log(&env).contains("ghp_0123456789abcdef"), "a strange project takes no secret out");
    assert!(ran.stderr.contains("`redaction.ignore` ([WORK]/.agon/config.toml:2) is ignored"), "{ran}");
}

#[test]
fn a_key_that_is_the_name_of_an_argument_is_hidden_like_one_that_is_its_value() {
    const KEY: &str = "xai-0123456789abcdef";
    let server = Server::start(|request, _| match request.to_string().contains("\"role\":\"tool\"") {
        false => {
            Reply::calls([("bash", serde_json::json!({ "command": "true", KEY: { "in": { KEY: "x" } } }))])
        }
        true => Reply::text("done"),
    });
    let mut env = crate::run::served(&server);
    env.set("XAI_API_KEY", KEY);
    let ran = env.run(&["run", "try", "--yes", "--json"]);
    assert!(!ran.to_string().contains("0123456789abcdef"), "{ran}");
    assert!(
        !log(&env).contains("0123456789abcdef") && log(&env).contains("[secret:XAI_API_KEY]\":"),
        "{ran}"
    );
    assert_eq!(env.run(&["verify", "latest"]).code, 0);
}
