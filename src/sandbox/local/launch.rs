//! Starts the process that becomes the sandbox and keeps hold of it; knows what it says, not what it does.

use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};

use super::child_stage::ENTRY;
use super::plan::StagePlan;
use crate::sandbox::process::Reach;

/// What stands before the reason why the machine refuses it.
pub const REFUSED: &str = "the sandbox cannot be had: ";

/// Starts the sandbox with one of its stages and hands it its plan.
pub async fn launch(program: &Path, stage: &str, plan: &StagePlan) -> Result<(Child, Hold), String> {
    let cannot = |error: std::io::Error| format!("it cannot be started: {error}");
    let text = serde_json::to_vec(plan).map_err(|error| format!("its plan cannot be written: {error}"))?;
    let (mut ours, theirs) = tokio::net::UnixStream::pair().map_err(cannot)?;
    let theirs = theirs.into_std().map_err(cannot)?;
    theirs.set_nonblocking(false).map_err(cannot)?;
    let child = Command::new(program)
        .arg0("agon-sandbox")
        .args([ENTRY, stage])
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(cannot)?;
    let outer = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let outer = outer.ok_or("it ended before it could be watched")?;
    // A sandbox that ended before it read its plan says why itself.
    let _ = ours.write_all(&text).await;
    let _ = ours.shutdown().await;
    let socket = ours.into_std().map_err(cannot)?;
    Ok((child, Hold { outer, inner: None, socket, said: Vec::new(), is_over: false, was_ended: false }))
}

/// A sandbox that ends with this value.
pub struct Hold {
    /// The process that was started, alone in its group.
    outer: Pid,
    /// The first process in the namespaces, leader of the command's group, once it is known.
    inner: Option<Pid>,
    socket: UnixStream,
    said: Vec<u8>,
    is_over: bool,
    was_ended: bool,
}

impl Hold {
    /// Reads what was said so far, without waiting.
    fn listen(&mut self) {
        let mut block = [0; 1024];
        loop {
            match self.socket.read(&mut block) {
                Ok(n @ 1..) => self.said.extend(&block[..n]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break,
            }
        }
        self.inner = self.word("pid").and_then(|pid| Pid::from_raw(pid.parse().ok()?));
    }

    /// What follows a word at the beginning of a line.
    fn word(&self, word: &str) -> Option<String> {
        let said = String::from_utf8_lossy(&self.said);
        let rest = said.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
        rest.map(str::to_owned)
    }
}

impl Reach for Hold {
    fn ask_to_end(&mut self) {
        self.listen();
        match self.inner {
            // The first process takes no signal it does not expect; the others in its group do.
            Some(inner) => drop(kill_process_group(inner, Signal::TERM)),
            None => self.end(),
        }
    }

    fn end(&mut self) {
        if self.is_over {
            return;
        }
        self.listen();
        self.was_ended = true;
        // With the first process every other in the namespace dies, and the outer one, which waits for it, ends.
        if self.inner.is_none_or(|inner| kill_process(inner, Signal::KILL).is_err()) {
            let _ = kill_process_group(self.outer, Signal::KILL);
        }
    }

    fn is_alive(&self) -> bool {
        false
    }

    fn verdict(&mut self, _: ExitStatus) -> Result<(Option<i32>, Option<i32>), String> {
        self.listen();
        self.is_over = true;
        let number = |word: &str| self.word(word).and_then(|number| number.parse::<i32>().ok());
        match (number("exit"), number("signal"), self.word("failed")) {
            (Some(code), ..) => Ok((Some(code), None)),
            (_, Some(signal), _) => Ok((None, Some(signal))),
            (.., Some(why)) => Err(format!("{REFUSED}{why}")),
            _ if self.was_ended => Ok((None, Some(9))),
            _ => Err("the sandbox ended without a word".to_owned()),
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.end();
    }
}
