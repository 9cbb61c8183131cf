#include "core/memory.h"

#include <sys/mman.h>

#include "core/checked.h"
#include "core/cuda/runtime.h"
#include "core/error.h"

namespace tessera {
namespace {

// Anonymous mappings are zeroed, are placed on the NUMA node of the thread that first writes a
// page, and can use huge pages.
void* map_host_memory(size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(data != MAP_FAILED, "out of memory: the host refused an allocation of {} MiB",
          bytes >> 20);
  constexpr size_t kHugePage = size_t{2} << 20;
  if (bytes >= kHugePage) madvise(data, bytes, MADV_HUGEPAGE);
  return data;
}

void* allocate(size_t bytes, Device device, MemoryKind kind) {
  if constexpr (kHasCuda) {
    if (device.is_cuda()) return cuda::allocate(bytes);
    if (kind == MemoryKind::pinned) return cuda::allocate_pinned(bytes);
  }
  require(!device.is_cuda(), "this build of Tessera has no CUDA support");
  return map_host_memory(bytes);
}

thread_local const MemoryUse* innermost = nullptr;

}  // namespace

MemoryUse::MemoryUse(std::string_view what, std::string_view advice)
    : what_(what), advice_(advice), outer_(innermost) {
  innermost = this;
}

MemoryUse::~MemoryUse() { innermost = outer_; }

std::string_view MemoryUse::current() {
  const MemoryUse* use = innermost;
  while (use != nullptr && use->what_.empty()) use = use->outer_;
  return use == nullptr ? "" : use->what_;
}

std::string_view MemoryUse::advice() {
  const MemoryUse* use = innermost;
  while (use != nullptr && use->advice_.empty()) use = use->outer_;
  return use == nullptr ? "" : use->advice_;
}

Buffer::Buffer(size_t bytes, Device device, MemoryKind kind) : bytes_(bytes), device_(device) {
  if (device.is_meta() || bytes == 0) return;
  data_ = std::unique_ptr<void, Free>(allocate(bytes, device, kind), Free{bytes, device, kind});
}

void Buffer::Free::operator()(void* data) const {
  if constexpr (kHasCuda) {
    if (device.is_cuda()) return cuda::release(data);
    if (kind == MemoryKind::pinned) return cuda::release_pinned(data);
  }
  munmap(data, bytes);
}

Tensor Buffer::tensor(const Shape& shape, DType dtype) const {
  Tensor tensor(data_.get(), shape, dtype, device_);
  require(tensor.bytes() <= bytes_, "a tensor {} does not fit into a buffer of {} bytes",
          describe(tensor), bytes_);
  return tensor;
}

OwnedTensor::OwnedTensor(const Shape& shape, DType dtype, Device device, MemoryKind kind)
    : buffer(static_cast<size_t>(shape.numel()) * size_of(dtype), device, kind),
      tensor(buffer.tensor(shape, dtype)) {}

}  // namespace tessera
