// Chooses cuBLASLt's algorithm for a product, and decides which other products it supports.

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <string_view>

#include "tests/emulator/cublaslt/cublaslt.h"

namespace emulator::cublaslt {
namespace {

uint64_t kind_of(const Problem& problem) {
  uint64_t kind = 0;
  const auto add = [&](auto value, int bits) {
    kind = kind << bits | static_cast<uint64_t>(value);
  };
  const ProductDesc& desc = problem.desc;
  add(desc.compute, 8);
  add(desc.transpose_a, 1);
  add(desc.transpose_b, 1);
  add(desc.epilogue, 10);
  add(desc.a_scale_mode * 8 + desc.b_scale_mode, 6);
  for (const cudaDataType_t type :
       {desc.scale, problem.a.type, problem.b.type, problem.c.type, problem.d.type,
        problem.bias_type(), problem.auxiliary_type()}) {
    add(type, 6);
  }
  return kind;
}

std::array<uint16_t, 4> distances_of(const Problem& problem) {
  const auto distance = [](const MatrixDesc& matrix) {
    return static_cast<uint16_t>(
        alignment_of(static_cast<uint64_t>(matrix.ld) * bytes_of(matrix.type)));
  };
  return {distance(problem.a), distance(problem.b), distance(problem.c), distance(problem.d)};
}

std::array<uint16_t, 2> epilogue_alignments(const ProductDesc& desc) {
  const auto alignment = [](const void* data) {
    return static_cast<uint16_t>(alignment_of(reinterpret_cast<uintptr_t>(data)));
  };
  return {alignment(desc.bias), alignment(desc.auxiliary)};
}

/// Sums are split if the workspace has room for the partial sums, which have the compute type.
uint32_t workspace_for(const Problem& problem, const PreferenceDesc& preference) {
  constexpr uint64_t kMost = 1 << 20;
  const bool splits = (preference.reductions & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) != 0;
  const uint64_t parts = std::min<uint64_t>(
      static_cast<uint64_t>(problem.m) * static_cast<uint64_t>(problem.n) * sizeof(float), kMost);
  return splits && parts <= preference.workspace_bytes ? static_cast<uint32_t>(parts) : 0;
}

/// A GPU reads whole elements, so smaller alignments cannot be promised.
cublasStatus_t check_promises(const Problem& problem, const Alignments& promised) {
  const std::array types = {problem.a.type, problem.b.type, problem.c.type, problem.d.type};
  for (size_t i = 0; i < types.size(); ++i) {
    if (!std::has_single_bit(promised[i])) return CUBLAS_STATUS_INVALID_VALUE;
    if (promised[i] < bytes_of(types[i])) return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return CUBLAS_STATUS_SUCCESS;
}

Algorithm choose(const Problem& problem, const PreferenceDesc& preference) {
  Algorithm algorithm;
  algorithm.m = static_cast<int32_t>(problem.m);
  algorithm.n = static_cast<int32_t>(problem.n);
  algorithm.k = static_cast<int32_t>(problem.k);
  algorithm.kind = kind_of(problem);
  algorithm.workspace_bytes = workspace_for(problem, preference);
  for (size_t i = 0; i < preference.alignments.size(); ++i) {
    algorithm.alignments[i] =
        static_cast<uint16_t>(std::min<uint32_t>(preference.alignments[i], 256));
  }
  algorithm.distances = distances_of(problem);
  algorithm.epilogue = epilogue_alignments(problem.desc);
  return algorithm;
}

}  // namespace

bool library_is(const char* what) {
  const char* setting = std::getenv("TESSERA_EMULATOR_CUBLASLT");
  return setting != nullptr && std::string_view(setting) == what;
}

cublasStatus_t check_algorithm(const Problem& problem, const Algorithm& algorithm) {
  if (algorithm.kind != kind_of(problem)) return CUBLAS_STATUS_INVALID_VALUE;
  const auto distances = distances_of(problem);
  for (size_t i = 0; i < distances.size(); ++i) {
    if (distances[i] < std::min<uint16_t>(algorithm.distances[i], 16)) {
      return CUBLAS_STATUS_NOT_SUPPORTED;
    }
  }
  const std::array asked = {problem.m, problem.n, problem.k};
  const std::array<int64_t, 3> chosen = {algorithm.m, algorithm.n, algorithm.k};
  for (size_t i = 0; i < asked.size(); ++i) {
    const bool fits = library_is("exact") ? asked[i] == chosen[i] : asked[i] <= chosen[i];
    if (!fits) return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace emulator::cublaslt

using namespace emulator::cublaslt;

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t opaque_preference,
                                              int most, cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  require_handle(handle, "cublasLtMatmulAlgoGetHeuristic");
  const auto preference = unpack<PreferenceDesc>(opaque_preference);
  if (!preference || most <= 0 || results == nullptr || found == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  *found = 0;
  const auto& [status, problem] = read_problem(desc, a, b, c, d);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  for (const cublasStatus_t why_not :
       {support(problem), check_promises(problem, preference->alignments)}) {
    if (why_not != CUBLAS_STATUS_SUCCESS) return why_not;
  }
  Algorithm algorithm = choose(problem, *preference);
  *found = std::min<int>(most, library_is("several") ? kSeveral : 1);
  for (int i = 0; i < *found; ++i) {
    algorithm.index = static_cast<uint16_t>(i);
    results[i] = {};
    pack(algorithm, &results[i].algo);
    results[i].workspaceSize = algorithm.workspace_bytes;
    results[i].wavesCount = 1.0f;
  }
  return CUBLAS_STATUS_SUCCESS;
}
