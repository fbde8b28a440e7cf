//! The door from a call's network to agon's proxy: what a command reaches through it, what its tools find, and what is
//! said of it. The network is the tests' own.

use std::io::Write;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agon::ports::{Answer, Asks, Exec, ExecEnd, Live, Opens, Sandbox};
use agon::protocol::Lane;
use agon::protocol::effect::HostRule;
use agon::protocol::need::Need;
use agon::protocol::spec::Action;
use agon::sandbox::proxy::Wire;
use agon::sandbox::{LocalOptions, LocalSandbox};
use tokio_util::sync::CancellationToken;

use super::contract::{Opened, exec, read};
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
    Opens { needs: hosts.iter().map(|host| Need::Host((*host).to_owned())).collect(), ..Opens::default() }
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
    // However it is written.
    for spelling in
        ["host*", "HOST:B.EXAMPLE", "{host,port}:*", "**", "host:{,*.}b.example", "host:b.example:80"]
    {
        let rules = vec![rule("host:*.example", Action::Allow), rule(spelling, Action::Deny)];
        let end = run(&opened, "curl -sSi http://b.example/", Opens { rules, ..Opens::default() }).await;
        assert!(end.stderr.contains("b.example:80 refused: a rule denies it"), "{spelling}: {end:?}");
    }
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
    let opens = Opens::of(&[Need::Port(address.port())]);
    let end = run(&opened, &get, opens).await;
    assert_eq!((end.exit, end.stdout.as_str()), (Some(0), "hello\n"), "{end:?}");
    assert!(end.stderr.contains(&format!("127.0.0.1:{}: ", address.port())), "{end:?}");
    let rule = |action| HostRule { need: format!("port:{}", address.port()), action };
    let by_rule = |rules: Vec<HostRule>| Opens { rules, ..Opens::default() };
    assert_eq!(run(&opened, &get, by_rule(vec![rule(Action::Allow)])).await.exit, Some(0));
    for spelling in [&*format!("port:{}*", address.port() / 10), "PORT:*", "p*", "{host,port}:*", "**", "*"] {
        for action in [Action::Deny, Action::Ask] {
            let forbids = HostRule { need: spelling.to_owned(), action };
            let rules = by_rule(vec![rule(Action::Allow), forbids]);
            assert_ne!(run(&opened, &get, rules).await.exit, Some(0), "{spelling}");
        }
    }
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

/// Somebody at the screen, who allows what has `a` in its name; the time of a call runs out once they were asked `patience`
/// times.
#[derive(Default)]
struct Person {
    asked: Mutex<Vec<String>>,
    patience: Option<usize>,
}

struct AtScreen(Arc<Person>);

impl Live for AtScreen {
    fn push(&self, _: Lane, _: &str) {}

    fn asks(&self) -> Option<Arc<dyn Asks>> {
        Some(self.0.clone())
    }
}

#[async_trait::async_trait]
impl Asks for Person {
    async fn ask(&self, need: Need, words: String) -> Option<Answer> {
        self.asked.lock().unwrap().push(format!("{}: {words}", need.name()));
        match self.patience {
            Some(_) => std::future::pending().await,
            None if need.name().starts_with("host:a") => Some(Ok(())),
            None => Some(Err("use a".to_owned())),
        }
    }

    async fn worked(&self, _: Duration) {
        while self.patience.is_none_or(|patience| self.asked.lock().unwrap().len() < patience) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn attended(opened: &Opened, command: &str, person: &Arc<Person>) -> ExecEnd {
    let exec = Exec { timeout_ms: 1, ..exec(command) };
    read(opened.sandbox.exec(exec, &AtScreen(person.clone()), &CancellationToken::new()).await.unwrap())
}

#[tokio::test]
async fn a_connection_waits_for_the_answer_of_a_person_and_the_calls_time_with_it() {
    let Some((opened, net)) = open().await else { return };
    let person = Arc::new(Person::default());
    let both =
        "curl -sS http://a.example/x http://a.example/y; curl -sSi http://b.example/; env | grep TIMEOUT";
    let end = attended(&opened, both, &person).await;
    assert_eq!((end.exit, end.timed_out), (Some(0), false), "its own clock is not asked: {end:?}");
    assert!(end.stdout.starts_with("hello\nhello\nHTTP/1.1 403"), "{end:?}");
    assert!(
        end.stdout.contains("CARGO_HTTP_TIMEOUT=600"),
        "tools wait longer than they do for servers: {end:?}"
    );
    assert!(
        end.stderr.contains("b.example:80 refused: it was asked about and not allowed: use a]"),
        "{end:?}"
    );
    let mut asked = person.asked.lock().unwrap().clone();
    asked.dedup();
    let [first, second] = &asked[..] else { panic!("one question for each host: {asked:?}") };
    assert!(first.starts_with("host:a.example: connect to a.example:80\nby curl/"), "{first}");
    assert!(first.ends_with(&format!("\nwhile this runs: {both}")), "{first}");
    assert!(second.starts_with("host:b.example: connect to b.example:80\n"), "{second}");
    assert_eq!(net.resolved(), ["a.example", "a.example"], "nothing is resolved before it is allowed");
    // A call that ends while it waits says how to go on.
    let person = Arc::new(Person { patience: Some(1), ..Person::default() });
    let end = attended(&opened, "curl -sS http://a.example/", &person).await;
    assert!(
        end.timed_out && end.stderr.contains("the command did not wait for the answer; ask with `needs: ["),
        "{end:?}"
    );
}

#[tokio::test]
async fn where_the_workspace_is_read_only_nobody_is_asked() {
    let Some((opened, net)) = open().await else { return };
    let wire: Arc<dyn Wire> = net.clone();
    let options = LocalOptions { wire, read_only: true, ..options() };
    let sandbox = Arc::new(LocalSandbox::open(&opened.root, options).unwrap());
    let opened = Opened { sandbox, ..opened };
    let person = Arc::new(Person::default());
    // Nor is a port open, whatever a rule allows.
    let (address, _) = server(ANSWER).await;
    net.place(&address.to_string(), address);
    let rule = HostRule { need: format!("port:{}", address.port()), action: Action::Allow };
    let get = format!("curl -sS --max-time 5 http://127.0.0.1:{}/", address.port());
    assert_ne!(run(&opened, &get, Opens { rules: vec![rule], ..Opens::default() }).await.exit, Some(0));
    let exec = Exec { timeout_ms: 60_000, ..exec("curl -sSi http://a.example/") };
    let end = opened.sandbox.exec(exec, &AtScreen(person.clone()), &CancellationToken::new()).await.unwrap();
    assert!(end.stdout.contains("403") && person.asked.lock().unwrap().is_empty(), "{end:?}");
}

#[tokio::test]
async fn what_a_command_passes_on_is_reached_by_no_other_call() {
    let Some((opened, _)) = open().await else { return };
    if opened.sh("python3 --version").await.exit != Some(0) {
        return println!("skipped: there is no python3 inside");
    }
    // A server next to the proxy, as something that passes on for others would be.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let get = format!("curl -sS --noproxy '*' --max-time 5 -o /dev/null http://127.0.0.1:{port}/");
    let serve = format!(
        "python3 -m http.server {port} --bind 127.0.0.1 >/dev/null 2>&1 & until {get} 2>/dev/null; do sleep 0.05; done; \
         touch up; until [ -e done ]; do sleep 0.05; done"
    );
    let ask = format!("until [ -e up ]; do sleep 0.05; done; {get}; e=$?; touch done; exit $e");
    let (served, asked) = tokio::join!(run(&opened, &serve, hosts(&["a.example"])), opened.sh(&ask));
    assert_eq!((served.exit, asked.exit), (Some(0), Some(7)), "{served:?} {asked:?}");
}
