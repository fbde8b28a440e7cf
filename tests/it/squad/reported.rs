//! What a report says of a squad: what is lacking beside the turn, each review, each claim, words and never JSON.

use serde_json::{Value, json};

use super::again::{FILERS, play, project, squad};
use super::program::{role_of, turns};
use crate::support::env::Env;
use crate::support::server::{Reply, Server};

/// A squad whose silent check fails, whose reviewer approves, and whose coordinator says that all is well.
fn denied() -> (Server, Env) {
    let server = Server::start(|request: &Value, n| match (role_of(request), turns(request)) {
        ("coordinator", 1) => {
            let claims = json!([{"kind": "checks_pass", "text": "the tests pass", "evidence": []}]);
            Reply::text(&json!({"answer": "All **well**.", "claims": claims, "open": ["docs"]}).to_string())
        }
        _ => play(request, n),
    });
    let env = project(&server);
    env.write("home/blueprints/filers.toml", &format!("checks = [\"false\"]\n{FILERS}"));
    let ran = squad(&env, &[]);
    assert_eq!(ran.code, 1, "{ran}");
    (server, env)
}

#[test]
fn a_report_names_the_failed_check_the_reviews_and_the_claim_and_quotes_no_json() {
    let (_server, env) = denied();
    let page = env.run(&["report", "latest"]).stdout;
    for words in [
        "- Outcome: not done: check \\`false\\`: exit 1",
        "All **well**.",
        "Open:\n\n- docs",
        "- **reviewer** approved [e",
        "- `false` exit 1 [e",
        "- **“the tests pass”: the log says otherwise: the check of e",
        "**check_ran**",
        "`false: exit 1`",
        "(it printed nothing)",
        "critique_issued\n\n```text\napproved\n```",
        "Claims:\n- the tests pass (cites nothing)",
    ] {
        let words =
            words.replace("**check_ran**", "check\\_ran").replace("critique_issued", "critique\\_issued");
        assert!(page.contains(&words), "`{words}` is missing in\n{page}");
    }
    assert!(!page.contains("```text\n\n```") && !page.contains("{\""), "{page}");
    let html = env.run(&["report", "latest", "--format", "html"]).stdout;
    for words in ["not done: check `false`: exit 1", "the log says otherwise", "approved"] {
        assert!(html.contains(words), "`{words}` is missing in\n{html}");
    }
    assert!(!html.contains("&quot;answer&quot;"), "{html}");
}
