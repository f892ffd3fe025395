//! The only way out of an isolated sandbox: a process of its own that sends a few requests on to fixed upstreams, with the key that the sandbox does not have.
//!
//! A sandbox connects to its loopback; its runner joins each connection to the door here (`runner::egress` has what is said there). A request goes out if
//! its upstream, method and path are on the list ([`settings`], `route`): without the sandbox's own credentials, with the upstream's key. Bodies stream
//! both ways and are held nowhere, but for bytes of an answer that may begin a key (`secret`). Of each request there is one record, sent to the runner before the last byte of the answer is.
//!
//! The law: keys are read here and go nowhere but into a request to their own upstream; what an answer repeats of them is taken out of it. What ended early upstream ends early inside.

mod body;
mod client;
mod door;
mod head;
mod note;
mod pieces;
mod process;
mod proxy;
mod route;
mod secret;
pub mod settings;
mod usage;

pub use process::{daemon, end, run};
