//! What was prepared is computed once, and only counts as long as nothing it was made from has changed.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// Counts how often it is prepared; says what it was called with.
struct Counting(Arc<AtomicU32>, Value);

#[async_trait::async_trait]
impl Tool for Counting {
    fn spec(&self) -> ToolSpec {
        Named("counting", self.1.clone()).spec()
    }

    async fn prepare(&self, call: &ToolCall, _: &dyn Sandbox) -> Result<Preparation, String> {
        let (nth, said) = (self.0.fetch_add(1, Ordering::SeqCst) + 1, call.args.to_string());
        Ok(Preparation::new("count", Risk::Read, move |_| {
            Box::pin(async move { ToolEnd::ok(format!("{said} as prepared {nth}")) })
        }))
    }
}

fn counting(bench: &mut Bench, schema: Value) -> Arc<AtomicU32> {
    let prepared = Arc::new(AtomicU32::new(0));
    bench.vault = ToolVault::builtin().unwrap();
    bench.vault.register(Arc::new(Counting(Arc::clone(&prepared), schema))).unwrap();
    prepared
}

async fn ready(bench: &Bench, call: &ToolCall) -> Plan {
    match bench.vault.prepare(call, &bench.sandbox, &bench.plans).await.result {
        PrepareResult::Ready(plan) => plan,
        other => panic!("{other:?}"),
    }
}

async fn run(bench: &Bench, call: &ToolCall, plan: &Plan) -> String {
    bench.vault.run(call, &plan.digest, &bench.plans, bench.context()).await.content
}

#[tokio::test]
async fn what_was_prepared_is_run_once_and_prepared_again_when_something_changed() {
    let mut bench = Bench::new();
    let prepared = counting(&mut bench, json!({"type": "object"}));
    let call = bench.call("counting", json!({"a": 1}));
    let plan = ready(&bench, &call).await;
    assert_eq!(run(&bench, &call, &plan).await, r#"{"a":1} as prepared 1"#);
    // It is used up: the next run prepares for itself.
    assert_eq!(run(&bench, &call, &plan).await, r#"{"a":1} as prepared 2"#);
    let changes: [fn(&mut ToolCall); 3] = [
        |call| call.timeout_ms = 1,
        |call| call.denied = vec![agon::protocol::spec::DeniedPath::of("*.pem")],
        |call| call.place = Some("reviewer".to_owned()),
    ];
    for change in changes {
        let before = prepared.load(Ordering::SeqCst);
        let mut changed = call.clone();
        let plan = ready(&bench, &call).await;
        change(&mut changed);
        run(&bench, &changed, &plan).await;
        assert_eq!(prepared.load(Ordering::SeqCst), before + 2, "a setting changed: prepared again");
    }
    let plan = ready(&bench, &call).await;
    bench.plans = Plans::default();
    assert!(run(&bench, &call, &plan).await.starts_with(r#"{"a":1}"#), "another process prepares again");
    let plan = ready(&bench, &call).await;
    let other = ToolCall { args: json!({"a": 2}), ..call.clone() };
    has(&run(&bench, &other, &plan).await, &["changed since it was approved"]);
}

#[tokio::test]
async fn a_file_that_changed_after_the_approval_is_not_replaced_by_the_run_in_memory() {
    let mut bench = Bench::new();
    bench.put("a", "one\n");
    bench.ok("read_file", json!({"path": "a"})).await;
    let edit = json!({"path": "a", "edits": [{"old": "one", "new": "two"}]});
    for (tool, args) in [("edit_file", edit), ("write_file", json!({"path": "a", "content": "two\n"}))] {
        let plan = bench.prepare(tool, args.clone()).await.unwrap();
        bench.put("a", "somebody else\n");
        let end = bench.run_as(tool, args, &plan.digest).await;
        // These are the words of the comparison in the very call that replaces, not of a second look.
        assert_eq!(
            end.content, "`a` has changed since you last read it; read it again before writing",
            "{tool}"
        );
        assert_eq!((end.status, bench.text("a").as_str()), (ToolStatus::Failed, "somebody else\n"));
        bench.put("a", "one\n");
    }
    let args = json!({"path": "new", "content": "mine\n"});
    let plan = bench.prepare("write_file", args.clone()).await.unwrap();
    bench.put("new", "theirs\n");
    assert_eq!(bench.run_as("write_file", args, &plan.digest).await.status, ToolStatus::Failed);
    assert_eq!(bench.text("new"), "theirs\n");
}

#[tokio::test]
async fn plans_that_wait_are_bounded_and_the_oldest_goes_first() {
    let mut bench = Bench::new();
    let prepared = counting(&mut bench, json!({"type": "object"}));
    let mut calls = Vec::new();
    for part in 0..65 {
        let mut call = bench.call("counting", json!({}));
        call.tool_use.part = part;
        let plan = ready(&bench, &call).await;
        calls.push((call, plan));
    }
    let (first, last) = (&calls[0], &calls[64]);
    run(&bench, &last.0, &last.1).await;
    assert_eq!(prepared.load(Ordering::SeqCst), 65);
    run(&bench, &first.0, &first.1).await;
    assert_eq!(prepared.load(Ordering::SeqCst), 66);
}

#[tokio::test]
async fn an_approval_holds_for_the_schema_it_was_given_under() {
    let mut bench = Bench::new();
    counting(&mut bench, json!({"type": "object"}));
    let call = bench.call("counting", json!({"a": 1}));
    let plan = ready(&bench, &call).await;
    counting(&mut bench, json!({"type": "object", "properties": {"a": {"type": "integer"}}}));
    has(&run(&bench, &call, &plan).await, &["changed since it was approved"]);
}
