mod auth;
mod bodies;
mod reading;
mod refusals;
mod sockets;
mod streams;
mod tailing;
