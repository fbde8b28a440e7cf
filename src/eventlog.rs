//! The durable log of a session: one JSONL file, hash-chained, one writer.
