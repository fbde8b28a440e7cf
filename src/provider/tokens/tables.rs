//! The token tables of two encodings, packed; each is unpacked with its first use.
//!
//! `tiktoken-rs` brings them as text, which would be a fifth of the program. Here they are deflated: how many tokens,
//! the length of each in a byte, then their bytes one after another, all in the order of their ranks.

use std::io::Read;
use std::sync::LazyLock;

use flate2::read::DeflateDecoder;
use tiktoken_rs::{CoreBPE, Rank};

/// The encoding of GPT-4o and everything after it.
pub static O200K: LazyLock<Option<CoreBPE>> = LazyLock::new(|| encoding(O200K_TOKENS, O200K_WORDS));
/// That of GPT-4 and GPT-3.5.
pub static CL100K: LazyLock<Option<CoreBPE>> = LazyLock::new(|| encoding(CL100K_TOKENS, CL100K_WORDS));

const O200K_TOKENS: &[u8] = include_bytes!("o200k_base.z");
const CL100K_TOKENS: &[u8] = include_bytes!("cl100k_base.z");

/// How texts are cut into words before each is looked up.
const O200K_WORDS: &str = tiktoken_rs::O200K_BASE_PAT_STR;
const CL100K_WORDS: &str = "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s";

fn encoding(packed: &[u8], words: &str) -> Option<CoreBPE> {
    let ranks = tokens(packed)?.into_iter().zip(0..).collect();
    CoreBPE::new(ranks, Default::default(), words).ok()
}

/// The tokens in the order of their ranks; none where they are not all there.
fn tokens(packed: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut text = Vec::new();
    DeflateDecoder::new(packed).read_to_end(&mut text).ok()?;
    let (count, rest) = text.split_first_chunk()?;
    let (lengths, mut bytes) = rest.split_at_checked(usize::try_from(Rank::from_le_bytes(*count)).ok()?)?;
    let mut tokens = Vec::with_capacity(lengths.len());
    for length in lengths {
        let (token, rest) = bytes.split_at_checked(usize::from(*length))?;
        tokens.push(token.to_vec());
        bytes = rest;
    }
    bytes.is_empty().then_some(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::DeflateEncoder;

    /// The numbers after the table's are of words of the protocol, with a gap before them.
    fn of_the_crate(encoding: &CoreBPE) -> Vec<Vec<u8>> {
        let all = (0..).map_while(|rank| encoding.decode_bytes(&[rank]).ok());
        all.collect()
    }

    /// `AGON_PACK_TOKENS=1` writes the tables again, for a crate with others.
    #[test]
    fn every_token_is_the_crates() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/provider/tokens");
        for (name, packed, theirs) in [
            ("o200k_base", O200K_TOKENS, tiktoken_rs::o200k_base().unwrap()),
            ("cl100k_base", CL100K_TOKENS, tiktoken_rs::cl100k_base().unwrap()),
        ] {
            let theirs = of_the_crate(&theirs);
            if std::env::var_os("AGON_PACK_TOKENS").is_some() {
                let mut text = u32::try_from(theirs.len()).unwrap().to_le_bytes().to_vec();
                text.extend(theirs.iter().map(|token| u8::try_from(token.len()).unwrap()));
                theirs.iter().for_each(|token| text.extend(token));
                let mut packed = DeflateEncoder::new(Vec::new(), Compression::best());
                packed.write_all(&text).unwrap();
                std::fs::write(format!("{folder}/{name}.z"), packed.finish().unwrap()).unwrap();
            }
            assert!(tokens(packed).unwrap() == theirs, "{name}: AGON_PACK_TOKENS=1 writes them again");
        }
    }

    #[test]
    fn texts_are_cut_as_the_crate_cuts_them() {
        let texts = [
            "",
            "Hello, world! It's 2026-11-22; we'll see.\r\n\r\n    fn main() {}\n\t\tlet x = 1_000_000;   \n",
            "Größe — naïve façade, 你好，世界 🌍👩‍🚀 <|endoftext|> \u{0}\u{ad}",
            "WE'LL don'T I'Ve\u{2028}x\u{a0}y   ",
        ];
        let theirs = [tiktoken_rs::o200k_base().unwrap(), tiktoken_rs::cl100k_base().unwrap()];
        for (ours, theirs) in [&O200K, &CL100K].into_iter().zip(theirs) {
            let ours = ours.as_ref().unwrap();
            for text in texts {
                assert_eq!(ours.encode_ordinary(text), theirs.encode_ordinary(text), "{text:?}");
            }
        }
    }

    #[test]
    fn a_table_that_is_cut_is_none() {
        assert!(tokens(&O200K_TOKENS[..O200K_TOKENS.len() / 2]).is_none());
        assert!(tokens(b"").is_none());
    }
}
