//! Adapters to models: each tries once and reports what happened.
