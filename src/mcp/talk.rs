//! What is said between agon and a server: the handshake, the list of tools, calls, and what the server asks in return.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::handler::client::ClientHandler;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotificationParam, ClientCapabilities, ClientConfig,
    ClientRequest, CreateMessageRequestMethod, ErrorData, Implementation, JsonObject, ListRootsRequestMethod,
    PaginatedRequestParams, ProgressNotificationParam, ProgressToken, RequestId, ServerResult,
};
#[expect(deprecated, reason = "servers still ask for sampling and roots, and are refused")]
use rmcp::model::{CreateMessageRequestParams, CreateMessageResult, ListRootsResult};
use rmcp::service::{NotificationContext, Peer, PeerRequestOptions, RequestContext};
use rmcp::transport::IntoTransport;
use rmcp::{RoleClient, ServiceError};
use serde_json::Value;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use super::definition::{Definition, MAX_DEFINITION};
use super::result;
use crate::ports::{RunContext, ToolEnd};
use crate::protocol::Lane;
use crate::protocol::event::ToolStatus;

/// What is said of a server that closed its end.
pub const CLOSED: &str = "it closed the connection";
/// Pages of a list of tools, tools of one server, and bytes of them all.
const MOST_PAGES: usize = 100;
const MOST_TOOLS: usize = 1000;
const MOST_BYTES: usize = 512 * 1024;
/// What a server may ask agon for while it is connected; everything is refused.
const MOST_ASKED: u32 = 1000;
/// Pieces of news about a call's progress that wait to be shown.
const WAITING: usize = 16;

/// A server that has listed its tools.
pub struct Talk {
    peer: Peer<RoleClient>,
    tools: Vec<Definition>,
    progress: Arc<Progress>,
}

/// Where news about running calls goes, by the token they were sent with.
#[derive(Default)]
struct Progress(Mutex<HashMap<ProgressToken, mpsc::Sender<String>>>);

impl Progress {
    fn locked(&self) -> MutexGuard<'_, HashMap<ProgressToken, mpsc::Sender<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Talks with a server until it ends, and hands over each list of its tools. Gives why it ended.
pub async fn run<T, E, A>(
    transport: T,
    limit: Duration,
    listed: impl Fn(Arc<Talk>) -> Result<(), String>,
) -> String
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let answers = Answers::default();
    let (changed, flood, progress) =
        (Arc::clone(&answers.changed), answers.flood.clone(), Arc::clone(&answers.progress));
    let late = || format!("it listed no tools within {} s", limit.as_secs_f64());
    let deadline = tokio::time::Instant::now() + limit;
    let service = match tokio::time::timeout_at(deadline, rmcp::serve_client(answers, transport)).await {
        Ok(Ok(service)) => service,
        Ok(Err(error)) => return format!("its handshake failed: {}", words_of(&error)),
        Err(_) => return late(),
    };
    let peer = service.peer().clone();
    let mut ended = pin!(service.waiting());
    let mut limited = Some(deadline);
    loop {
        let until = limited.take().unwrap_or_else(|| tokio::time::Instant::now() + limit);
        let tools = tokio::select! {
            tools = tokio::time::timeout_at(until, tools_of(&peer)) => tools,
            _ = &mut ended => return CLOSED.to_owned(),
        };
        let tools = match tools {
            Ok(Ok(tools)) => tools,
            Ok(Err(why)) => return why,
            Err(_) => return late(),
        };
        if let Err(why) =
            listed(Arc::new(Talk { peer: peer.clone(), tools, progress: Arc::clone(&progress) }))
        {
            return why;
        }
        tokio::select! {
            _ = &mut ended => return CLOSED.to_owned(),
            () = flood.cancelled() => return format!("it asked agon for more than {MOST_ASKED} things"),
            () = changed.notified() => {}
        }
    }
}

/// Every tool that a server lists, as far as it is no flood.
async fn tools_of(peer: &Peer<RoleClient>) -> Result<Vec<Definition>, String> {
    if peer.peer_info().is_some_and(|info| info.capabilities.tools.is_none()) {
        return Ok(Vec::new());
    }
    let (mut tools, mut cursor, mut bytes) = (Vec::new(), None, 0);
    for _ in 0..MOST_PAGES {
        let page = peer.list_tools(Some(PaginatedRequestParams::default().with_cursor(cursor))).await;
        let page = page.map_err(|error| format!("its list of tools cannot be read: {}", words_of(&error)))?;
        for tool in page.tools {
            let definition = Definition {
                name: tool.name.into_owned(),
                description: tool.description.map(|text| text.into_owned()).unwrap_or_default(),
                schema: Value::Object((*tool.input_schema).clone()),
                annotations: serde_json::to_value(tool.annotations).unwrap_or_default(),
            };
            let size = serde_json::to_string(&definition).map_or(usize::MAX, |json| json.len());
            bytes += size;
            if size > MAX_DEFINITION || bytes > MOST_BYTES || tools.len() == MOST_TOOLS {
                return Err(format!(
                    "its list of tools is too long: {MOST_TOOLS} tools, {MAX_DEFINITION} bytes each and {MOST_BYTES} \
                     bytes in all are taken"
                ));
            }
            tools.push(definition);
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(tools);
        }
    }
    Err(format!("its list of tools has more than {MOST_PAGES} pages"))
}

impl Talk {
    /// Its tools.
    pub fn tools(&self) -> &[Definition] {
        &self.tools
    }

    /// Calls a tool and waits for its result, at most for `limit`. On cancel the server hears of it and is not waited for.
    pub async fn call(
        &self,
        (name, arguments): (String, JsonObject),
        limit: Duration,
        at: RunContext<'_>,
    ) -> ToolEnd {
        let params = CallToolRequestParams::new(name).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let handle = self.peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await;
        let handle = match handle {
            Ok(handle) => handle,
            Err(error) => return failed(&error),
        };
        let (id, token) = (handle.id.clone(), handle.progress_token.clone());
        let (sender, mut news) = mpsc::channel(WAITING);
        self.progress.locked().insert(token.clone(), sender);
        let (mut answer, mut late) = (pin!(handle.await_response()), pin!(tokio::time::sleep(limit)));
        let end = loop {
            tokio::select! {
                answer = &mut answer => break match answer {
                    Ok(ServerResult::CallToolResult(result)) => result::end_of(result),
                    Ok(_) => ToolEnd::failed("the server answered with something that is no result of a tool"),
                    Err(error) => failed(&error),
                },
                Some(text) = news.recv() => at.live.push(Lane::Progress, &text),
                () = at.cancel.cancelled() => {
                    self.give_up(id).await;
                    let words = "cancelled; what the server has done of it is not known";
                    break ToolEnd { status: ToolStatus::Cancelled, ..ToolEnd::failed(words) };
                }
                () = &mut late => {
                    self.give_up(id).await;
                    let words = "; what it has done of the call is not known";
                    break ToolEnd::failed(format!("the server gave no answer within {} s{words}", limit.as_secs_f64()));
                }
            }
        };
        self.progress.locked().remove(&token);
        end
    }
}

impl Talk {
    /// Says that nothing waits for an answer any more. A server that no longer listens has nothing to stop.
    async fn give_up(&self, id: RequestId) {
        let cancelled = CancelledNotificationParam::new(Some(id), Some("cancelled".to_owned()));
        let told = self.peer.notify_cancelled(cancelled);
        let _ = tokio::time::timeout(Duration::from_secs(1), told).await;
    }
}

fn failed(error: &ServiceError) -> ToolEnd {
    ToolEnd::failed(match error {
        ServiceError::McpError(ErrorData { message, .. }) => {
            format!("the server refused the call: {message}")
        }
        ServiceError::TransportClosed | ServiceError::TransportSend(_) => {
            "the server ended before it answered; what it has done of the call is not known".to_owned()
        }
        other => format!("the call failed: {}", words_of(other)),
    })
}

/// What went wrong, in few enough words.
fn words_of(error: &dyn std::error::Error) -> String {
    error.to_string().chars().take(500).collect()
}

/// Answers what a server asks for: agon lends it no model and no folders.
#[derive(Default)]
struct Answers {
    changed: Arc<Notify>,
    asked: AtomicU32,
    flood: CancellationToken,
    progress: Arc<Progress>,
}

impl Answers {
    fn counted(&self) {
        if self.asked.fetch_add(1, Ordering::Relaxed) >= MOST_ASKED {
            self.flood.cancel();
        }
    }
}

#[expect(deprecated, reason = "servers still ask for sampling and roots, and are refused")]
impl ClientHandler for Answers {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new("agon", env!("CARGO_PKG_VERSION")),
        )
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.counted();
        Err(ErrorData::method_not_found::<CreateMessageRequestMethod>())
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        self.counted();
        Err(ErrorData::method_not_found::<ListRootsRequestMethod>())
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }

    async fn on_progress(&self, news: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let total = news.total.map(|total| format!(" of {total}")).unwrap_or_default();
        let message = news.message.map(|text| format!(": {text}")).unwrap_or_default();
        if let Some(call) = self.progress.locked().get(&news.progress_token) {
            // A call that is not looked at needs no news.
            let _ = call.try_send(format!("{}{total}{message}", news.progress));
        }
    }
}
