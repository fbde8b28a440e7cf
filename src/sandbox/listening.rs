//! Ports on which something listens where a sandbox's commands run, as the system lists them.

use std::collections::BTreeSet;

use tokio_util::sync::CancellationToken;

use crate::ports::{Exec, Opens, Sandbox};
use crate::protocol::need::Need;

/// Milliseconds the list may take.
const LIST_MS: u64 = 5_000;
/// Bytes of it that are read: several thousand sockets.
const LIST_BYTES: usize = 1024 * 1024;

/// Looks with a command of agon's own, where commands for which the same is opened run.
pub async fn listening(sandbox: &dyn Sandbox, opens: &Opens) -> BTreeSet<u16> {
    let needs = opens.needs.iter().filter(|need| **need == Need::Unconfined).cloned().collect();
    let exec = Exec {
        command: "cat /proc/net/tcp /proc/net/tcp6 2>/dev/null".to_owned(),
        cwd: String::new(),
        timeout_ms: LIST_MS,
        capture_cap: LIST_BYTES,
        opens: Opens { needs, ..Opens::default() },
        background: false,
    };
    let listed = sandbox.exec(exec, &(), &CancellationToken::new()).await;
    listed.map(|end| end.stdout.lines().filter_map(port_of).collect()).unwrap_or_default()
}

/// The local port of a line whose socket listens: `0: 0100007F:1F90 00000000:0000 0A …`.
fn port_of(line: &str) -> Option<u16> {
    let mut words = line.split_whitespace().skip(1);
    let (local, _, state) = (words.next()?, words.next()?, words.next()?);
    let port = local.rsplit_once(':').filter(|_| state == "0A")?.1;
    u16::from_str_radix(port, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_that_listen_are_told_from_connections() {
        let line =
            |state: &str| format!("   0: 0100007F:1435 00000000:0000 {state} 00000000:00000000 00:00000000");
        assert_eq!(port_of(&line("0A")), Some(5173));
        assert_eq!(port_of(&line("01")), None);
        assert_eq!(port_of("  sl  local_address rem_address   st tx_queue"), None);
    }
}
