//! Mentions through the real program: what is read reaches the model, what may not be read does not.

use super::run::{check, entries, kinds, scripted};

#[test]
fn what_a_prompt_mentions_reaches_the_model_and_the_log() {
    let script = "[[answer]]\nspark = \"solo\"\nexpect = \"     2\\tbeta\"\ntext = \"seen\"\n";
    let env = scripted(script);
    env.write("work/a.txt", "alpha\nbeta\ngamma\n").write("work/src/b.rs", "fn b() {}\n");
    check(&env.run(&["run", "explain @a.txt:2-2 and @src/"]), 0, "seen\n");
    let log = entries(&env.run(&["sessions", "export", "latest"]).stdout);
    let read = log.iter().filter(|entry| kinds(entry)[0] == "mention_expanded");
    // Both are read at once: whichever ends first is the first in the log.
    let mut read: Vec<_> = read.map(|entry| entry["events"][0]["data"]["body"].clone()).collect();
    read.sort_by_key(|body| body["text"].to_string());
    assert_eq!(read[0]["text"], "     2\tbeta\n");
    assert_eq!(read[0]["seen"][0]["path"], "a.txt");
    assert_eq!(read[1]["text"], "src/b.rs (10 bytes)\n");
    assert_eq!(env.run(&["verify", "latest"]).code, 0);
}

#[test]
fn what_holds_secrets_or_lies_outside_is_not_read_and_the_model_is_told() {
    let script = "[[answer]]\nspark = \"solo\"\nexpect = \"leads outside the workspace\"\ntext = \"told\"\n";
    let env = scripted(script);
    env.write("work/.env", "TOKEN=hunter2hunter2\n").write("outside.txt", "nobody's business\n");
    check(&env.run(&["run", "compare @.env with @../outside.txt, @gone.rs and @someone"]), 0, "told\n");
    let log = env.run(&["sessions", "export", "latest"]).stdout;
    assert!(!log.contains("hunter2") && !log.contains("nobody's business"), "{log}");
    let log = entries(&log);
    let failed = log.iter().filter(|entry| kinds(entry)[0] == "effect_failed");
    let mut why: Vec<String> = failed
        .map(|entry| entry["events"][0]["data"]["body"]["error"].as_str().unwrap().to_owned())
        .collect();
    why.sort();
    assert_eq!(
        why,
        [
            "`@../outside.txt` was not read: `../outside.txt` leads outside the workspace",
            "`@.env` was not read: the policy denies reading `.env`",
            "`@gone.rs` was not read: `gone.rs` does not exist",
            "`@someone` was not read: `someone` does not exist",
        ]
    );
}
