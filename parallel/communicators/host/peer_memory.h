#pragma once

#include <sys/types.h>

#include <cstddef>

namespace tessera {

// Copies between this process and another of the same host, or itself, by one copy of the system's
// (process_vm_readv, "cross memory attach"), which both need not know of. The system allows it to
// processes of the same user, unless the host or the container they run in says otherwise.

/// Lets the other processes of this user do that where the host would let only parents (Yama,
/// which some distributions have on).
void allow_peers();

/// 0, or the number of the system's error: EPERM where it is not allowed, ESRCH where the process
/// has ended, EFAULT where some of the memory is not there.
int read_peer(pid_t process, const void* from, void* to, size_t bytes);
int write_peer(pid_t process, const void* from, void* to, size_t bytes);

/// Whether others could read and write these bytes of this process: not memory that a driver has
/// mapped, as pinned memory may be. Looks at both ends only.
bool peers_can_reach(const void* data, size_t bytes);

}  // namespace tessera
