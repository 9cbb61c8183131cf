#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "core/ops/cuda/attention/cudnn_attention_plan.h"

struct cudnnContext;
namespace cudnn_frontend::graph {
class Graph;
}

namespace tessera::cuda {

/// The tensors of an attention plan. Queries, keys and values, and their gradients, are parts of
/// (rows, 3, heads, head_dim); out and its gradient are (rows, heads, head_dim).
enum AttentionTensor : int64_t {
  kQueries = 1,
  kKeys,
  kValues,
  kOut,
  kStatistics,  ///< log-sum-exp: (documents, heads, length), or, if ragged, (rows, heads)
  kOutGradient,
  kQueryGradient,
  kKeyGradient,
  kValueGradient,
  // If ragged or padded: the number of leading rows of each document that are queries, and keys,
  // int32.
  kQueryLengths,
  kKeyLengths,
  // If ragged: the first element of each document in qkv, in out and in the statistics, and the end
  // of the last document, int32.
  kQkvOffsets,
  kOutOffsets,
  kStatisticsOffsets,
};

/// A compiled execution plan of cuDNN. Only cudnn_plan.cpp includes cudnn_frontend.
class AttentionPlan {
 public:
  /// To make one takes seconds. Never throws because there is none: why_not() then says so.
  AttentionPlan(const AttentionPlanKey& key, cudnnContext* handle);

  /// What cuDNN said, or "" if the plan can run.
  const std::string& why_not() const { return why_not_; }
  size_t workspace_bytes() const { return workspace_bytes_; }

  /// Enqueues the plan on the handle's stream. The backward plan also reads out and statistics.
  void run(cudnnContext* handle, std::span<const std::pair<AttentionTensor, void*>> tensors,
           void* workspace) const;

 private:
  std::shared_ptr<cudnn_frontend::graph::Graph> graph_;
  size_t workspace_bytes_ = 0;
  std::string why_not_;
};

/// Whether cuDNN has a plan for `key` on a GPU that is described (by DeviceProperties' JSON and
/// its compute capability × 10), which need not be there: what it said, or "".
std::string attention_plan_why_not(const AttentionPlanKey& key,
                                   const std::string& device_properties, int sm_version);

}  // namespace tessera::cuda
