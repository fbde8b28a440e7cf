//! A cache that is damaged, hostile, read-only or full: always a miss or a word, never a wrong run.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use agon::ports::{CacheMiss, TeamCache};

use super::{Place, get, key, put, sha256};
use crate::support::env::is_root;

/// The miss, which must be a damage, and that the run is gone afterwards.
async fn damage(place: &Place, what: &str) -> String {
    let miss = get(&place.cache(), &key("a")).await.unwrap_err();
    let CacheMiss::Damaged(words) = miss else { panic!("{what}: {miss:?}") };
    assert!(fs::symlink_metadata(place.entry(&key("a"))).is_err(), "{what}: it is still there");
    assert_eq!(get(&place.cache(), &key("a")).await, Err(CacheMiss::Absent), "{what}");
    put(&place.cache(), &key("a"), "again").await.unwrap();
    assert_eq!(get(&place.cache(), &key("a")).await.unwrap().run.run.answer, "again", "{what}");
    words
}

async fn stored() -> Place {
    let place = Place::new();
    put(&place.cache(), &key("a"), "done").await.unwrap();
    place
}

#[tokio::test]
async fn any_flipped_byte_and_any_cut_is_found_told_and_removed() {
    let sizes: Vec<(String, usize)> = {
        let place = stored().await;
        let files = fs::read_dir(place.entry(&key("a"))).unwrap().map(|file| file.unwrap());
        files.map(|f| (f.file_name().into_string().unwrap(), f.metadata().unwrap().len() as usize)).collect()
    };
    assert_eq!(sizes.len(), 3, "a record and two contents");
    for (name, size) in sizes {
        for at in (0..size).step_by(1 + size / 6) {
            for cut in [false, true] {
                let place = stored().await;
                let file = place.entry(&key("a")).join(&name);
                let mut bytes = fs::read(&file).unwrap();
                match cut {
                    true => bytes.truncate(at),
                    false => bytes[at] ^= 0x20,
                }
                fs::write(&file, bytes).unwrap();
                damage(&place, &format!("{name} at {at}, cut: {cut}")).await;
            }
        }
    }
}

#[tokio::test]
async fn a_missing_file_and_a_record_of_another_key_are_damage() {
    let place = stored().await;
    fs::remove_file(place.entry(&key("a")).join(sha256(b"#!/bin/sh\n"))).unwrap();
    assert!(damage(&place, "content").await.contains("is not there"));
    fs::remove_file(place.entry(&key("a")).join("run")).unwrap();
    assert!(damage(&place, "record").await.contains("is not there"));
    put(&place.cache(), &key("b"), "other").await.unwrap();
    fs::remove_dir_all(place.entry(&key("a"))).unwrap();
    fs::rename(place.entry(&key("b")), place.entry(&key("a"))).unwrap();
    assert!(damage(&place, "renamed").await.contains("another key"));
}

#[tokio::test]
async fn links_pipes_and_plain_files_are_never_followed() {
    let place = stored().await;
    let outside = place.folder.path().join("outside");
    fs::rename(place.entry(&key("a")), &outside).unwrap();
    symlink(&outside, place.entry(&key("a"))).unwrap();
    assert!(damage(&place, "a link to an entry").await.contains("symbolic link"));
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 3, "what the link pointed to is untouched");

    let content = place.entry(&key("a")).join(sha256(b"#!/bin/sh\n"));
    fs::remove_file(&content).unwrap();
    symlink(outside.join(sha256(b"#!/bin/sh\n")), &content).unwrap();
    assert!(damage(&place, "a link to a content").await.contains("symbolic link"));

    let record = place.entry(&key("a")).join("run");
    fs::remove_file(&record).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &record,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    assert!(damage(&place, "a pipe").await.contains("not an ordinary file"));

    fs::remove_dir_all(place.entry(&key("a"))).unwrap();
    fs::write(place.entry(&key("a")), "a plain file").unwrap();
    damage(&place, "a plain file").await;
}

#[tokio::test]
async fn what_others_can_write_is_not_believed() {
    let place = stored().await;
    let loose = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o722)).unwrap();
    loose(&place.entry(&key("a")).join("run"));
    assert!(damage(&place, "record").await.contains("written by other users"));
    loose(&place.entry(&key("a")));
    assert!(damage(&place, "entry").await.contains("written by other users"));
    for folder in [place.root().join("runs"), place.root()] {
        loose(&folder);
        let miss = get(&place.cache(), &key("a")).await.unwrap_err();
        assert!(matches!(&miss, CacheMiss::Unusable(words) if words.contains("other users")), "{miss:?}");
        let error = put(&place.cache(), &key("a"), "done").await.unwrap_err();
        assert!(error.contains("other users"), "{error}");
        assert!(place.cache().list().is_err() && place.cache().clear().is_err());
    }
    assert!(place.entry(&key("a")).join("run").exists(), "nothing is removed where nothing is believed");
}

#[tokio::test]
async fn a_cache_that_is_a_link_is_refused() {
    for link in ["cache/team", "cache/team/runs", "cache/team/new", "cache/team/locks"] {
        let place = stored().await;
        let (link, real) = (place.folder.path().join(link), place.folder.path().join("elsewhere"));
        fs::rename(&link, &real).unwrap();
        symlink(&real, &link).unwrap();
        let miss = get(&place.cache(), &key("a")).await.unwrap_err();
        assert!(matches!(&miss, CacheMiss::Unusable(words) if words.contains("symbolic link")), "{miss:?}");
        assert!(put(&place.cache(), &key("b"), "done").await.unwrap_err().contains("symbolic link"));
    }
}

#[tokio::test]
async fn a_folder_that_is_a_file_or_open_to_others_is_told_and_done_without() {
    for name in ["runs", "new", "locks"] {
        let place = stored().await;
        let folder = place.root().join(name);
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        let miss = get(&place.cache(), &key("a")).await.unwrap_err();
        assert!(matches!(&miss, CacheMiss::Unusable(words) if words.contains("other users")), "{miss:?}");
        assert!(put(&place.cache(), &key("b"), "done").await.unwrap_err().contains("other users"));
        fs::rename(&folder, place.folder.path().join("aside")).unwrap();
        fs::write(&folder, "precious").unwrap();
        let miss = get(&place.cache(), &key("a")).await.unwrap_err();
        assert!(matches!(&miss, CacheMiss::Unusable(words) if words.contains(name)), "{miss:?}");
        assert!(put(&place.cache(), &key("b"), "done").await.unwrap_err().contains(name));
        assert_eq!(fs::read_to_string(&folder).unwrap(), "precious");
    }
}

#[tokio::test]
async fn a_link_among_the_locks_harms_nobody() {
    let place = Place::new();
    let victim = place.folder.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    put(&place.cache(), &key("other"), "done").await.unwrap();
    fs::create_dir_all(place.root().join("locks")).unwrap();
    symlink(&victim, place.root().join("locks").join(key("a"))).unwrap();
    assert_eq!(get(&place.cache(), &key("a")).await, Err(CacheMiss::Absent));
    put(&place.cache(), &key("a"), "done").await.unwrap();
    assert!(get(&place.cache(), &key("a")).await.is_ok());
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}

#[tokio::test]
async fn odd_names_are_left_alone_and_counted() {
    let place = stored().await;
    let runs = place.root().join("runs");
    let odd = [".hidden", "README", &key("x").to_uppercase(), &key("x")[1..], "a\u{1b}[2J", "\u{e9}"];
    for name in odd {
        fs::create_dir(runs.join(name)).unwrap();
        fs::write(runs.join(name).join("run"), "keep").unwrap();
    }
    let cache = place.cache();
    assert_eq!(cache.stats().unwrap().ignored, odd.len() as u64);
    assert_eq!(cache.list().unwrap().len(), 1);
    cache.prune().unwrap();
    assert_eq!(cache.clear().unwrap().runs, 1);
    for name in odd {
        assert_eq!(fs::read_to_string(runs.join(name).join("run")).unwrap(), "keep", "{name}");
    }
}

#[tokio::test]
async fn no_key_is_ever_a_path() {
    let place = stored().await;
    let outside = place.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("run"), "keep").unwrap();
    for bad in
        ["", ".", "..", "../../outside", "/etc", "a/b", &"A".repeat(64), &format!("{}\0", key("a")), "run"]
    {
        let miss = get(&place.cache(), bad).await.unwrap_err();
        assert!(
            matches!(&miss, CacheMiss::Unusable(words) if words.contains("not a key")),
            "{bad}: {miss:?}"
        );
        assert!(place.cache().open(bad).await.is_err());
        assert!(put(&place.cache(), bad, "done").await.unwrap_err().contains("not a key"), "{bad}");
    }
    assert_eq!(fs::read_to_string(outside.join("run")).unwrap(), "keep");
    assert_eq!(fs::read_dir(place.root().join("locks")).map_or(0, Iterator::count), 0, "no lock either");
}

#[tokio::test]
async fn a_read_only_folder_serves_what_it_has_and_says_what_it_cannot_take() {
    let place = stored().await;
    if is_root(place.folder.path()) {
        println!("skipped: nothing is read-only for this user");
        return;
    }
    let folders = [place.root().join("runs"), place.root().join("new"), place.root()];
    let set = |mode| {
        for folder in &folders {
            fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    set(0o500);
    let cache = place.cache();
    assert!(get(&cache, &key("a")).await.is_ok());
    assert_eq!(get(&cache, &key("b")).await, Err(CacheMiss::Absent));
    let error = put(&cache, &key("b"), "done").await.unwrap_err();
    assert!(error.contains("denied"), "{error}");
    place.at(super::NOW + 25 * super::HOUR);
    assert_eq!(get(&cache, &key("a")).await, Err(CacheMiss::Expired));
    set(0o700);
}

#[tokio::test]
async fn a_cache_that_was_never_made_is_empty_and_stays_unmade_when_looked_at() {
    let place = Place::new();
    let cache = place.cache();
    assert_eq!((cache.list().unwrap().len(), cache.stats().unwrap().fresh), (0, 0));
    assert_eq!(cache.prune().unwrap().runs, 0);
    assert_eq!(cache.open(&key("a")).await.unwrap_err(), CacheMiss::Absent);
    assert!(!place.root().exists());
}

#[tokio::test]
async fn nested_folders_in_an_entry_are_removed_with_it() {
    let place = stored().await;
    fs::create_dir_all(place.entry(&key("a")).join("deep/er")).unwrap();
    fs::write(place.entry(&key("a")).join("deep/er/file"), "x").unwrap();
    assert_eq!(place.cache().clear().unwrap().runs, 1);
    assert_eq!(fs::read_dir(place.root().join("new")).unwrap().count(), 0);
}
