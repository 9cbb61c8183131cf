#include "tests/emulator/tests/test_launch.h"

namespace tessera::cuda {
namespace {

__global__ void add_kernel(int* value, int what) { *value += what; }
__global__ void double_kernel(int* value) { *value *= 2; }

/// Enqueues on a separate stream.
class Side {
 public:
  Side() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream"); }
  ~Side() { cudaStreamDestroy(stream_); }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  cudaStream_t get() const { return stream_; }

  template <typename... Parameters, typename... Arguments>
  void launch(void (*kernel)(Parameters...), Arguments... arguments) const {
    cudaLaunchConfig_t config = {};
    config.gridDim = config.blockDim = dim3(1);
    config.stream = stream_;
    check(cudaLaunchKernelEx(&config, kernel, arguments...), "kernel");
  }

 private:
  cudaStream_t stream_ = nullptr;
};

TEST(Streams, RunWorkImmediately) {
  const Visible<int> value(1);
  launch("add", one_block(1), add_kernel, value.get(), 3);
  EXPECT_EQ(value[0], 3);
}

TEST(LazyStreams, RunWorkOnlyWhenSynchronized) {
  const Environment lazy("TESSERA_EMULATOR_LAZY", "1");
  const Visible<int> value(1);
  launch("add", one_block(1), add_kernel, value.get(), 3);
  EXPECT_EQ(value[0], 0);
  synchronize();
  EXPECT_EQ(value[0], 3);
}

TEST(LazyStreams, WaitForEventsOfOtherStreams) {
  const Environment lazy("TESSERA_EMULATOR_LAZY", "1");
  const Visible<int> value(1);
  const Side first, second;
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "event");
  first.launch(add_kernel, value.get(), 5);
  check(cudaEventRecord(event, first.get()), "record");
  first.launch(add_kernel, value.get(), 100);
  check(cudaStreamWaitEvent(second.get(), event), "wait");
  second.launch(double_kernel, value.get());
  check(cudaStreamSynchronize(second.get()), "synchronize");
  EXPECT_EQ(value[0], 10);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  check(cudaEventRecord(event, first.get()), "record");
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  EXPECT_EQ(value[0], 110);
  cudaEventDestroy(event);
}

TEST(LazyStreams, ReadPinnedMemoryLateAndPageableMemoryImmediately) {
  const Environment lazy("TESSERA_EMULATOR_LAZY", "1");
  const Visible<int> value(2);
  int pageable = 1;
  auto* pinned = static_cast<int*>(allocate_pinned(sizeof(int)));
  *pinned = 1;
  cudaMemcpyAsync(value.get(), &pageable, sizeof(int), cudaMemcpyDefault, stream());
  cudaMemcpyAsync(value.get() + 1, pinned, sizeof(int), cudaMemcpyDefault, stream());
  pageable = *pinned = 2;  // too early for the pinned source
  synchronize();
  EXPECT_EQ(value[0], 1);
  EXPECT_EQ(value[1], 2);
  release_pinned(pinned);
}

TEST(LazyStreams, CopyToPageableMemoryBeforeReturning) {
  const Environment lazy("TESSERA_EMULATOR_LAZY", "1");
  const Visible<int> value(1);
  launch("add", one_block(1), add_kernel, value.get(), 3);
  int copied = 0;
  cudaMemcpyAsync(&copied, value.get(), sizeof(int), cudaMemcpyDefault, stream());
  EXPECT_EQ(copied, 3);
}

}  // namespace
}  // namespace tessera::cuda
