//! What a client sees over HTTP, on one instance with its own Postgres and on two of each role that share one: where LISTEN carries signals, where Redis
//! does, and where a transaction pooler leaves polling.

/// Four tests that run the module's cases on one deployment each, all at once.
macro_rules! on_all_shapes {
    ($($case:ident),+ $(,)?) => {
        async fn on(shape: e2e::Shape) {
            let deployment = e2e::Deployment::start(shape).await;
            let http = deployment.http();
            e2e::cases!(http, $($case),+);
            deployment.stop().await;
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn on_one_instance() {
            on(e2e::Shape::Embedded).await;
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn on_two_of_each_role() {
            on(e2e::Shape::Apart { apis: 2, workers: 2 }).await;
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn on_two_of_each_role_through_a_pooler() {
            on(e2e::Shape::Pooled { apis: 2, workers: 2 }).await;
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn on_two_of_each_role_with_redis() {
            on(e2e::Shape::WithRedis { apis: 2, workers: 2 }).await;
        }
    };
}

mod cancel;
mod idempotency;
mod sandbox;
mod sessions;
mod stream;
mod submit;
