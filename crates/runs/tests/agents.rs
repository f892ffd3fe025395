use proptest::prelude::*;
use runs::agents::{Agent, Harness, Network, SandboxKind, parse};

/// What other fields need beside them to be right.
const COMMAND: &str = "[agents.a]\nharness = \"command\"\ncommand = [\"/bin/true\"]\nnetwork = \"none\"\n";

fn faults(text: &str) -> Vec<(usize, String)> {
    parse(text).expect_err("a fault").into_iter().map(|fault| (fault.line, fault.reason)).collect()
}

#[test]
fn a_file_of_plain_commands_is_read() {
    let text = r#"
# A comment.
[agents.echo]
name = "Echo"
description = "Does what the lines say"
harness = "command"
network = "none"
command = ["/bin/sh", "-c", '''
while IFS= read -r line || [ -n "$line" ]; do
  case $line in
    nul) printf 'a\000b\n' ;;
    *)   printf 'unknown: %s\n' "$line" ;;
  esac
done
''']
limits = { memory = "64MiB", cpus = 2, processes = 16, disk = "1GiB", time = "1m 30s", output = "8KiB" }
attempts = 3

[agents."v1.2_other-one"]
harness = "command"
network = "none"
command = ["/no/such/program"]
limits = { cpus = 0.5 }
"#;
    let agents = parse(text).expect("no fault");
    assert_eq!(agents.keys().collect::<Vec<_>>(), ["echo", "v1.2_other-one"]);
    let Agent { name, description, harness: Harness::Command { command }, sandbox, network, limits, attempts, .. } = &agents["echo"] else {
        panic!("no command")
    };
    assert_eq!((name.as_str(), description.as_str()), ("Echo", "Does what the lines say"));
    assert!(command.len() == 3 && command[2].contains(r"'a\000b\n'") && command[2].starts_with("while"), "{command:?}");
    assert_eq!((*sandbox, *network, *attempts), (SandboxKind::Namespace, Network::None, Some(3)));
    const MIB: u64 = 1024 * 1024;
    assert_eq!((limits.memory, limits.processes, limits.cpus), (64 * MIB, 16, 2.0));
    assert_eq!((limits.disk, limits.time, limits.output), (1024 * MIB, 90_000, 8 * 1024));
    let other = &agents["v1.2_other-one"];
    assert_eq!((other.name.as_str(), other.limits.cpus, other.limits.memory, other.attempts), ("v1.2_other-one", 0.5, 2048 * MIB, None));
}

/// One fault each: what is added after a right agent's four lines, its line, and a word of the reason.
#[test]
fn each_fault_names_its_line_and_the_reason() {
    let added = [
        ("colour = \"red\"", 5, "colour"),
        ("name = \" \"", 5, "name"),
        ("name = 7", 5, "string"),
        ("sandbox = \"docker\"", 5, "not in this release"),
        ("sandbox = \"jail\"", 5, "has namespace"),
        ("attempts = 0", 5, "1 to 10"),
        ("attempts = 11", 5, "1 to 10"),
        ("attempts = \"two\"", 5, "i64"),
        ("limits = { memory = \"1KiB\" }", 5, "memory"),
        ("limits = { memory = \"lots\" }", 5, "memory"),
        ("limits = { memory = 64 }", 5, "string"),
        ("limits = { swap = \"1GiB\" }", 5, "swap"),
        ("[agents.a.limits]\ndisk = \"9999TiB\"", 6, "disk"),
        ("[agents.a.limits]\n\n# so much\noutput = \"1B\"", 8, "output"),
        ("limits = { processes = 0 }", 5, "processes"),
        ("limits = { cpus = 0 }", 5, "cpus"),
        ("limits = { cpus = nan }", 5, "cpus"),
        ("limits = { cpus = \"all\" }", 5, "cpus"),
        ("limits = { time = \"0s\" }", 5, "time"),
        ("limits = { time = \"25h\" }", 5, "time"),
        ("limits = { time = \"soon\" }", 5, "time"),
        ("network = \"none\"", 5, "duplicate"),
        ("permission_mode = \"plan\"", 5, "permission_mode is not for"),
        ("max_turns = 3", 5, "max_turns is not for"),
        ("repository = { url = \"https://example.com/r\" }", 5, "not in this release"),
        ("image = \"x\"", 5, "not in this release"),
        ("= 7", 5, ""),
        ("[agents.\"a b\"]\nharness = \"command\"\ncommand = [\"x\"]\nnetwork = \"none\"", 5, "letters"),
        ("[agents.\"\"]\nharness = \"command\"\ncommand = [\"x\"]\nnetwork = \"none\"", 5, "letters"),
        ("[other]\nx = 1", 5, "other"),
    ];
    for (text, line, word) in added {
        let found = faults(&format!("{COMMAND}{text}\n"));
        assert!(found.len() == 1 && found[0].0 == line && found[0].1.contains(word), "{text:?}: {found:?}");
    }
}

const CLAUDE: &str = "[agents.a]\nharness = \"claude\"\nmodel = \"claude-sonnet-4-6\"\n";

#[test]
fn an_agent_of_claude_has_a_model_and_the_way_to_it() {
    let text = format!("{CLAUDE}permission_mode = \"acceptEdits\"\nmax_turns = 7\nnetwork = \"isolated\"\nlimits = {{ memory = \"192MiB\" }}\n");
    let agent = &parse(&text).expect("no fault")["a"];
    assert_eq!(agent.harness, Harness::Claude { permission_mode: Some("acceptEdits".into()), max_turns: Some(7) });
    assert_eq!((agent.harness.name(), agent.model.as_deref(), agent.network), ("claude", Some("claude-sonnet-4-6"), Network::Isolated));
    let agent = &parse(CLAUDE).expect("no fault")["a"];
    assert_eq!((&agent.harness, agent.network), (&Harness::Claude { permission_mode: None, max_turns: None }, Network::Isolated));
}

#[test]
fn what_claude_cannot_take_names_its_line() {
    let added = [
        ("command = [\"x\"]", 4, "command is not for"),
        ("permission_mode = \"yolo\"", 4, "bypassPermissions"),
        ("max_turns = 0", 4, "1 to 10000"),
        ("\nnetwork = \"none\"", 5, "needs a model"),
        ("\nlimits = { memory = \"64MiB\" }", 5, "192MiB"),
        ("[agents.b]\nharness = \"claude\"\nmodel = \"-p\"", 6, "no model's name"),
    ];
    for (text, line, word) in added {
        let found = faults(&format!("{CLAUDE}{text}\n"));
        assert!(found.len() == 1 && found[0].0 == line && found[0].1.contains(word), "{text:?}: {found:?}");
    }
}

#[test]
fn a_network_is_isolated_unless_it_says_otherwise() {
    let network = |line: &str| parse(&format!("[agents.a]\nharness = \"command\"\ncommand = [\"x\"]\n{line}\n")).unwrap()["a"].network;
    assert_eq!(
        [network(""), network("network = \"isolated\""), network("network = \"none\"")],
        [Network::Isolated, Network::Isolated, Network::None]
    );
}

#[test]
fn a_fault_of_what_is_missing_or_wrong_in_the_agent_itself_names_its_line() {
    let wrong = [
        ("", 1, "no agent"),
        ("# nothing\n", 1, "no agent"),
        ("[agents]\n", 1, "no agent"),
        ("\n[agents.a]\ncommand = [\"x\"]\nnetwork = \"none\"\n", 2, "harness"),
        ("\n[agents.a]\nharness = \"command\"\nnetwork = \"none\"\n", 2, "command"),
        ("[agents.a]\nharness = \"command\"\ncommand = []\nnetwork = \"none\"\n", 3, "empty"),
        ("[agents.a]\nharness = \"command\"\ncommand = [\"\"]\nnetwork = \"none\"\n", 3, "empty"),
        ("[agents.a]\nharness = \"command\"\ncommand = [\"x\", \"a\\u0000b\"]\nnetwork = \"none\"\n", 3, "NUL"),
        ("[agents.a]\nharness = \"command\"\ncommand = \"x\"\nnetwork = \"none\"\n", 3, "sequence"),
        ("[agents.a]\nharness = \"claude\"\n", 1, "needs model"),
        ("[agents.a]\nharness = \"claude\"\nmodel = \"m\"\nnetwork = \"none\"\n", 4, "needs a model"),
        ("[agents.a]\nharness = \"codex\"\nnetwork = \"none\"\n", 2, "not in this release"),
        ("[agents.a]\nharness = \"bash\"\nnetwork = \"none\"\n", 2, "has command"),
        ("[agents.a]\nharness = \"command\"\ncommand = [\"x\"]\nnetwork = \"open\"\n", 4, "not in this release"),
        ("[agents.a]\nharness = \"command\"\ncommand = [\"x\"]\nnetwork = \"some\"\n", 4, "has none and isolated"),
        ("agents = 3\n", 1, ""),
        ("[agents]\na = 3\n", 2, ""),
        ("[agents.a", 1, ""),
    ];
    for (text, line, word) in wrong {
        let found = faults(text);
        assert!(found.len() == 1 && found[0].0 == line && found[0].1.contains(word), "{text:?}: {found:?}");
    }
}

#[test]
fn faults_are_told_all_at_once() {
    let text = "[agents.a]\nharness = \"bash\"\nnetwork = \"some\"\nattempts = 0\n\n[agents.b]\nharness = \"command\"\nnetwork = \"none\"\n";
    let lines: Vec<_> = faults(text).into_iter().map(|(line, _)| line).collect();
    assert_eq!(lines, [2, 3, 4, 6]);
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in any::<String>()) {
        let _ = parse(&text);
    }

    #[test]
    fn no_change_to_a_right_file_makes_the_reader_panic(at in any::<prop::sample::Index>(), length in 0..9_usize, put in ".{0,9}") {
        let text = format!("{COMMAND}limits = {{ memory = \"64MiB\", time = \"1m\", cpus = 0.5 }}\n");
        let at = text.floor_char_boundary(at.index(text.len()));
        let end = text.floor_char_boundary((at + length).min(text.len()));
        let changed = format!("{}{put}{}", &text[..at], &text[end..]);
        let lines = changed.lines().count().max(1) + 1;
        if let Err(faults) = parse(&changed) {
            prop_assert!(!faults.is_empty() && faults.iter().all(|fault| (1..=lines).contains(&fault.line) && !fault.reason.is_empty()), "{faults:?}");
        }
    }
}
