//! The resources a call touches, one by one: what policy rules, approvals and grants speak of.

use std::borrow::Cow;

use crate::protocol::event::PathBase;
use crate::protocol::host::network;
use crate::protocol::spec::Risk;
use crate::protocol::stored::stored;

stored! {
    /// A resource that a call touches.
    #[derive(Eq)]
    pub enum Need of Foreign {
        /// Reads a file, or looks into a folder.
        Read(PathBase),
        /// Creates, replaces or removes a file.
        Write(PathBase),
        /// Runs a command line.
        Command(String),
        /// Connects to a host on the network.
        Host(String),
        /// Connects to a port of this machine.
        Port(u16),
        /// Calls a tool of a server, as `SERVER/TOOL`.
        Tool(String),
        /// Calls a tool of a server that a person has to look at, as `SERVER/TOOL`: no rule about tools covers it.
        Confirm(String),
        /// Changes what git keeps of the repository: commits, branches, the index.
        Git,
        /// Runs outside the sandbox.
        Unconfined,
    }
}

impl Need {
    /// The file or folder it touches.
    pub fn path(&self) -> Option<&PathBase> {
        match self {
            Need::Read(base) | Need::Write(base) => Some(base),
            _ => None,
        }
    }

    /// True when it leaves the sandbox: only a rule or a person that names it allows it.
    pub fn leaves_sandbox(&self) -> bool {
        match self {
            Need::Host(_) | Need::Port(_) | Need::Confirm(_) | Need::Unconfined | Need::Unknown(_) => true,
            Need::Read(_) | Need::Write(_) | Need::Command(_) | Need::Tool(_) | Need::Git => false,
        }
    }

    /// True when a sandbox opens it for a single command.
    pub fn is_opened(&self) -> bool {
        matches!(self, Need::Git | Need::Host(_) | Need::Port(_) | Need::Unconfined)
    }

    /// What a call may ask for besides what its tool does, by the name a rule has for it: `git`, `unconfined`,
    /// `host:NAME`, `port:N`.
    pub fn asked(name: &str) -> Option<Need> {
        match name.split_once(':') {
            None if name == "git" => Some(Need::Git),
            None if name == "unconfined" => Some(Need::Unconfined),
            Some(("host", host)) if is_host(host) => Some(Need::Host(host.to_ascii_lowercase())),
            Some(("port", port)) => port.parse().ok().filter(|port| *port != 0).map(Need::Port),
            _ => None,
        }
    }

    /// Whether a rule's pattern is one of needs that there are: `git`, `unconfined`, `host:NAME`, `port:N`,
    /// `tool:SERVER/TOOL`, `confirm:SERVER/TOOL`.
    pub fn is_pattern(pattern: &str) -> bool {
        match pattern.split_once(':') {
            None => matches!(pattern, "git" | "unconfined"),
            Some(("port", port)) => port.contains(WILDCARDS) || port.parse().is_ok_and(|port: u16| port != 0),
            Some(("host", name)) => {
                let fits = |c: char| c.is_ascii_alphanumeric() || "-._:*?[]{},!^".contains(c);
                network(pattern).is_some() || (!name.is_empty() && name.chars().all(fits))
            }
            Some((kind, name)) => matches!(kind, "tool" | "confirm") && !name.is_empty(),
        }
    }

    /// The least risk of a call with this need; none where that is for its tool to say.
    pub fn risk(&self) -> Option<Risk> {
        match self {
            Need::Read(_) => Some(Risk::Read),
            Need::Write(_) => Some(Risk::Write),
            Need::Command(_) | Need::Git | Need::Unconfined => Some(Risk::Execute),
            Need::Host(_) | Need::Port(_) => Some(Risk::Network),
            Need::Tool(_) | Need::Confirm(_) | Need::Unknown(_) => None,
        }
    }

    /// How a rule names it: `host:example.org`, `port:5432`, `tool:SERVER/TOOL`,
    /// `confirm:SERVER/TOOL`, `git`, `unconfined`.
    pub fn name(&self) -> Cow<'_, str> {
        match self {
            Need::Read(base) => format!("read:{}", base.path).into(),
            Need::Write(base) => format!("write:{}", base.path).into(),
            Need::Command(line) => format!("command:{line}").into(),
            Need::Host(host) => format!("host:{host}").into(),
            Need::Port(port) => format!("port:{port}").into(),
            Need::Tool(tool) => format!("tool:{tool}").into(),
            Need::Confirm(tool) => format!("confirm:{tool}").into(),
            Need::Git => "git".into(),
            Need::Unconfined => "unconfined".into(),
            Need::Unknown(unknown) => unknown.name().into(),
        }
    }
}

/// What makes a pattern more than a name.
pub const WILDCARDS: [char; 4] = ['*', '?', '[', '{'];

/// A name or an address, and nothing that a pattern or a URL has besides.
fn is_host(host: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | ':');
    !host.is_empty() && host.len() <= 253 && host.chars().all(is_part)
}
