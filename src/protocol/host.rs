//! Hosts of the network as rules and needs name them; opens no socket and resolves no name.

use core::net::IpAddr;
use std::fmt;

use ipnet::IpNet;

use crate::protocol::spec::Action;

/// Ports that a rule for a host opens without naming them: HTTPS and HTTP.
pub const USUAL_PORTS: [u16; 2] = [443, 80];

/// Where a command wants to connect.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// A name in lower case without a final dot, or an address.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl Target {
    /// A target as a client writes it; none where it is no host.
    pub fn new(host: &str, port: u16) -> Option<Self> {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let host = match bare.parse::<IpAddr>() {
            Ok(address) => address.to_canonical().to_string(),
            Err(_) => bare.strip_suffix('.').unwrap_or(bare).to_ascii_lowercase(),
        };
        let is_sign = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let is_name = !host.is_empty() && host.len() <= 253 && host.chars().all(is_sign);
        let is_host = is_name || host.parse::<IpAddr>().is_ok();
        (is_host && port != 0).then_some(Target { host, port })
    }

    /// What a need for a host opens: its port, else both usual ones. None where it is no host.
    pub fn opened(host: &str) -> Vec<Target> {
        let with_port = || {
            let (host, port) = host.rsplit_once(':')?;
            Target::new(host, port.parse().ok()?)
        };
        let found: Vec<Target> = USUAL_PORTS.into_iter().filter_map(|port| Target::new(host, port)).collect();
        if found.is_empty() { with_port().into_iter().collect() } else { found }
    }

    /// The address it is, where it is no name.
    pub fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// The host as an address of the web has it: one with colons is in brackets.
    pub fn bracketed(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }

    /// As a need names it: with its port only where that is not a usual one.
    pub fn need(&self) -> String {
        match USUAL_PORTS.contains(&self.port) {
            true => format!("host:{}", self.bracketed()),
            false => format!("host:{self}"),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.bracketed(), self.port)
    }
}

/// Whether a rule's pattern of a need speaks of a target. What forbids does in every spelling that fits one of its names,
/// and of all ports where it names none; what allows names the host, and the port unless it is a usual one. `is_own`: the
/// port is that of a server of the user's own configuration.
pub fn speaks_of(action: Action, pattern: &str, target: &Target, is_own: bool) -> bool {
    let forbids = action != Action::Allow;
    let is_usual = USUAL_PORTS.contains(&target.port) || is_own;
    let glob = |name: String| action.fits(pattern, &name);
    let host = || glob(format!("host:{}", target.bracketed()));
    let with_port = || glob(format!("host:{target}"));
    let in_network = |(net, port): (IpNet, Option<&str>)| {
        let is_port = port.map_or(forbids || is_usual, |port| port == "*" || port.parse() == Ok(target.port));
        is_port && target.address().is_some_and(|address| net.contains(&address))
    };
    match network(pattern) {
        _ if forbids && (host() || with_port()) => true,
        Some(network) => in_network(network),
        None if forbids => false,
        None if port_of(pattern).is_some() => with_port(),
        None => is_usual && host(),
    }
}

/// The port that a pattern names: a number, or `*` for any.
fn port_of(need: &str) -> Option<&str> {
    let (_, port) = need.strip_prefix("host:")?.rsplit_once(':')?;
    (port == "*" || port.parse::<u16>().is_ok()).then_some(port)
}

/// The addresses that a pattern names, and its port.
pub fn network(need: &str) -> Option<(IpNet, Option<&str>)> {
    let pattern = need.strip_prefix("host:")?;
    let net = |text: &str| {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        let address = bare.parse::<IpAddr>().map(|address| address.to_canonical().into());
        address.or_else(|_| bare.parse::<IpNet>()).ok()
    };
    let whole = net(pattern).map(|net| (net, None));
    whole.or_else(|| Some((net(pattern.rsplit_once(':')?.0)?, Some(port_of(need)?))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_host_is_no_target() {
        for (host, port) in
            [("", 443), ("a b", 443), ("a/b", 443), ("a@b", 443), ("a", 0), ("ä.example", 443), ("[::1", 80)]
        {
            assert_eq!(Target::new(host, port), None, "{host}");
        }
        let target = |host: &str, port| Target::new(host, port).unwrap();
        assert_eq!(target("[::FFFF:127.0.0.1]", 80).host, "127.0.0.1");
        assert_eq!(target("x", 8080).need(), "host:x:8080");
        assert_eq!(target("::1", 80).to_string(), "[::1]:80");
    }
}
