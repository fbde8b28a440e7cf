//! Bad places: a full disk in the middle, links in the way, folders that cannot be written.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::{content, mode, runs, scripted, task, undo};

/// A small file system of its own; none where this process may not mount one.
struct Small(std::path::PathBuf);

impl Small {
    fn at(path: std::path::PathBuf, size: &str) -> Option<Self> {
        let size = format!("size={size},mode=755");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&path).status();
        mounted.is_ok_and(|status| status.success()).then_some(Small(path))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_in_the_middle_is_completed_by_a_second_undo() {
    let env = scripted(&runs("for i in 1 2 3 4; do : > big$i.bin; done; echo new > new.txt"));
    let Some(_small) = Small::at(env.work(), "2m") else { return };
    for i in 1..=4 {
        std::fs::write(env.work().join(format!("big{i}.bin")), vec![i; 300_000]).unwrap();
    }
    let before = content(&env.work());
    task(&env);
    let filler = env.work().join("filler.bin");
    std::fs::write(&filler, vec![0; 1_400_000]).unwrap();
    let ran = undo(&env, &[], 1);
    assert!(ran.stdout.contains("not done:\n") && ran.stdout.contains("No space left"), "{ran}");
    assert!(ran.stderr.contains("do the rest"), "{ran}");
    let temporary =
        content(&env.work()).into_keys().filter(|path| path.to_string_lossy().contains(".agon-")).count();
    assert_eq!(temporary, 0, "nothing half written stays");
    std::fs::remove_file(filler).unwrap();
    let ran = undo(&env, &[], 0);
    assert!(ran.stdout.contains("undo completed: turn 1"), "{ran}");
    assert_eq!(content(&env.work()), before);
    undo(&env, &["--redo"], 0);
    assert_eq!(
        std::fs::metadata(env.work().join("big1.bin")).unwrap().len(),
        0,
        "the whole undo is taken back"
    );
    assert!(env.work().join("new.txt").exists());
}

#[test]
fn nothing_is_written_through_a_link() {
    let env = scripted(&runs("echo 2 > folder/a.txt"));
    env.write("work/folder/a.txt", "1\n").write("outside/a.txt", "theirs\n");
    task(&env);
    let outside = env.work().parent().unwrap().join("outside");
    std::fs::remove_dir_all(env.work().join("folder")).unwrap();
    std::os::unix::fs::symlink(&outside, env.work().join("folder")).unwrap();
    let ran = undo(&env, &["--force"], 1);
    assert!(ran.stdout.contains("folder/a.txt"), "{ran}");
    assert_eq!(std::fs::read_to_string(outside.join("a.txt")).unwrap(), "theirs\n");
}

#[test]
fn a_file_in_the_way_and_one_that_cannot_be_written_keep_no_other_from_being_taken_back() {
    let env = scripted(&runs("rm a.txt; echo 2 > b.txt; echo 2 > held/c.txt"));
    env.write("work/a.txt", "1\n").write("work/b.txt", "1\n").write("work/held/c.txt", "1\n");
    task(&env);
    env.write("work/a.txt/mine.txt", "mine\n");
    mode(&env, "held", 0o555);
    let is_root = crate::support::env::is_root(&env.work());
    let ran = undo(&env, &[], 1);
    mode(&env, "held", 0o755);
    assert!(ran.stdout.contains("left as they are") && ran.stdout.contains("a.txt"), "{ran}");
    assert_eq!(std::fs::read_to_string(env.work().join("b.txt")).unwrap(), "1\n");
    assert_eq!(std::fs::read_to_string(env.work().join("a.txt/mine.txt")).unwrap(), "mine\n");
    if !is_root {
        assert!(ran.stdout.contains("held/c.txt: Permission denied"), "{ran}");
        undo(&env, &[], 0);
    }
    assert_eq!(std::fs::read_to_string(env.work().join("held/c.txt")).unwrap(), "1\n");
    assert_eq!(std::fs::metadata(env.work().join("b.txt")).unwrap().permissions().mode() & 0o777, 0o644);
}
