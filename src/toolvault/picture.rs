//! Pictures as models take them: scaled down where they are large, decoded in bounded memory.

use std::fs::File;
use std::io::{Cursor, Read, Seek, SeekFrom};

use imagesize::ImageType;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use crate::ports::EndPart;
use crate::protocol::text::name_shown;

/// Bytes of a file that is read as a picture.
const MOST_BYTES: u64 = 32 * 1024 * 1024;

/// Pixels of the longer side: what is larger, providers scale down themselves.
const LONGEST: u32 = 1_568;

/// Bytes that providers take: 5 MB in base64.
const MOST_SENT: usize = 3_700_000;

/// Pixels that are decoded: 256 MB of memory.
const MOST_PIXELS: u64 = 64_000_000;

/// Pixels of a decoded picture, row by row, some bytes each.
struct Pixels {
    size: (u32, u32),
    channels: usize,
    bytes: Vec<u8>,
}

/// What a file's first bytes say, for pictures that models take.
pub fn mime(head: &[u8]) -> Option<&'static str> {
    match imagesize::image_type(head).ok()? {
        ImageType::Png => Some("image/png"),
        ImageType::Jpeg => Some("image/jpeg"),
        ImageType::Gif => Some("image/gif"),
        ImageType::Webp => Some("image/webp"),
        _ => None,
    }
}

/// The whole content of a file that is not too large for a picture.
pub fn bytes_of(file: &mut File) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| error.to_string();
    file.seek(SeekFrom::Start(0)).map_err(failed)?;
    let mut data = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut data).map_err(failed)?;
    match data.len() as u64 > MOST_BYTES {
        true => Err(format!("it has more than {MOST_BYTES} bytes")),
        false => Ok(data),
    }
}

/// Makes the picture in a file fit to be sent; the error says why it cannot be.
pub fn fit(path: &str, data: Vec<u8>) -> Result<EndPart, String> {
    let mime = mime(&data).ok_or("it is no PNG, JPEG, GIF or WebP picture")?;
    let size = imagesize::blob_size(&data).map_err(|error| error.to_string())?;
    let side = |pixels: usize| u32::try_from(pixels).unwrap_or(u32::MAX);
    let was = (side(size.width), side(size.height));
    if was.0.max(was.1) <= LONGEST && data.len() <= MOST_SENT {
        return Ok(EndPart::Image { data, mime: mime.to_owned(), size: was, words: name_shown(path) });
    }
    let pixels = u64::from(was.0) * u64::from(was.1);
    if pixels == 0 || pixels > MOST_PIXELS {
        return Err(format!("it has {}×{} pixels, more than {MOST_PIXELS} in all", was.0, was.1));
    }
    let decoded = match mime {
        "image/png" => from_png(&data)?,
        "image/jpeg" => from_jpeg(&data, was)?,
        _ => return Err(format!("it is too large ({}×{} pixels) and only PNG and JPEG are scaled down", was.0, was.1)),
    };
    // A photograph takes many bytes as PNG.
    for side in [LONGEST, 1_024, 512] {
        let smaller = decoded.within(side);
        let data = smaller.to_png()?;
        if data.len() <= MOST_SENT {
            let words = format!("{}, scaled down from {}×{}", name_shown(path), was.0, was.1);
            return Ok(EndPart::Image { data, mime: "image/png".to_owned(), size: smaller.size, words });
        }
    }
    Err("it takes too many bytes even when it is small".to_owned())
}

fn from_png(data: &[u8]) -> Result<Pixels, String> {
    let bad = |error: png::DecodingError| error.to_string();
    let limits = png::Limits { bytes: 4 * MOST_PIXELS as usize };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(data), limits);
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(bad)?;
    let mut bytes = vec![0; reader.output_buffer_size().ok_or("it is too large")?];
    let frame = reader.next_frame(&mut bytes).map_err(bad)?;
    bytes.truncate(frame.buffer_size());
    Ok(Pixels { size: (frame.width, frame.height), channels: frame.color_type.samples(), bytes })
}

fn from_jpeg(data: &[u8], size: (u32, u32)) -> Result<Pixels, String> {
    let options = DecoderOptions::default().jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(Cursor::new(data), options);
    let bytes = decoder.decode().map_err(|error| error.to_string())?;
    let whole = u64::from(size.0) * u64::from(size.1) * 3;
    match bytes.len() as u64 == whole {
        true => Ok(Pixels { size, channels: 3, bytes }),
        false => Err("its header and its pixels do not agree".to_owned()),
    }
}

impl Pixels {
    /// The same with no side longer than this: each pixel is the mean of those it stands for.
    fn within(&self, longest: u32) -> Pixels {
        let (wide, high) = self.size;
        let scaled = |side: u32| match wide.max(high) {
            most if most > longest => u32::try_from(u64::from(side) * u64::from(longest) / u64::from(most)).unwrap_or(1).max(1),
            _ => side,
        };
        let size = (scaled(wide), scaled(high));
        let from = |at: u32, to: u32, of: u32| (u64::from(at) * u64::from(of) / u64::from(to)) as usize;
        let mut bytes = Vec::with_capacity(size.0 as usize * size.1 as usize * self.channels);
        for y in 0..size.1 {
            let rows = from(y, size.1, high)..from(y + 1, size.1, high);
            for x in 0..size.0 {
                let columns = from(x, size.0, wide)..from(x + 1, size.0, wide);
                let count = (rows.len() * columns.len()).max(1) as u32;
                for channel in 0..self.channels {
                    let row = |row: usize| {
                        let at = |column| (row * wide as usize + column) * self.channels + channel;
                        let bytes = columns.clone().filter_map(|column| self.bytes.get(at(column)));
                        bytes.map(|byte| u32::from(*byte)).sum::<u32>()
                    };
                    bytes.push(u8::try_from(rows.clone().map(row).sum::<u32>() / count).unwrap_or(u8::MAX));
                }
            }
        }
        Pixels { size, channels: self.channels, bytes }
    }

    fn to_png(&self) -> Result<Vec<u8>, String> {
        let bad = |error: png::EncodingError| error.to_string();
        let mut out = Vec::new();
        let mut encoder = png::Encoder::new(&mut out, self.size.0, self.size.1);
        encoder.set_compression(png::Compression::Fast);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_color(match self.channels {
            1 => png::ColorType::Grayscale,
            2 => png::ColorType::GrayscaleAlpha,
            3 => png::ColorType::Rgb,
            _ => png::ColorType::Rgba,
        });
        let mut writer = encoder.write_header().map_err(bad)?;
        writer.write_image_data(&self.bytes).map_err(bad)?;
        writer.finish().map_err(bad)?;
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A picture of one colour.
    fn plain(size: (u32, u32), channels: usize, byte: u8) -> Vec<u8> {
        let bytes = vec![byte; size.0 as usize * size.1 as usize * channels];
        Pixels { size, channels, bytes }.to_png().unwrap()
    }

    fn sent(data: Vec<u8>) -> Result<(String, (u32, u32), Vec<u8>, String), String> {
        fit("shot.png", data).map(|part| match part {
            EndPart::Image { data, mime, size, words } => (mime, size, data, words),
            EndPart::Link(link) => panic!("{link:?}"),
        })
    }

    #[test]
    fn a_small_picture_is_sent_as_it_is_and_a_large_one_smaller() {
        let small = plain((40, 30), 4, 9);
        assert_eq!(sent(small.clone()).unwrap(), ("image/png".into(), (40, 30), small, "shot.png".into()));
        for channels in 1..=4 {
            let (mime, size, data, words) = sent(plain((3_136, 1_000), channels, 77)).unwrap();
            assert_eq!((mime.as_str(), size), ("image/png", (1_568, 500)));
            assert_eq!(words, "shot.png, scaled down from 3136×1000");
            let pixels = from_png(&data).unwrap();
            assert_eq!((pixels.size, pixels.channels), (size, channels));
            assert!(pixels.bytes.iter().all(|byte| *byte == 77), "one colour stays one colour");
        }
    }

    #[test]
    fn what_is_no_picture_or_a_bomb_or_cut_off_is_refused_before_it_takes_memory() {
        let mut bomb = plain((40, 30), 3, 0);
        bomb[16..24].copy_from_slice(&[0, 0, 0x75, 0x30, 0, 0, 0x75, 0x30]);
        assert!(sent(bomb).unwrap_err().contains("30000×30000 pixels"));
        let cut = plain((3_000, 3_000), 3, 7);
        assert!(sent(cut[..cut.len() / 2].to_vec()).is_ok_and(|(_, size, ..)| size == (1_568, 1_568)) || sent(cut[..60].to_vec()).is_err());
        assert!(sent(b"no picture at all".to_vec()).is_err());
        assert_eq!((mime(b"GIF89a\x01\0\x01\0"), mime(b"%PDF-1.7 and more")), (Some("image/gif"), None));
    }
}
