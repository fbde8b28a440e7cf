//! The pure state machine that decides; knows no clock, file, socket or thread.
