#include "launch/config/validate.h"

#include <string>
#include <utility>
#include <vector>

#include "core/divisors.h"
#include "core/error.h"
#include "core/ops/attention.h"
#include "core/ops/fp8.h"
#include "launch/config/schema_list.h"
#include "launch/config/validate_kind.h"
#include "launch/config/values/value_rule.h"
#include "launch/tokenizers/id_tokenizer.h"
#include "parallel/layers/partition.h"
#include "parallel/process_grid.h"

namespace tessera {
namespace {

/// Checks ranges, because a configuration built in code has not been through a reader.
void check_ranges(const RunConfig& config) {
  for (const SectionInfo& section : config_sections()) {
    for (const KeyInfo& key : section.keys) {
      if (config.automatic.contains(key.full_name)) continue;
      require(key.access->accepts(config), "{} is {}, but must be {}", key.full_name,
              key.access->write(config), key.allowed);
    }
  }
}

/// Collects the broken rules of a layout.
struct LayoutRules {
  std::vector<BrokenRule> broken;

  template <typename... Args>
  void require(bool holds, const char* key, int64_t value, fmt::format_string<Args...> message,
               Args&&... args) {
    if (holds) return;
    broken.push_back({key, value, fmt::format(message, std::forward<Args>(args)...)});
  }
};

void check_tensor_parallel(const RunConfig& config, int world_size, LayoutRules& rules) {
  const int64_t tensor = config.parallel.tensor;
  const ModelConfig& model = config.model;
  if (auto problem = grid_problem(world_size, config.grid_shape())) {
    rules.broken.push_back({"parallel.tensor", tensor, *std::move(problem)});
  }
  rules.require(
      tensor <= model.num_heads, "parallel.tensor", tensor,
      "parallel.tensor is {}, but model.num_heads is {}: more tensor ranks than heads would leave "
      "ranks without attention, so choose at most {}",
      tensor, model.num_heads, model.num_heads);
}

/// What the number of ranks is divided by to get that of the data ranks: "parallel.tensor = 2".
std::string ranks_of_samples(const RunConfig& config) {
  const ParallelSection& parallel = config.parallel;
  if (parallel.context == 1) return fmt::format("parallel.tensor = {}", parallel.tensor);
  return fmt::format("(parallel.tensor × context) = {}", parallel.tensor * parallel.context);
}

void check_context(const RunConfig& config, LayoutRules& rules) {
  const int64_t context = config.parallel.context;
  rules.require(
      context <= config.model.seq_length, "parallel.context", context,
      "parallel.context is {}, but model.seq_length is {}: more context ranks than tokens "
      "would leave ranks without any, so choose at most {}",
      context, config.model.seq_length, config.model.seq_length);
  rules.require(context == 1 || config.log.noise_scale_interval == 0, "parallel.context", context,
                "parallel.context is {}, but log.noise_scale_interval is {}, and no context rank "
                "has the gradient of a whole micro-batch: choose 0, or 1 as parallel.context",
                context, config.log.noise_scale_interval);
  rules.require(context == 1 || !config.train.cudnn_dropout, "parallel.context", context,
                "parallel.context is {}, but train.cudnn_dropout is true, and cuDNN draws other "
                "bits for each rank's tokens: choose false, or 1 as parallel.context",
                context);
}

/// The codes of FP8 are those of one rank only if no block of features is on two ranks.
void check_fp8_features(const RunConfig& config, LayoutRules& rules) {
  const auto tensor = static_cast<int>(config.parallel.tensor);
  const ModelConfig& model = config.model;
  if (!config.run.precision.fp8 || tensor > model.num_heads) return;
  const auto check = [&](std::string_view what, int64_t units, int64_t unit) {
    for (int rank = 0; rank < tensor; ++rank) {
      const int64_t features = split_range(units, tensor, rank).size() * unit;
      if (features % kFp8Block == 0) continue;
      return rules.require(
          false, "parallel.tensor", tensor,
          "run.precision is fp8, whose scales are of {} neighboring features, but tensor rank {} "
          "of {} has {} features of {}, {:.2f} × {}: choose another parallel.tensor, other sizes "
          "of the model, or bf16",
          kFp8Block, rank, tensor, features, what,
          static_cast<double>(features) / static_cast<double>(kFp8Block), kFp8Block);
    }
  };
  const int64_t groups = model.resolved_kv_heads(), dim = model.resolved_head_dim();
  const int64_t queries = model.num_heads / groups * dim;
  check("the heads", groups, queries);
  if (queries != dim || model.qk_norm) {
    check("queries, keys and values together", groups, queries + 2 * dim);
  }
  check("the MLP", model.resolved_mlp_size(), 1);
}

void check_gradients(const RunConfig& config, int world_size, LayoutRules& rules) {
  const int64_t tensor = config.parallel.tensor;
  rules.require(
      config.parallel.grad_reduce_dtype == DType::f32 || world_size != tensor, "parallel.tensor",
      tensor,
      "parallel.grad_reduce_dtype is bf16, but there is one data rank ({} rank{} / parallel.tensor "
      "= {}), which has no gradients to reduce: choose fp32, or a smaller parallel.tensor, or "
      "start more ranks",
      world_size, world_size == 1 ? "" : "s", tensor);
}

void check_shards(const RunConfig& config, int world_size, LayoutRules& rules) {
  const GridShape shape = config.grid_shape();
  if (grid_problem(world_size, shape)) return;
  const ParallelSection& parallel = config.parallel;
  const ProcessGrid grid(world_size, shape);
  rules.require(parallel.zero < 2 || grid.shards() > 1, "parallel.zero", parallel.zero,
                "parallel.zero is {}, but {} rank{} / parallel.tensor {} with parallel.shard {} "
                "leave no ranks that share gradients or weights: start more ranks, or choose 0",
                parallel.zero, world_size, world_size == 1 ? "" : "s", parallel.tensor,
                parallel.shard);
  rules.require(parallel.zero > 0 || parallel.shard == 0, "parallel.shard", parallel.shard,
                "parallel.shard is {}, but parallel.zero is 0, so that no rank has shards: choose "
                "a stage, or leave parallel.shard out",
                parallel.shard);
}

void check_batch(const RunConfig& config, int world_size, LayoutRules& rules) {
  const GridShape shape = config.grid_shape();
  if (grid_problem(world_size, shape)) return;  // the number of data ranks is undefined
  const int64_t global = config.batch.global;
  const int64_t data_ranks = shape.data_ranks(world_size);
  if (config.automatic.contains("batch.micro")) {
    rules.require(
        global % data_ranks == 0, "batch.global", global,
        "batch.global is {}, but there are {} data ranks ({} ranks / {}): every data rank computes "
        "the same number of sequences, so choose a multiple of {} ({})",
        global, data_ranks, world_size, ranks_of_samples(config), data_ranks,
        nearest_multiples(global, data_ranks));
    return;
  }
  const int64_t micro = config.batch.micro;
  if (global % (micro * data_ranks) == 0) return;
  const std::string smaller_micro =
      global % data_ranks == 0
          ? fmt::format(", or a divisor of {} / {} = {} {} as batch.micro", global, data_ranks,
                        global / data_ranks, divisors(global / data_ranks))
          : "";
  rules.require(
      false, "batch.global", global,
      "batch.global is {}, but batch.micro × data ranks = {} × {} = {} ({} ranks / {}): every "
      "data rank computes the same number of micro-batches, so choose a multiple of {} ({}) as "
      "batch.global{}",
      global, micro, data_ranks, micro * data_ranks, world_size, ranks_of_samples(config),
      micro * data_ranks, nearest_multiples(global, micro * data_ranks), smaller_micro);
}

/// Only data without a tokenizer needs to be told its special tokens.
void check_special_tokens(const RunConfig& config) {
  const SpecialTokenIds& special = config.data.special_tokens;
  if (special.empty()) return;
  const std::string value = SpecialTokenMap{}.write(special);
  require(config.automatic.contains("data.tokenizer") || config.data.tokenizer == kNoTokenizer,
          "data.special_tokens is {}, but data.tokenizer is {}, which has its own: leave "
          "special_tokens out, or set tokenizer to none",
          value, config.data.tokenizer);
  for (const auto& [name, id] : special) {
    require(id < config.model.vocab_size,
            "data.special_tokens is {}, but model.vocab_size is {}: {} must be from 0 to {}", value,
            config.model.vocab_size, name, config.model.vocab_size - 1);
  }
}

void check_data(const RunConfig& config) {
  // 256 bytes and the token between documents.
  constexpr int64_t kByteTokens = 257;
  const DataSection& data = config.data;
  require(data.tokenizer != "byte" || config.model.vocab_size >= kByteTokens,
          "model.vocab_size is {}, but data.tokenizer is byte, which has {} tokens: choose {} or "
          "more, or leave the key out",
          config.model.vocab_size, kByteTokens, kByteTokens);
  check_special_tokens(config);
  require(!data.eval || data.eval_fraction == 0.0,
          "data.eval is {} and data.eval_fraction is {}: data.train has held-out data only without "
          "data.eval, so set eval_fraction to 0, or eval to null",
          OrNull<PathOrBlend>{}.write(data.eval), data.eval_fraction);
  require(data.eval_fraction + data.test_fraction < 1.0,
          "data.eval_fraction is {} and data.test_fraction is {}: they leave nothing of data.train "
          "to train on, so their sum must be less than 1",
          data.eval_fraction, data.test_fraction);
  require(config.eval.interval == 0 || data.eval || data.eval_fraction > 0.0,
          "eval.interval is {}, but there is no evaluation data: set data.eval to a dataset, "
          "data.eval_fraction to the fraction of data.train to hold out, such as 0.1, or "
          "eval.interval to 0",
          config.eval.interval);
}

std::string checkpoint_interval(const RunConfig& config) {
  return saves_by_time(config) ? "auto" : std::to_string(config.checkpoint.interval);
}

void check_evaluations(const RunConfig& config) {
  const int64_t interval = config.eval.interval;
  const CheckpointSection& checkpoint = config.checkpoint;
  require(config.eval.patience == 0 || interval > 0,
          "eval.patience is {}, but eval.interval is 0, so nothing is evaluated: set eval.interval "
          "to a number of steps, or eval.patience to 0",
          config.eval.patience);
  require(config.eval.multiple_choice.empty() || interval > 0,
          "eval.multiple_choice is {}, but eval.interval is 0, so nothing is evaluated: set "
          "eval.interval to a number of steps, or eval.multiple_choice to []",
          ListOf<Text>{}.write(config.eval.multiple_choice));
  require(!checkpoint.keep_best || checkpoint.keep > 0,
          "checkpoint.keep_best is true, but checkpoint.keep is 0, which keeps all checkpoints: "
          "set keep to a number, or keep_best to false");
  require(!checkpoint.keep_best ||
              (interval > 0 && checkpoint.interval > 0 && interval % checkpoint.interval == 0),
          "checkpoint.keep_best is true, but eval.interval is {} and checkpoint.interval is {}: "
          "evaluations need a checkpoint each, so make eval.interval a multiple of "
          "checkpoint.interval",
          interval, checkpoint_interval(config));
  require(config.model.lora_rank == 0 || checkpoint.from,
          "model.lora_rank is {}, but checkpoint.from is null, so the adapters would be trained on "
          "weights that are random and frozen: set checkpoint.from to the run or the import to "
          "fine-tune",
          config.model.lora_rank);
  require(
      !checkpoint.from_state || checkpoint.from,
      "checkpoint.from_state is true, but checkpoint.from is null: set it to the run, or to one "
      "of its checkpoints, to continue");
}

void check_samples(const RunConfig& config) {
  const EvalSection& eval = config.eval;
  const bool has_prompts = !eval.prompts.empty();
  require(!has_prompts || eval.sample_interval > 0,
          "eval.prompts has {} text{}, but eval.sample_interval is 0, so the model never continues "
          "{}: set it to a number of steps, or leave prompts out",
          eval.prompts.size(), eval.prompts.size() == 1 ? "" : "s",
          eval.prompts.size() == 1 ? "it" : "them");
  require(has_prompts || eval.sample_interval == 0,
          "eval.sample_interval is {}, but eval.prompts has no text to continue: set prompts to a "
          "list of texts, as in [\"Once upon a time\"], or sample_interval to 0",
          eval.sample_interval);
  const EvalSection defaults;
  const std::string_view no_prompts = "eval.prompts is empty";
  require_default(has_prompts || eval.sample_tokens == defaults.sample_tokens, "eval.sample_tokens",
                  no_prompts);
  require_default(has_prompts || eval.sample_temperature == defaults.sample_temperature,
                  "eval.sample_temperature", no_prompts);
  if (!has_prompts) return;
  require(config.data.tokenizer != kNoTokenizer || config.automatic.contains("data.tokenizer"),
          "eval.prompts has texts, but data.tokenizer is none, and without a tokenizer the model "
          "knows only ids: leave prompts and sample_interval out");
}

void check_schedule(const RunConfig& config) {
  const OptimizerSection& optimizer = config.optimizer;
  require_default(optimizer.trained.empty() || config.model.lora_rank > 0, "optimizer.trained",
                  "model.lora_rank is 0, so all parameters are trained that are not frozen");
  require(optimizer.min_lr <= optimizer.lr,
          "optimizer.min_lr is {}, but optimizer.lr is {}: the schedule decays from lr to min_lr, "
          "so choose a min_lr from 0 to {}",
          optimizer.min_lr, optimizer.lr, optimizer.lr);
  const bool steps_known = !config.automatic.contains("train.steps");
  require(!steps_known || optimizer.warmup_steps <= config.train.steps,
          "optimizer.warmup_steps is {}, but train.steps is {}: the run would end before it "
          "reaches lr, so choose at most {} warmup steps",
          optimizer.warmup_steps, config.train.steps, config.train.steps);
  const OptimizerSection defaults;
  const bool decays_late = optimizer.schedule == LrSchedule::warmup_stable_decay;
  const std::string_view not_late = "optimizer.schedule is not warmup_stable_decay";
  require_default(decays_late || optimizer.decay_steps == defaults.decay_steps,
                  "optimizer.decay_steps", not_late);
  require_default(decays_late || optimizer.decay_style == defaults.decay_style,
                  "optimizer.decay_style", not_late);
  require_default(optimizer.schedule == LrSchedule::polynomial || optimizer.power == defaults.power,
                  "optimizer.power", "optimizer.schedule is not polynomial");
  require(!steps_known || optimizer.warmup_steps + optimizer.decay_steps <= config.train.steps,
          "optimizer.warmup_steps and optimizer.decay_steps are {} and {}, but train.steps is {}: "
          "together they must not exceed it",
          optimizer.warmup_steps, optimizer.decay_steps, config.train.steps);
}

void check_optimizer(const OptimizerSection& optimizer) {
  const OptimizerSection defaults;
  require_default(optimizer.name != OptimizerName::lion || optimizer.eps == defaults.eps,
                  "optimizer.eps", "optimizer.name is lion, which divides by nothing");
  const bool is_muon = optimizer.name == OptimizerName::muon;
  const std::string_view not_muon = "optimizer.name is not muon";
  require_default(is_muon || optimizer.momentum == defaults.momentum, "optimizer.momentum",
                  not_muon);
  require_default(is_muon || optimizer.nesterov == defaults.nesterov, "optimizer.nesterov",
                  not_muon);
  require_default(is_muon || optimizer.ns_steps == defaults.ns_steps, "optimizer.ns_steps",
                  not_muon);
}

void check_bad_steps(const RunConfig& config) {
  const TrainSection& train = config.train;
  require(
      train.max_rollbacks == 0 || config.checkpoint.interval > 0,
      "train.max_rollbacks is {}, but checkpoint.interval is {}, so there may be no checkpoint to "
      "go back to: set checkpoint.interval to a number of steps, or train.max_rollbacks to 0",
      train.max_rollbacks, checkpoint_interval(config));
  require(train.spike_factor == 0.0 || train.spike_factor >= 1.0,
          "train.spike_factor is {}, but below 1 half of all steps would be spikes: choose 1 or "
          "more, such as 5, or 0 for none",
          train.spike_factor);
  require_default(train.spike_factor > 0.0 || train.spike_window == TrainSection().spike_window,
                  "train.spike_window", "train.spike_factor is 0");
}

void check_log(const RunConfig& config) {
  const LogSection& log = config.log;
  require_default(log.timeline_steps > 0 || log.timeline_skip == LogSection().timeline_skip,
                  "log.timeline_skip", "log.timeline_steps is 0");
  require(log.histogram_interval == 0 || log.tensorboard,
          "log.histogram_interval is {}, but log.tensorboard is false, and histograms are for "
          "TensorBoard: set tensorboard to true, or histogram_interval to 0",
          log.histogram_interval);
  require(log.attention_interval == 0 || !config.model.has_images(),
          "log.attention_interval is {}, but the model sees images, and pictures are of texts: set "
          "it to 0, and use `tessera attention --image`",
          log.attention_interval);
  require(log.attention_interval == 0 || config.data.eval || config.data.eval_fraction > 0.0,
          "log.attention_interval is {}, but there is no held-out text to look at: set data.eval "
          "or data.eval_fraction, or attention_interval to 0",
          log.attention_interval);
  if (log.noise_scale_interval == 0) return;
  require(config.model.head != Head::embedding,
          "log.noise_scale_interval is {}, but model.head is embedding, whose loss compares all "
          "samples of a step and is no mean of theirs: set it to 0",
          log.noise_scale_interval);
  const bool is_known = !config.automatic.contains("batch.micro");
  const int64_t micro = is_known ? config.batch.micro : 1;
  require(micro < config.batch.global,
          "log.noise_scale_interval is {}, but a step has a single micro-batch: batch.global is "
          "{}{}. The noise scale is estimated from the gradients of one micro-batch and of all, so "
          "choose a larger batch.global{}, or set it to 0",
          log.noise_scale_interval, config.batch.global,
          is_known ? fmt::format(" and batch.micro is {}", micro) : "",
          is_known && micro > 1 ? ", or a smaller batch.micro" : "");
}

void check_backend(const RunConfig& config) {
  require(config.parallel.backend != Backend::nccl || config.run.device != DeviceChoice::cpu,
          "parallel.backend is nccl, but run.device is cpu: NCCL connects GPUs, so choose auto or "
          "mpi as parallel.backend, or cuda as run.device");
}

void check_precision(const RunConfig& config) {
  const bool bf16 = config.run.precision == DType::bf16;
  require(
      !config.optimizer.stochastic_rounding || bf16,
      "optimizer.stochastic_rounding is true, but run.precision is fp32, in which the optimizer "
      "rounds no weights: choose false, or bf16 as run.precision");
  require(!config.run.tf32 || !bf16,
          "run.tf32 is true, but run.precision is {}, which has no fp32 products: choose false, "
          "or fp32 as run.precision",
          to_string(config.run.precision));
  require(!config.run.tf32 || config.run.device != DeviceChoice::cpu,
          "run.tf32 is true, but run.device is cpu, and only GPUs have TF32: choose false, or auto "
          "or cuda as run.device");
  require(
      config.run.product_algorithms != ProductAlgorithms::timed ||
          config.run.device != DeviceChoice::cpu,
      "run.product_algorithms is timed, but run.device is cpu, and only GPUs have algorithms to "
      "choose from: choose auto, or auto or cuda as run.device");
}

void check_fp8(const RunConfig& config) {
  if (!config.run.precision.fp8) return;
  const ModelConfig& model = config.model;
  require(model.num_layers > 2,
          "run.precision is fp8, but model.num_layers is {}, and the first and the last block stay "
          "in bf16: choose bf16, or at least 3 layers",
          model.num_layers);
  require(model.hidden_size % kFp8Block == 0,
          "run.precision is fp8, whose scales are of {} neighboring features, but "
          "model.hidden_size is {} = {:.2f} × {}: choose bf16, or a multiple of {}",
          kFp8Block, model.hidden_size,
          static_cast<double>(model.hidden_size) / static_cast<double>(kFp8Block), kFp8Block,
          kFp8Block);
  require(model.lora_rank == 0,
          "run.precision is fp8, but model.lora_rank is {}, and adapters have no FP8 products: "
          "choose bf16, or 0 as lora_rank",
          model.lora_rank);
}

void check_cudnn_dropout(const RunConfig& config) {
  if (!config.train.cudnn_dropout) return;
  require(config.run.device != DeviceChoice::cpu,
          "train.cudnn_dropout is true, but run.device is cpu, and cuDNN runs only on GPUs: choose "
          "false, or auto or cuda as run.device");
  require(config.run.precision == DType::bf16,
          "train.cudnn_dropout is true, but run.precision is fp32, and cuDNN's attention supports "
          "only bf16: choose false, or bf16 as run.precision");
}

void check_attention_dropout(const RunConfig& config) {
  const double probability = config.model.attention_dropout;
  if (const auto reason = weight_dropout_unsupported_reason(probability)) {
    fail("model.attention_dropout is {}, but {}", probability, *reason);
  }
}

void check_token_count(const RunConfig& config) {
  if (config.automatic.contains("train.steps")) return;
  int64_t tokens = 0;
  const bool overflows =
      __builtin_mul_overflow(config.batch.global, config.model.seq_length, &tokens) ||
      __builtin_mul_overflow(tokens, config.train.steps, &tokens);
  require(!overflows,
          "train.steps × batch.global × model.seq_length = {} × {} × {} tokens, more than 2^63 - 1 "
          "that can be counted: choose fewer train.steps",
          config.train.steps, config.batch.global, config.model.seq_length);
}

}  // namespace

std::vector<BrokenRule> broken_layout_rules(const RunConfig& config, int world_size) {
  LayoutRules rules;
  check_tensor_parallel(config, world_size, rules);
  check_context(config, rules);
  check_fp8_features(config, rules);
  check_gradients(config, world_size, rules);
  check_shards(config, world_size, rules);
  check_batch(config, world_size, rules);
  return rules.broken;
}

void validate(const RunConfig& config, int world_size) {
  require(world_size >= 1, "a run has at least 1 rank, but was given {}", world_size);
  check_ranges(config);
  check_kind(config);
  check_fp8(config);
  const std::vector<BrokenRule> broken = broken_layout_rules(config, world_size);
  if (!broken.empty()) throw Error(broken.front().message);
  check_data(config);
  check_evaluations(config);
  check_samples(config);
  check_optimizer(config.optimizer);
  check_schedule(config);
  check_bad_steps(config);
  check_log(config);
  check_backend(config);
  check_precision(config);
  check_cudnn_dropout(config);
  check_attention_dropout(config);
  check_token_count(config);
}

}  // namespace tessera
