//! What each route asks of a caller, and whether one has it. Pure. The words are those of Agno's AgentOS, but for `metrics:read`, which it does not have.

use std::collections::BTreeSet;

use axum::http::Method;

use super::Caller;

/// What a caller may be allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    AgentsRead,
    AgentsRun,
    SessionsRead,
    SessionsDelete,
    /// What a process counts, and nothing else: for who scrapes it.
    MetricsRead,
    /// Everything, the operators' routes too.
    Admin,
}

impl Scope {
    pub const ALL: [Scope; 6] = [Scope::AgentsRead, Scope::AgentsRun, Scope::SessionsRead, Scope::SessionsDelete, Scope::MetricsRead, Scope::Admin];

    pub fn name(self) -> &'static str {
        match self {
            Self::AgentsRead => "agents:read",
            Self::AgentsRun => "agents:run",
            Self::SessionsRead => "sessions:read",
            Self::SessionsDelete => "sessions:delete",
            Self::MetricsRead => "metrics:read",
            Self::Admin => "agent_os:admin",
        }
    }

    /// What is done with one agent, for scopes that may be given for one alone: `agents:AGENT:run`, or `agents:*:run` for all.
    fn action(self) -> Option<&'static str> {
        match self {
            Self::AgentsRead => Some("read"),
            Self::AgentsRun => Some("run"),
            Self::SessionsRead | Self::SessionsDelete | Self::MetricsRead | Self::Admin => None,
        }
    }

    /// Whether a text is a scope that some route asks for.
    pub(super) fn is_known(text: &str) -> bool {
        let of_agent = |text: &str| {
            let (agent, action) = text.strip_prefix("agents:")?.split_once(':')?;
            Some(!agent.is_empty() && matches!(action, "read" | "run"))
        };
        Scope::ALL.iter().any(|scope| scope.name() == text) || of_agent(text).unwrap_or(false)
    }

    /// Whether these scopes hold this one, for this agent where the route names one. A route that names none lists agents: one of them is enough.
    fn is_in(self, held: &BTreeSet<String>, agent: Option<&str>) -> bool {
        let has = |scope: &str| held.contains(scope);
        if has(Scope::Admin.name()) || has(self.name()) {
            return true;
        }
        let Some(action) = self.action() else { return false };
        let named = |scope: &str| {
            let (id, of) = scope.strip_prefix("agents:")?.rsplit_once(':')?;
            Some(of == action && !id.is_empty() && (id == "*" || agent.is_none_or(|agent| agent == id)))
        };
        held.iter().any(|scope| named(scope).unwrap_or(false))
    }
}

/// What a route asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Nothing,
    /// To know who asks: what is answered is the same for all.
    Identity,
    One(Scope),
}

impl Need {
    /// `route` is the router's own name of it; `None` where there is no such route.
    pub(crate) fn of(method: &Method, route: Option<&str>) -> Need {
        let reads = method == Method::GET || method == Method::HEAD;
        let Some(route) = route else { return Need::Identity };
        match route {
            "/health" | "/openapi.json" => Need::Nothing,
            "/metrics" => Need::One(Scope::MetricsRead),
            "/agents" | "/agents/{agent}" => Need::One(Scope::AgentsRead),
            "/agents/{agent}/runs" if !reads => Need::One(Scope::AgentsRun),
            "/agents/{agent}/runs/{run}/cancel" => Need::One(Scope::AgentsRun),
            // Resuming reads, also where it is asked for by POST.
            "/agents/{agent}/runs" | "/agents/{agent}/runs/{run}" | "/agents/{agent}/runs/{run}/events" | "/agents/{agent}/runs/{run}/resume" => {
                Need::One(Scope::AgentsRead)
            }
            "/sessions/{session}" if method == Method::DELETE => Need::One(Scope::SessionsDelete),
            "/sessions" | "/sessions/{session}" | "/sessions/{session}/runs" | "/sessions/{session}/runs/{run}" => Need::One(Scope::SessionsRead),
            // The queue's routes, and whatever is added without a line here.
            _ => Need::One(Scope::Admin),
        }
    }
}

/// `Err` names what is missing.
pub(crate) fn authorize(caller: &Caller, need: Need, agent: Option<&str>) -> Result<(), Scope> {
    match (caller, need) {
        (_, Need::Nothing | Need::Identity) | (Caller::Anybody, _) => Ok(()),
        (Caller::User { scopes, .. }, Need::One(scope)) => {
            if scope.is_in(scopes, agent) {
                Ok(())
            } else {
                Err(scope)
            }
        }
    }
}

/// Scopes as tokens write them: a text with spaces between, or a list.
pub(super) fn written<'a>(text: &'a str) -> impl Iterator<Item = String> + 'a {
    text.split_whitespace().map(ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const AGENTS: [&str; 3] = ["a", "b", "*"];

    fn scopes() -> impl Strategy<Value = BTreeSet<String>> {
        let one = prop_oneof![
            prop::sample::select(Scope::ALL.to_vec()).prop_map(|scope| scope.name().to_owned()),
            (prop::sample::select(AGENTS.to_vec()), prop::sample::select(vec!["read", "run", "delete"]))
                .prop_map(|(agent, action)| format!("agents:{agent}:{action}")),
            prop::sample::select(vec!["openid", "agents", "agents:", "agents::run", "agents:a", "sessions:a:read", "AGENTS:RUN", ""])
                .prop_map(str::to_owned),
        ];
        prop::collection::btree_set(one, 0..5)
    }

    fn agents() -> impl Strategy<Value = Option<&'static str>> {
        prop_oneof![Just(None), Just(Some("a")), Just(Some("b")), Just(Some("c"))]
    }

    fn user(scopes: &BTreeSet<String>) -> Caller {
        Caller::User { id: "ann".into(), scopes: scopes.clone() }
    }

    proptest! {
        #[test]
        fn a_route_is_open_exactly_to_who_holds_its_scope_or_is_an_operator(held in scopes(), at in 0usize..5, agent in agents()) {
            let scope = Scope::ALL[at];
            let mut enough = vec!["agent_os:admin".to_owned(), scope.name().to_owned()];
            if let Some(action) = scope.action() {
                let of = agent.map_or_else(|| AGENTS.to_vec(), |agent| vec![agent, "*"]);
                enough.extend(of.iter().map(|agent| format!("agents:{agent}:{action}")));
            }
            let expected = held.iter().any(|scope| enough.contains(scope));
            prop_assert_eq!(authorize(&user(&held), Need::One(scope), agent), if expected { Ok(()) } else { Err(scope) });
            prop_assert_eq!(authorize(&Caller::Anybody, Need::One(scope), agent), Ok(()));
        }

        #[test]
        fn more_scopes_never_allow_less(held in scopes(), more in scopes(), at in 0usize..5, agent in agents()) {
            let need = Need::One(Scope::ALL[at]);
            let all = held.union(&more).cloned().collect();
            prop_assert!(authorize(&user(&held), need, agent).is_err() || authorize(&user(&all), need, agent).is_ok());
        }

        #[test]
        fn a_route_that_has_no_line_is_for_operators(route in "/[a-z]{1,8}(/[a-z{}]{1,8}){0,3}", held in scopes()) {
            let need = Need::of(&Method::GET, Some(&route));
            let ours = ["/health", "/agents", "/sessions"].iter().any(|known| route.starts_with(known));
            prop_assume!(!ours);
            prop_assert_eq!(need, Need::One(Scope::Admin));
            prop_assert_eq!(authorize(&user(&held), need, None).is_ok(), held.contains("agent_os:admin"));
        }
    }

    #[test]
    fn a_scope_for_one_agent_is_for_that_agent_alone() {
        let held: BTreeSet<String> = ["agents:echo:run".to_owned()].into();
        let run = Need::One(Scope::AgentsRun);
        assert_eq!(authorize(&user(&held), run, Some("echo")), Ok(()));
        assert_eq!(authorize(&user(&held), run, Some("other")), Err(Scope::AgentsRun));
        assert_eq!(authorize(&user(&held), Need::One(Scope::AgentsRead), Some("echo")), Err(Scope::AgentsRead));
        assert_eq!(authorize(&user(&held), Need::One(Scope::Admin), None), Err(Scope::Admin));
    }

    #[test]
    fn what_is_no_scope_is_told_from_what_is_one() {
        for known in
            ["metrics:read", "agents:read", "agents:run", "sessions:read", "sessions:delete", "agent_os:admin", "agents:echo:run", "agents:*:read"]
        {
            assert!(Scope::is_known(known), "{known}");
        }
        for unknown in ["", "agents", "agents:write", "agents::run", "agents:echo:delete", "sessions:s:read", "admin", "Agents:read"] {
            assert!(!Scope::is_known(unknown), "{unknown}");
        }
    }
}
