//! How fast it is. Run by hand: `cargo test --release -p worker --test main -- --ignored --nocapture measure`.

use std::time::Instant;

use worker::sandbox::{Body, Sandboxes};

use super::rig::{Rig, next, rest, spec};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement, not a test"]
async fn measure() {
    let truth = spec(vec!["/bin/true".into()]);
    let (mut starts, mut turns) = (Vec::new(), Vec::new());
    for _ in 0..60 {
        let rig = Rig::new();
        let begin = Instant::now();
        rig.create(&truth).await;
        let mut attached = rig.attach().await;
        assert_eq!(next(&mut attached).await.0, Body::Started);
        starts.push(begin.elapsed());
        rest(&mut attached).await;
        turns.push(begin.elapsed());
        rig.sandboxes.remove(&rig.at, 1).await.unwrap();
    }
    starts.sort_unstable();
    turns.sort_unstable();
    let of = |times: &[std::time::Duration]| (times[0], times[times.len() / 2], times[times.len() * 9 / 10]);
    println!("create to Started: {:?} (least, median, 90 %)", of(&starts));
    println!("create to Exit: {:?}", of(&turns));

    let begin = Instant::now();
    let lanes = (0..4).map(|_| {
        let truth = truth.clone();
        tokio::spawn(async move {
            for _ in 0..25 {
                let rig = Rig::new();
                rig.create(&truth).await;
                rest(&mut rig.attach().await).await;
                rig.sandboxes.remove(&rig.at, 1).await.unwrap();
            }
        })
    });
    for lane in lanes.collect::<Vec<_>>() {
        lane.await.unwrap();
    }
    println!("create, run, remove, 4 at a time: {:.1} a second", 100.0 / begin.elapsed().as_secs_f64());
}
