#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "core/ops/cuda/attention/cudnn_graph.h"

namespace tessera::cuda {

/// A compiled execution plan of cuDNN. Only cudnn_plan.cpp, which runs plans, and cudnn_graph.cpp,
/// which builds them, include cudnn_frontend.
class AttentionPlan {
 public:
  /// Compiles the plan, which takes seconds. Where cuDNN has no plan, unsupported_reason() is set.
  AttentionPlan(const AttentionPlanKey& key, cudnnContext* handle)
      : built_(build_attention_graph(key, handle)) {}

  /// cuDNN's message if it has no plan; none if the plan can run.
  const std::optional<std::string>& unsupported_reason() const { return built_.unsupported_reason; }
  size_t workspace_bytes() const { return built_.workspace_bytes; }

  /// Enqueues the plan on the handle's stream. The backward plan also reads out and statistics.
  void run(cudnnContext* handle, std::span<const std::pair<AttentionTensor, void*>> tensors,
           void* workspace) const;

 private:
  BuiltAttentionGraph built_;
};

}  // namespace tessera::cuda
