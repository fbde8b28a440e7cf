//! A server of tools over HTTP: its key, its refusals, its tools.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::{Value, json};

use super::{calling, ends_well, prepared, results};

/// Serves a tool to whoever sends this key, as plain JSON answers; its address. It ends with the test's process.
fn serve(key: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || while answer(stream.as_ref().unwrap(), key).is_some() {});
        }
    });
    format!("http://{address}/mcp")
}

/// Answers one request; none when the connection ended.
fn answer(mut stream: &TcpStream, key: &str) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length, mut is_known) = (String::new(), 0, false);
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let is_post = line.starts_with("POST /mcp ");
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let (name, value) = header.split_once(':').unwrap_or((header.trim(), ""));
        match name.to_ascii_lowercase().as_str() {
            "" => break,
            "content-length" => length = value.trim().parse().unwrap(),
            "authorization" => is_known = value.trim() == format!("Bearer {key}"),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (status, said) = match serde_json::from_slice::<Value>(&body) {
        _ if !is_known => ("401 Unauthorized\r\nwww-authenticate: Bearer", Value::Null),
        Ok(message) if is_post => said(&message),
        _ => ("405 Method Not Allowed", Value::Null),
    };
    let said = if said.is_null() { String::new() } else { said.to_string() };
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        said.len()
    );
    stream.write_all((head + &said).as_bytes()).ok()
}

fn said(message: &Value) -> (&'static str, Value) {
    let result = match message["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "t", "version": "1"}
        }),
        Some("tools/list") => json!({
            "tools": [{"name": "echo", "description": "Echoes.", "inputSchema": {"type": "object"}}]
        }),
        Some("tools/call") => {
            json!({"content": [{"type": "text", "text": format!("you said {}", message["params"]["arguments"]["text"])}]})
        }
        _ => return ("202 Accepted", Value::Null),
    };
    ("200 OK", json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
}

#[test]
fn a_server_over_http_gets_its_key_and_is_asked_about_as_a_host() {
    let mut env = prepared(&calling(&[("echo", "hi")]));
    let url = serve("k3y-of-the-server");
    let ran = env.run(&["mcp", "add", "t", "--url", &url]);
    assert!(ran.code == 0 && ran.stderr.contains("it asks for a key: `agon keys set mcp.NAME`"), "{ran}");
    let ran = env.run_with(&["keys", "set", "mcp.t"], b"k3y-of-the-server\n");
    assert_eq!(ran.code, 0, "{ran}");
    let ran = env.run(&["mcp", "tools", "t"]);
    assert!(ran.code == 0 && ran.stdout.contains("mcp__t__echo  Echoes."), "{ran}");
    let ran = env.ends(&["run", "go", "--yes", "--allow", "tool:t/*"]);
    assert_eq!(ran.code, 4, "what is said to it leaves this machine: {ran}");
    let ran = env.ends(&["run", "go", "--yes", "--allow", "host:127.0.0.1"]);
    ends_well(&env, &ran);
    assert_eq!(results(&env), [("ok".to_owned(), "you said \"hi\"".to_owned())]);
    // A variable that is named counts alone.
    env.run(&["mcp", "remove", "t"]);
    env.set("T_KEY", "another-k3y-altogether");
    let ran = env.run(&["mcp", "add", "t", "--url", &url, "--key-env", "T_KEY"]);
    assert!(ran.stderr.contains("it asks for a key"), "{ran}");
    let ran = env.run(&["keys", "list"]);
    assert!(ran.stdout.contains("mcp.t"), "{ran}");
}

#[test]
fn an_address_that_nothing_serves_holds_nothing_up() {
    let env = prepared("[[answer]]\ntext = \"without it\"\n");
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let ran = env.run(&["mcp", "add", "t", "--url", &format!("http://127.0.0.1:{port}/")]);
    assert!(ran.code == 0 && ran.stderr.contains("warning: server `t`:"), "{ran}");
    let ran = env.ends(&["run", "go"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "without it\n"), "{ran}");
    let ran = env.run(&["mcp", "add", "u", "--url", "ftp://example.org/"]);
    assert_eq!(ran.code, 2, "{ran}");
}
