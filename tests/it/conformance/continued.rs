//! A provider writes only what is new of a conversation: what it sends is what one that knows nothing of it would send.

use std::sync::Arc;

use agon::protocol::message::{AnswerSchema, Structured};

use super::*;

/// Requests of one conversation, then of one that was cut, then of a typed one.
fn conversation(wire: Wire) -> Vec<Request> {
    let asked = |path: &str| Part::Call {
        // Some servers give every call the same id.
        id: "a".into(),
        name: "read".into(),
        args: Args::Json(json!({"path": path})),
    };
    let result = |content: &str| Part::Result {
        id: "a".into(),
        name: "read".into(),
        content: content.into(),
        is_error: false,
    };
    let text = |text: &str| Part::Text { text: text.into() };
    let all = vec![
        said(Role::System, "Be brief."),
        said(Role::User, "hello"),
        message(Role::Assistant, vec![text("Looking."), asked("x"), asked("y")]),
        message(Role::Tool, vec![result("[e3] one"), text("beside it")]),
        message(Role::Tool, vec![result("[e4] two")]),
        message(Role::Assistant, vec![asked("z")]),
        message(Role::Tool, vec![result("[e5] three"), text("and this")]),
        said(Role::User, "and now?"),
        said(Role::User, "really?"),
        said(Role::Assistant, "yes"),
        said(Role::User, "go on"),
    ];
    let of = |messages: &[Arc<_>]| Request { messages: messages.to_vec(), ..hello(wire) };
    let mut cut = all.clone();
    cut[1] = said(Role::User, "what was said before, in short");
    let mut typed = of(&all);
    typed.params.schema = Some(AnswerSchema {
        name: "answer".into(),
        schema: json!({"type": "object", "properties": {}}),
        via: Structured::ResponseFormat,
    });
    let ends = [2, 5, 7, 9, 9, 11].map(|end| of(&all[..end]));
    ends.into_iter().chain([of(&cut), typed, of(&all)]).collect()
}

#[tokio::test]
async fn what_was_written_before_does_not_change_what_is_sent() {
    for wire in wires() {
        let server = wire.server(move |_, _| wire.reply(&Says::text("ok")));
        let knowing = wire.provider(&server.url());
        let requests = conversation(wire);
        for request in &requests {
            for provider in [&knowing, &wire.provider(&server.url())] {
                // What a host says of it is asked elsewhere.
                let _ = provider.call(request, &Recorder::default(), &CancellationToken::new()).await;
            }
        }
        server.take_violations();
        let bodies = server.bodies();
        assert_eq!(bodies.len(), requests.len() * 2, "{wire:?}");
        for (at, both) in bodies.chunks(2).enumerate() {
            assert_eq!(both[0].to_string(), both[1].to_string(), "{wire:?}, request {at}");
        }
    }
}
