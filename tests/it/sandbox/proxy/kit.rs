//! A network of the tests' own: names and public addresses that lead to servers on the loopback, and raw clients.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agon::protocol::host::Target;
use agon::protocol::spec::Action;
use agon::sandbox::proxy::judge::HostRules;
use agon::sandbox::proxy::upstream::Upstream;
use agon::sandbox::proxy::{Asker, Proxy, Wire};
use async_trait::async_trait;
use base64::Engine;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// The network as a proxy sees it. Every address it is asked to connect to is noted, before anything else.
#[derive(Debug, Default)]
pub struct Net {
    /// Answers to come for a name; the last one stays.
    names: Mutex<BTreeMap<String, VecDeque<Vec<IpAddr>>>>,
    /// Where addresses really lead.
    places: Mutex<BTreeMap<SocketAddr, SocketAddr>>,
    resolved: Mutex<Vec<String>>,
    dialled: Mutex<Vec<SocketAddr>>,
}

#[async_trait]
impl Wire for Net {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        self.resolved.lock().unwrap().push(host.to_owned());
        let mut names = self.names.lock().unwrap();
        let answers = names.get_mut(host).ok_or_else(|| io::Error::other("no such name"))?;
        let answer = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
        Ok(answer.unwrap_or_default())
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        self.dialled.lock().unwrap().push(address);
        let place = self.places.lock().unwrap().get(&address).copied();
        TcpStream::connect(place.ok_or(io::ErrorKind::ConnectionRefused)?).await
    }
}

impl Net {
    /// What a name resolves to, one answer after another.
    pub fn name(&self, host: &str, answers: &[&[&str]]) {
        let answers = answers.iter().map(|answer| answer.iter().map(|ip| ip.parse().unwrap()).collect());
        self.names.lock().unwrap().insert(host.to_owned(), answers.collect());
    }

    /// Lets an address lead to a server on the loopback.
    pub fn place(&self, address: &str, server: SocketAddr) {
        self.places.lock().unwrap().insert(address.parse().unwrap(), server);
    }

    /// Names that were resolved.
    pub fn resolved(&self) -> Vec<String> {
        self.resolved.lock().unwrap().clone()
    }

    /// Addresses that were connected to.
    pub fn dialled(&self) -> Vec<String> {
        self.dialled.lock().unwrap().iter().map(SocketAddr::to_string).collect()
    }
}

/// What a person is asked.
pub struct Question {
    pub target: Target,
    pub client: Option<String>,
    /// Dropped, it says that too many were asked about.
    pub answer: oneshot::Sender<bool>,
}

/// A proxy that is served on the loopback.
pub struct Served {
    pub net: Arc<Net>,
    pub proxy: Arc<Proxy>,
    pub address: SocketAddr,
    pub questions: mpsc::UnboundedReceiver<Question>,
    task: JoinHandle<std::convert::Infallible>,
}

impl Served {
    /// With these rules; a person can be asked where `asks`.
    pub async fn new(rules: &[(Action, &str)], asks: bool) -> Self {
        Served::with(rules, asks, None).await
    }

    /// With everything allowed, by the proxy of the user's own at this address.
    pub async fn through(url: &str) -> Self {
        let upstream = Upstream::of(&|name| (name == "https_proxy").then(|| url.into()));
        Served::with(&[(Action::Allow, "*")], false, upstream).await
    }

    async fn with(rules: &[(Action, &str)], asks: bool, upstream: Option<Upstream>) -> Self {
        let mut all = HostRules::default();
        rules.iter().for_each(|(action, need)| all.add(*action, need));
        let (net, (ask, questions)) = (Arc::new(Net::default()), mpsc::unbounded_channel());
        let asker: Asker = Box::new(move |target, client| {
            let (answer, answered) = oneshot::channel();
            let client = client.map(str::to_owned);
            let _ = ask.send(Question { target: target.clone(), client, answer });
            Box::pin(async move {
                let is_allowed: bool = answered.await.ok()?;
                Some(if is_allowed { Ok(()) } else { Err(String::new()) })
            })
        });
        let wire: Arc<dyn Wire> = net.clone();
        let proxy = Proxy::new(all, wire, asks.then_some(asker)).unwrap();
        let proxy = Arc::new(proxy.through(upstream));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(Arc::clone(&proxy).serve(listener));
        Served { net, proxy, address, questions, task }
    }

    /// With everything allowed that may be allowed by name.
    pub async fn open() -> Self {
        Served::new(&[(Action::Allow, "*")], false).await
    }

    /// Ends it, as the end of a call does.
    pub async fn end(&mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }

    /// The header that a client of this call sends.
    pub fn auth(&self) -> String {
        let (user, token) = self.proxy.password();
        let both = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{token}"));
        format!("Proxy-Authorization: Basic {both}\r\n")
    }

    /// Sends these bytes, and gives what comes back until the proxy closes or says nothing for a while.
    pub async fn send(&self, bytes: &[u8]) -> String {
        let mut client = TcpStream::connect(self.address).await.unwrap();
        let _ = client.write_all(bytes).await;
        rest(&mut client).await
    }

    /// One request by this client; `Connection: close` ends it.
    pub async fn get(&self, url: &str) -> String {
        let request =
            format!("GET {url} HTTP/1.1\r\nHost: other.example\r\n{}Connection: close\r\n\r\n", self.auth());
        self.send(request.as_bytes()).await
    }

    /// Sends a request for a host and leaves it open.
    pub async fn asks(&self, host: &str) -> TcpStream {
        let mut client = TcpStream::connect(self.address).await.unwrap();
        let head = format!("GET http://{host}/ HTTP/1.1\r\nUser-Agent: curl/8\r\n{}\r\n", self.auth());
        client.write_all(head.as_bytes()).await.unwrap();
        client
    }

    /// Opens a tunnel; what the proxy answered, and the connection.
    pub async fn tunnel(&self, target: &str) -> (String, TcpStream) {
        let mut client = TcpStream::connect(self.address).await.unwrap();
        let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{}\r\n", self.auth());
        client.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            match timeout(Duration::from_secs(30), client.read(&mut byte)).await {
                Ok(Ok(1)) => head.push(byte[0]),
                _ => break,
            }
        }
        (String::from_utf8(head).unwrap(), client)
    }

    /// What the proxy says of a target: bytes sent, bytes received, why it was refused.
    pub fn told(&self, target: &str) -> (u64, u64, Option<String>) {
        let uses = self.proxy.uses();
        let told = uses.iter().find(|told| told.target.to_string() == target);
        let told = told.unwrap_or_else(|| panic!("nothing is said of {target}: {uses:?}"));
        (told.sent, told.received, told.refused.as_ref().map(|why| why.words(&told.target)))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What still comes, at most for two seconds.
pub async fn rest(client: &mut TcpStream) -> String {
    let mut all = Vec::new();
    let _ = timeout(Duration::from_secs(2), client.read_to_end(&mut all)).await;
    String::from_utf8_lossy(&all).into_owned()
}

/// A server that takes connections, hands what it is sent over as it comes, and answers each piece with `answer`.
pub async fn server(answer: &'static [u8]) -> (SocketAddr, mpsc::UnboundedReceiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (heard, hears) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let heard = heard.clone();
            tokio::spawn(async move {
                loop {
                    let mut piece = vec![0; 64 * 1024];
                    match client.read(&mut piece).await {
                        Ok(read @ 1..) => {
                            piece.truncate(read);
                            let _ = heard.send(piece);
                            let _ = client.write_all(answer).await;
                        }
                        // An end is heard as nothing.
                        _ => return drop(heard.send(Vec::new())),
                    }
                }
            });
        }
    });
    (address, hears)
}

/// What the server hears next.
pub async fn next(hears: &mut mpsc::UnboundedReceiver<Vec<u8>>) -> Option<Vec<u8>> {
    timeout(Duration::from_secs(30), hears.recv()).await.ok().flatten()
}

/// The first message of a TLS client for this host.
pub fn hello(host: &str, with_name: bool) -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let roots = rustls::RootCertStore::empty();
    let mut config = config.unwrap().with_root_certificates(roots).with_no_client_auth();
    config.enable_sni = with_name;
    let name = ServerName::try_from(host.to_owned()).unwrap();
    let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    hello
}
