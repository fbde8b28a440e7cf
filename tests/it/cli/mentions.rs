//! Mentions through the real program: what is read reaches the model, what may not be read does not.

use serde_json::Value;

use super::run::{check, entries, kinds, scripted};
use crate::support::env::Env;
use crate::support::server::{Reply, Server};

/// A PNG of one pixel.
const PIXEL: &[u8] = &[
    137, 80, 78, 71, 13, 10, 26, 10, 0, 0, 0, 13, 73, 72, 68, 82, 0, 0, 0, 1, 0, 0, 0, 1, 8, 6, 0, 0, 0, 31,
    21, 196, 137, 0, 0, 0, 13, 73, 68, 65, 84, 120, 218, 99, 252, 207, 192, 240, 31, 0, 5, 5, 2, 0, 95, 200,
    241, 210, 0, 0, 0, 0, 73, 69, 78, 68, 174, 66, 96, 130,
];

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

#[test]
fn a_picture_that_is_mentioned_or_read_is_sent_to_models_that_take_pictures_and_described_to_others() {
    let server = Server::start(|request: &Value, _| {
        let messages = request["messages"].as_array().unwrap();
        match messages.iter().any(|message| message["role"] == "tool") {
            true => Reply::text("seen"),
            false => Reply::calls([("read_file", serde_json::json!({"path": "shot.png"}))]),
        }
    });
    for (images, sent, described) in [(true, 2, 0), (false, 0, 2)] {
        let env = Env::new();
        env.config(&format!(
            "[providers.mock]\nkind = \"openai\"\nbase_url = \"{}\"\n[models.\"mock/any\"]\ncontext = 128000\nimages = {images}\n",
            server.url()
        ));
        std::fs::create_dir_all(env.work()).unwrap();
        std::fs::write(env.work().join("shot.png"), PIXEL).unwrap();
        check(&env.run(&["run", "-m", "mock/any", "what does @shot.png show?"]), 0, "seen\n");
        let last = server.bodies().pop().unwrap().to_string();
        assert_eq!(last.matches("data:image/png;base64,iVBORw0KGgo").count(), sent, "{last}");
        assert_eq!(last.matches("[image/png of 1×1: shot.png]").count(), described, "{last}");
        let verified = env.run(&["verify", "latest", "--strict"]);
        assert_eq!(verified.code, 0, "{verified}");
        let away = env.home().join("away.jsonl").display().to_string();
        assert_eq!(env.run(&["sessions", "export", "latest", "-o", &away]).code, 0);
        let blobs = std::fs::read_dir(env.home().join("away.jsonl.blobs")).unwrap().count();
        assert_eq!(blobs, 1, "the picture goes with the log");
    }
    assert!(server.take_violations().is_empty());
}
