//! Tests of session_properties.
