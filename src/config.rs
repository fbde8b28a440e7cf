//! Layered configuration in which every value knows its source.
