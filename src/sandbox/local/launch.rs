//! Starts the process that holds a session's mounts, and calls in copies of them; knows what they say, not what they do.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::Receiver;

use super::child_stage::ENTRY;
use super::door::Door;
use super::plan::{HeldPlan, StagePlan};
use crate::ports::Wires;
use crate::sandbox::process::{Output, Reach};

/// What stands before the reason why the machine refuses it.
pub const REFUSED: &str = "the sandbox cannot be had: ";
/// What is said when the holder was gone before a command began.
pub const LOST: &str = "the process that holds the sandbox has ended";
/// What precedes the reason why no copy of a holder's mounts is available.
pub const NO_COPY: &str = "a call cannot copy the sandbox: ";

/// A process that holds mounts and starts calls. It ends with this value.
pub struct Holder {
    control: UnixStream,
    child: Child,
}

impl Holder {
    /// Starts one and waits until its mounts are there.
    pub async fn start(program: &Path, plan: &HeldPlan) -> Result<Self, String> {
        let cannot = |error: std::io::Error| format!("it cannot be started: {error}");
        let text =
            serde_json::to_vec(plan).map_err(|error| format!("its plan cannot be written: {error}"))?;
        let (control, theirs) = UnixStream::pair().map_err(cannot)?;
        let child = Command::new(program)
            .arg0("agon-sandbox")
            .arg(ENTRY)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(cannot)?;
        let holder = Holder { control, child };
        let mut control = listening(holder.control.try_clone().map_err(cannot)?).map_err(cannot)?;
        // One that ended before it read its plan says why itself.
        let _ = control.write_all(&(text.len() as u64).to_le_bytes()).await;
        let _ = control.write_all(&text).await;
        let mut said = Vec::new();
        while !said.ends_with(b"\n") && control.read_buf(&mut said).await.map_err(cannot)? > 0 {}
        let said = String::from_utf8_lossy(&said);
        match (said.trim_end(), said.strip_prefix("failed ")) {
            ("ready", _) => Ok(holder),
            (_, Some(why)) => Err(why.trim_end().to_owned()),
            _ => Err("it ended before it was ready".to_owned()),
        }
    }

    /// Begins a call and hands it its plan; one with wires talks over them. An error is [`LOST`], or one of this process.
    pub async fn call(&self, plan: &StagePlan, wires: Option<&Wires>) -> Result<(Hold, Door), String> {
        let cannot = |error: std::io::Error| format!("{REFUSED}it cannot be started: {error}");
        let text = serde_json::to_vec(plan);
        let text = text.map_err(|error| format!("{REFUSED}its plan cannot be written: {error}"))?;
        let (ours, theirs) = UnixStream::pair().map_err(cannot)?;
        let (door, to_door) = UnixStream::pair().map_err(cannot)?;
        let (stdout, to_stdout) = std::io::pipe().map_err(cannot)?;
        let (stderr, to_stderr) = std::io::pipe().map_err(cannot)?;
        let outputs = [OwnedFd::from(stdout), OwnedFd::from(stderr)].map(output);
        let [stdout, stderr] = outputs;
        let stdout = Some(stdout.map_err(cannot)?).filter(|_| wires.is_none());
        let outputs = [stdout, Some(stderr.map_err(cannot)?)];
        let (socket, door) = (listening(ours).map_err(cannot)?, Door::new(door).map_err(cannot)?);
        let mut hold =
            Hold { inner: None, socket, outputs, said: Vec::new(), is_over: false, was_ended: false };
        let writes_to = wires.map_or(to_stdout.as_fd(), |wires| wires.output.as_fd());
        let mut fds = vec![theirs.as_fd(), writes_to, to_stderr.as_fd(), to_door.as_fd()];
        fds.extend(wires.map(|wires| wires.input.as_fd()));
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(5))];
        let mut sent = SendAncillaryBuffer::new(&mut space);
        sent.push(SendAncillaryMessage::ScmRights(&fds));
        let order = [IoSlice::new(b"c")];
        rustix::net::sendmsg(&self.control, &order, &mut sent, SendFlags::NOSIGNAL).map_err(|_| LOST)?;
        drop((theirs, to_stdout, to_stderr, to_door));
        // One that ended before it read its plan says why itself, or nothing.
        let _ = hold.socket.write_all(&text).await;
        let _ = hold.socket.shutdown().await;
        Ok((hold, door))
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // It holds nothing that could be lost.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn listening(socket: UnixStream) -> std::io::Result<tokio::net::UnixStream> {
    socket.set_nonblocking(true)?;
    tokio::net::UnixStream::from_std(socket)
}

fn output(pipe: OwnedFd) -> std::io::Result<Output> {
    Ok(Box::new(Receiver::from_owned_fd(pipe)?))
}

/// A call that ends with this value.
pub struct Hold {
    /// The first process in the namespaces, leader of the command's group, once it is known.
    inner: Option<Pid>,
    /// Closed at the other end when every process of the call has ended.
    socket: tokio::net::UnixStream,
    outputs: [Option<Output>; 2],
    said: Vec<u8>,
    is_over: bool,
    was_ended: bool,
}

impl Hold {
    /// Reads what was said so far, without waiting.
    fn listen(&mut self) {
        while self.socket.try_read_buf(&mut self.said).is_ok_and(|read| read > 0) {}
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
    fn outputs(&mut self) -> [Option<Output>; 2] {
        std::mem::take(&mut self.outputs)
    }

    async fn ended(&mut self) -> std::io::Result<()> {
        while self.socket.read_buf(&mut self.said).await.is_ok_and(|read| read > 0) {}
        // Its number may be another process's from now on.
        self.listen();
        self.is_over = true;
        Ok(())
    }

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
        // With the first process every other in the namespace dies. One that is not known yet looks whether the other
        // end is still there before it starts anything.
        let is_ended = self.inner.is_some_and(|inner| kill_process(inner, Signal::KILL).is_ok());
        if !is_ended {
            let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
        }
    }

    fn is_alive(&self) -> bool {
        false
    }

    fn left(&self) -> usize {
        self.word("left").and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    fn verdict(&mut self) -> Result<(Option<i32>, Option<i32>), String> {
        self.listen();
        self.is_over = true;
        let number = |word: &str| self.word(word).and_then(|number| number.parse::<i32>().ok());
        match (number("exit"), number("signal"), self.word("failed"), self.word("refused")) {
            (Some(code), ..) => Ok((Some(code), None)),
            (_, Some(signal), ..) => Ok((None, Some(signal))),
            (.., Some(why)) => Err(format!("{NO_COPY}{why}")),
            (.., Some(why), _) => Err(format!("{REFUSED}{why}")),
            _ if self.was_ended => Ok((None, Some(9))),
            _ if self.said.is_empty() => Err(LOST.to_owned()),
            _ => Err("the sandbox ended without a word".to_owned()),
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.end();
    }
}
