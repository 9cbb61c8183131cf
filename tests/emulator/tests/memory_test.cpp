#include <thread>

#include "core/cuda/dynamic_shared.h"
#include "tests/emulator/tests/test_launch.h"

namespace tessera::cuda {
namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr bool kAddressSanitizer = true;
#else
constexpr bool kAddressSanitizer = false;
#endif

/// `bytes` of memory that the host cannot access.
class Hidden {
 public:
  explicit Hidden(size_t bytes) : data_(static_cast<char*>(allocate(bytes))) {}
  ~Hidden() { release(data_); }
  Hidden(const Hidden&) = delete;
  Hidden& operator=(const Hidden&) = delete;
  char* get() const { return data_; }

 private:
  char* data_;
};

__global__ void write_kernel(char* data, int64_t at) { data[at] = 1; }

void write_at(char* data, int64_t at) { launch("write", one_block(1), write_kernel, data, at); }

TEST(DeviceMemory, CopiesReadIt) {
  for (const size_t bytes : {size_t{1}, size_t{256}, size_t{5000}, size_t{5} << 20}) {
    const Hidden hidden(bytes);
    write_at(hidden.get(), static_cast<int64_t>(bytes) - 1);
    char last = 0;
    cudaMemcpyAsync(&last, hidden.get() + bytes - 1, 1, cudaMemcpyDefault, stream());
    EXPECT_EQ(last, 1);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(hidden.get()) % 256, 0u);
  }
}

TEST(DeviceMemory, AllocationBeyondCapacityFails) {
  void* data = nullptr;
  EXPECT_EQ(cudaMalloc(&data, size_t{13} << 30), cudaErrorMemoryAllocation);
}

TEST(DeviceMemoryDeathTest, AllocationNeedsChosenGpu) {
  const Environment devices("TESSERA_EMULATOR_DEVICES", "2");
  EXPECT_DEATH(std::thread([] { allocate_pinned(1); }).join(),
               "emulated GPU: cudaMallocHost: this thread has chosen none of 2 GPUs, and would "
               "start a context on the first");
}

TEST(DeviceMemoryDeathTest, HostAccessEndsProcess) {
  const Hidden hidden(1000);
  EXPECT_DEATH(
      *const_cast<volatile char*>(hidden.get() + 7) = 1,
      "emulated GPU: the host touched device memory \\(byte 7 of a block of 1000 bytes\\)");
}

TEST(DeviceMemoryDeathTest, WriteBeyondBlockEndsProcess) {
  const Hidden hidden(1024);
  EXPECT_DEATH(write_at(hidden.get(), 1024),
               "kernel 'write', block \\(0, 0, 0\\), thread \\(0, 0, 0\\): byte 1024 of a block of "
               "1024 bytes of device memory was touched");
}

TEST(DeviceMemoryDeathTest, SanitizerDetectsSingleByteOverruns) {
  if (!kAddressSanitizer) GTEST_SKIP() << "needs AddressSanitizer: fewer than 256 bytes";
  const Hidden hidden(1000);
  EXPECT_DEATH(write_at(hidden.get(), 1000), "use-after-poison");
  EXPECT_DEATH(write_at(hidden.get(), -1), "use-after-poison");
}

__global__ void write_shared_kernel(int at) { dynamic_shared<char>()[at] = 1; }

TEST(SharedMemoryDeathTest, OverrunEndsProcess) {
  if (!kAddressSanitizer) GTEST_SKIP() << "needs AddressSanitizer";
  EXPECT_DEATH(launch("shared", one_block(1, 100), write_shared_kernel, 100),
               "heap-buffer-overflow");
}

__global__ void deep_kernel(int64_t levels, int* out) {
  volatile char frame[1024];
  frame[levels % 1024] = 1;
  if (levels > 0) deep_kernel(levels - 1, out);
  out[0] += frame[levels % 1024];
}

TEST(StackDeathTest, OverflowEndsProcess) {
  const Visible<int> out(1);
  launch("deep", one_block(1), deep_kernel, 20, out.get());
  EXPECT_EQ(out[0], 21);
  EXPECT_DEATH(launch("deep", one_block(1), deep_kernel, 1000, out.get()),
               "kernel 'deep', .*: the thread needs more than the .* KiB of stack that it has");
}

}  // namespace
}  // namespace tessera::cuda
