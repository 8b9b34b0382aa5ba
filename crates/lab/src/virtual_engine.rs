//! The virtual engine.
