//! Chance that is the same in every run.

use agon::protocol::CallId;
use agon::protocol::event::{ArenaEvent, HostAsked, ModelReply, Plan, ToolUse};
use agon::protocol::message::{Args, Finish, Part};
use agon::protocol::need::Need;
use agon::protocol::spec::Risk;
use serde_json::json;

use super::world::reply;

/// A small deterministic generator.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % sides
    }
}

/// Some tool calls, fitting or not.
pub fn random_calls(dice: &mut Dice) -> ModelReply {
    let names = ["look", "put", "run", "nothing", "todo", "ask_user", "spawn"];
    let parts = (0..=dice.roll(3))
        .map(|i| {
            let name = names[dice.roll(names.len() as u64) as usize].to_owned();
            let args = match (name.as_str(), dice.roll(8)) {
                (_, 0) => Args::Broken("{".to_owned()),
                (_, 1) => Args::Json(json!({"path": "[secret:KEY]"})),
                ("todo", 2..6) => Args::Json(json!({"items": [{"text": "a", "state": "open"}]})),
                ("spawn", 2..5) => Args::Json(json!({"task": "find it", "name": "a b"})),
                ("spawn", 5) => {
                    Args::Json(json!({"task": "find it", "max_steps": 1, "answer": {"type": "object"}}))
                }
                ("spawn", 6) => Args::Json(json!({"task": "find it", "permission": "auto"})),
                ("ask_user", 2..6) => Args::Json(json!({"question": "which?"})),
                (_, n) => Args::Json(json!({"path": format!("f{}", n % 3)})),
            };
            // Providers repeat ids, even within one answer.
            Part::Call { id: format!("id{i}"), name, args }
        })
        .collect();
    reply(parts, Finish::ToolCalls)
}

/// A running call asks for a connection.
pub fn host_asked(call: CallId, tool_use: ToolUse, host: &str) -> ArenaEvent {
    let plan = Plan {
        needs: vec![Need::Host(host.to_owned())],
        cwd: String::new(),
        preview: format!("connect to {host}:443\nwhile this runs: make"),
        risk: Risk::Network,
        digest: format!("digest of {host}"),
    };
    ArenaEvent::HostAsked(HostAsked { call, attempt: 1, tool_use, plan })
}
