//! Where a client says that it has come to, and where a page ended: nothing that it can say is our fault.

use axum::body::Body;
use axum::http::{HeaderValue, Request, StatusCode};
use proptest::prelude::*;

use crate::kit::{Seen, Stage, form};

/// Nearly a number, or not at all.
fn nearly() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "-?[0-9]{1,3}",
        2 => "-?[0-9]{9,40}",
        2 => "[ 0-9+.eEx_-]{0,6}",
        1 => "\\PC{0,12}",
    ]
}

fn alone<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// What is there after the index, of a run with six frames.
fn expected(last: Option<&str>) -> Option<usize> {
    let Some(last) = last.filter(|last| !last.is_empty()).map(str::trim) else { return Some(6) };
    if last == "-1" {
        return Some(6);
    }
    let is_index = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
    is_index.then(|| last.parse().map_or(0, |last: usize| 5_usize.saturating_sub(last)))
}

async fn an_ended_run(stage: &Stage) -> String {
    let run = stage.accepted(&[("message", "x")]).await;
    let mut worker = stage.worker().await;
    worker.start().await;
    worker.say(&["a", "b", "c", "d"]).await;
    worker.complete("done").await;
    format!("/agents/echo/runs/{run}")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_cursor_is_an_index_or_refused(last in nearly(), header in any::<bool>(), posted in any::<bool>()) {
        alone(async {
            let stage = Stage::new();
            let path = format!("{}/resume", an_ended_run(&stage).await);
            let mut request = if posted && !header {
                form(&path, &[("last_event_index", &last)])
            } else {
                let query: String = last.bytes().map(|byte| format!("%{byte:02x}")).collect();
                let path = if header { path } else { format!("{path}?last_event_index={query}") };
                let method = if posted { "POST" } else { "GET" };
                Request::builder().method(method).uri(path).body(Body::empty()).unwrap()
            };
            if header {
                // As a header it is bytes, of which not all may be there.
                let Ok(value) = HeaderValue::from_bytes(last.as_bytes()) else { return Ok(()) };
                request.headers_mut().insert("last-event-id", value);
            }
            let mut open = stage.send(request).await;
            match expected(Some(&last)) {
                None => prop_assert_eq!(open.status, StatusCode::UNPROCESSABLE_ENTITY, "{:?}", last),
                Some(0) if header && !posted => prop_assert_eq!(open.status, StatusCode::NO_CONTENT, "{:?}", last),
                Some(more) => {
                    prop_assert_eq!(open.status, StatusCode::OK, "{:?}", last);
                    let ids: Vec<u32> = open.frames().await.iter().filter_map(|Seen { id, .. }| *id).collect();
                    let whole: Vec<u32> = (0..6).skip(6 - more).collect();
                    prop_assert_eq!(ids, whole, "{:?}", last);
                }
            }
            Ok(())
        })?;
    }

    #[test]
    fn no_parameter_of_a_read_is_our_fault(query in "[a-z_]{0,6}(=|&|%[0-9a-f]{0,2}|limit=|cursor=|status=|after=|session_id=|[0-9A-Za-z-]|\\PC){0,12}") {
        alone(async {
            let stage = Stage::new();
            let run = an_ended_run(&stage).await;
            // Bytes as a client may send them: what is no part of an address does not arrive.
            let query: String = query.chars().map(|c| if c.is_ascii_graphic() && !"#<>\"`".contains(c) { c.to_string() } else { format!("%{:02x}", c as u32 & 0xff) }).collect();
            for path in ["/agents/echo/runs", "/sessions", "/queue/jobs", &run, &format!("{run}/events")] {
                let Ok(request) = Request::get(format!("{path}?{query}")).body(Body::empty()) else { continue };
                let status = stage.send(request).await.status;
                prop_assert!(status.as_u16() < 500, "{} {}: {}", path, query, status);
            }
            Ok(())
        })?;
    }
}
