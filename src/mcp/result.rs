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
            ContentBlock::Image(image) => match STANDARD.decode(&image.data) {
                Ok(data) => {
                    parts.push(EndPart::Image { data, words: format!("a picture, {}", image.mime_type) })
                }
                Err(error) => text.push(format!("[a picture, {}, left out: {error}]", image.mime_type)),
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
