//! Sandboxes on this host: real runners, real namespaces.

mod life;
mod rig;
mod turn;
