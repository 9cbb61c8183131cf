// cuBLASLt's handles and its matmul call, which checks whether a GPU could run the product.

#include <omp.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "tests/emulator/cublaslt/cublaslt.h"
#include "tests/emulator/device_memory.h"
#include "tests/emulator/streams.h"

namespace {

/// The number of threads of the CPU's library, on which its order of sums depends: that of the
/// caller, whichever thread runs the stream.
class ThreadCount {
 public:
  explicit ThreadCount(int count) { omp_set_num_threads(count); }
  ~ThreadCount() { omp_set_num_threads(before_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_ = omp_get_max_threads();
};

}  // namespace

struct cublasLtContext {
  int device;
};

namespace emulator::cublaslt {
namespace {

constexpr const char* kMatmul = "cublasLtMatmul";

struct Handles {
  std::mutex mutex;
  std::set<const cublasLtContext*> alive;
};
Handles& handles() {
  static auto* instance = new Handles;  // outlives all threads
  return *instance;
}

std::array<std::atomic<int64_t>, 1024>& counts() {
  static std::array<std::atomic<int64_t>, 1024> of_epilogues = {};
  return of_epilogues;
}

std::array<std::atomic<int64_t>, kSeveral>& counts_of_algorithms() {
  static std::array<std::atomic<int64_t>, kSeveral> of_algorithms = {};
  return of_algorithms;
}

std::atomic<int64_t>& count_on_some() {
  static std::atomic<int64_t> count = 0;
  return count;
}

/// Memory that a product reads or writes.
struct Span {
  const char* name;
  const void* data;
  size_t bytes;
  bool written = false;

  uintptr_t first() const { return reinterpret_cast<uintptr_t>(data); }
  bool overlaps(const Span& other) const {
    return first() < other.first() + other.bytes && other.first() < first() + bytes;
  }
};

std::vector<Span> spans_of(const Problem& problem, const Operands& at) {
  const ProductDesc& desc = problem.desc;
  std::vector<Span> spans = {{"A", at.a, span_of(problem.a)},
                             {"B", at.b, span_of(problem.b)},
                             {"D", at.d, span_of(problem.d), true}};
  if (at.beta != 0.0f && at.c != at.d) spans.push_back({"C", at.c, span_of(problem.c)});
  if (problem.has_vector()) {
    const bool written = problem.has(CUBLASLT_EPILOGUE_BGRADB);
    const auto length = static_cast<size_t>(written ? problem.n : problem.m);
    spans.push_back({"the bias", desc.bias, length * bytes_of(problem.bias_type()), written});
  }
  if (problem.has_codes()) {
    const auto add = [&](const char* name, const Scales& scales) {
      spans.push_back({name, scales.data, static_cast<size_t>(scales.count) * sizeof(float)});
    };
    add("A's scales", scales_of(problem.a, desc.a_scale_mode, desc.a_scales));
    add("B's scales", scales_of(problem.b, desc.b_scale_mode, desc.b_scales));
  }
  if (problem.has_auxiliary()) {
    spans.push_back({"the auxiliary matrix", desc.auxiliary, span_of(auxiliary_of(problem)),
                     !problem.has(CUBLASLT_EPILOGUE_DGELU)});
  }
  return spans;
}

void check_memory(const std::vector<Span>& spans) {
  for (const Span& span : spans) {
    const size_t there = bytes_behind(span.data);
    if (there == 0) fail_call(kMatmul, std::string(span.name) + " is not in a GPU's memory");
    if (there < span.bytes) {
      fail_call(kMatmul, std::string(span.name) + " has " + std::to_string(span.bytes) +
                             " bytes, but its block of memory ends after " + std::to_string(there));
    }
    for (const Span& other : spans) {
      if (&span != &other && span.written && span.overlaps(other)) {
        fail_call(kMatmul, std::string(span.name) + ", which is written, overlaps " + other.name);
      }
    }
  }
}

void check_alignment(const char* name, const void* data, uint32_t promised) {
  const uint32_t alignment = alignment_of(reinterpret_cast<uintptr_t>(data));
  if (alignment >= promised) return;
  fail_call(kMatmul, std::string(name) + " is aligned to " + std::to_string(alignment) +
                         " bytes, but its algorithm was chosen for " + std::to_string(promised));
}

void check_alignments(const Problem& problem, const Operands& at, const Algorithm& algorithm) {
  const auto& [a, b, c, d] = algorithm.alignments;
  check_alignment("A", at.a, a);
  check_alignment("B", at.b, b);
  if (at.beta != 0.0f) check_alignment("C", at.c, c);
  check_alignment("D", at.d, d);
  const auto& [bias, auxiliary] = algorithm.epilogue;
  if (problem.has_vector()) check_alignment("the bias", problem.desc.bias, bias);
  if (problem.has_auxiliary()) {
    check_alignment("the auxiliary matrix", problem.desc.auxiliary, auxiliary);
  }
}

void check_in_place(const Problem& problem, const Operands& at) {
  const bool same = problem.c.type == problem.d.type && problem.c.ld == problem.d.ld;
  if (at.c == at.d && !same) fail_call(kMatmul, "C is D, but their layouts differ");
}

/// Takes as long as the algorithm does on this GPU, beside the product itself.
void spend_time(uint16_t algorithm, int device) {
  if (!library_is("several")) return;
  const int turns = (algorithm + 1 + device) % kSeveral;
  std::this_thread::sleep_for(turns * std::chrono::milliseconds(1));
}

/// Moves every third result by `steps` units of its last bit, as another order of sums would.
void round_differently(const Problem& problem, void* d, int steps) {
  if (steps == 0) return;
  const size_t bytes = bytes_of(problem.d.type);
  for (int64_t i = 0; i < problem.m * problem.n; i += 3) {
    auto* at = static_cast<std::byte*>(d) +
               static_cast<size_t>(i / problem.m * problem.d.ld + i % problem.m) * bytes;
    uint32_t bits = 0;
    std::memcpy(&bits, at, bytes);
    if (bits != 0) bits += static_cast<uint32_t>(steps);
    std::memcpy(at, &bits, bytes);
  }
}

}  // namespace

void require_handle(cublasLtHandle_t handle, const char* function) {
  const std::lock_guard lock(handles().mutex);
  if (!handles().alive.contains(handle)) fail_call(function, "the handle does not exist");
  int device = 0;
  cudaGetDevice(&device);
  if (handle->device == device) return;
  fail_call(function, "the handle belongs to GPU " + std::to_string(handle->device) +
                          ", but the thread's is " + std::to_string(device));
}

int64_t products_with(cublasLtEpilogue_t epilogue) { return counts()[epilogue]; }
int64_t products_by(uint16_t algorithm) { return counts_of_algorithms()[algorithm]; }
int64_t products_on_some_multiprocessors() { return count_on_some(); }

}  // namespace emulator::cublaslt

using namespace emulator::cublaslt;

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "?";
}
const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "the library was not initialized";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "the functionality requested is not supported";
  }
  return "?";
}

size_t cublasLtGetVersion() {
  const char* versions = std::getenv("TESSERA_EMULATOR_CUBLASLT_VERSIONS");
  if (versions == nullptr) versions = "130002";
  int device = 0;
  cudaGetDevice(&device);
  for (const char* next = versions; device > 0; --device) {
    next = std::strchr(next, ',');
    if (next == nullptr) break;
    versions = ++next;
  }
  return std::strtoul(versions, nullptr, 10);
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  int devices = 0, device = 0;
  const bool works = cudaGetDeviceCount(&devices) == cudaSuccess &&
                     cudaGetDevice(&device) == cudaSuccess && handle != nullptr;
  if (!works) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = new cublasLtContext{device};
  emulator::take_device_bytes(emulator::kCublasLtBytes, device);
  const std::lock_guard lock(handles().mutex);
  handles().alive.insert(*handle);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  require_handle(handle, "cublasLtDestroy");
  const std::lock_guard lock(handles().mutex);
  handles().alive.erase(handle);
  emulator::return_device_bytes(emulator::kCublasLtBytes, handle->device);
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  require_handle(handle, kMatmul);
  emulator::require_no_error(kMatmul);
  const auto algorithm = unpack<Algorithm>(algo);
  if (!algorithm || alpha == nullptr || beta == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const auto& [status, problem] = read_problem(desc, a_layout, b_layout, c_layout, d_layout);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  for (const cublasStatus_t why_not : {support(problem), check_algorithm(problem, *algorithm)}) {
    if (why_not != CUBLAS_STATUS_SUCCESS) return why_not;
  }
  if (workspace_bytes < algorithm->workspace_bytes) return CUBLAS_STATUS_INVALID_VALUE;

  Operands at = {a, b, c, d, 0.0f, 0.0f};
  std::memcpy(&at.alpha, alpha, sizeof(float));
  std::memcpy(&at.beta, beta, sizeof(float));
  std::vector<Span> spans = spans_of(problem, at);
  if (workspace_bytes > 0) spans.push_back({"the workspace", workspace, workspace_bytes, true});
  check_memory(spans);
  check_alignments(problem, at, *algorithm);
  check_alignment("the workspace", workspace, 16);
  check_in_place(problem, at);

  ++counts()[problem.desc.epilogue];
  ++counts_of_algorithms()[algorithm->index];
  if (problem.desc.multiprocessors > 0) ++count_on_some();
  emulator::enqueue(
      stream, [=, problem = problem, scratch = algorithm->workspace_bytes, index = algorithm->index,
               device = handle->device, threads = omp_get_max_threads()] {
        const emulator::DeviceAccess access;
        const ThreadCount caller_threads(threads);
        if (scratch > 0) std::memset(workspace, 0xff, scratch);  // destroys previous contents
        multiply(problem, at, /*splits=*/scratch > 0);
        round_differently(problem, at.d, index);
        spend_time(index, device);
      });
  return CUBLAS_STATUS_SUCCESS;
}
