//! What goes well: texts, calls, typed answers, thinking that goes back, counts, and why an answer ends.

use agon::protocol::message::{AnswerSchema, Effort, Structured};

use super::*;

#[tokio::test]
async fn a_text_streams_word_by_word_and_is_counted() {
    for wire in wires() {
        let says = Says { thought: "Let me think.", proof: "p1".into(), ..Says::text("one two three") };
        let (reply, live) = answer(wire, &says).await;
        assert_eq!((texts(&reply).as_str(), reply.finish), ("one two three", Finish::Stop), "{wire:?}");
        assert_eq!(live.lane(Lane::Text), "one two three", "{wire:?}");
        assert_eq!(live.lane(Lane::Reasoning), "Let me think.", "{wire:?}");
        assert_eq!(live.pieces().iter().filter(|(lane, _)| *lane == Lane::Text).count(), 3, "{wire:?}");
        let counted =
            Usage { input: 100, cached: 60, written: 30, output: 25, reasoning: 7, estimated: false };
        assert_eq!(reply.usage, counted, "{wire:?}");
        assert_eq!(reply.model, wire.model(), "{wire:?}");
    }
}

fn reads(paths: &[&str]) -> Says {
    let call = |(n, path): (usize, &&str)| (format!("call{n}aaaa"), "read", json!({"path": path}));
    Says { calls: paths.iter().enumerate().map(call).collect(), ..Says::default() }
}

#[tokio::test]
async fn one_call_and_several_at_once() {
    for wire in wires() {
        for paths in [&["ä.txt"][..], &["a", "b", "c"]] {
            let (reply, live) = answer(wire, &reads(paths)).await;
            let expected: Vec<_> =
                paths.iter().map(|path| ("read".to_owned(), json!({"path": path}))).collect();
            assert_eq!((calls(&reply), reply.finish), (expected, Finish::ToolCalls), "{wire:?}");
            for (n, path) in paths.iter().enumerate() {
                let lane = Lane::Args(u16::try_from(n).unwrap());
                assert_eq!(live.lane(lane), json!({"path": path}).to_string(), "{wire:?}");
            }
        }
    }
}

/// An answer in the way it was asked for: by the forced tool where there is one, as text else.
fn typed(wire: Wire, request: &Value) -> Reply {
    let ballot = json!({"vote": "yes"});
    let forced = request["tool_choice"].is_object();
    wire.reply(&match forced {
        true => Says { calls: vec![("call1aaaa".into(), "ballot", ballot)], ..Says::default() },
        false => Says::text(&ballot.to_string()),
    })
}

#[tokio::test]
async fn typed_answers_in_every_way_of_asking() {
    let ways =
        [Structured::ResponseFormat, Structured::JsonObject, Structured::ForcedTool, Structured::Words];
    let schema = json!({"type": "object", "properties": {"vote": {"type": "string"}}, "required": ["vote"], "additionalProperties": false});
    for wire in wires() {
        for via in ways {
            let server = wire.server(move |request, _| typed(wire, request));
            let mut request = hello(wire);
            request.tools.clear();
            // The tests' newer model takes no forced tool, as its row in the shipped table says.
            request.model = "mock/model-1".into();
            if matches!(via, Structured::JsonObject | Structured::Words) {
                request.messages.push(said(Role::User, "Answer with JSON only."));
            }
            request.params.schema = Some(AnswerSchema { name: "ballot".into(), schema: schema.clone(), via });
            let (ended, live) = call(wire, &server, &request).await;
            let reply = ended.unwrap_or_else(|failed| panic!("{wire:?} {via:?}: {}", failed.message));
            let expected = "{\"vote\":\"yes\"}";
            assert_eq!((texts(&reply).as_str(), reply.finish), (expected, Finish::Stop), "{wire:?} {via:?}");
            assert_eq!(live.lane(Lane::Text), expected, "{wire:?} {via:?}");
        }
    }
}

/// Where the effort is in a request of this wire.
fn effort_of(wire: Wire, body: &Value) -> Option<&str> {
    let place = match wire.kind {
        "anthropic" => "/output_config/effort",
        "openai-responses" => "/reasoning/effort",
        _ => "/reasoning_effort",
    };
    body.pointer(place).and_then(Value::as_str)
}

/// How models without efforts refuse one: anthropics/claude-code#30010, BerriAI/litellm#16265, earendil-works/pi#1745.
const NO_EFFORT: [&str; 3] = [
    "This model does not support the effort parameter.",
    "Model grok-4-latest does not support parameter reasoningEffort.",
    "`reasoning_effort` must be one of `none` or `default`",
];

#[tokio::test]
async fn effort_is_asked_for_and_left_out_where_it_is_refused() {
    for wire in wires() {
        let words = match wire.dialect {
            Some("groq") => NO_EFFORT[2],
            Some(_) => NO_EFFORT[1],
            None => NO_EFFORT[0],
        };
        let server = wire.server(move |body, _| match body.to_string().contains("effort") {
            true => Reply::status(400, &wire.error("invalid_request_error", words).to_string()),
            false => wire.reply(&Says::text("ok")),
        });
        let mut request = hello(wire);
        request.params.effort = Some(Effort::Low);
        let failed = call(wire, &server, &request).await.0.unwrap_err();
        assert_eq!(failed.refused.len(), 1, "{wire:?}: {failed:?}");
        server.take_violations();
        request.params.without = failed.refused;
        if wire.dialect == Some("llama-server") {
            // Its template would still be given the effort.
            request.params.without.push("chat_template_kwargs".into());
        }
        let ended = call(wire, &server, &request).await.0;
        assert!(ended.is_ok(), "{wire:?}: {ended:?}");
        let bodies = server.bodies();
        assert_eq!(effort_of(wire, &bodies[0]), Some("low"), "{wire:?}");
        assert_eq!(effort_of(wire, &bodies[1]), None, "{wire:?}");
        if wire.kind == "openai-responses" {
            assert_eq!(bodies[1]["reasoning"]["summary"], "auto", "only the effort goes");
        }
    }
}

#[tokio::test]
async fn conversations_with_the_same_beginning_share_a_cache_key_where_the_host_takes_one() {
    for wire in wires() {
        let server = wire.server(move |_, _| wire.reply(&Says::text("ok")));
        let (first, mut other) = (hello(wire), hello(wire));
        other.messages[0] = said(Role::System, "Be somebody else.");
        for request in [&first, &first, &other] {
            assert!(call(wire, &server, request).await.0.is_ok(), "{wire:?}");
        }
        let keys: Vec<Value> = server.bodies().iter().map(|body| body["prompt_cache_key"].clone()).collect();
        let takes = wire.kind == "openai-responses" || wire.dialect == Some("openai");
        assert_eq!(keys[0].is_string(), takes, "{wire:?}");
        assert_eq!((keys[0] == keys[1], keys[0] != keys[2]), (true, takes), "{wire:?}");
    }
}

/// Three steps that each think and call. The servers refuse a conversation in which thinking is missing, changed, or
/// in a place of its own.
#[tokio::test]
async fn thinking_goes_back_over_several_turns_where_the_host_keeps_it() {
    for wire in wires() {
        let server = wire.server(move |_, n| {
            let thought = ["Step one.", "Step two.", "Step three.", "Done."][n - 1];
            let proof = format!("proof{n}");
            wire.reply(&match n {
                4 => Says { thought, proof, ..Says::text("finished") },
                _ => Says {
                    thought,
                    proof,
                    text: format!("look {n}"),
                    calls: vec![(format!("call{n}aaaa"), "read", json!({"path": n}))],
                    ..Says::default()
                },
            })
        });
        let mut talk = hello(wire);
        for turn in 1..=4 {
            let (ended, _) = call(wire, &server, &talk).await;
            let reply = ended.unwrap_or_else(|failed| panic!("{wire:?} turn {turn}: {}", failed.message));
            let results = reply.message.iter().filter_map(|part| match part {
                Part::Call { id, name, .. } => Some(Part::Result {
                    id: id.clone(),
                    name: name.clone(),
                    content: format!("[e{turn}] text"),
                    is_error: false,
                }),
                _ => None,
            });
            let results: Vec<Part> = results.collect();
            talk.messages.push(message(Role::Assistant, reply.message.clone()));
            match turn {
                4 => talk.messages.push(said(Role::User, "And now?")),
                _ => talk.messages.push(message(Role::Tool, results)),
            }
        }
        let bodies = server.bodies();
        let last = bodies[3].to_string();
        for n in 1..=3 {
            let mark = match wire.dialect {
                Some("deepseek") => ["Step one.", "Step two.", "Step three."][n - 1].to_owned(),
                _ => format!("proof{n}"),
            };
            assert_eq!(last.contains(&mark), wire.keeps_thinking(), "{wire:?}: {mark} in {last}");
        }
        // Each request begins as the one before ended, so that caches and thinking stay valid.
        for pair in bodies.windows(2) {
            let list = |body: &Value| body.get("messages").or(body.get("input")).cloned().unwrap();
            let (before, after) = (unmarked(list(&pair[0])), unmarked(list(&pair[1])));
            let (before, after) = (before.as_array().unwrap(), after.as_array().unwrap());
            assert_eq!(before[..], after[..before.len()], "{wire:?}");
        }
    }
}

fn unmarked(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.remove("cache_control");
            fields.values_mut().for_each(|inner| *inner = unmarked(inner.take()));
        }
        Value::Array(list) => list.iter_mut().for_each(|inner| *inner = unmarked(inner.take())),
        _ => {}
    }
    value
}

#[tokio::test]
async fn an_answer_that_ends_early_says_why_and_keeps_its_words() {
    for wire in wires() {
        for stop in [Stop::Length, Stop::Filtered, Stop::Refused] {
            let (reply, _) = answer(wire, &Says { stop, ..Says::text("I cannot help") }).await;
            let expected = match stop {
                Stop::Length => Finish::Length,
                // The Messages API has one word for both.
                Stop::Filtered if wire.kind != "anthropic" => Finish::Filtered,
                _ => Finish::Refused,
            };
            assert_eq!(
                (reply.finish.clone(), texts(&reply).as_str()),
                (expected, "I cannot help"),
                "{wire:?}"
            );
        }
    }
}
