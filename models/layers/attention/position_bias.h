#pragma once

#include <string>

#include "core/ops/position_bias.h"
#include "core/parameters/parameter.h"
#include "models/model_config.h"
#include "parallel/communicators/communicator.h"
#include "parallel/step_context.h"

namespace tessera {

/// The bias that all attention layers add to their scores: that of ALiBi, or one learned for each
/// head and bucket of distances, as in T5. A tensor rank has the columns of its heads.
class PositionBias {
 public:
  /// `name` is a prefix of the parameter's; `causal`: keys after their query are hidden.
  PositionBias(ParameterStore& store, const std::string& name, const ModelConfig& config,
               bool causal, Communicator& tp);

  /// Returns the table (Hl, 2R − 1) fp32 of a pass, in ctx.arena, for the distances of seq_length
  /// positions; undefined if the model has none.
  Tensor table(const StepContext& ctx) const;

  bool is_learned() const { return weights_ != nullptr; }

  /// The gradient of the weights from that of the table, which the layers have summed. Marks it as
  /// final.
  void backward(const StepContext& ctx, const Tensor& dtable);

 private:
  Positions positions_;
  int64_t total_heads_, seq_length_;
  Range heads_;  // of this tensor rank
  RelativeBuckets buckets_;
  Parameter* weights_ = nullptr;  // (buckets, H)
};

}  // namespace tessera
