#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "core/precision.h"
#include "launch/config/chat_format.h"
#include "launch/config/column_names.h"
#include "launch/config/data_blend.h"
#include "launch/tokenizers/special_tokens.h"
#include "models/model_config.h"
#include "parallel/grid_shape.h"
#include "parallel/recompute.h"

namespace tessera {

// The sections of a RunConfig as plain values, which are also the options of the classes that need
// them. schema.h defines each key's meaning, allowed values and reason, which are printed as
// docs/configuration.md.

enum class DeviceChoice : uint8_t { automatic, cpu, cuda };
enum class Backend : uint8_t { automatic, nccl, mpi };
enum class CudaGraph : uint8_t { automatic, off };
enum class OptimizerName : uint8_t { adamw, lion, muon };
enum class LrSchedule : uint8_t {
  cosine,
  linear,
  constant,
  warmup_stable_decay,
  inverse_sqrt,
  polynomial
};
enum class DecayStyle : uint8_t { linear, cosine, minus_sqrt };
enum class ResumeMode : uint8_t { automatic, never, required };
enum class ShortSamples : uint8_t { pad, pack };
enum class ProductAlgorithms : uint8_t { automatic, first, timed };
enum class OnHang : uint8_t { abort, report };
enum class Packing : uint8_t { concatenate, documents };

struct RunSection {
  std::string dir;
  int64_t seed = 1234;
  DeviceChoice device = DeviceChoice::automatic;
  Precision precision = DType::f32;
  bool tf32 = false;          ///< fp32 products of a GPU in TF32
  bool deterministic = true;  ///< only algorithms that give the same bits each time
  ProductAlgorithms product_algorithms = ProductAlgorithms::automatic;  ///< of cuBLASLt
  int64_t hang_timeout = 120;                                           ///< in seconds; 0 is off
  OnHang on_hang = OnHang::abort;
  int64_t walltime = 0;  ///< in seconds; 0 is no limit

  bool times_products() const {
    return product_algorithms == ProductAlgorithms::timed ||
           (product_algorithms == ProductAlgorithms::automatic && !deterministic);
  }

  bool operator==(const RunSection&) const = default;
};

struct ChatForm;

struct DataSection {
  DataBlend train;                 ///< dataset prefixes
  std::optional<DataBlend> eval;   ///< dataset prefixes
  double eval_fraction = 0.0;      ///< of each part of `train`, near its end; in [0, 1)
  double test_fraction = 0.0;      ///< of each part of `train`, at its end; in [0, 1)
  std::string tokenizer;           ///< a specification; empty: the dataset's or the checkpoint's
  SpecialTokenIds special_tokens;  ///< of data without a tokenizer
  ColumnNames columns;             ///< of files of texts: the names of columns that differ
  Packing packing = Packing::concatenate;          ///< causal LM: what makes a row
  bool separate_documents = false;                 ///< causal LM: attention ends with a document
  bool loss_across_documents = true;               ///< causal LM: documents predict the next one
  ShortSamples short_samples = ShortSamples::pad;  ///< masked LM
  std::optional<std::string> labels;               ///< classification: names, separated by commas
  bool truncate = false;         ///< of files of texts: cut those that are too long
  bool loss_on_prompts = false;  ///< causal LM on prompts and completions: learn both
  ChatFormat chat_template = ChatFormat::automatic;  ///< causal LM on messages
  /// Form of the messages of the checkpoint that the weights are from; null if none is known. No
  /// key: derive_config() and evaluations set it.
  std::shared_ptr<const ChatForm> chat_form = {};

  bool operator==(const DataSection&) const = default;
};

struct ParallelSection {
  int64_t tensor = 1;                    ///< ranks that share one replica of the model
  int64_t context = 1;                   ///< ranks that share the rows of the same samples
  int64_t zero = 0;                      ///< stage of ZeRO: 0 to 3
  int64_t shard = 0;                     ///< replicas that share the shards of ZeRO; 0: all
  bool sequence = false;                 ///< and the rows of activations outside tensor regions
  DType grad_reduce_dtype = DType::f32;  ///< of gradient sums over data ranks: f32 or bf16
  Backend backend = Backend::automatic;  ///< for tensors on GPUs

  GridShape grid_shape() const {
    return {.context = context, .tensor = tensor, .shards = zero > 0 ? shard : 1};
  }

  bool operator==(const ParallelSection&) const = default;
};

/// In sequences.
struct BatchSection {
  int64_t global = 16;  ///< one step of all ranks
  int64_t micro = 0;    ///< one forward pass of one data rank

  bool operator==(const BatchSection&) const = default;
};

struct TrainSection {
  int64_t steps = 0;
  double epochs = 0.0;  ///< 0: `steps` says it
  Recompute recompute = Recompute::none;
  CudaGraph cuda_graph = CudaGraph::automatic;
  bool cudnn_dropout = false;           ///< attention dropout may be cuDNN's
  int64_t max_skipped_steps = 0;        ///< steps that are not finite, or spikes
  int64_t max_rollbacks = 0;            ///< to the last checkpoint, when no step may be skipped
  double spike_factor = 0.0;            ///< of the median gradient norm; 0: no step is a spike
  int64_t spike_window = 100;           ///< steps whose norms have this median
  int64_t check_replicas_interval = 0;  ///< steps; 0: never

  bool operator==(const TrainSection&) const = default;
};

struct OptimizerSection {  // NOLINT(clang-analyzer-optin.performance.Padding): keys in their order
  OptimizerName name = OptimizerName::adamw;
  double lr = 1e-3;
  double min_lr = 0.0;
  LrSchedule schedule = LrSchedule::cosine;
  int64_t warmup_steps = 0;
  int64_t decay_steps = 0;                      ///< of warmup_stable_decay; 0: a tenth of all
  DecayStyle decay_style = DecayStyle::linear;  ///< of warmup_stable_decay
  double power = 1.0;                           ///< of polynomial
  std::array<double, 2> betas = {0.9, 0.95};
  double eps = 1e-8;       ///< of AdamW
  double momentum = 0.95;  ///< of Muon
  bool nesterov = true;    ///< of Muon
  int64_t ns_steps = 5;    ///< of Muon's Newton-Schulz iteration
  double weight_decay = 0.1;
  double grad_clip = 1.0;            ///< global norm; 0 is off
  bool stochastic_rounding = false;  ///< of bf16 values
  double ema_decay = 0.0;            ///< of the average of the weights; 0 is none
  DType moment_dtype = DType::f32;   ///< f32, bf16, or u8 for 8-bit codes
  /// Patterns of parameters' names (core/name_pattern.h) and factors of their learning rate; the
  /// last one that matches counts.
  std::vector<std::pair<std::string, double>> lr_scales;
  double layer_lr_decay = 1.0;       ///< factor of the learning rate per layer, from the top
  std::vector<std::string> frozen;   ///< patterns of parameters that training does not change
  std::vector<std::string> trained;  ///< patterns of those that it changes beside adapters

  bool operator==(const OptimizerSection&) const = default;
};

struct EvalSection {
  int64_t interval = 0;  ///< in steps; 0 is never
  int64_t batches = 20;  ///< of batch.global sequences each
  int64_t patience = 0;  ///< evaluations without a better one before the run ends; 0 is no limit
  std::vector<std::string> prompts;  ///< texts that the model continues, or its source texts
  int64_t sample_interval = 0;       ///< in steps; 0 is never
  int64_t sample_tokens = 64;        ///< of each text, at most
  double sample_temperature = 0.8;   ///< 0 is greedy
  std::vector<std::string> multiple_choice;  ///< files of questions

  bool operator==(const EvalSection&) const = default;
};

struct CheckpointSection {
  int64_t interval = 0;  ///< in steps; 0 is only at the end. If automatic: by time, too
  int64_t keep = 0;      ///< number of newest ones to keep; 0 is all that are not by time
  bool keep_best = false;
  bool background = true;
  ResumeMode resume = ResumeMode::automatic;
  std::optional<std::string> from;  ///< a run or one of its steps
  bool from_state = false;          ///< of `from`: everything, not only the weights

  bool operator==(const CheckpointSection&) const = default;
};

struct LogSection {
  int64_t interval = 10;       ///< in steps
  int64_t timeline_steps = 0;  ///< 0 is none
  int64_t timeline_skip = 2;   ///< steps of this start before them
  bool tensorboard = false;
  int64_t report_interval = 0;  ///< in steps; 0 is never, as for those below
  int64_t histogram_interval = 0;
  int64_t attention_interval = 0;
  int64_t noise_scale_interval = 0;

  bool operator==(const LogSection&) const = default;
};

constexpr std::string_view to_string(OptimizerName name) {
  switch (name) {
    case OptimizerName::adamw:
      return "adamw";
    case OptimizerName::lion:
      return "lion";
    case OptimizerName::muon:
      return "muon";
  }
  return "?";
}

/// All that training steps need to know: sections of a RunConfig, or set by a program with a loop
/// of its own. Keys of `parallel` and `train` that say how a run starts, ends or recovers have no
/// effect on a step: backend, epochs, cudnn_dropout, max_rollbacks and check_replicas_interval.
struct StepOptions {
  ModelConfig model;
  ParallelSection parallel = {};
  BatchSection batch = {};  ///< with `micro`
  TrainSection train = {};  ///< with `steps`, which the learning rate follows
  OptimizerSection optimizer = {};
  Precision precision = DType::f32;  ///< of products and activations
  uint64_t seed = 1234;              ///< of dropout and rounding
  int64_t noise_scale_interval = 0;  ///< steps between measurements; 0: never
};

}  // namespace tessera
