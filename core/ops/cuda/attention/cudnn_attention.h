#pragma once

#include <cstddef>
#include <string>

#include "core/ops/cuda/attention/cudnn_attention_plan.h"

namespace tessera::cuda {

#ifdef TESSERA_HAS_CUDNN
inline constexpr bool kHasCudnn = true;
#else
inline constexpr bool kHasCudnn = false;
#endif

/// attention_forward and attention_backward (core/ops/attention.h) by cuDNN. Returns false, without
/// doing anything, if cuDNN does not support the arguments or this GPU; that depends only on
/// shapes. The first use of an attention_plan_key() compiles a plan. Defined where kHasCudnn.
bool cudnn_attention_forward(const Tensor& qkv, const AttentionOptions& options, Tensor out,
                             Tensor log_sum_exp);
bool cudnn_attention_backward(const Tensor& dout, const Tensor& qkv, const Tensor& out,
                              const Tensor& log_sum_exp, const AttentionOptions& options,
                              Tensor dqkv);

/// The scratch memory of the two with such tensors, which may be on the meta device; 0 if cuDNN
/// does not support them. Compiles the plan, like the first use of its key. Defined where
/// kHasCudnn.
size_t cudnn_attention_workspace(const Tensor& qkv, const AttentionOptions& options, bool backward);

/// Creates the calling thread's handle, which takes GPU memory, unless it exists. Defined where
/// kHasCudnn.
void create_cudnn_handle();

/// "9.19.0". Defined where kHasCudnn.
std::string cudnn_version();

/// The implementation of attention in training steps, for the start-up summary: "cuDNN 9.19.0 where
/// it has a plan for this GPU, else own kernels", or "own kernels, because …".
inline std::string attention_implementation(const AttentionSetup& setup) {
  std::optional<std::string> reason = "this build has no cuDNN";
  if constexpr (kHasCudnn) reason = cudnn_attention_unsupported_reason(setup);
  if constexpr (kHasCudnn) {
    if (!reason)
      return "cuDNN " + cudnn_version() +
             " if it has a plan for this GPU, otherwise Tessera's kernels";
  }
  return "own kernels, because " + *reason;
}

}  // namespace tessera::cuda
