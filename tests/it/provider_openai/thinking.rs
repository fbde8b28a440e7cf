//! Thinking between tags in the content: it is thinking, live and in the answer, however the stream is cut.

use agon::protocol::Lane;
use agon::protocol::message::Part;

use super::answer;
use super::ask;
use crate::support::server::Reply;

const WHOLE: &str = "<think>\nIs 2 < 3? Yes.\n</think>\n\n{\"verdict\": true}";

fn parts(message: &[Part]) -> (String, String) {
    let (mut thought, mut said) = (String::new(), String::new());
    for part in message {
        match part {
            Part::Reasoning { text, opaque } => {
                assert!(opaque.is_none(), "nothing of it is sent back");
                thought.push_str(text);
            }
            Part::Text { text } => said.push_str(text),
            other => panic!("{other:?}"),
        }
    }
    (thought, said)
}

#[tokio::test]
async fn tags_are_found_wherever_the_stream_is_cut() {
    for bytes in [1, 2, 3, 5, 7, 64, 4096] {
        let reply = answer(Reply::text(WHOLE).split_every(bytes)).await;
        let expected = ("\nIs 2 < 3? Yes.\n".to_owned(), "{\"verdict\": true}".to_owned());
        assert_eq!(parts(&reply.message), expected, "in pieces of {bytes} bytes");
    }
}

#[tokio::test]
async fn the_live_lane_is_that_of_thinking_until_the_answer_begins() {
    let (ended, live) = ask(Reply::text(WHOLE)).await;
    ended.unwrap();
    assert!(live.lane(Lane::Reasoning).contains("Yes."));
    assert_eq!(live.lane(Lane::Text), "{\"verdict\": true}");
}

#[tokio::test]
async fn a_template_that_opens_the_thinking_itself_leaves_only_the_closing_tag() {
    let reply = answer(Reply::text("so and so\n</think>\n\nyes")).await;
    assert_eq!(parts(&reply.message), ("so and so".to_owned(), "yes".to_owned()));
}
