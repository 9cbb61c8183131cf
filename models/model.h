#pragma once

#include <memory>

#include "core/ops/factor.h"
#include "core/parameters/parameter.h"
#include "models/model_config.h"
#include "models/token_batch.h"
#include "parallel/step_context.h"

namespace tessera {

class Transformer;

/// By what the gradient of each sum of losses is multiplied: one over the global number of targets.
struct LossScale {
  Factor token = 0.0f;
  Factor document = 0.0f;
};

/// What passes over micro-batches add up: one fp64 tensor, so that one all-reduce sums it over the
/// data ranks.
struct LossSums {
  static constexpr int64_t kCount = 4;

  Tensor values;  // (kCount) fp64

  Tensor token_loss() const { return values.slice(0, 1); }  ///< Σ −log p(target)
  Tensor token_correct() const { return values.slice(1, 2); }
  Tensor document_loss() const { return values.slice(2, 3); }  ///< Σ −log p(label)
  Tensor document_correct() const { return values.slice(3, 4); }
};

/// A model that trains on token batches, split over tensor ranks.
class Model {
 public:
  virtual ~Model() = default;

  /// Forward and backward of one micro-batch: adds to the losses in `sums`, and the gradient of
  /// scale.token × token losses + scale.document × document losses to all gradients. Takes
  /// activations from ctx.arena, which the caller resets. `batch` lives until the next pass.
  virtual void train(const StepContext& ctx, const TokenBatch& batch, const LossScale& scale,
                     const LossSums& sums) = 0;

  /// The losses alone, and how many targets and labels were the likeliest. `predictions` (S) int32,
  /// where defined and the model has a head for whole documents, is the likeliest label of each.
  virtual void evaluate(const StepContext& ctx, const TokenBatch& batch, const LossSums& sums,
                        Tensor predictions) = 0;

  /// What the blocks, and in a pre-norm model the norm behind them, give (N, C), in ctx.arena;
  /// `ctx` is context_for(batch)'s where dropout matters. Where ctx.rows are split, the rows that
  /// this rank holds.
  virtual Tensor hidden_states(const StepContext& ctx, const TokenBatch& batch) = 0;
  virtual const Transformer& transformer() const = 0;
};

/// Declares the parameters of the model that `config` describes in `store`, which must be allocated
/// before the first pass. `tp` and `store` must outlive the model.
std::unique_ptr<Model> make_model(const ModelConfig& config, ParameterStore& store,
                                  Communicator& tp);

}  // namespace tessera
