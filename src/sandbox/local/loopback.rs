//! Switches the loopback of a new network on; speaks one netlink message and knows no sandbox.

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

/// Type of the message that changes a link, and that of the answer.
const NEW_LINK: u16 = 16;
const ERROR: u16 = 2;
/// This is a request, and it wants an answer.
const REQUEST_ACK: u16 = 1 | 4;
/// The interface is up.
const UP: u32 = 1;
/// The loopback is the first interface of every network.
const LOOPBACK: i32 = 1;

/// Brings the loopback of the network this process is in up.
pub fn up() -> std::io::Result<()> {
    let socket =
        rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let kernel = netlink::SocketAddrNetlink::new(0, 0);
    rustix::net::sendto(&socket, &request(), SendFlags::empty(), &kernel)?;
    let mut answer = [0_u8; 1024];
    let (read, _) = rustix::net::recv(&socket, answer.as_mut_slice(), RecvFlags::empty())?;
    match error_of(&answer[..read.min(1024)]) {
        Some(0) => Ok(()),
        Some(error) => Err(std::io::Error::from_raw_os_error(-error)),
        None => Err(std::io::Error::other("the kernel gave no answer that could be read")),
    }
}

/// `nlmsghdr` (length, type, flags, sequence, port), then `ifinfomsg` (family, type, index, flags, change).
fn request() -> Vec<u8> {
    let mut message = Vec::with_capacity(32);
    message.extend(32_u32.to_ne_bytes());
    message.extend(NEW_LINK.to_ne_bytes());
    message.extend(REQUEST_ACK.to_ne_bytes());
    message.extend([0; 8]);
    message.extend([0; 4]);
    message.extend(LOOPBACK.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    message
}

/// The number in an `nlmsgerr`; 0 is success.
fn error_of(answer: &[u8]) -> Option<i32> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let number = i32::from_ne_bytes(answer.get(16..20)?.try_into().ok()?);
    (kind == ERROR).then_some(number)
}
