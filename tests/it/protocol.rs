//! Tests of protocol.
