//! Sandboxes on this host: real runners, real namespaces.

mod inside;
mod kill;
mod life;
mod limits;
mod ordinary;
mod rig;
mod turn;
