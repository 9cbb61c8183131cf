#include "core/memory.h"

#include <sys/mman.h>

#include "core/checked.h"
#include "core/error.h"

namespace tessera {

// Anonymous mappings are zero, are paged in by the thread that first writes them (which places them
// on its NUMA node), and are large enough for huge pages.
Buffer::Buffer(size_t bytes, Device device) : bytes_(bytes), device_(device) {
  require(!device.is_cuda(), "this build of Tessera has no CUDA support");
  if (device.is_meta() || bytes == 0) return;
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(data != MAP_FAILED, "out of memory: the host refused an allocation of {} MiB",
          bytes >> 20);
  constexpr size_t kHugePage = size_t{2} << 20;
  if (bytes >= kHugePage) madvise(data, bytes, MADV_HUGEPAGE);
  data_ = std::unique_ptr<void, Free>(data, Free{bytes});
}

void Buffer::Free::operator()(void* data) const { munmap(data, bytes); }

Tensor Buffer::tensor(const Shape& shape, DType dtype) const {
  Tensor tensor(data_.get(), shape, dtype, device_);
  require(tensor.bytes() <= bytes_, "a tensor {} does not fit into a buffer of {} bytes",
          describe(tensor), bytes_);
  return tensor;
}

OwnedTensor::OwnedTensor(const Shape& shape, DType dtype, Device device)
    : buffer(static_cast<size_t>(shape.numel()) * size_of(dtype), device),
      tensor(buffer.tensor(shape, dtype)) {}

}  // namespace tessera
