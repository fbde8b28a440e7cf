//! Disks that fail, fill up and lose power; the same code as in real life on a simulated disk.

use std::path::Path;
use std::sync::Arc;

use agon::eventlog::{LogError, SessionLog, SessionPath, SessionStore};
use agon::ports::{AppendError, EventLog};

use super::kit::*;
use super::sim::{Fault, SimFs};

const STATE: &str = "/state";

fn store_on(disk: &SimFs) -> (SessionStore, SessionPath) {
    (SessionStore::with_fs(STATE, Arc::new(disk.clone())), session_in(Path::new(STATE)))
}

/// Appends entries up to `until` in batches of up to `most`, counting what was acknowledged; stops at the
/// first error, after which nothing may be acknowledged but what follows a full disk.
fn append_until(log: &SessionLog, acked: &mut u64, until: u64, most: u64) -> Result<(), AppendError> {
    while *acked < until {
        let next = (*acked + 1 + *acked % most).min(until);
        let result = append(log, (*acked..next).map(usual));
        if let Err(error) = result {
            let again = append(log, [usual(*acked)]);
            match (&error, again) {
                (AppendError::Full(_), Ok(head)) => *acked = head.count,
                (AppendError::Full(_), Err(AppendError::Full(_))) => {}
                (AppendError::Poisoned(_), Err(AppendError::Poisoned(_))) => {}
                (_, again) => panic!("after {error:?} came {again:?}"),
            }
            assert_eq!(log.head().count, *acked);
            return Err(error);
        }
        *acked = next;
        assert_eq!(log.head().count, *acked);
    }
    Ok(())
}

/// Two lives of a session. Ends at the first error; what was acknowledged is in `acked`.
fn two_lives(disk: &SimFs, acked: &mut u64, most: u64) -> Result<(), String> {
    let (store, session) = store_on(disk);
    let words = |error: &dyn std::fmt::Display| error.to_string();
    {
        let log = store.create(ID).map_err(|e| words(&e))?;
        append_until(&log, acked, 9, most).map_err(|e| words(&e))?;
        let hash = block_on(log.put_blob(b"the whole output".to_vec())).map_err(|e| words(&e))?;
        assert_eq!(store.blob(&hash).map_err(|e| words(&e))?, b"the whole output");
    }
    let (opened, entries) = open(&store, &session).map_err(|e| words(&e))?;
    assert_eq!(entries.len() as u64, *acked);
    append_until(&opened.log, acked, 16, most).map_err(|e| words(&e))
}

/// After a fault, and perhaps a loss of power: the acknowledged prefix is there, and the log goes on.
fn check_afterwards(disk: &SimFs, acked: u64, most: u64, what: &str) {
    let (store, session) = store_on(disk);
    let sessions = store.list().unwrap();
    if sessions.is_empty() {
        assert_eq!(acked, 0, "{what}: a session with acknowledged entries has vanished");
        return;
    }
    let (opened, entries) = match open(&store, &session) {
        Ok(opened) => opened,
        // Died while the session was being created.
        Err(LogError::Io { .. } | LogError::NeverOpened(_)) if acked == 0 => return,
        Err(LogError::Corrupt { seq, .. }) if most > 1 && seq >= acked => return,
        Err(error) => panic!("{what}: {error}"),
    };
    let count = entries.len() as u64;
    assert!(count >= acked, "{what}: {count} entries are left of {acked} acknowledged");
    assert_eq!(entries, (0..count).map(usual).collect::<Vec<_>>(), "{what}");
    append(&opened.log, [usual(count)]).unwrap();
    drop(opened);
    assert_eq!(open(&store, &session).unwrap().1.len() as u64, count + 1, "{what}");
}

#[test]
fn an_error_at_any_call_is_never_acknowledged_and_loses_nothing() {
    for fault in [Fault::Broken, Fault::Full, Fault::Short] {
        let mut call = 0;
        loop {
            for power in [false, true] {
                let disk = SimFs::new();
                let mut acked = 0;
                disk.fail(call, fault);
                let result = two_lives(&disk, &mut acked, 3);
                let calls = disk.calls();
                disk.heal();
                if power {
                    disk.lose_power(&mut Dice(call))
                } else {
                    disk.kill()
                }
                check_afterwards(&disk, acked, 3, &format!("{fault:?} at call {call}, {result:?}"));
                if call >= calls {
                    result.unwrap();
                }
            }
            let reached = SimFs::new();
            two_lives(&reached, &mut 0, 3).unwrap();
            call += 1;
            if call > reached.calls() {
                break;
            }
        }
        assert!(call > 50, "the lives make more than {call} calls");
    }
}

#[test]
fn a_fork_that_fails_at_any_call_is_there_whole_or_not_at_all() {
    for call in 0.. {
        let disk = SimFs::new();
        let (store, session) = store_on(&disk);
        append(&store.create(ID).unwrap(), (0..9).map(usual)).unwrap();
        disk.die(call);
        let made = store.fork(&session, 5, OTHER, &mut |_| {}).is_ok();
        disk.heal();
        disk.lose_power(&mut Dice(call));
        assert_eq!(open(&store, &session).unwrap().1.len(), 9);
        match store.find(OTHER) {
            Ok(fork) => assert_eq!(open(&store, &fork).unwrap().1.len(), 6, "call {call}"),
            Err(LogError::NotFound(_)) => {
                assert!(!made, "call {call}");
                drop(store.fork(&session, 5, OTHER, &mut |_| {}).expect("leftovers are no hindrance"));
            }
            Err(error) => panic!("call {call}: {error}"),
        }
        if made {
            assert!(call > 10, "a fork makes more than {call} calls");
            break;
        }
    }
}

#[test]
fn what_was_set_aside_outlives_the_power() {
    for seed in 0..50 {
        let disk = SimFs::new();
        let (store, session) = store_on(&disk);
        append(&store.create(ID).unwrap(), (0..5).map(usual)).unwrap();
        let whole = disk.bytes(&session.log);
        let tail = vec![b'{'; 3000];
        disk.put(&session.log, &[&whole[..], &tail].concat());
        let (opened, _) = open(&store, &session).unwrap();
        disk.lose_power(&mut Dice(seed));
        assert_eq!(disk.bytes(&session.log), whole, "seed {seed}");
        let kept = session.log.with_file_name(opened.recovered.unwrap().kept_in);
        assert_eq!(disk.bytes(&kept), tail, "seed {seed}");
    }
}

#[test]
fn a_disk_that_dies_at_any_call_loses_nothing_acknowledged() {
    for call in 0..200 {
        for seed in 0..3 {
            let disk = SimFs::new();
            let mut acked = 0;
            disk.die(call);
            let _ = two_lives(&disk, &mut acked, 1);
            disk.heal();
            disk.lose_power(&mut Dice(call * 31 + seed));
            check_afterwards(&disk, acked, 1, &format!("dead from call {call}, seed {seed}"));
        }
    }
}

#[test]
fn any_subset_of_unsynced_sectors_may_be_lost_with_the_power() {
    for seed in 0..2000 {
        let mut dice = Dice(seed);
        let disk = SimFs::new();
        let (store, session) = store_on(&disk);
        let log = store.create(ID).unwrap();
        let most = if seed % 2 == 0 { 1 } else { 1 + dice.below(6) };
        let acked = 1 + dice.below(12);
        append(&log, (0..acked).map(usual)).unwrap();
        // The write goes through, the fdatasync does not (nor the reserving, for which there is room).
        disk.die(1);
        let long = |seq| said(seq, &"z".repeat(1 + (seq as usize * 977) % 4000));
        let lost = append(&log, (acked..acked + most).map(long));
        assert!(matches!(lost, Err(AppendError::Poisoned(_))), "{lost:?}");
        drop(log);
        disk.heal();
        disk.lose_power(&mut dice);
        match open(&store, &session) {
            Ok((opened, entries)) => {
                let count = entries.len() as u64;
                assert!(count >= acked, "seed {seed}");
                let expected = (0..count).map(|seq| if seq < acked { usual(seq) } else { long(seq) });
                assert_eq!(entries, expected.collect::<Vec<_>>(), "seed {seed}");
                append(&opened.log, [usual(count)]).unwrap();
            }
            // A hole in a batch of several lines looks like damage: said, and nothing acknowledged is in it.
            Err(LogError::Corrupt { seq, .. }) => assert!(most > 1 && seq >= acked, "seed {seed}: {seq}"),
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
}

#[test]
fn a_full_disk_is_said_leaves_room_for_the_last_word_and_goes_on_when_there_is_space() {
    for capacity in [70_000u64, 90_000, 131_072, 200_000, 1_000_000] {
        let disk = SimFs::new();
        disk.hold(Some(capacity));
        let (store, session) = store_on(&disk);
        let log = store.create(ID).unwrap();
        let mut count = 0;
        let error = loop {
            match append(&log, [usual_or_long(count)]) {
                Ok(head) => count = head.count,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, AppendError::Full(_)), "{error:?}");
        assert!(count > 20, "most of the disk was used: {count}");
        append(&log, [paused(count)]).expect("room was kept for this");
        let after = append(&log, [usual_or_long(count + 1)]);
        assert!(matches!(after, Err(AppendError::Full(_))), "{after:?}");
        disk.hold(None);
        append(&log, [usual_or_long(count + 1)]).unwrap();
        drop(log);
        assert_eq!(open(&store, &session).unwrap().1.len() as u64, count + 2);
    }
}

fn usual_or_long(seq: u64) -> agon::protocol::Entry {
    if seq == 0 { usual(0) } else { said(seq, &"w".repeat(800)) }
}

#[test]
fn a_full_disk_that_cannot_reserve_is_cut_back_to_whole_entries() {
    let disk = SimFs::new();
    disk.without_reserving();
    disk.hold(Some(20_000));
    let (store, session) = store_on(&disk);
    let log = store.create(ID).unwrap();
    let mut acked = 0;
    let error = append_until(&log, &mut acked, 1000, 4).unwrap_err();
    assert!(matches!(error, AppendError::Full(_)), "{error:?}");
    assert!(disk.bytes(&session.log).ends_with(b"\"}\n"));
    disk.hold(None);
    append(&log, [usual(acked)]).unwrap();
    drop(log);
    let (opened, entries) = open(&store, &session).unwrap();
    assert_eq!((entries.len() as u64, opened.recovered), (acked + 1, None));
}

#[test]
fn closing_gives_back_what_was_reserved() {
    let disk = SimFs::new();
    let (store, session) = store_on(&disk);
    let log = store.create(ID).unwrap();
    append(&log, (0..20).map(usual)).unwrap();
    assert!(disk.used() >= 64 * 1024);
    drop(log);
    let left = disk.used() - disk.bytes(&session.log).len() as u64;
    assert!(left < 100, "{left}");
}

#[test]
fn a_real_full_disk() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: mounting a small tmpfs needs root");
        return;
    }
    for kib in [128, 192, 256, 320, 512, 640, 768, 1024] {
        let folder = tempfile::tempdir().unwrap();
        let Some(_mounted) = Mounted::tmpfs(folder.path(), kib) else {
            println!("skipped: a tmpfs cannot be mounted here");
            return;
        };
        let store = SessionStore::new(folder.path());
        let log = store.create(ID).unwrap();
        let mut acked = 0;
        let error = loop {
            match append(&log, [usual_or_long(acked)]) {
                Ok(head) => acked = head.count,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, AppendError::Full(_)), "{error:?}");
        append(&log, [paused(acked)]).expect("room was kept for this");
        drop(log);
        let session = store.find(ID).unwrap();
        assert_eq!(open(&store, &session).unwrap().1.len() as u64, acked + 1);
    }
}

struct Mounted<'a>(&'a Path);

impl<'a> Mounted<'a> {
    fn tmpfs(path: &'a Path, kib: u32) -> Option<Self> {
        let options = format!("size={kib}k");
        let mut mount = std::process::Command::new("mount");
        let status = mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(path).output().ok()?.status;
        status.success().then_some(Mounted(path))
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(self.0).status();
    }
}
