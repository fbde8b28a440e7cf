//! Decoding of server-sent events beside a copy of the same bytes: `cargo bench --bench sse`.

use std::convert::Infallible;

use agon::provider::sse::{Decoder, TooLong};
use divan::Bencher;
use divan::counter::BytesCount;
use eventsource_stream::Eventsource;
use futures_util::{FutureExt, StreamExt};

/// Bytes as a network hands them out: small reads, a TLS record, many at once.
const PIECES: [usize; 4] = [64, 1_400, 16 << 10, 64 << 10];

fn main() {
    divan::main();
}

/// About 4 MB of chunks such as a model streams, every eighth word with an umlaut.
fn stream() -> Vec<u8> {
    let mut bytes = Vec::new();
    for i in 0..16_000 {
        let word = if i % 8 == 0 { " grün" } else { " word" };
        let event = format!(
            "data: {{\"id\":\"chatcmpl-{i:08}\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"some-model-2025\",\"system_fingerprint\":\"fp_0123456789\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{word}\"}},\"logprobs\":null,\"finish_reason\":null}}]}}\n\n"
        );
        bytes.extend_from_slice(event.as_bytes());
    }
    bytes
}

#[divan::bench(args = PIECES)]
fn copy(bencher: Bencher<'_, '_>, piece: usize) {
    let bytes = stream();
    let mut into = vec![0u8; bytes.len()];
    bencher.counter(BytesCount::of_slice(&bytes)).bench_local(|| {
        for (from, to) in bytes.chunks(piece).zip(into.chunks_mut(piece)) {
            divan::black_box(&mut *to).copy_from_slice(divan::black_box(from));
        }
    });
}

#[divan::bench(args = PIECES)]
fn decoder(bencher: Bencher<'_, '_>, piece: usize) {
    let bytes = stream();
    bencher.counter(BytesCount::of_slice(&bytes)).bench_local(|| {
        let mut decoder = Decoder::new();
        let mut seen = 0;
        for chunk in bytes.chunks(piece) {
            let fed = decoder.feed(chunk, |data| {
                seen += divan::black_box(data).len();
                Ok::<(), TooLong>(())
            });
            assert_eq!(fed, Ok(()));
        }
        seen
    });
}

#[divan::bench(args = PIECES, sample_count = 10)]
fn eventsource_stream(bencher: Bencher<'_, '_>, piece: usize) {
    let bytes = stream();
    bencher.counter(BytesCount::of_slice(&bytes)).bench_local(|| {
        let chunks = futures_util::stream::iter(bytes.chunks(piece).map(Ok::<_, Infallible>));
        let events = chunks.eventsource().fold(0, |seen, event| {
            let length = event.map_or(0, |event| divan::black_box(event.data).len());
            std::future::ready(seen + length)
        });
        events.now_or_never()
    });
}
