//! The door from a call's network to agon's proxy: what a command reaches through it, what its tools find, and what is
//! said of it. The network is the tests' own.

use std::io::Write;
use std::net::TcpListener;
use std::sync::Arc;

use agon::ports::{Exec, ExecEnd, Opens, Sandbox};
use agon::protocol::effect::HostRule;
use agon::protocol::spec::Action;
use agon::sandbox::proxy::Wire;
use agon::sandbox::{LocalOptions, LocalSandbox};

use super::contract::{Opened, exec};
use super::local::{can_be_had, options};
use super::proxy::kit::{Net, server};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n";

/// A sandbox on a network of the tests', and that network.
async fn open() -> Option<(Opened, Arc<Net>)> {
    if !can_be_had().await {
        return None;
    }
    let net = Arc::new(Net::default());
    let wire: Arc<dyn Wire> = net.clone();
    let open = |root: &std::path::Path| {
        let options = LocalOptions { wire, ..options() };
        Arc::new(LocalSandbox::open(root, options).unwrap()) as Arc<dyn Sandbox>
    };
    let opened = Opened::new(open);
    if opened.sh("curl --version").await.exit != Some(0) {
        println!("skipped: there is no curl inside");
        return None;
    }
    let (address, _) = server(ANSWER).await;
    net.name("a.example", &[&["203.0.113.7"]]);
    net.place("203.0.113.7:80", address);
    Some((opened, net))
}

async fn run(opened: &Opened, command: &str, opens: Opens) -> ExecEnd {
    opened.run(Exec { opens, ..exec(command) }).await
}

fn hosts(hosts: &[&str]) -> Opens {
    Opens { hosts: hosts.iter().map(|host| (*host).to_owned()).collect(), ..Opens::default() }
}

#[tokio::test]
async fn a_command_reaches_the_hosts_that_were_opened_for_it_and_is_told_of_the_others() {
    let Some((opened, net)) = open().await else { return };
    let end = run(&opened, "curl -sS http://a.example/x", hosts(&["a.example"])).await;
    assert_eq!((end.exit, end.stdout.as_str()), (Some(0), "hello\n"), "{end:?}");
    assert!(
        end.stderr.contains("[agon: network: a.example:80: ") && end.stderr.contains(" bytes sent, "),
        "{end:?}"
    );
    assert_eq!(end.notes.len(), 1, "{end:?}");
    let other = "curl -sSi http://b.example/; curl -sS https://c.example/; curl -sS http://127.0.0.1:61128/";
    let end = run(&opened, other, hosts(&["a.example"])).await;
    for told in [
        "b.example:80 refused: no rule",
        "--allow host:b.example",
        "c.example:443 refused",
        "--allow host:c.example",
    ] {
        assert!(end.stderr.contains(told), "{told}: {end:?}");
    }
    assert!(end.stdout.contains("403 Forbidden"), "{end:?}");
    assert_eq!(net.resolved(), ["a.example"], "nothing else was asked of a name server");
    // Rules say it as well, and deny wins.
    let rule = |need: &str, action| HostRule { need: need.to_owned(), action };
    let rules = vec![rule("host:*.example", Action::Allow), rule("host:b.example", Action::Deny)];
    let end = run(
        &opened,
        "curl -sS http://a.example/; curl -sSi http://b.example/",
        Opens { rules, ..Opens::default() },
    )
    .await;
    assert!(end.stdout.contains("hello") && end.stderr.contains("a rule denies it"), "{end:?}");
    assert!(opened.sh("true").await.notes.is_empty(), "who connects to nothing is told nothing");
}

#[tokio::test]
async fn the_token_is_another_one_in_each_call_and_is_not_shown() {
    let Some((opened, _)) = open().await else { return };
    let both =
        "env | grep -i proxy; curl -v http://b.example/; cat /proc/self/environ | tr '\\0' '\\n' >/tmp/kept";
    let end = opened.sh(both).await;
    assert!(end.stdout.contains("http_proxy=http://agon:[the proxy's token]@127.0.0.1:61128"), "{end:?}");
    let token = "grep ^http_proxy= /tmp/kept | sed 's/.*agon:\\(.*\\)@.*/\\1/' | cut -c1-20";
    let first = opened.sh(token).await.stdout;
    assert_eq!(first.trim().len(), 20, "{first}");
    let said = format!("{}{}", end.stdout, end.stderr);
    assert!(!said.contains(first.trim()), "{said}");
    // A token of a call that has ended opens nothing.
    let old = "curl -sSi -x $(grep ^http_proxy= /tmp/kept | cut -d= -f2-) http://a.example/";
    let end = run(&opened, old, hosts(&["a.example"])).await;
    assert!(end.stdout.contains("407 Proxy Authentication Required"), "{end:?}");
    let bare = "curl -sSi -x http://127.0.0.1:61128 http://a.example/";
    let end = run(&opened, bare, hosts(&["a.example"])).await;
    assert!(end.stdout.contains("407 Proxy Authentication Required") && end.notes.is_empty(), "{end:?}");
}

#[tokio::test]
async fn a_port_of_this_machine_is_reached_only_by_the_call_it_was_opened_for() {
    let Some((opened, net)) = open().await else { return };
    let (address, _) = server(ANSWER).await;
    net.place(&address.to_string(), address);
    let get = format!("curl -sS --max-time 5 http://127.0.0.1:{}/", address.port());
    assert_ne!(opened.sh(&get).await.exit, Some(0));
    let opens = Opens { ports: vec![address.port()], ..Opens::default() };
    let end = run(&opened, &get, opens).await;
    assert_eq!((end.exit, end.stdout.as_str()), (Some(0), "hello\n"), "{end:?}");
    assert!(end.stderr.contains(&format!("127.0.0.1:{}: ", address.port())), "{end:?}");
    assert_ne!(opened.sh(&get).await.exit, Some(0));
    // Its own loopback is its own, with or without a proxy.
    let own = format!(
        "python3 -m http.server {} --bind 127.0.0.1 >/dev/null 2>&1 & sleep 1; {get} | head -c 9",
        address.port()
    );
    if opened.sh("python3 --version").await.exit == Some(0) {
        assert!(opened.sh(&own).await.stdout.starts_with("<!DOCTYPE"));
    }
}

#[tokio::test]
async fn no_socket_of_the_proxy_outlives_its_call() {
    let Some((opened, net)) = open().await else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    net.name("slow.example", &[&["203.0.113.9"]]);
    net.place("203.0.113.9:80", listener.local_addr().unwrap());
    let silent = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut all = Vec::new();
        // Until the other end closes.
        let _ = std::io::Read::read_to_end(&mut client, &mut all);
        let _ = client.write_all(b"late");
        all.len()
    });
    let opens = hosts(&["slow.example"]);
    let end = opened.run(Exec { timeout_ms: 1_000, opens, ..exec("curl -sS http://slow.example/") }).await;
    assert!(end.timed_out && end.stderr.contains("slow.example:80: "), "{end:?}");
    assert!(silent.join().unwrap() > 0);
}
