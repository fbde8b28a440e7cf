//! Names that are patterns, options or no text: what every tool makes of them, in every kind of sandbox.

use agon::ports::{Live, RunContext, ToolEnd};
use agon::protocol::Lane;
use agon::protocol::event::{PathBase, PrepareResult, ToolStatus};
use agon::toolvault::{Plans, ToolVault};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::contract::Opened;
use crate::support::tool_call;

const NAMES: [&str; 12] = [
    "[id].tsx",
    "[...slug].tsx",
    "{a,b}",
    "@scope",
    "+page.svelte",
    "with spaces",
    "it's \"quoted\"",
    "new\nline",
    "-rf",
    "dollar $HOME",
    "wh?t*",
    "ünïcödé 漢字 🦀",
];

struct Silent;

impl Live for Silent {
    fn push(&self, _: Lane, _: &str) {}
}

/// The built-in tools in a sandbox, and what the one spark has seen.
struct Hand<'a> {
    vault: ToolVault,
    opened: &'a Opened,
    seen: Vec<PathBase>,
}

impl Hand<'_> {
    /// Prepares and runs, as the session does.
    async fn ok(&mut self, tool: &str, args: Value) -> String {
        let call = tool_call(tool, args, &self.seen);
        let (sandbox, never) = (&*self.opened.sandbox, CancellationToken::new());
        let plans = Plans::default();
        let PrepareResult::Ready(plan) = self.vault.prepare(&call, sandbox, &plans).await.result else {
            panic!("unfit: {tool} {}", call.args)
        };
        let at = RunContext { sandbox, hosts: &[], live: &Silent, cancel: &never, background: &() };
        let ToolEnd { status, content, seen, .. } = self.vault.run(&call, &plan.digest, &plans, at).await;
        assert_eq!(status, ToolStatus::Ok, "{tool} {}: {content}", call.args);
        self.seen.extend(seen);
        content
    }
}

/// A name as tools show it.
fn shown(name: &str) -> String {
    if name.contains(['\n', '"']) { serde_json::to_string(name).unwrap() } else { name.to_owned() }
}

pub async fn tools_take_names_of_every_kind_to_the_letter(opened: Opened) {
    let mut hand = Hand { vault: ToolVault::builtin().unwrap(), opened: &opened, seen: Vec::new() };
    for folder in NAMES {
        let file = format!("odd/{folder}/{folder}");
        hand.ok("write_file", json!({"path": file, "content": format!("needle of {folder:?}\n")})).await;
        let edits = json!([{"old": "needle of", "new": "thread of"}]);
        hand.ok("edit_file", json!({"path": file, "edits": edits})).await;
        let text = format!("thread of {folder:?}");
        assert!(hand.ok("read_file", json!({"path": file})).await.contains(&text), "{file}");
        let cat = json!({"command": "cat ./*", "cwd": format!("odd/{folder}")});
        assert!(hand.ok("bash", cat).await.contains(&text), "{file}");
        let listed = hand.ok("list_dir", json!({"path": format!("odd/{folder}")})).await;
        assert!(listed.starts_with(&shown(folder)), "{listed}");
    }
    let listed = hand.ok("list_dir", json!({"path": "odd"})).await;
    for folder in NAMES {
        let file = format!("odd/{folder}/{folder}");
        assert!(listed.contains(&format!("{}/\n", shown(folder))), "{listed}");
        // Read as a pattern each finds nothing, or only itself.
        let found = hand.ok("glob", json!({"pattern": folder})).await;
        assert_eq!(found, format!("{}\n", shown(&file)), "{folder}");
        let found = hand.ok("grep", json!({"pattern": "thread", "glob": folder})).await;
        assert_eq!(found, format!("{}:1:thread of {folder:?}\n", shown(&file)), "{folder}");
        let inside = json!({"pattern": "thread", "path": format!("odd/{folder}")});
        assert!(hand.ok("grep", inside).await.starts_with(&shown(&file)), "{folder}");
    }
    names_that_are_no_text_are_counted(&opened, &mut hand).await;
}

async fn names_that_are_no_text_are_counted(opened: &Opened, hand: &mut Hand<'_>) {
    let made = opened.sh(r#"mkdir raw && cd raw && echo thread >"$(printf 'a\377')""#).await;
    assert_eq!(made.exit, Some(0), "{made:?}");
    let listed = hand.ok("list_dir", json!({"path": "raw"})).await;
    assert!(listed.contains(r#""a\xff""#) && listed.contains("not UTF-8"), "{listed}");
    for (tool, args) in
        [("glob", json!({"pattern": "raw/*"})), ("grep", json!({"pattern": "x", "path": "raw"}))]
    {
        let said = hand.ok(tool, args).await;
        assert!(said.contains("1 left out") && said.contains(r#""raw/a\xff""#), "{said}");
    }
    assert_eq!(opened.sh("cat raw/*").await.stdout, "thread\n");
}
