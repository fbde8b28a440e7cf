//! What is written is read; what was changed is seen.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use agon::eventlog::chain::Link;
use agon::eventlog::fs::LogFs;
use agon::eventlog::{LogError, SessionStore};
use agon::ports::{AppendError, EventLog};
use agon::protocol::Entry;

use super::kit::*;
use super::sim::SimFs;

#[test]
fn a_log_is_read_back_and_goes_on() {
    let (_folder, store, session) = filled(5);
    let (opened, entries) = open(&store, &session).unwrap();
    assert_eq!(entries, (0..5).map(usual).collect::<Vec<_>>());
    assert_eq!(opened.recovered, None);
    let head = append(&opened.log, [usual(5), usual(6)]).unwrap();
    assert_eq!((head.count, &head), (7, &opened.log.head()));
    drop(opened);
    let (again, entries) = open(&store, &session).unwrap();
    assert_eq!(entries.len(), 7);
    assert_eq!(again.log.head(), head);
}

#[test]
fn lines_have_the_documented_shape_and_modes() {
    let (folder, _store, session) = filled(3);
    let text = std::fs::read_to_string(&session.log).unwrap();
    let mut link = Link::root(ID);
    for (seq, line) in text.lines().enumerate() {
        let (body, tail) = line.split_at(line.len() - 51);
        link = link.next(body.as_bytes());
        assert_eq!(tail, format!(",\"h\":\"{}\"}}", link.text()));
        assert!(body.starts_with(&format!("{{\"v\":2,\"seq\":{seq},\"at\":")), "{body}");
    }
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&session.log), 0o600);
    assert_eq!(mode(session.log.parent().unwrap()), 0o700);
    assert_eq!(mode(&folder.path().join("sessions")), 0o700);
    assert_eq!(mode(&session.log.with_file_name("lock")), 0o600);
}

#[test]
fn lines_from_anywhere_are_the_acknowledged_bytes() {
    let (_folder, store, session) = filled(150);
    let (opened, _) = open(&store, &session).unwrap();
    let bytes = std::fs::read(&session.log).unwrap();
    for from in [0, 1, 63, 64, 65, 127, 128, 149, 150, 1000] {
        let lines = opened.log.lines(from).unwrap();
        assert_eq!(lines.len() as u64, 150u64.saturating_sub(from));
        assert!(bytes.ends_with(&lines.concat()));
    }
    let line = &opened.log.lines(70).unwrap()[0];
    assert_eq!(serde_json::from_slice::<Entry>(line).unwrap(), usual(70));
}

#[test]
fn appends_out_of_order_or_too_long_write_nothing() {
    let (_folder, store, session) = filled(3);
    let (opened, _) = open(&store, &session).unwrap();
    let before = std::fs::read(&session.log).unwrap();
    let wrong = AppendError::OutOfOrder { expected: 3, got: 4 };
    assert_eq!(append(&opened.log, [usual(4)]), Err(wrong));
    let gap = AppendError::OutOfOrder { expected: 4, got: 5 };
    assert_eq!(append(&opened.log, [usual(3), usual(5)]), Err(gap));
    let long = append(&opened.log, [usual(3), said(4, &"y".repeat(768 * 1024))]);
    assert!(matches!(long, Err(AppendError::TooLong { seq: 4, .. })), "{long:?}");
    assert_eq!(std::fs::read(&session.log).unwrap(), before);
    append(&opened.log, [usual(3)]).unwrap();
}

#[test]
fn the_longest_line_is_written_and_read() {
    let (_folder, store, session) = filled(1);
    let (opened, _) = open(&store, &session).unwrap();
    let empty = serde_json::to_vec(&said(1, "")).unwrap().len() + 51;
    let longest = said(1, &"y".repeat(768 * 1024 - empty));
    let over = said(1, &"y".repeat(768 * 1024 - empty + 1));
    assert!(matches!(append(&opened.log, [over]), Err(AppendError::TooLong { .. })));
    append(&opened.log, [longest.clone(), usual(2)]).unwrap();
    drop(opened);
    let (_opened, entries) = open(&store, &session).unwrap();
    assert_eq!(entries, [usual(0), longest, usual(2)]);
}

#[test]
fn every_truncation_recovers_exactly_the_whole_entries() {
    let disk = SimFs::new();
    let (store, session) = (SessionStore::with_fs("/s", Arc::new(disk.clone())), session_in(Path::new("/s")));
    append(&store.create(ID).unwrap(), (0..60).map(usual)).unwrap();
    let whole = disk.bytes(&session.log);
    for cut in 0..whole.len() {
        disk.put(&session.log, &whole[..cut]);
        let lines = whole[..cut].iter().filter(|byte| **byte == b'\n').count();
        let kept = whole[..cut].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let (opened, entries) = open(&store, &session).unwrap();
        assert_eq!(entries.len(), lines, "cut at {cut}");
        let dropped = opened.recovered.as_ref().map_or(0, |recovered| recovered.dropped_bytes);
        assert_eq!(dropped as usize, cut - kept, "cut at {cut}");
        if let Some(recovered) = &opened.recovered {
            let aside = session.log.with_file_name(&recovered.kept_in);
            assert_eq!(disk.bytes(&aside), &whole[kept..cut]);
            disk.remove_file(&aside).unwrap();
        }
        append(&opened.log, [usual(lines as u64)]).unwrap();
        drop(opened);
        assert_eq!(open(&store, &session).unwrap().1.len(), lines + 1);
    }
}

#[test]
fn every_flipped_bit_is_detected_and_never_shortens_the_log_in_silence() {
    let disk = SimFs::new();
    let (store, session) = (SessionStore::with_fs("/s", Arc::new(disk.clone())), session_in(Path::new("/s")));
    append(&store.create(ID).unwrap(), (0..20).map(usual)).unwrap();
    let whole = disk.bytes(&session.log);
    let starts: Vec<usize> = std::iter::once(0)
        .chain(whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1))
        .collect();
    for bit in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        disk.put(&session.log, &bytes);
        let entry = starts.iter().rposition(|start| *start <= bit / 8).unwrap();
        let mut reader = store.read(&session).unwrap();
        let good: Vec<_> = reader.by_ref().map_while(Result::ok).collect();
        assert_eq!(good, (0..entry as u64).map(usual).collect::<Vec<_>>(), "bit {bit}");
        match open(&store, &session) {
            Err(LogError::Corrupt { seq, offset, .. }) => {
                assert_eq!((seq as usize, offset as usize), (entry, starts[entry]), "bit {bit}");
                assert_eq!(disk.bytes(&session.log), bytes, "bit {bit}: nothing was touched");
            }
            Err(other) => panic!("bit {bit}: {other}"),
            Ok((opened, _)) => {
                assert_eq!(entry, 19, "bit {bit}: only the last line can look like a torn one");
                let recovered = opened.recovered.expect("it is said");
                disk.remove_file(&session.log.with_file_name(recovered.kept_in)).unwrap();
            }
        }
    }
}

#[test]
fn missing_swapped_doubled_empty_and_zeroed_lines_are_damage() {
    let (_folder, store, session) = filled(12);
    let whole = std::fs::read(&session.log).unwrap();
    let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    let zeroed = [&vec![0; lines[5].len() - 1][..], b"\n"].concat();
    let with = |change: &dyn Fn(&mut Vec<Vec<u8>>)| {
        let mut lines: Vec<Vec<u8>> = lines.iter().map(|line| line.to_vec()).collect();
        change(&mut lines);
        std::fs::write(&session.log, lines.concat()).unwrap();
        match refused(&store, &session) {
            LogError::Corrupt { seq, .. } => seq,
            other => panic!("{other}"),
        }
    };
    assert_eq!(with(&|lines| drop(lines.remove(5))), 5);
    assert_eq!(with(&|lines| drop(lines.remove(10))), 10, "the last but one is missing");
    assert_eq!(with(&|lines| drop(lines.remove(0))), 0);
    assert_eq!(with(&|lines| lines.swap(4, 7)), 4);
    assert_eq!(with(&|lines| lines.swap(10, 11)), 10);
    assert_eq!(with(&|lines| lines.insert(5, lines[4].clone())), 5);
    assert_eq!(with(&|lines| lines.push(lines[11].clone())), 12);
    assert_eq!(with(&|lines| lines.insert(5, b"\n".to_vec())), 5);
    assert_eq!(with(&|lines| lines[5] = zeroed.clone()), 5);
    assert_eq!(with(&|lines| lines[5] = b"{\"v\":2}\n".to_vec()), 5);
}

#[test]
fn zeros_and_empty_lines_at_the_end_are_set_aside() {
    for tail in [&[0; 5000][..], b"\n", b"\n\n\n", b"\0\n\0", &[0; 2_000_000], b"{}\n", &[b'x'; 900_000]] {
        let (_folder, store, session) = filled(4);
        let whole = std::fs::read(&session.log).unwrap();
        std::fs::write(&session.log, [&whole[..], tail].concat()).unwrap();
        let (opened, entries) = open(&store, &session).unwrap();
        assert_eq!(entries.len(), 4);
        assert_eq!(opened.recovered.unwrap().dropped_bytes, tail.len() as u64);
        assert_eq!(std::fs::read(&session.log).unwrap(), whole);
    }
}

#[test]
fn a_damaged_log_is_read_up_to_the_damage_and_forked_before_it() {
    let (_folder, store, session) = filled(12);
    let mut bytes = std::fs::read(&session.log).unwrap();
    let at = bytes.windows(6).position(|window| window == b"step 7").unwrap();
    bytes[at] = b'S';
    std::fs::write(&session.log, &bytes).unwrap();
    let error = refused(&store, &session);
    assert!(error.to_string().contains("damaged at entry 7"), "{error}");
    assert!(error.hint().unwrap().contains("--at 6"));
    let mut folded = 0;
    let fork = store.fork(&session, 6, OTHER, &mut |_| folded += 1).unwrap();
    assert_eq!((folded, fork.head().count), (7, 7));
    assert!(matches!(
        store.fork(&session, 7, "019aa000-0000-7000-8000-000000000003", &mut |_| {}),
        Err(LogError::Corrupt { seq: 7, .. })
    ));
}

/// Appends a line by hand, properly chained.
fn append_by_hand(path: &Path, body: &str) {
    let mut bytes = std::fs::read(path).unwrap();
    let mut link = Link::root(ID);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        link = link.check(&line[..line.len() - 1]).unwrap();
    }
    let link = link.next(body.as_bytes());
    bytes.extend_from_slice(body.as_bytes());
    link.close(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_newer_format_is_refused_in_words() {
    let (_folder, store, session) = filled(3);
    append_by_hand(&session.log, r#"{"v":3,"seq":3,"at":9,"happenings":[]"#);
    let error = refused(&store, &session);
    assert_eq!(error.to_string(), "entry 3 was written by a newer agon: unknown format version 3");
    assert_eq!(store.read(&session).unwrap().filter(Result::is_ok).count(), 3);
}

#[test]
fn an_unknown_kind_is_read_but_not_continued() {
    let (_folder, store, session) = filled(3);
    append_by_hand(
        &session.log,
        r#"{"v":2,"seq":3,"at":9,"events":[{"kind":"tea_served","data":{"cups":1.50}}]"#,
    );
    append_by_hand(&session.log, r#"{"v":2,"seq":4,"at":9,"events":[]"#);
    let error = refused(&store, &session);
    assert!(matches!(&error, LogError::Newer { seq: 3, what } if what == "event `tea_served`"), "{error}");
    let entries: Vec<Entry> = store.read(&session).unwrap().map(Result::unwrap).collect();
    assert_eq!(entries.len(), 5);
    assert!(matches!(store.fork(&session, 3, OTHER, &mut |_| {}), Err(LogError::Newer { seq: 3, .. })));
    assert_eq!(store.fork(&session, 2, OTHER, &mut |_| {}).unwrap().head().count, 3);
}

#[test]
fn an_entry_of_a_known_kind_in_a_strange_shape_is_named() {
    let (_folder, store, session) = filled(3);
    append_by_hand(
        &session.log,
        r#"{"v":2,"seq":3,"at":9,"events":[{"kind":"steering_given","data":{"text":7}}]"#,
    );
    assert!(matches!(refused(&store, &session), LogError::Unreadable { seq: 3, .. }));
}

#[test]
fn a_log_that_grows_while_it_is_read_is_not_called_damaged() {
    let disk = SimFs::new();
    let (store, session) = (SessionStore::with_fs("/s", Arc::new(disk.clone())), session_in(Path::new("/s")));
    append(&store.create(ID).unwrap(), (0..4).map(usual)).unwrap();
    let whole = disk.bytes(&session.log);
    // The writer is anywhere in the third line, and goes on before any call of the reader.
    let lines: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] == b'\n').collect();
    for cut in [lines[1] + 2, lines[2] - 30, lines[2]] {
        for call in 0..10 {
            disk.put(&session.log, &whole[..cut]);
            disk.grow(call, &session.log, &whole);
            let mut reader = store.read(&session).unwrap();
            let entries: Vec<Entry> = reader.by_ref().map(Result::unwrap).collect();
            assert!(entries.len() >= 2 && reader.ending().count as usize == entries.len(), "{cut} {call}");
            disk.heal();
        }
    }
}
