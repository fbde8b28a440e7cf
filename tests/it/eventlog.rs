//! The durable log: chain, recovery, faults of disks and processes, the store.

mod basics;
mod faults;
mod kill;
mod kit;
mod sim;
mod store;
