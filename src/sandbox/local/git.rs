//! Changes to a workspace's repository by one call: the call sees the repository under a layer of its own, and of what it
//! leaves there agon takes over what git's everyday commands write, and nothing else.

mod call;
mod gone;
mod keep;
mod place;
mod refs;
mod scan;
pub mod settings;
