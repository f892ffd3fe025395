//! A request that a sandbox made of the outside, as egress saw it.

use serde::{Deserialize, Serialize};

/// Never a body, a query or a key. Written before the sandbox can see the answer's end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Door {
    /// The upstream's name; empty where none was asked.
    #[serde(default)]
    pub upstream: String,
    /// The request's method.
    #[serde(default)]
    pub method: String,
    /// The path at the upstream, without the query; bounded.
    #[serde(default)]
    pub path: String,
    /// What was answered; none where nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Bytes of the request's body that went out.
    #[serde(default)]
    pub request_bytes: u64,
    /// Bytes of the answer's body that came.
    #[serde(default)]
    pub response_bytes: u64,
    /// From the request's head to the answer's end.
    #[serde(default)]
    pub ms: u64,
    /// What the answer says of tokens that went in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// And of those that came out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// The answer began and was not whole: what the sandbox has of it is not all, and its connection was broken off.
    #[serde(default)]
    pub cut: bool,
    /// The sandbox went away before the answer's end.
    #[serde(default)]
    pub left: bool,
    /// Why the status is ours and not the upstream's: `path`, `upstream`, `key`, `request`, `unreachable`, `timeout`, `failed`, `encoded` or `egress`. A
    /// word for each reason; a later release may have more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}
