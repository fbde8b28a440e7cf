//! The system's keychain, in a program with the feature `keychain`: keeps one secret a name, shows none.

use crate::config::Secret;

/// True where this program can use a keychain.
pub(super) const IS_BUILT: bool = cfg!(feature = "keychain");

/// What is asked of it.
pub(super) enum Act {
    Read,
    #[cfg_attr(not(feature = "keychain"), expect(dead_code, reason = "without a keychain nobody takes it"))]
    Keep(Secret),
    Remove,
}

/// Without the feature there is none.
#[cfg(not(feature = "keychain"))]
pub(super) fn ask(_: &str, _: Act) -> Result<Option<Secret>, String> {
    Err("this agon is built without the feature `keychain`".to_owned())
}

/// Does it; the secret where one is read. A keychain that is locked asks the user first, so that it has a minute.
#[cfg(feature = "keychain")]
pub(super) fn ask(name: &str, act: Act) -> Result<Option<Secret>, String> {
    const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);
    let (name, (sender, ended)) = (name.to_owned(), std::sync::mpsc::channel());
    // Some keychains answer over a bus and block: not on a thread that other work waits for.
    std::thread::spawn(move || {
        // The other end waits no longer.
        let _ = sender.send(done(&name, act));
    });
    ended.recv_timeout(PATIENCE).unwrap_or_else(|_| Err("it did not answer within a minute".to_owned()))
}

#[cfg(feature = "keychain")]
fn done(name: &str, act: Act) -> Result<Option<Secret>, String> {
    use keyring::{Entry, Error};
    if let Err(error) = Entry::store_status() {
        return Err(error.to_string());
    }
    let done = Entry::new("agon", name).and_then(|entry| match act {
        Act::Read => entry.get_password().map(|key| Some(Secret::new(key))),
        Act::Keep(key) => entry.set_password(key.reveal()).map(|()| None),
        Act::Remove => entry.delete_credential().map(|()| None),
    });
    match done {
        Err(Error::NoEntry) => Err("it has none".to_owned()),
        done => done.map_err(|error| error.to_string()),
    }
}
