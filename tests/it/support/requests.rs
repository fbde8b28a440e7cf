//! What holds for every request a session makes.

use agon::protocol::{Part, Request, Role};
use agon::session::Session;

/// Each outstanding request has the digest that was recorded step by step.
pub fn as_recorded(session: &Session) {
    for open in session.outstanding() {
        if let Some((recorded, now)) = session.request_digests(open.call) {
            assert_eq!(recorded, now, "the outstanding request is the recorded one");
        }
    }
}

/// What real APIs refuse: a result without its call, a call without its result, an empty message.
pub fn well_formed(request: &Request) {
    let mut open: Vec<&str> = Vec::new();
    assert!(!request.messages.is_empty());
    for message in &request.messages {
        if message.role != Role::Tool {
            assert!(open.is_empty(), "calls without results: {open:?} in {request:#?}");
        }
        assert!(!message.parts.is_empty(), "an empty message in {request:#?}");
        for part in &message.parts {
            match part {
                Part::Call { id, .. } => open.push(id),
                Part::Result { id, .. } => {
                    let place = open.iter().position(|o| o == id).expect("a result answers a call");
                    assert_eq!(place, 0, "results come in the order the model asked");
                    open.remove(0);
                }
                _ => {}
            }
        }
    }
    assert!(open.is_empty(), "calls without results at the end: {open:?}");
}
