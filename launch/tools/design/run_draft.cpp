#include "launch/tools/design/run_draft.h"

#include <algorithm>
#include <vector>

#include "launch/config/load_config.h"

namespace tessera {

int64_t RunDraft::eval_interval() const { return std::max<int64_t>(1, steps / kDesignEvaluations); }

int64_t RunDraft::warmup_steps() const {
  constexpr int64_t kOfSteps = 20, kMost = 1000;
  return std::min(steps / kOfSteps, kMost);
}

RunConfig config_of(const RunDraft& draft, const DesignFiles& files) {
  RunConfig config = load_overrides(std::vector<std::string>{"model.kind=qwen3"});
  config.automatic.erase("run.dir");
  config.run.dir = files.run().string();
  config.run.precision = draft.precision;
  config.model.num_layers = draft.size.num_layers;
  config.model.hidden_size = draft.size.hidden_size;
  config.model.num_heads = draft.size.num_heads;
  config.model.seq_length = draft.seq_length;
  config.model.dropout = draft.dropout;
  config.data.train = files.data().string();
  config.data.eval = files.held_out().string();
  config.batch.global = draft.batch;
  config.train.steps = draft.steps;
  config.optimizer.lr = peak_lr_for(
      draft.size, static_cast<double>(draft.steps) * static_cast<double>(draft.batch_tokens()));
  config.optimizer.min_lr = 0.0;
  config.optimizer.schedule = LrSchedule::linear;
  config.optimizer.warmup_steps = draft.warmup_steps();
  config.eval.interval = draft.eval_interval();
  config.eval.batches = draft.eval_batches;
  config.checkpoint.interval = draft.eval_interval();
  config.checkpoint.keep = 2;
  config.checkpoint.keep_best = true;
  config.log.interval = std::max<int64_t>(1, draft.steps / 100);
  return config;
}

}  // namespace tessera
