//! The network namespaces of this machine, and the containers that live in them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

use base::Netns;

use crate::netns::{NAMED_DIR, NSFS_MAGIC};
use crate::process::process_cgroup;

/// Digits of a container's number that are shown, as `docker ps` does.
const ID_DIGITS: usize = 12;
/// Ways to write a container's number in the last part of a control group's path, with what runs
/// it.
const RUNTIMES: &[(&str, &str)] = &[
    ("docker-", "Docker"),
    ("libpod-", "Podman"),
    ("cri-containerd-", "containerd"),
    ("nerdctl-", "containerd"),
    ("crio-", "CRI-O"),
];

/// A network namespace of this machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NetnsPlace {
    /// The namespace.
    pub netns: Netns,
    /// The container in it, such as `Docker 3f2a1b0c9d8e`, where its first process is in one.
    pub container: Option<String>,
}

/// Every network namespace that has a name or a process which we may look into: our own first, then
/// by inode. Without root, those of our own processes and the named ones.
#[must_use]
pub fn all_netns() -> Vec<NetnsPlace> {
    let own = inode("/proc/thread-self/ns/net");
    let processes = of_processes();
    let named = of_names();
    let mut inodes: Vec<u64> = processes.keys().chain(named.keys()).copied().collect();
    inodes.sort_unstable();
    inodes.dedup();
    let place = |inode: u64| {
        let pid = processes.get(&inode).copied();
        let netns = match (named.get(&inode), pid) {
            (Some(name), _) => Netns::Named(name.clone()),
            (None, Some(pid)) => Netns::OfProcess(pid),
            (None, None) => return None,
        };
        let container = pid.and_then(process_cgroup);
        Some(NetnsPlace {
            netns,
            container: container.and_then(|cgroup| container_of(&cgroup)),
        })
    };
    let own_place = NetnsPlace {
        netns: Netns::Own,
        container: None,
    };
    let others = inodes.into_iter().filter(|inode| Some(*inode) != own);
    std::iter::once(own_place)
        .chain(others.filter_map(place))
        .collect()
}

/// The first process of each namespace, by inode.
fn of_processes() -> BTreeMap<u64, u32> {
    let mut found: BTreeMap<u64, u32> = BTreeMap::new();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    for pid in pids {
        if let Some(inode) = inode(&format!("/proc/{pid}/ns/net")) {
            found
                .entry(inode)
                .and_modify(|first| *first = pid.min(*first))
                .or_insert(pid);
        }
    }
    found
}

/// The names under `/run/netns`, by inode. Where another mount namespace has made them, they are
/// plain files here, whose inodes mean nothing.
fn of_names() -> BTreeMap<u64, String> {
    let entries = fs::read_dir(NAMED_DIR).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let path = entry.path();
            let system = rustix::fs::statfs(&path).ok()?;
            let inode = fs::metadata(&path).ok()?.ino();
            let name = entry.file_name().into_string().ok()?;
            (system.f_type == NSFS_MAGIC).then_some((inode, name))
        })
        .collect()
}

fn inode(path: &str) -> Option<u64> {
    Some(fs::metadata(path).ok()?.ino())
}

/// Name of the container that a control group belongs to. The containers of a Kubernetes pod share
/// its namespace, so the pod is named.
fn container_of(cgroup: &str) -> Option<String> {
    let parts = || cgroup.split('/').filter(|part| !part.is_empty());
    if let Some(uid) = parts().find_map(pod_uid) {
        return Some(format!("Kubernetes pod {uid}"));
    }
    if let Some(name) = parts().find_map(|part| part.strip_prefix("lxc.payload.")) {
        return Some(format!("LXC {name}"));
    }
    // systemd's driver puts the number into a scope, and cgroupfs's into a folder of its own.
    let in_scope = |part: &str| {
        let (runtime, id) = RUNTIMES
            .iter()
            .find_map(|(prefix, runtime)| Some((*runtime, part.strip_prefix(prefix)?)))?;
        Some((runtime, id.strip_suffix(".scope").unwrap_or(id).to_owned()))
    };
    let in_folder = || {
        let mut parts = parts();
        parts.find(|part| *part == "docker")?;
        Some(("Docker", parts.next()?.to_owned()))
    };
    let (runtime, id) = parts().find_map(in_scope).or_else(in_folder)?;
    let is_number = id.len() >= ID_DIGITS && id.chars().all(|c| c.is_ascii_hexdigit());
    is_number.then(|| format!("{runtime} {}", &id[..ID_DIGITS]))
}

/// `kubepods-burstable-pod1b2c_3d.slice` or `pod1b2c-3d`.
fn pod_uid(part: &str) -> Option<String> {
    let part = part.strip_suffix(".slice").unwrap_or(part);
    let uid = match part.strip_prefix("kubepods") {
        Some(rest) => rest.rsplit_once("-pod")?.1,
        None => part.strip_prefix("pod")?,
    };
    let is_uid = uid.len() >= 32
        && uid
            .chars()
            .all(|c| c.is_ascii_hexdigit() || "-_".contains(c));
    is_uid.then(|| uid.replace('_', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_named_by_their_control_group() {
        let id = "3f2a1b0c9d8e7f6a5b4c3d2e1f0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d4e3f2a";
        let uid = "0c9d8e7f-6a5b-4c3d-8e1f-0a9b8c7d6e5f";
        let check = |cgroup: String, expected: Option<&str>| {
            assert_eq!(container_of(&cgroup).as_deref(), expected, "{cgroup}");
        };
        let docker = Some("Docker 3f2a1b0c9d8e");
        check(format!("/system.slice/docker-{id}.scope"), docker);
        check(format!("/docker/{id}"), docker);
        check(format!("/docker/{id}/init.scope"), docker);
        check(
            format!("/machine.slice/libpod-{id}.scope/container"),
            Some("Podman 3f2a1b0c9d8e"),
        );
        check(
            format!("/system.slice/nerdctl-{id}.scope"),
            Some("containerd 3f2a1b0c9d8e"),
        );
        let pod = format!("Kubernetes pod {uid}");
        let slice = uid.replace('-', "_");
        check(
            format!(
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{slice}.slice/\
                 cri-containerd-{id}.scope"
            ),
            Some(&pod),
        );
        check(format!("/kubepods/besteffort/pod{uid}/{id}"), Some(&pod));
        check("/lxc.payload.web1/init.scope".into(), Some("LXC web1"));
        // Not of a container.
        check("/user.slice/user-1000.slice/podman.service".into(), None);
        check("/system.slice/docker.service".into(), None);
        check("/system.slice/docker-update.service".into(), None);
        check("/".into(), None);
    }

    #[test]
    fn our_own_namespace_comes_first_and_once() {
        let places = all_netns();
        assert_eq!(places[0].netns, Netns::Own);
        let owns = places.iter().filter(|place| place.netns == Netns::Own);
        assert_eq!(owns.count(), 1);
        let own = inode("/proc/thread-self/ns/net");
        for place in &places[1..] {
            let opened = crate::NetnsHandle::open(&place.netns);
            // It may have ended since.
            let there = opened.and_then(|netns| netns.inode()).ok();
            assert!(there.is_none() || there != own, "{place:?}");
        }
    }
}
