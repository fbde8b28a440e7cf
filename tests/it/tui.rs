//! Mission control: what each view looks like, what each key does, and the real program in a real terminal.

mod hostile;
mod keys;
mod made;
mod screens;
mod terminal;
