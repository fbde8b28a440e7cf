//! A tunnel that CONNECT opened: looks at the client's first message, then copies both ways.

use std::io::Cursor;
use std::time::Duration;

use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::Refusal;
use super::tally::Counted;
use crate::protocol::host::Target;

/// The first byte of a TLS connection.
const HANDSHAKE: u8 = 0x16;
/// Most bytes of a first message.
const MOST_HELLO: usize = 64 * 1024;
/// How long a client may take for it on the port for HTTPS.
const HELLO: Duration = Duration::from_secs(30);
/// Where nothing but TLS is let through.
const HTTPS: u16 = 443;

/// Copies until both sides have ended, or refuses the client's first message.
pub async fn run(
    inside: impl AsyncRead + AsyncWrite,
    outside: Counted,
    target: &Target,
) -> Result<(), Refusal> {
    let idle = outside.idle();
    let (mut from, mut to) = tokio::io::split(inside);
    let (mut answers, mut upstream) = tokio::io::split(outside);
    let up = async {
        let hello = first_message(&mut from, target);
        let hello = match target.port {
            HTTPS => tokio::time::timeout(HELLO, hello).await.unwrap_or(Err(Refusal::NoTls))?,
            // On another port the server may speak first.
            _ => hello.await?,
        };
        // An end on one side is seen on the other.
        let _ = upstream.write_all(&hello).await;
        let _ = tokio::io::copy(&mut from, &mut upstream).await;
        let _ = upstream.shutdown().await;
        Ok::<_, Refusal>(())
    };
    let down = async {
        let _ = tokio::io::copy(&mut answers, &mut to).await;
        let _ = to.shutdown().await;
        Ok(())
    };
    let copied = async { tokio::try_join!(up, down).map(drop) };
    tokio::select! {
        copied = copied => copied,
        () = idle => Ok(()),
    }
}

/// What the client sent first, once it is seen to be for the target.
async fn first_message(from: &mut (impl AsyncRead + Unpin), target: &Target) -> Result<Vec<u8>, Refusal> {
    let (mut all, mut acceptor) = (Vec::new(), Acceptor::default());
    loop {
        let seen = all.len();
        let ended = !matches!(from.read_buf(&mut all).await, Ok(1..));
        match all.first() {
            // A client that only listens, or is gone.
            None => return Ok(all),
            Some(&first) if first != HANDSHAKE && target.port == HTTPS => return Err(Refusal::NoTls),
            Some(&first) if first != HANDSHAKE => return Ok(all),
            Some(_) => {}
        }
        let mut new = Cursor::new(&all[seen..]);
        while new.position() < (all.len() - seen) as u64 {
            if !matches!(acceptor.read_tls(&mut new), Ok(1..)) {
                return Err(Refusal::NoTls);
            }
        }
        match acceptor.accept() {
            Ok(Some(accepted)) => return is_for(target, accepted.client_hello().server_name()).map(|()| all),
            Ok(None) if !ended && all.len() < MOST_HELLO => {}
            Ok(None) | Err(_) => return Err(Refusal::NoTls),
        }
    }
}

/// A name must be the target's; an address has none.
fn is_for(target: &Target, name: Option<&str>) -> Result<(), Refusal> {
    let plain = |name: &str| name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    match (target.address(), name) {
        (Some(_), None) => Ok(()),
        (None, Some(name)) if plain(name) == target.host => Ok(()),
        (_, name) => Err(Refusal::OtherName(name.map(str::to_owned))),
    }
}
