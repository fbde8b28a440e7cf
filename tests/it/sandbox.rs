//! Tests of sandbox.
