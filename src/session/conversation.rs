//! A conversation as requests send it: messages by reference, in a list that later requests extend and share.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use crate::protocol::EventRef;
use crate::protocol::event::{ArenaEvent, Parts, RequestPart};
use crate::protocol::expand::{ExpandError, Lookup, message};
use crate::protocol::message::{Message, Part, Role};
use crate::protocol::request_digest::{Chain, of_words};

use super::context::bytes_of;

/// One message of a conversation. What is found out about it is kept, for the event it names never changes.
#[derive(Clone, Debug)]
pub struct Item(Arc<Known>);

/// A message by reference, and what is known of it.
#[derive(Debug)]
pub struct Known {
    /// By reference.
    pub part: RequestPart,
    bytes: OnceLock<u64>,
    said: OnceLock<(Arc<Message>, String)>,
}

impl Deref for Item {
    type Target = Known;

    fn deref(&self) -> &Known {
        &self.0
    }
}

impl Item {
    /// A message of which nothing is known yet.
    pub fn new(part: RequestPart) -> Self {
        Item(Arc::new(Known { part, bytes: OnceLock::new(), said: OnceLock::new() }))
    }

    /// The words of an event, said by this role.
    pub fn of(role: Role, from: EventRef) -> Self {
        Item::new(RequestPart { role, from, sel: None })
    }

    /// True for what stays whatever is dropped: persona and instructions.
    pub fn is_pinned(&self) -> bool {
        self.part.role == Role::System
    }

    /// Bytes of text it puts into a request; 0 while its event is not at hand.
    pub fn bytes(&self, lookup: Lookup<'_>) -> u64 {
        match self.bytes.get() {
            Some(bytes) => *bytes,
            None if lookup(self.part.from).is_none() => 0,
            None => *self.bytes.get_or_init(|| bytes_of(&self.part, lookup)),
        }
    }

    /// The message, and the digest of its words.
    pub fn said(&self, lookup: Lookup<'_>) -> Result<(&Arc<Message>, &str), ExpandError> {
        let said = match self.said.get() {
            Some(said) => said,
            None => {
                let message = message(&self.part, lookup)?;
                let digest = of_words(&message.parts);
                self.said.get_or_init(|| (Arc::new(message), digest))
            }
        };
        Ok((&said.0, &said.1))
    }

    /// True for an answer with thinking that redaction had to drop.
    pub fn lacks_thinking(&self, lookup: Lookup<'_>) -> bool {
        let dropped = |part: &Part| match part {
            Part::Reasoning { opaque: Some(opaque), .. } | Part::Opaque(opaque) => opaque.dropped,
            _ => false,
        };
        match lookup(self.part.from) {
            Some(ArenaEvent::ModelAnswered(answer)) => answer.body.message.iter().any(dropped),
            _ => false,
        }
    }
}

/// The messages of a request. Cloning one, or extending it, costs nothing for those before.
#[derive(Clone, Default)]
pub struct Conversation(Option<Arc<Node>>);

struct Node {
    before: Conversation,
    item: Item,
    /// Of all messages up to this one.
    len: usize,
    bytes: u64,
    lacks_thinking: bool,
    chain: OnceLock<Chain>,
}

impl Drop for Conversation {
    /// One after another: by itself a long list would be dropped as deep as it is long.
    fn drop(&mut self) {
        let mut last = self.0.take();
        while let Some(mut node) = last.and_then(Arc::into_inner) {
            last = node.before.0.take();
        }
    }
}

impl fmt::Debug for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.items().iter().map(|item| &item.part)).finish()
    }
}

impl Conversation {
    /// The same with one more message.
    #[must_use]
    pub fn with(self, item: Item, lookup: Lookup<'_>) -> Self {
        let node = Node {
            len: self.len() + 1,
            bytes: self.bytes() + item.bytes(lookup),
            lacks_thinking: self.lacks_thinking() || item.lacks_thinking(lookup),
            before: self,
            item,
            chain: OnceLock::new(),
        };
        Conversation(Some(Arc::new(node)))
    }

    /// The same with more messages.
    #[must_use]
    pub fn with_all(self, items: impl IntoIterator<Item = Item>, lookup: Lookup<'_>) -> Self {
        items.into_iter().fold(self, |conversation, item| conversation.with(item, lookup))
    }

    /// Messages in it.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |node| node.len)
    }

    /// True when nothing was said.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Bytes of text in it.
    pub fn bytes(&self) -> u64 {
        self.0.as_ref().map_or(0, |node| node.bytes)
    }

    /// True when one of its answers lacks thinking.
    pub fn lacks_thinking(&self) -> bool {
        self.0.as_ref().is_some_and(|node| node.lacks_thinking)
    }

    /// True when this is the very list.
    pub fn is_same(&self, other: &Conversation) -> bool {
        match (&self.0, &other.0) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (a, b) => a.is_none() && b.is_none(),
        }
    }

    /// The last message, then those before it.
    fn backwards(&self) -> impl Iterator<Item = &Node> {
        std::iter::successors(self.0.as_deref(), |node| node.before.0.as_deref())
    }

    /// Messages after the first `len`, in order.
    fn after(&self, len: usize) -> Vec<&Node> {
        let mut nodes: Vec<&Node> = self.backwards().take_while(|node| node.len > len).collect();
        nodes.reverse();
        nodes
    }

    /// Every message, in order.
    pub fn items(&self) -> Vec<Item> {
        self.after(0).into_iter().map(|node| node.item.clone()).collect()
    }

    /// Every message by reference, in order.
    pub fn parts(&self) -> Vec<RequestPart> {
        self.after(0).into_iter().map(|node| node.item.part.clone()).collect()
    }

    /// The first messages.
    #[must_use]
    pub fn first(&self, len: usize) -> Self {
        let mut first = self;
        while let Some(node) = first.0.as_deref().filter(|node| node.len > len) {
            first = &node.before;
        }
        first.clone()
    }

    /// How many messages two conversations begin with alike.
    fn shared(&self, other: &Conversation) -> usize {
        let mut shared = self.len().min(other.len());
        let (mut one, mut two) = (&self.first(shared), &other.first(shared));
        while let (Some(a), Some(b)) = (one.0.as_ref(), two.0.as_ref()) {
            if Arc::ptr_eq(a, b) {
                break;
            }
            if a.item.part != b.item.part {
                shared = a.len - 1;
            }
            (one, two) = (&a.before, &b.before);
        }
        shared
    }

    /// The same by reference to an earlier request, so that no list is repeated in the log.
    pub fn relative(&self, earlier: Option<&(EventRef, Conversation)>) -> Parts {
        let keep = earlier.map_or(0, |(_, sent)| self.shared(sent));
        Parts {
            base: earlier.map(|(at, _)| *at),
            keep: u32::try_from(keep).unwrap_or(u32::MAX),
            add: self.after(keep).into_iter().map(|node| node.item.part.clone()).collect(),
        }
    }

    /// What its words come to: continued from where it was known last.
    pub fn chain(&self, lookup: Lookup<'_>) -> Result<Chain, ExpandError> {
        let known = self.backwards().find_map(|node| Some((node.len, node.chain.get()?.clone())));
        let (len, mut chain) = known.unwrap_or_default();
        for node in self.after(len) {
            chain = chain.with(node.item.part.role, node.item.said(lookup)?.1);
            node.chain.get_or_init(|| chain.clone());
        }
        Ok(chain)
    }

    /// The messages as they are sent.
    pub fn messages(&self, lookup: Lookup<'_>) -> Result<Vec<Arc<Message>>, ExpandError> {
        self.after(0)
            .into_iter()
            .map(|node| node.item.said(lookup).map(|(message, _)| message.clone()))
            .collect()
    }
}
