//! The story of a session as blocks of lines, made only for what is on screen; scrolls by block and line.

mod block;
mod live;
mod tool;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use ratatui::text::Line;

use crate::projection::transcript::{Item, ItemKind};
use crate::protocol::SparkId;

use super::theme::Theme;
use super::view_model::ViewModel;

/// Blocks that are kept once they were made.
const KEPT_BLOCKS: usize = 1_024;

/// Items that are looked through for the beginning of a turn.
const FARTHEST: usize = 20_000;

/// A block of lines, shared between frames.
type Block = Rc<Vec<Line<'static>>>;

/// The top line of the window: which block, which line of it.
type Anchor = (usize, usize);

/// Where somebody is in the story, and what they opened.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    /// Only this spark; everybody when absent.
    pub focus: Option<SparkId>,
    /// The top line; none follows the end.
    pub anchor: Option<Anchor>,
    /// Long blocks and thinking are shown whole.
    pub is_open: bool,
    cache: RefCell<Cache>,
    /// What was on screen last: the top, and how many lines there were above the end.
    shown: RefCell<Shown>,
}

/// What the lines of every block depend on: width, colours, unfolded or not, the spark, the moment, what is struck out.
type Look = (usize, Theme, bool, Option<SparkId>, Option<u64>, u64);

#[derive(Debug, Default)]
struct Cache {
    key: Option<Look>,
    blocks: BTreeMap<usize, Block>,
    /// What is going on, as the frame that is being drawn or was drawn last shows it.
    live: Option<Block>,
    streams: live::Streams,
}

#[derive(Clone, Copy, Debug, Default)]
struct Shown {
    top: Anchor,
    height: usize,
    width: usize,
}

impl Timeline {
    /// The lines of a window of this size, and true when the end of the story is among them.
    pub fn window(&self, scene: &ViewModel<'_>, width: usize, height: usize) -> (Vec<Line<'static>>, bool) {
        self.renew(scene, width);
        let top = match self.anchor {
            Some(anchor) => anchor.min(self.last_top(scene, width, height)),
            None => self.last_top(scene, width, height),
        };
        *self.shown.borrow_mut() = Shown { top, height, width };
        let mut lines = Vec::with_capacity(height);
        let (mut at, mut skip) = top;
        let end = scene.count();
        while at <= end && lines.len() < height {
            let block = self.block(scene, at, width);
            lines.extend(block.iter().skip(skip).take(height - lines.len()).cloned());
            (at, skip) = (at + 1, 0);
        }
        let is_end = top >= self.last_top(scene, width, height);
        (lines, is_end)
    }

    /// Moves the window by lines; down past the end follows the end again.
    pub fn scroll(&mut self, scene: &ViewModel<'_>, by: isize) {
        let shown = *self.shown.borrow();
        let top = match by < 0 {
            true => self.back(scene, shown.top, by.unsigned_abs(), shown.width),
            false => self.forward(scene, shown.top, by.unsigned_abs(), shown.width),
        };
        let last = self.last_top(scene, shown.width, shown.height);
        self.anchor = (top < last).then_some(top);
    }

    /// Lines of the window that was drawn last.
    pub fn height(&self) -> usize {
        self.shown.borrow().height
    }

    /// Goes to the beginning.
    pub fn go_to_start(&mut self) {
        self.anchor = Some((0, 0));
    }

    /// Goes to the beginning of a turn: the prompt before or after the top of the window.
    pub fn go_to_prompt(&mut self, scene: &ViewModel<'_>, forwards: bool) {
        let (top, _) = self.shown.borrow().top;
        let is_prompt = |at: &usize| scene.item(*at).is_some_and(|item| item.kind == ItemKind::Prompt);
        let count = scene.count();
        let found = match forwards {
            true => (top + 1..count).take(FARTHEST).find(is_prompt),
            false => (0..top.min(count)).rev().take(FARTHEST).find(is_prompt),
        };
        self.anchor = found.map(|at| (at, 0)).or(if forwards { None } else { Some((0, 0)) });
    }

    /// Goes to the line of an item that has a phrase, in small letters, with a few lines above it.
    pub fn go_to_text(&mut self, scene: &ViewModel<'_>, at: usize, phrase: &str) {
        self.renew(scene, self.shown.borrow().width);
        let shown = *self.shown.borrow();
        let block = self.block(scene, at, shown.width);
        let has_it = |line: &Line<'static>| line.to_string().to_lowercase().contains(phrase);
        let line = block.iter().position(has_it).unwrap_or(0);
        self.anchor = Some(self.back(scene, (at, line), shown.height / 3, shown.width));
    }

    /// The item at the top of the window.
    pub fn top_item(&self) -> usize {
        self.shown.borrow().top.0
    }

    fn renew(&self, scene: &ViewModel<'_>, width: usize) {
        let struck = scene.moment.struck.version();
        let key = Some((width, scene.theme, self.is_open, self.focus, scene.cut, struck));
        let mut cache = self.cache.borrow_mut();
        cache.live = None;
        if cache.key != key || cache.blocks.len() > KEPT_BLOCKS {
            cache.blocks.clear();
            cache.key = key;
        }
    }

    /// The top of the window that ends with the story.
    fn last_top(&self, scene: &ViewModel<'_>, width: usize, height: usize) -> Anchor {
        let mut at = scene.count();
        let mut room = height;
        loop {
            let lines = self.block(scene, at, width).len();
            if lines >= room {
                return (at, lines - room);
            }
            room -= lines;
            match at.checked_sub(1) {
                Some(before) => at = before,
                None => return (0, 0),
            }
        }
    }

    fn back(&self, scene: &ViewModel<'_>, from: Anchor, by: usize, width: usize) -> Anchor {
        let (mut at, mut line) = from;
        let mut left = by;
        loop {
            if line >= left {
                return (at, line - left);
            }
            left -= line;
            match at.checked_sub(1) {
                Some(before) => at = before,
                None => return (0, 0),
            }
            line = self.block(scene, at, width).len();
        }
    }

    fn forward(&self, scene: &ViewModel<'_>, from: Anchor, by: usize, width: usize) -> Anchor {
        let (mut at, mut line) = from;
        let (mut left, count) = (by, scene.count());
        while at <= count {
            let lines = self.block(scene, at, width).len();
            if line + left < lines {
                return (at, line + left);
            }
            left -= lines.saturating_sub(line);
            (at, line) = (at + 1, 0);
        }
        (at, 0)
    }

    /// The lines of one item; of what is going on now for the position after the last.
    fn block(&self, scene: &ViewModel<'_>, at: usize, width: usize) -> Block {
        let Some(item) = scene.item(at).filter(|_| at < scene.count()) else {
            return self.live(scene, width);
        };
        if self.focus.is_some() && item.spark.is_some() && item.spark != self.focus {
            return Block::default();
        }
        let is_final = block::is_final(scene, item);
        if is_final && let Some(block) = self.cache.borrow().blocks.get(&at) {
            return Rc::clone(block);
        }
        let page = block::Page { scene, width, is_open: self.is_open, before: self.before(scene, at) };
        let made = Rc::new(page.lines(item));
        if is_final {
            self.cache.borrow_mut().blocks.insert(at, Rc::clone(&made));
        }
        made
    }

    /// What is going on now, laid out once for a frame.
    fn live(&self, scene: &ViewModel<'_>, width: usize) -> Block {
        let mut cache = self.cache.borrow_mut();
        let Cache { live, streams, .. } = &mut *cache;
        let made = live.get_or_insert_with(|| Rc::new(live::lines(scene, self.focus, width, streams)));
        Rc::clone(made)
    }

    /// The item shown before this one: it decides whether a blank line or a name goes first.
    fn before<'a>(&self, scene: &ViewModel<'a>, at: usize) -> Option<&'a Item> {
        let is_shown = |item: &&Item| {
            let theirs = self.focus.is_none() || item.spark.is_none() || item.spark == self.focus;
            theirs && block::is_shown(scene, item)
        };
        scene.back_from(at).take(64).find(is_shown)
    }
}
