//! What a server's tool gives, as the end of a call: its text, its pictures, its links.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

use crate::ports::{EndPart, ToolEnd};
use crate::protocol::event::LinkPart;

/// The end of a call. A link is named and never followed.
pub fn end_of(result: CallToolResult) -> ToolEnd {
    let (mut text, mut parts) = (Vec::new(), Vec::new());
    let is_empty = result.content.is_empty();
    for block in result.content {
        match block {
            ContentBlock::Text(block) => text.push(block.text),
            ContentBlock::Image(image) => match picture(&image.data, &image.mime_type) {
                Ok(part) => parts.push(part),
                Err(why) => text.push(format!("[a picture, {}, left out: {why}]", image.mime_type)),
            },
            ContentBlock::Resource(resource) => text.push(match resource.resource {
                ResourceContents::TextResourceContents { uri, text, .. } => format!("[{uri}]\n{text}"),
                ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                    let kind = mime_type.unwrap_or_else(|| "no text".to_owned());
                    format!("[{uri}: {kind}, {} bytes as base64, left out]", blob.len())
                }
                _ => "[a resource of a kind that agon does not know, left out]".to_owned(),
            }),
            ContentBlock::ResourceLink(link) => {
                let title = link.title.unwrap_or(link.name);
                parts.push(EndPart::Link(LinkPart { url: link.uri, title }));
            }
            ContentBlock::Audio(audio) => {
                text.push(format!("[{}, {} bytes as base64, left out]", audio.mime_type, audio.data.len()));
            }
            _ => text.push("[a part of a kind that agon does not know, left out]".to_owned()),
        }
    }
    if let Some(structured) = result.structured_content.filter(|_| is_empty) {
        text.push(structured.to_string());
    }
    let text = text.join("\n");
    let end = if result.is_error == Some(true) { ToolEnd::failed(text) } else { ToolEnd::ok(text) };
    ToolEnd { parts, ..end }
}

fn picture(data: &str, mime: &str) -> Result<EndPart, String> {
    let data = STANDARD.decode(data).map_err(|error| format!("it is not base64: {error}"))?;
    let size = size_of(&data).ok_or("agon does not know how large it is")?;
    let words = format!("a picture of {} by {} pixels", size.0, size.1);
    Ok(EndPart::Image { data, mime: mime.to_owned(), size, words })
}

/// Pixels of a PNG, GIF or JPEG picture.
fn size_of(data: &[u8]) -> Option<(u32, u32)> {
    let number = |at: usize, bytes: usize| {
        let bytes = data.get(at..at + bytes)?;
        Some(bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    };
    let little = |at: usize| Some(u32::from(*data.get(at)?) | u32::from(*data.get(at + 1)?) << 8);
    if data.starts_with(b"\x89PNG\r\n\x1a\n") {
        return Some((number(16, 4)?, number(20, 4)?));
    }
    if data.starts_with(b"GIF8") {
        return Some((little(6)?, little(8)?));
    }
    let mut at = 2;
    while data.starts_with(b"\xff\xd8") {
        match (number(at, 1)?, number(at + 1, 1)?) {
            // A frame's header, whatever its coding.
            (0xff, 0xc0..=0xcf) if !matches!(data.get(at + 1), Some(0xc4 | 0xc8 | 0xcc)) => {
                return Some((number(at + 7, 2)?, number(at + 5, 2)?));
            }
            (0xff, _) => at += 2 + usize::try_from(number(at + 2, 2)?).ok()?,
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_are_read_from_the_heads_of_pictures_and_nonsense_has_none() {
        let png = [&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], &[0, 0, 1, 0, 0, 0, 0, 7]].concat();
        let jpeg = b"\xff\xd8\xff\xe0\0\x04ab\xff\xc0\0\x11\x08\0\x05\0\x09\x03";
        assert_eq!(size_of(&png), Some((256, 7)));
        assert_eq!(size_of(b"GIF89a\x03\0\x02\0"), Some((3, 2)));
        assert_eq!(size_of(jpeg), Some((9, 5)));
        for nonsense in
            [&b""[..], b"\xff\xd8", b"\xff\xd8\xff\xe0\xff\xff", b"\x89PNG\r\n\x1a\n", b"GIF8", b"text"]
        {
            assert_eq!(size_of(nonsense), None, "{nonsense:?}");
        }
    }
}
