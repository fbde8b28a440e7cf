//! Tests of toolvault.
