//! Who is asking, and whether they may: the first check of every request, before its body is read and before anything is looked up.
//!
//! [`Settings`] says which of four ways it goes: `none` (`keys`, `token` and `gateway` are the others). Each gives a `Caller`; `scopes` has what every
//! route asks of one, and is closed: a route that it does not know is for operators. What a caller may *see* is decided by the log, which every
//! route asks with `Caller::sees`, so that another user's run is as unknown as one that never was.
//!
//! The law here: **a refusal says that, never why.** Which of a token's parts is wrong is nobody's business but ours.

mod bearer;
mod crypto;
mod fetch;
mod gateway;
mod keys;
mod keyset;
pub(crate) mod scopes;
mod settings;
mod token;

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use axum::extract::{FromRequestParts, MatchedPath, RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::app::App;
use crate::respond::Refusal;
pub use keys::{Key, KeyFault, PREFIX as KEY_PREFIX};
pub use scopes::Scope;
use scopes::{Need, authorize};
use settings::How;
pub use settings::Settings;

/// Who asks, as far as that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// Without authentication all are one, and see everything.
    Anybody,
    User {
        id: String,
        scopes: BTreeSet<String>,
    },
}

impl Caller {
    /// Whose things the log is to look at.
    pub(crate) fn sees(&self) -> adapters::Scope<'_> {
        self.user().map(Some)
    }

    pub(crate) fn user(&self) -> Option<&str> {
        match self {
            Self::Anybody => None,
            Self::User { id, .. } => Some(id),
        }
    }

    /// The user that a request is for: the one it names, unless it is known who asks.
    pub(crate) fn instead_of<'a>(&'a self, named: Option<&'a str>) -> Option<&'a str> {
        self.user().or(named)
    }

    pub(crate) fn may_read(&self, agent: &str) -> bool {
        authorize(self, Need::One(Scope::AgentsRead), Some(agent)).is_ok()
    }

    /// A user's name comes from outside, and goes into the log and into answers.
    fn known(id: &str, scopes: BTreeSet<String>) -> Option<Self> {
        is_a_name(id).then(|| Self::User { id: id.to_owned(), scopes })
    }
}

/// OpenID allows a subject 255 characters.
fn is_a_name(user: &str) -> bool {
    !user.trim().is_empty() && user.len() <= 255 && !user.chars().any(char::is_control)
}

/// The way that requests are authenticated.
pub struct Auth(Way);

enum Way {
    None,
    Keys(keys::Keys),
    Tokens(Box<token::Verifier>),
    Gateway(gateway::Gateway),
}

impl Auth {
    pub fn none() -> Self {
        Self(Way::None)
    }

    pub fn new(settings: &Settings) -> io::Result<Self> {
        Ok(Self(match &settings.0 {
            How::None => Way::None,
            How::Keys(keys) => Way::Keys(keys::Keys::new(keys.clone())),
            How::Tokens(tokens) => Way::Tokens(Box::new(token::Verifier::new(tokens)?)),
            How::Gateway { iam_scopes } => Way::Gateway(gateway::Gateway::new(iam_scopes.clone())),
        }))
    }

    pub(crate) fn is_none(&self) -> bool {
        matches!(self.0, Way::None)
    }

    async fn identify(&self, parts: &Parts) -> Result<Caller, Refusal> {
        let caller = match &self.0 {
            Way::None => return Ok(Caller::Anybody),
            Way::Gateway(gateway) => return gateway.caller(&parts.extensions).ok_or(Refusal::NoIdentity),
            Way::Keys(keys) => keys.caller(bearer::token(&parts.headers)?),
            // Apart, for it may have keys to fetch, and every request would else hold the room for that.
            Way::Tokens(verifier) => Box::pin(verifier.caller(bearer::token(&parts.headers)?)).await?,
        };
        caller.ok_or(Refusal::WrongIdentity)
    }
}

/// In an answer's extensions: it is known who asked, or nobody needs to be.
#[derive(Clone, Copy)]
pub(crate) struct Admitted;

/// Lets a request through with its [`Caller`], or refuses it.
pub(crate) async fn admit(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    match judge(&app.auth, &mut parts).await {
        Ok(caller) => {
            let is_known = app.auth.is_none() || caller != Caller::Anybody;
            parts.extensions.insert(caller);
            let mut response = next.run(Request::from_parts(parts, body)).await;
            if is_known {
                response.extensions_mut().insert(Admitted);
            }
            response
        }
        Err(refusal) => refusal.into_response(),
    }
}

async fn judge(auth: &Auth, parts: &mut Parts) -> Result<Caller, Refusal> {
    let route = parts.extensions.get::<MatchedPath>().cloned();
    let need = Need::of(&parts.method, route.as_ref().map(MatchedPath::as_str));
    if need == Need::Nothing {
        return Ok(Caller::Anybody);
    }
    let caller = auth.identify(parts).await?;
    let params = RawPathParams::from_request_parts(parts, &()).await.ok();
    let agent = params.as_ref().and_then(|params| params.iter().find(|(name, _)| *name == "agent")).map(|(_, id)| id);
    authorize(&caller, need, agent).map_err(|missing| Refusal::Scope(missing.name()))?;
    Ok(caller)
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Refusal;

    /// A route that nobody has put behind [`admit`] answers nothing.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        parts.extensions.get::<Caller>().cloned().ok_or(Refusal::Crashed)
    }
}
