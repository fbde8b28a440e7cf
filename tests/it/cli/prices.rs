//! What a model costs, by whom it is told, and limits of money that rest on it.

use serde_json::{Value, json};

use super::run::{HELLO, check, scripted};
use crate::support::env::Env;
use crate::support::server::{Reply, Server};

#[test]
fn a_limit_in_dollars_needs_a_price() {
    check(&scripted(HELLO).run(&["run", "greet", "--max-usd", "0.01"]), 0, "hello\n");
    // What listens on this machine may pass calls on to models that are paid for.
    let server = Server::start(|_, _| Reply::text("hello"));
    for (dialect, code) in [("", 2), ("dialect = \"ollama\"\n", 0), ("dialect = \"generic\"\n", 2)] {
        let env = gateway(&server, dialect);
        let ran = env.run(&["run", "greet", "--max-usd", "0.01"]);
        assert_eq!(ran.code, code, "{dialect}: {ran}");
        assert_eq!(ran.stderr.contains("the price of `gw/any` is not known"), code == 2, "{dialect}: {ran}");
        assert_eq!(env.home().join("sessions").exists(), code == 0, "nothing is begun that cannot be done");
        let free = env.run(&["run", "-v", "greet"]);
        assert_eq!(free.code, 0, "{free}");
        assert_eq!(free.to_string().contains("price unknown"), code == 2, "{dialect}: {free}");
    }
}

fn gateway(server: &Server, rest: &str) -> Env {
    let env = Env::new();
    env.config(&format!(
        "model = \"gw/any\"\n[sandbox]\nkind = \"none\"\n[providers.gw]\nkind = \"openai\"\nbase_url = \"{}\"\n{rest}",
        server.url()
    ));
    env
}

#[test]
fn a_price_that_the_server_tells_is_the_price_and_holds_a_limit() {
    let reply = |_: &Value, _| Reply::text("hello").with_usage(1000, 100);
    let pricing = |input: &str, output: &str| {
        let row = json!({"id": "any", "context_length": 200_000,
            "pricing": {"prompt": input, "completion": output}});
        json!({"data": [row]})
    };
    let server = Server::start(reply).listing(pricing("0.000003", "0.000015"));
    let own = "[models.\"gw/any\"]\ncontext = 100000\n";
    for rest in ["dialect = \"openrouter\"\n", "", own] {
        let env = gateway(&server, rest);
        let ran = env.run(&["run", "-v", "greet", "--max-usd", "1"]);
        assert_eq!(ran.code, 0, "{rest}: {ran}");
        assert!(ran.to_string().contains("cost     $0.0045"), "{rest}: {ran}");
        assert_eq!(env.run(&["run", "greet", "--max-usd", "0.001"]).code, 3, "{rest}");
    }
    // A session that began before its server told a price may be limited later.
    let env = gateway(&server, own);
    assert_eq!(env.run(&["run", "greet"]).code, 0);
    let later = env.run(&["run", "-v", "--resume", "latest", "more", "--max-usd", "1"]);
    assert_eq!(later.code, 0, "{later}");
    let free = Server::start(reply).listing(pricing("0", "0"));
    let ran = gateway(&free, "").run(&["run", "-v", "greet", "--max-usd", "1"]);
    assert!(ran.code == 0 && ran.to_string().contains("cost     $0.0000"), "{ran}");
}
