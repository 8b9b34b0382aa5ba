//! One host against a peer that is made by hand, segment by segment: how connections begin, end,
//! wait and defend themselves.

mod hand;

mod application;
mod closing;
mod forged;
mod hostile;
mod opening;
mod pool;
mod waiting;
