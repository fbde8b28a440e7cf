//! The runtime of one session: drives the pure session and carries out its effects.
