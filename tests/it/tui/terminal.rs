//! What a person does with the real program, from the first key to the last: chat, squad, debate, fork, resize, quit.

use std::time::Duration;

use portable_pty::PtySize;
use serde_json::json;

use super::pty::Terminal;
use crate::support::env::{Env, Ran};
use crate::support::server::{Reply, Server};

/// Allows everything that is asked until the turn is over; gives how often that was.
fn allow_all(terminal: &mut Terminal) -> u32 {
    let is_done = |screen: &str| screen.contains("── done");
    let mut answered = 0;
    loop {
        terminal.wait("an approval or the end", |screen| screen.contains("y once") || is_done(screen));
        if is_done(&terminal.text()) {
            return answered;
        }
        // A key that comes right after the approval is not taken for an answer; and one that was just answered may
        // still be on the screen.
        std::thread::sleep(Duration::from_millis(500));
        if !terminal.text().contains("y once") {
            continue;
        }
        terminal.press("y");
        terminal.wait_for("Enter allows this once");
        terminal.press("\r");
        answered += 1;
        terminal.wait("the answer to be taken", |screen| !screen.contains("Enter allows this once"));
    }
}

#[test]
fn the_demo_with_its_approvals_from_the_first_key_to_the_last() {
    let env = Env::new();
    let mut terminal = Terminal::start(&env, &["demo", "run", "--tui"], 100, 30);
    let answered = allow_all(&mut terminal);
    assert_eq!(answered, 3, "two commands and an edit are asked about");
    terminal.wait_for("0 of 7 failed");
    terminal.resize(60, 16);
    terminal.wait("the smaller screen", |screen| {
        screen.lines().last().is_some_and(|line| line.contains("live e"))
    });
    assert!(terminal.text().lines().all(|line| line.chars().count() <= 60));
    terminal.press("\x1b[200~/quit\r\x1b[201~");
    terminal.wait_for("❯ /quit");
    terminal.press("\x03");
    terminal.wait_for("what next?");
    terminal.press("/quit\r");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn nothing_set_up_is_no_dead_end_and_a_signal_ends_it() {
    let env = Env::new();
    let terminal = Terminal::start(&env, &[], 80, 24);
    terminal.wait_for("/demo");
    terminal.signal(rustix::process::Signal::TERM);
    assert_eq!(terminal.end(), 130);
}

#[test]
fn the_question_of_init_is_one_key_away_where_nothing_is_set_up() {
    // The first cannot call tools, which every agent does.
    let list = json!({"object": "list", "data": [{"id": "gemma"}, {"id": "small"}]});
    let server = Server::start(|_, _| Reply::text("ready"))
        .listing(list)
        .telling("GET /api/ps", json!({"models": []}))
        .telling("POST /api/show gemma", json!({"capabilities": ["completion"]}))
        .telling("POST /api/show small", json!({"capabilities": ["completion", "tools"]}));
    let env = Env::new();
    let mut terminal = Terminal::start(&env, &[], 80, 24);
    terminal.wait_for("choose a model");
    // A server that was started meanwhile.
    env.config(&format!("[providers.gpu]\nkind = \"openai\"\nbase_url = \"{}\"\n", server.url()));
    terminal.press("\r");
    terminal.wait_for("gpu/gemma  (cannot call tools)");
    terminal.wait_for("Which model? 1 to 2");
    terminal.press("\r");
    terminal.wait("the screen", |screen| screen.contains("/sessions") && screen.contains("gpu/small"));
    terminal.press("say hello\r");
    terminal.wait_for("── done");
    terminal.press("/quit\r");
    assert_eq!(terminal.end(), 0);
    let written = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    assert!(written.contains("model = \"gpu/small\""), "{written}");
}

#[test]
fn a_storm_of_sizes_ends_with_a_whole_screen() {
    let env = Env::new();
    let mut terminal = Terminal::start(&env, &[], 80, 24);
    terminal.wait_for("write a task");
    for step in 0..200u16 {
        let size =
            PtySize { rows: 8 + step % 40, cols: 40 + (step * 7) % 160, pixel_width: 0, pixel_height: 0 };
        terminal.master.resize(size).unwrap();
    }
    terminal.resize(90, 30);
    terminal.press("\x0c");
    terminal.wait("a whole screen", |screen| {
        let is_last = screen.lines().last().is_some_and(|line| line.contains("Enter sends"));
        is_last && screen.lines().count() == 30 && screen.matches("write a task").count() == 1
    });
    terminal.press("\x04");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn a_squad_and_a_debate_are_begun_and_watched_on_the_screen() {
    let env = Env::new();
    let mut terminal = Terminal::start(&env, &["--yes"], 120, 40);
    terminal.wait_for("write a task");
    terminal.press("/demo squad\r");
    terminal.wait("the roles at work", |screen| screen.contains("reviewer") && screen.contains("squad · "));
    terminal.wait_for("── done");
    terminal.wait_for("Posts no longer overwrite each other");
    terminal.press("/squad --blueprint nope Do it again.\r");
    terminal.wait("the refusal and what was written", |screen| {
        screen.contains("answers no other task than its own")
            && screen.contains("❯ /squad --blueprint nope Do it again.")
    });
    terminal.press("\x03/mode debate --rounds 2\r");
    terminal.wait_for("── debate --rounds=2 ──");
    terminal.press("/demo debate\r");
    terminal.wait_for("agon  debate · done");
    terminal.press("\tm");
    terminal.wait("the matrix", |screen| screen.contains("% agreed") && screen.contains("verdict"));
    terminal.press("\x1b");
    terminal.wait("the story", |screen| !screen.contains("% agreed, moved"));
    terminal.press("\t/quit\r");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn lines_that_a_terminal_pastes_as_keys_are_written_and_obey_nothing() {
    let env = Env::new();
    let mut terminal = Terminal::start(&env, &[], 100, 30);
    terminal.wait_for("write a task");
    terminal.press("see what follows:\r/quit\r\tthat was it\r");
    terminal.wait("all lines as they were", |screen| {
        screen.contains("❯ see what follows:") && screen.contains("/quit") && screen.contains("that was it")
    });
    terminal.press("\x03/quit\r");
    assert_eq!(terminal.end(), 0);
}

/// Configures a model that says `heard`, so many times.
fn words(env: &Env, times: usize) {
    let answers: String = (0..times).map(|_| "[[answer]]\nspark = \"solo\"\ntext = \"heard\"\n").collect();
    env.write("home/words.toml", &answers);
    let script = env.home().join("words.toml");
    env.config(&format!(
        "model = \"words/any\"\n[providers.words]\nkind = \"script\"\nfile = \"{}\"\n",
        script.display()
    ));
}

#[test]
fn a_fork_from_the_past_and_a_model_that_is_changed() {
    let env = Env::new();
    words(&env, 1);
    let mut terminal = Terminal::start(&env, &["demo", "run", "--tui"], 110, 40);
    terminal.wait_for("y once");
    terminal.press("\t[[");
    terminal.wait_for("live goes on at e8");
    terminal.press("\x1b");
    terminal.wait("the present", |screen| !screen.contains('◀'));
    allow_all(&mut terminal);
    terminal.press("\tg7\r");
    terminal.wait_for("◀ e7");
    terminal.press("f");
    terminal.wait_for("Fork at e7?");
    terminal.press("\r");
    terminal.wait_for("forked at e7");
    terminal.wait_for("left open");
    terminal.wait_for("Enter goes on where it was left");
    terminal.press("\r");
    allow_all(&mut terminal);
    terminal.press("/model demo/other\r");
    terminal.wait_for("is the script of the demo and knows no other task");
    terminal.press("/model words/any\r");
    terminal.wait_for("⚙ model words/any");
    terminal.press("/rename the copy\r");
    terminal.wait_for("renamed");
    terminal.press("/sessions\r");
    terminal.wait("both sessions", |screen| screen.contains("“the copy”") && screen.contains("here"));
    // A slash right after it would be a key with Alt.
    terminal.press("\x1b");
    terminal.wait("the story", |screen| !screen.contains("the copy"));
    terminal.press("/quit\r");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn what_is_sent_just_as_a_turn_ends_is_a_task_and_is_not_lost() {
    const TURNS: usize = 60;
    let env = Env::new();
    words(&env, TURNS);
    let mut terminal = Terminal::start(&env, &["--sandbox", "none", "--yes"], 80, 24);
    terminal.wait_for("write a task");
    let log = || {
        let sessions = std::fs::read_dir(env.home().join("sessions")).ok()?;
        let folder = sessions.flatten().map(|entry| entry.path()).find(|path| path.is_dir())?;
        std::fs::read_to_string(folder.join("log-000000.jsonl")).ok()
    };
    for turn in 1..=TURNS {
        terminal.press(&format!("task {turn}.\r"));
        // The screen hears of the end a little later than the log: what is sent between is sent to a turn that is over.
        terminal.wait("the turn to end", |_| {
            log().is_some_and(|log| log.matches("\"turn_closed\"").count() == turn)
        });
    }
    let log = log().unwrap();
    for turn in 1..=TURNS {
        let given = format!("\"prompt_given\",\"data\":{{\"text\":\"task {turn}.\"");
        assert_eq!(log.matches(&given).count(), 1, "task {turn}");
    }
    terminal.press("/quit\r");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn what_is_asked_after_the_demo_goes_to_the_configured_model_and_without_one_is_given_back() {
    let env = Env::new();
    // A folder that was named stays when the screen is left.
    let folder = env.home().join("project").display().to_string();
    let args = ["demo", "run", "--tui", "--yes", "--workspace", &folder];
    let mut terminal = Terminal::start(&env, &args, 100, 30);
    terminal.wait_for("── done");
    terminal.press("Now the tests.\r");
    terminal.wait("the refusal and what was written", |screen| {
        screen.contains("answers no other task than its own") && screen.contains("❯ Now the tests.")
    });
    terminal.press("\x03/quit\r");
    assert_eq!(terminal.end(), 0);
    // The same from its record, once there is a model: what is shown is what works.
    words(&env, 1);
    let mut terminal = Terminal::start(&env, &[], 100, 30);
    terminal.wait_for("write a task");
    terminal.press("/resume latest\r");
    terminal.wait_for("record e");
    terminal.press("Now the tests.\r");
    terminal.wait("the other model's answer", |screen| {
        screen.contains("⚙ model words/any") && screen.contains("heard")
    });
    terminal.press("/quit\r");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn between_two_tasks_others_may_work_in_the_folder_and_the_list_says_open() {
    let env = Env::new();
    words(&env, 2);
    let mut first = Terminal::start(&env, &["--sandbox", "none", "--yes"], 100, 30);
    first.wait_for("write a task");
    first.press("one\r");
    first.wait_for("── done");
    // What was worked in is recorded and let go a moment after the turn is over.
    let began = std::time::Instant::now();
    let until = |words: &[&str], waits: &dyn Fn(&Ran) -> bool| loop {
        let ran = env.run(words);
        if !waits(&ran) || began.elapsed() > std::time::Duration::from_secs(60) {
            break ran;
        }
    };
    let ran = until(&["run", "--sandbox", "none", "two"], &|ran| ran.stderr.contains("is at work in"));
    assert!(ran.code == 0 && ran.stdout.contains("heard"), "{ran}");
    let listed = until(&["sessions"], &|ran| ran.stdout.contains(" running "));
    assert!(listed.stdout.lines().any(|line| line.contains(" open ") && line.contains("one")), "{listed}");
    // Its model does not change: nothing is recorded, or told, of what is in force already.
    first.press("/model words/any\r");
    first.wait_for("nothing is different");
    first.press("three\r");
    first.wait("the second answer", |screen| screen.matches("── done").count() == 2);
    assert!(!first.text().contains("⚙ model"), "{}", first.text());
    first.press("/quit\r");
    assert_eq!(first.end(), 0);
}

#[test]
fn the_demo_of_a_debate_goes_on_in_a_copy_of_its_beginning() {
    let env = Env::new();
    let mut terminal = Terminal::start(&env, &["demo", "debate", "--tui", "--yes"], 100, 30);
    terminal.wait_for("── done");
    terminal.press("\tg1\r");
    terminal.wait_for("◀ e1");
    terminal.press("f");
    terminal.wait_for("Fork at e1?");
    terminal.press("\r");
    terminal.wait_for("left open");
    terminal.press("\r");
    terminal.wait_for("── done");
    assert!(!terminal.text().contains("failed"), "{}", terminal.text());
    terminal.press("\t/quit\r");
    assert_eq!(terminal.end(), 0);
}
