//! Events of every kind with any content, and logs that are legal.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use runs::agents::{Agent, Harness, Limits, Network, SandboxKind};
use runs::{Claimed, Event, FailureClass, Frame, Input, InputFile, Metrics, Output, Recorded, Requested, Run, Submitted, Tool};
use serde_json::Value;
use uuid::Uuid;

/// Not by a regular expression, which would be read anew for each text.
fn text() -> impl Strategy<Value = String> {
    vec(prop_oneof![8 => proptest::char::range('a', 'z'), 1 => any::<char>()], 0..9).prop_map(String::from_iter)
}

fn id() -> impl Strategy<Value = Uuid> {
    any::<u128>().prop_map(Uuid::from_u128)
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        number().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![vec(inner.clone(), 0..4).prop_map(Value::from), vec((text(), inner), 0..4).prop_map(|fields| fields.into_iter().collect())]
    })
}

fn number() -> impl Strategy<Value = f64> {
    use proptest::num::f64::{NEGATIVE, NORMAL, POSITIVE, SUBNORMAL, ZERO};
    POSITIVE | NEGATIVE | NORMAL | SUBNORMAL | ZERO
}

fn metrics() -> impl Strategy<Value = Metrics> {
    let number = || option::of(number());
    (option::of(any::<u64>()), option::of(any::<u64>()), number(), number()).prop_map(|(input_tokens, output_tokens, cost, duration)| Metrics {
        input_tokens,
        output_tokens,
        cost,
        duration,
    })
}

fn tool() -> impl Strategy<Value = Tool> {
    (text(), text(), json(), option::of(text()), option::of(any::<bool>())).prop_map(
        |(tool_call_id, tool_name, tool_args, result, tool_call_error)| Tool { tool_call_id, tool_name, tool_args, result, tool_call_error },
    )
}

fn frame() -> impl Strategy<Value = Frame> {
    prop_oneof![
        4 => text().prop_map(Frame::content),
        1 => (option::of(text()), option::of(text()))
            .prop_map(|(content, reasoning_content)| Frame::RunContent { content, reasoning_content }),
        1 => tool().prop_map(|tool| Frame::ToolCallStarted { tool }),
        1 => tool().prop_map(|tool| Frame::ToolCallCompleted { tool }),
    ]
}

pub(crate) fn agent() -> impl Strategy<Value = Agent> {
    let kinds = (prop_oneof![Just(SandboxKind::Namespace), Just(SandboxKind::Docker)], network());
    let limits = (any::<u64>(), any::<u64>(), 1_u32..5000).prop_map(|(memory, time, cpus)| Limits {
        memory,
        time,
        cpus: f64::from(cpus) / 8.0,
        ..Limits::default()
    });
    let harness = prop_oneof![
        vec(text(), 1..4).prop_map(|command| Harness::Command { command }),
        (option::of(text()), option::of(any::<u32>())).prop_map(|(permission_mode, max_turns)| Harness::Claude { permission_mode, max_turns }),
    ];
    let texts = (text(), text(), text(), harness, option::of(text()));
    (texts, kinds, limits, option::of(1..4_u32)).prop_map(|((id, name, description, harness, model), (sandbox, network), limits, attempts)| Agent {
        id,
        name,
        description,
        harness,
        model,
        sandbox,
        network,
        limits,
        attempts,
    })
}

fn network() -> impl Strategy<Value = Network> {
    prop_oneof![Just(Network::None), Just(Network::Isolated), Just(Network::Open)]
}

pub(crate) fn submitted() -> impl Strategy<Value = Submitted> {
    let file = (text(), text(), any::<u64>(), text()).prop_map(|(name, media_type, size, sha256)| InputFile { name, media_type, size, sha256 });
    let metadata = vec((text(), json()), 0..3).prop_map(|fields| fields.into_iter().collect());
    // `null` as a schema is no schema: JSON cannot tell them apart.
    let schema = option::of(json().prop_map(|schema| if schema.is_null() { Value::from(true) } else { schema }));
    let input = (text(), vec(file, 0..3), metadata, schema).prop_map(|(message, files, metadata, output_schema)| Input {
        message,
        files,
        metadata,
        output_schema,
    });
    (agent(), input, option::of(id())).prop_map(|(agent, input, requeued_from)| Submitted { agent, input, requeued_from })
}

fn class() -> impl Strategy<Value = FailureClass> {
    prop_oneof![Just(FailureClass::Setup), Just(FailureClass::SandboxLost), Just(FailureClass::HostLost), Just(FailureClass::WorkersLost)]
}

/// Any event but `run.submitted`, terminal ones seldom.
pub(crate) fn later() -> impl Strategy<Value = Event> {
    let claimed = (any::<u64>(), id(), text(), text()).prop_map(|(epoch, claim, host, worker)| Claimed { epoch, claim, host, worker });
    let output = (vec(frame(), 0..5), any::<u64>(), json()).prop_map(|(frames, journal, parser)| Output { frames, journal, parser });
    let failed = (text(), text(), any::<bool>(), text(), any::<bool>(), metrics(), vec(tool(), 0..3)).prop_map(
        |(error, error_type, started, content, truncated, metrics, tools)| Event::Failed {
            error,
            error_type,
            started,
            content,
            truncated,
            metrics,
            tools,
        },
    );
    prop_oneof![
        4 => claimed.prop_map(Event::Claimed),
        8 => (any::<u32>(), text(), text()).prop_map(|(attempt, name, host)| Event::SandboxRequested(Requested { attempt, name, host })),
        8 => (any::<u32>(), option::of(text()), any::<u64>())
            .prop_map(|(attempt, model, journal)| Event::SandboxStarted { attempt, model, journal }),
        16 => output.prop_map(Event::Output),
        4 => Just(Event::CancelRequested),
        4 => text().prop_map(|reason| Event::HandedOver { reason }),
        4 => (any::<u32>(), class(), text(), any::<i64>())
            .prop_map(|(attempt, class, error, retry_at)| Event::AttemptFailed { attempt, class, error, retry_at }),
        4 => (text(), any::<u64>(), option::of(text())).prop_map(|(checkpoint, bytes, conversation)| Event::CheckpointSaved { checkpoint, bytes, conversation }),
        2 => (text(), text(), any::<bool>(), metrics(), vec(tool(), 0..3))
            .prop_map(|(content, content_type, truncated, metrics, tools)| Event::Completed { content, content_type, truncated, metrics, tools }),
        1 => failed,
        1 => text().prop_map(|reason| Event::Cancelled { reason }),
    ]
}

pub(crate) fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![1 => submitted().prop_map(|submitted| Event::Submitted(Box::new(submitted))), 12 => later()]
}

/// A log that starts with a submission and goes on with what fits of many events.
pub(crate) fn legal_log() -> impl Strategy<Value = Vec<Recorded>> {
    (submitted(), vec((later(), any::<u16>()), 0..40)).prop_map(|(submitted, events)| {
        let first = Recorded { seq: 0, first_index: 0, at: 1_750_000_000_000, event: Event::Submitted(Box::new(submitted)) };
        let mut run = Run::start(&first).expect("a first event");
        let mut log = vec![first];
        for (event, later) in events {
            let at = log.last().map_or(0, |last| last.at) + i64::from(later);
            let next = Recorded { seq: run.seq + 1, first_index: run.next_index, at, event };
            if let Ok(gone_on) = run.clone().apply(&next) {
                run = gone_on;
                log.push(next);
            }
        }
        log
    })
}
