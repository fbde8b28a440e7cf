//! The only file that names concrete adapters: puts an arena together.
