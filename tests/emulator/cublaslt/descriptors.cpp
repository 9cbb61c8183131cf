// The cuBLASLt functions that write its opaque structures.

#include "tests/emulator/cublaslt/cublaslt.h"

namespace emulator::cublaslt {
namespace {

/// An attribute has a type; a different size means that the caller expects another attribute.
template <typename T>
cublasStatus_t assign(T& attribute, const void* value, size_t bytes) {
  if (value == nullptr || bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&attribute, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t assign(ProductDesc& desc, cublasLtMatmulDescAttributes_t attribute,
                      const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return assign(desc.transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return assign(desc.transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return assign(desc.epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return assign(desc.bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return assign(desc.auxiliary, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return assign(desc.auxiliary_ld, value, bytes);
    case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET:
      return assign(desc.multiprocessors, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE:
      return assign(desc.auxiliary_type, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return assign(desc.bias_type, value, bytes);
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
      return assign(desc.a_scales, value, bytes);
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
      return assign(desc.b_scales, value, bytes);
    case CUBLASLT_MATMUL_DESC_A_SCALE_MODE:
      return assign(desc.a_scale_mode, value, bytes);
    case CUBLASLT_MATMUL_DESC_B_SCALE_MODE:
      return assign(desc.b_scale_mode, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t assign(PreferenceDesc& desc, cublasLtMatmulPreferenceAttributes_t attribute,
                      const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return assign(desc.workspace_bytes, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return assign(desc.reductions, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return assign(desc.alignments[static_cast<size_t>(
                        attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES)],
                    value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

template <typename Desc, typename Opaque, typename Attribute>
cublasStatus_t set(Opaque* opaque, Attribute attribute, const void* value, size_t bytes) {
  std::optional<Desc> desc = unpack<Desc>(opaque);
  if (!desc) return CUBLAS_STATUS_INVALID_VALUE;
  const cublasStatus_t status = assign(*desc, attribute, value, bytes);
  if (status == CUBLAS_STATUS_SUCCESS) pack(*desc, opaque);
  return status;
}

template <typename Desc, typename Opaque>
cublasStatus_t initialise(const Desc& desc, Opaque* opaque) {
  if (opaque == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  pack(desc, opaque);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace emulator::cublaslt

using namespace emulator::cublaslt;

cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayout_t layout, cudaDataType type,
                                        uint64_t rows, uint64_t cols, int64_t ld) {
  MatrixDesc desc;
  desc.type = type;
  desc.rows = rows;
  desc.cols = cols;
  desc.ld = ld;
  return initialise(desc, layout);
}

cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDesc_t opaque, cublasComputeType_t compute,
                                      cudaDataType_t scale) {
  ProductDesc desc;
  desc.compute = compute;
  desc.scale = scale;
  return initialise(desc, opaque);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  return set<ProductDesc>(desc, attribute, value, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceInit(cublasLtMatmulPreference_t preference) {
  return initialise(PreferenceDesc(), preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  return set<PreferenceDesc>(preference, attribute, value, bytes);
}
