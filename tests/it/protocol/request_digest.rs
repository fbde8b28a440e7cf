//! A request's digest is that of its content: however the request was cut in the log, and whatever events hold its words.

use agon::protocol::event::{ModelCalled, Notice, NoticeGiven, Parts, Purpose, RequestPart};
use agon::protocol::expand::expand;
use agon::protocol::message::{Params, ToolDecl};
use agon::protocol::{ArenaEvent, CallId, EventRef, Request, Role, SparkId};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{request, said};

type Said = (Role, String);

/// A log in which each event is the fact of its own entry.
#[derive(Default)]
struct Log(Vec<ArenaEvent>);

impl Log {
    fn put(&mut self, event: ArenaEvent) -> EventRef {
        self.0.push(event);
        EventRef::fact(self.0.len() as u64 - 1)
    }

    fn say(&mut self, (role, text): &Said) -> RequestPart {
        let notice = NoticeGiven { spark: SparkId(1), notice: Notice::Loop, text: text.clone() };
        RequestPart { role: *role, from: self.put(ArenaEvent::NoticeGiven(notice)), sel: None }
    }

    fn called(&self, parts: Parts) -> ModelCalled {
        ModelCalled {
            call: CallId(1),
            attempt: 1,
            spark: SparkId(1),
            purpose: Purpose::Think,
            model: "mock/model-1".into(),
            params: Params::default(),
            digest: String::new(),
            parts,
            tools: Vec::new(),
        }
    }

    /// The digest of these words after earlier requests of one conversation, each cut by the next one.
    fn digest(&mut self, words: &[Said], cuts: &[(usize, usize)]) -> String {
        let (mut base, mut before) = (None, Vec::new());
        for (kept, noise) in cuts.iter().chain([&(usize::MAX, 0)]) {
            let parts: Vec<RequestPart> = words.iter().take(*kept).map(|one| self.say(one)).collect();
            // What is said again is another event with the same words, so the parts are cut anywhere.
            let keep = before.len().min(parts.len()).min(kept / 2);
            let mut sent: Vec<RequestPart> = before.drain(..keep).collect();
            sent.extend(parts.into_iter().skip(keep));
            let garbage = (0..*noise).map(|i| (Role::User, format!("cut again {i}")));
            sent.extend(garbage.map(|one| self.say(&one)).collect::<Vec<_>>());
            let add = sent.iter().skip(keep).cloned().collect();
            let called = self.called(Parts { base, keep: keep as u32, add });
            base = Some(self.put(ArenaEvent::ModelCalled(Box::new(called))));
            // Of what was sent, only the words of the real conversation may be kept.
            before = sent.into_iter().take(words.len().min(*kept)).collect();
        }
        let lookup = |at: EventRef| self.0.get(at.seq as usize);
        match lookup(base.unwrap()) {
            Some(ArenaEvent::ModelCalled(called)) => expand(called, &lookup).unwrap().digest(),
            other => panic!("{other:?}"),
        }
    }
}

fn whole(words: &[Said]) -> Request {
    request(words.iter().map(|(role, text)| said(*role, text)).collect())
}

fn words() -> impl Strategy<Value = Vec<Said>> {
    let role = prop_oneof![Just(Role::System), Just(Role::User), Just(Role::Assistant), Just(Role::Tool)];
    proptest::collection::vec((role, "[a-c\"\\\\ ]{0,3}"), 1..9)
}

proptest! {
    #[test]
    fn cuts_and_events_do_not_change_the_digest_of_a_request(
        words in words(),
        cuts in proptest::collection::vec((0usize..12, 0usize..3), 0..5),
        earlier in 0usize..4,
    ) {
        let mut log = Log::default();
        (0..earlier).for_each(|_| { log.say(&(Role::User, "before".into())); });
        prop_assert_eq!(log.digest(&words, &cuts), whole(&words).digest());
    }

    #[test]
    fn other_words_have_another_digest(one in words(), two in words()) {
        prop_assert_eq!(one == two, whole(&one).digest() == whole(&two).digest());
    }

    #[test]
    fn whatever_is_changed_in_a_request_changes_its_digest(words in words(), at in 0usize..9) {
        let same = whole(&words);
        let at = at % words.len();
        let mut changed: Vec<Request> = Vec::new();
        let mut with = |change: &dyn Fn(&mut Request)| {
            let mut other = same.clone();
            change(&mut other);
            changed.push(other);
        };
        with(&|r| { r.messages.remove(at); });
        with(&|r| r.messages.insert(at, said(Role::User, "more")));
        with(&|r| r.messages.push(said(Role::User, "")));
        with(&|r| r.messages[at] = said(words[at].0, &format!("{} ", words[at].1)));
        with(&|r| r.messages[at] = said(other_role(words[at].0), &words[at].1));
        with(&|r| r.model.push('x'));
        with(&|r| r.params.max_output = Some(1));
        with(&|r| r.tools.push(tool("look", "Looks.")));
        with(&|r| r.tools.push(tool("look", "Looks. ")));
        with(&|r| r.tools.extend([tool("look", "Looks."), tool("look", "Looks.")]));
        let mut digests: Vec<String> = changed.iter().map(Request::digest).chain([same.digest()]).collect();
        digests.sort();
        digests.dedup();
        prop_assert_eq!(digests.len(), changed.len() + 1);
    }
}

fn other_role(role: Role) -> Role {
    if role == Role::User { Role::Assistant } else { Role::User }
}

fn tool(name: &str, description: &str) -> std::sync::Arc<ToolDecl> {
    ToolDecl { name: name.into(), description: description.into(), schema: json!({"type": "object"}) }.into()
}

#[test]
fn whom_a_request_is_from_and_which_events_hold_its_words_is_no_part_of_its_digest() {
    let mut other = whole(&[(Role::User, "Mend the clock.".into())]);
    let digest = other.digest();
    other.spark = "coder".into();
    std::sync::Arc::make_mut(&mut other.messages[0]).from = EventRef { seq: 7, i: 3 };
    assert_eq!(other.digest(), digest);
}
