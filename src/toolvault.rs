//! The tools a spark may hold: looked up, schema-checked, prepared, run.
