//! Where tools touch files and run commands.
