//! `agon models pull`: a file server on a socket that breaks off, lies, and sends pages.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use sha2::{Digest, Sha256};

use crate::run::disk::on_small_disk;
use crate::support::env::{Env, Ran};

/// Serves one file; what it is asked, `Range` included, is kept.
struct Files {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Files {
    /// `answer` gets the head of a request, in lower case, and its number.
    fn start(answer: impl Fn(&str, usize, &mut TcpStream) + Send + 'static) -> Files {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/m/tiny.gguf", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&asked);
        std::thread::spawn(move || {
            for (nth, stream) in listener.incoming().enumerate() {
                let mut stream = stream.unwrap();
                let mut head = String::new();
                let mut lines = BufReader::new(stream.try_clone().unwrap());
                while lines.read_line(&mut head).unwrap_or(0) > 2 {}
                kept.lock().unwrap().push(head.to_lowercase());
                answer(&head.to_lowercase(), nth, &mut stream);
            }
        });
        Files { url, asked }
    }

    fn ranges(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        let range =
            |head: &String| head.lines().find(|line| line.starts_with("range:")).unwrap_or("all").to_owned();
        asked.iter().map(range).collect()
    }
}

/// A file as `agon models pull` takes it: 200,000 bytes.
fn file() -> Vec<u8> {
    let mut file = b"GGUF".to_vec();
    file.extend((0..199_996_u32).map(|at| (at % 251) as u8));
    file
}

fn sha(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Sends this much of the file, from where it was asked for.
fn send(head: &str, stream: &mut TcpStream, tag: &str, most: usize) {
    let file = file();
    let start = head
        .lines()
        .find_map(|line| line.strip_prefix("range: bytes=")?.strip_suffix('-')?.parse::<usize>().ok());
    let same = head.lines().any(|line| line == format!("if-range: {tag}"));
    let (status, start) = match start {
        Some(start) if same => ("206 Partial Content", start),
        _ => ("200 OK", 0),
    };
    let rest = &file[start..];
    let _ = write!(
        stream,
        "HTTP/1.1 {status}\r\netag: {tag}\r\ncontent-length: {}\r\ncontent-range: bytes {start}-{}/{}\r\nconnection: close\r\n\r\n",
        rest.len(),
        file.len() - 1,
        file.len()
    );
    let _ = stream.write_all(&rest[..most.min(rest.len())]);
}

fn pull(env: &Env, more: &[&str]) -> Ran {
    env.run(&[&["models", "pull"], more].concat())
}

fn parts(env: &Env) -> Vec<String> {
    let names = std::fs::read_dir(env.home().join("models")).unwrap();
    let mut names: Vec<String> = names.map(|name| name.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_file_is_fetched_and_checked() {
    let (env, files) = (Env::new(), Files::start(|head, _, stream| send(head, stream, "\"a\"", usize::MAX)));
    let sum = sha(&file());
    let ran = pull(&env, &[&files.url, "--sha256", &sum.to_uppercase()]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(
        ran.stdout.contains("[HOME]/models/tiny.gguf\n200,000 bytes, sha256 ")
            && ran.stdout.contains("(checked)")
    );
    let words = if cfg!(feature = "llama") { "-m llama/tiny" } else { "cannot run the file itself" };
    assert!(ran.stderr.contains(words), "{ran}");
    assert_eq!(std::fs::read(env.home().join("models/tiny.gguf")).unwrap(), file());
    assert_eq!(parts(&env), ["tiny.gguf"]);
    let again = pull(&env, &[&files.url]);
    assert!(again.code != 0 && again.stderr.contains("is there already"), "{again}");
    // With its sum it is known to be the same, and nothing is fetched.
    let before = files.ranges().len();
    assert_eq!(pull(&env, &[&files.url, "--sha256", &sum]).code, 0);
    let other = pull(&env, &[&files.url, "--sha256", &"0".repeat(64)]);
    assert!(other.code == 1 && other.stderr.contains("is there already, and its SHA-256 is"), "{other}");
    assert_eq!((files.ranges().len(), parts(&env)), (before, vec!["tiny.gguf".to_owned()]));
}

#[test]
fn a_broken_connection_is_taken_up_where_it_stopped() {
    let env = Env::new();
    let files = Files::start(|head, nth, stream| {
        send(head, stream, "\"a\"", if nth < 2 { 70_000 } else { usize::MAX })
    });
    let ran = pull(&env, &[&files.url, "--sha256", &sha(&file())]);
    assert_eq!(ran.code, 0, "{ran}");
    let ranges = files.ranges();
    assert!(
        ranges[0] == "all" && ranges[1..].iter().all(|range| range.starts_with("range: bytes=")),
        "{ranges:?}"
    );
}

#[test]
fn a_later_run_continues_and_a_changed_file_begins_again() {
    let env = Env::new();
    let dead = Files::start(|head, nth, stream| {
        if nth == 0 {
            send(head, stream, "\"a\"", 70_000)
        }
    });
    let ran = pull(&env, &[&dead.url]);
    assert_eq!(ran.code, 1, "{ran}");
    assert!(ran.stderr.contains("run the same command again"), "{ran}");
    assert_eq!(parts(&env), ["tiny.gguf.part", "tiny.gguf.part-tag"]);
    let changed = Files::start(|head, _, stream| send(head, stream, "\"b\"", usize::MAX));
    let ran = pull(&env, &[&changed.url, "--sha256", &sha(&file())]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(changed.ranges()[0].starts_with("range:"), "it is asked whether it has changed");
}

#[test]
fn what_is_no_model_is_not_kept() {
    let page = "<!DOCTYPE html><html>Sign in</html>";
    let html = |kind: &'static str| {
        Files::start(move |_, _, stream| {
            let head = format!("HTTP/1.1 200 OK\r\n{kind}content-length: {}\r\n\r\n{page}", page.len());
            stream.write_all(head.as_bytes()).unwrap();
        })
    };
    for (files, words) in
        [
            (html("content-type: text/html\r\n"), "it is a web page and no GGUF file"),
            (html(""), "it is a web page and no GGUF file"),
            (
                Files::start(|_, _, stream| {
                    drop(stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"))
                }),
                "404",
            ),
            (
                Files::start(|_, _, stream| {
                    drop(stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nGGUF"))
                }),
                "does not say how large",
            ),
            (
                Files::start(|_, _, stream| {
                    drop(stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 999999999999999\r\n\r\nGGUF"))
                }),
                "are free in",
            ),
            (
                Files::start(|_, _, stream| {
                    drop(stream.write_all(
                        b"HTTP/1.1 302 Found\r\nlocation: /m/tiny.gguf\r\ncontent-length: 0\r\n\r\n",
                    ))
                }),
                "in a circle",
            ),
        ]
    {
        let env = Env::new();
        let ran = pull(&env, &[&files.url]);
        assert_eq!(ran.code, 1, "{ran}");
        assert!(ran.stderr.contains(words), "{words}: {ran}");
        assert_eq!(parts(&env), Vec::<String>::new(), "{words}");
    }
}

#[test]
fn a_disk_that_fills_up_in_the_middle_is_named_and_the_rest_is_fetched_later() {
    let env = Env::new();
    env.config("");
    let filled = env.work().join("filled");
    let files = Files::start(move |head, nth, stream| {
        if nth == 0 {
            send(head, stream, "\"a\"", 70_000);
            let begun = std::time::Instant::now();
            while !filled.exists() && begun.elapsed().as_secs() < 120 {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            let _ = stream.write_all(&file()[70_000..]);
            return;
        }
        send(head, stream, "\"a\"", usize::MAX);
    });
    let url = &files.url;
    let script = format!(
        "\"$AGON\" models pull {url} & pulling=$!\n\
         while ! [ -s \"$HOME/models/tiny.gguf.part\" ]; do sleep 0.05; done\n\
         head -c 200000000 /dev/zero > \"$HOME/filler\" 2>/dev/null; : > filled\n\
         wait $pulling; echo \"code $?\"; rm \"$HOME/filler\"\n\
         \"$AGON\" models pull {url} --sha256 {}; echo \"again $?\"; ls \"$HOME/models\"",
        sha(&file())
    );
    let Some(output) = on_small_disk(&env, 80 << 10, &script) else { return };
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(out.contains("code 1\n") && out.contains("again 0\n"), "{out}{err}");
    assert!(err.contains("No space left") && err.contains("make room"), "{out}{err}");
    assert!(out.ends_with("tiny.gguf\n") && !out.contains(".part\n"), "{out}{err}");
    assert!(files.ranges()[1].starts_with("range: bytes="), "{:?}", files.ranges());
}

#[test]
fn a_wrong_hash_deletes_what_was_fetched() {
    let (env, files) = (Env::new(), Files::start(|head, _, stream| send(head, stream, "\"a\"", usize::MAX)));
    let ran = pull(&env, &[&files.url, "--sha256", &"0".repeat(64)]);
    assert!(
        ran.code == 1 && ran.stderr.contains("its SHA-256 is") && ran.stderr.contains("is deleted"),
        "{ran}"
    );
    assert_eq!(parts(&env), Vec::<String>::new());
}

#[test]
fn names_and_addresses_lead_nowhere_else() {
    let env = Env::new();
    for (url, more, words) in [
        ("file:///etc/passwd", vec![], "no http or https URL"),
        ("nonsense", vec![], "no http or https URL"),
        ("http://127.0.0.1:9/", vec![], "no name of a GGUF file"),
        ("http://127.0.0.1:9/..%2Fx.gguf", vec![], "no name of a GGUF file"),
        ("http://127.0.0.1:9/m.gguf", vec!["--name", "../x.gguf"], "no name of a GGUF file"),
        ("http://127.0.0.1:9/m.gguf", vec!["--sha256", "12"], "64 hexadecimal digits"),
    ] {
        let ran = pull(&env, &[&[url][..], &more].concat());
        assert!(ran.code == 1 && ran.stderr.contains(words), "{url}: {ran}");
    }
}

#[test]
fn a_model_of_this_process_says_how_to_get_it() {
    let env = Env::new();
    env.config("model = \"llama/tiny\"\n[sandbox]\nkind = \"none\"\n");
    let ran = env.run(&["run", "hello"]);
    if cfg!(feature = "llama") {
        assert!(ran.stderr.contains("agon models pull URL"), "{ran}");
    } else {
        assert!(
            ran.stderr.contains("was built without `llama`") && ran.stderr.contains("--features llama"),
            "{ran}"
        );
    }
}
