//! Finding, listing, copying and removing sessions.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use agon::eventlog::{LogError, SessionStore};
use agon::ports::EventLog;
use agon::protocol::event::{Answered, Blob, ResultPart, SessionForked, ToolResolved, ToolStatus, ToolUse};
use agon::protocol::message::ImagePart;
use agon::protocol::{ArenaEvent, CallId, Entry, EventRef, Fact};

use super::kit::*;

const THIRD: &str = "019bb000-0000-7000-8000-000000000003";

fn with_sessions(ids: &[(&str, u64)]) -> (tempfile::TempDir, SessionStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = SessionStore::new(folder.path());
    for (id, at) in ids {
        let log = store.create(id).unwrap();
        let hello = said(1, "hello");
        append(&log, [opened(id), Entry::made(1, *at, hello.events)]).unwrap();
    }
    (folder, store)
}

#[test]
fn sessions_are_found_by_id_prefix_latest_and_path() {
    let (folder, store) = with_sessions(&[(ID, 5000), (OTHER, 9000), (THIRD, 7000)]);
    assert_eq!(store.find(THIRD).unwrap().id, THIRD);
    assert_eq!(store.find("019b").unwrap().id, THIRD);
    assert_eq!(store.find("latest").unwrap().id, OTHER);
    match store.find("019a").unwrap_err() {
        LogError::Ambiguous { matches, .. } => assert_eq!(matches.len(), 2),
        other => panic!("{other}"),
    }
    for name in ["", "zz", "..", "019aa000-0000-7000-8000-00000000000f", "/nowhere/log-000000.jsonl"] {
        assert!(matches!(store.find(name), Err(LogError::NotFound(_))), "{name}");
    }
    let log = store.find(ID).unwrap().log;
    let by_path = store.find(log.to_str().unwrap()).unwrap();
    assert!(by_path.stored && by_path.id == ID);
    let outside = folder.path().join("mine.jsonl");
    std::fs::copy(&log, &outside).unwrap();
    let found = store.find(outside.to_str().unwrap()).unwrap();
    assert_eq!((found.id.as_str(), found.stored), ("mine", false));
    assert_eq!(store.read(&found).unwrap().map(Result::unwrap).count(), 2);
    assert!(matches!(refused(&store, &found), LogError::Outside(_)));
}

#[test]
fn ids_that_are_not_uuids_and_ids_that_exist_are_refused() {
    let (_folder, store) = with_sessions(&[(ID, 5000)]);
    for id in ["", "..", "../../etc", "x", &ID.to_uppercase(), &ID.replace('-', "")] {
        assert!(matches!(store.create(id), Err(LogError::BadId(_))), "{id}");
    }
    assert!(matches!(store.create(ID), Err(LogError::Exists(_))));
}

#[test]
fn the_list_shows_broken_sessions_with_their_fault_and_the_good_ones_all_the_same() {
    let ids: Vec<String> = (0..7).map(|n| format!("019aa000-0000-7000-8000-00000000000{n}")).collect();
    let dated: Vec<(&str, u64)> = ids.iter().zip(5000..).map(|(id, at)| (id.as_str(), at)).collect();
    let (folder, store) = with_sessions(&dated);
    let log = |n: usize| store.find(&ids[n]).unwrap().log;
    std::fs::write(log(1), b"not a log at all\n").unwrap();
    std::fs::write(log(2), b"").unwrap();
    std::fs::remove_file(log(3)).unwrap();
    let mut torn = std::fs::read(log(4)).unwrap();
    torn.truncate(torn.len() - 9);
    std::fs::write(log(4), torn).unwrap();
    let mut flipped = std::fs::read(log(5)).unwrap();
    flipped[100] ^= 1;
    std::fs::write(log(5), flipped).unwrap();
    std::fs::write(folder.path().join("sessions/notes.txt"), b"not a session").unwrap();
    let list = store.list().unwrap();
    assert_eq!(list.len(), 7);
    for (n, id) in ids.iter().enumerate() {
        let row = list.iter().find(|row| row.id == *id).unwrap();
        assert_eq!(row.fault.is_some(), (1..=5).contains(&n), "{row:?}");
    }
    let newest = &list[0];
    assert_eq!((newest.id.as_str(), newest.entries, newest.newest_at), (ids[6].as_str(), 2, 5006));
    assert_eq!((newest.opened_at, newest.workspace.as_deref()), (1000, Some("/work")));
    assert_eq!(SessionStore::new(folder.path().join("none")).list().unwrap(), []);
}

#[test]
fn a_removed_session_is_gone() {
    let (folder, store) = with_sessions(&[(ID, 5000), (OTHER, 6000)]);
    store.remove(&store.find(ID).unwrap()).unwrap();
    assert!(matches!(store.find(ID), Err(LogError::NotFound(_))));
    assert_eq!(store.list().unwrap().len(), 1);
    assert_eq!(std::fs::read_dir(folder.path().join("sessions")).unwrap().count(), 1);
}

#[test]
fn a_fork_has_the_same_bytes_and_goes_its_own_way() {
    let (_folder, store, session) = filled(10);
    let whole = std::fs::read(&session.log).unwrap();
    for seq in 0..10 {
        let id = format!("019cc000-0000-7000-8000-00000000000{seq}");
        let mut entries = Vec::new();
        let fork = store.fork(&session, seq, &id, &mut |entry| entries.push(entry)).unwrap();
        assert_eq!(entries, (0..=seq).map(usual).collect::<Vec<_>>());
        let copied = fork.lines(0).unwrap().concat();
        assert!(whole.starts_with(&copied));
        append(&fork, [said(seq + 1, "another way")]).unwrap();
        drop(fork);
        let (again, entries) = open(&store, &store.find(&id).unwrap()).unwrap();
        assert_eq!((entries.len() as u64, again.recovered), (seq + 2, None));
    }
    assert_eq!(std::fs::read(&session.log).unwrap(), whole);
    let beyond = store.fork(&session, 10, OTHER, &mut |_| {}).err().unwrap();
    assert!(matches!(beyond, LogError::NoSuchEntry { seq: 10, count: 10 }));
    assert!(matches!(store.find(OTHER), Err(LogError::NotFound(_))));
    let sessions = session.log.parent().unwrap().parent().unwrap();
    assert_eq!(std::fs::read_dir(sessions).unwrap().count(), 11, "nothing half made is left");
}

fn picture(sha256: &str) -> ResultPart {
    let (sha256, mime, words) = (sha256.to_owned(), "image/png".to_owned(), "a form".to_owned());
    ResultPart::Image(ImagePart { sha256, mime, bytes: 3, width: 1, height: 1, words })
}

fn resolved(seq: u64, sha256: &str, pictures: &[&str]) -> Entry {
    let tool_use = ToolUse { answer: EventRef::fact(0), part: 0 };
    let blob = Some(Blob { sha256: sha256.to_owned(), bytes: 3 });
    let content = "cut".to_owned();
    let body = ToolResolved {
        tool_use,
        notes: Vec::new(),
        status: ToolStatus::Ok,
        content,
        exit: None,
        ms: 0,
        seen: Vec::new(),
        parts: pictures.iter().map(|name| picture(name)).collect(),
        blob,
        by: None,
    };
    let event = ArenaEvent::ToolResolved(Answered { call: CallId(1), attempt: 1, body });
    Entry::new(seq, 1, Fact::new(event).unwrap(), Vec::new())
}

#[test]
fn a_session_travels_with_its_blobs_and_is_refused_when_it_exists_or_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let store = SessionStore::new(folder.path());
    let log = store.create(ID).unwrap();
    let hash = block_on(log.put_blob(b"abc".to_vec())).unwrap();
    assert_eq!(hash, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_eq!(block_on(log.put_blob(b"abc".to_vec())).unwrap(), hash);
    let shown = block_on(log.put_blob(b"picture".to_vec())).unwrap();
    assert_eq!(log.blob(&shown).as_deref(), Some(&b"picture"[..]));
    let evil = "../../../etc/passwd";
    assert_eq!(log.blob(evil), None);
    append(&log, [usual(0), resolved(1, &hash, &[&shown]), resolved(2, evil, &[evil])]).unwrap();
    drop(log);
    let out = folder.path().join("export.jsonl");
    let session = store.find(ID).unwrap();
    let copied = store.export(&session, &out).unwrap();
    assert_eq!((copied.entries, copied.blobs, copied.missing), (3, 2, vec![evil.to_owned()]));
    assert_eq!(std::fs::read(&out).unwrap(), std::fs::read(&session.log).unwrap());
    assert!(matches!(store.export(&session, &out), Err(LogError::Io { .. })), "nothing is overwritten");
    assert!(matches!(store.import(&out), Err(LogError::Exists(_))));

    let elsewhere = SessionStore::new(folder.path().join("elsewhere"));
    let copied = elsewhere.import(&out).unwrap();
    assert_eq!((copied.session.id.as_str(), copied.entries, copied.blobs), (ID, 3, 2));
    assert_eq!(elsewhere.blob(&hash).unwrap(), b"abc");
    assert_eq!(elsewhere.blob(&shown).unwrap(), b"picture");
    let (again, _) = open(&elsewhere, &copied.session).unwrap();
    append(&again.log, [said(3, "goes on")]).unwrap();

    let third = SessionStore::new(folder.path().join("third"));
    let whole = std::fs::read(&out).unwrap();
    std::fs::write(&out, &whole[..whole.len() - 5]).unwrap();
    assert!(matches!(third.import(&out), Err(LogError::Unfinished { seq: 2, .. })));
    std::fs::write(&out, String::from_utf8(whole).unwrap().replace("\"cut\"", "\"CUT\"")).unwrap();
    let damaged = third.import(&out).unwrap_err();
    assert!(matches!(damaged, LogError::Corrupt { seq: 1, .. }));
    assert!(
        damaged.hint().unwrap().ends_with(&format!("agon fork {} --at 0", out.display())),
        "{:?}",
        damaged.hint()
    );
    assert_eq!(third.list().unwrap(), []);
}

#[test]
fn an_imported_fork_keeps_its_own_id() {
    let (folder, store, session) = filled(3);
    let fork = store.fork(&session, 1, OTHER, &mut |_| {}).unwrap();
    let head = fork.head().hash;
    let forked = SessionForked {
        id: OTHER.to_owned(),
        rules: 1,
        parent: ID.to_owned(),
        seq: 1,
        head,
        workspace: "/fork".to_owned(),
        tree: None,
        changed: Vec::new(),
        change: None,
        active_ms: 0,
        awaits: None,
        goes_on: false,
        foreign: false,
    };
    let fact = Fact::new(ArenaEvent::SessionForked(forked)).unwrap();
    append(&fork, [Entry::new(2, 1, fact, Vec::new())]).unwrap();
    drop(fork);
    let out = folder.path().join("fork.jsonl");
    store.export(&store.find(OTHER).unwrap(), &out).unwrap();
    let elsewhere = SessionStore::new(folder.path().join("elsewhere"));
    assert_eq!(elsewhere.import(&out).unwrap().session.id, OTHER);
}

#[test]
fn a_damaged_blob_is_not_handed_out() {
    let (folder, store, session) = filled(1);
    let hash = block_on(open(&store, &session).unwrap().0.log.put_blob(b"abc".to_vec())).unwrap();
    let path = folder.path().join("blobs").join(&hash[..2]).join(&hash);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::write(&path, b"abd").unwrap();
    assert!(matches!(store.blob(&hash), Err(LogError::BadBlob(_))));
    assert!(matches!(store.blob("../x"), Err(LogError::BadBlob(_))));
}

#[test]
fn a_folder_without_the_right_to_write_can_still_be_read() {
    if rustix::process::geteuid().is_root() {
        println!("skipped: root may write everywhere");
        return;
    }
    let (_folder, store, session) = filled(3);
    let folder = session.log.parent().unwrap();
    let mode = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    mode(&session.log, 0o400);
    mode(folder, 0o500);
    match refused(&store, &session) {
        LogError::Io { path, error } => {
            assert_eq!((path, error.kind()), (session.log.clone(), std::io::ErrorKind::PermissionDenied));
        }
        other => panic!("{other}"),
    }
    assert_eq!(store.read(&session).unwrap().map(Result::unwrap).count(), 3);
    assert_eq!(store.list().unwrap()[0].fault, None);
    mode(folder, 0o700);
}

#[test]
fn a_hundred_sessions_are_open_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = SessionStore::new(folder.path());
    let logs: Vec<_> = (0..100)
        .map(|n| {
            let id = format!("019aa000-0000-7000-8000-0000000001{n:02}");
            let log = store.create(&id).unwrap();
            append(&log, [opened(&id)]).unwrap();
            log
        })
        .collect();
    for log in &logs {
        append(log, [said(1, "all at once")]).unwrap();
    }
    drop(logs);
    assert!(store.list().unwrap().iter().all(|row| row.entries == 2 && row.fault.is_none()));
}

#[test]
fn an_export_that_fails_leaves_no_file_behind() {
    let (folder, store, session) = filled(2);
    let out = folder.path().join("export.jsonl");
    let log = std::fs::read(&session.log).unwrap();
    std::fs::remove_file(&session.log).unwrap();
    assert!(matches!(store.export(&session, &out), Err(LogError::NeverOpened(_))));
    std::fs::write(&session.log, log).unwrap();
    assert_eq!(store.export(&session, &out).unwrap().entries, 2, "the name is still free");
}

#[test]
fn a_number_no_entry_can_have_is_a_row_of_the_list() {
    let (_folder, store, session) = filled(1);
    std::fs::write(&session.log, "{\"v\":2,\"seq\":18446744073709551615,\"at\":1,\"events\":[]}\n").unwrap();
    assert!(store.list().unwrap()[0].fault.is_some());
}
