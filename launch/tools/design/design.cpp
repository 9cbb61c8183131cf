#include "launch/tools/design/design.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "launch/data/indexed/dataset_metadata.h"
#include "launch/data/indexed/indexed_dataset.h"
#include "launch/data/prepare/prepare.h"
#include "launch/support/files/folders.h"
#include "launch/support/files/whole_files.h"
#include "launch/support/text/human_text.h"
#include "launch/support/text/table.h"
#include "launch/tokenizers/training/bpe_training.h"
#include "launch/tokenizers/training/count_words.h"
#include "launch/tools/design/hold_out.h"
#include "parallel/communicators/exchange.h"
#include "parallel/host/host_threads.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

/// Shares of the whole time for evaluations, and for saves and surprises.
constexpr double kEvaluationShare = 0.03, kReserve = 0.03;
/// Seconds that a candidate and the chosen run are measured for, at most these shares of the time.
constexpr double kCandidateSeconds = 1.5, kCandidateShare = 0.01;
constexpr double kChosenSeconds = 6.0, kChosenShare = 0.04;
/// bf16 rounds, so it must be worth it.
constexpr double kWorthwhileGain = 1.1;

int64_t text_bytes_of(const WordCounts& words) {
  int64_t bytes = 0;
  for (const auto& [word, count] : words) bytes += static_cast<int64_t>(word.size()) * count;
  return bytes;
}

/// In a new folder.
void make_data(const DesignOptions& options) {
  const std::vector<InputFile> files = find_input_files(options.input, "design");
  for (const InputFile& file : files) {
    require(fs::is_regular_file(file.path),
            "design: {} is not a file, and a text is read twice, for its tokenizer and its tokens: "
            "write it to a file first",
            file.path == "-" ? "standard input" : file.path);
  }
  const InputText text(files, options.input);
  const WordCounts words = count_byte_level_words(text);
  make_folders(options.files.folder);
  write_bpe(options.files.tokenizer(),
            train_bpe(words, {.vocab_size = vocabulary_for(text_bytes_of(words))}));
  PrepareOptions prepared{.tokenizer = "bpe:" + options.files.tokenizer().string(),
                          .input = options.input,
                          .append_end = true,
                          .output = options.files.data().string()};
  prepared.threads = choose_host_threads({find_rank_cpus()}, 0).threads;
  const double tokens = static_cast<double>(prepare(prepared).tokens);
  constexpr double kEvaluationTokens = 2e5, kLeast = 0.01, kMost = 0.1;
  hold_out(prepared.output, std::clamp(kEvaluationTokens / tokens, kLeast, kMost),
           options.files.held_out().string());
}

DatasetMetadata metadata_of(const fs::path& prefix) {
  const IndexedDataset dataset(prefix.string());
  const auto metadata = read_metadata(dataset);
  require(metadata.has_value(), "design: {} has no metadata", prefix.string());
  return *metadata;
}

/// Chooses and measures the parts of a RunDesign in turn.
class Designer {
 public:
  Designer(const DesignOptions& options, Communicator& world) : options_(options), world_(world) {}

  RunDesign run() {
    all_or_none(world_, [&] {
      if (world_.rank() != 0) return;
      require(!fs::exists(options_.files.folder),
              "design: {} already exists: choose another folder with --output, or remove it",
              options_.files.folder.string());
      folder_is_new_ = true;
      make_data(options_);
    });
    all_or_none(world_, [&] { read_data(); });
    const RunConfig config = config_of(design_.draft, options_.files);
    OpenedRanks ranks(device_request(config), config.grid_shape(), world_);
    ranks_ = &ranks;
    choose_precision(ranks.devices.device);
    measure_candidates();
    choose();
    explain();
    return std::move(design_);
  }

  /// After a failure, so that the command can be started again.
  void remove_new_folder() const {
    std::error_code ignored;
    if (folder_is_new_) fs::remove_all(options_.files.folder, ignored);
  }

 private:
  double seconds() const { return options_.minutes * 60.0; }
  double candidate_seconds() const {
    return std::min(kCandidateSeconds, kCandidateShare * seconds());
  }
  RunDraft& draft() { return design_.draft; }

  void read_data() {
    const DatasetMetadata learned = metadata_of(options_.files.data()),
                          held_out = metadata_of(options_.files.held_out());
    design_.text_bytes = learned.bytes + held_out.bytes;
    design_.text_tokens = learned.tokens + held_out.tokens;
    design_.vocab_size = learned.tokenizer.vocab_size;
    draft().eval_fraction =
        static_cast<double>(held_out.tokens) / static_cast<double>(design_.text_tokens);
    constexpr double kGuessedSpeed = 2e4;  // tokens per second, until a candidate was measured
    set_batch(kGuessedSpeed * seconds());
  }

  double unique_tokens() const {
    return static_cast<double>(design_.text_tokens) * (1.0 - design_.draft.eval_fraction);
  }

  /// Sets the length and the number of sequences for a training of so many tokens. The number is a
  /// multiple of the ranks.
  void set_batch(double tokens) {
    draft().seq_length = seq_length_for(tokens, design_.text_tokens);
    const int64_t ranks = world_.size();
    const auto row = static_cast<double>(ranks * draft().seq_length);
    const double rows = static_cast<double>(batch_tokens_for(tokens)) / row;
    draft().batch = ranks * std::max<int64_t>(1, std::llround(rows));
  }

  StepSpeed measure(double seconds, bool evaluates) {
    return measure_step_speed([&] { return config_of(draft(), options_.files); }, *ranks_, seconds,
                              evaluates);
  }

  void report(const std::string& line) const {
    if (world_.rank() == 0 && options_.report) options_.report(line);
  }

  /// GPUs compute in bf16. A CPU does if that makes a model of medium size faster.
  void choose_precision(Device device) {
    draft().precision = DType::bf16;
    if (device.is_cuda()) return;
    constexpr size_t kMedium = 2;
    draft().size = candidate_sizes()[kMedium];
    const double bf16 = measure(candidate_seconds(), /*evaluates=*/false).step_seconds;
    draft().precision = DType::f32;
    design_.bf16_gain = measure(candidate_seconds(), /*evaluates=*/false).step_seconds / bf16;
    if (design_.bf16_gain >= kWorthwhileGain) draft().precision = DType::bf16;
  }

  DesignCandidate measure_candidate(const ModelSize& size) {
    draft().size = size;
    const StepSpeed speed = measure(candidate_seconds(), /*evaluates=*/false);
    DesignCandidate candidate{.size = size, .tokens_per_second = speed.tokens_per_second()};
    const double steps_share = 1.0 - kEvaluationShare - kReserve;
    candidate.amount = {.parameters = static_cast<double>(size.block_weights() +
                                                          design_.vocab_size * size.hidden_size),
                        .tokens = candidate.tokens_per_second * seconds() * steps_share,
                        .unique_tokens = unique_tokens()};
    candidate.expected_loss = expected_loss(candidate.amount);
    return candidate;
  }

  /// From small to large, until two in a row are worse than the best.
  void measure_candidates() {
    constexpr size_t kWorseInARow = 2;
    std::vector<DesignCandidate>& candidates = design_.candidates;
    for (const ModelSize& size : candidate_sizes()) {
      const DesignCandidate candidate = measure_candidate(size);
      candidates.push_back(candidate);
      report(fmt::format("measured {} layers of {}: {} tokens/s", size.num_layers, size.hidden_size,
                         human_amount(candidate.tokens_per_second)));
      const auto best = std::ranges::min_element(candidates, {}, &DesignCandidate::expected_loss);
      design_.chosen = static_cast<size_t>(best - candidates.begin());
      if (candidates.size() - 1 - design_.chosen >= kWorseInARow) break;
      set_batch(candidate.amount.tokens);
    }
  }

  void choose() {
    const DesignCandidate& best = design_.candidates[design_.chosen];
    draft().size = best.size;
    set_batch(best.amount.tokens);
    draft().dropout = dropout_for(best.amount);
    set_steps(best.amount.tokens / static_cast<double>(draft().batch_tokens()));
    const StepSpeed speed =
        measure(std::min(kChosenSeconds, kChosenShare * seconds()), /*evaluates=*/true);
    design_.speed = speed;
    const double evaluations = kDesignEvaluations * speed.evaluation_seconds;
    const double left = seconds() * (1.0 - kReserve) - speed.start_seconds - evaluations;
    const double steps = std::floor(left / speed.step_seconds);
    require(
        steps >= 1.0,
        "design: {:g} minutes are not enough for a step of the model that learns fastest, which "
        "takes {:.2g} s beside {:.2g} s for starting and evaluating: give it more with --minutes",
        options_.minutes, speed.step_seconds, speed.start_seconds + evaluations);
    set_steps(steps);
    design_.seconds =
        speed.start_seconds + evaluations + static_cast<double>(draft().steps) * speed.step_seconds;
  }

  void set_steps(double steps) {
    draft().steps = std::max<int64_t>(1, static_cast<int64_t>(steps));
    // So that the last step ends with an evaluation and is saved.
    if (draft().steps >= 10 * kDesignEvaluations)
      draft().steps -= draft().steps % kDesignEvaluations;
    // An evaluation of a batch costs a third of a step.
    const double batches = 3.0 * kEvaluationShare * steps / static_cast<double>(kDesignEvaluations);
    const double all = static_cast<double>(design_.text_tokens) * draft().eval_fraction /
                       static_cast<double>(draft().batch_tokens());
    draft().eval_batches = std::max<int64_t>(1, std::llround(std::min(batches, std::ceil(all))));
  }

  void explain();

  const DesignOptions& options_;
  Communicator& world_;
  OpenedRanks* ranks_ = nullptr;
  bool folder_is_new_ = false;  // on rank 0
  RunDesign design_;
};

void Designer::explain() {
  const DesignCandidate& best = design_.candidates[design_.chosen];
  const double epochs = best.amount.tokens / best.amount.unique_tokens;
  design_.config = config_of(draft(), options_.files);
  KeyOrigins& reasons = design_.reasons;
  reasons["run.dir"] = "";
  reasons["run.precision"] =
      design_.bf16_gain == 0.0
          ? "Tensor cores compute in bf16."
          : fmt::format("bf16 is {:.2f} times as fast as fp32 on this machine.", design_.bf16_gain);
  reasons["model.kind"] =
      "Rotary positions, RMSNorm, SwiGLU and normalized queries and keys: better than a GPT-2 of "
      "the same size.";
  reasons["model.num_layers"] = fmt::format(
      "The lowest expected loss of {} sizes that were measured: {} tokens/s, so {} tokens in the "
      "time, {:.1f} times the text.",
      design_.candidates.size(), human_amount(best.tokens_per_second),
      human_amount(best.amount.tokens), epochs);
  reasons["model.hidden_size"] = "";
  reasons["model.num_heads"] = "";
  reasons["model.seq_length"] =
      "Short sequences learn faster at first; long ones are worth it in long trainings.";
  if (draft().dropout > 0.0) {
    reasons["model.dropout"] = "The text is seen so often that the model could learn it by heart.";
  }
  reasons["data.train"] = fmt::format(
      "{} bytes of text, as {} tokens of a BPE with a vocabulary of {}.",
      grouped(design_.text_bytes), grouped(design_.text_tokens), grouped(design_.vocab_size));
  reasons["data.eval"] =
      fmt::format("{:.2g}% of the text, from everywhere, which the model does not learn.",
                  100.0 * draft().eval_fraction);
  reasons["batch.global"] = fmt::format("{} tokens a step. A longer training has larger batches.",
                                        draft().batch_tokens());
  reasons["train.steps"] = fmt::format(
      "A step takes {:.3g} ms and an evaluation {:.2g} s, measured on {} rank{}. Together: {} of "
      "{:g} min.",
      1e3 * design_.speed.step_seconds, design_.speed.evaluation_seconds, world_.size(),
      world_.size() == 1 ? "" : "s", human_duration(design_.seconds), options_.minutes);
  reasons["optimizer.lr"] = "For this size and these tokens, then a linear decay to zero.";
  reasons["optimizer.min_lr"] = "";
  reasons["optimizer.schedule"] = "";
  reasons["optimizer.warmup_steps"] = "";
  reasons["eval.interval"] =
      fmt::format("{} evaluations, in {:.1f}% of the time.", kDesignEvaluations,
                  100.0 * kDesignEvaluations * design_.speed.evaluation_seconds / design_.seconds);
  reasons["eval.batches"] = "";
  reasons["checkpoint.interval"] = "As often as evaluations, so that the best one can be kept.";
  reasons["checkpoint.keep"] = "";
  reasons["checkpoint.keep_best"] = "";
  reasons["log.interval"] = "";
  all_or_none(world_, [&] {
    if (world_.rank() != 0) return;
    const std::string head =
        fmt::format("# Written by tessera design: {:g} min on {} rank{}. Change what you like.\n\n",
                    options_.minutes, world_.size(), world_.size() == 1 ? "" : "s");
    write_whole_files(
        {{options_.files.config().string(), head + to_commented_yaml(design_.config, reasons)}},
        Replace::refuse);
  });
}

}  // namespace

RunDesign design_run(const DesignOptions& options, Communicator& world) {
  Designer designer(options, world);
  try {
    return designer.run();
  } catch (...) {
    designer.remove_new_folder();
    throw;
  }
}

std::string to_string(const RunDesign& design) {
  std::vector<std::vector<std::string>> rows = {
      {"layers", "width", "parameters", "tokens/s", "tokens", "epochs", "relative loss", ""}};
  const double lowest = design.candidates[design.chosen].expected_loss;
  for (size_t i = 0; i < design.candidates.size(); ++i) {
    const DesignCandidate& candidate = design.candidates[i];
    const TrainingAmount& amount = candidate.amount;
    rows.push_back({fmt::format("{}", candidate.size.num_layers),
                    fmt::format("{}", candidate.size.hidden_size), human_amount(amount.parameters),
                    human_amount(candidate.tokens_per_second), human_amount(amount.tokens),
                    fmt::format("{:.1f}", amount.tokens / amount.unique_tokens),
                    fmt::format("{:.3f}", candidate.expected_loss / lowest),
                    i == design.chosen ? "chosen" : ""});
  }
  std::string text = fmt::format(
      "{} bytes of text are {} tokens of a BPE with a vocabulary of {}\n",
      grouped(design.text_bytes), grouped(design.text_tokens), grouped(design.vocab_size));
  text += table(rows, {0, 1, 2, 3, 4, 5, 6});
  text += fmt::format("{} steps of {} tokens will take {}\n", grouped(design.draft.steps),
                      grouped(design.draft.batch_tokens()), human_duration(design.seconds));
  return text;
}

}  // namespace tessera
