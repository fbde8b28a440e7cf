//! A debate on a model that refuses what every debater asks for: agon's own default model does.

use serde_json::Value;

use super::command::answer;
use crate::support::env::Env;
use crate::support::refusing::or_refused;
use crate::support::server::Server;

fn env(server: &Server) -> Env {
    let env = Env::new();
    let url = server.url();
    env.config(&format!(
        "[providers.openai]\nbase_url = \"{url}\"\n[models.\"openai/gpt-5\"]\nstructured = \"words\"\n"
    ));
    env
}

fn has_temperature(body: &Value) -> bool {
    body.get("temperature").is_some()
}

#[test]
fn a_debate_on_the_default_model_is_held_and_sends_no_temperature() {
    let server = Server::start(|request, _| or_refused(request, || answer(request)));
    let ran = env(&server).run(&["debate", "-m", "openai/gpt-5", "--rounds", "2", "A or B?"]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stdout.contains("sealed majority"), "{ran}");
    assert!(!server.bodies().iter().any(has_temperature), "what is known is not tried");
}

#[test]
fn a_debate_on_a_model_of_which_nothing_is_known_finds_out_and_the_next_one_knows() {
    let server = Server::start(|request, _| or_refused(request, || answer(request)));
    let env = env(&server);
    let ran = env.run(&["debate", "-m", "openai/gpt-6", "--rounds", "2", "A or B?"]);
    assert_eq!(ran.code, 0, "{ran}");
    let shown = env.run(&["replay", "latest"]);
    assert!(shown.stdout.contains("openai/gpt-6 refuses `temperature`: asked again without"), "{shown}");
    let verified = env.run(&["verify", "latest", "--strict"]);
    assert_eq!(verified.code, 0, "{verified}");
    let learnt = std::fs::read_to_string(env.home().join("models-learnt.toml")).unwrap();
    assert!(learnt.contains("[\"openai/gpt-6\"]") && learnt.contains("\"temperature\""), "{learnt}");
    let before = server.bodies().len();
    let ran = env.run(&["debate", "-m", "openai/gpt-6", "--rounds", "2", "C or D?"]);
    assert_eq!(ran.code, 0, "{ran}");
    let bodies = server.bodies();
    assert_eq!(bodies.len() - before, 6 + 1 + 6 + 6 + 1, "not one call too many");
    assert!(!bodies[before..].iter().any(|body| has_temperature(body) || body.get("max_tokens").is_some()));
}
