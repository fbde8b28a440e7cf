//! The signal bus over async-broadcast: a doorbell, never the truth.
