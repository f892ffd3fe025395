//! What usual programs read in `/etc`: how to find libraries, programs, certificates, names and time. Nothing of the host's users or secrets.
//!
//! Files are copied into the sandbox's root, only folders are mounted: for each mount bubblewrap reads the list of all mounts, which made up half of what
//! a start took.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::AsRawFd;

use rustix::fs::MemfdFlags;

use crate::fds;

const FILES: [&str; 11] = [
    "bash.bashrc",
    "ca-certificates.conf",
    "debian_version",
    "gai.conf",
    "ld.so.cache",
    "ld.so.conf",
    "localtime",
    "mime.types",
    "os-release",
    "protocols",
    "services",
];
const FOLDERS: [&str; 6] = ["alternatives", "ca-certificates", "ld.so.conf.d", "pki", "ssl/certs", "terminfo"];
const DEEPER: [&str; 1] = ["ssl/openssl.cnf"];
/// What differs from the host's.
const OWN: [(&str, &str); 4] = [
    ("passwd", "root:x:0:0:root:/:/usr/sbin/nologin\nagent:x:1000:1000:agent:/home/agent:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"),
    ("group", "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n"),
    ("hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n"),
    ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
];

/// Each file, open for reading.
pub(super) struct Files(Vec<(&'static str, File)>);

impl Files {
    /// As the sandbox's user: what that may not read is not shown to it.
    pub(super) fn open() -> io::Result<Self> {
        let host = FILES.iter().chain(&DEEPER).filter_map(|name| Some((*name, File::open(format!("/etc/{name}")).ok()?)));
        let host = host.filter(|(_, file)| file.metadata().is_ok_and(|meta| meta.is_file()));
        let own = OWN.iter().map(|(name, text)| Ok((*name, in_memory(text)?)));
        host.map(Ok).chain(own).collect::<io::Result<_>>().map(Self)
    }

    pub(super) fn keep(&self) -> io::Result<()> {
        self.0.iter().try_for_each(|(_, file)| fds::keep(file))
    }

    /// Bubblewrap's arguments.
    pub(super) fn arguments(&self) -> impl Iterator<Item = OsString> {
        let folders = FOLDERS.iter().map(|name| format!("/etc/{name}")).flat_map(|path| ["--ro-bind-try".to_owned(), path.clone(), path]);
        let file = |(name, file): &(&str, File)| {
            ["--perms".to_owned(), "0644".into(), "--file".into(), file.as_raw_fd().to_string(), format!("/etc/{name}")]
        };
        folders.chain(self.0.iter().flat_map(file)).map(OsString::from)
    }
}

fn in_memory(text: &str) -> io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create("etc", MemfdFlags::CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}
