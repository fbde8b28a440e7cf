//! What of the network the commands of one call reach: hosts through agon's proxy, and ports of this machine.
//!
//! A call has a network of its own with nothing but a loopback. The sockets that listen there are agon's.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::OsString;
use std::sync::Arc;

use futures_util::FutureExt;

use super::door::{Door, MOST};
use super::shared_network::{Joined, PORTS};
use crate::ports::{Asks, Exec, ExecEnd, Live, Opens};
use crate::protocol::Lane;
use crate::protocol::effect::HostRule;
use crate::protocol::host::Target;
use crate::protocol::need::Need;
use crate::protocol::spec::Action;
use crate::sandbox::proxy::judge::HostRules;
use crate::sandbox::proxy::origins::Origins;
use crate::sandbox::proxy::{Asker, HostUse, Proxy, Wire};

/// What is in place of the token in what a command says.
const MASKED: &str = "[the proxy's token]";

/// The network of one call. It ends with this value.
pub struct CallNetwork {
    proxy: Arc<Proxy>,
    origins: Arc<Origins>,
    /// The proxy's port inside.
    port: u16,
    /// Whether other calls are in it.
    pub is_shared: bool,
    /// Ports of this machine that are reached at the same port inside.
    ports: Vec<u16>,
    /// What tools are told of waiting for a connection.
    waits: &'static [(&'static str, &'static str)],
}

/// No connection can be allowed: tools need not try again.
const NO_WAITS: &[(&str, &str)] =
    &[("CARGO_NET_RETRY", "0"), ("PIP_RETRIES", "0"), ("npm_config_fetch_retries", "0")];
/// A person is asked, who takes longer to answer than a server.
const LONG_WAITS: &[(&str, &str)] = &[
    ("CARGO_HTTP_TIMEOUT", "600"),
    ("PIP_DEFAULT_TIMEOUT", "600"),
    ("UV_HTTP_TIMEOUT", "600"),
    ("npm_config_fetch_timeout", "600000"),
];

impl CallNetwork {
    /// What was opened for the call, what rules say of hosts, and who is asked about others.
    pub fn of(
        exec: &Exec,
        wire: &Arc<dyn Wire>,
        origins: &Arc<Origins>,
        asks: Option<Arc<dyn Asks>>,
        (read_only, joined): (bool, Option<&Joined<'_>>),
    ) -> Result<Self, String> {
        let (opens, mut rules) = (&exec.opens, HostRules::default());
        for need in opens.needs.iter().filter(|need| matches!(need, Need::Host(_))) {
            rules.add_shown(need.name().into_owned());
        }
        for rule in &opens.rules {
            rules.add(rule.action, &rule.need);
        }
        origins.targets().for_each(|target| rules.add_own(target.clone()));
        // What listens on this machine may keep more than the workspace, so nothing is opened where it is read-only.
        let mut ports: Vec<u16> = if read_only { opens.ports().collect() } else { relayed(opens).collect() };
        ports.retain(|port| !PORTS.contains(port));
        ports.sort_unstable();
        ports.dedup();
        if ports.len() >= MOST {
            return Err(format!("a command can have {} ports of this machine at most", MOST - 1));
        }
        let waits = match asks {
            Some(_) => LONG_WAITS,
            None if rules.allow_some() => &[],
            None => NO_WAITS,
        };
        let asker = asks.map(|asks| asker(asks, Arc::clone(origins), exec.command.clone()));
        let proxy = Proxy::new(rules, Arc::clone(wire), asker)?.through(origins.upstream().cloned());
        let (port, is_shared) = (joined.map_or(PORTS.start, |joined| joined.port), joined.is_some());
        Ok(CallNetwork {
            proxy: Arc::new(proxy),
            origins: Arc::clone(origins),
            port,
            is_shared,
            ports,
            waits,
        })
    }

    /// Ports on which the call has to listen: the proxy's, then those of this machine.
    pub fn listened(&self) -> Vec<u16> {
        std::iter::once(self.port).chain(self.ports.iter().copied()).collect()
    }

    /// Serves the call's sockets until it is dropped.
    pub async fn serve(&self, door: Door) -> Infallible {
        let mut sockets = door.listeners().await.unwrap_or_default().into_iter();
        // Without sockets the call has ended.
        let Some(first) = sockets.next() else { return std::future::pending().await };
        let proxy = || Arc::clone(&self.proxy);
        let port = |socket: &tokio::net::TcpListener| Some(socket.local_addr().ok()?.port());
        let relays = sockets.filter_map(|socket| Some((port(&socket)?, socket)));
        let relays = relays.map(|(port, socket)| proxy().relay(socket, port));
        let (never, _) = tokio::join!(proxy().serve(first), futures_util::future::join_all(relays));
        never
    }

    /// The variables by which tools find the proxy.
    pub fn environment(&self) -> BTreeMap<String, OsString> {
        let (url, port) = (self.proxy.url(self.port), self.port);
        let (user, token) = self.proxy.password();
        let own = "localhost,127.0.0.1,::1";
        let java: Vec<String> = ["http", "https"]
            .map(|kind| {
                format!(
                    "-D{kind}.proxyHost=127.0.0.1 -D{kind}.proxyPort={port} -D{kind}.proxyUser={user} \
                     -D{kind}.proxyPassword={token}"
                )
            })
            .into();
        // Java sends no name and password through a tunnel unless it is configured to.
        let java = format!("{} -Djdk.http.auth.tunneling.disabledSchemes=", java.join(" "));
        let proxies = ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];
        // These win over the proxy that a tool's own settings name, which is not reached from here.
        let of_tools = ["CARGO_HTTP_PROXY", "PIP_PROXY", "npm_config_proxy", "npm_config_https_proxy"];
        let all = proxies.into_iter().chain(of_tools).map(|name| (name, url.as_str()));
        let all = all.chain(["no_proxy", "NO_PROXY", "npm_config_noproxy"].map(|name| (name, own)));
        let all = all.chain(["MAVEN_OPTS", "GRADLE_OPTS", "JAVA_OPTS"].map(|name| (name, java.as_str())));
        let all = all.chain([("NODE_USE_ENV_PROXY", "1")]).chain(self.waits.iter().copied());
        all.map(|(name, value)| (name.to_owned(), value.into())).collect()
    }

    /// A call's end without the token, with a line for each host that a connection was asked for.
    pub fn told(&self, end: ExecEnd) -> ExecEnd {
        let (stdout, stderr, mut notes) = (self.masked(end.stdout), self.masked(end.stderr), end.notes);
        let line = |host: &HostUse| host.line(self.origins.words(&host.target).as_deref());
        notes.extend(self.proxy.uses().iter().map(line).chain(self.proxy.more()));
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

/// Puts a host to a person: where the command connects to, which settings name the host, and what runs.
fn asker(asks: Arc<dyn Asks>, origins: Arc<Origins>, command: String) -> Asker {
    Box::new(move |target: &Target, client: Option<&str>| {
        let origin = origins.words(target).map(|words| format!(", {words}")).unwrap_or_default();
        // What a client calls itself is its own word: one word of it, and a short one.
        let client = client.and_then(|client| client.split_whitespace().next()).unwrap_or_default();
        let client: String = client.chars().filter(char::is_ascii_graphic).take(40).collect();
        let client = if client.is_empty() { client } else { format!("\nby {client}, as it calls itself") };
        let words = format!("connect to {target}{origin}{client}\nwhile this runs: {command}");
        let need = target.need();
        let (asks, host) = (Arc::clone(&asks), need.strip_prefix("host:").unwrap_or(&need).to_owned());
        async move { asks.ask(Need::Host(host), words).await }.boxed()
    })
}

/// Ports of this machine that a call reaches.
pub fn relayed(opens: &Opens) -> impl Iterator<Item = u16> {
    opens.ports().chain(ports_of(&opens.rules))
}

/// The ports that rules allow by their number and none forbids in any spelling.
fn ports_of(rules: &[HostRule]) -> impl Iterator<Item = u16> {
    let allowed = rules.iter().filter(|rule| rule.action == Action::Allow);
    let allowed = allowed.filter_map(|rule| rule.need.strip_prefix("port:")?.parse().ok());
    let forbids = |rule: &HostRule, port: u16| {
        rule.action != Action::Allow && rule.action.fits(&rule.need, &Need::Port(port).name())
    };
    allowed.filter(move |port| *port != 0 && !rules.iter().any(|rule| forbids(rule, *port)))
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

    fn asks(&self) -> Option<Arc<dyn Asks>> {
        self.0.asks()
    }
}
