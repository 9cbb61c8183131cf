#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "core/ops/cuda/attention/cudnn_attention_plan.h"

struct cudnnContext;
namespace cudnn_frontend::graph {
class Graph;
}

namespace tessera::cuda {

/// The tensors of an attention plan. Queries, keys and values, and their gradients, are parts of
/// (rows, heads + 2 kv_heads, head_dim); out and its gradient are (rows, heads, head_dim).
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
  // With dropout, int64.
  kDropoutSeed,
  kDropoutOffset,
};

/// A graph of cudnn_frontend with its compiled execution plan.
struct BuiltAttentionGraph {
  std::shared_ptr<cudnn_frontend::graph::Graph> graph;
  size_t workspace_bytes;                         ///< that running it needs
  std::optional<std::string> unsupported_reason;  ///< cuDNN's message if it has no plan
};

/// Builds the graph for `key` and compiles its plan, which takes seconds.
BuiltAttentionGraph build_attention_graph(const AttentionPlanKey& key, cudnnContext* handle);

/// cuDNN's message if it has no plan for `key` on a GPU; none if it has one. The GPU need not be
/// present: DeviceProperties' JSON and the compute capability × 10 describe it.
std::optional<std::string> attention_plan_unsupported_reason(const AttentionPlanKey& key,
                                                             const std::string& device_properties,
                                                             int sm_version);

}  // namespace tessera::cuda
