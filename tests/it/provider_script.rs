//! Tests of provider_script.
