//! One process a folder, from the first need to the last.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;

use runner::egress::{Answer, PROTOCOL, To};

use super::kit::{House, KEY, eventually};

#[test]
fn it_is_started_once_however_many_need_it_at_once() {
    let house = House::new(&[("ANTHROPIC_API_KEY", KEY)]);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(house.run(), ""));
        }
    });
    let pid = house.pid();
    assert_eq!(house.run(), "");
    assert_eq!(house.pid(), pid);
    assert_eq!(std::fs::metadata(house.path()).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn it_is_nobodys_child_and_has_nothing_of_its_starters_environment() {
    let mut house = House::new(&[("ANTHROPIC_API_KEY", KEY), ("SECRET", "of-the-starter")]);
    house.variables.push(("PATH".into(), "/usr/bin".into()));
    house.run();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", house.pid())).unwrap();
    let fields: Vec<_> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    assert_ne!(fields[1], std::process::id().to_string());
    assert_eq!(fields[3], house.pid().to_string(), "a session of its own");
    if rustix::process::geteuid().is_root() {
        let environment = std::fs::read_to_string(format!("/proc/{}/environ", house.pid())).unwrap();
        assert_eq!(environment, format!("ANTHROPIC_API_KEY={KEY}\0"));
    }
}

#[test]
fn other_settings_wait_until_nobody_needs_the_ones_before() {
    let mut house = House::new(&[("ANTHROPIC_API_KEY", KEY)]);
    house.run();
    let first = house.pid();
    // A connection with an answer on it is one that is counted: an order that comes before that would end the house.
    let mut stay = house.enter(PROTOCOL, To::Join { upstreams: Vec::new() });
    stay.write_all(b"GET /nowhere HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    stay.read_exact(&mut [0]).unwrap();
    house.variables[0].1 = "another-key".into();
    assert_eq!(house.tell(PROTOCOL, To::Replace { settings: "x".into() }), Answer::Busy);
    let said = house.run();
    assert!(said.contains("other settings") && !said.contains("another-key"), "{said}");
    assert_eq!(house.pid(), first);
    assert!(house.order("end").status.success());
    assert_eq!(house.pid(), first);
    drop(stay);
    eventually("other settings", || house.run().is_empty());
    assert_ne!(house.pid(), first);
}

#[test]
fn it_ends_on_order_and_when_nobody_needs_it() {
    let mut house = House::new(&[]);
    house.run();
    assert!(house.order("end").status.success());
    eventually("its end", || house.pids().is_empty());
    assert!(house.order("end").status.success());

    house.variables = vec![("SANDLOG_EGRESS_LINGER_SECONDS".into(), "1".into())];
    house.run();
    let stay = house.enter(PROTOCOL, To::Stay);
    std::thread::sleep(std::time::Duration::from_millis(2500));
    assert_eq!(house.pids().len(), 1);
    drop(stay);
    eventually("its end", || house.pids().is_empty());
}

#[test]
fn what_a_killed_one_left_is_in_nobodys_way() {
    let house = House::new(&[]);
    house.run();
    let first = house.pid();
    rustix::process::kill_process(rustix::process::Pid::from_raw(first).unwrap(), rustix::process::Signal::KILL).unwrap();
    house.run();
    assert_ne!(house.pid(), first);
    assert_eq!(house.tell(PROTOCOL, To::Replace { settings: "x".into() }), Answer::Ends);
}

#[test]
fn another_protocol_is_refused_and_faults_are_told_without_keys() {
    let mut house = House::new(&[]);
    house.run();
    assert_eq!(house.tell(PROTOCOL + 1, To::Stay), Answer::Refused);
    house.variables = vec![("ANTHROPIC_API_KEY".into(), "a\u{1}secret".into()), ("SANDLOG_UPSTREAM_OPENAI".into(), "ftp://x".into())];
    let output = house.order("run");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && said.contains("ANTHROPIC_API_KEY: ") && said.contains("SANDLOG_UPSTREAM_OPENAI: ") && !said.contains("secret"),
        "{said}"
    );
}
