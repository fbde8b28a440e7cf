//! Personas and instructions read from files and from the binary.
