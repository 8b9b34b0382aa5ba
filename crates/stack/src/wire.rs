//! Packets as bytes: for TUN devices and capture files.
