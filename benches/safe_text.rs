//! Making text safe for a terminal, beside a plain copy of the same bytes; measures nothing else.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use agon::projection::safe_text::safe;
use divan::counter::BytesCount;

fn main() {
    divan::main();
}

const CASES: [&str; 4] = ["code", "quotes", "japanese", "colours"];

/// One mebibyte of a kind of text.
fn text(case: &str) -> String {
    let line = match case {
        "code" => "    let answer = question.iter().map(|word| word.len()).sum::<usize>();\n",
        "quotes" => "“Typographic quotes” — dashes — and an ellipsis… on every line, as models like them\n",
        "japanese" => "端末の制御文字はすべて取り除かれます。普通の文章はそのまま残ります。\n",
        _ => "\u{1B}[32m   Compiling\u{1B}[0m agon v0.1.0 (\u{1B}[1m/work\u{1B}[0m)\n",
    };
    line.repeat((1 << 20) / line.len())
}

#[divan::bench(args = CASES)]
fn safe_text(bencher: divan::Bencher<'_, '_>, case: &str) {
    let text = text(case);
    bencher.counter(BytesCount::of_str(&text)).bench_local(|| safe(divan::black_box(&text)).len());
}

#[divan::bench(args = CASES)]
fn plain_copy(bencher: divan::Bencher<'_, '_>, case: &str) {
    let text = text(case);
    bencher.counter(BytesCount::of_str(&text)).bench_local(|| divan::black_box(&text).to_owned());
}
