//! Sandboxes on this host: real runners, real namespaces.

mod checkpoint;
mod egress;
mod inside;
mod kill;
mod life;
mod limits;
mod ordinary;
mod rig;
mod tools;
mod turn;
mod upstream;
