#include "parallel/communicators/host/peer_memory.h"

#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "core/process_stat.h"

namespace tessera {
namespace {

// The system may copy less than requested.
template <typename Copy>
int copy_all(Copy&& copy, std::byte* here, std::byte* there, size_t bytes) {
  while (bytes > 0) {
    const iovec mine{here, bytes}, theirs{there, bytes};
    const ssize_t done = copy(&mine, &theirs);
    if (done <= 0) return done == 0 ? EFAULT : errno;
    here += done;
    there += done;
    bytes -= static_cast<size_t>(done);
  }
  return 0;
}

/// A process, its parent, and so on.
std::vector<pid_t> lineage_of(pid_t process) {
  std::vector<pid_t> lineage;
  while (process > 0) {
    lineage.push_back(process);
    const auto stat = read_process_stat(process);
    process = stat ? stat->parent : 0;
  }
  return lineage;
}

}  // namespace

pid_t common_ancestor(std::span<const pid_t> processes) {
  if (processes.empty()) return 0;
  std::vector<pid_t> common = lineage_of(processes[0]);
  for (const pid_t process : processes.subspan(1)) {
    const std::vector<pid_t> lineage = lineage_of(process);
    std::erase_if(common, [&](pid_t one) { return std::ranges::count(lineage, one) == 0; });
  }
  return common.empty() ? 0 : common.front();
}

void allow_descendants_of(pid_t ancestor) {
  prctl(PR_SET_PTRACER, static_cast<unsigned long>(ancestor), 0, 0, 0);
}

int read_peer(pid_t process, const void* from, void* to, size_t bytes) {
  return copy_all(
      [&](const iovec* mine, const iovec* theirs) {
        return process_vm_readv(process, mine, 1, theirs, 1, 0);
      },
      static_cast<std::byte*>(to), static_cast<std::byte*>(const_cast<void*>(from)), bytes);
}

int write_peer(pid_t process, const void* from, void* to, size_t bytes) {
  return copy_all(
      [&](const iovec* mine, const iovec* theirs) {
        return process_vm_writev(process, mine, 1, theirs, 1, 0);
      },
      static_cast<std::byte*>(const_cast<void*>(from)), static_cast<std::byte*>(to), bytes);
}

bool peers_can_reach(const void* data, size_t bytes) {
  if (bytes == 0) return true;
  const auto* first = static_cast<const std::byte*>(data);
  std::byte byte;
  return read_peer(getpid(), first, &byte, 1) == 0 &&
         read_peer(getpid(), first + bytes - 1, &byte, 1) == 0;
}

}  // namespace tessera
