#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>

namespace tessera {

// Copies between this process and another process of the same host, or itself, in one system call
// without the other's cooperation (process_vm_readv, "cross memory attach"). The system allows it
// between processes of the same user, unless the host or container forbids it.

/// The nearest process from which all of these processes descend, which may be one of them, or 0 if
/// there is none or /proc does not show it.
pid_t common_ancestor(std::span<const pid_t> processes);

/// Allows the processes that descend from `ancestor`, a launcher, to copy from and to this one
/// where the host would otherwise allow only parents (Yama, enabled in some distributions). Others
/// gain nothing; with 0, nobody does.
void allow_descendants_of(pid_t ancestor);

/// Returns 0 or errno: EPERM if not allowed, ESRCH if the process has ended, EFAULT if some of the
/// memory is not mapped.
int read_peer(pid_t process, const void* from, void* to, size_t bytes);
int write_peer(pid_t process, const void* from, void* to, size_t bytes);

/// Whether other processes can read and write these bytes of this process. Memory mapped by a
/// driver, such as pinned memory, may be unreachable. Checks both ends only.
bool peers_can_reach(const void* data, size_t bytes);

}  // namespace tessera
