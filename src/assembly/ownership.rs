//! Marks sessions that this user began: a keyed digest in the session's folder, written once. A log that came from
//! elsewhere has none, so that nothing in it counts as this user's word.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::assembly::{LogError, WireError};
use crate::eventlog::chain::Link;
use crate::protocol::expand::hex;

/// Bytes of the key.
const KEY: usize = 32;

/// Most bytes of a mark: a digest and a path.
const MOST: u64 = 8 * 1024;

/// Marks a session that is begun here in a workspace. Called before its first entry is written.
pub(super) fn mark(state: &Path, id: &str, root: &Path) -> Result<(), WireError> {
    let failed = |error| WireError::from(LogError::Io { path: mark_of(state, id), error });
    let unusable = |error: io::Error| WireError::OwnKey {
        path: key_of(state),
        why: match error.kind() {
            io::ErrorKind::UnexpectedEof => format!("it has fewer than {KEY} bytes"),
            _ if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
                "it is a link".to_owned()
            }
            _ => error.to_string(),
        },
    };
    let key = match key(state) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => make_key(state),
        key => key,
    };
    let mut text = hex(&digest(&key.map_err(unusable)?, id, root)).into_bytes();
    text.push(b'\n');
    text.extend(root.as_os_str().as_bytes());
    put(&mark_of(state, id), &text).map_err(failed)
}

/// The workspace this user began a session in; none for a session that came from elsewhere, and for every one whose
/// mark cannot be read or was not made with this user's key.
pub fn began_in(state: &Path, id: &str) -> Option<PathBuf> {
    let mut text = Vec::new();
    open(&mark_of(state, id)).ok()?.take(MOST).read_to_end(&mut text).ok()?;
    let end = text.iter().position(|byte| *byte == b'\n')?;
    let root = PathBuf::from(OsString::from_vec(text.split_off(end + 1)));
    text.pop();
    let wanted = hex(&digest(&key(state).ok()?, id, &root)).into_bytes();
    // Compared whole, whatever differs first.
    let differs = wanted.iter().zip(&text).fold(0, |all, (a, b)| all | (a ^ b));
    (wanted.len() == text.len() && differs == 0).then_some(root)
}

fn mark_of(state: &Path, id: &str) -> PathBuf {
    state.join("sessions").join(id).join("own")
}

fn key_of(state: &Path) -> PathBuf {
    state.join("own.key")
}

/// The key, if it is a file that only this user can have written.
fn key(state: &Path) -> io::Result<[u8; KEY]> {
    use std::os::unix::fs::MetadataExt as _;
    let mut file = open(&key_of(state))?;
    let data = file.metadata()?;
    if !data.is_file() || data.mode() & 0o077 != 0 || data.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("it must be a file of yours with mode 0600"));
    }
    let mut key = [0; KEY];
    file.read_exact(&mut key)?;
    Ok(key)
}

/// Makes the key. Of several processes that do, the first decides.
fn make_key(state: &Path) -> io::Result<[u8; KEY]> {
    let mut bytes = [0; KEY];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    match put(&key_of(state), &bytes) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => key(state),
    }
}

/// A new file for this user alone, there as a whole or not at all.
fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist_noclobber(path).map(drop).map_err(|error| error.error)
}

/// Opens a file without following a link and without waiting for a pipe's other end.
fn open(path: &Path) -> io::Result<std::fs::File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)
}

fn digest(key: &[u8; KEY], id: &str, root: &Path) -> [u8; 32] {
    let link = Link::root(id).text();
    hmac(key, &[b"agon-own-1\0", id.as_bytes(), b"\0", link.as_bytes(), b"\0", root.as_os_str().as_bytes()])
}

/// HMAC-SHA-256 (RFC 2104) of the joined parts under a key of at most one block.
fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let pad = |byte: u8| {
        let mut block = [byte; 64];
        block.iter_mut().zip(key).for_each(|(place, part)| *place ^= part);
        block
    };
    let mut inner = Sha256::new_with_prefix(pad(0x36));
    parts.iter().for_each(|part| inner.update(part));
    Sha256::new_with_prefix(pad(0x5c)).chain_update(inner.finalize()).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    const ID: &str = "01a2038f-0000-7000-8000-000000000000";

    /// The test vectors 1, 2 and 3 of RFC 4231.
    #[test]
    fn the_digest_is_hmac_sha_256() {
        let rows: [(&[u8], &[u8], &str); 3] = [
            (&[0x0b; 20], b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
            (
                b"Jefe",
                b"what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (&[0xaa; 20], &[0xdd; 50], "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"),
        ];
        for (key, data, wanted) in rows {
            assert_eq!(hex(&hmac(key, &[&data[..3], &data[3..]])), wanted);
        }
    }

    #[test]
    fn a_key_that_cannot_be_used_is_named_with_the_way_to_fix_it() {
        let state = tempfile::tempdir().unwrap();
        let state = state.path();
        std::fs::create_dir_all(state.join("sessions").join(ID)).unwrap();
        let error = || mark(state, ID, Path::new("/work")).unwrap_err();
        put(&key_of(state), b"").unwrap();
        assert!(
            error().to_string().contains("own.key`, which marks your sessions: it has fewer than 32 bytes")
        );
        assert!(error().hint().unwrap().contains("rm "));
        std::fs::remove_file(key_of(state)).unwrap();
        std::os::unix::fs::symlink("elsewhere", key_of(state)).unwrap();
        assert!(error().to_string().contains("own.key`, which marks your sessions: it is a link"));
    }

    #[test]
    fn a_mark_holds_for_its_session_its_folder_and_its_key_alone() {
        let state = tempfile::tempdir().unwrap();
        let state = state.path();
        let folder = |id: &str| std::fs::create_dir_all(state.join("sessions").join(id)).unwrap();
        folder(ID);
        assert_eq!(began_in(state, ID), None);
        mark(state, ID, Path::new("/work")).unwrap();
        assert_eq!(began_in(state, ID), Some(PathBuf::from("/work")));
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&key_of(state)), mode(&mark_of(state, ID))), (0o600, 0o600));
        assert!(mark(state, ID, Path::new("/other")).is_err(), "a mark is written once");

        let other = ID.replace('8', "9");
        folder(&other);
        std::fs::copy(mark_of(state, ID), mark_of(state, &other)).unwrap();
        assert_eq!(began_in(state, &other), None, "it is another session's");
        let text = std::fs::read_to_string(mark_of(state, ID)).unwrap();
        for wrong in [
            text.replace("/work", "/"),
            text.replacen(&text[..1], "x", 1),
            text[..64].to_owned(),
            String::new(),
        ] {
            std::fs::write(mark_of(state, ID), &wrong).unwrap();
            assert_eq!(began_in(state, ID), None, "{wrong}");
        }
        std::fs::write(mark_of(state, ID), &text).unwrap();
        std::fs::set_permissions(key_of(state), std::fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(began_in(state, ID), None, "others could have read the key");
        std::fs::set_permissions(key_of(state), std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(began_in(state, ID).is_some());
        std::fs::remove_file(key_of(state)).unwrap();
        assert_eq!(began_in(state, ID), None);
    }
}
