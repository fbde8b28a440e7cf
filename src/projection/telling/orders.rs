//! What an order is to do, and what is done while it is carried out, in words.

use super::short;
use crate::projection::phrases;
use crate::protocol::effect::{CallRow, Order, TimerPurpose};
use crate::protocol::event::ToolUse;

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
        Order::Background(order) => order.command.clone(),
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
