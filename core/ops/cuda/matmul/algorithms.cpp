#include "core/ops/cuda/matmul/algorithms.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <limits>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/cuda/runtime.h"
#include "core/cuda/stream.h"
#include "core/cuda/workspace.h"
#include "core/lru_cache.h"
#include "core/ops/cuda/matmul/cublas.h"
#include "core/ops/cuda/matmul/fusions.h"
#include "core/ops/cuda/matmul/matmul.h"
#include "core/ops/cuda/workspace_sizes.h"

namespace tessera::cuda {
namespace {

/// The number of cached algorithms: a model has some tens of products, times the numbers of rows
/// that rounded_rows() distinguishes.
constexpr size_t kMostAlgorithms = 1024;

class Handle {
 public:
  Handle() { check(cublasLtCreate(&handle_), "cublasLtCreate"); }
  ~Handle() { cublasLtDestroy(handle_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  cublasLtHandle_t get() const { return handle_; }

 private:
  cublasLtHandle_t handle_ = nullptr;
};

/// At most `most` algorithms, in the order of cuBLASLt's heuristics.
std::vector<cublasLtMatmulAlgo_t> find_algorithms(const ProductKey& key, size_t most) {
  // The heuristics look only at the alignment of these pointers.
  const auto* stand_in = reinterpret_cast<const void*>(uintptr_t{key.alignment});
  Descriptors descriptors(
      key, {has_vector(key.epilogue) ? stand_in : nullptr,
            has_second_matrix(key.epilogue) ? stand_in : nullptr, stand_in, stand_in});
  Preference preference(key);
  std::vector<cublasLtMatmulHeuristicResult_t> results(most);
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      cublas_handle(), descriptors.product(), descriptors.first(), descriptors.second(),
      descriptors.out(), descriptors.out(), preference.get(), static_cast<int>(most),
      results.data(), &found);
  if (is_not_taken(status)) return {};
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (const auto& result : std::span(results).first(static_cast<size_t>(found))) {
    if (result.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(result.algo);
  }
  return algorithms;
}

std::optional<cublasLtMatmulAlgo_t> first_algorithm(const ProductKey& key) {
  const auto algorithms = find_algorithms(key, 1);
  if (algorithms.empty()) return {};
  return algorithms[0];
}

using Choices = std::unordered_map<ProductKey, std::optional<cublasLtMatmulAlgo_t>, ProductKeyHash>;
thread_local Choices timed_choices;

/// A product on scratch memory, for timing.
class Trial {
 public:
  /// `scratch` has bytes().
  Trial(const ProductKey& key, std::byte* scratch)
      : key_(key),
        a_(scratch),
        b_(a_ + aligned(key.m * key.k, key.in)),
        out_(b_ + aligned(key.k * key.n, key.in)),
        auxiliary_(out_ + aligned(key.m * key.n, key.out)),
        vector_(auxiliary_ + second_matrix_bytes(key)) {}

  static size_t bytes(const ProductKey& key) {
    return aligned(key.m * key.k, key.in) + aligned(key.k * key.n, key.in) +
           aligned(key.m * key.n, key.out) + second_matrix_bytes(key) +
           aligned(std::max(key.m, key.n), DType::f32);
  }

  /// Seconds of one run with `algorithm`, or infinity if it does not run.
  double seconds(const cublasLtMatmulAlgo_t& algorithm) const {
    constexpr int kTimes = 3, kRuns = 4;
    if (!enqueue(algorithm)) return std::numeric_limits<double>::infinity();
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < kTimes; ++i) {
      synchronize();
      const auto start = std::chrono::steady_clock::now();
      for (int run = 0; run < kRuns; ++run) enqueue(algorithm);
      synchronize();
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
      best = std::min(best, time.count() / kRuns);
    }
    return best;
  }

  /// Returns whether the algorithm is one of the product's.
  bool enqueue(const cublasLtMatmulAlgo_t& algorithm) const {
    Descriptors descriptors(key_, {has_vector(key_.epilogue) ? vector_ : nullptr,
                                   has_second_matrix(key_.epilogue) ? auxiliary_ : nullptr});
    const float alpha = 1.0f, beta = key_.accumulate ? 1.0f : 0.0f;
    void* const scratch = workspace(kCublasLtWorkspaceBytes);
    return cublasLtMatmul(cublas_handle(), descriptors.product(), &alpha, b_, descriptors.first(),
                          a_, descriptors.second(), &beta, out_, descriptors.out(), out_,
                          descriptors.out(), &algorithm, scratch, kCublasLtWorkspaceBytes,
                          stream()) == CUBLAS_STATUS_SUCCESS;
  }

 private:
  static size_t aligned(int64_t elements, DType dtype) {
    constexpr int64_t kBytes = 256;
    return static_cast<size_t>(round_up(elements * static_cast<int64_t>(size_of(dtype)), kBytes));
  }
  static size_t second_matrix_bytes(const ProductKey& key) {
    return has_second_matrix(key.epilogue) ? aligned(key.m * key.n, key.out) : 0;
  }

  const ProductKey& key_;
  std::byte *a_, *b_, *out_, *auxiliary_, *vector_;
};

/// The key that selects the algorithm of a dry run's product on this GPU.
ProductKey key_on_gpu(ProductKey key) {
  key.tf32 = uses_tf32() && key.in == DType::f32;
  return algorithm_key(with_fusions(key));
}

/// Everything in a key, such as "32768x2304x768 rows*columns bf16 to bf16 epilogue 1 aligned 16
/// on 0".
std::string name_of(const ProductKey& key) {
  const auto layout = [](MatrixLayout of) { return of == MatrixLayout::rows ? "rows" : "columns"; };
  return fmt::format("{}x{}x{} {}*{} {} to {} epilogue {}{} aligned {}{} on {}", key.m, key.n,
                     key.k, layout(key.a_layout), layout(key.b_layout), to_string(key.in),
                     to_string(key.out), static_cast<int>(key.epilogue),
                     key.accumulate ? " added" : "", key.alignment, key.tf32 ? " tf32" : "",
                     key.multiprocessors);
}

std::string bytes_of(const cublasLtMatmulAlgo_t& algorithm) {
  return {reinterpret_cast<const char*>(&algorithm), sizeof(algorithm)};
}

/// nullopt for the first of the heuristics, and if the bytes are of another size.
std::optional<cublasLtMatmulAlgo_t> algorithm_of(const std::string& bytes) {
  cublasLtMatmulAlgo_t algorithm;
  if (bytes.size() != sizeof(algorithm)) return std::nullopt;
  std::memcpy(&algorithm, bytes.data(), sizeof(algorithm));
  return algorithm;
}

/// Whether the algorithm is that of a product on this GPU.
bool runs(const Trial& trial, const std::string& bytes) {
  if (bytes.empty()) return true;
  const auto algorithm = algorithm_of(bytes);
  return algorithm && trial.enqueue(*algorithm);
}

/// The fastest of some algorithms, as in NamedAlgorithms.
std::string fastest_of(std::span<const cublasLtMatmulAlgo_t> algorithms, const Trial& trial) {
  constexpr double kMargin = 0.98;  // of the first one's time: less may be chance
  double best = kMargin * trial.seconds(algorithms[0]);
  std::string chosen;
  for (const cublasLtMatmulAlgo_t& algorithm : algorithms.subspan(1)) {
    const double seconds = trial.seconds(algorithm);
    if (seconds >= best) continue;
    best = seconds;
    chosen = bytes_of(algorithm);
  }
  return chosen;
}

}  // namespace

cublasLtHandle_t cublas_handle() {
  thread_local const Handle handle;
  return handle.get();
}

bool is_not_taken(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE;
}

const std::optional<cublasLtMatmulAlgo_t>& algorithm_for(const ProductKey& key) {
  if (const auto found = timed_choices.find(key); found != timed_choices.end()) {
    return found->second;
  }
  thread_local LruCache<ProductKey, std::optional<cublasLtMatmulAlgo_t>, ProductKeyHash> algorithms(
      kMostAlgorithms);
  return algorithms.find_or_make(key, [&] { return first_algorithm(key); });
}

std::string cublaslt_version() {
  const size_t version = cublasLtGetVersion();
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

std::optional<std::string> fp8_unsupported_reason() {
  constexpr size_t kFirstVersion = 120900;
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  const DeviceInfo info = device_kind(device);
  if (info.major != 9) {
    return fmt::format(
        "cuBLASLt multiplies 8-bit codes with scales of blocks only on Hopper (compute capability "
        "9.0), and {} has {}.{}",
        info.name, info.major, info.minor);
  }
  if (cublasLtGetVersion() >= kFirstVersion) return {};
  return fmt::format(
      "this is cuBLASLt {}, and 12.9 is the first that multiplies 8-bit codes with "
      "scales of blocks",
      cublaslt_version());
}

std::string algorithms_identity() {
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  const DeviceInfo info = device_kind(device);
  return fmt::format("{} with {} multiprocessors and cuBLASLt {}", info.name, info.multiprocessors,
                     cublaslt_version());
}

int64_t time_algorithms(std::span<const ProductKey> products, const Tensor& scratch,
                        NamedAlgorithms& choices) {
  constexpr size_t kMost = 32;
  int64_t timed = 0;
  for (const ProductKey& product : products) {
    const ProductKey key = key_on_gpu(product);
    if (Trial::bytes(key) > scratch.bytes()) continue;
    const Trial trial(key, static_cast<std::byte*>(scratch.raw()));
    const std::string name = name_of(key);
    if (const auto known = choices.find(name); known != choices.end()) {
      if (runs(trial, known->second)) continue;
    }
    const auto algorithms = find_algorithms(key, kMost);
    if (algorithms.size() < 2) continue;
    choices[name] = fastest_of(algorithms, trial);
    ++timed;
  }
  synchronize();
  return timed;
}

int64_t use_algorithms(std::span<const ProductKey> products, const NamedAlgorithms& choices) {
  timed_choices.clear();
  for (const ProductKey& product : products) {
    const ProductKey key = key_on_gpu(product);
    const auto found = choices.find(name_of(key));
    if (found == choices.end()) continue;
    if (auto algorithm = algorithm_of(found->second)) timed_choices.emplace(key, algorithm);
  }
  return std::ssize(timed_choices);
}

}  // namespace tessera::cuda
