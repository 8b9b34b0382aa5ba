//! Probes on the kernel of this machine: what the others do in virtual time, and what only a kernel
//! can show. Each makes what it needs (namespaces, sockets) and removes it.

pub(crate) mod cork;
pub(crate) mod datacenter;
pub(crate) mod freebsd_memory;
