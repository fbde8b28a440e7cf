//! agon's proxy over real sockets: what it lets through, what it refuses and why, and that it ends with its call.

pub(crate) mod kit;

use std::time::Duration;

use agon::protocol::spec::Action::{Allow, Deny};
use kit::{Served, hello, next, rest, server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";

#[tokio::test]
async fn a_request_is_passed_on_to_the_host_it_names_without_what_is_the_proxys() {
    let mut served = Served::open().await;
    let (address, mut hears) = server(ANSWER).await;
    served.net.name("a.example", &[&["203.0.113.7"]]);
    served.net.place("203.0.113.7:80", address);
    let extra = "Connection: close, x-hop\r\nX-Hop: 1\r\nProxy-Connection: x\r\nX-Kept: 2\r\n";
    let request =
        format!("POST http://A.example/p?q=1 HTTP/1.1\r\nHost: evil.example\r\n{}{extra}", served.auth());
    let answered = served.send(format!("{request}Content-Length: 4\r\n\r\nbody").as_bytes()).await;
    assert!(answered.starts_with("HTTP/1.1 200 OK") && answered.ends_with("hello"), "{answered}");
    let mut heard = next(&mut hears).await.unwrap();
    while !heard.ends_with(b"body") {
        heard.extend(next(&mut hears).await.unwrap());
    }
    let heard = String::from_utf8(heard).unwrap().to_lowercase();
    assert!(
        heard.starts_with("post /p?q=1 http/1.1\r\n") && heard.contains("\r\nhost: a.example\r\n"),
        "{heard}"
    );
    assert!(heard.contains("x-kept: 2") && heard.contains("content-length: 4"), "{heard}");
    for gone in ["proxy-authorization", "x-hop", "evil", "basic"] {
        assert!(!heard.contains(gone), "{gone}: {heard}");
    }
    let (sent, received, refused) = served.told("a.example:80");
    assert_eq!((sent, refused), (heard.len() as u64, None));
    assert!(received >= ANSWER.len() as u64);
    served.end().await;
}

#[tokio::test]
async fn requests_on_one_connection_are_judged_one_by_one() {
    let served = Served::new(&[(Allow, "host:a.example")], false).await;
    let (address, mut hears) = server(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
    served.net.name("a.example", &[&["203.0.113.7"]]);
    served.net.place("203.0.113.7:80", address);
    let one = |host: &str| format!("GET http://{host}/ HTTP/1.1\r\nHost: a.example\r\n{}\r\n", served.auth());
    let both = format!("{}{}", one("a.example"), one("b.example"));
    let answered = served.send(both.as_bytes()).await;
    assert!(answered.contains("200 OK") && answered.contains("403 Forbidden"), "{answered}");
    assert!(String::from_utf8(next(&mut hears).await.unwrap()).unwrap().contains("a.example"));
    assert_eq!(served.net.resolved(), ["a.example"], "a name that is not allowed is not asked for");
    assert!(served.told("b.example:80").2.unwrap().contains("`--allow host:b.example`"));
}

/// Decoys hide no host's bytes.
#[tokio::test]
async fn what_goes_to_hosts_that_are_no_more_listed_is_counted() {
    let served = Served::new(&[(Allow, "host:a.example")], false).await;
    let (address, _hears) = server(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
    served.net.name("a.example", &[&["203.0.113.7"]]);
    served.net.place("203.0.113.7:80", address);
    for decoy in 0..256 {
        served.get(&format!("http://h{decoy}.example/")).await;
    }
    assert!(served.proxy.uses().len() == 256 && served.proxy.more().is_none());
    assert!(served.get("http://a.example/").await.contains("200 OK"));
    let more = served.proxy.more().unwrap();
    assert!(more.contains("hosts beyond the first 256: ") && !more.contains(" 0 bytes sent"), "{more}");
}

#[tokio::test]
async fn a_tunnel_carries_tls_for_its_host_and_nothing_else() {
    let served = Served::open().await;
    let (address, mut hears) = server(b"\x16\x03\x03 answer").await;
    served.net.name("a.example", &[&["203.0.113.7"]]);
    served.net.place("203.0.113.7:443", address);
    served.net.place("198.51.100.1:443", address);
    let (head, mut client) = served.tunnel("a.example:443").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let first = hello("a.example", true);
    // In two pieces, so that the first alone says nothing.
    client.write_all(&first[..40]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    client.write_all(&first[40..]).await.unwrap();
    assert_eq!(next(&mut hears).await.unwrap(), first);
    let mut answer = [0; 10];
    client.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"\x16\x03\x03 answer");
    drop(client);
    assert_eq!(next(&mut hears).await.unwrap(), b"", "the server sees the end");
    assert_eq!(served.told("a.example:443"), (first.len() as u64, 10, None));
    for (target, sent, why) in [
        ("a.example:443", hello("b.example", true), "asked for `b.example`"),
        ("a.example:443", hello("a.example", false), "named no host"),
        ("a.example:443", hello("sub.a.example", true), "asked for `sub.a.example`"),
        ("a.example:443", b"GET / HTTP/1.1\r\n\r\n".to_vec(), "was not TLS"),
        ("a.example:443", b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00".to_vec(), "was not TLS"),
        ("198.51.100.1:443", hello("b.example", true), "asked for `b.example`"),
    ] {
        let (head, mut client) = served.tunnel(target).await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        client.write_all(&sent).await.unwrap();
        assert_eq!(rest(&mut client).await, "", "{why}");
        let told = served.told(target).2.unwrap_or_default();
        assert!(told.contains(why), "{told} is not {why}");
        assert_eq!(next(&mut hears).await.unwrap(), b"", "the server gets no byte: {why}");
    }
    let (_, mut client) = served.tunnel("198.51.100.1:443").await;
    client.write_all(&hello("a.example", false)).await.unwrap();
    assert!(next(&mut hears).await.unwrap().len() > 40, "an address has no name");
}

#[tokio::test]
async fn without_the_token_of_this_call_nothing_is_done() {
    let (served, other) = (Served::open().await, Served::open().await);
    served.net.name("a.example", &[&["203.0.113.7"]]);
    let plain = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, "agon:");
    for auth in [
        String::new(),
        other.auth(),
        "Proxy-Authorization: Basic\r\n".to_owned(),
        format!("Proxy-Authorization: Basic {plain}\r\n"),
        served.auth().replace("Proxy-Authorization", "Authorization"),
    ] {
        for start in ["GET http://a.example/", "CONNECT a.example:443"] {
            let asked = format!("{start} HTTP/1.1\r\nHost: a.example\r\n{auth}Connection: close\r\n\r\n");
            let answered = served.send(asked.as_bytes()).await;
            assert!(answered.starts_with("HTTP/1.1 407"), "{auth}: {answered}");
            assert!(answered.to_lowercase().contains("proxy-authenticate: basic"), "{answered}");
        }
    }
    assert!(served.net.resolved().is_empty() && served.proxy.uses().is_empty());
    assert_ne!(served.proxy.password(), other.proxy.password());
}

#[tokio::test]
async fn a_name_leads_to_no_address_of_this_machine_or_its_networks() {
    let served = Served::open().await;
    let closed =
        ["127.0.0.1", "::1", "::ffff:127.0.0.1", "169.254.169.254", "10.0.0.1", "0.0.0.0", "100.64.1.1"];
    for (i, address) in closed.iter().enumerate() {
        let host = format!("h{i}.example");
        served.net.name(&host, &[&[address]]);
        let answered = served.get(&format!("http://{host}/")).await;
        assert!(answered.starts_with("HTTP/1.1 403"), "{address}: {answered}");
        assert!(served.told(&format!("{host}:80")).2.unwrap().contains("`--allow host:"), "{address}");
        let (head, _) = served.tunnel(&format!("{host}:443")).await;
        assert!(head.starts_with("HTTP/1.1 403"), "{address}: {head}");
        let literal = if address.contains(':') { format!("[{address}]") } else { (*address).to_owned() };
        assert!(served.get(&format!("http://{literal}/")).await.starts_with("HTTP/1.1 403"), "{address}");
    }
    assert_eq!(served.net.dialled(), Vec::<String>::new());
    let named = Served::new(&[(Allow, "host:db.example"), (Allow, "host:10.0.0.0/8")], false).await;
    named.net.name("db.example", &[&["10.0.0.1"]]);
    named.get("http://db.example/").await;
    assert_eq!(named.net.dialled(), ["10.0.0.1:80"], "a rule names the address");
}

#[tokio::test]
async fn the_address_that_was_checked_is_the_one_that_is_connected_to() {
    let served = Served::open().await;
    let (address, _hears) = server(ANSWER).await;
    served.net.name("turns.example", &[&["203.0.113.7"], &["127.0.0.1"]]);
    served.net.place("203.0.113.7:80", address);
    assert!(served.get("http://turns.example/").await.ends_with("hello"));
    assert!(served.get("http://turns.example/").await.starts_with("HTTP/1.1 403"));
    // Of several addresses only those that are open are tried.
    served.net.name("both.example", &[&["10.0.0.1", "203.0.113.7"]]);
    assert!(served.get("http://both.example/").await.ends_with("hello"));
    assert_eq!(served.net.dialled(), ["203.0.113.7:80", "203.0.113.7:80"]);
    assert_eq!(served.net.resolved().len(), 3, "once a connection");
}

#[tokio::test]
async fn a_redirect_leads_nowhere_that_is_refused() {
    let served = Served::open().await;
    let redirect =
        b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/keys\r\nContent-Length: 0\r\n\r\n";
    let (address, _hears) = server(redirect).await;
    served.net.name("a.example", &[&["203.0.113.7"]]);
    served.net.place("203.0.113.7:80", address);
    let answered = served.get("http://a.example/").await;
    let place =
        answered.lines().find_map(|line| line.to_lowercase().strip_prefix("location: ").map(str::to_owned));
    let followed = served.get(&place.unwrap()).await;
    assert!(followed.starts_with("HTTP/1.1 403") && followed.contains("link-local"), "{followed}");
    assert_eq!(served.net.dialled(), ["203.0.113.7:80"]);
}

#[tokio::test]
async fn other_ports_need_a_rule_that_names_them() {
    let served = Served::new(
        &[(Allow, "host:a.example"), (Allow, "host:ssh.example:22"), (Deny, "host:no.example")],
        false,
    )
    .await;
    for target in ["a.example:22", "a.example:8443", "ssh.example:443", "no.example:443"] {
        let (head, _) = served.tunnel(target).await;
        assert!(head.starts_with("HTTP/1.1 403"), "{target}: {head}");
    }
    assert!(served.told("a.example:8443").2.unwrap().contains("`--allow host:a.example:8443`"));
    assert_eq!(served.told("no.example:443").2.unwrap(), "a rule denies it");
    assert!(served.net.resolved().is_empty());
    // A server that speaks first.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    served.net.name("ssh.example", &[&["203.0.113.7"]]);
    served.net.place("203.0.113.7:22", listener.local_addr().unwrap());
    let speaks = async {
        let (mut client, _) = listener.accept().await.unwrap();
        client.write_all(b"SSH-2.0-x\r\n").await.unwrap();
        client
    };
    let ((head, mut client), _server) = tokio::join!(served.tunnel("ssh.example:22"), speaks);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let mut banner = [0; 11];
    client.read_exact(&mut banner).await.unwrap();
    assert_eq!(&banner, b"SSH-2.0-x\r\n");
}

#[tokio::test]
async fn what_is_no_request_ends_its_connection_and_no_other() {
    let served = Served::open().await;
    let (address, _hears) = server(ANSWER).await;
    served.net.name("a.example", &[&["203.0.113.7"]]);
    served.net.place("203.0.113.7:80", address);
    let long =
        format!("GET http://a.example/ HTTP/1.1\r\n{}X: {}\r\n\r\n", served.auth(), "x".repeat(200_000));
    let auth = served.auth();
    for sent in [
        b"\x00\xff\x13garbage\r\n\r\n".to_vec(),
        b"\x04\x01\x00\x50\x7f\x00\x00\x01\x00".to_vec(),
        long.into_bytes(),
        format!("GET / HTTP/1.1\r\nHost: a.example\r\n{auth}\r\n").into_bytes(),
        format!("GET https://a.example/ HTTP/1.1\r\nHost: a.example\r\n{auth}\r\n").into_bytes(),
        format!("GET ftp://a.example/ HTTP/1.1\r\nHost: a.example\r\n{auth}\r\n").into_bytes(),
        format!("GET http://u:p@a.example/ HTTP/1.1\r\nHost: a.example\r\n{auth}\r\n").into_bytes(),
        format!("CONNECT a.example HTTP/1.1\r\nHost: a.example\r\n{auth}\r\n").into_bytes(),
        format!("CONNECT a.example:99999 HTTP/1.1\r\nHost: a.example\r\n{auth}\r\n").into_bytes(),
        format!("POST http://a.example/ HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\nContent-Length: 9\r\n{auth}\r\nzz").into_bytes(),
    ] {
        let answered = served.send(&sent).await;
        assert!(!answered.contains("200 OK") && !answered.contains("hello"), "{answered}");
    }
    assert!(served.get("http://a.example/").await.ends_with("hello"), "it still serves");
}

#[tokio::test]
async fn a_body_without_end_and_a_silent_server_end_with_the_call() {
    let mut served = Served::open().await;
    let (address, mut hears) = server(b"").await;
    served.net.name("a.example", &[&["203.0.113.7"]]);
    served.net.place("203.0.113.7:80", address);
    let mut client = TcpStream::connect(served.address).await.unwrap();
    let head =
        format!("POST http://a.example/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n{}\r\n", served.auth());
    client.write_all(head.as_bytes()).await.unwrap();
    for _ in 0..64 {
        client.write_all(format!("10000\r\n{}\r\n", "x".repeat(0x10000)).as_bytes()).await.unwrap();
    }
    let mut heard = 0;
    while heard < 4 << 20 {
        heard += next(&mut hears).await.unwrap().len();
    }
    assert!(served.told("a.example:80").0 >= 4 << 20, "it is counted while it runs");
    served.end().await;
    // What was under way comes first.
    while !next(&mut hears).await.expect("the server sees the end").is_empty() {}
    assert_eq!(rest(&mut client).await, "");
    assert!(TcpStream::connect(served.address).await.is_err(), "nothing listens any more");
}

#[tokio::test]
async fn a_host_without_a_rule_waits_for_its_answer_as_long_as_the_client_does() {
    let mut served = Served::new(&[], true).await;
    let (address, _hears) = server(ANSWER).await;
    for host in ["yes.example", "no.example", "one_more.example"] {
        served.net.name(host, &[&["203.0.113.7"]]);
    }
    served.net.place("203.0.113.7:80", address);
    served.net.place("10.0.0.5:80", address);
    let mut questions = std::mem::replace(&mut served.questions, tokio::sync::mpsc::unbounded_channel().1);
    for (host, answer, says) in [
        ("yes.example", Some(true), "hello"),
        ("no.example", Some(false), "it was asked about and not allowed"),
        ("one_more.example", None, "no rule allows it; ask with `needs: [\"host:one_more.example\"]`"),
        // Who is asked about an address has named it.
        ("10.0.0.5", Some(true), "hello"),
    ] {
        let url = format!("http://{host}/");
        let answers = async {
            let question = questions.recv().await.unwrap();
            assert_eq!(question.target.host, host);
            assert!(!served.net.resolved().contains(&question.target.host), "not before the answer");
            if let Some(answer) = answer {
                question.answer.send(answer).unwrap();
            }
        };
        let (answered, ()) = tokio::join!(served.get(&url), answers);
        assert_eq!(answered.starts_with("HTTP/1.1 200"), answer == Some(true), "{answered}");
        assert!(answered.contains(says), "{host}: {answered}");
    }
    // With the client the wait ends, and what is said of it is true.
    let client = served.asks("late.example").await;
    let mut question = questions.recv().await.unwrap();
    assert_eq!((question.target.port, question.client.as_deref()), (80, Some("curl/8")));
    drop(client);
    question.answer.closed().await;
    let (.., why) = served.told("late.example:80");
    let words = "the command did not wait for the answer; ask with `needs: [\"host:late.example\"]`";
    assert!(why.unwrap().contains(words));
}

#[tokio::test]
async fn hosts_are_reached_through_the_users_own_proxy_where_there_is_one() {
    let (address, mut hears) = server(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").await;
    let served = Served::through("http://me:secret@proxy.example:3128").await;
    served.net.name("proxy.example", &[&["10.0.0.9"]]);
    served.net.place("10.0.0.9:3128", address);
    served.get("http://a.example/").await;
    let asked = String::from_utf8(next(&mut hears).await.unwrap()).unwrap();
    assert!(asked.starts_with("CONNECT a.example:80 HTTP/1.1\r\n"), "{asked}");
    assert!(asked.contains("\r\nProxy-Authorization: Basic bWU6c2VjcmV0\r\n"), "{asked}");
    assert!(served.get("http://10.0.0.9/").await.starts_with("HTTP/1.1 403"), "an address is judged here");
    assert_eq!(
        (served.net.resolved(), served.net.dialled()),
        (vec!["proxy.example".into()], vec!["10.0.0.9:3128".into()])
    );
}
