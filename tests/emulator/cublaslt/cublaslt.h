#pragma once

#include <cublasLt.h>

#include <array>
#include <cstring>
#include <optional>
#include <string>

/// The implementation of tests/emulator/include/cublasLt.h: products as their descriptors define
/// them, and cuBLASLt's documented rules. A product that is not documented is unsupported, which a
/// status reports. A call that makes a GPU compute wrong numbers or fault ends the process with a
/// message.
namespace emulator::cublaslt {

// --- contents of the opaque structures ---

/// Identifies an initialized structure.
enum class Mark : uint32_t { none, product = 0x70726f64, matrix, preference, algorithm };

struct ProductDesc {
  static constexpr Mark kMark = Mark::product;
  Mark mark = kMark;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale = CUDA_R_32F;
  int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  int32_t multiprocessors = 0;                  // 0: all
  int32_t bias_type = -1, auxiliary_type = -1;  // -1: same as the result
  void* bias = nullptr;
  void* auxiliary = nullptr;
  int64_t auxiliary_ld = 0;
  int32_t a_scale_mode = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  int32_t b_scale_mode = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  const float* a_scales = nullptr;
  const float* b_scales = nullptr;
};

/// Column-major, with `ld` elements from column to column.
struct MatrixDesc {
  static constexpr Mark kMark = Mark::matrix;
  Mark mark = kMark;
  cudaDataType_t type = CUDA_R_32F;
  uint64_t rows = 0, cols = 0;
  int64_t ld = 0;
};

/// The guaranteed alignment of A, B, C and D in bytes.
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
/// Returns nothing if `opaque` is not such a structure.
template <typename Desc, typename Opaque>
std::optional<Desc> unpack(const Opaque* opaque) {
  if (opaque == nullptr) return {};
  Desc desc;
  std::memcpy(static_cast<void*>(&desc), opaque->data, sizeof(Desc));
  if (desc.mark != Desc::kMark) return {};
  return desc;
}

// --- products ---

/// D (m, n) = alpha op(A) (m, k) op(B) (k, n) + beta C (m, n), followed by the epilogue.
struct Problem {
  ProductDesc desc;
  MatrixDesc a, b, c, d;
  int64_t m, n, k;

  bool has_codes() const { return a.type == CUDA_R_8F_E4M3 || b.type == CUDA_R_8F_E4M3; }
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

/// The problem that the descriptors define, or a status that reports what is wrong with them.
struct ReadProblem {
  cublasStatus_t status;
  Problem problem;
};
ReadProblem read_problem(cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                         cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                         cublasLtMatrixLayout_t d);

/// Returns success if the documentation lists such a product for any algorithm.
cublasStatus_t support(const Problem& problem);

/// Returns the alignment of `value`, an address or a distance, in bytes, up to 256.
uint32_t alignment_of(uint64_t value);

/// The scales of a matrix of codes whose columns are summed over: one for 128 elements of a column
/// (with neighboring columns next to one another), or for 128 × 128 elements.
struct Scales {
  const float* data;
  int64_t count, column_step, block_step;
  bool of_columns;  // or of blocks

  float of(int64_t column, int64_t element) const {
    return data[(of_columns ? column : column / 128) * column_step + element / 128 * block_step];
  }
};
Scales scales_of(const MatrixDesc& matrix, int32_t mode, const float* data);

size_t bytes_of(cudaDataType_t type);
/// Returns the bytes from a matrix's first byte to its last.
size_t span_of(const MatrixDesc& matrix);
MatrixDesc auxiliary_of(const Problem& problem);

/// How many algorithms the heuristics offer if library_is("several"). They round some results
/// differently, and take longer or shorter depending on the GPU: the fastest is the last on GPU 0,
/// the second on GPU 1.
inline constexpr uint16_t kSeveral = 3;

/// What an algorithm supports: products of this kind, up to these sizes.
struct Algorithm {
  static constexpr Mark kMark = Mark::algorithm;
  Mark mark = kMark;
  int32_t m = 0, n = 0, k = 0;
  uint16_t index = 0;  // among the heuristics' results
  uint64_t kind = 0;   // types, transposes and epilogue
  uint32_t workspace_bytes = 0;
  std::array<uint16_t, 4> alignments = {};  // of A, B, C and D, as promised
  std::array<uint16_t, 4> distances = {};   // alignments of their columns
  std::array<uint16_t, 2> epilogue = {};    // alignments of the bias and the auxiliary matrix
};

/// Checks whether `algorithm` supports another problem than it was chosen for, like the library's
/// cublasLtMatmulAlgoCheck.
cublasStatus_t check_algorithm(const Problem& problem, const Algorithm& algorithm);

struct Operands {
  const void *a, *b, *c;
  void* d;
  float alpha, beta;
};

/// Computes the product, in host memory or while device memory is accessible. Accumulates in fp32.
/// `splits`: the algorithm splits the sums along K and adds their parts in the workspace.
void multiply(const Problem& problem, const Operands& operands, bool splits);

/// Ends the process unless the handle belongs to the calling thread's GPU.
void require_handle(cublasLtHandle_t handle, const char* function);

/// The number of products with this epilogue since the program started.
int64_t products_with(cublasLtEpilogue_t epilogue);

/// The number of products with this algorithm of the heuristics since the program started.
int64_t products_by(uint16_t algorithm);
/// Those for a part of the multiprocessors.
int64_t products_on_some_multiprocessors();

/// Returns whether the environment variable TESSERA_EMULATOR_CUBLASLT names `what`: "plain", a
/// library without epilogues, "several", one with kSeveral algorithms for each product, or "exact",
/// one whose algorithms support only the sizes they were chosen for.
bool library_is(const char* what);

}  // namespace emulator::cublaslt
