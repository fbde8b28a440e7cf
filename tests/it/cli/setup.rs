//! First steps: a key is stored, a model is found, tried and written down, and what providers offer is listed.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::run::log;
use crate::run::served;
use crate::support::env::Env;
use crate::support::server::{Reply, Server};
use crate::tui::pty::Terminal;

const KEY: &str = "sk-test-0123456789abcdef";

/// A provider `gpu` at a server, whose table names no key.
fn gpu(server: &Server) -> Env {
    let env = Env::new();
    env.config(&table(server));
    env
}

fn table(server: &Server) -> String {
    format!(
        "model = \"gpu/any\"\n[providers.gpu]\nkind = \"openai\"\nbase_url = \"{}\"\n[models.\"gpu/any\"]\ncontext = 99000\n",
        server.url()
    )
}

fn bearer(server: &Server) -> Option<String> {
    server.requests().last().unwrap().header("authorization").map(str::to_owned)
}

#[test]
fn a_stored_key_goes_to_its_server_alone_and_is_shown_nowhere() {
    let server = Server::start(|_, _| Reply::text(&format!("your key is {KEY}")));
    let env = gpu(&server);
    let set = env.run_with(&["keys", "set", "gpu"], format!("{KEY}\n").as_bytes());
    assert_eq!(set.code, 0, "{set}");
    let mode = std::fs::metadata(env.home().join("keys.toml")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let ran = env.run(&["run", "hello", "--json"]);
    assert_eq!((ran.code, bearer(&server)), (0, Some(format!("Bearer {KEY}"))), "{ran}");
    assert!(log(&env).contains("your key is [secret:gpu]"), "{ran}");
    let shown = ["keys list", "doctor", "config show", "config show --json"]
        .map(|words| env.run(&words.split(' ').collect::<Vec<_>>()).to_string());
    for text in shown.iter().chain([&set.to_string(), &ran.to_string(), &log(&env)]) {
        assert!(!text.contains("0123456789abcdef"), "{text}");
    }
    assert!(shown[0].contains("gpu            a key is stored\n"), "{}", shown[0]);
    let other = Server::start(|_, _| Reply::text("hi"));
    env.config(&table(&other));
    assert_eq!((env.run(&["run", "hello"]).code, bearer(&other)), (0, None), "another address");
    assert!(env.run(&["keys", "list"]).stdout.contains("where `gpu` is not any more"));
    assert_eq!(env.run(&["keys", "rm", "gpu"]).code, 0);
    assert_eq!((env.run(&["keys", "rm", "gpu"]).code, env.run(&["keys", "list"]).stdout), (2, String::new()));
}

#[test]
fn a_key_is_no_argument_and_has_no_line_break() {
    let env = Env::new();
    for (arguments, input) in [
        (&["keys", "set", "openai", KEY][..], ""),
        (&["keys", "set", "openai"], "sk-first\nsk-second\n"),
        (&["keys", "set", "openai"], "\n"),
        (&["keys", "set", "opnai"], KEY),
    ] {
        let ran = env.run_with(arguments, input.as_bytes());
        assert_eq!(ran.code, 2, "{ran}");
        assert!(!ran.to_string().contains("sk-"), "{ran}");
    }
    assert!(!env.home().join("keys.toml").exists());
}

#[test]
fn a_key_pasted_with_a_line_break_is_dropped_whole_and_asked_for_again() {
    let env = Env::new();
    let mut terminal = Terminal::start(&env, &["keys", "set", "openai"], 100, 20);
    terminal.wait_for("(not shown)");
    terminal.press("sk-first-half12345\rsk-second-half");
    terminal.wait_for("a key has no spaces, line breaks");
    terminal.wait("the question again", |screen| screen.matches("(not shown)").count() == 2);
    terminal.press(&format!("{KEY}\r\r"));
    terminal.wait_for("stored in");
    assert!(!terminal.text().contains("sk-"), "{}", terminal.text());
    assert_eq!(terminal.end(), 0);
    let kept = std::fs::read_to_string(env.home().join("keys.toml")).unwrap();
    assert!(kept.contains(KEY) && !kept.contains("half"), "{kept}");
}

/// `bash tests/run keychain`: a Secret Service that nobody here wrote has the key, and no file.
#[cfg(feature = "keychain")]
#[test]
fn a_keychain_has_the_key_where_there_is_one() {
    let server = Server::start(|_, _| Reply::text("hi"));
    let env = gpu(&server);
    let session = format!(
        "printf pw | gnome-keyring-daemon --unlock --components=secrets >/dev/null && \
         printf {KEY} | \"$0\" keys set gpu && \"$0\" keys list && \"$0\" run hello && cat $AGON_HOME/keys.toml && \
         \"$0\" keys rm gpu && \"$0\" keys list"
    );
    let plain = env.command(&[]);
    let mut bus = std::process::Command::new("dbus-run-session");
    bus.args(["--", "sh", "-c", &session]).arg(plain.get_program()).current_dir(env.work()).env_clear();
    bus.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = bus.output().unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("stored in the system's keychain") && !said.contains("0123456789abcdef"), "{said}");
    assert!(said.contains("a key is stored\n") && said.contains("no key is set or stored"), "{said}");
    assert_eq!(bearer(&server), Some(format!("Bearer {KEY}")));
    // Without one the file has it, and why is said.
    let set = env.run_with(&["keys", "set", "gpu"], KEY.as_bytes());
    assert!(set.code == 0 && set.stderr.contains("the system's keychain is not available"), "{set}");
    assert!(std::fs::read_to_string(env.home().join("keys.toml")).unwrap().contains(KEY));
}

#[test]
fn of_two_keys_that_of_the_environment_counts_and_that_is_said() {
    let server = Server::start(|_, _| Reply::text("hi"));
    let mut env = gpu(&server);
    env.config(&table(&server).replace("kind =", "api_key_env = \"GPU_API_KEY\"\nkind ="));
    let missing = env.run(&["run", "hello"]);
    assert!(missing.stderr.contains("hint: agon keys set gpu, or export GPU_API_KEY=..."), "{missing}");
    env.run_with(&["keys", "set", "gpu"], b"sk-stored-0123456789");
    env.run(&["run", "hello"]);
    assert_eq!(bearer(&server).as_deref(), Some("Bearer sk-stored-0123456789"));
    env.set("GPU_API_KEY", " sk-set-0123456789\n");
    env.run(&["run", "hello"]);
    assert_eq!(bearer(&server).as_deref(), Some("Bearer sk-set-0123456789"));
    let listed = env.run(&["keys", "list"]);
    assert!(listed.stdout.contains("gpu            `GPU_API_KEY` is set\n"), "{listed}");
    assert!(listed.stdout.contains("a key is stored and not used, since `GPU_API_KEY` is set"), "{listed}");
}

#[test]
fn others_who_can_read_the_keys_are_warned_of() {
    let server = Server::start(|_, _| Reply::text("hi"));
    let env = gpu(&server);
    env.run_with(&["keys", "set", "gpu"], KEY.as_bytes());
    std::fs::set_permissions(env.home().join("keys.toml"), PermissionsExt::from_mode(0o644)).unwrap();
    let ran = env.run(&["run", "hello"]);
    assert!(ran.stderr.contains("others can read your keys in `[HOME]/keys.toml` (mode 644)"), "{ran}");
}

#[test]
fn a_model_is_tried_before_it_is_written_down() {
    let server = Server::start(|request, n| {
        match (n, request.get("max_tokens")) {
        (1, Some(_)) => Reply::status(
            400,
            &json!({"error": {"message": "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", "param": "max_tokens"}}).to_string(),
        ),
        (2, None) => Reply::text("ready"),
        _ => Reply::status(401, &json!({"error": {"message": "Incorrect API key"}}).to_string()),
    }
    });
    let env = served(&server);
    let before = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    let ran = env.run(&["init", "-m", "mock/other"]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stderr.contains("other answered in ") && ran.stderr.contains(": ready\n"), "{ran}");
    let after = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    assert_eq!(after, before.replace("model = \"mock/any\"", "model = \"mock/other\""));
    let failed = env.run(&["init", "-m", "mock/any"]);
    assert_eq!(failed.code, 2, "{failed}");
    assert!(
        failed.stderr.contains("Incorrect API key") && failed.stderr.contains("nothing was written"),
        "{failed}"
    );
    assert_eq!(std::fs::read_to_string(env.home().join("config.toml")).unwrap(), after);
    let talker = Server::start(|request, _| match request.get("tools") {
        Some(_) => {
            Reply::status(400, &json!({"error": {"message": "any does not support tools"}}).to_string())
        }
        None => Reply::text("ready"),
    });
    let talks = served(&talker).run(&["init", "-m", "mock/any"]);
    assert!(talks.code == 2 && talks.stderr.contains("use a model that can call tools"), "{talks}");
    let unattended = env.run(&["init"]);
    assert!(
        unattended.code == 2 && unattended.stderr.contains("agon init -m PROVIDER/MODEL"),
        "{unattended}"
    );
}

fn listing() -> Value {
    json!({"object": "list", "data": [
        {"id": "big/talker", "context_length": 200000, "supported_parameters": ["tools", "reasoning"],
         "pricing": {"prompt": "0.000001", "completion": "0.000002"},
         "top_provider": {"max_completion_tokens": 16000}},
        {"id": "plain"},
        {"id": "text-embedding-9"},
    ]})
}

#[test]
fn every_provider_lists_its_own_models_and_what_is_unknown_is_called_so() {
    let server = Server::start(|_, _| Reply::text("hi")).holding(None).listing(listing());
    let env = served(&server);
    let dead = "[providers.dead]\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1\"\n";
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.config(&format!("{config}{dead}"));
    let ran = env.run(&["models"]);
    assert_eq!(ran.code, 0, "{ran}");
    let row = |name: &str| {
        let line = ran.stdout.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{ran}"));
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row("mock/big/talker"), "mock/big/talker 200,000 16,000 $1.00 in, $2.00 out tools, thinking");
    assert_eq!(row("mock/plain"), "mock/plain unknown unknown unknown unknown");
    assert!(ran.stderr.contains("warning: `dead` (127.0.0.1:9) cannot be reached"), "{ran}");
    assert!(!ran.stdout.contains("embedding"), "{ran}");
    let all = env.run(&["models", "list", "--all", "EMBED", "--provider", "mock"]);
    assert!(all.stdout.contains("mock/text-embedding-9") && !all.stdout.contains("talker"), "{all}");
    let json: Value = serde_json::from_str(&env.run(&["models", "--json", "talker"]).stdout).unwrap();
    assert_eq!(json[0]["context"], json!({"value": 200_000, "source": "server"}));
    let show = env.run(&["models", "show", "mock/plain"]);
    assert!(show.stdout.contains("window         unknown\n"), "{show}");
    let show = env.run(&["models", "show", "mock/any"]);
    assert!(show.stdout.contains("$1.00 in, $2.00 out per million tokens (configuration)"), "{show}");
    assert_eq!(env.run(&["models", "-p", "mok"]).code, 2);
    assert_eq!(env.run(&["models", "-p", "dead"]).code, 1);
}

#[test]
fn what_a_model_can_do_is_in_the_list_whatever_software_serves_it() {
    let ids = |ids: &[&str]| json!({"data": ids.iter().map(|id| json!({"id": id})).collect::<Vec<_>>()});
    let show =
        |abilities: &[&str]| json!({"capabilities": abilities, "model_info": {"a.context_length": 32_768}});
    let ollama = Server::start(|_, _| Reply::text("hi"))
        .holding(None)
        .listing(ids(&["gemma:2b", "qwen3:4b"]))
        .telling("GET /api/ps", json!({"models": []}))
        .telling("POST /api/show gemma:2b", show(&["completion"]))
        .telling("POST /api/show qwen3:4b", show(&["completion", "tools", "thinking"]));
    let studio =
        Server::start(|_, _| Reply::text("hi")).holding(None).listing(ids(&["qwen/qwen3-4b"])).telling(
            "GET /api/v0/models",
            json!({"data": [{"id": "qwen/qwen3-4b", "type": "llm", "state": "loaded",
            "max_context_length": 32_768, "loaded_context_length": 8_192, "capabilities": ["tool_use"]}]}),
        );
    let llama_server = Server::start(|_, _| Reply::text("hi")).holding(Some(6_144)).listing(ids(&["m"]));
    let env = Env::new();
    let table = |(name, server): (&str, &Server)| {
        format!("[providers.{name}]\nkind = \"openai\"\nbase_url = \"{}\"\n", server.url())
    };
    let servers = [("o", &ollama), ("s", &studio), ("l", &llama_server)];
    env.config(&servers.map(table).concat());
    let listed = env.run(&["models"]);
    for row in [
        "o/gemma:2b 4,096 unknown unknown no tools",
        "o/qwen3:4b 4,096 unknown unknown tools, thinking",
        "s/qwen/qwen3-4b 8,192 unknown unknown tools",
        "l/m 6,144 unknown unknown unknown",
    ] {
        let is_row = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ") == row;
        assert!(listed.stdout.lines().any(is_row), "{row}: {listed}");
    }
    let shown = env.run(&["models", "show", "s/qwen/qwen3-4b"]);
    assert!(
        shown.stdout.contains("8,192 tokens (server)") && shown.stdout.contains("tools          yes"),
        "{shown}"
    );
}

#[test]
fn what_ships_with_agon_is_shown_without_a_key() {
    let shown = Env::new().run(&["models", "show", "openai/gpt-5"]);
    assert!(shown.code == 0 && shown.stdout.contains("$1.25 in, $10.00 out"), "{shown}");
    assert!(shown.stderr.contains("`OPENAI_API_KEY` is not set"), "{shown}");
    for ability in ["tools          yes (shipped table", "images         yes (shipped table"] {
        assert!(shown.stdout.contains(ability), "{shown}");
    }
    let recorded = Env::new().run(&["models", "show", "log/latest"]);
    assert!(recorded.code == 2 && recorded.stderr.contains("`log/latest` is no model"), "{recorded}");
}

#[test]
fn a_variable_with_a_line_break_is_named_and_is_no_key() {
    let mut env = Env::new();
    env.set("XAI_API_KEY", "sk-secret\n-1234567");
    let ran = env.run(&["run", "x", "-m", "xai/grok-4"]);
    assert!(
        ran.code == 2 && ran.stderr.contains("`XAI_API_KEY` is no key: it has spaces, line breaks"),
        "{ran}"
    );
    assert!(!ran.to_string().contains("sk-secret"), "{ran}");
}

#[test]
fn a_default_that_is_listed_no_more_is_named_with_what_replaces_it() {
    let rows =
        ["gpt-6.2-astra", "gpt-6.3-sol", "gpt-6.4-sol", "text-embedding-3"].map(|id| json!({"id": id}));
    let server = Server::start(|_, _| Reply::text("hi")).listing(json!({"data": rows}));
    let env = Env::new();
    env.config(&format!("[providers.openai]\nbase_url = \"{}\"\n", server.url()));
    let ran = env.run(&["models", "--provider", "openai"]);
    let words =
        "`openai/gpt-6.2-sol` is no longer listed; `openai/gpt-6.4-sol` takes its place as the default";
    assert!(ran.stderr.replace('\n', " ").replace("      ", "").contains(words), "{ran}");
}

#[test]
fn a_list_of_ten_thousand_models_is_listed_whole() {
    let rows: Vec<Value> = (0..10_000).map(|n| json!({"id": format!("m-{n}")})).collect();
    let server = Server::start(|_, _| Reply::text("hi")).listing(json!({"data": rows}));
    let env = served(&server);
    let ran = env.run(&["models", "--provider", "mock"]);
    assert_eq!((ran.code, ran.stdout.lines().count()), (0, 10_001), "{}", ran.stderr);
}
