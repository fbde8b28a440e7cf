//! Sources of tools at their worst: gone between prepare and run, two tools of one name, schemas that are none.

use std::sync::Mutex;

use agon::ports::ToolSource;
use agon::protocol::effect::ToolsOrder;
use agon::protocol::event::ToolsListed;

use super::*;

/// A tool of a server: says that it was called.
struct Remote(&'static str, Value);

#[async_trait::async_trait]
impl Tool for Remote {
    fn spec(&self) -> ToolSpec {
        ToolSpec::new(self.0, "Works elsewhere.", self.1.clone(), Risk::Read)
    }

    async fn prepare(&self, call: &ToolCall, _: &dyn Sandbox) -> Result<Preparation, String> {
        let said = format!("done with {}", call.args);
        Ok(Preparation::new(call.args.to_string(), Risk::Read, move |_| {
            Box::pin(async move { ToolEnd::ok(said) })
        }))
    }
}

/// What it offers can be changed from outside.
#[derive(Default)]
struct Server(Mutex<Vec<(&'static str, Value)>>);

impl Server {
    fn offering(tools: &[(&'static str, Value)]) -> Arc<Server> {
        Arc::new(Server(Mutex::new(tools.to_vec())))
    }
}

#[async_trait::async_trait]
impl ToolSource for Server {
    async fn tools(&self) -> Result<Vec<Arc<dyn Tool>>, String> {
        let tools = self.0.lock().unwrap();
        if tools.is_empty() {
            return Err("connection refused".to_owned());
        }
        Ok(tools
            .iter()
            .map(|(name, schema)| Arc::new(Remote(name, schema.clone())) as Arc<dyn Tool>)
            .collect())
    }
}

fn object() -> Value {
    json!({"type": "object"})
}

async fn list(bench: &Bench, known: Option<&str>) -> Result<ToolsListed, String> {
    let (source, known) = ("tracker".to_owned(), known.map(str::to_owned));
    bench.vault.list(ToolsOrder { source, known }).await
}

#[tokio::test]
async fn a_source_that_is_gone_between_prepare_and_run_runs_nothing() {
    let mut bench = Bench::new();
    bench.vault.add_source("tracker", Server::offering(&[("close_issue", object())]));
    let listed = list(&bench, None).await.unwrap();
    let tools = listed.tools.unwrap();
    assert_eq!((tools.len(), tools[0].source.as_deref()), (1, Some("tracker")));
    let plan = bench.prepare("close_issue", json!({"n": 12})).await.unwrap();
    assert_eq!(plan.needs, [Need::Tool("tracker/close_issue".into())]);
    has(&plan.preview, &["{\"n\":12}", "needs: tool:tracker/close_issue"]);
    bench.vault.remove_source("tracker");
    let end = bench.run_as("close_issue", json!({"n": 12}), &plan.digest).await;
    assert_eq!(end.status, ToolStatus::Failed);
    has(&end.content, &["close_issue was not run: there is no tool `close_issue`"]);
    assert!(list(&bench, None).await.unwrap_err().contains("`tracker` is not there"));
}

#[tokio::test]
async fn a_tool_whose_schema_changed_after_the_approval_is_not_run() {
    let mut bench = Bench::new();
    let server = Server::offering(&[("close_issue", object())]);
    bench.vault.add_source("tracker", Arc::clone(&server) as Arc<dyn ToolSource>);
    // The first call asks the source by itself, as after a resume.
    let plan = bench.prepare("close_issue", json!({"n": 12})).await.unwrap();
    *server.0.lock().unwrap() =
        vec![("close_issue", json!({"type": "object", "properties": {"n": {"type": "integer"}}}))];
    list(&bench, None).await.unwrap();
    let end = bench.run_as("close_issue", json!({"n": 12}), &plan.digest).await;
    has(&end.content, &["has changed since it was approved"]);
    let end = bench.run("close_issue", json!({"n": 12})).await;
    assert_eq!(end.content, r#"done with {"n":12}"#);
    server.0.lock().unwrap().clear();
    assert_eq!(list(&bench, None).await, Err("connection refused".to_owned()));
    has(&bench.unfit("close_issue", json!({})).await, &["no tool `close_issue`"]);
}

#[tokio::test]
async fn what_cannot_be_taken_of_a_list_is_named_and_the_rest_is_taken() {
    let bench = Bench::new();
    let offers = [
        ("close_issue", object()),
        ("close_issue", json!({"type": "object", "properties": {"all": {"type": "boolean"}}})),
        ("bash", object()),
        ("files", object()),
        ("no_schema", json!("none")),
        ("bad_schema", json!({"type": "object", "properties": 3})),
        ("open_issue", object()),
    ];
    bench.vault.add_source("tracker", Server::offering(&offers));
    let listed = list(&bench, None).await.unwrap();
    let names: Vec<String> = listed.tools.unwrap().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["close_issue", "open_issue"]);
    for (fault, said) in listed.faults.iter().zip([
        "there is already a tool named `close_issue`",
        "there is already a tool named `bash`",
        "`files` is not a tool name",
        "the arguments of tool `no_schema` have no usable schema: its `type` is not `object`",
        "the arguments of tool `bad_schema` have no usable schema",
    ]) {
        has(fault, &[said]);
    }
    assert_eq!(listed.faults.len(), 5);
    let again = list(&bench, Some(&listed.digest)).await.unwrap();
    assert_eq!((again.tools, again.digest), (None, listed.digest), "what is known is not said again");
    assert_eq!(bench.vault.specs().len(), 14, "the built-in tools are still agon's");
}
