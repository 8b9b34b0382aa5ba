//! One host against a peer that is made by hand, segment by segment: how connections begin, end,
//! wait and defend themselves.

#[expect(dead_code, reason = "memory is counted in a program of its own")]
mod bounds;
mod hand;
#[expect(dead_code, reason = "times are measured in a benchmark")]
mod honest;

mod application;
mod attacks;
mod budget;
mod closing;
mod forged;
mod hostile;
mod opening;
mod pool;
mod storms;
mod waiting;
