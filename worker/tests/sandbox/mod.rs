//! Sandboxes on this host: real runners, real namespaces.

mod rig;
mod turn;
