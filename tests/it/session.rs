//! The pure session, rule by rule: given entries, when a fact comes, then exactly these decisions.

mod answers;
mod approvals;
mod calls;
mod connections;
mod ends;
mod free_text;
mod gates;
mod inside;
mod kit;
mod levels;
mod limits;
mod mentions;
mod models;
mod refused;
mod requests;
mod spawn;
mod walk;
mod windows;
