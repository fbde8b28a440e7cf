//! Tests of provider_openai.
