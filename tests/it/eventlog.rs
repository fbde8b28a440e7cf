//! Tests of eventlog.
