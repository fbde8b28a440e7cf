//! The user's own proxy, which their environment names: allowed hosts are reached through it, and it resolves them.

use std::ffi::OsString;
use std::io;

use base64::Engine;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::protocol::host::Target;

/// Most bytes of its answer to CONNECT.
const MOST_HEAD: usize = 16 * 1024;

/// A proxy that speaks HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Where it is. Its address may be any.
    pub target: Target,
    /// Name and password, as a header has them.
    credentials: Option<String>,
    /// Names that are reached without it.
    except: Vec<String>,
}

impl Upstream {
    /// The one that these variables name, `https_proxy` first. Proxies of other kinds are not used.
    pub fn of(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<Self> {
        let text = |name: &str| {
            let value = variable(name).or_else(|| variable(&name.to_uppercase()))?;
            value.into_string().ok().filter(|value| !value.is_empty())
        };
        let url = ["https_proxy", "http_proxy", "all_proxy"].into_iter().find_map(text)?;
        let rest = match url.split_once("://") {
            Some(("http", rest)) => rest,
            Some(_) => return None,
            None => &url,
        };
        let authority = rest.split(['/', '?', '#']).next()?;
        let (credentials, place) = match authority.rsplit_once('@') {
            Some((both, place)) => (Some(both), place),
            None => (None, authority),
        };
        let (host, port) = place.rsplit_once(':').unwrap_or((place, "80"));
        let encode = |both: &str| base64::engine::general_purpose::STANDARD.encode(decoded(both));
        let except = text("no_proxy").unwrap_or_default();
        let except = except.split([',', ' ']).filter(|name| !name.is_empty());
        Some(Upstream {
            target: Target::new(host, port.parse().ok()?)?,
            credentials: credentials.map(encode),
            except: except.map(|name| name.trim_start_matches(['*', '.']).to_ascii_lowercase()).collect(),
        })
    }

    /// Whether a host is reached through it: names that are not excepted, and not the proxy's own machine.
    pub fn serves(&self, target: &Target) -> bool {
        let is_under = |name: &str| {
            let rest = target.host.strip_suffix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        let is_excepted = self.except.iter().any(|name| is_under(name));
        target.address().is_none() && !is_excepted && !is_under("localhost")
    }

    /// Asks it for a tunnel over a connection to it.
    pub async fn tunnel(&self, stream: &mut TcpStream, target: &Target) -> io::Result<()> {
        let auth = self.credentials.iter().map(|both| format!("Proxy-Authorization: Basic {both}\r\n"));
        let auth: String = auth.collect();
        let asked = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{auth}\r\n");
        stream.write_all(asked.as_bytes()).await?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") && head.len() < MOST_HEAD {
            // Byte by byte: what follows the head belongs to the tunnel.
            head.push(stream.read_u8().await?);
        }
        let head = String::from_utf8_lossy(&head);
        let line = head.lines().next().unwrap_or_default();
        match line.split(' ').nth(1).is_some_and(|code| code.starts_with('2')) {
            true => Ok(()),
            false => Err(io::Error::other(format!("your proxy {} answers `{line}`", self.target))),
        }
    }
}

/// Percent-encoding taken back.
fn decoded(text: &str) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((&first, tail)) = rest.split_first() {
        let byte = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = byte.filter(|_| first == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok());
        out.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &tail[2..] } else { tail };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_names_a_proxy_and_what_is_reached_without_it() {
        let of = |pairs: &[(&str, &str)]| {
            Upstream::of(&|name| {
                pairs.iter().find(|(named, _)| *named == name).map(|(_, value)| value.into())
            })
        };
        let named = of(&[
            ("HTTPS_PROXY", "http://me:p%40ss@proxy.example:3128/"),
            ("no_proxy", "localhost,.corp,*.lan"),
        ]);
        let named = named.unwrap();
        assert_eq!(named.target.to_string(), "proxy.example:3128");
        assert_eq!(named.credentials.as_deref(), Some("bWU6cEBzcw=="));
        let serves = |host: &str| named.serves(&Target::new(host, 443).unwrap());
        assert!(
            serves("a.example")
                && serves("xcorp")
                && !serves("a.corp")
                && !serves("corp")
                && !serves("b.a.lan")
                && !of(&[("https_proxy", "http://proxy.example")])
                    .unwrap()
                    .serves(&Target::new("x.localhost", 443).unwrap())
        );
        assert!(!serves("203.0.113.1"), "an address is reached itself");
        assert_eq!(of(&[("https_proxy", "socks5://x:1")]), None);
        assert_eq!(of(&[("https_proxy", ""), ("http_proxy", "proxy.example")]).unwrap().target.port, 80);
        assert_eq!(of(&[]), None);
    }
}
