//! Whom the server runs as, and how that account reaches its folder.
//!
//! Postgres refuses to run as root. So a root `sandlog` gives the cluster to an account without rights: `postgres`, else `nobody`. Where that account
//! cannot enter a folder above (a clone below /root), the server is started in a mount namespace of its own in which the cluster stands elsewhere.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// An account that the server runs as, where it is not ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// None: the server runs as this process does. A cluster keeps the account that it was made for.
pub(super) fn choose(cluster: &Path) -> Option<Account> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let kept = fs::metadata(cluster).ok().filter(|folder| folder.uid() != 0).map(|folder| Account { uid: folder.uid(), gid: folder.gid() });
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    kept.or_else(|| named(&passwd, "postgres")).or_else(|| named(&passwd, "nobody")).or(Some(Account { uid: 65534, gid: 65534 }))
}

fn named(passwd: &str, name: &str) -> Option<Account> {
    let fields: Vec<&str> = passwd.lines().find(|line| line.split(':').next() == Some(name))?.split(':').collect();
    let account = Account { uid: fields.get(2)?.parse().ok()?, gid: fields.get(3)?.parse().ok()? };
    (account.uid != 0 && account.gid != 0).then_some(account)
}

/// Whether the account can go through every folder above `path`. Judged by modes; an ACL that says otherwise shows in the server's own error.
pub(super) fn can_reach(account: Account, path: &Path) -> bool {
    path.ancestors().skip(1).all(|folder| can_enter(account, folder))
}

fn can_enter(account: Account, folder: &Path) -> bool {
    let Ok(folder) = fs::metadata(folder) else { return false };
    let bit = match () {
        () if folder.uid() == account.uid => 0o100,
        () if folder.gid() == account.gid => 0o010,
        () => 0o001,
    };
    folder.is_dir() && folder.mode() & bit != 0
}

/// A folder that the account can enter and that is not needed by the server's programs: in the server's mount namespace its cluster stands there.
pub(super) fn stand_in(account: Account, binaries: &Path) -> Option<PathBuf> {
    ["/mnt", "/media", "/srv", "/var/lib/postgresql", "/var/tmp"]
        .iter()
        .map(PathBuf::from)
        .find(|place| !binaries.starts_with(place) && can_enter(account, place) && can_reach(account, place))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const STRANGER: Account = Account { uid: 65533, gid: 65533 };

    #[test]
    fn accounts_are_read_from_passwd_and_root_is_none() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\npostgres:x:101:104::/var/lib/postgresql:/bin/sh\nsly:x:0:5::/:/bin/sh\n";
        assert_eq!(named(passwd, "postgres"), Some(Account { uid: 101, gid: 104 }));
        assert_eq!(named(passwd, "sly"), None);
        assert_eq!(named(passwd, "nobody"), None);
    }

    #[test]
    fn a_private_folder_above_cuts_off_a_stranger() {
        let folder = tempfile::tempdir().expect("a folder");
        let below = folder.path().join("open/data");
        fs::create_dir_all(&below).expect("folders");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).expect("a mode");
        assert!(!can_reach(STRANGER, &below));
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o711)).expect("a mode");
        assert!(can_reach(STRANGER, &below));
    }
}
