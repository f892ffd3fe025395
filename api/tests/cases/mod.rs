mod admission;
mod bodies;
mod queue;
mod reading;
mod refusals;
mod sockets;
mod streams;
mod tailing;
