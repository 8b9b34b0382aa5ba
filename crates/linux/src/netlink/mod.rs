//! Links, routes and queues over rtnetlink, in the namespace of the calling thread.

pub mod link_setting;
pub mod qdisc;
pub(crate) mod raw;
pub mod route;
