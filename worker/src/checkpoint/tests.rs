//! What a harness may have done to its workspace, and what comes back.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};
use uuid::Uuid;

use super::{Checkpoints, Folder};
use crate::sandbox::Paths;

fn checkpoints() -> (tempfile::TempDir, Folder) {
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = Folder::open(folder.path().join("checkpoints")).unwrap();
    (folder, checkpoints)
}

/// A sandbox's folders, and its workspace.
fn sandbox(root: &Path, name: &str) -> (Paths, PathBuf) {
    let folder = root.join(name);
    let paths = Paths { workspace: folder.join("workspace"), home: folder.join("home"), files: folder.join("files"), folder };
    fs::create_dir_all(&paths.workspace).unwrap();
    fs::create_dir_all(&paths.home).unwrap();
    let workspace = paths.workspace.clone();
    (paths, workspace)
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

#[tokio::test]
async fn a_workspace_comes_back_as_it_was() {
    let (folder, checkpoints) = checkpoints();
    let ((from_paths, from), (to_paths, to)) = (sandbox(folder.path(), "from"), sandbox(folder.path(), "to"));
    fs::create_dir_all(from.join("deep/er")).unwrap();
    fs::create_dir(from.join("empty")).unwrap();
    fs::write(from_paths.home.join("left"), "not kept").unwrap();
    fs::create_dir(from.join("read-only")).unwrap();
    fs::write(from.join("read-only/file"), "kept").unwrap();
    fs::set_permissions(from.join("read-only"), fs::Permissions::from_mode(0o555)).unwrap();
    fs::write(from.join("deep/er/bytes"), [0, 159, 146, 150]).unwrap();
    fs::write(from.join("run.sh"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(from.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("deep/er", from.join("link")).unwrap();
    let (id, bytes) = checkpoints.save(Uuid::nil(), "run-1", &from_paths, &[]).await.unwrap();
    assert!(bytes > 0);
    checkpoints.restore(&id, &to_paths).unwrap();
    assert_eq!(fs::read(to.join("deep/er/bytes")).unwrap(), [0, 159, 146, 150]);
    assert_eq!((mode(&to.join("run.sh")), fs::read_link(to.join("link")).unwrap().to_str()), (0o755, Some("deep/er")));
    assert!(to.join("empty").is_dir() && !to_paths.home.join("left").exists());
    assert_eq!((fs::read_to_string(to.join("read-only/file")).unwrap().as_str(), mode(&to.join("read-only"))), ("kept", 0o555));
}

/// A folder below another by so many names that no system call takes the path to it, with a file, a second name of it and a link in it.
fn deep(root: &Path) -> OwnedFd {
    let mut at = rustix::fs::open(root, OFlags::PATH, Mode::empty()).unwrap();
    for n in 0..30 {
        let name = format!("{n:0>200}");
        rustix::fs::mkdirat(&at, &name, Mode::RWXU).unwrap();
        at = rustix::fs::openat(&at, &name, OFlags::PATH, Mode::empty()).unwrap();
    }
    let file = rustix::fs::openat(&at, "file", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();
    rustix::io::write(&file, b"deep").unwrap();
    rustix::fs::linkat(&at, "file", &at, "other", AtFlags::empty()).unwrap();
    rustix::fs::symlinkat("x".repeat(4000), &at, "link").unwrap();
    at
}

/// The folder that `deep` makes.
fn deepest(root: &Path) -> OwnedFd {
    let mut at = rustix::fs::open(root, OFlags::PATH, Mode::empty()).unwrap();
    for n in 0..30 {
        at = rustix::fs::openat(&at, format!("{n:0>200}"), OFlags::PATH, Mode::empty()).unwrap();
    }
    at
}

#[tokio::test]
async fn paths_longer_than_a_system_call_takes_come_back() {
    let (folder, checkpoints) = checkpoints();
    let ((from_paths, from), (to_paths, to)) = (sandbox(folder.path(), "from"), sandbox(folder.path(), "to"));
    rustix::fs::chmodat(deep(&from), ".", Mode::RUSR | Mode::XUSR, AtFlags::empty()).unwrap();
    fs::write(from.join("beside"), "beside").unwrap();
    let (id, _) = checkpoints.save(Uuid::nil(), "run-1", &from_paths, &[]).await.unwrap();
    checkpoints.restore(&id, &to_paths).unwrap();
    let at = deepest(&to);
    let mut text = [0; 8];
    let file = rustix::fs::openat(&at, "other", OFlags::RDONLY, Mode::empty()).unwrap();
    assert_eq!((rustix::io::read(&file, &mut text).unwrap(), &text[..4]), (4, b"deep".as_slice()));
    assert_eq!(rustix::fs::fstat(&file).unwrap().st_nlink, 2);
    assert_eq!(rustix::fs::readlinkat(&at, "link", Vec::new()).unwrap().to_bytes().len(), 4000);
    assert_eq!(rustix::fs::fstat(&at).unwrap().st_mode & 0o7777, 0o500);
    assert_eq!(fs::read_to_string(to.join("beside")).unwrap(), "beside");
}

#[tokio::test]
async fn a_hostile_workspace_reaches_nothing_outside_and_ends_nothing() {
    let (folder, checkpoints) = checkpoints();
    let ((from_paths, from), (to_paths, to)) = (sandbox(folder.path(), "from"), sandbox(folder.path(), "to"));
    let outside = folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "secret").unwrap();
    symlink(&outside, from.join("way-out")).unwrap();
    symlink(outside.join("secret"), from.join("file-out")).unwrap();
    symlink("loop", from.join("loop")).unwrap();
    let fifo = std::process::Command::new("mkfifo").arg(from.join("pipe")).status().unwrap();
    assert!(fifo.success());
    let _socket = std::os::unix::net::UnixListener::bind(from.join("socket")).unwrap();
    fs::write(from.join("su"), "x").unwrap();
    fs::set_permissions(from.join("su"), fs::Permissions::from_mode(0o6755)).unwrap();
    fs::create_dir(from.join("shut")).unwrap();
    fs::write(from.join("shut/inside"), "kept").unwrap();
    fs::set_permissions(from.join("shut"), fs::Permissions::from_mode(0o000)).unwrap();

    let (id, _) = checkpoints.save(Uuid::nil(), "run-1", &from_paths, &[]).await.unwrap();
    checkpoints.restore(&id, &to_paths).unwrap();
    assert_eq!(fs::read_link(to.join("way-out")).unwrap(), outside);
    assert!(fs::symlink_metadata(to.join("file-out")).unwrap().is_symlink());
    assert_eq!(mode(&to.join("su")), 0o755, "no set-user-id bit comes back");
    assert_eq!(fs::read_to_string(to.join("shut/inside")).unwrap(), "kept");
    assert!(!to.join("pipe").exists() && !to.join("socket").exists());
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}

#[tokio::test]
async fn a_file_of_many_names_stays_one_file() {
    let (folder, checkpoints) = checkpoints();
    let ((from_paths, from), (to_paths, to)) = (sandbox(folder.path(), "from"), sandbox(folder.path(), "to"));
    // Not to be compressed.
    let mut state = 1u32;
    let mut byte = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    let bytes: Vec<u8> = (0..100_000).map(|_| byte()).collect();
    fs::create_dir(from.join("deep")).unwrap();
    fs::write(from.join("deep/one"), &bytes).unwrap();
    for n in 0..50 {
        fs::hard_link(from.join("deep/one"), from.join(format!("{n}"))).unwrap();
    }
    let (id, size) = checkpoints.save(Uuid::nil(), "run-1", &from_paths, &[]).await.unwrap();
    assert!(size < 200_000, "{size}");
    checkpoints.restore(&id, &to_paths).unwrap();
    assert_eq!(fs::read(to.join("deep/one")).unwrap(), bytes);
    assert_eq!(std::os::unix::fs::MetadataExt::nlink(&fs::metadata(to.join("7")).unwrap()), 51);
}

#[tokio::test]
async fn only_the_named_checkpoints_of_a_session_are_kept() {
    let (folder, checkpoints) = checkpoints();
    let (mine, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let (workspace, _) = sandbox(folder.path(), "sandbox");
    let (first, _) = checkpoints.save(mine, "a-1", &workspace, &[]).await.unwrap();
    let (second, _) = checkpoints.save(mine, "b-1", &workspace, &[]).await.unwrap();
    let (others, _) = checkpoints.save(other, "c-1", &workspace, &[]).await.unwrap();
    checkpoints.keep_only(mine, &[&second]).await.unwrap();
    let there = |id: &str| checkpoints.restore(id, &workspace).is_ok();
    assert!(!there(&first) && there(&second) && there(&others));
    checkpoints.keep_only(mine, &[]).await.unwrap();
    checkpoints.keep_only(mine, &[]).await.unwrap();
    assert!(!there(&second) && there(&others));
    assert!(!folder.path().join("checkpoints").join(mine.to_string()).exists());
}

#[tokio::test]
async fn who_tidies_up_late_leaves_a_later_turns_checkpoint() {
    let (folder, checkpoints) = checkpoints();
    let (sandbox, _) = sandbox(folder.path(), "sandbox");
    let (first, _) = checkpoints.save(Uuid::nil(), "a-1-1", &sandbox, &[]).await.unwrap();
    let (second, _) = checkpoints.save(Uuid::nil(), "b-1-2", &sandbox, &[]).await.unwrap();
    let half_written = folder.path().join("checkpoints").join(Uuid::nil().to_string()).join("b-1-2.tar.part-0");
    fs::write(&half_written, "").unwrap();
    // A worker that stood still between the end of its turn and this.
    checkpoints.keep_only(Uuid::nil(), &[&first]).await.unwrap();
    assert!(half_written.exists());
    checkpoints.restore(&second, &sandbox).unwrap();
    checkpoints.keep_only(Uuid::nil(), &[&second]).await.unwrap();
    assert!(checkpoints.restore(&first, &sandbox).is_err() && !half_written.exists());
}

#[tokio::test]
async fn no_id_leads_out_of_the_folder() {
    let (folder, checkpoints) = checkpoints();
    fs::write(folder.path().join("file.tar.zst"), "").unwrap();
    let (paths, _) = sandbox(folder.path(), "sandbox");
    for id in ["../file.tar.zst", "a/../../file.tar.zst", "/etc/passwd", "a", "a/b/c", "./file"] {
        let error = checkpoints.restore(id, &paths).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{id}");
    }
}

const KEEPS: &[&str] = &["home/.claude/projects"];

#[tokio::test]
async fn what_a_harness_keeps_comes_back_and_nothing_else_of_its_home() {
    let (folder, checkpoints) = checkpoints();
    let ((from, _), (to, _)) = (sandbox(folder.path(), "from"), sandbox(folder.path(), "to"));
    let conversation = ".claude/projects/-workspace/c.jsonl";
    fs::create_dir_all(from.home.join(conversation).parent().unwrap()).unwrap();
    fs::write(from.home.join(conversation), "{}").unwrap();
    fs::write(from.home.join(".claude.json"), "this machine's").unwrap();
    assert!(super::has(&from, &format!("home/{conversation}")) && !super::has(&from, "home/.claude/projects"));
    let (id, _) = checkpoints.save(Uuid::nil(), "run-1", &from, KEEPS).await.unwrap();
    checkpoints.restore(&id, &to).unwrap();
    assert_eq!(fs::read_to_string(to.home.join(conversation)).unwrap(), "{}");
    assert!(!to.home.join(".claude.json").exists());
}

#[tokio::test]
async fn a_link_on_the_way_to_what_is_kept_leads_nowhere() {
    let (folder, checkpoints) = checkpoints();
    let ((from, _), (to, _)) = (sandbox(folder.path(), "from"), sandbox(folder.path(), "to"));
    // Of the host: what a checkpoint must never hold.
    let outside = folder.path().join("outside");
    fs::create_dir_all(outside.join("projects/-workspace")).unwrap();
    fs::write(outside.join("projects/-workspace/c.jsonl"), "secret").unwrap();
    symlink(&outside, from.home.join(".claude")).unwrap();
    assert!(!super::has(&from, "home/.claude/projects/-workspace/c.jsonl"));
    let (id, _) = checkpoints.save(Uuid::nil(), "run-1", &from, KEEPS).await.unwrap();
    checkpoints.restore(&id, &to).unwrap();
    assert!(!to.home.join(".claude").exists());
}

/// All below a folder, with what is in the files.
fn all(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let (mut found, mut waiting) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(at) = waiting.pop() {
        for path in fs::read_dir(at).unwrap().map(|entry| entry.unwrap().path()) {
            let meta = fs::symlink_metadata(&path).unwrap();
            if meta.is_dir() {
                waiting.push(path.clone());
            }
            found.push((path.clone(), if meta.is_file() { fs::read(&path).unwrap() } else { Vec::new() }));
        }
    }
    found.sort();
    found
}

/// A tar of a few entries of every kind, with names that a hostile worker would give.
fn archive(entries: &[(usize, usize, usize)]) -> Vec<u8> {
    const NAMES: [&str; 8] = ["workspace/a", "workspace/a/b", "workspace", "workspace/../../x", "/x", "home/.claude", "workspace/link/x", "x"];
    const KINDS: [tar::EntryType; 6] = [
        tar::EntryType::Regular,
        tar::EntryType::Directory,
        tar::EntryType::Symlink,
        tar::EntryType::Link,
        tar::EntryType::Fifo,
        tar::EntryType::XHeader,
    ];
    let mut bytes = Vec::new();
    for (name, kind, link) in entries {
        let kind = KINDS[kind % KINDS.len()];
        let mut header = tar::Header::new_gnu();
        let content: &[u8] = if kind == tar::EntryType::Regular { b"outside?" } else { b"" };
        let name = NAMES[name % NAMES.len()].as_bytes();
        // As bytes: the library refuses to write some of these names.
        header.as_mut_bytes()[..name.len()].copy_from_slice(name);
        let link = ["..", "../outside", "/", "workspace/a", "../../outside/file"][link % 5].as_bytes();
        header.as_mut_bytes()[157..157 + link.len()].copy_from_slice(link);
        header.set_entry_type(kind);
        header.set_mode(0o7777);
        header.set_size(content.len() as u64);
        header.set_cksum();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(content);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    }
    bytes.extend([0; 1024]);
    bytes
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(300))]
    #[test]
    fn no_checkpoint_makes_its_reader_panic_or_reaches_outside(
        entries in proptest::collection::vec((0usize..8, 0usize..6, 0usize..5), 0..6), packed in proptest::prelude::any::<bool>(),
        changes in proptest::collection::vec((proptest::prelude::any::<proptest::sample::Index>(), proptest::prelude::any::<u8>()), 0..6),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (outside, root) = (folder.path().join("outside"), folder.path().join("sandbox"));
        fs::create_dir_all(&outside).unwrap();
        fs::create_dir_all(root.join("workspace")).unwrap();
        fs::write(outside.join("file"), "untouched").unwrap();
        let mut bytes = archive(&entries);
        let change = |bytes: &mut Vec<u8>| changes.iter().filter(|_| !bytes.is_empty()).map(|(at, byte)| (at.index(bytes.len()), *byte)).collect::<Vec<_>>();
        if !packed {
            change(&mut bytes).into_iter().for_each(|(at, byte)| bytes[at] = byte);
        }
        let mut compressed = zstd::encode_all(bytes.as_slice(), 1).unwrap();
        if packed {
            change(&mut compressed).into_iter().for_each(|(at, byte)| compressed[at] = byte);
        }
        // Whether it is taken or refused.
        let _ = super::pack::unpack(compressed.as_slice(), &root, &["workspace"]);
        proptest::prop_assert_eq!(all(&outside), vec![(outside.join("file"), b"untouched".to_vec())]);
        let beside: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        proptest::prop_assert_eq!(beside.len(), 2, "{:?}", beside);
    }
}
