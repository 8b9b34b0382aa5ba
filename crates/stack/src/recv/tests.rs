//! Tests of the receiving half.
