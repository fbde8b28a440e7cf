//! Counts what goes to and comes from each host, and keeps why one was refused.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::{IDLE, Refusal};
use crate::protocol::host::Target;

/// What became of the connections to one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostUse {
    /// Host and port.
    pub target: Target,
    /// Bytes sent to it, TLS and headers included.
    pub sent: u64,
    /// Bytes that came from it.
    pub received: u64,
    /// Why a connection was refused, the last one if several were.
    pub refused: Option<Refusal>,
}

impl HostUse {
    /// One line for models and people; `origin` says where a refused host comes from.
    pub fn line(&self, origin: Option<&str>) -> String {
        let from = origin.map(|origin| format!(" ({origin})")).unwrap_or_default();
        let bytes = format!("{} bytes sent, {} received", self.sent, self.received);
        match (&self.refused, self.sent + self.received) {
            (None, _) => format!("network: {}: {bytes}", self.target),
            (Some(why), 0) => {
                format!("network: {}{from} refused: {}", self.target, why.words(&self.target))
            }
            (Some(why), _) => {
                format!("network: {}: {bytes}; then refused: {}", self.target, why.words(&self.target))
            }
        }
    }
}

#[derive(Debug, Default)]
struct Bytes {
    sent: AtomicU64,
    received: AtomicU64,
}

#[derive(Debug, Default)]
struct Seen {
    bytes: Arc<Bytes>,
    refused: Option<Refusal>,
}

/// The counts of one call.
#[derive(Debug, Default)]
pub struct Tally {
    listed: Mutex<BTreeMap<Target, Seen>>,
    /// Of all targets beyond those that are listed.
    more: Arc<Bytes>,
}

/// Most targets that are listed; a command that tries more is scanning.
const MOST: usize = 256;

impl Tally {
    /// Wraps a connection so that its bytes are counted.
    pub fn counted(&self, target: &Target, stream: TcpStream) -> Counted {
        Counted {
            stream,
            bytes: self.with(target, |seen| Arc::clone(&seen.bytes)).unwrap_or(Arc::clone(&self.more)),
        }
    }

    /// Notes why connections are refused, or that they no longer are.
    pub fn refused(&self, target: &Target, why: Option<Refusal>) {
        self.with(target, |seen| seen.refused = why);
    }

    /// Everything seen so far, by host.
    pub fn uses(&self) -> Vec<HostUse> {
        let all = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        let uses = all.iter().map(|(target, seen)| HostUse {
            target: target.clone(),
            sent: seen.bytes.sent.load(Ordering::Relaxed),
            received: seen.bytes.received.load(Ordering::Relaxed),
            refused: seen.refused.clone(),
        });
        uses.collect()
    }

    /// A line for what goes to targets that are not listed.
    pub fn more(&self) -> Option<String> {
        let [sent, received] =
            [&self.more.sent, &self.more.received].map(|bytes| bytes.load(Ordering::Relaxed));
        let words =
            || format!("network: hosts beyond the first {MOST}: {sent} bytes sent, {received} received");
        (sent + received > 0).then(words)
    }

    fn with<T>(&self, target: &Target, change: impl FnOnce(&mut Seen) -> T) -> Option<T> {
        let mut all = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        (all.len() < MOST || all.contains_key(target)).then(|| change(all.entry(target.clone()).or_default()))
    }
}

/// A connection whose bytes are counted.
pub struct Counted {
    stream: TcpStream,
    bytes: Arc<Bytes>,
}

impl Counted {
    /// Waits until the connection has carried nothing for as long as it may.
    pub fn idle(&self) -> impl Future<Output = ()> + Send + use<> {
        let bytes = Arc::clone(&self.bytes);
        let now = move || bytes.sent.load(Ordering::Relaxed) + bytes.received.load(Ordering::Relaxed);
        async move {
            let mut before = None;
            while before != Some(now()) {
                before = Some(now());
                tokio::time::sleep(IDLE).await;
            }
        }
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, buf));
        self.bytes.received.fetch_add((buf.filled().len() - before) as u64, Ordering::Relaxed);
        Poll::Ready(read)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, buf));
        self.bytes.sent.fetch_add(*written.as_ref().unwrap_or(&0) as u64, Ordering::Relaxed);
        Poll::Ready(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
