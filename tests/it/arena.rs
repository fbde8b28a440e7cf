//! Tests of arena.
