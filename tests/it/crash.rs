//! Kills the real program at random moments and takes it up again, until the work is done; then counts what was done.
//!
//! The short form belongs to every run of the tests; `AGON_KILLS=1000` asks for the long one.

mod squad;
mod subagents;

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::env::Env;
use crate::support::world::Dice;

/// Tool calls of one session.
const STEPS: usize = 60;

/// A session of many steps: commands that leave a file with a name of their own each time they run, writes and
/// reads between them.
fn script() -> String {
    let mut script = String::new();
    for step in 0..STEPS {
        let call = match step % 4 {
            // The shell's own number tells two runs of one call apart.
            0 | 2 => format!(
                "{{ tool = \"bash\", args = {{ command = \"echo done > ran/{step}.$$; echo step {step} ran\" }} }}"
            ),
            1 => format!(
                "{{ tool = \"write_file\", args = {{ path = \"w{step}.txt\", content = \"{step}\\n\" }} }}"
            ),
            _ => "{ tool = \"list_dir\", args = { path = \"ran\" } }".to_owned(),
        };
        script += &format!(
            "[[answer]]\nspark = \"solo\"\ntext = \"step {step}\"\ncalls = [{call}]\ndelay_ms = 3\n"
        );
    }
    script + "[[answer]]\nspark = \"solo\"\ntext = \"all done\"\n"
}

fn place() -> Env {
    let env = Env::new();
    env.config("model = \"mock/any\"\n[providers.mock]\nkind = \"script\"\nfile = \"mock.toml\"\n");
    env.write("home/mock.toml", &script()).write("work/ran/.keep", "");
    env
}

/// How one process ended: what it had acknowledged on its standard output, and whether it came to its end.
struct Lived {
    acknowledged: Vec<String>,
    finished: bool,
    stderr: String,
}

/// When a process is killed: once it has acknowledged so many entries, and then so much later. A slow machine
/// is hit at the same moments of the work as a fast one.
#[derive(Clone, Copy, Debug)]
struct Moment {
    entries: u64,
    then: Duration,
}

impl Moment {
    /// One in eight comes while the program still starts.
    fn random(dice: &mut Dice) -> Self {
        let entries = match dice.roll(8) {
            0 => 0,
            _ => 1 + dice.roll(12),
        };
        Moment { entries, then: Duration::from_micros(dice.roll(9000)) }
    }

    const NEVER: Moment = Moment { entries: u64::MAX, then: Duration::ZERO };
}

/// Starts the program and kills it at a moment, unless it ends before.
fn live(mut command: Command, moment: Moment) -> Lived {
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let (stdout, mut stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let heard = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&heard);
    let reader = std::thread::spawn(move || {
        // A line that was cut off by the kill was not told whole: it counts as not told.
        let mut lines = Vec::new();
        let mut stdout = BufReader::new(stdout);
        let mut line = String::new();
        while stdout.read_line(&mut line).is_ok_and(|read| read > 0) {
            if line.ends_with('\n') {
                lines.push(std::mem::take(&mut line));
                counter.fetch_add(1, Ordering::SeqCst);
            }
        }
        lines
    });
    let errors = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = stderr.read_to_string(&mut text);
        text
    });
    let patience = Instant::now() + Duration::from_secs(60);
    let is_time = || heard.load(Ordering::SeqCst) >= moment.entries || Instant::now() > patience;
    while !is_time() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_micros(200));
    }
    std::thread::sleep(moment.then);
    let _ = child.kill();
    let status = child.wait().unwrap();
    Lived {
        acknowledged: reader.join().unwrap(),
        finished: status.code() == Some(0),
        stderr: errors.join().unwrap(),
    }
}

fn log(env: &Env) -> Option<String> {
    let mut sessions = std::fs::read_dir(env.home().join("sessions")).ok()?;
    let folder = sessions.next()?.unwrap().path();
    assert!(sessions.next().is_none(), "one session");
    std::fs::read_to_string(folder.join("log-000000.jsonl")).ok()
}

fn events(log: &str) -> Vec<Value> {
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.flat_map(|line| line["events"].as_array().unwrap().clone()).collect()
}

/// What a whole, killed session left behind.
#[derive(Default)]
struct Count {
    kills: u64,
    acknowledged: usize,
    resolved: usize,
    lost: usize,
}

/// One session, killed and taken up again until it is done or the kills are used up; then left to end.
fn session(dice: &mut Dice, kills_left: u64) -> Count {
    let env = place();
    let mut count = Count::default();
    let mut told: Vec<String> = Vec::new();
    loop {
        let has_turn = log(&env).is_some_and(|log| log.contains("\"turn_opened\""));
        let command = match has_turn {
            true => env.command(&["resume", "latest", "--yes", "--json"]),
            false => {
                // Killed before its prompt was recorded: nothing was asked of it yet.
                let _ = std::fs::remove_dir_all(env.home().join("sessions"));
                told.clear();
                env.command(&["run", "work", "--yes", "--json"])
            }
        };
        let moment = if count.kills < kills_left { Moment::random(dice) } else { Moment::NEVER };
        let lived = live(command, moment);
        told.extend(lived.acknowledged);
        // A kill can come after the seal and before the exit: then the work is done all the same.
        let sealed =
            log(&env).is_some_and(|log| log.lines().last().is_some_and(|l| l.contains("session_sealed")));
        count.kills += u64::from(!lived.finished);
        if lived.finished || sealed {
            break;
        }
        assert!(count.kills <= kills_left, "it was not killed and failed: {}", lived.stderr);
        let log = log(&env).unwrap_or_default();
        for line in &told {
            assert!(log.contains(line.as_str()), "an acknowledged entry was lost: {line}");
        }
    }
    check(&env, &told, count)
}

fn check(env: &Env, told: &[String], mut count: Count) -> Count {
    let log = log(env).unwrap();
    for line in told {
        assert!(log.contains(line.as_str()), "an acknowledged entry was lost: {line}");
    }
    let verified = env.run(&["verify", "latest"]);
    assert_eq!(verified.code, 0, "{verified}");
    let mut asked = std::collections::BTreeMap::new();
    let (mut resolved, mut lost) = (Vec::new(), Vec::new());
    for line in log.lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        for event in entry["events"].as_array().unwrap() {
            let data = &event["data"];
            match event["kind"].as_str().unwrap() {
                "model_answered" => {
                    let step = data["body"]["message"][0]["text"]["text"].as_str().unwrap();
                    asked.insert(format!("e{}", entry["seq"]), step.to_owned());
                }
                "tool_invoked" => {
                    let again = data["use"]["answer"].as_str().unwrap();
                    assert!(!resolved.iter().any(|done| done == again), "{again} was done and is run again");
                }
                "tool_resolved" => resolved.push(data["body"]["use"]["answer"].as_str().unwrap().to_owned()),
                "call_lost" if !data["use"].is_null() => {
                    lost.push(data["use"]["answer"].as_str().unwrap().to_owned());
                }
                _ => {}
            }
        }
    }
    assert_eq!(resolved.len() + lost.len(), STEPS, "every call has one end\n{log}");
    for step in (0..STEPS).step_by(2) {
        let name = format!("{step}.");
        let files = std::fs::read_dir(env.work().join("ran")).unwrap();
        let ran =
            files.filter(|f| f.as_ref().unwrap().file_name().to_str().unwrap().starts_with(&name)).count();
        let answer = asked.iter().find(|(_, text)| **text == format!("step {step}")).unwrap().0;
        match lost.contains(answer) {
            true => assert!(ran <= 1, "step {step} was cut off and ran {ran} times"),
            false => assert_eq!(ran, 1, "step {step} is recorded as done and ran {ran} times\n{log}"),
        }
    }
    assert_eq!(events(&log).last().unwrap()["kind"], "session_sealed");
    count.acknowledged = told.len();
    (count.resolved, count.lost) = (resolved.len(), lost.len());
    count
}

#[test]
fn kills_at_random_moments_lose_no_acknowledged_entry_and_repeat_no_finished_call() {
    let kills: u64 = std::env::var("AGON_KILLS").map_or(60, |text| text.parse().unwrap());
    let seed = std::env::var("AGON_SEED").map_or(kills, |text| text.parse().unwrap());
    let mut dice = Dice(seed | 1);
    let (mut total, mut sessions) = (Count::default(), 0);
    while total.kills < kills {
        let one = session(&mut dice, kills - total.kills);
        total.kills += one.kills;
        total.acknowledged += one.acknowledged;
        total.resolved += one.resolved;
        total.lost += one.lost;
        sessions += 1;
    }
    println!(
        "{} kills over {sessions} sessions: {} entries acknowledged, 0 lost; {} calls finished, 0 repeated; {} cut off",
        total.kills, total.acknowledged, total.resolved, total.lost
    );
    assert!(total.kills == kills && total.resolved > 0);
}
