//! Names that the configuration adds to agon's own lists, and folders that are no workspace without a person's word.

use std::fs;

use crate::support::env::{Env, Ran};
use crate::tui::pty::Terminal;

const MODEL: &str = "model = \"mock/any\"\n[providers.mock]\nkind = \"script\"\nfile = \"mock.toml\"\n";

fn place(config: &str) -> Env {
    let env = Env::new();
    env.config(&format!("{MODEL}{config}"));
    env.write("home/mock.toml", "[[answer]]\nspark = \"solo\"\ntext = \"done\"\n");
    env
}

const ADDED: &str = "[names]\nprotected = [\"RULES.txt\", \"docs/agents.txt\"]\nsecret = [\"*.tfstate\"]\n";

#[test]
fn names_that_the_configuration_adds_are_kept_like_agons_own() {
    let env = place(ADDED);
    env.write("work/docs/agents.txt", "ours\n").write("work/main.tfstate", "TOKEN\n");
    let command =
        "cat main.tfstate; echo EVIL >docs/agents.txt; mv docs other; echo EVIL >RULES.txt; echo ok >free";
    let script = format!(
        "[[answer]]\nspark = \"solo\"\n\
         [[answer.calls]]\ntool = \"write_file\"\nargs = {{ path = \"sub/rules.TXT\", content = \"EVIL\" }}\n\
         [[answer.calls]]\ntool = \"read_file\"\nargs = {{ path = \"main.tfstate\" }}\n\
         [[answer.calls]]\ntool = \"bash\"\nargs = {{ command = \"{command}\" }}\n\
         [[answer]]\nspark = \"solo\"\ntext = \"done\"\n"
    );
    env.write("home/mock.toml", &script);
    let ran = env.run(&["run", "go", "--yes", "--json", "--sandbox", "local"]);
    let work = env.work();
    if !work.join("free").exists() {
        assert!(std::env::var_os("AGON_NEEDS_LOCAL").is_none(), "{ran}");
        return println!("skipped: namespaces are refused here");
    }
    assert!(
        !work.join("sub/rules.TXT").exists() && ran.stdout.contains("the configuration protects it"),
        "{ran}"
    );
    assert!(!ran.stdout.contains("TOKEN"), "{ran}");
    assert_eq!(fs::read_to_string(work.join("docs/agents.txt")).unwrap(), "ours\n");
    assert!(!work.join("RULES.txt").exists() && work.join("RULES.txt.untrusted").exists(), "{ran}");
}

#[test]
fn the_lists_are_shown_with_their_sources_and_what_is_no_name_is_refused() {
    let env = place(ADDED);
    let shown = env.run(&["config", "show"]).stdout;
    let (_, lists) = shown.split_once("names.protected").unwrap();
    let (protected, secret) = lists.split_once("names.secret").unwrap();
    let secret = secret.split_once("\n]\n").unwrap().0;
    assert!(protected.contains("\"agents.md\"") && protected.contains("\"RULES.txt\""), "{shown}");
    assert!(secret.contains("\".env\"") && secret.contains("\"*.tfstate\""), "{shown}");
    assert!(protected.lines().next().unwrap().ends_with("# default + [HOME]/config.toml:6"), "{protected}");
    let ran = place("[names]\nprotected = [\"*.md\"]\n").run(&["run", "go"]);
    assert!(ran.code == 2 && ran.stderr.contains("`*.md` is no name"), "{ran}");
}

/// What a project that nobody trusts adds only closes more.
#[test]
fn an_untrusted_project_may_add_names() {
    let env = place("");
    let names = "protected = [\"RULES.txt\"]\nexcept = [\".env.mine\"]\n";
    env.project(&format!("[names]\n{names}[workspace]\nallow = [\"/\"]\n"));
    let ran = env.run(&["config", "show"]);
    assert!(ran.stdout.contains("RULES.txt") && !ran.stdout.contains("workspace.allow"), "{ran}");
    assert!(ran.stderr.contains("`workspace.allow`"), "{ran}");
    // What is left out of the secret names opens files.
    assert!(!ran.stdout.contains(".env.mine") && ran.stderr.contains("`names.except`"), "{ran}");
}

fn in_a_home(config: &str) -> Env {
    let mut env = place(config);
    let work = env.work();
    env.set("HOME", work.to_str().unwrap());
    env
}

#[test]
fn a_home_and_the_systems_folders_are_no_workspace_unless_a_person_said_so() {
    let refused = |ran: Ran, why: &str| {
        assert_eq!(ran.code, 2, "{ran}");
        assert!(ran.stderr.contains(why) && ran.stderr.contains("[workspace] allow = ["), "{ran}");
    };
    for sandbox in ["local", "none"] {
        refused(in_a_home("").run(&["run", "go", "--yes", "--sandbox", sandbox]), "it is a home folder");
        let system = ["/proc", "/dev", "/lib", "/usr/local", "/usr/bin", "/run", "/boot"];
        for folder in system.into_iter().filter(|folder| std::path::Path::new(folder).is_dir()) {
            let words = ["run", "go", "--yes", "--sandbox", sandbox, "--workspace", folder];
            refused(place("").run(&words), "belongs to the system");
        }
        // A yes would not help there.
        let ran = place("").run(&["run", "go", "--yes", "--sandbox", sandbox, "--workspace", "/"]);
        assert!(ran.code == 2 && ran.stderr.contains("holds agon's own files"), "{ran}");
    }
    // Nor is a weaker sandbox advised where none could work.
    let allow = "[workspace]\nallow = [\"/dev\", \"/proc\"]\n";
    for folder in ["/etc", "/usr", "/dev", "/proc"] {
        for sandbox in ["auto", "local", "landlock-only"] {
            let ran = place(allow).run(&["run", "go", "--yes", "--sandbox", sandbox, "--workspace", folder]);
            assert!(ran.code == 2 && ran.stderr.contains("belongs to the system"), "{ran}");
            assert!(!ran.stderr.contains("--sandbox"), "{ran}");
        }
    }
    let env = in_a_home("");
    let allow = format!("{MODEL}[workspace]\nallow = [\"{}\"]\n", env.work().display());
    env.config(&allow);
    let ran = env.run(&["run", "go", "--yes", "--sandbox", "none"]);
    assert!(ran.code == 0 && ran.stdout.contains("done"), "{ran}");
}

#[test]
fn a_person_at_the_terminal_is_asked_whether_a_home_may_be_the_workspace() {
    let words = ["run", "go", "--yes", "--sandbox", "none"];
    let asked = |answer: &str, then: &str| {
        let env = in_a_home("");
        let mut terminal = Terminal::start(&env, &words, 120, 30);
        terminal.wait_for("Work there? yes | no:");
        terminal.press(answer);
        terminal.wait_for(then);
        terminal.end()
    };
    assert_eq!(asked("yes\r", "done"), 0);
    assert_eq!(asked("no\r", "is no workspace without your consent"), 2);
    // A resume asks again, whoever began the session.
    let env = in_a_home("");
    let answer = "[[answer]]\nspark = \"solo\"\ntext = \"done\"\n";
    env.write("home/mock.toml", &answer.repeat(2));
    let mut terminal = Terminal::start(&env, &words, 120, 30);
    terminal.wait_for("Work there? yes | no:");
    terminal.press("yes\r");
    assert_eq!(terminal.end(), 0);
    let words = ["run", "more", "--resume", "latest", "--sandbox", "none"];
    let ran = env.run(&words);
    assert!(ran.code == 2 && ran.stderr.contains("it is a home folder"), "{ran}");
    for (answer, code) in [("no\r", 2), ("yes\r", 0)] {
        let mut terminal = Terminal::start(&env, &words, 120, 30);
        terminal.wait_for("Work there? yes | no:");
        terminal.press(answer);
        assert_eq!(terminal.end(), code, "{answer}");
    }
    // As does the screen, wherever it was started.
    env.write("other/x", "");
    let other = env.home().parent().unwrap().join("other").display().to_string();
    let mut screen = Terminal::start(&env, &["--sandbox", "none", "--workspace", &other], 120, 30);
    screen.wait_for("write a task");
    screen.press("/resume latest\r");
    screen.wait_for("── done");
    screen.press("more\r");
    screen.wait_for("The workspace would be");
    screen.press("no\r");
    screen.wait_for("is no workspace without your consent");
    screen.press("\x03\x03\x03");
    screen.end();
    // The screen asks before it is drawn.
    let env = in_a_home("");
    let mut screen = Terminal::start(&env, &["--sandbox", "none"], 120, 30);
    screen.wait_for("Work there? yes | no:");
    screen.press("yes\r");
    screen.wait_for("write a task");
    screen.press("go\r");
    screen.wait_for("done");
    screen.press("\x03\x03");
    screen.end();
}

/// What a home holds, other programs run: the sandbox keeps nothing from it there.
#[test]
fn in_a_home_no_level_changes_anything_without_a_question() {
    let calls = [
        "tool = \"write_file\"\nargs = { path = \".bashrc\", content = \"EVIL\" }",
        "tool = \"bash\"\nargs = { command = \"echo EVIL > .bashrc\" }",
    ];
    for (call, level) in [(calls[0], "edits"), (calls[0], "auto"), (calls[1], "auto")] {
        let env = in_a_home("");
        env.config(&format!("{MODEL}[workspace]\nallow = [\"{}\"]\n", env.work().display()));
        env.write(
            "home/mock.toml",
            &format!(
                "[[answer]]\nspark = \"solo\"\n[[answer.calls]]\n{call}\n[[answer]]\nspark = \"solo\"\ntext = \"done\"\n"
            ),
        );
        let ran = env.run(&["run", "go", "--permission", level]);
        assert_eq!(ran.code, 4, "{level}: {ran}");
        assert!(!env.work().join(".bashrc").exists(), "{level}: {ran}");
        let why = env.run(&["policy", "explain", "bash: ls", "--permission", level]).stdout;
        assert!(why.contains("wide workspace: commands are asked about"), "{why}");
    }
}
