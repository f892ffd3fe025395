//! Many cases on one deployment, at once: each is told by its name when it fails, and the others still run.

use std::future::Future;

use tokio::task::JoinSet;

/// Cases that run together.
#[derive(Default)]
pub struct Suite {
    running: JoinSet<(&'static str, Result<(), tokio::task::JoinError>)>,
}

impl Suite {
    pub fn case(&mut self, name: &'static str, case: impl Future<Output = ()> + Send + 'static) {
        self.running.spawn(async move { (name, tokio::spawn(case).await) });
    }

    /// Waits for all and panics with the names of those that failed.
    pub async fn end(self) {
        let failed: Vec<&str> = self.running.join_all().await.into_iter().filter(|(_, how)| how.is_err()).map(|(name, _)| name).collect();
        assert!(failed.is_empty(), "failed: {} (each said why above)", failed.join(", "));
    }
}

/// Runs the named functions, each on a clone of the client.
#[macro_export]
macro_rules! cases {
    ($http:expr, $($case:path),+ $(,)?) => {{
        let mut suite = $crate::suite::Suite::default();
        $(suite.case(stringify!($case), $case($http.clone()));)+
        suite.end().await;
    }};
}
