//! The command `policy`, rules that are kept, and what `--yes` leaves to a rule or a person.

use serde_json::Value;

use super::run::{ids, scripted};

use crate::support::env::Env;
use crate::tui::pty::Terminal;

fn explained(env: &Env, arguments: &[&str]) -> Value {
    let ran = env.run(&[&["policy", "explain"], arguments, &["--sandbox", "none", "--json"]].concat());
    assert_eq!(ran.code, 0, "{ran}");
    serde_json::from_str(&ran.stdout).unwrap()
}

const RULES: &str = "[[policy.rules]]\nname = \"tests\"\naction = \"allow\"\ntool = \"bash\"\ncommand = \"cargo test *\"\n\
    [[policy.rules]]\nname = \"no push\"\naction = \"deny\"\ncommand = \"git push *\"\n";

#[test]
fn explain_names_the_line_that_decides() {
    let env = Env::new();
    env.config(RULES);
    for (call, extra, line, action) in [
        ("bash: cargo test", &[][..], 4, "allow"),
        ("bash: cargo test --all 2>&1", &[], 4, "allow"),
        ("bash: cargo test; rm -rf /", &[], 5, "ask"),
        ("bash: cargo test > /etc/x", &[], 5, "ask"),
        ("bash: true && git push", &["--permission", "auto"], 1, "deny"),
        ("edit_file: src/main.rs", &[], 5, "ask"),
        ("edit_file: src/main.rs", &["--permission", "edits"], 5, "allow"),
        ("edit_file: src/main.rs", &["--permission", "plan"], 2, "deny"),
        ("bash: cargo test", &["--permission", "plan"], 2, "deny"),
        ("read_file: .env", &[], 1, "deny"),
        ("read_file: src/main.rs", &["--permission", "plan"], 5, "allow"),
    ] {
        let found = explained(&env, &[&[call], extra].concat());
        assert_eq!(
            (found["line"].as_u64(), found["action"].as_str()),
            (Some(line), Some(action)),
            "{call} {found}"
        );
    }
    let found = explained(&env, &["bash: cargo add x", "--need", "host:example.org", "--need", "port:80"]);
    assert_eq!(found["opens"].to_string(), "[\"host:example.org\",\"port:80\"]");
    let found =
        explained(&env, &["bash: cargo add x", "--need", "host:example.org", "--allow", "host:*.org"]);
    assert_eq!(found["opens"].to_string(), "[]");
    let ran = env.run(&["policy", "explain", "bash: cargo test; rm -rf /", "--sandbox", "none"]);
    assert!(ran.stdout.contains("commands  `cargo test`, `rm -rf /`"), "{ran}");
    assert!(ran.stdout.contains("ask: default: running commands is asked about   <- decides"), "{ran}");
    for bad in ["cargo test", "bash:", ": x", "nothing: x"] {
        assert_eq!(env.run(&["policy", "explain", bad, "--sandbox", "none"]).code, 2, "{bad}");
    }
    // What the tool refuses is refused whatever the rules say.
    for (call, why) in [
        ("edit_file: .git/config", "its hooks and configuration"),
        ("write_file: AGENTS.md", "it instructs agents"),
        ("read_file: ../x", "outside"),
        ("bash: x", ""),
    ] {
        let found = explained(&env, &[call, "--permission", "auto"]);
        let is_refused = !why.is_empty();
        assert_eq!(found["line"].as_u64() == Some(0), is_refused, "{found}");
        assert!(found["rule"].as_str().unwrap().contains(why), "{found}");
    }
    // A host that a rule names is not what is asked about.
    let named = ["bash: x", "--need", "host:example.org", "--allow", "host:example.org"];
    let rule = "default: running commands is asked about; `host:example.org` by `--allow host:example.org`";
    assert_eq!(explained(&env, &named)["rule"], rule);
}

#[test]
fn a_policy_file_has_rules_as_a_configuration_has_them_or_bare() {
    let env = Env::new();
    for table in ["rules", "policy.rules"] {
        env.write(
            "work/p.toml",
            &format!("[[{table}]]\nname = \"mine\"\naction = \"deny\"\ncommand = \"x *\"\n"),
        );
        assert_eq!(explained(&env, &["bash: x y", "--policy", "p.toml"])["rule"], "mine", "{table}");
        env.write("work/p.toml", &format!("[[{table}]]\nname = \"mine\"\nacton = \"deny\"\n"));
        let ran = env.run(&["policy", "explain", "bash: x", "--sandbox", "none", "--policy", "p.toml"]);
        assert!(ran.code == 2 && ran.stderr.contains("unknown field `acton`"), "{ran}");
    }
}

#[test]
fn a_rule_for_hosts_alone_is_listed_as_what_it_is() {
    let env = Env::new();
    env.write(
        "home/kept-rules.toml",
        "[[policy.rules]]\nname = \"kept: bash: host:a.example\"\naction = \"allow\"\ntool = \"bash\"\nneeds = [\"host:a.example\"]\n",
    );
    let ran = env.run(&["policy", "list"]);
    assert!(ran.stdout.contains("1  allow  bash: host:a.example  (kept: bash: host:a.example)"), "{ran}");
    assert_eq!(ran.stdout.matches("host:a.example  (").count(), 1, "{ran}");
    let ran = env.run(&["policy", "rm", "1"]);
    assert!(ran.stderr.contains("a session that is open keeps it until it ends"), "{ran}");
}

#[test]
fn rules_are_listed_with_a_number_where_they_were_kept_and_removed_by_it() {
    let env = Env::new();
    env.config(RULES);
    let here = env.work().canonicalize().unwrap().display().to_string();
    let kept = |name: &str, root: &str| {
        format!(
            "[[policy.rules]]\nname = \"{name}\"\naction = \"allow\"\ntool = \"bash\"\ncommand = \"make *\"\nworkspace = \"{root}\"\n"
        )
    };
    env.write(
        "home/kept-rules.toml",
        &[kept("kept: here", &here), kept("kept: there", "/elsewhere")].concat(),
    );
    let found = explained(&env, &["bash: make all"]);
    assert_eq!(found["rule"], "kept: here");
    let ran = env.run(&["policy"]);
    assert!(
        ran.stdout.contains("1  allow  bash: make *") && ran.stdout.contains("-  deny   *: git push *"),
        "{ran}"
    );
    assert_eq!(env.run(&["policy", "rm", "3"]).code, 2);
    assert_eq!(env.run(&["policy", "rm", "1"]).code, 0);
    assert_eq!(
        explained(&env, &["bash: make all"])["action"],
        "ask",
        "the other one is for another workspace"
    );
    let left = std::fs::read_to_string(env.home().join("kept-rules.toml")).unwrap();
    assert!(left.contains("kept: there") && !left.contains("kept: here"), "{left}");
}

#[test]
fn a_rule_that_is_kept_at_the_terminal_holds_in_the_next_session_of_this_workspace() {
    let env = scripted(
        "[[answer]]\ncalls = [{ tool = \"bash\", args = { command = \"true one\" } }]\n[[answer]]\ntext = \"done\"\n",
    );
    let run = ["run", "go", "--sandbox", "none"];
    assert_eq!(env.run(&run).code, 4);
    let id = ids(&env).remove(0);
    let mut answered = Terminal::start(&env, &["resume", &id, "--sandbox", "none"], 120, 40);
    answered.wait_for("allow it?");
    answered.press("always bash: true *\r");
    assert_eq!(answered.end(), 0);
    let kept = std::fs::read_to_string(env.home().join("kept-rules.toml")).unwrap();
    assert!(kept.contains("command = \"true *\"") && kept.contains("workspace = "), "{kept}");
    assert_eq!(env.run(&run).code, 0, "the kept rule answers");
    assert_eq!(explained(&env, &["bash: true two"])["rule"], "kept: bash: true *");
    assert_eq!(explained(&env, &["bash: true; rm x"])["action"], "ask");
}
