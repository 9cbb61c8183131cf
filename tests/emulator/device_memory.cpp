#include "tests/emulator/device_memory.h"

#include <emulator.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>

#include "tests/emulator/fiber.h"
#include "tests/emulator/memory_fault.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(data, bytes)
#define ASAN_UNPOISON_MEMORY_REGION(data, bytes) static_cast<void>(0)
#endif

namespace emulator {
namespace {

// [first, first + pages) is accessible while device memory is; the rest of the reservation never
// is.
struct Allocation {
  void* reserved;
  size_t reserved_bytes;
  std::byte* first;
  size_t pages;  // size of the accessible pages in bytes
  size_t bytes;  // requested size; the bytes end with the pages, up to alignment
  int device;
  size_t used;  // of the GPU's memory; 0 if sparse
};

struct Memory {
  std::mutex mutex;
  std::map<std::byte*, Allocation> blocks;  // by the returned address
  std::map<std::byte*, size_t> host;        // from allocate_host()
  std::map<int, size_t> used;               // by device
  int users = 0;
};

Memory& memory() {
  static auto* instance = new Memory;  // outlives all threads
  return *instance;
}

void protect(Memory& state, int protection) {
  for (const auto& [data, block] : state.blocks) mprotect(block.first, block.pages, protection);
}

DeviceAddress find(const Memory& state, const void* address) {
  const auto* byte = static_cast<const std::byte*>(address);
  for (const auto& [data, block] : state.blocks) {
    const auto* reserved = static_cast<const std::byte*>(block.reserved);
    if (byte < reserved || byte >= reserved + block.reserved_bytes) continue;
    return {true, byte - data, block.bytes};
  }
  return {};
}

size_t host_bytes_behind(const Memory& state, const void* data) {
  auto* byte = static_cast<std::byte*>(const_cast<void*>(data));
  const auto after = state.host.upper_bound(byte);
  if (after == state.host.begin()) return 0;
  const auto& [first, bytes] = *std::prev(after);
  return byte < first + bytes ? static_cast<size_t>(first + bytes - byte) : 0;
}

size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

// Huge pages, used if the block is large enough, make protect() a hundred times faster. They end
// where the inaccessible page begins.
Allocation reserve(size_t bytes, size_t pages, int device) {
  constexpr size_t kHugePage = size_t{2} << 20;
  const size_t alignment = pages < kHugePage ? kPage : kHugePage;
  const size_t reserved_bytes = pages + alignment + kPage;
  void* reserved =
      mmap(nullptr, reserved_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return {};
  const auto end = (reinterpret_cast<uintptr_t>(reserved) + pages + alignment) & ~(alignment - 1);
  auto* first =
      static_cast<std::byte*>(reserved) + (end - pages - reinterpret_cast<uintptr_t>(reserved));
  mprotect(first, pages, PROT_READ | PROT_WRITE);
  if (alignment == kHugePage) madvise(first, pages, MADV_HUGEPAGE);
  return {reserved, reserved_bytes, first, pages, bytes, device, pages};
}

}  // namespace

DeviceAccess::DeviceAccess() {
  Memory& state = memory();
  const std::lock_guard lock(state.mutex);
  if (state.users++ == 0) protect(state, PROT_READ | PROT_WRITE);
}

DeviceAccess::~DeviceAccess() {
  Memory& state = memory();
  const std::lock_guard lock(state.mutex);
  if (--state.users == 0) protect(state, PROT_NONE);
}

size_t free_device_bytes(int device) {
  Memory& state = memory();
  const std::lock_guard lock(state.mutex);
  return kDeviceBytes - state.used[device];
}

void take_device_bytes(size_t bytes, int device) {
  Memory& state = memory();
  const std::lock_guard lock(state.mutex);
  size_t& used = state.used[device];
  used += std::min(bytes, kDeviceBytes - used);
}

void return_device_bytes(size_t bytes, int device) {
  Memory& state = memory();
  const std::lock_guard lock(state.mutex);
  size_t& used = state.used[device];
  used -= std::min(bytes, used);
}

void* allocate_device(size_t bytes, int device) {
  constexpr size_t kDeviceAlignment = 256;
  Memory& state = memory();
  const size_t size = round_up(bytes, kDeviceAlignment), pages = round_up(size, kPage);
  const std::lock_guard lock(state.mutex);
  if (pages > kDeviceBytes - state.used[device]) return nullptr;
  const Allocation block = reserve(bytes, pages, device);
  if (block.first == nullptr) return nullptr;
  std::byte* data = block.first + pages - size;
  std::memset(data, 0xff, bytes);
  if (state.users == 0) mprotect(block.first, pages, PROT_NONE);
  ASAN_POISON_MEMORY_REGION(block.first, static_cast<size_t>(data - block.first));
  ASAN_POISON_MEMORY_REGION(data + bytes, size - bytes);
  state.blocks[data] = block;
  state.used[device] += pages;
  return data;
}

void* allocate_sparse_device(size_t bytes, int device) {
  constexpr size_t kAround = size_t{32} << 30;
  if (bytes % 256 != 0) fail_call("allocate_sparse_device", "the size is not a multiple of 256");
  const size_t pages = round_up(bytes, kPage), reserved_bytes = pages + 2 * kAround;
  Memory& state = memory();
  const std::lock_guard lock(state.mutex);
  void* reserved =
      mmap(nullptr, reserved_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return nullptr;
  auto* first = static_cast<std::byte*>(reserved) + kAround;
  madvise(first, pages, MADV_NOHUGEPAGE);  // a page where one byte is accessed, and not 512
  if (state.users > 0) mprotect(first, pages, PROT_READ | PROT_WRITE);
  std::byte* data = first + pages - bytes;
  state.blocks[data] = {reserved, reserved_bytes, first, pages, bytes, device, 0};
  return data;
}

bool free_device(void* data) {
  Memory& state = memory();
  const std::lock_guard lock(state.mutex);
  const auto found = state.blocks.find(static_cast<std::byte*>(data));
  if (found == state.blocks.end()) return false;
  const Allocation& block = found->second;
  const bool is_sparse = block.used == 0;  // then nothing is poisoned
  if (!is_sparse) ASAN_UNPOISON_MEMORY_REGION(block.first, block.pages);
  munmap(block.reserved, block.reserved_bytes);
  state.used[block.device] -= block.used;
  state.blocks.erase(found);
  return true;
}

void* allocate_host(size_t bytes) {
  // A sanitizer would end the process if memory runs out.
  if (bytes > kDeviceBytes) return nullptr;
  void* data = nullptr;
  if (posix_memalign(&data, 256, bytes) != 0) return nullptr;
  Memory& state = memory();
  const std::lock_guard lock(state.mutex);
  state.host[static_cast<std::byte*>(data)] = bytes;
  return data;
}

void free_host(void* data) {
  Memory& state = memory();
  const std::lock_guard lock(state.mutex);
  state.host.erase(static_cast<std::byte*>(data));
  std::free(data);
}

bool is_allocated_host(const void* data) {
  Memory& state = memory();
  const std::lock_guard lock(state.mutex);
  return host_bytes_behind(state, data) > 0;
}

size_t bytes_behind(const void* data) {
  Memory& state = memory();
  const std::lock_guard lock(state.mutex);
  const DeviceAddress at = find(state, data);
  if (!at.known) return host_bytes_behind(state, data);
  const bool inside = at.place >= 0 && static_cast<size_t>(at.place) < at.bytes;
  return inside ? at.bytes - static_cast<size_t>(at.place) : 0;
}

bool is_allocated_device(const void* data) {
  Memory& state = memory();
  const std::lock_guard lock(state.mutex);
  return find(state, data).known;
}

int device_of(const void* data, size_t bytes) {
  Memory& state = memory();
  const std::lock_guard lock(state.mutex);
  auto* first = static_cast<std::byte*>(const_cast<void*>(data));
  const auto block = state.blocks.upper_bound(first);
  if (block != state.blocks.begin()) {
    const auto& [begin, held] = *std::prev(block);
    if (first + bytes <= begin + held.bytes) return held.device;
  }
  const auto host = state.host.upper_bound(first);
  if (host == state.host.begin()) return kNoDevice;
  const auto& [begin, held] = *std::prev(host);
  return first + bytes <= begin + held ? kAnyDevice : kNoDevice;
}

DeviceAddress find_device_address(const void* address) {
  Memory& state = memory();
  if (!state.mutex.try_lock()) return {};  // the fault occurred while the mutex was held
  const std::lock_guard lock(state.mutex, std::adopt_lock);
  return find(state, address);
}

}  // namespace emulator
