//! Sockets that listen in the network of a call and are served from outside it, so that nothing of agon runs inside;
//! knows no proxy.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use tokio::io::Interest;

/// Most sockets of one call.
pub const MOST: usize = 17;

/// Inside, before anything is given up: listens on these ports of the call's loopback and hands the sockets out. After
/// that no process in there has one. The first must be free; where calls share a loopback, another may have the others.
pub fn hand_out(door: OwnedFd, ports: &[u16]) -> Result<(), String> {
    let listen = |(at, port): (usize, &u16)| match TcpListener::bind((Ipv4Addr::LOCALHOST, *port)) {
        Err(error) if at > 0 && error.kind() == io::ErrorKind::AddrInUse => None,
        socket => {
            let socket = socket.map(OwnedFd::from);
            Some(socket.map_err(|error| format!("port {port} of the loopback: {error}")))
        }
    };
    let ports = ports.iter().take(MOST).enumerate();
    let sockets = ports.filter_map(listen).collect::<Result<Vec<OwnedFd>, String>>()?;
    let fds: Vec<BorrowedFd<'_>> = sockets.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut sent = SendAncillaryBuffer::new(&mut space);
    sent.push(SendAncillaryMessage::ScmRights(&fds));
    let word = [IoSlice::new(b"d")];
    rustix::net::sendmsg(&door, &word, &mut sent, SendFlags::NOSIGNAL)
        .map(|_| ())
        .map_err(|error| format!("the proxy's socket cannot be handed out: {error}"))
}

/// Where a call's sockets come out.
pub struct Door(tokio::net::UnixStream);

impl Door {
    /// The outer end of a pair of which the call has the other.
    pub fn new(socket: UnixStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        tokio::net::UnixStream::from_std(socket).map(Door)
    }

    /// The sockets, the first port's first; fewer where the call ended before it made them.
    pub async fn listeners(&self) -> io::Result<Vec<tokio::net::TcpListener>> {
        let sockets = self.0.async_io(Interest::READABLE, || self.receive()).await?;
        let listening = |socket: OwnedFd| {
            let socket = TcpListener::from(socket);
            socket.set_nonblocking(true)?;
            tokio::net::TcpListener::from_std(socket)
        };
        sockets.into_iter().map(listening).collect()
    }

    fn receive(&self) -> io::Result<Vec<OwnedFd>> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
        let (mut came, mut word) = (RecvAncillaryBuffer::new(&mut space), [0_u8]);
        let mut words = [IoSliceMut::new(&mut word)];
        rustix::net::recvmsg(&self.0, &mut words, &mut came, RecvFlags::CMSG_CLOEXEC)?;
        let sockets = came.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => fds.collect(),
            _ => Vec::new(),
        });
        Ok(sockets.collect())
    }
}
