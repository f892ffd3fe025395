//! What is said at a runner's door, a unix socket in its folder.
//!
//! The client says one line of JSON ([`Hello`]), the runner answers one ([`Answer`]). Then the client gives [`Order`]s, one line of JSON each; after
//! [`Order::Attach`] the other direction is the journal's raw bytes from there, live. A higher epoch is on disk before it is welcome, and ends the
//! connections of lower ones.
//!
//! `sun_path` holds 107 bytes, so both sides reach the socket through `/proc/self/fd/N/door`.

use serde::{Deserialize, Serialize};

/// The version of what is said.
pub const PROTOCOL: u32 = 1;
/// The longest line of JSON that a runner reads.
pub const MAX_LINE: u64 = 64 * 1024;
/// The longest inbox line.
pub const MAX_INBOX: u64 = 16 * 1024 * 1024;

/// The client's first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// Whose sandbox it is: another deployment's worker is refused.
    pub deployment: String,
    /// The epoch of the claim.
    pub epoch: u64,
}

/// The runner's first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Go on.
    Welcome(Welcome),
    /// The connection ends here.
    Refused(Refused),
}

/// The state of things as the client comes in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// Whether the exit record is written.
    pub ended: bool,
    /// Where the journal ends.
    pub end: u64,
}

/// Why not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The highest epoch obeyed.
    pub epoch: u64,
    /// `epoch`, `deployment`, `protocol` or `hello`.
    pub why: String,
}

/// One order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
pub enum Order {
    /// Send the journal from `offset` on. Once a connection.
    Attach {
        /// The end of a record, or 0.
        offset: u64,
    },
    /// The journal before `offset` may be dropped.
    Committed {
        /// The end of a record.
        offset: u64,
    },
    /// `len` raw bytes follow this line, for the harness's standard input. Numbers count from 0 without gaps; a repeat is read and ignored.
    Inbox {
        /// Its number.
        n: u64,
        /// How many bytes follow.
        len: u64,
        /// Close standard input after it.
        end: bool,
    },
    /// A visit that counts for the dead-man limit.
    Alive,
    /// SIGINT to the harness, SIGKILL to everything after `grace_ms`. A repeat can only shorten the grace.
    Kill {
        /// A word for the exit record.
        reason: String,
        /// Milliseconds.
        grace_ms: u64,
    },
    /// End as soon as the turn is over; kill it first if it is not.
    Dismiss,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said<T: Serialize>(what: &T) -> String {
        serde_json::to_string(what).unwrap()
    }

    #[test]
    fn the_words_of_protocol_1_stay_as_they_are() {
        let hello = Hello { protocol: 1, deployment: "d".into(), epoch: 7 };
        assert_eq!(said(&hello), r#"{"protocol":1,"deployment":"d","epoch":7}"#);
        let welcome = Answer::Welcome(Welcome { protocol: 1, ended: false, end: 9 });
        assert_eq!(said(&welcome), r#"{"welcome":{"protocol":1,"ended":false,"end":9}}"#);
        let refused = Answer::Refused(Refused { epoch: 8, why: "epoch".into() });
        assert_eq!(said(&refused), r#"{"refused":{"epoch":8,"why":"epoch"}}"#);
        for (order, text) in [
            (Order::Attach { offset: 1 }, r#"{"order":"attach","offset":1}"#),
            (Order::Committed { offset: 2 }, r#"{"order":"committed","offset":2}"#),
            (Order::Inbox { n: 0, len: 5, end: true }, r#"{"order":"inbox","n":0,"len":5,"end":true}"#),
            (Order::Alive, r#"{"order":"alive"}"#),
            (Order::Kill { reason: "user".into(), grace_ms: 3 }, r#"{"order":"kill","reason":"user","grace_ms":3}"#),
            (Order::Dismiss, r#"{"order":"dismiss"}"#),
        ] {
            assert_eq!(said(&order), text);
            assert_eq!(serde_json::from_str::<Order>(text).unwrap(), order);
        }
    }

    #[test]
    fn a_later_release_may_say_more() {
        let text = r#"{"welcome":{"protocol":1,"ended":true,"end":9,"more":1}}"#;
        let Answer::Welcome(welcome) = serde_json::from_str(text).unwrap() else { panic!("no welcome") };
        assert!(welcome.ended);
    }
}
