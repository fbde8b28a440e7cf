//! The doors of a sandbox, each tried in a call that it was not opened for and in one that it was; knows no sandbox.

use super::acts::{heard, left_outside, tcp, write_outside};
use super::{Act, Stage};
use crate::ports::ExecEnd;
use crate::protocol::need::Need;

/// A need that a sandbox opens for a single call.
pub struct Door {
    /// The name of the row of the open door.
    pub id: &'static str,
    /// What is tried, for people.
    pub what: &'static str,
    /// What is opened.
    pub opens: fn(&Stage) -> Need,
    /// The same as a forbidden act: nothing is opened for it.
    pub closed: Act,
}

/// Every door. The last one spoils what lies outside.
pub const DOORS: &[Door] = &[
    Door {
        id: "git_open",
        what: "with the need `git`: change the repository",
        opens: |_| Need::Git,
        closed: Act {
            id: "git_closed",
            what: "without the need `git`: change the repository",
            command: |_| "echo 'ref: refs/heads/opened' >.git/HEAD; true".to_owned(),
            achieved: head_moved,
        },
    },
    Door {
        id: "host_open",
        what: "with the need `host`: connect through the proxy",
        opens: |stage| Need::Host(format!("127.0.0.1:{}", stage.tcp_port())),
        closed: Act {
            id: "host_closed",
            what: "without the need `host`: connect through the proxy",
            command: through_proxy,
            achieved: heard,
        },
    },
    Door {
        id: "port_open",
        what: "with the need `port`: connect to a port of this machine",
        opens: |stage| Need::Port(stage.tcp_port()),
        closed: Act {
            id: "port_closed",
            what: "without the need `port`: connect to a port of this machine",
            command: tcp,
            achieved: heard,
        },
    },
    Door {
        id: "outside_open",
        what: "with the need `unconfined`: write a file outside the workspace",
        opens: |_| Need::Unconfined,
        closed: Act {
            id: "outside_closed",
            what: "without the need `unconfined`: write a file outside the workspace",
            command: write_outside,
            achieved: left_outside,
        },
    },
];

fn head_moved(stage: &Stage, _: &ExecEnd) -> Option<String> {
    let is_moved = stage.text(".git/HEAD").is_some_and(|text| text.contains("opened"));
    is_moved.then(|| "the repository's `HEAD` was changed".to_owned())
}

/// A request to the proxy that the call's variables name, if they name one.
fn through_proxy(stage: &Stage) -> String {
    let port = stage.tcp_port();
    format!(
        "command -v bash >/dev/null && command -v base64 >/dev/null || exit 77; \
         timeout 5 bash -c 'u=${{http_proxy#http://}}; a=${{u#*@}}; exec 3<>/dev/tcp/${{a%:*}}/${{a#*:}} || exit 0; \
         printf \"CONNECT 127.0.0.1:{port} HTTP/1.1\\r\\nHost: 127.0.0.1:{port}\\r\\nProxy-Authorization: Basic %s\\r\\n\\r\\n\" \
         $(printf %s ${{u%@*}} | base64 -w 0) >&3; head -n 1 <&3'; true"
    )
}
