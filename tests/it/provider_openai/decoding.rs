//! Server-sent events cut anywhere, beside the same bytes read whole and beside another library.

use std::convert::Infallible;

use agon::provider::sse::{Decoder, TooLong};
use eventsource_stream::Eventsource;
use futures_util::{FutureExt, TryStreamExt};
use proptest::prelude::*;

fn pieces(bytes: &[u8], mut cuts: Vec<usize>) -> Vec<&[u8]> {
    cuts.iter_mut().for_each(|cut| *cut %= bytes.len() + 1);
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

fn ours(pieces: &[&[u8]]) -> Vec<String> {
    let mut decoder = Decoder::new();
    let mut seen = Vec::new();
    for piece in pieces {
        let fed = decoder.feed(piece, |data| {
            seen.push(data.to_owned());
            Ok::<(), TooLong>(())
        });
        assert_eq!(fed, Ok(()));
    }
    seen
}

fn theirs(pieces: &[&[u8]]) -> Vec<String> {
    let stream = futures_util::stream::iter(pieces.iter().map(|piece| Ok::<_, Infallible>(*piece)));
    let events: Vec<_> = stream.eventsource().try_collect().now_or_never().unwrap().unwrap();
    events.into_iter().map(|event| event.data).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_stream_in_any_pieces_decodes_as_elsewhere(
        lines in proptest::collection::vec(("(data|data:|data: |event: |id|: |:|dat|data\u{e9}:)?[ a:\u{e9}\u{1f600}]{0,5}", "\n|\r|\r\n|\n\n"), 0..12),
        mark in any::<bool>(),
        cuts in proptest::collection::vec(any::<usize>(), 0..12),
    ) {
        let mut text: String = lines.iter().map(|(line, end)| format!("{line}{end}")).collect();
        text.push('\n');
        // The peer panics on a byte order mark.
        let marked = format!("{}{text}", if mark { "\u{feff}" } else { "" });
        prop_assert_eq!(ours(&pieces(marked.as_bytes(), cuts)), theirs(&[text.as_bytes()]), "{:?}", text);
    }
}
