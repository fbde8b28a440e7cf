//! Pictures as models take them: scaled down where they are large, decoded in bounded memory.

use std::fs::File;
use std::io::{Cursor, Read, Seek, SeekFrom};
use std::sync::{Mutex, PoisonError};

use imagesize::ImageType;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// Bytes of a file that is read as a picture.
const MOST_BYTES: u64 = 32 * 1024 * 1024;

/// Pixels of the longer side: what is larger, providers scale down themselves.
const LONGEST: u32 = 1_568;

/// Bytes that providers take: 5 MB in base64.
const MOST_SENT: usize = 3_700_000;

/// Pixels that are decoded. A JPEG of so many takes 150 MB; a PNG is decoded row by row.
const MOST_PIXELS: u64 = 50_000_000;

/// The same of a PNG whose rows are interlaced, which is decoded as a whole.
const MOST_INTERLACED: u64 = 16_000_000;

/// Pixels of a row, of which some are in memory whatever the format.
const MOST_SIDE: u32 = 32_768;

/// Bytes that a PNG's chunks of texts and colours may unpack to.
const MOST_UNPACKED: usize = 16 * 1024 * 1024;

/// Pictures are decoded one after another, so that many at once take the memory of one.
static ONE: Mutex<()> = Mutex::new(());

/// A picture that models take.
#[derive(Debug, PartialEq, Eq)]
pub struct Picture {
    /// Its bytes.
    pub data: Vec<u8>,
    /// Its MIME type, by its content.
    pub mime: &'static str,
    /// Pixels from left to right, and from top to bottom.
    pub size: (u32, u32),
    /// The size of the picture it was scaled down from.
    pub was: Option<(u32, u32)>,
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

/// Makes a picture fit to be sent; the error says why it cannot be. Each is decoded, also one that is sent as it came:
/// a provider refuses a damaged one again with every request of the session.
pub fn fit(data: Vec<u8>) -> Result<Picture, String> {
    let mime = mime(&data).ok_or("it is no PNG, JPEG, GIF or WebP picture")?;
    let size = imagesize::blob_size(&data).map_err(damaged)?;
    let side = |pixels: usize| u32::try_from(pixels).unwrap_or(u32::MAX);
    let size = (side(size.width), side(size.height));
    let (pixels, longest) = (u64::from(size.0) * u64::from(size.1), size.0.max(size.1));
    if pixels == 0 || pixels > MOST_PIXELS || longest > MOST_SIDE {
        return Err(format!("it has {}×{} pixels, more or less than agon scales down", size.0, size.1));
    }
    let is_fit = longest <= LONGEST && data.len() <= MOST_SENT;
    let decoded = {
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        match mime {
            "image/png" => from_png(&data)?,
            "image/jpeg" => from_jpeg(&data, size)?,
            _ if !is_fit => {
                return Err(format!(
                    "it has {}×{} pixels, and only PNG and JPEG are scaled down",
                    size.0, size.1
                ));
            }
            _ => Pixels { size, channels: 0, bytes: Vec::new() },
        }
    };
    if is_fit {
        return match has_end(&data, mime) {
            true => Ok(Picture { data, mime, size, was: None }),
            false => Err("it is cut off".to_owned()),
        };
    }
    // A photograph takes many bytes as PNG.
    for side in [LONGEST, 1_024, 512] {
        let smaller = decoded.within(side)?;
        let data = smaller.to_png()?;
        if data.len() <= MOST_SENT {
            return Ok(Picture { data, mime: "image/png", size: smaller.size, was: Some(size) });
        }
    }
    Err("it takes too many bytes even when it is small".to_owned())
}

fn damaged(error: impl std::fmt::Display) -> String {
    format!("it is damaged or cut off: {error}")
}

/// True where a picture has its end; the decoder of a PNG has read it.
fn has_end(data: &[u8], mime: &str) -> bool {
    match mime {
        "image/jpeg" => {
            let last = |marker: u8| data.windows(2).rposition(|pair| pair == [0xff, marker]);
            last(0xd9) > last(0xda)
        }
        "image/gif" => data.ends_with(b";"),
        "image/webp" => {
            let length = data.get(4..8).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
            length.is_some_and(|length| length as usize + 8 <= data.len())
        }
        _ => true,
    }
}

fn from_png(data: &[u8]) -> Result<Pixels, String> {
    let limits = png::Limits { bytes: MOST_UNPACKED };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(data), limits);
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(damaged)?;
    let (size, channels) = (reader.info().size(), reader.output_color_type().0.samples());
    let mut scaled = Scaler::new(size, channels, LONGEST);
    if reader.info().interlaced {
        if u64::from(size.0) * u64::from(size.1) > MOST_INTERLACED {
            return Err(format!("it has {}×{} interlaced pixels", size.0, size.1));
        }
        let mut bytes = vec![0; reader.output_buffer_size().ok_or("it is too large")?];
        reader.next_frame(&mut bytes).map_err(damaged)?;
        scaled.push(&bytes);
    } else {
        while let Some(row) = reader.next_row().map_err(damaged)? {
            scaled.push(row.data());
        }
    }
    reader.finish().map_err(damaged)?;
    scaled.end()
}

fn from_jpeg(data: &[u8], size: (u32, u32)) -> Result<Pixels, String> {
    let options = DecoderOptions::default()
        .set_strict_mode(true)
        .set_max_width(size.0 as usize)
        .set_max_height(size.1 as usize)
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let bytes = JpegDecoder::new_with_options(Cursor::new(data), options).decode().map_err(damaged)?;
    let pixels = size.0 as usize * size.1 as usize;
    let mut scaled = Scaler::new(size, bytes.len() / pixels.max(1), LONGEST);
    scaled.push(&bytes);
    scaled.end()
}

/// Pixels of a decoded picture, row by row, some bytes each.
struct Pixels {
    size: (u32, u32),
    channels: usize,
    bytes: Vec<u8>,
}

impl Pixels {
    /// The same with no side longer than this.
    fn within(&self, longest: u32) -> Result<Pixels, String> {
        let mut scaled = Scaler::new(self.size, self.channels, longest);
        scaled.push(&self.bytes);
        scaled.end()
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

/// Scales rows down as they come: each pixel is the mean of those it stands for.
struct Scaler {
    from: (u32, u32),
    to: Pixels,
    /// Where each pixel of a row is added up.
    at: Vec<usize>,
    /// How many pixels of a row are added up there.
    count: Vec<u32>,
    sums: Vec<u32>,
    /// Rows that came, and those of them that are in the sums.
    rows: u32,
    summed: u32,
}

impl Scaler {
    fn new(from: (u32, u32), channels: usize, longest: u32) -> Scaler {
        let most = from.0.max(from.1).max(1);
        let scaled = |side: u32| if most > longest { share(side, longest, most).max(1) } else { side };
        let size = (scaled(from.0), scaled(from.1));
        let at: Vec<usize> = (0..from.0).map(|x| share(x, size.0, from.0) as usize).collect();
        let mut count = vec![0; size.0 as usize];
        at.iter().for_each(|x| count[*x] += 1);
        let sums = vec![0; size.0 as usize * channels];
        let to = Pixels { size, channels, bytes: Vec::with_capacity(sums.len() * size.1 as usize) };
        Scaler { from, to, at, count, sums, rows: 0, summed: 0 }
    }

    /// Takes whole rows.
    fn push(&mut self, bytes: &[u8]) {
        let channels = self.to.channels.max(1);
        for row in bytes.chunks_exact(self.at.len().max(1) * channels) {
            for (pixel, x) in row.chunks_exact(channels).zip(&self.at) {
                let sums = self.sums[x * channels..].iter_mut();
                sums.zip(pixel).for_each(|(sum, byte)| *sum += u32::from(*byte));
            }
            let line = |row| share(row, self.to.size.1, self.from.1);
            let is_last = line(self.rows + 1) > line(self.rows);
            (self.rows, self.summed) = (self.rows + 1, self.summed + 1);
            if is_last {
                let of =
                    self.count.iter().flat_map(|count| std::iter::repeat_n(count * self.summed, channels));
                let means = self.sums.iter().zip(of).map(|(sum, of)| sum / of.max(1));
                self.to.bytes.extend(means.map(|mean| u8::try_from(mean).unwrap_or(u8::MAX)));
                self.sums.fill(0);
                self.summed = 0;
            }
        }
    }

    fn end(self) -> Result<Pixels, String> {
        match self.to.bytes.len() == self.sums.len() * self.to.size.1 as usize && !self.sums.is_empty() {
            true => Ok(self.to),
            false => Err("its header and its pixels do not agree".to_owned()),
        }
    }
}

/// `part` of `whole`, scaled to `to`.
fn share(part: u32, to: u32, whole: u32) -> u32 {
    u32::try_from(u64::from(part) * u64::from(to) / u64::from(whole.max(1))).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A picture of one colour.
    fn plain(size: (u32, u32), channels: usize, byte: u8) -> Vec<u8> {
        let bytes = vec![byte; size.0 as usize * size.1 as usize * channels];
        Pixels { size, channels, bytes }.to_png().unwrap()
    }

    /// A picture with its header changed, and the sum over it.
    fn claiming(mut data: Vec<u8>, size: (u32, u32)) -> Vec<u8> {
        data[16..20].copy_from_slice(&size.0.to_be_bytes());
        data[20..24].copy_from_slice(&size.1.to_be_bytes());
        let mut sum = flate2::Crc::new();
        sum.update(&data[12..29]);
        data[29..33].copy_from_slice(&sum.sum().to_be_bytes());
        data
    }

    /// A JPEG of 16×16 grey pixels.
    const JPEG: &[u8] = include_bytes!("picture/grey.jpg");

    #[test]
    fn a_small_picture_is_sent_as_it_is_and_a_large_one_smaller() {
        let small = plain((40, 30), 4, 9);
        let sent = Picture { data: small.clone(), mime: "image/png", size: (40, 30), was: None };
        assert_eq!(fit(small), Ok(sent));
        for channels in 1..=4 {
            let sent = fit(plain((3_136, 1_000), channels, 77)).unwrap();
            assert_eq!((sent.mime, sent.size, sent.was), ("image/png", (1_568, 500), Some((3_136, 1_000))));
            let pixels = from_png(&sent.data).unwrap();
            assert_eq!((pixels.size, pixels.channels), (sent.size, channels));
            assert!(pixels.bytes.iter().all(|byte| *byte == 77), "one colour stays one colour");
        }
        assert_eq!(fit(plain((9_000, 2), 3, 1)).unwrap().size, (1_568, 1), "no side is lost");
        assert_eq!(fit(JPEG.to_vec()).unwrap().mime, "image/jpeg");
    }

    #[test]
    fn a_pixel_is_the_mean_of_those_it_stands_for() {
        let (black, white) = ([0, 0], [200, 100]);
        let bytes = [black, white, black, white, white, white, black, black].concat();
        let four = Pixels { size: (4, 2), channels: 2, bytes };
        assert_eq!(four.within(2).unwrap().bytes, [150, 75, 50, 25]);
    }

    #[test]
    fn what_is_no_picture_is_refused_by_its_header() {
        for size in [(30_000, 30_000), (u32::MAX, u32::MAX), (40_000, 1), (0, 30)] {
            let error = fit(claiming(plain((40, 30), 3, 0), size)).unwrap_err();
            assert!(error.contains(&format!("{}×{} pixels", size.0, size.1)), "{error}");
        }
        for nonsense in [&b""[..], b"no picture at all", b"%PDF-1.7 and more", b"\xff\xd8\xff", b"GIF89a"] {
            assert!(fit(nonsense.to_vec()).is_err(), "{nonsense:?}");
        }
        assert_eq!(mime(b"GIF89a\x01\0\x01\0\x80\0\0"), Some("image/gif"));
    }

    #[test]
    fn what_is_cut_off_or_claims_other_pixels_is_refused_whatever_its_size() {
        let whole = [plain((40, 30), 3, 7), plain((3_000, 3_000), 3, 7), JPEG.to_vec()];
        for whole in &whole {
            assert!(fit(whole.clone()).is_ok());
            for cut in [whole.len() - 1, whole.len() - 13, whole.len() / 2, 60] {
                assert!(fit(whole[..cut].to_vec()).is_err(), "{cut} of {}", whole.len());
            }
        }
        for size in [(41, 30), (40, 31), (4_000, 4_000)] {
            assert!(fit(claiming(whole[0].clone(), size)).is_err(), "{size:?}");
        }
        let gif = b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;";
        assert_eq!(fit(gif.to_vec()).unwrap().size, (1, 1));
        assert!(fit(gif[..30].to_vec()).is_err());
    }
}
