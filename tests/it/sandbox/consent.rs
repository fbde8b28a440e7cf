//! Where nothing can confine the tools: who is asked, what the log says of the answer, and what a no leaves behind.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::docker::kit::{IMAGE, address};
use crate::support::env::Env;
use crate::tui::pty::Terminal;

/// A place whose model has one command run and is done.
fn place() -> Env {
    let env = Env::new();
    env.config(
        "model = \"mock/any\"\n[providers.mock]\nkind = \"script\"\nfile = \"mock.toml\"\n\
         [[policy.rules]]\nname = \"all\"\naction = \"allow\"\n",
    );
    env.write(
        "home/mock.toml",
        "[[answer]]\ncalls = [{ tool = \"bash\", args = { command = \"echo worked >made\" } }]\n\
         [[answer]]\ntext = \"done\"\n",
    );
    env
}

/// The program where no namespace can be made: in one that allows none within. Where none can be made at all, that
/// is as it is.
fn refused(arguments: &[&str]) -> (String, Vec<String>) {
    let agon = env!("CARGO_BIN_EXE_agon").to_owned();
    let namespace = ["unshare", "--user", "--map-current-user", "--keep-caps"];
    let tried = Command::new(namespace[0]).args(&namespace[1..]).arg("true").output();
    let mut words: Vec<String> = match tried.is_ok_and(|tried| tried.status.success()) {
        false => vec![agon],
        true => {
            let none = "echo 0 >/proc/sys/user/max_user_namespaces && \
                        exec setpriv --ambient-caps=-all --inh-caps=-all \"$@\"";
            namespace.into_iter().chain(["sh", "-c", none, "sh", &agon]).map(str::to_owned).collect()
        }
    };
    words.extend(arguments.iter().map(|argument| (*argument).to_owned()));
    (words.remove(0), words)
}

fn terminal(env: &Env, arguments: &[&str]) -> Terminal {
    let (program, arguments) = refused(arguments);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Terminal::of(Path::new(&program), env, &arguments, 100, 30)
}

/// Runs it to its end without a terminal.
fn run(env: &Env, arguments: &[&str]) -> Output {
    let (program, arguments) = refused(arguments);
    let mut command = Command::new(program);
    command.args(arguments).current_dir(env.work()).env_clear().env("AGON_HOME", env.home());
    command.env("TMPDIR", env.temporary());
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.envs(address().map(|address| ("DOCKER_HOST", address)));
    command.output().unwrap()
}

/// The first event of the only session there is.
fn opened(env: &Env) -> Option<Value> {
    let folder = std::fs::read_dir(env.home().join("sessions")).ok()?.next()?.unwrap().path();
    let log = std::fs::read_to_string(folder.join("log-000000.jsonl")).unwrap();
    let entry: Value = serde_json::from_str(log.lines().next()?).unwrap();
    Some(entry["events"][0]["data"]["spec"]["workspace"]["sandbox"].clone())
}

#[test]
fn nobody_can_be_asked_so_nothing_is_begun() {
    let env = place();
    let output = run(&env, &["run", "go", "--yes"]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(
        told.contains("nothing here can confine the tools: ") && told.contains("--sandbox none"),
        "{told}"
    );
    assert!(opened(&env).is_none() && !env.work().join("made").exists());
}

/// A command can do that; whoever is told that nothing confines would be led to a weaker sandbox.
#[test]
fn a_workspace_that_its_owner_cannot_look_into_is_no_reason_to_work_without_a_sandbox() {
    use std::os::unix::fs::PermissionsExt;
    let env = Env::new();
    for mode in [0o000, 0o100, 0o200, 0o300, 0o400, 0o600] {
        std::fs::set_permissions(env.work(), std::fs::Permissions::from_mode(mode)).unwrap();
        for kind in ["auto", "local"] {
            let mut command =
                env.command(&["run", "go", "-m", "demo/script", "--sandbox", kind, "--workspace"]);
            let output = command.arg(env.work()).current_dir("/").output().unwrap();
            let told = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{mode:o}: {told}");
            assert!(told.contains("is closed to you") && told.contains("chmod u+rwx"), "{mode:o}: {told}");
            assert!(!told.contains("--sandbox"), "{mode:o}: {told}");
        }
        std::fs::set_permissions(env.work(), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// What was unpacked as a pipe or a socket is no reason for a weaker sandbox either.
#[test]
fn a_git_folder_that_is_no_folder_is_no_reason_to_work_without_a_sandbox() {
    let env = place();
    let works = env.run(&["run", "go", "--sandbox", "local"]);
    if works.code != 0 {
        return println!("skipped: {works}");
    }
    for name in [".git", ".agon"] {
        let path = env.work().join(name);
        for is_socket in [false, true] {
            match is_socket {
                true => drop(std::os::unix::net::UnixListener::bind(&path).unwrap()),
                false => assert!(Command::new("mkfifo").arg(&path).status().unwrap().success()),
            }
            for kind in ["auto", "local"] {
                let ran = env.ends(&["run", "go", "--sandbox", kind]);
                assert_eq!(ran.code, 2, "{ran}");
                let why = format!("`{name}` is neither a folder nor a file: remove it");
                assert!(ran.stderr.contains(&why) && !ran.stderr.contains("--sandbox"), "{ran}");
            }
            std::fs::remove_file(&path).unwrap();
        }
    }
}

#[test]
fn a_session_taken_up_without_its_sandbox_names_the_flags_that_lead_on() {
    let env = place();
    env.write(
        "home/mock.toml",
        "[[answer]]\ncalls = [{ tool = \"bash\", args = { command = \"echo begun; sleep 600\" } }]\n",
    );
    let mut command = env.command(&["run", "go", "--sandbox", "local", "--yes", "--json", "--signals"]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    if !lines.any(|line| line.starts_with("{\"signal\"") && line.contains("begun")) {
        return println!("skipped: {:?}", child.wait_with_output());
    }
    child.kill().unwrap();
    child.wait().unwrap();
    for verb in ["resume", "fork"] {
        let output = run(&env, &[verb, "latest", "--yes"]);
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && told.contains("`--sandbox landlock-only`"), "{told}");
    }
}

/// Also where a container could be had, and where somebody has said that nothing need confine the tools.
#[test]
fn a_sandbox_asked_for_by_name_is_never_a_weaker_one() {
    let env = place();
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.config(&format!("{config}[sandbox.docker]\nimage = \"{IMAGE}\"\n"));
    for arguments in [&["run", "go", "--yes"][..], &["squad", "go", "--yes", "--json"]] {
        let output = run(&env, &[arguments, &["--sandbox", "local"]].concat());
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{told}");
        for words in [
            "the sandbox `local` is not available on this machine: ",
            "hint: ",
            "--sandbox landlock-only",
            "--sandbox none",
        ] {
            assert!(told.contains(words), "`{words}` is not in {told}");
        }
        assert!(opened(&env).is_none() && !env.work().join("made").exists(), "{told}");
    }
    let terminal = terminal(&env, &["run", "go", "--sandbox", "local"]);
    terminal.wait_for("error: the sandbox `local` is not available on this machine");
    assert!(!terminal.text().contains("yes | no"), "{}", terminal.text());
    assert_eq!(terminal.end(), 2);
    assert!(opened(&env).is_none());
}

#[test]
fn a_container_is_taken_where_an_image_is_named_and_nobody_is_asked() {
    if address().is_none() {
        return;
    }
    let env = place();
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.config(&format!("{config}[sandbox.docker]\nimage = \"{IMAGE}\"\nmemory = \"128m\"\n"));
    let output = run(&env, &["run", "go", "--yes"]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{told}");
    let why = "note: the sandbox `auto` took `docker`, because `local` is not available: namespaces are refused here: ";
    assert!(told.contains(why), "{told}");
    assert_eq!(std::fs::read_to_string(env.work().join("made")).unwrap(), "worked\n");
    let sandbox = opened(&env).unwrap();
    assert_eq!((&sandbox["kind"], sandbox.get("consent")), (&"docker".into(), None));
}

/// An engine that is not there is no reason not to ask: with it there is nothing, as without it.
#[test]
fn where_neither_local_nor_the_configured_engine_is_to_be_had_the_terminal_asks_with_both_reasons() {
    let mut env = place();
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.config(&format!("{config}[sandbox.docker]\nimage = \"{IMAGE}\"\n"));
    let nowhere = env.home().join("none.sock");
    env.set("DOCKER_HOST", &format!("unix://{}", nowhere.display()));
    let mut asked = terminal(&env, &["run", "go"]);
    asked.wait_for("yes | no:");
    for words in ["`local`: ", "`docker`: no container engine answers at", "systemctl start docker"] {
        assert!(asked.text().replace("\n", "").contains(words), "`{words}` is not in\n{}", asked.text());
    }
    asked.press("no\n");
    asked.wait_for("error: nothing here can confine");
    assert_eq!(asked.end(), 2);
    assert!(opened(&env).is_none());
}

/// What a command has made of the workspace leads to no weaker sandbox, whoever would say yes to it.
#[test]
fn a_workspace_with_more_secrets_than_can_be_covered_is_not_worked_in_and_nobody_is_asked() {
    let env = place();
    super::person::secrets(&env.work(), 5_000);
    let image = format!("[sandbox.docker]\nimage = \"{IMAGE}\"\n");
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap() + &image;
    env.config(&config);
    let kinds = if address().is_some() { &["auto", "local", "docker"][..] } else { &["auto", "local"] };
    for kind in kinds {
        let mut command = env.command(&["run", "go", "--yes", "--sandbox", kind]);
        command.envs(address().map(|address| ("DOCKER_HOST", address)));
        let ran = command.output().unwrap();
        let told = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(2), "{kind}: {told}");
        assert!(told.contains("most of them in `made`: remove what is not needed"), "{kind}: {told}");
        assert!(!told.contains("--sandbox none"), "{kind}: {told}");
    }
    let terminal = terminal(&env, &["run", "go"]);
    terminal.wait_for("most of them in `made`");
    assert_eq!(terminal.end(), 2);
    assert!(opened(&env).is_none() && !env.work().join("made/made").exists());
}

#[test]
fn the_terminal_asks_with_the_gaps_named_and_a_no_begins_nothing() {
    for answer in ["no\n", "y\n", "\n"] {
        let env = place();
        let mut terminal = terminal(&env, &["run", "go"]);
        terminal.wait_for("yes | no:");
        let shown = terminal.text();
        for words in ["nothing here can confine the tools", "commands can use the network", "files outside"] {
            assert!(shown.contains(words), "`{words}` is not in\n{shown}");
        }
        terminal.press(answer);
        terminal.wait_for("error: nothing here can confine");
        assert_eq!(terminal.end(), 2, "{answer:?}");
        assert!(opened(&env).is_none() && !env.work().join("made").exists());
    }
}

#[test]
fn a_yes_at_the_terminal_is_recorded_and_each_resume_asks_again() {
    let env = place();
    let mut asked = terminal(&env, &["run", "go"]);
    asked.wait_for("yes | no:");
    asked.press("yes\n");
    asked.wait_for("UNCONFINED");
    assert_eq!(asked.end(), 0);
    assert_eq!(std::fs::read_to_string(env.work().join("made")).unwrap(), "worked\n");
    let sandbox = opened(&env).unwrap();
    assert_eq!(
        (&sandbox["kind"], &sandbox["consent"]["by"]),
        (&"none".into(), &"the person at the terminal".into())
    );
    assert!(sandbox["consent"]["why"].as_str().unwrap().len() > 10, "{sandbox}");
    let shown = env.run(&["replay", "latest", "--full"]);
    assert!(shown.stdout.contains("the person at the terminal let the tools work unconfined"), "{shown}");
    env.write("home/mock.toml", "[[answer]]\nnth = 3\ntext = \"again\"\n");
    let more = ["run", "more", "--resume", "latest"];
    assert_eq!(run(&env, &more).status.code(), Some(2), "the recorded yes is no yes now");
    let mut again = terminal(&env, &more);
    again.wait_for("yes | no:");
    again.press("yes\n");
    again.wait_for("again");
    assert_eq!(again.end(), 0);
}

#[test]
fn mission_control_asks_and_goes_on_with_the_task_after_a_yes() {
    let env = place();
    let mut screen = terminal(&env, &[]);
    screen.wait_for("write a task");
    screen.press("go\r");
    screen.wait_for("Write yes or no");
    assert!(screen.text().contains("commands can use the network"), "{}", screen.text());
    screen.press("y\r");
    screen.press("no\r");
    screen.wait("the task again", |text| text.contains("❯ go") && !text.contains("Write yes or no"));
    assert!(opened(&env).is_none());
    screen.press("\r");
    screen.wait_for("Write yes or no");
    screen.press("yes\r");
    screen.wait_for("UNCONFINED");
    screen.wait_for("done");
    assert!(opened(&env).unwrap()["consent"]["by"].is_string());
    screen.press("\x03\x03");
    assert_eq!(screen.end(), 0);
}
