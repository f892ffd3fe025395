//! The program as workers and runners meet it.

mod kit;
mod life;
mod upstreams;
