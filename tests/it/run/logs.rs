//! Damaged, cut and foreign logs through the real program.

use super::kit::*;
use crate::support::env::Env;
use crate::support::server::{Reply, Server};

fn one_turn() -> (Server, Env, Vec<u8>) {
    let server = Server::start(|_, _| Reply::text("hello"));
    let env = served(&server);
    assert_eq!(env.run(&["run", "greet"]).code, 0);
    let log = std::fs::read(log_file(&env)).unwrap();
    (server, env, log)
}

fn lines(log: &[u8]) -> Vec<Vec<u8>> {
    log.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

#[test]
fn a_torn_tail_is_set_aside_recorded_and_the_session_goes_on() {
    let (_server, env, log) = one_turn();
    let mut torn = log.clone();
    torn.extend_from_slice(b"{\"v\":2,\"seq\":4,\"at\":17");
    std::fs::write(log_file(&env), &torn).unwrap();
    let verified = env.run(&["verify", "latest"]);
    assert_eq!(verified.code, 0, "what is whole is true: {verified}");
    assert!(verified.to_string().contains("22 bytes"), "and what is not is told: {verified}");
    assert_eq!(std::fs::read(log_file(&env)).unwrap(), torn, "verify changes nothing");
    let ran = env.run(&["run", "again", "--resume", "latest"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "hello\n"), "{ran}");
    let recovered = all(&entries(&env), "fault_recovered").remove(0).1;
    assert_eq!(recovered["dropped_bytes"], 22);
    let kept = recovered["kept_in"].as_str().unwrap();
    let kept = std::fs::read(log_file(&env).parent().unwrap().join(kept)).unwrap();
    assert_eq!(kept, b"{\"v\":2,\"seq\":4,\"at\":17");
    assert!(std::fs::read(log_file(&env)).unwrap().starts_with(&log));
    nothing_lost(&env);
}

#[test]
fn a_flipped_bit_in_the_last_line_is_no_torn_tail() {
    let (_server, env, log) = one_turn();
    let mut flipped = log.clone();
    let at = flipped.len() - 100;
    flipped[at] ^= 4;
    std::fs::write(log_file(&env), &flipped).unwrap();
    let ran = env.run(&["verify", "latest"]);
    assert_eq!(ran.code, 5, "{ran}");
    assert!(ran.stderr.contains(&format!("damaged at entry {} ", lines(&log).len() - 1)), "{ran}");
}

#[test]
fn a_missing_line_is_named() {
    let (_server, env, log) = one_turn();
    let mut lines = lines(&log);
    lines.remove(2);
    std::fs::write(log_file(&env), lines.concat()).unwrap();
    for arguments in [&["verify", "latest"][..], &["run", "x", "--resume", "latest"]] {
        let ran = env.run(arguments);
        assert_eq!(ran.code, 5, "{ran}");
        assert!(ran.stderr.contains("damaged at entry 2 "), "{ran}");
    }
}

#[test]
fn two_lines_that_changed_places_are_named() {
    let (_server, env, log) = one_turn();
    let mut lines = lines(&log);
    lines.swap(1, 2);
    std::fs::write(log_file(&env), lines.concat()).unwrap();
    let ran = env.run(&["verify", "latest"]);
    assert_eq!(ran.code, 5, "{ran}");
    assert!(ran.stderr.contains("damaged at entry 1 "), "{ran}");
}

/// Writes a whole log again with a changed line, every hash as it must be.
fn rechained(log: &[u8], id: &str, change: impl Fn(usize, String) -> String) -> Vec<u8> {
    use agon::eventlog::chain::Link;
    let mut link = Link::root(id);
    let mut whole = Vec::new();
    for (seq, line) in lines(log).into_iter().enumerate() {
        let text = String::from_utf8(line).unwrap();
        let body = change(seq, text[..text.len() - 52].to_owned());
        link = link.next(body.as_bytes());
        whole.extend(format!("{body},\"h\":\"{}\"}}\n", link.text()).into_bytes());
    }
    whole
}

fn id(env: &Env) -> String {
    log_file(env).parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn a_log_of_a_newer_program_is_named_and_left_alone() {
    let (_server, env, log) = one_turn();
    let same = rechained(&log, &id(&env), |_, line| line);
    assert_eq!(same, log, "the chain of this test is the chain of the program");
    let newer = rechained(&log, &id(&env), |seq, line| match seq {
        2 => line.replacen("{\"v\":2,", "{\"v\":3,", 1),
        _ => line,
    });
    std::fs::write(log_file(&env), &newer).unwrap();
    for arguments in [&["verify", "latest"][..], &["run", "x", "--resume", "latest"]] {
        let ran = env.run(arguments);
        assert_eq!(ran.code, 2, "{ran}");
        assert!(
            ran.stderr.contains("entry 2 was written by a newer agon: unknown format version 3"),
            "{ran}"
        );
        assert!(ran.stderr.contains("hint: continue it with the newer program"), "{ran}");
    }
    assert_eq!(std::fs::read(log_file(&env)).unwrap(), newer);
}

#[test]
fn an_event_of_an_unknown_kind_is_shown_and_not_continued() {
    let (_server, env, log) = one_turn();
    let newer = rechained(&log, &id(&env), |seq, line| match seq {
        2 => line.replacen("\"kind\":\"budget_settled\"", "\"kind\":\"wormhole_opened\"", 1),
        _ => line,
    });
    assert_ne!(newer, log);
    std::fs::write(log_file(&env), &newer).unwrap();
    assert_eq!(env.run(&["replay", "latest"]).code, 0);
    let ran = env.run(&["run", "x", "--resume", "latest"]);
    assert_eq!(ran.code, 2, "{ran}");
    assert!(ran.stderr.contains("`wormhole_opened`"), "{ran}");
}

#[test]
fn a_changed_decision_with_a_whole_chain_is_exit_5_and_named() {
    let (_server, env, log) = one_turn();
    let forged = rechained(&log, &id(&env), |_, line| line.replace("\"micro_usd\":20}", "\"micro_usd\":0}"));
    assert_ne!(forged, log, "the price of the one call was changed");
    std::fs::write(log_file(&env), &forged).unwrap();
    let ran = env.run(&["verify", "latest"]);
    assert_eq!(ran.code, 5, "{ran}");
    assert!(ran.to_string().contains('2'), "{ran}");
}
