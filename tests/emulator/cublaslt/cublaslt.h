#pragma once

#include <cublasLt.h>

#include <array>
#include <cstring>
#include <optional>
#include <string>

/// What stands behind tests/emulator/include/cublasLt.h: products that mean what their descriptors
/// say, and cuBLASLt's documented rules. A product that the documentation does not list is one that
/// the library does not have, which a status says; a call that a GPU would answer with wrong
/// numbers or a fault ends the process with a message.
namespace emulator::cublaslt {

// --- what lies in the opaque structures ---

/// Tells a structure that was initialised from other bytes.
enum class Mark : uint32_t { none, product = 0x70726f64, matrix, preference, algorithm };

struct ProductDesc {
  static constexpr Mark kMark = Mark::product;
  Mark mark = kMark;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale = CUDA_R_32F;
  int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  int32_t bias_type = -1, auxiliary_type = -1;  // -1: the result's
  void* bias = nullptr;
  void* auxiliary = nullptr;
  int64_t auxiliary_ld = 0;
};

/// Column after column, `ld` elements apart.
struct MatrixDesc {
  static constexpr Mark kMark = Mark::matrix;
  Mark mark = kMark;
  cudaDataType_t type = CUDA_R_32F;
  uint64_t rows = 0, cols = 0;
  int64_t ld = 0;
};

/// Bytes by which A, B, C and D are aligned at least.
using Alignments = std::array<uint32_t, 4>;

struct PreferenceDesc {
  static constexpr Mark kMark = Mark::preference;
  Mark mark = kMark;
  uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  uint64_t workspace_bytes = 0;
  Alignments alignments = {256, 256, 256, 256};
};

template <typename Desc, typename Opaque>
void pack(const Desc& desc, Opaque* opaque) {
  static_assert(sizeof(Desc) <= sizeof(Opaque));
  *opaque = {};
  std::memcpy(opaque->data, &desc, sizeof(Desc));
}
/// Nothing where there is no such structure.
template <typename Desc, typename Opaque>
std::optional<Desc> unpack(const Opaque* opaque) {
  if (opaque == nullptr) return {};
  Desc desc;
  std::memcpy(static_cast<void*>(&desc), opaque->data, sizeof(Desc));
  if (desc.mark != Desc::kMark) return {};
  return desc;
}

// --- products ---

/// D (m, n) = alpha op(A) (m, k) op(B) (k, n) + beta C (m, n), and what the epilogue does to it.
struct Problem {
  ProductDesc desc;
  MatrixDesc a, b, c, d;
  int64_t m, n, k;

  bool has(cublasLtEpilogue_t epilogue) const { return desc.epilogue == epilogue; }
  bool adds_bias() const {
    return has(CUBLASLT_EPILOGUE_BIAS) || has(CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
  }
  bool has_vector() const { return adds_bias() || has(CUBLASLT_EPILOGUE_BGRADB); }
  bool has_auxiliary() const { return (desc.epilogue & 128) != 0; }
  cudaDataType_t bias_type() const { return or_results(desc.bias_type); }
  cudaDataType_t auxiliary_type() const { return or_results(desc.auxiliary_type); }

 private:
  cudaDataType_t or_results(int32_t type) const {
    return type == -1 ? d.type : static_cast<cudaDataType_t>(type);
  }
};

/// What the descriptors say, or the status of what is wrong with them.
struct ReadProblem {
  cublasStatus_t status;
  Problem problem;
};
ReadProblem read_problem(cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                         cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                         cublasLtMatrixLayout_t d);

/// Success if the documentation lists such a product, whatever its algorithm.
cublasStatus_t support(const Problem& problem);

/// The bytes by which `value`, an address or a distance, is aligned, up to 256.
uint32_t alignment_of(uint64_t value);

size_t bytes_of(cudaDataType_t type);
/// From a matrix's first byte to its last.
size_t span_of(const MatrixDesc& matrix);
MatrixDesc auxiliary_of(const Problem& problem);

/// What an algorithm is good for: products of this kind, of these sizes or less.
struct Algorithm {
  static constexpr Mark kMark = Mark::algorithm;
  Mark mark = kMark;
  int32_t m = 0, n = 0, k = 0;
  uint64_t kind = 0;  // the types, the transposes and the epilogue
  uint32_t workspace_bytes = 0;
  std::array<uint16_t, 4> alignments = {};  // of A, B, C and D, as promised
  std::array<uint16_t, 4> distances = {};   // alignments of their columns
  std::array<uint16_t, 2> epilogue = {};    // alignments of the bias and the auxiliary matrix
};

/// Whether `algorithm` can be used for another problem than it was chosen for, as the library's
/// cublasLtMatmulAlgoCheck says.
cublasStatus_t check_algorithm(const Problem& problem, const Algorithm& algorithm);

struct Operands {
  const void *a, *b, *c;
  void* d;
  float alpha, beta;
};

/// Does it, in host memory or while device memory can be touched. Sums are of fp32.
void multiply(const Problem& problem, const Operands& operands);

/// Ends the process unless it is one of the calling thread's GPU.
void require_handle(cublasLtHandle_t handle, const char* function);

/// How many products had this epilogue since the program began.
int64_t products_with(cublasLtEpilogue_t epilogue);

/// Whether the variable TESSERA_EMULATOR_CUBLASLT of the environment names `what`: "plain", a
/// library without epilogues, or "exact", one whose algorithms are for the sizes that they were
/// chosen for.
bool library_is(const char* what);

}  // namespace emulator::cublaslt
