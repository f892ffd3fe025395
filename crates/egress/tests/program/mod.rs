//! The program as workers and runners meet it.

mod echo;
mod kit;
mod life;
mod upstreams;
