//! Results that are more than text: pictures as blobs, links, and words for models that see neither.

use std::sync::Arc;

use agon::ports::{EndPart, Preparation, Sandbox, Tool, ToolEnd};
use agon::protocol::ArenaEvent;
use agon::protocol::effect::ToolCall;
use agon::protocol::event::{LinkPart, ResultPart, ToolResolved};
use agon::protocol::message::ImagePart;
use agon::protocol::spec::{Risk, ToolSpec};
use serde_json::json;

use super::kit::*;

/// Shows a picture of this many bytes and where it is from.
struct Shows(usize);

#[async_trait::async_trait]
impl Tool for Shows {
    fn spec(&self) -> ToolSpec {
        ToolSpec::new("show", "Shows a picture.", json!({"type": "object"}), Risk::Read)
    }

    async fn prepare(&self, _: &ToolCall, _: &dyn Sandbox) -> Result<Preparation, String> {
        let picture = EndPart::Image {
            data: vec![7; self.0],
            mime: "image/png".to_owned(),
            size: (640, 480),
            words: "a login form".to_owned(),
        };
        let link = LinkPart { url: "http://localhost/login".to_owned(), title: "the page".to_owned() };
        let parts = vec![picture, EndPart::Link(link)];
        Ok(Preparation::new("show", Risk::Read, move |_| {
            Box::pin(async move { ToolEnd { parts, ..ToolEnd::ok("taken") } })
        }))
    }
}

async fn shown(bytes: usize, expect: &str) -> (Place, ToolResolved) {
    let place = Place::new();
    let script = format!(
        "[[answer]]\ncalls = [{{ tool = \"show\" }}]\n[[answer]]\nexpect = \"{expect}\"\ntext = \"seen\"\n"
    );
    let running = place.scripted(&script).tool(Arc::new(Shows(bytes))).open().await.unwrap();
    let log = whole_turn(&running, "look").await;
    let resolved = log.iter().flat_map(|entry| &entry.events).find_map(|event| match event {
        ArenaEvent::ToolResolved(data) => Some(data.body.clone()),
        _ => None,
    });
    let text = log.iter().flat_map(|entry| &entry.events).filter_map(ArenaEvent::answer_text).next_back();
    assert_eq!(text.as_deref(), Some("seen"), "the script did not see {expect}: {log:#?}");
    (place, resolved.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_picture_is_a_blob_and_its_request_names_it() {
    let (place, end) = shown(1000, "[the page](http://localhost/login)").await;
    assert_eq!(end.content, "taken");
    let [ResultPart::Image(ImagePart { sha256, bytes: 1000, .. }), ResultPart::Link(_)] = &end.parts[..]
    else {
        panic!("{:?}", end.parts)
    };
    let blob = std::fs::read(place.state().join("blobs").join(&sha256[..2]).join(sha256)).unwrap();
    assert_eq!(blob, vec![7; 1000]);
    assert_eq!(
        end.words(),
        "taken\n[the page](http://localhost/login)\n[image/png of 640×480: a login form]"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_picture_that_is_too_large_is_left_out_and_named() {
    let (_place, end) = shown(6 * 1024 * 1024, "left out").await;
    assert!(matches!(&end.parts[..], [ResultPart::Link(_)]), "{:?}", end.parts);
    assert!(end.content.contains("[image/png left out (it has 6291456 bytes"), "{}", end.content);
    assert!(end.content.contains("a login form"));
}
