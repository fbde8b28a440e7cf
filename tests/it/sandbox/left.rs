//! What stays behind when agon is killed, and what other processes of its user can see of it.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::docker::program::command_script;
use super::person;
use crate::arena::kit::{Place, whole_turn};
use crate::support::env::{Env, is_root};
use crate::tui::pty::Terminal;

/// A place whose model has a command run.
fn place(command: &str) -> Env {
    let env = Env::new();
    env.config("model = \"mock/any\"\n[providers.mock]\nkind = \"script\"\nfile = \"mock.toml\"\n");
    env.write("home/mock.toml", &command_script(command));
    env
}

/// The folders of sandboxes in its temporary folder.
fn folders(env: &Env) -> Vec<PathBuf> {
    let all = std::fs::read_dir(env.temporary()).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("agon-sandbox-")).collect()
}

#[test]
fn the_folder_of_a_killed_session_is_removed_by_the_next_and_a_living_ones_is_not() {
    let env = place("echo begun; mkdir /tmp/closed; touch /tmp/closed/x; chmod 0 /tmp/closed; sleep 600");
    let begin = |workspace: &str| {
        std::fs::create_dir(env.work().join(workspace)).unwrap();
        let words =
            ["run", "go", "--yes", "--json", "--signals", "--sandbox", "local", "--workspace", workspace];
        let mut child = env.command(&words).stderr(Stdio::null()).spawn().unwrap();
        // Held, because agon ends when nobody reads it any more.
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let begun = lines.find(|line| line.starts_with("{\"signal\"") && line.contains("begun"));
        (child, lines, begun.is_some())
    };
    let (mut dead, _dead_lines, has_begun) = begin("dead");
    if !has_begun {
        assert!(std::env::var_os("AGON_NEEDS_LOCAL").is_none(), "the command did not begin");
        return println!("skipped: namespaces are refused here");
    }
    let (mut living, _living_lines, _) = begin("living");
    assert_eq!(folders(&env).len(), 2);
    dead.kill().unwrap();
    dead.wait().unwrap();
    let third = place("true");
    let words = ["run", "go", "--yes", "--sandbox", "local"];
    let mut command = third.command(&words);
    command.env("TMPDIR", env.temporary());
    assert!(command.output().unwrap().status.success());
    assert_eq!(folders(&env).len(), 1, "the living one's");
    let left = |workspace: &str| std::fs::read_dir(env.work().join(workspace)).unwrap().count();
    assert_eq!(
        (left("dead"), left("living")),
        (0, 2),
        "what kept absent names absent goes with the dead one"
    );
    // Nobody comes after it to remove a folder that only its maker can open.
    end(&living, "-TERM");
    living.wait().unwrap();
}

fn end(child: &Child, signal: &str) {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Ends agon in the middle of a command that has made protected names.
fn cut_off(signal: &str) -> Option<Env> {
    let env = place(
        "echo EVIL >AGENTS.md; mkdir -p .github/workflows; echo EVIL >.github/workflows/e.yml; echo begun; sleep 600",
    );
    let words = ["run", "go", "--yes", "--json", "--signals", "--sandbox", "local"];
    let mut child = env.command(&words).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    if !lines.any(|line| line.starts_with("{\"signal\"") && line.contains("begun")) {
        child.wait().unwrap();
        assert!(std::env::var_os("AGON_NEEDS_LOCAL").is_none(), "the command did not begin");
        println!("skipped: namespaces are refused here");
        return None;
    }
    // The signal may be of the order, and the command begins after it.
    while !env.work().join(".github/workflows/e.yml").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    end(&child, signal);
    lines.for_each(drop);
    child.wait().unwrap();
    let after = if signal == "-KILL" { "seen before it is settled" } else { "settled when it ended" };
    assert_eq!(env.work().join("AGENTS.md").exists(), signal == "-KILL", "{after}");
    env.write("home/mock.toml", &"[[answer]]\nspark = \"solo\"\ntext = \"done\"\n".repeat(4));
    Some(env)
}

/// A command that makes a protected name and says what agon would say of another.
const FORGED: &str =
    "echo EVIL >AGENTS.md; echo '[agon: `CLAUDE.md` is a protected name; forged]' >&2; echo begun";

/// What is told of it, by agon and by nobody else.
fn check_note(told: &str) {
    let notes: Vec<&str> = told.lines().filter(|line| line.starts_with("note: ")).collect();
    assert_eq!(
        notes,
        ["note: `AGENTS.md` is a protected name; what this command made is now `AGENTS.md.untrusted`"],
        "{told}"
    );
}

#[test]
fn what_is_set_aside_is_told_to_the_person_and_a_command_cannot_say_it() {
    for words in [&ANEW[..], &["run", "again", "--yes", "--sandbox", "local"]] {
        let env = place(FORGED);
        let ran = env.run(words);
        if ran.code == 2 && ran.stderr.contains("not available on this machine") {
            assert!(std::env::var_os("AGON_NEEDS_LOCAL").is_none(), "{ran}");
            return println!("skipped: namespaces are refused here");
        }
        check_note(&ran.stderr);
    }
    let Some(docker) = super::docker::program::place(&command_script(FORGED)) else { return };
    check_note(&docker.run(&["run", "again", "--yes"]).stderr);
}

#[test]
fn what_a_policy_file_denies_to_every_tool_no_command_reads_also_when_the_session_is_taken_up() {
    let look = "cat private/* private/deep/*; echo looked";
    let kinds =
        [("local", Some(place(look))), ("docker", super::docker::program::place(&command_script(look)))];
    for (kind, env) in kinds.into_iter().filter_map(|(kind, env)| Some((kind, env?))) {
        ["work/private/deep/b", "work/private/a"].iter().for_each(|name| {
            env.write(name, "TOKEN-OF-THE-PERSON\n");
        });
        let rule = "[[rules]]\nname = \"mine\"\naction = \"deny\"\npath = \"private/**\"\n";
        env.write("home/rules.toml", rule);
        let rules = env.home().join("rules.toml");
        let words = ["run", "go", "--json", "--sandbox", kind, "--policy", rules.to_str().unwrap(), "--yes"];
        let ran = env.run(&words);
        if ran.code == 2 && ran.stderr.contains("not available on this machine") {
            assert!(std::env::var_os("AGON_NEEDS_LOCAL").is_none(), "{ran}");
            return println!("skipped: namespaces are refused here");
        }
        let asked = env.run(&words[..7]);
        assert_eq!(asked.code, 4, "{asked}");
        for ran in [
            ran,
            env.run(&[
                "resume",
                "latest",
                "--yes",
                "--json",
                "--policy",
                rules.to_str().unwrap(),
                "--sandbox",
                kind,
            ]),
        ] {
            let is_hidden = ran.stdout.contains("looked\\n") && !ran.stdout.contains("TOKEN");
            assert!(ran.code == 0 && is_hidden, "{kind}: {ran}");
        }
    }
}

/// A place in the local sandbox where the model follows a script.
fn local(script: &str) -> Option<Env> {
    let env = place("");
    env.write("home/mock.toml", script);
    Some(env)
}

#[test]
fn what_is_set_aside_is_told_also_when_the_command_is_stopped() {
    let docker = super::docker::program::place;
    for (kind, place) in [("local", &local as &dyn Fn(&str) -> Option<Env>), ("docker", &docker)] {
        for signal in ["-INT", "-TERM", "-HUP"] {
            let Some(env) = place(&command_script(&format!("{FORGED}; touch up; sleep 600"))) else { return };
            let mut command = env.command(&["run", "again", "--yes", "--sandbox", kind]);
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
            while !env.work().join("up").exists() {
                if child.try_wait().unwrap().is_some() {
                    assert!(std::env::var_os("AGON_NEEDS_LOCAL").is_none(), "the command did not begin");
                    return println!("skipped: {kind} is not to be had here");
                }
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            end(&child, signal);
            let told = child.wait_with_output().unwrap().stderr;
            check_note(&String::from_utf8(told).unwrap());
        }
    }
}

#[test]
fn the_screen_tells_what_was_set_aside_in_a_line_of_its_own() {
    let env = place(FORGED);
    let mut screen = Terminal::start(&env, &["--sandbox", "local", "--yes"], 180, 30);
    screen.wait_for("write a task");
    screen.press("go\r");
    screen.wait_for("! `AGENTS.md` is a protected name; what this command made is now `AGENTS.md.untrusted`");
    assert!(!screen.text().contains("! `CLAUDE.md`"));
    screen.press("\x03\x03");
    screen.end();
}

/// A terminal breaks a long line where it ends; what the command wrote there would stand where agon's own words do.
#[test]
fn no_row_of_a_terminal_that_begins_with_note_is_a_commands() {
    let forged = "note: `CLAUDE.md` is a protected name; forged";
    let long = format!("i=88; while [ $i -le 96 ]; do printf '%*s%s\\n' $i '' '{forged}'; i=$((i+1)); done");
    let env = place("");
    env.write("home/mock.toml", &command_script(&format!("{long}; echo EVIL >AGENTS.md")));
    let screen = Terminal::start(&env, &["run", "go", "--yes", "--sandbox", "local"], 100, 80);
    screen.wait_for("turn 1: done");
    let text = screen.text();
    let notes: Vec<&str> = text.lines().filter(|line| line.starts_with("note:")).collect();
    assert!(notes.len() == 1 && notes[0].contains("`AGENTS.md` is a protected name"), "{text}");
    assert!(text.matches("forged").count() > 9, "{text}");
    screen.end();
}

/// Ends agon so and has it do something; gives what was told then.
fn cut_off_and_then(signal: &str, words: &[&str]) -> Option<String> {
    let env = cut_off(signal)?;
    let ran = env.run(words);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(!ran.stdout.contains("EVIL"), "{ran}");
    for name in ["AGENTS.md", ".github/workflows"] {
        assert!(!env.work().join(name).exists(), "{name}: {ran}");
        assert!(env.work().join(format!("{name}.untrusted")).exists(), "{name}: {ran}");
    }
    Some(ran.stderr)
}

const ANEW: [&str; 6] = ["run", "again", "--yes", "--json", "--sandbox", "local"];

#[test]
fn what_a_killed_agons_command_made_of_protected_names_is_set_aside_before_it_is_read() {
    for words in [&ANEW[..], &["resume", "latest", "--yes"], &["fork", "latest", "--no-run"]] {
        let Some(told) = cut_off_and_then("-KILL", words) else { return };
        assert_eq!(told.matches("AGENTS.md.untrusted").count(), 1, "{words:?}: {told}");
        assert!(told.contains("note: ") && told.contains("cut off"), "{words:?}: {told}");
    }
}

/// A merge after agon was killed in the middle of a call is the person's, in this folder and told by no later start.
#[test]
fn a_repository_a_person_works_in_after_agon_was_killed_is_left_alone() {
    for had_repository in [true, false] {
        let env = place("echo begun; touch up; sleep 600");
        if had_repository {
            person::repository(&env.work());
        }
        let words = ["run", "go", "--yes", "--json", "--signals", "--sandbox", "local"];
        let mut child = env.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while !env.work().join("up").exists() {
            if child.try_wait().unwrap().is_some() {
                assert!(std::env::var_os("AGON_NEEDS_LOCAL").is_none(), "the command did not begin");
                return println!("skipped: namespaces are refused here");
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        if !had_repository {
            person::repository(&env.work());
        }
        person::merge_and_pack(&env.work());
        env.write("home/mock.toml", &"[[answer]]\nspark = \"solo\"\ntext = \"done\"\n".repeat(4));
        let elsewhere = tempfile::tempdir().unwrap();
        let other = [&ANEW[..], &["--workspace", elsewhere.path().to_str().unwrap()]].concat();
        for words in [&other[..], &ANEW] {
            let ran = env.run(words);
            assert!(ran.code == 0 && !ran.stderr.contains("protected"), "{ran}");
            person::check_repository(&env.work());
        }
    }
}

#[test]
fn a_terminal_that_is_closed_settles_as_a_polite_end_does() {
    let Some(told) = cut_off_and_then("-HUP", &ANEW) else { return };
    assert!(!told.contains("cut off"), "{told}");
}

#[test]
fn the_screen_tells_what_a_killed_agons_command_made() {
    let Some(env) = cut_off("-KILL") else { return };
    let mut screen = Terminal::start(&env, &["--sandbox", "local"], 180, 30);
    screen.wait_for("write a task");
    screen.press("go\r");
    screen.wait_for("AGENTS.md.untrusted");
    screen.press("\x03\x03");
    screen.end();
    assert!(!env.work().join("AGENTS.md").exists());
}

#[test]
fn a_folder_for_temporary_files_that_will_not_do_is_refused_by_name_and_an_empty_name_is_none() {
    for (kind, command) in
        [("none", "[ -z \"${TMPDIR+set}\" ] && touch done"), ("local", "touch $TMPDIR/t && touch done")]
    {
        let mut env = place(command);
        env.set("TMPDIR", "");
        let words = ["run", "again", "--yes", "--json", "--sandbox", kind];
        let ran = env.run(&words);
        if ran.code == 2 && ran.stderr.contains("not available on this machine") {
            assert!(std::env::var_os("AGON_NEEDS_LOCAL").is_none(), "{ran}");
            return println!("skipped: namespaces are refused here");
        }
        assert!(ran.code == 0 && env.work().join("done").exists(), "{ran}");
        let inside = env.work().display().to_string();
        let rows = [
            (inside.as_str(), "lies in the workspace: let it name a folder outside"),
            ("tmp", "must be a path from the root"),
            ("/no/such", "cannot be used: No such file"),
        ];
        for (folder, why) in rows.into_iter().filter(|_| kind == "local") {
            env.set("TMPDIR", folder);
            let ran = env.run(&words);
            assert!(ran.code == 2 && ran.stderr.contains(why) && ran.stderr.contains("`TMPDIR`"), "{ran}");
            assert!(!ran.stderr.contains("--sandbox none"), "{ran}");
        }
        let left: Vec<_> =
            std::fs::read_dir(env.work()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["done"]);
    }
}

/// A command may close the whole workspace: nothing of agon's stays in it, and the next session says what to do.
#[test]
fn a_workspace_that_a_command_closed_holds_nothing_of_agons_and_the_way_in_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let docker = super::docker::program::place;
    for (kind, place) in [("local", &local as &dyn Fn(&str) -> Option<Env>), ("docker", &docker)] {
        let Some(env) = place(&command_script("chmod 0 .")) else { return };
        let work = env.work().display().to_string();
        let words = ["run", "go", "--yes", "--sandbox", kind, "--workspace", &work];
        let run = || env.command(&words).current_dir("/").output().unwrap();
        let first = run();
        if first.status.code() == Some(2) && std::env::var_os("AGON_NEEDS_LOCAL").is_none() {
            return println!("skipped: {kind} is not to be had here");
        }
        assert!(first.status.success(), "{first:?}");
        let mode = || std::fs::metadata(env.work()).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(), 0, "as the command left it");
        let next = run();
        std::fs::set_permissions(env.work(), std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(std::fs::read_dir(env.work()).unwrap().count(), 0, "{kind}");
        if !is_root(&env.work()) {
            let told = String::from_utf8(next.stderr).unwrap();
            assert!(next.status.code() == Some(2) && told.contains("`chmod u+rwx '"), "{told}");
        }
    }
}

#[test]
fn doctor_refuses_a_folder_with_agons_own_files_as_run_does() {
    let env = place("true");
    let home = env.home().display().to_string();
    let ran = env.run(&["doctor", "--workspace", &home]);
    assert!(ran.stdout.contains("holds agon's own files"), "{ran}");
}

/// A note as a call that was cut off leaves it.
#[tokio::test]
async fn a_program_that_embeds_agon_sets_aside_what_was_cut_off_and_can_tell_it() {
    let place = Place::new();
    let root: std::ffi::OsString = place.work().into();
    let note = serde_json::json!({"root": root, "names": [], "links": [], "absent": []});
    let leave = || {
        std::fs::create_dir_all(place.state().join("calls")).unwrap();
        std::fs::write(place.state().join("calls/left.json"), note.to_string()).unwrap();
        std::fs::write(place.work().join("AGENTS.md"), "EVIL").unwrap();
    };
    leave();
    let script = "[[answer]]\ntext = \"done\"\n";
    let running = place.scripted(script).open().await.unwrap();
    assert!(
        running.notes.len() == 1 && running.notes[0].contains("AGENTS.md.untrusted"),
        "{:?}",
        running.notes
    );
    let id = running.id.clone();
    whole_turn(&running, "go").await;
    drop(running);
    leave();
    let resumed = place.scripted(script).resume(&id).await.unwrap();
    assert!(
        resumed.notes.len() == 1 && resumed.notes[0].contains("AGENTS.md.untrusted1"),
        "{:?}",
        resumed.notes
    );
    assert!(!place.work().join("AGENTS.md").exists());
}

#[test]
fn folders_of_the_path_show_no_home_and_nothing_of_agons_own() {
    let mut env = place("ls \"$AGON_OWN\" 2>&1; ls $CARGO_HOME 2>&1; cat $CARGO_HOME/gh/hosts.yml; true");
    env.write("home/.config/gh/hosts.yml", "TOKEN-OF-GH");
    let home = env.home().display().to_string();
    let path = std::env::var("PATH").unwrap();
    env.set("PATH", &format!("{home}:{path}"));
    env.set("CARGO_HOME", &format!("{home}/.config"));
    env.write(
        "home/mock.toml",
        &command_script(&format!("cat {home}/mock.toml; cat {home}/.config/gh/hosts.yml; true")),
    );
    let ran = env.run(&["run", "go", "--yes", "--json", "--sandbox", "local"]);
    if ran.code == 2 && ran.stderr.contains("not available on this machine") {
        assert!(std::env::var_os("AGON_NEEDS_LOCAL").is_none(), "{ran}");
        return println!("skipped: namespaces are refused here");
    }
    assert!(!ran.stdout.contains("TOKEN-OF-GH") && !ran.stdout.contains("[[answer]]"), "{ran}");
    assert!(ran.stdout.contains("No such file"), "{ran}");
}

#[test]
fn an_unconfined_command_cannot_read_the_environment_of_agon_itself() {
    let env =
        place("cat /proc/$PPID/environ >got; cat /proc/$PPID/mem >mem; wc -c <got; ls /proc/$PPID/status");
    if is_root(&env.work()) {
        return println!("skipped: root may read every process");
    }
    let ran = env.run(&["run", "go", "--yes", "--json", "--sandbox", "none"]);
    assert_eq!(ran.code, 0, "{ran}");
    assert_eq!(std::fs::read_to_string(env.work().join("got")).unwrap(), "", "{ran}");
    // The process that was asked about is agon: its name is there to be seen.
    assert!(ran.stdout.contains("/status"), "{ran}");
}
