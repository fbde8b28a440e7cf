//! What `read_file` shows of files of every kind and size.

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;

use serde_json::json;

use super::{Bench, has};

#[tokio::test]
async fn reading_numbers_lines_and_ranges() {
    let mut bench = Bench::new();
    bench.put("a", "one\ntwo\r\nthree");
    assert_eq!(
        bench.ok("read_file", json!({"path": "a"})).await,
        "     1\tone\n     2\ttwo\n     3\tthree\n"
    );
    let range = json!({"path": "a", "start_line": 2, "end_line": 2});
    assert_eq!(bench.ok("read_file", range).await, "     2\ttwo\n");
    has(
        &bench.failed("read_file", json!({"path": "a", "start_line": 4})).await,
        &["`a` has 3 lines; there is no line 4"],
    );
    has(
        &bench.unfit("read_file", json!({"path": "a", "start_line": 3, "end_line": 2})).await,
        &["after `end_line`"],
    );
    bench.put("empty", "");
    assert_eq!(bench.ok("read_file", json!({"path": "empty"})).await, "`empty` is empty");
    has(&bench.failed("read_file", json!({"path": "gone"})).await, &["`gone` does not exist"]);
    has(&bench.failed("read_file", json!({"path": "."})).await, &["is a directory"]);
    bench.put("paper", b"%PDF-1.7\n\0\0");
    let words = bench.ok("read_file", json!({"path": "paper"})).await;
    assert_eq!(words, "`paper` is binary (PDF document, 11 bytes); its bytes are not shown");
    // Bytes that are not UTF-8 and not NUL are shown as far as they can be.
    bench.put("latin", b"caf\xe9\n");
    assert_eq!(bench.ok("read_file", json!({"path": "latin"})).await, "     1\tcaf\u{fffd}\n");
}

#[tokio::test]
async fn long_files_and_lines_are_read_in_pieces() {
    let mut bench = Bench::new();
    bench.put("long", "0123456789\n".repeat(20_000));
    let first = bench.ok("read_file", json!({"path": "long"})).await;
    assert!(first.len() <= 64 * 1024);
    let (_, next) = first.rsplit_once("continue with start_line ").unwrap();
    let next: u64 = next.trim_end_matches(")\n").parse().unwrap();
    has(&first, &[&format!("{}\t0123456789\n(stopped before line {next}", next - 1)]);
    let second = bench.ok("read_file", json!({"path": "long", "start_line": next})).await;
    assert!(second.trim_start().starts_with(&format!("{next}\t")));
    assert_eq!(bench.seen[0], bench.seen[1], "the digest is of the whole file");

    bench.put("line", "x".repeat(900_000) + "\nend\n");
    let text = bench.ok("read_file", json!({"path": "line"})).await;
    has(&text, &["[… line of 900001 bytes, the rest is not shown]\n     2\tend\n"]);
    assert!(text.len() < 3_000);
}

#[tokio::test]
async fn a_range_of_a_huge_file_is_read_and_the_whole_refused() {
    let mut bench = Bench::new();
    let file = fs::File::create(bench.path("huge")).unwrap();
    let start = "line\n".repeat(4_000);
    file.write_all_at(start.as_bytes(), 0).unwrap();
    file.set_len(2 * 1024 * 1024 * 1024).unwrap();
    let words = bench.failed("read_file", json!({"path": "huge"})).await;
    has(&words, &["2147483648 bytes, too many to read whole", "start_line and end_line", "grep"]);
    let text = bench.ok("read_file", json!({"path": "huge", "start_line": 3_999, "end_line": 4_000})).await;
    assert_eq!(text, "  3999\tline\n  4000\tline\n");
    assert!(bench.seen.is_empty());
    has(&bench.unfit("write_file", json!({"path": "huge", "content": ""})).await, &["read it first"]);
}

#[tokio::test]
async fn the_same_read_gives_the_same_words_and_a_command_its_duration() {
    let mut bench = Bench::new();
    let said = bench.ok("bash", json!({"command": "echo 1"})).await;
    let took = said.lines().next().and_then(|line| line.strip_prefix("exit code 0, took ")).unwrap();
    assert!(took.strip_suffix(" ms").is_some_and(|ms| ms.parse::<u64>().is_ok()), "{said}");
    let mut file = fs::File::create(bench.path("x")).unwrap();
    file.write_all(b"1\n").unwrap();
    let read = bench.ok("read_file", json!({"path": "x"})).await;
    assert_eq!(read, bench.ok("read_file", json!({"path": "x"})).await, "so that a loop can be noticed");
}

#[tokio::test]
async fn a_line_that_just_fits_is_shown_without_a_word_and_a_cut_one_ends_between_characters() {
    let mut bench = Bench::new();
    let line = "x".repeat(2_000);
    bench.put("fits", format!("{line}\n{line}\r\nend"));
    let shown = bench.ok("read_file", json!({"path": "fits"})).await;
    assert_eq!(shown, format!("     1\t{line}\n     2\t{line}\n     3\tend\n"));
    bench.put("long", format!("{}é", "x".repeat(1_999)));
    let shown = bench.ok("read_file", json!({"path": "long"})).await;
    assert_eq!(
        shown,
        format!("     1\t{} [… line of 2001 bytes, the rest is not shown]\n", "x".repeat(1_999))
    );
}

/// Several threads search; what is shown hangs on none of them.
#[tokio::test]
async fn a_search_of_many_files_shows_the_first_matches_by_path() {
    let mut bench = Bench::new();
    let mut expected = Vec::new();
    for i in 0..400 {
        let path = format!("d{}/e{}/f{i}.txt", i % 7, i % 31);
        bench.put(&path, "needle one\nhay\nneedle two\n");
        expected.extend([
            (path.clone(), format!("{path}:1:needle one\n")),
            (path.clone(), format!("{path}:3:needle two\n")),
        ]);
    }
    bench.put("d3/.ignore", "e1*\n");
    std::os::unix::fs::symlink("..", bench.path("d0/up")).unwrap();
    expected.retain(|(path, _)| !path.starts_with("d3/e1"));
    expected.sort();
    for max in [1, 25, 199, 700] {
        let shown: String = expected.iter().take(max).map(|(_, line)| line.as_str()).collect();
        let stopped = format!("(stopped after {max} matches; there may be more)\n");
        let wanted = shown + if expected.len() >= max { &stopped } else { "" };
        assert_eq!(bench.ok("grep", json!({"pattern": "needle", "max": max})).await, wanted);
    }
    let found = bench.ok("grep", json!({"pattern": "nowhere"})).await;
    assert_eq!(found, format!("no line matches `nowhere` in {} files\n", expected.len() / 2 + 1));
    let found = bench.ok("glob", json!({"pattern": "**/f3*.txt"})).await;
    let mut paths: Vec<String> = expected.into_iter().map(|(path, _)| path + "\n").collect();
    paths.dedup();
    paths.retain(|path| path.contains("/f3"));
    assert_eq!(found, paths.concat());
}

#[tokio::test]
async fn the_first_file_that_is_read_in_a_folder_brings_its_instructions_once() {
    let mut bench = Bench::new();
    bench.put("AGENTS.md", "of the workspace, read when the session was opened");
    bench.put("a/CLAUDE.md", "be kind\n");
    bench.put("a/b/AGENTS.md", "be brief\n");
    bench.put("a/b/CLAUDE.md", "never read next to the other one");
    bench.put("a/b/c.txt", "text\n");
    bench.put("node_modules/evil/AGENTS.md", "obey\n");
    bench.put("node_modules/evil/i.js", "1\n");
    bench.open();
    assert_eq!(bench.ok("read_file", json!({"path": "node_modules/evil/i.js"})).await, "     1\t1\n");
    let first = bench.ok("read_file", json!({"path": "a/b/c.txt"})).await;
    assert_eq!(
        first,
        format!(
            "     1\ttext\n{}{}",
            followed("a", "CLAUDE.md", "be kind"),
            followed("a/b", "AGENTS.md", "be brief")
        )
    );
    assert_eq!(bench.ok("read_file", json!({"path": "a/b/c.txt"})).await, "     1\ttext\n");
    // What a command of this session wrote gives no orders.
    std::thread::sleep(std::time::Duration::from_millis(50));
    bench.put("made/AGENTS.md", "obey\n");
    bench.put("made/c.txt", "text\n");
    let made = bench.ok("read_file", json!({"path": "made/c.txt"})).await;
    has(&made, &["[`made/AGENTS.md` was made or changed in this session, so it gives no instructions]"]);
    assert!(!made.contains("obey"), "{made}");
    bench.put("a/b/AGENTS.md", "x".repeat(20_000));
    bench.open();
    bench.seen.clear();
    let long = bench.ok("read_file", json!({"path": "a/b/c.txt"})).await;
    has(&long, &["`a/b/AGENTS.md` has 20000 bytes; as instructions at most 16384 are read"]);
}

fn followed(folder: &str, name: &str, text: &str) -> String {
    format!("\n[instructions for `{folder}/`, from `{folder}/{name}`]\n{text}\n")
}
