//! A tool of a server: what is offered of it, what a call would do, and the call.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use serde_json::{Map, Value};

use super::{Definition, Shared, Standing};
use crate::ports::{Preparation, RunContext, Sandbox, Tool, ToolEnd};
use crate::projection::visible;
use crate::protocol::effect::ToolCall;
use crate::protocol::need::Need;
use crate::protocol::spec::{Risk, ToolSpec};
use crate::protocol::text::words_of_others;

/// Characters of a digest that tell one definition from another in a need.
const SHORT: usize = 12;

/// One tool of a server, as it was listed.
pub struct ServerTool {
    server: Arc<Shared>,
    listed: Definition,
}

impl ServerTool {
    pub fn new(server: Arc<Shared>, listed: Definition) -> Self {
        ServerTool { server, listed }
    }

    /// What a person decides by: the call, what the server says of it, and what is new about that.
    fn preview(&self, tool: &Definition, standing: &Standing, args: &Value) -> String {
        let args = serde_json::to_string_pretty(args).unwrap_or_default();
        let mut text = format!("{}: {}\n{args}\n", self.server.launch.name, visible::shown(&tool.name));
        text += &format!("\nthe server says of it: {}\n", words_of_others(&tool.shown()));
        match standing {
            Standing::Accepted => {}
            Standing::New => {
                let schema = serde_json::to_string_pretty(&tool.shown_schema()).unwrap_or_default();
                text += &format!("\nthis tool is new since you accepted the server's tools:\n{schema}\n");
            }
            Standing::Changed(before) => {
                text +=
                    &format!("\nthe server changed this tool since it was accepted:\n{}", tool.diff(before));
            }
        }
        if tool.is_destructive() {
            text += "\nthe server says that it destroys something\n";
        }
        text
    }

    /// What a person has to confirm, whatever rules say of the server's tools.
    fn confirmations(&self, tool: &Definition, standing: &Standing) -> Vec<Need> {
        let name = format!("{}/{}", self.server.launch.name, tool.name);
        let unseen = (*standing != Standing::Accepted)
            .then(|| Need::Confirm(format!("{name}@{}", &tool.digest()[..SHORT])));
        let destroys = tool.is_destructive().then(|| Need::Confirm(name.clone()));
        unseen.into_iter().chain(destroys).collect()
    }
}

#[async_trait]
impl Tool for ServerTool {
    fn spec(&self) -> ToolSpec {
        let tool = &self.listed;
        let (description, schema) = match self.server.pins().standing(tool) {
            Standing::Accepted => (tool.shown(), tool.shown_schema()),
            _ => (
                "Its description is held back: the server added or changed this tool, and a person is asked before it \
                 runs."
                    .to_owned(),
                tool.bare_schema(),
            ),
        };
        let risk = if self.server.launch.may_write { Risk::Execute } else { Risk::Network };
        ToolSpec::new(tool.offered_as(&self.server.launch.name), description, schema, risk)
    }

    async fn prepare(&self, call: &ToolCall, _: &dyn Sandbox) -> Result<Preparation, String> {
        let tool = self.server.now(&self.listed.name).unwrap_or_else(|| self.listed.clone());
        let standing = self.server.pins().standing(&tool);
        let Value::Object(args) = call.args.clone() else {
            return Err("the arguments are no JSON object".to_owned());
        };
        let preview = self.preview(&tool, &standing, &call.args);
        let confirmations = self.confirmations(&tool, &standing);
        let need = Need::Tool(format!("{}/{}", self.server.launch.name, tool.name));
        let (server, limit) = (Arc::clone(&self.server), Duration::from_millis(call.timeout_ms));
        let made = Preparation::new(preview, self.spec().risk, move |at: RunContext<'_>| {
            async move { server.run((tool, args), limit, at).await }.boxed()
        });
        let made = made.needing(need);
        Ok(confirmations.into_iter().fold(made, Preparation::needing))
    }
}

impl Shared {
    /// Calls a tool as long as it is the one that was looked at; that it runs says that it was accepted.
    async fn run(
        &self,
        (tool, args): (Definition, Map<String, Value>),
        limit: Duration,
        at: RunContext<'_>,
    ) -> ToolEnd {
        let late = || Err("it is still starting".to_owned());
        let ready = tokio::time::timeout(limit, self.ready(at.cancel)).await;
        let talk = match ready.unwrap_or_else(|_| late()) {
            Ok(talk) => talk,
            Err(why) => {
                return ToolEnd::failed(format!("the server `{}` is not available: {why}", self.launch.name));
            }
        };
        match talk.tools().iter().find(|now| now.name == tool.name) {
            Some(now) if *now == tool => {}
            Some(_) => {
                return ToolEnd::failed(
                    "it was not run: the server changed this tool meanwhile; call it again, and a person is asked",
                );
            }
            None => return ToolEnd::failed("it was not run: the server no longer has this tool"),
        }
        if self.pins().standing(&tool) != Standing::Accepted
            && let Err(why) = self.pins().accept(tool.clone())
        {
            return ToolEnd::failed(why);
        }
        talk.call((tool.name, args), limit, at).await
    }
}
