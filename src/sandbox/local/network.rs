//! What of the network the commands of one call reach: hosts through agon's proxy, and ports of this machine.
//!
//! A call has a network of its own with nothing but a loopback. The sockets that listen there are agon's.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::OsString;
use std::sync::Arc;

use super::door::{Door, MOST};
use crate::ports::{ExecEnd, Live, Opens};
use crate::protocol::Lane;
use crate::protocol::effect::HostRule;
use crate::protocol::need::Need;
use crate::protocol::spec::Action;
use crate::sandbox::proxy::judge::HostRules;
use crate::sandbox::proxy::origins::Origins;
use crate::sandbox::proxy::{HostUse, Proxy, Wire};

/// Where the proxy is reached on a call's loopback: above the ports that the system gives out by itself.
const PORT: u16 = 61_128;
/// What is in place of the token in what a command says.
const MASKED: &str = "[the proxy's token]";

/// The network of one call. It ends with this value.
pub struct CallNetwork {
    proxy: Arc<Proxy>,
    origins: Arc<Origins>,
    /// Ports of this machine that are reached at the same port inside.
    ports: Vec<u16>,
    /// True where no connection can be allowed, so that tools need not try again.
    is_closed: bool,
}

impl CallNetwork {
    /// What was opened for the call, and what rules say of hosts.
    pub fn of(opens: &Opens, wire: &Arc<dyn Wire>, origins: &Arc<Origins>) -> Result<Self, String> {
        let mut rules = HostRules::default();
        for host in &opens.hosts {
            rules.add(Action::Allow, &Need::Host(host.clone()).name());
        }
        for rule in &opens.rules {
            rules.add(rule.action, &rule.need);
        }
        origins.targets().for_each(|target| rules.add_own(target.clone()));
        let mut ports = opens.ports.clone();
        ports.extend(ports_of(&opens.rules));
        ports.retain(|port| *port != PORT);
        ports.sort_unstable();
        ports.dedup();
        if ports.len() >= MOST {
            return Err(format!("a command can have {} ports of this machine at most", MOST - 1));
        }
        let is_closed = !rules.allow_some();
        let proxy = Arc::new(Proxy::new(rules, Arc::clone(wire), None)?.through(origins.upstream().cloned()));
        Ok(CallNetwork { proxy, origins: Arc::clone(origins), ports, is_closed })
    }

    /// Ports on which the call has to listen: the proxy's, then those of this machine.
    pub fn listened(&self) -> Vec<u16> {
        std::iter::once(PORT).chain(self.ports.iter().copied()).collect()
    }

    /// Serves the call's sockets until it is dropped.
    pub async fn serve(&self, door: Door) -> Infallible {
        let mut sockets = door.listeners().await.unwrap_or_default().into_iter();
        // Without sockets the call has ended.
        let Some(first) = sockets.next() else { return std::future::pending().await };
        let proxy = || Arc::clone(&self.proxy);
        let relays = sockets.zip(&self.ports).map(|(socket, port)| proxy().relay(socket, *port));
        let (never, _) = tokio::join!(proxy().serve(first), futures_util::future::join_all(relays));
        never
    }

    /// The variables by which tools find the proxy.
    pub fn environment(&self) -> BTreeMap<String, OsString> {
        let url = self.proxy.url(PORT);
        let (user, token) = self.proxy.password();
        let own = "localhost,127.0.0.1,::1";
        let java: Vec<String> = ["http", "https"]
            .map(|kind| {
                format!(
                    "-D{kind}.proxyHost=127.0.0.1 -D{kind}.proxyPort={PORT} -D{kind}.proxyUser={user} \
                     -D{kind}.proxyPassword={token}"
                )
            })
            .into();
        // Java sends no name and password through a tunnel unless it is configured to.
        let java = format!("{} -Djdk.http.auth.tunneling.disabledSchemes=", java.join(" "));
        let proxies = ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];
        // These win over the proxy that a tool's own settings name, which is not reached from here.
        let of_tools = ["CARGO_HTTP_PROXY", "PIP_PROXY", "npm_config_proxy", "npm_config_https_proxy"];
        let retries = ["CARGO_NET_RETRY", "PIP_RETRIES", "npm_config_fetch_retries"];
        let retries = retries.into_iter().filter(|_| self.is_closed).map(|name| (name, "0"));
        let all = proxies.into_iter().chain(of_tools).map(|name| (name, url.as_str()));
        let all = all.chain(["no_proxy", "NO_PROXY", "npm_config_noproxy"].map(|name| (name, own)));
        let all = all.chain(["MAVEN_OPTS", "GRADLE_OPTS", "JAVA_OPTS"].map(|name| (name, java.as_str())));
        let all = all.chain([("NODE_USE_ENV_PROXY", "1")]).chain(retries);
        all.map(|(name, value)| (name.to_owned(), value.into())).collect()
    }

    /// A call's end without the token, with a line for each host that a connection was asked for.
    pub fn told(&self, end: ExecEnd) -> ExecEnd {
        let (stdout, stderr, mut notes) = (self.masked(end.stdout), self.masked(end.stderr), end.notes);
        let line = |host: &HostUse| host.line(self.origins.words(&host.target).as_deref());
        notes.extend(self.proxy.uses().iter().map(line));
        ExecEnd { stdout, stderr, notes, ..end }
    }

    fn masked(&self, text: String) -> String {
        let secrets = self.proxy.secrets();
        secrets
            .iter()
            .filter(|secret| text.contains(secret.as_str()))
            .fold(text.clone(), |text, secret| text.replace(secret.as_str(), MASKED))
    }
}

/// The ports that rules allow by their number and none denies.
fn ports_of(rules: &[HostRule]) -> impl Iterator<Item = u16> {
    let of = |rule: &HostRule| rule.need.strip_prefix("port:").and_then(|port| port.parse::<u16>().ok());
    let is_denied = move |port: u16| {
        let denies = |rule: &HostRule| of(rule) == Some(port) || matches!(rule.need.as_str(), "port:*" | "*");
        rules.iter().any(|rule| rule.action != Action::Allow && denies(rule))
    };
    let allowed = rules.iter().filter(|rule| rule.action == Action::Allow).filter_map(of);
    allowed.filter(move |port| *port != 0 && !is_denied(*port))
}

/// Serves a call's sockets while it runs.
pub async fn beside<T>(network: Option<&CallNetwork>, door: Door, call: impl Future<Output = T>) -> T {
    let served = async {
        match network {
            Some(network) => network.serve(door).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        ended = call => ended,
        never = served => match never {},
    }
}

/// Live output without the token.
pub struct MaskedLive<'a>(pub &'a dyn Live, pub Option<&'a CallNetwork>);

impl Live for MaskedLive<'_> {
    fn push(&self, lane: Lane, text: &str) {
        match self.1 {
            Some(network) => self.0.push(lane, &network.masked(text.to_owned())),
            None => self.0.push(lane, text),
        }
    }
}
