//! The built-in tools through the vault: checked, prepared, bound to what was approved, run.

mod names;
mod plans;
mod reading;
mod sources;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use agon::ports::{Live, Preparation, RunContext, Sandbox, Tool, ToolEnd};
use agon::protocol::Lane;
use agon::protocol::effect::ToolCall;
use agon::protocol::event::{PathBase, Plan, PrepareResult, ToolStatus};
use agon::protocol::need::Need;
use agon::protocol::spec::{Risk, ToolSpec};
use agon::sandbox::Unconfined;
use agon::toolvault::{Plans, ToolVault, VaultError};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::support::tool_call;

struct Silent;

impl Live for Silent {
    fn push(&self, _: Lane, _: &str) {}
}

/// A vault, a workspace, and what the one spark has seen.
struct Bench {
    folder: TempDir,
    vault: ToolVault,
    sandbox: Unconfined,
    plans: Plans,
    seen: Vec<PathBase>,
    cancel: CancellationToken,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let sandbox = Unconfined::open(folder.path()).unwrap();
        let (vault, cancel) = (ToolVault::builtin().unwrap(), CancellationToken::new());
        Bench { folder, vault, sandbox, plans: Plans::default(), seen: Vec::new(), cancel }
    }

    /// As a later session opens it.
    fn open(&mut self) {
        self.sandbox = Unconfined::open(self.folder.path()).unwrap();
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        fs::write(self.path(path), content).unwrap();
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    fn context(&self) -> RunContext<'_> {
        RunContext {
            sandbox: &self.sandbox,
            hosts: &[],
            live: &Silent,
            cancel: &self.cancel,
            background: &(),
        }
    }

    fn call(&self, tool: &str, args: Value) -> ToolCall {
        tool_call(tool, args, &self.seen)
    }

    async fn prepare(&self, tool: &str, args: Value) -> Result<Plan, String> {
        match self.vault.prepare(&self.call(tool, args), &self.sandbox, &self.plans).await.result {
            PrepareResult::Ready(plan) => Ok(plan),
            PrepareResult::Unfit(words) => Err(words),
            PrepareResult::Unknown(_) => unreachable!(),
        }
    }

    async fn unfit(&self, tool: &str, args: Value) -> String {
        self.prepare(tool, args).await.unwrap_err()
    }

    async fn run_as(&mut self, tool: &str, args: Value, digest: &str) -> ToolEnd {
        let call = self.call(tool, args);
        let end = self.vault.run(&call, digest, &self.plans, self.context()).await;
        self.seen.extend(end.seen.iter().cloned());
        end
    }

    /// Prepares and runs, as the session does.
    async fn run(&mut self, tool: &str, args: Value) -> ToolEnd {
        match self.prepare(tool, args.clone()).await {
            Ok(plan) => self.run_as(tool, args, &plan.digest).await,
            Err(words) => panic!("unfit: {words}"),
        }
    }

    async fn ok(&mut self, tool: &str, args: Value) -> String {
        let end = self.run(tool, args).await;
        assert_eq!(end.status, ToolStatus::Ok, "{}", end.content);
        end.content
    }

    async fn failed(&mut self, tool: &str, args: Value) -> String {
        let end = self.run(tool, args).await;
        assert_eq!(end.status, ToolStatus::Failed, "{}", end.content);
        end.content
    }
}

#[track_caller]
fn has(text: &str, pieces: &[&str]) {
    for piece in pieces {
        assert!(text.contains(piece), "`{piece}` is not in:\n{text}");
    }
}

/// A tool with any spec.
struct Named(&'static str, Value);

#[async_trait::async_trait]
impl Tool for Named {
    fn spec(&self) -> ToolSpec {
        let (name, schema) = (self.0, self.1.clone());
        ToolSpec { output_cap: 1, ..ToolSpec::new(name, "x", schema, Risk::Read) }
    }

    async fn prepare(&self, _: &ToolCall, _: &dyn Sandbox) -> Result<Preparation, String> {
        Err("never".into())
    }
}

#[test]
fn the_vault_refuses_what_it_could_not_offer() {
    let vault = ToolVault::builtin().unwrap();
    let object = json!({"type": "object"});
    assert_eq!(
        vault.register(Arc::new(Named("bash", object.clone()))),
        Err(VaultError::Duplicate("bash".into()))
    );
    for name in ["", "1x", "a b", "a/b", "ä", "_x", &"x".repeat(65)] {
        let tool = Arc::new(Named(name.to_owned().leak(), object.clone()));
        assert_eq!(vault.register(tool), Err(VaultError::BadName(name.into())));
    }
    for schema in [json!(true), json!({"type": "string"}), json!({"type": "object", "properties": 3})] {
        let refused = vault.register(Arc::new(Named("good", schema.clone())));
        assert!(matches!(refused, Err(VaultError::BadSchema { .. })), "{schema}");
    }
    assert_eq!(vault.register(Arc::new(Named("mcp__x-1", object))), Ok(()));
    let names: Vec<String> = vault.specs().into_iter().map(|spec| spec.name).collect();
    assert_eq!(
        names,
        [
            "ask_user",
            "bash",
            "bash_output",
            "bash_stop",
            "edit_file",
            "glob",
            "grep",
            "list_dir",
            "mcp__x-1",
            "read_file",
            "spawn",
            "todo",
            "write_file"
        ]
    );
}

#[test]
fn specs_say_everything_a_model_needs() {
    for spec in ToolVault::builtin().unwrap().specs() {
        let name = &spec.name;
        assert_eq!(spec.schema["additionalProperties"], json!(false), "{name}");
        let fields = spec.schema["properties"].as_object().unwrap();
        assert!(
            !fields.is_empty() && fields.values().all(|field| field["description"].is_string()),
            "{name}"
        );
        assert_eq!(spec.output_cap, 65_536);
        assert_eq!(spec.repeatable, spec.risk == Risk::Read, "{name}");
        let text = spec.schema.to_string();
        for keyword in ["$schema", "$ref", "$defs", "\"format\"", "\"title\""] {
            assert!(!text.contains(keyword), "{name}: {text}");
        }
    }
    let risks: Vec<Risk> = ToolVault::builtin().unwrap().specs().iter().map(|spec| spec.risk).collect();
    use Risk::{Execute, Read, Write};
    assert_eq!(risks, [Read, Execute, Read, Read, Write, Read, Read, Read, Read, Read, Read, Write]);
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_named() {
    let bench = Bench::new();
    let words = bench.unfit("read_file", json!({"pth": "a"})).await;
    has(&words, &["missing field `path`", "unknown field `pth`, did you mean `path`?"]);
    has(
        &bench.unfit("read_file", json!({"path": 3})).await,
        &["field `path` must be text, not the number 3"],
    );
    let words = bench.unfit("read_file", json!({"path": "a", "start_line": "1"})).await;
    has(&words, &["field `start_line` must be a whole number, not the text \"1\""]);
    has(
        &bench.unfit("read_file", json!({"path": "a", "start_line": 0})).await,
        &["field `start_line` must be at least 1, not 0"],
    );
    has(
        &bench.unfit("bash", json!({"command": "x", "zzz": 1})).await,
        &["unknown field `zzz`", "known: `command`"],
    );
    has(&bench.unfit("bash", json!("ls")).await, &["the arguments must be an object, not the text \"ls\""]);
    let words = bench.unfit("edit_file", json!({"path": "a", "edits": [{"old": "x", "neww": "y"}]})).await;
    has(
        &words,
        &["missing field `new` in `edits/0`", "unknown field `neww`, did you mean `new`? in `edits/0`"],
    );
    has(&bench.unfit("edit_file", json!({"path": "a", "edits": []})).await, &["field `edits`"]);
    has(
        &bench.unfit("read_fil", json!({})).await,
        &["no tool `read_fil`, did you mean `read_file`?", "bash, bash_output, bash_stop, edit"],
    );
    has(&bench.unfit("write_file", json!({"path": "../x", "content": ""})).await, &["leads outside"]);
    let words = bench.unfit("write_file", json!({"path": ".git/config", "content": ""})).await;
    has(&words, &["`.git/config` is protected", "hooks"]);
}

#[tokio::test]
async fn only_what_was_seen_may_be_replaced() {
    let mut bench = Bench::new();
    bench.put("a", "one\n");
    let write = |content: &str| json!({"path": "a", "content": content});
    let edit = json!({"path": "a", "edits": [{"old": "one", "new": "two"}]});
    has(
        &bench.unfit("write_file", write("x")).await,
        &["`a` exists and you have not read it; read it first"],
    );
    has(&bench.unfit("edit_file", edit.clone()).await, &["read it first"]);
    bench.ok("read_file", json!({"path": "./a"})).await;
    bench.put("a", "one!\n");
    has(&bench.unfit("write_file", write("x")).await, &["`a` has changed since you last read it"]);
    has(&bench.unfit("edit_file", edit.clone()).await, &["changed since you last read it"]);
    bench.ok("read_file", json!({"path": "a"})).await;
    has(&bench.ok("edit_file", edit).await, &["-one!", "+two!"]);
    bench.ok("write_file", write("three\n")).await;
    bench.ok("write_file", write("four\n")).await;
    assert_eq!(bench.text("a"), "four\n");
    has(
        &bench.ok("write_file", json!({"path": "new/b", "content": "1\n2\n"})).await,
        &["created `new/b`: 2 lines"],
    );
    bench.ok("write_file", json!({"path": "new/b", "content": ""})).await;
    // A command does not count as having looked.
    bench.ok("bash", json!({"command": "echo 1 > c; cat c"})).await;
    has(&bench.unfit("write_file", json!({"path": "c", "content": "x"})).await, &["read it first"]);
}

#[tokio::test]
async fn an_approval_holds_for_exactly_what_was_shown() {
    let mut bench = Bench::new();
    bench.put("a", "one\n");
    bench.ok("read_file", json!({"path": "a"})).await;
    let args = json!({"path": "a", "content": "two\n"});
    let plan = bench.prepare("write_file", args.clone()).await.unwrap();
    assert!(plan.paths().eq(&bench.seen));
    has(&plan.preview, &["--- a/a\n+++ b/a\n", "-one\n+two\n"]);
    let reordered = bench.prepare("write_file", json!({"content": "two\n", "path": "a"})).await.unwrap();
    assert_eq!(reordered.digest, plan.digest);

    let end = bench.run_as("write_file", json!({"path": "a", "content": "evil\n"}), &plan.digest).await;
    assert_eq!(end.status, ToolStatus::Failed);
    has(&end.content, &["has changed since it was approved"]);
    bench.put("a", "somebody else\n");
    let end = bench.run_as("write_file", args.clone(), &plan.digest).await;
    has(&end.content, &["was not run", "changed since you last read it"]);
    assert_eq!(bench.text("a"), "somebody else\n");
    // Seen anew, it could be written, but not under the old approval.
    bench.ok("read_file", json!({"path": "a"})).await;
    let end = bench.run_as("write_file", args.clone(), &plan.digest).await;
    has(&end.content, &["has changed since it was approved"]);
    assert_eq!(bench.text("a"), "somebody else\n");

    let run = json!({"command": "pwd", "cwd": "."});
    let plan = bench.prepare("bash", run.clone()).await.unwrap();
    let elsewhere = json!({"command": "pwd", "cwd": "sub"});
    fs::create_dir(bench.path("sub")).unwrap();
    assert_eq!(bench.run_as("bash", elsewhere, &plan.digest).await.status, ToolStatus::Failed);
    bench.cancel.cancel();
    assert_eq!(bench.run_as("bash", run, &plan.digest).await.status, ToolStatus::Cancelled);
}

#[tokio::test]
async fn previews_are_whole_and_preparing_changes_nothing() {
    let mut bench = Bench::new();
    let long = "line\n".repeat(50_000);
    let plan = bench.prepare("write_file", json!({"path": "deep/new", "content": long})).await.unwrap();
    assert_eq!((plan.risk, plan.preview.matches("+line\n").count()), (Risk::Write, 50_000));
    assert_eq!(plan.needs, [Need::Write(PathBase { path: "deep/new".into(), sha256: None })]);
    assert!(!bench.path("deep").exists());
    fs::create_dir(bench.path("sub")).unwrap();
    let command = format!("echo {}", "x".repeat(100_000));
    let plan = bench.prepare("bash", json!({"command": command, "cwd": "sub/."})).await.unwrap();
    assert_eq!((plan.risk, plan.cwd.as_str()), (Risk::Execute, "sub"));
    assert_eq!(plan.preview, format!("in sub/:\n{command}"));
    assert_eq!(plan.needs, [Need::Command(command)]);
    bench.put("raw", [0xff_u8, 0xfe, 0xfd]);
    bench.ok("read_file", json!({"path": "raw"})).await;
    let plan = bench.prepare("write_file", json!({"path": "raw", "content": "text\n"})).await.unwrap();
    has(&plan.preview, &["`raw` holds 3 bytes that are not text", "+text"]);
}

#[tokio::test]
async fn edits_are_unambiguous_and_all_or_nothing() {
    let mut bench = Bench::new();
    bench.put("a", "alpha\nbeta\nalpha\n");
    bench.ok("read_file", json!({"path": "a"})).await;
    let edits = |edits: Value| json!({"path": "a", "edits": edits});
    let words = bench.unfit("edit_file", edits(json!([{"old": "alpha", "new": "x"}]))).await;
    has(&words, &["`a`: `old` occurs 2 times, at lines 1, 3", "replace_all"]);
    let words = bench
        .unfit("edit_file", edits(json!([{"old": "beta", "new": "B"}, {"old": "gamma", "new": "G"}])))
        .await;
    has(&words, &["edit 2 of 2", "does not occur", "nothing was written"]);
    assert_eq!(bench.text("a"), "alpha\nbeta\nalpha\n");
    let many = edits(json!([
        {"old": "beta", "new": "gamma"},
        {"old": "gamma\nalpha", "new": "delta\nomega"},
        {"old": "a", "new": "A", "replace_all": true}
    ]));
    let plan = bench.prepare("edit_file", many.clone()).await.unwrap();
    let diff = bench.ok("edit_file", many).await;
    assert_eq!(plan.preview, diff);
    has(&diff, &["--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n", "-alpha\n-beta\n", "+AlphA\n+deltA\n+omegA\n"]);
    assert_eq!(bench.text("a"), "AlphA\ndeltA\nomegA\n");
    has(
        &bench.unfit("edit_file", json!({"path": "gone", "edits": [{"old": "a", "new": "b"}]})).await,
        &["does not exist"],
    );
    bench.put("raw", b"caf\xe9\n");
    bench.ok("read_file", json!({"path": "raw"})).await;
    let words = bench.unfit("edit_file", json!({"path": "raw", "edits": [{"old": "caf", "new": "b"}]})).await;
    has(&words, &["not UTF-8"]);
}

#[tokio::test]
async fn listing_and_finding() {
    let mut bench = Bench::new();
    assert_eq!(bench.ok("list_dir", json!({})).await, "(empty directory)");
    for path in ["src/main.rs", "src/deep/lib.rs", "README.md", "target/x.rs", ".git/x.rs"] {
        bench.put(path, "12345");
    }
    bench.put(".gitignore", "target\n");
    has(
        &bench.ok("list_dir", json!({"path": null})).await,
        &[".gitignore (7 bytes)\n", "README.md (5 bytes)\nsrc/\n"],
    );
    assert_eq!(bench.ok("list_dir", json!({"path": "src"})).await, "deep/\nmain.rs (5 bytes)\n");
    has(&bench.failed("list_dir", json!({"path": "README.md"})).await, &["not a directory"]);
    assert_eq!(bench.ok("glob", json!({"pattern": "*.rs"})).await, "src/deep/lib.rs\nsrc/main.rs\n");
    assert_eq!(bench.ok("glob", json!({"pattern": "src/*.rs"})).await, "src/main.rs\n");
    assert_eq!(
        bench.ok("glob", json!({"pattern": "**/*.{md,rs}", "path": "src/deep"})).await,
        "src/deep/lib.rs\n"
    );
    has(&bench.ok("glob", json!({"pattern": "*.c"})).await, &["no file matches `*.c` among 4 files"]);
    has(&bench.unfit("glob", json!({"pattern": "a{b"})).await, &["`a{b` is not a glob pattern"]);
    has(&bench.unfit("glob", json!({"pattern": "*", "path": "/"})).await, &["leads outside"]);
}

#[tokio::test]
async fn searching() {
    let mut bench = Bench::new();
    bench.put("a.rs", "fn one() {}\n// Two\nfn three() {}\n");
    bench.put("sub/b.txt", "nothing\nfn b\n");
    bench.put("ignored", "fn hidden\n");
    bench.put(".gitignore", "ignored\n");
    bench.put("binary", b"fn x\n\0\0fn y\n");
    let found = bench.ok("grep", json!({"pattern": "^fn \\w"})).await;
    assert_eq!(found, "a.rs:1:fn one() {}\na.rs:3:fn three() {}\nsub/b.txt:2:fn b\n");
    let found =
        bench.ok("grep", json!({"pattern": "two", "ignore_case": true, "context": 1, "glob": "*.rs"})).await;
    assert_eq!(found, "a.rs-1-fn one() {}\na.rs:2:// Two\na.rs-3-fn three() {}\n");
    assert_eq!(bench.ok("grep", json!({"pattern": "fn", "path": "sub/b.txt"})).await, "sub/b.txt:2:fn b\n");
    let found = bench.ok("grep", json!({"pattern": "fn", "max": 1})).await;
    assert_eq!(found, "a.rs:1:fn one() {}\n(stopped after 1 matches; there may be more)\n");
    has(
        &bench.ok("grep", json!({"pattern": "zzz", "path": "sub"})).await,
        &["no line matches `zzz` in 1 files"],
    );
    has(
        &bench.unfit("grep", json!({"pattern": "a("})).await,
        &["`a(` is not a regular expression", "unclosed group"],
    );
    has(&bench.failed("grep", json!({"pattern": "a", "path": "gone"})).await, &["`gone` does not exist"]);
    bench.put("wide", "x".repeat(10_000) + "needle\n");
    let found = bench.ok("grep", json!({"pattern": "needle"})).await;
    assert!(found.len() < 600, "{}", found.len());
    has(&found, &["wide:1:xxx", "[… 9506 bytes more]"]);
}

#[tokio::test]
async fn a_command_says_how_it_ended() {
    let mut bench = Bench::new();
    let end = bench.run("bash", json!({"command": "echo out; echo err >&2"})).await;
    assert_eq!((end.status, end.exit), (ToolStatus::Ok, Some(0)));
    has(&end.content, &["exit code 0, took ", "\nstdout:\nout\nstderr:\nerr\n"]);
    let end = bench.run("bash", json!({"command": "exit 4"})).await;
    assert_eq!((end.status, end.exit), (ToolStatus::Failed, Some(4)));
    has(&end.content, &["exit code 4", "stdout: (empty)\nstderr: (empty)\n"]);
    has(&bench.failed("bash", json!({"command": "kill -15 $$"})).await, &["ended by signal 15"]);
    let end = bench.run("bash", json!({"command": "echo start; sleep 600", "timeout_ms": 1_000})).await;
    assert_eq!((end.status, end.exit), (ToolStatus::Failed, None));
    has(&end.content, &["timed out after 1000 ms", "signal 15", "start"]);
    let mut call = bench.call("bash", json!({"command": "sleep 600", "timeout_ms": 600_000}));
    call.timeout_ms = 100;
    let PrepareResult::Ready(plan) = bench.vault.prepare(&call, &bench.sandbox, &bench.plans).await.result
    else {
        panic!()
    };
    let end = bench.vault.run(&call, &plan.digest, &bench.plans, bench.context()).await;
    has(&end.content, &["timed out after 100 ms"]);
    assert!(end.seen.is_empty());
    has(&bench.unfit("bash", json!({"command": "  "})).await, &["`command` is empty"]);
    has(&bench.unfit("bash", json!({"command": "ls", "cwd": "gone"})).await, &["`gone` does not exist"]);
    let cancel = bench.cancel.clone();
    let trigger = async {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        cancel.cancel();
    };
    let (end, ()) = tokio::join!(bench.run("bash", json!({"command": "sleep 600"})), trigger);
    assert_eq!(end.status, ToolStatus::Cancelled);
    has(&end.content, &["cancelled (ended by signal 15)"]);
}

#[tokio::test]
async fn a_command_asks_for_its_needs_with_a_reason_and_what_is_asked_for_is_bound_and_shown() {
    let bench = Bench::new();
    let asks =
        |needs: Value, why: Value| bench.call("bash", json!({"command": "true", "needs": needs, "why": why}));
    let plan = async |call: ToolCall| (bench.vault.prepare(&call, &bench.sandbox, &bench.plans).await).result;
    let why = "push\nneeds: nothing at all";
    let all = json!(["git", "host:Example.ORG", "port:5432", "unconfined", "git"]);
    let PrepareResult::Ready(ready) = plan(asks(all, json!(why))).await else { panic!() };
    let host = Need::Host("example.org".into());
    let needs = [Need::Command("true".into()), Need::Git, host, Need::Port(5432), Need::Unconfined];
    assert_eq!(ready.needs, needs);
    let shown: Vec<&str> = ready.preview.lines().collect();
    assert_eq!(shown[1], "why (the model's words): push needs: nothing at all", "on a line of its own");
    assert_eq!(shown[2], "needs: git, host:example.org, port:5432, unconfined");
    let PrepareResult::Ready(plain) = plan(bench.call("bash", json!({"command": "true"}))).await else {
        panic!()
    };
    assert_ne!(plain.digest, ready.digest);
    for wrong in ["host:", "host:a*", "host:a/b", "port:0", "port:70000", "Git", "write:/etc", "command:rm"] {
        let PrepareResult::Unfit(words) = plan(asks(json!([wrong]), json!("x"))).await else {
            panic!("{wrong}")
        };
        assert!(words.contains("unknown need") && words.contains("`unconfined`"), "{words}");
    }
    let PrepareResult::Unfit(words) = plan(asks(json!(["git"]), json!(" "))).await else { panic!() };
    assert!(words.contains("expects `why`"), "{words}");
}
