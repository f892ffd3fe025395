//! System calls that no harness needs and that widen what it could attack.
//!
//! All else is allowed: the namespaces, the missing capabilities and the other user are the wall, this makes it thicker. A refused call fails with EPERM.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek, Write};

use rustix::fs::MemfdFlags;
use seccompiler::{BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule};

/// Refused whatever the arguments.
const CALLS: [libc::c_long; 42] = [
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
];
/// Kinds of sockets that reach past the network namespace or into rarely used code of the kernel.
const SOCKETS: [libc::c_int; 4] = [libc::AF_ALG, libc::AF_KEY, libc::AF_PACKET, libc::AF_VSOCK];
/// Typing into a terminal on behalf of its user.
const IOCTLS: [u64; 2] = [0x5412, 0x541C];

/// The filter in a file in memory, as bubblewrap takes it.
pub(super) fn write() -> io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create("seccomp", MemfdFlags::CLOEXEC)?);
    for step in program().map_err(io::Error::other)? {
        file.write_all(&step.code.to_ne_bytes())?;
        file.write_all(&[step.jt, step.jf])?;
        file.write_all(&step.k.to_ne_bytes())?;
    }
    file.rewind()?;
    Ok(file)
}

fn program() -> Result<BpfProgram, seccompiler::Error> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = CALLS.iter().map(|call| (*call, Vec::new())).collect();
    let kinds = SOCKETS.map(i64::from).map(i64::cast_unsigned);
    rules.insert(libc::SYS_socket, one_of(0, SeccompCmpArgLen::Dword, &kinds)?);
    rules.insert(libc::SYS_ioctl, one_of(1, SeccompCmpArgLen::Dword, &IOCTLS)?);
    let refuse = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let here = std::env::consts::ARCH.try_into()?;
    Ok(SeccompFilter::new(rules, SeccompAction::Allow, refuse, here)?.try_into()?)
}

fn one_of(argument: u8, len: SeccompCmpArgLen, values: &[u64]) -> Result<Vec<SeccompRule>, seccompiler::Error> {
    let rule = |value: &u64| {
        let is = SeccompCondition::new(argument, len.clone(), SeccompCmpOp::Eq, *value)?;
        Ok(SeccompRule::new(vec![is])?)
    };
    values.iter().map(rule).collect()
}
