//! The command line: arguments in, exit code out.
pub mod plain;
