//! What calls, the workspace and the session itself keep in a log, on one line; knows nothing of squads and debates.

use crate::projection::phrases;
use crate::protocol::effect::{CallRow, Order, TimerPurpose};
use crate::protocol::event::{ArenaEvent, ToolUse};
use crate::protocol::spec::Setting;
use crate::protocol::text::names_shown;

/// What an event of a call, the workspace or the session is about; none for any other.
pub(super) fn about(event: &ArenaEvent) -> Option<String> {
    use ArenaEvent as E;
    let (counted, again) = (phrases::counted, |attempt: u32| match attempt {
        0 | 1 => String::new(),
        n => format!(" · attempt {n}"),
    });
    Some(match event {
        E::EffectOrdered(data) => format!("{}{}", order(&data.effect, &plain_use), again(data.attempt)),
        E::ApprovalRequested(data) => {
            format!("whether {} may run ({})", plain_use(data.tool_use), data.prepared)
        }
        E::HostAsked(data) => super::touched(&data.plan),
        E::HostJudged(data) => format!("{}: {} by {}", data.need, phrases::action(data.action), data.rule),
        E::ToolInvoked(data) => format!("{}{}", plain_use(data.tool_use), again(data.attempt)),
        E::ToolAnswered(data) => format!("{}, {}", plain_use(data.tool_use), data.from),
        E::AnswerRejected(data) => {
            let next = if data.repair { "asked again" } else { "given up" };
            format!("{next}: {}", data.errors.join("; "))
        }
        E::ContextCompacted(data) => {
            format!("{} summarised in {}", counted(data.covers.len() as u64, "event"), data.summary)
        }
        E::SessionResumed(data) => format!("by {}", data.program),
        E::SessionForked(data) => format!("from {} after e{}", data.parent, data.seq),
        E::SessionPaused(data) => phrases::pause_cause(data.cause).to_owned(),
        E::StopRequested(data) => phrases::stop_cause(data.cause).to_owned(),
        E::FaultRecovered(data) => {
            format!("{} of a torn end set aside in {}", counted(data.dropped_bytes, "byte"), data.kept_in)
        }
        E::InterruptRequested(data) => data.spark.map_or("everybody".to_owned(), |spark| spark.to_string()),
        E::SettingsChanged(data) => data.changed.iter().map(setting).collect::<Vec<_>>().join(", "),
        E::TurnRewound(data) => phrases::rewound(data),
        E::TimerFired(data) => format!("after {} of work", phrases::duration(data.body.active_ms)),
        E::WorkspaceCheckpointed(data) => {
            format!("{}, tree {}", counted(data.body.files, "file"), short(&data.body.tree))
        }
        E::WorkspaceFingerprinted(data) => {
            format!("{}, {}", counted(data.body.files, "file"), short(&data.body.fingerprint))
        }
        _ => return None,
    })
}

/// What an order is to do, for a list of events; `tool` names a tool call.
pub fn order(order: &Order, tool: &dyn Fn(ToolUse) -> String) -> String {
    match order {
        Order::Timer(timer) if timer.purpose == TimerPurpose::TurnLimit => {
            format!("time limit {}", phrases::duration(timer.ms))
        }
        Order::Timer(timer) if timer.purpose == TimerPurpose::Loads => {
            format!("wait {} for lists of tools", phrases::duration(timer.ms))
        }
        order => filled(order, |row| row.task, tool),
    }
}

/// What is done while it is carried out.
pub fn doing(order: &Order, tool: &dyn Fn(ToolUse) -> String) -> String {
    match order {
        Order::Timer(timer) if timer.purpose == TimerPurpose::TurnLimit => "on the clock".to_owned(),
        Order::Timer(timer) if timer.purpose == TimerPurpose::Loads => {
            "waiting for lists of tools".to_owned()
        }
        order => filled(order, |row| row.doing, tool),
    }
}

fn filled(order: &Order, words: fn(&CallRow) -> &str, tool: &dyn Fn(ToolUse) -> String) -> String {
    let object = match order {
        Order::Model(order) => order.model.clone(),
        Order::Prepare(order) => tool(order.tool_use),
        Order::Question(order) => tool(order.tool_use),
        Order::Gate(order) => format!("{} about {}", order.gate, tool(order.tool_use)),
        Order::Tool(order) | Order::Ask(order) => tool(order.tool_use),
        Order::Timer(order) => phrases::duration(order.ms),
        Order::Check(order) => order.command.clone(),
        Order::Mention(order) => order.place.mention.clone(),
        Order::Tools(order) => order.source.clone(),
        Order::Fingerprint(_) | Order::Checkpoint(_) => String::new(),
        Order::Diff(order) => short(&order.from),
        Order::CacheGet(order) => short(&order.key),
        Order::CachePut(order) => short(&order.key),
        Order::Patch(order) => short(&order.key),
        Order::Unknown(unknown) => unknown.name().to_owned(),
    };
    order.row().map_or("{}, work of a newer agon", words).replacen("{}", &object, 1)
}

fn plain_use(tool_use: ToolUse) -> String {
    format!("tool call {} of {}", tool_use.part, tool_use.answer)
}

fn setting(setting: &Setting) -> String {
    match setting {
        Setting::Model { spec, .. } => format!("model {}", spec.name),
        Setting::Persona { spec, .. } => format!("persona {}", spec.id),
        Setting::Policy(_) => "policy".to_owned(),
        Setting::Limits(_) => "limits".to_owned(),
        Setting::Retry(_) => "retries".to_owned(),
        Setting::Blueprint(blueprint) => format!("blueprint {}", blueprint.name),
        Setting::Workspace(workspace) => format!("workspace {}", workspace.root),
        Setting::Cache(_) => "team cache".to_owned(),
        Setting::RoleModel { role, model } => format!("{role} with {model}"),
        Setting::Offered(offered) => phrases::offered(offered.as_deref()),
        Setting::Gates(gates) => format!("gates: {}", names_shown(gates)),
        Setting::Sources(sources) => format!("tool sources: {}", names_shown(sources)),
        Setting::Permission(level) => format!("permission {}", level.word()),
        Setting::Effort(effort) => phrases::effort(*effort),
        Setting::Unknown(_) => phrases::NEWER.to_owned(),
    }
}

/// The first characters of a digest: enough to tell it from others on a screen.
pub fn short(digest: &str) -> String {
    digest.chars().take(12).collect()
}
