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

/// Shows these bytes as a picture and where it is from.
struct Shows(Vec<u8>);

/// A white PNG.
fn png((width, height): (u32, u32)) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, width, height);
    encoder.set_color(png::ColorType::Rgba);
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(&vec![255; width as usize * height as usize * 4]).unwrap();
    writer.finish().unwrap();
    out
}

#[async_trait::async_trait]
impl Tool for Shows {
    fn spec(&self) -> ToolSpec {
        ToolSpec::new("show", "Shows a picture.", json!({"type": "object"}), Risk::Read)
    }

    async fn prepare(&self, _: &ToolCall, _: &dyn Sandbox) -> Result<Preparation, String> {
        let picture = EndPart::Image { data: self.0.clone(), words: "a login form".to_owned() };
        let link = LinkPart { url: "http://localhost/login".to_owned(), title: "the page".to_owned() };
        let parts = vec![picture, EndPart::Link(link)];
        Ok(Preparation::new("show", Risk::Read, move |_| {
            Box::pin(async move { ToolEnd { parts, ..ToolEnd::ok("taken") } })
        }))
    }
}

async fn shown(bytes: Vec<u8>, expect: &str) -> (Place, ToolResolved) {
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
    let whole = png((64, 48));
    let (place, end) = shown(whole.clone(), "[the page](http://localhost/login)").await;
    assert_eq!(end.content, "taken");
    let [ResultPart::Image(ImagePart { sha256, .. }), ResultPart::Link(_)] = &end.parts[..] else {
        panic!("{:?}", end.parts)
    };
    let blob = std::fs::read(place.state().join("blobs").join(&sha256[..2]).join(sha256)).unwrap();
    assert_eq!(blob, whole);
    assert_eq!(end.words(), "taken\n[the page](http://localhost/login)\n[image/png of 64×48: a login form]");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_picture_is_scaled_down_and_its_words_say_so() {
    let (_place, end) = shown(png((3_136, 1_000)), "the page").await;
    let words = "[image/png of 1568×500: a login form, scaled down from 3136×1000]";
    assert!(end.words().ends_with(words), "{}", end.words());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_model_takes_as_a_picture_is_left_out_and_named() {
    let (_place, end) = shown(vec![7; 1_000], "left out").await;
    assert!(matches!(&end.parts[..], [ResultPart::Link(_)]), "{:?}", end.parts);
    assert!(end.content.contains("[picture left out (it is no PNG"), "{}", end.content);
    assert!(end.content.contains("a login form"));
}
