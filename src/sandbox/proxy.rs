//! agon's own proxy for the commands of one call: HTTP and CONNECT, with the call's token, to hosts that rules or a
//! person allow. It ends with the value that serves it, and with that every connection it made.
//!
//! Names are resolved here, after they were allowed, and only an address that was checked is connected to. No TLS is
//! opened: the name in a client's first message must be the host it asked for.

mod connection;
pub mod judge;
pub mod origins;
mod tally;
mod tunnel;
pub mod upstream;

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use judge::{HostRules, Target, Verdict};
pub use tally::HostUse;
use tally::{Counted, Tally};
use upstream::Upstream;

/// How long a name may take to be resolved, and an address to be connected to.
const CONNECT: Duration = Duration::from_secs(15);
/// How long a client may take for a request's head.
const HEAD: Duration = Duration::from_secs(30);
/// How long a connection may carry nothing.
const IDLE: Duration = Duration::from_secs(300);
/// Most connections of one call; more wait.
const MOST: usize = 256;
/// Most bytes of a head that are read.
const MOST_HEAD: usize = 64 * 1024;

/// How the proxy reaches the network.
#[async_trait]
pub trait Wire: std::fmt::Debug + Send + Sync {
    /// The addresses of a name.
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>>;
    /// A connection to exactly this address.
    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream>;
}

/// This machine's resolver and network.
#[derive(Debug)]
pub struct SystemWire;

#[async_trait]
impl Wire for SystemWire {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((host, 0)).await?.map(|address| address.ip()).collect())
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        TcpStream::connect(address).await
    }
}

/// Puts a host without a rule, and what the client calls itself, to a person. Its future is dropped with the connection
/// that waits; none where the call has asked about too many.
pub type Asker = Box<dyn Fn(&Target, Option<&str>) -> BoxFuture<'static, Option<bool>> + Send + Sync>;

/// Why a connection is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No rule names the host, and no person can be asked.
    NoRule,
    /// It was asked about and not allowed.
    NotAllowed,
    /// It was asked about, and no connection waited for the answer.
    Unanswered,
    /// A rule denies it.
    Denied,
    /// It resolves to an address that only a rule for the address opens.
    Closed(IpAddr, &'static str),
    /// Its name has no address, or none of its addresses answers.
    Unreachable(String),
    /// The first message was for another host, or named none.
    OtherName(Option<String>),
    /// What came on the port for HTTPS was no TLS.
    NoTls,
}

impl Refusal {
    /// Why, and how to allow it.
    pub fn words(&self, target: &Target) -> String {
        let how = || {
            let need = target.need();
            format!("ask with `needs: [\"{need}\"]`, or start agon with `--allow {need}`")
        };
        match self {
            Refusal::NoRule => format!("no rule allows it; {}", how()),
            Refusal::NotAllowed => "it was asked about and not allowed".to_owned(),
            Refusal::Unanswered => {
                format!("it was asked about, and the command did not wait for the answer; {}", how())
            }
            Refusal::Denied => "a rule denies it".to_owned(),
            Refusal::Closed(address, what) => {
                let own = Target { host: address.to_string(), port: target.port };
                format!("it leads to {address}, {what}; to allow that address: `--allow {}`", own.need())
            }
            Refusal::Unreachable(why) => why.clone(),
            Refusal::OtherName(Some(name)) => format!("the TLS connection asked for `{name}`"),
            Refusal::OtherName(None) => "the TLS connection named no host".to_owned(),
            Refusal::NoTls => "what was sent was not TLS".to_owned(),
        }
    }
}

/// The proxy of one call.
pub struct Proxy {
    rules: HostRules,
    token: String,
    wire: Arc<dyn Wire>,
    tally: Tally,
    asker: Option<Asker>,
    upstream: Option<Upstream>,
}

/// Serves each connection, a limited number of them at a time.
async fn each<F: Future<Output = ()>>(listener: &TcpListener, serve: impl Fn(TcpStream) -> F) -> Infallible {
    let mut open = FuturesUnordered::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if open.len() < MOST => match accepted {
                Ok((stream, _)) => open.push(serve(stream)),
                // Out of descriptors: another connection has to end first.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
            Some(()) = open.next() => {}
        }
    }
}

async fn pass_on(proxy: Arc<Proxy>, mut inside: TcpStream, port: u16) {
    let target = Target { host: "127.0.0.1".to_owned(), port };
    let here = [IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), IpAddr::V6(std::net::Ipv6Addr::LOCALHOST)];
    for address in here {
        if let Ok(outside) = proxy.wire.connect(SocketAddr::new(address, port)).await {
            let mut outside = proxy.tally.counted(&target, outside);
            // An end on one side is seen on the other.
            let _ = tokio::io::copy_bidirectional(&mut inside, &mut outside).await;
            return;
        }
    }
    let why = Refusal::Unreachable("nothing listens there on this machine".to_owned());
    proxy.tally.refused(&target, Some(why));
}

/// The name that clients use with the token.
const USER: &str = "agon";

impl Proxy {
    /// A proxy with a new token. Without an `asker` a host that no rule names is refused at once.
    pub fn new(rules: HostRules, wire: Arc<dyn Wire>, asker: Option<Asker>) -> Result<Self, String> {
        let mut bytes = [0; 20];
        getrandom::fill(&mut bytes)
            .map_err(|error| format!("no random token for the proxy is available: {error}"))?;
        let token = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Proxy { rules, token, wire, tally: Tally::default(), asker, upstream: None })
    }

    /// The same, with hosts reached through the user's own proxy.
    #[must_use]
    pub fn through(mut self, upstream: Option<Upstream>) -> Self {
        self.upstream = upstream;
        self
    }

    /// The proxy's address for clients that reach it at this port of their loopback.
    pub fn url(&self, port: u16) -> String {
        format!("http://{USER}:{}@127.0.0.1:{port}", self.token)
    }

    /// The token by itself, for clients that take name and password apart.
    pub fn password(&self) -> (&'static str, &str) {
        (USER, &self.token)
    }

    /// The forms in which the token can be in a command's output.
    pub fn secrets(&self) -> [String; 2] {
        [self.token.clone(), self.credentials()]
    }

    /// Name and token as a header has them.
    fn credentials(&self) -> String {
        base64::engine::general_purpose::STANDARD.encode(format!("{USER}:{}", self.token))
    }

    /// Every host that a connection was asked for, with its bytes.
    pub fn uses(&self) -> Vec<HostUse> {
        self.tally.uses()
    }

    /// A line for the hosts beyond those, which are not listed.
    pub fn more(&self) -> Option<String> {
        self.tally.more()
    }

    /// Serves all that connect, until it is dropped.
    pub async fn serve(self: Arc<Self>, listener: TcpListener) -> Infallible {
        each(&listener, |stream| connection::serve(Arc::clone(&self), stream)).await
    }

    /// Passes all that connect on to a port of this machine, until it is dropped.
    pub async fn relay(self: Arc<Self>, listener: TcpListener, port: u16) -> Infallible {
        each(&listener, |inside| pass_on(Arc::clone(&self), inside, port)).await
    }

    /// A connection to a target that is allowed.
    async fn open(&self, target: &Target, client: Option<&str>) -> Result<Counted, Refusal> {
        let opened = self.connect(target, client).await;
        if let Err(refusal) = &opened {
            self.tally.refused(target, Some(refusal.clone()));
        }
        opened
    }

    async fn connect(&self, target: &Target, client: Option<&str>) -> Result<Counted, Refusal> {
        let said = self.rules.judge(target);
        match said {
            Verdict::Deny => return Err(Refusal::Denied),
            Verdict::Ask => self.ask(target, client).await?,
            Verdict::Allow => {}
        }
        if let Some(upstream) = self.upstream.as_ref().filter(|upstream| upstream.serves(target)) {
            return self.connect_through(upstream, target).await;
        }
        // Only now: a question to a name server tells others which name it is.
        let addresses = match target.address() {
            Some(address) => vec![address],
            None => self.resolve(&target.host).await?,
        };
        let mut refusal = Refusal::Unreachable("its name has no address".to_owned());
        // A person who was asked about an address has named it.
        let is_named = said == Verdict::Ask && target.address().is_some();
        for address in addresses {
            if let Err(what) = self.rules.may_connect(target, address)
                && !is_named
            {
                refusal = Refusal::Closed(address.to_canonical(), what);
                continue;
            }
            let place = SocketAddr::new(address, target.port);
            match timeout(CONNECT, self.wire.connect(place)).await {
                Ok(Ok(stream)) => return Ok(self.tally.counted(target, stream)),
                Ok(Err(error)) => refusal = Refusal::Unreachable(format!("it cannot be reached: {error}")),
                Err(_) => refusal = Refusal::Unreachable("it does not answer".to_owned()),
            }
        }
        Err(refusal)
    }

    /// A tunnel through the user's own proxy, wherever that is. It resolves the target itself.
    async fn connect_through(&self, upstream: &Upstream, target: &Target) -> Result<Counted, Refusal> {
        let failed = |error: String| Refusal::Unreachable(format!("it cannot be reached: {error}"));
        let place = &upstream.target;
        let address = match place.address() {
            Some(address) => Some(address),
            None => self.resolve(&place.host).await?.first().copied(),
        };
        let address = address.ok_or_else(|| failed(format!("your proxy {place} has no address")))?;
        let tunnel = async {
            let mut stream = self.wire.connect(SocketAddr::new(address, place.port)).await?;
            upstream.tunnel(&mut stream, target).await.map(|()| stream)
        };
        let opened = timeout(CONNECT, tunnel).await;
        let opened = opened.map_err(|_| failed(format!("your proxy {place} does not answer")))?;
        opened.map(|stream| self.tally.counted(target, stream)).map_err(|error| failed(error.to_string()))
    }

    async fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, Refusal> {
        let resolved = timeout(CONNECT, self.wire.resolve(host)).await;
        let unresolved = |why: String| Refusal::Unreachable(format!("its name cannot be resolved: {why}"));
        match resolved {
            Ok(addresses) => addresses.map_err(|error| unresolved(error.to_string())),
            Err(_) => Err(unresolved("no name server answers".to_owned())),
        }
    }

    /// Goes on once a person allows it.
    async fn ask(&self, target: &Target, client: Option<&str>) -> Result<(), Refusal> {
        let asker = self.asker.as_ref().ok_or(Refusal::NoRule)?;
        // Said of it until there is an answer, which may come too late.
        self.tally.refused(target, Some(Refusal::Unanswered));
        let answer = asker(target, client).await;
        self.tally.refused(target, None);
        match answer {
            Some(true) => Ok(()),
            Some(false) => Err(Refusal::NotAllowed),
            None => Err(Refusal::NoRule),
        }
    }
}
