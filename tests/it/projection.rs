//! Tests of projection.
