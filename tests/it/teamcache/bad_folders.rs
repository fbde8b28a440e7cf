//! A cache that is damaged, hostile, read-only or full: always a miss or a word, never a wrong run.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;

use agon::ports::CacheMiss;

use super::{Place, get, key, put};
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
    let place = stored().await;
    let whole = fs::read(place.entry(&key("a"))).unwrap();
    for at in (0..whole.len()).step_by(7) {
        let (mut flipped, cut) = (whole.clone(), whole[..at].to_vec());
        flipped[at] ^= 0x20;
        let longer = [&whole[..], &whole[..=at]].concat();
        for bytes in [flipped, cut, longer] {
            fs::write(place.entry(&key("a")), bytes).unwrap();
            damage(&place, &format!("at {at}")).await;
        }
    }
}

#[tokio::test]
async fn a_record_of_another_key_is_damage() {
    let place = stored().await;
    put(&place.cache(), &key("b"), "other").await.unwrap();
    fs::rename(place.entry(&key("b")), place.entry(&key("a"))).unwrap();
    assert!(damage(&place, "renamed").await.contains("another key"));
}

#[tokio::test]
async fn links_pipes_and_folders_are_never_followed() {
    let place = stored().await;
    let (outside, entry) = (place.folder.path().join("outside"), place.entry(&key("a")));
    fs::rename(&entry, &outside).unwrap();
    symlink(&outside, &entry).unwrap();
    assert!(damage(&place, "a link").await.contains("not an ordinary file"));
    assert!(fs::read(&outside).unwrap().len() > 100, "what the link pointed to is untouched");

    fs::remove_file(&entry).unwrap();
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600));
    rustix::fs::mknodat(rustix::fs::CWD, &entry, kind, mode, 0).unwrap();
    assert!(damage(&place, "a pipe").await.contains("not an ordinary file"));

    fs::remove_file(&entry).unwrap();
    fs::create_dir_all(entry.join("deep/er")).unwrap();
    assert!(put(&place.cache(), &key("a"), "done").await.is_err());
    assert_eq!(fs::read_dir(place.root()).unwrap().count(), 1, "nothing is left half stored");
    assert!(damage(&place, "a folder").await.contains("not an ordinary file"));
}

#[tokio::test]
async fn what_others_can_write_is_not_believed() {
    let place = stored().await;
    let loose = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o722)).unwrap();
    loose(&place.entry(&key("a")));
    assert!(damage(&place, "a run").await.contains("written by other users"));
    loose(&place.root());
    let miss = get(&place.cache(), &key("a")).await.unwrap_err();
    assert!(matches!(&miss, CacheMiss::Unusable(words) if words.contains("other users")), "{miss:?}");
    let error = put(&place.cache(), &key("a"), "done").await.unwrap_err();
    assert!(error.contains("other users"), "{error}");
    assert!(place.cache().list().is_err() && place.cache().clear().is_err());
    assert!(place.entry(&key("a")).exists(), "nothing is removed where nothing is believed");
}

#[tokio::test]
async fn a_cache_that_is_a_link_or_a_file_is_refused() {
    let place = stored().await;
    let real = place.folder.path().join("elsewhere");
    fs::rename(place.root(), &real).unwrap();
    symlink(&real, place.root()).unwrap();
    let refused = async |words: &str| {
        let miss = get(&place.cache(), &key("a")).await.unwrap_err();
        assert!(matches!(&miss, CacheMiss::Unusable(told) if told.contains(words)), "{miss:?}");
        assert!(put(&place.cache(), &key("b"), "done").await.unwrap_err().contains(words));
    };
    refused("symbolic link").await;
    fs::remove_file(place.root()).unwrap();
    fs::write(place.root(), "precious").unwrap();
    refused("not a folder").await;
    assert_eq!(fs::read_to_string(place.root()).unwrap(), "precious");
}

#[tokio::test]
async fn odd_names_are_left_alone() {
    let place = stored().await;
    let odd = [".hidden", "README", &key("x").to_uppercase(), &key("x")[1..], "a\u{1b}[2J", "\u{e9}"];
    for name in odd {
        fs::write(place.root().join(name), "keep").unwrap();
    }
    let cache = place.cache();
    assert_eq!(cache.list().unwrap().len(), 1);
    cache.prune().unwrap();
    assert_eq!(cache.clear().unwrap().runs, 1);
    for name in odd {
        assert_eq!(fs::read_to_string(place.root().join(name)).unwrap(), "keep", "{name}");
    }
}

#[tokio::test]
async fn no_key_is_ever_a_path() {
    let place = stored().await;
    fs::write(place.folder.path().join("outside"), "keep").unwrap();
    for bad in
        ["", ".", "..", "../../outside", "/etc", "a/b", &"A".repeat(64), &format!("{}\0", key("a")), "run"]
    {
        let miss = get(&place.cache(), bad).await.unwrap_err();
        assert!(
            matches!(&miss, CacheMiss::Unusable(words) if words.contains("not a key")),
            "{bad}: {miss:?}"
        );
        assert!(put(&place.cache(), bad, "done").await.unwrap_err().contains("not a key"), "{bad}");
    }
    assert_eq!(fs::read_to_string(place.folder.path().join("outside")).unwrap(), "keep");
}

#[tokio::test]
async fn a_read_only_folder_serves_what_it_has_and_says_what_it_cannot_take() {
    let place = stored().await;
    if is_root(place.folder.path()) {
        println!("skipped: nothing is read-only for this user");
        return;
    }
    let set = |mode| fs::set_permissions(place.root(), fs::Permissions::from_mode(mode)).unwrap();
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
    assert_eq!(get(&cache, &key("a")).await.unwrap_err(), CacheMiss::Absent);
    assert!(!place.root().exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_see_whole_runs_while_others_store_prune_and_clear() {
    let place = Arc::new(stored().await);
    let writers = (0..3).map(|nth| {
        let place = Arc::clone(&place);
        tokio::spawn(async move {
            for round in 0..40 {
                put(&place.cache(), &key("a"), &format!("{nth} {round}")).await.unwrap();
                if round % 10 == 9 {
                    place.cache().prune().unwrap();
                }
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    while !writers.iter().all(tokio::task::JoinHandle::is_finished) {
        match get(&place.cache(), &key("a")).await {
            Ok(_) | Err(CacheMiss::Absent) => {}
            other => panic!("{other:?}"),
        }
        tokio::task::yield_now().await;
    }
    for writer in writers {
        writer.await.unwrap();
    }
}
