//! Mission control: what each view looks like, what each key does, and the real program in a real terminal.

mod approved;
mod asked;
mod astray;
mod composing;
mod exits;
mod guards;
mod hostile;
mod keys;
mod levels;
mod long;
pub(crate) mod made;
mod pictures;
pub(crate) mod pty;
mod screens;
mod subagents;
mod terminal;
mod told;
