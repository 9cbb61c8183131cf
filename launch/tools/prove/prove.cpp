#include "launch/tools/prove/prove.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <tuple>

#include "core/error.h"
#include "launch/config/validate.h"
#include "launch/config/validate_kind.h"
#include "launch/data/loading/batch_buffers.h"
#include "launch/support/text/human_text.h"
#include "launch/tools/prove/shrink.h"
#include "models/architecture.h"

namespace tessera {
namespace {

constexpr int64_t kSteps = 4;

// fp32 sums in another order differ by about the square root of their length, of up to a few
// hundred in the small run, times 2⁻²⁴ of their magnitude, once per layer and step.
constexpr double kTolerance = 2e-5;

// The gradients of the texts of an embedding head cancel: a new model makes almost the same vector
// of each, and its loss compares them. Their sum is some times smaller than what rounds.
constexpr double kCanceling = 10.0;

// A gradient in bf16 has about ten independent roundings of 2⁻⁸, so its error is about √10 × 2⁻⁸,
// and with post-norm or dropout some times that.
constexpr double kBf16Gradients = 4 * 3.1623 * 0x1p-8;

// The norm before cross-attention feeds only its queries, whose gradients are small differences: a
// new model attends to all of a source almost alike. T5 also does not scale the scores: on a
// processor without bf16 instructions, a gradient differed by 2.3 times kBf16Gradients.
constexpr double kBf16CrossAttention = 3 * kBf16Gradients;

std::optional<std::string> not_near(const std::string& what, double found, double expected,
                                    double tolerance) {
  if (std::abs(found - expected) <= tolerance * std::abs(expected)) return std::nullopt;
  return fmt::format("{} is {:.9g} instead of {:.9g}", what, found, expected);
}

/// The first problem that there is.
std::optional<std::string> first_of(std::initializer_list<std::optional<std::string>> problems) {
  for (const std::optional<std::string>& problem : problems) {
    if (problem) return problem;
  }
  return std::nullopt;
}

std::optional<std::string> named(const char* what, const std::optional<std::string>& problem) {
  if (!problem) return std::nullopt;
  return fmt::format("{} of {}", what, *problem);
}

std::optional<std::string> losses_differ(const GatheredRun& run, const GatheredRun& whole,
                                         size_t first, double tolerance) {
  for (size_t i = 0; i < run.steps.size(); ++i) {
    const StepResult &found = run.steps[i], &expected = whole.steps.at(first + i);
    const std::string step = fmt::format("step {}: ", expected.step);
    if (found.tokens != expected.tokens) {
      return fmt::format("{}{} tokens instead of {}", step, found.tokens, expected.tokens);
    }
    auto problem = first_of(
        {not_near(step + "the token loss", found.losses.token, expected.losses.token, tolerance),
         not_near(step + "the document loss", found.losses.document, expected.losses.document,
                  tolerance),
         not_near(step + "the gradient norm", found.grad_norm, expected.grad_norm,
                  10 * tolerance)});
    if (problem) return problem;
  }
  return std::nullopt;
}

std::optional<std::string> evaluations_differ(const Evaluation& found, const Evaluation& expected,
                                              double tolerance) {
  if (found.counts.tokens != expected.counts.tokens ||
      found.counts.token_targets != expected.counts.token_targets ||
      found.counts.document_targets != expected.counts.document_targets) {
    return "the evaluation has other numbers of tokens or targets";
  }
  return first_of({not_near("the evaluation's token loss", found.losses.token,
                            expected.losses.token, tolerance),
                   not_near("the evaluation's document loss", found.losses.document,
                            expected.losses.document, tolerance)});
}

std::optional<std::string> differs(const GatheredRun& run, const GatheredRun& whole,
                                   const RunConfig& config) {
  if (auto problem =
          named("initial weights", bit_difference(run.initial_weights, whole.initial_weights))) {
    return problem;
  }
  if (config.run.precision == DType::bf16) {
    const bool has_source = traits_of(config.model).source_length > 0;
    const double tolerance = has_source ? kBf16CrossAttention : kBf16Gradients;
    return first_of({losses_differ(run, whole, 0, 4 * 0x1p-8),
                     named("gradient", mean_difference(run.first_gradients, whole.first_gradients,
                                                       tolerance))});
  }
  const bool compares = traits_of(config.model).objective == Objective::embedding;
  const double gradients = compares ? kCanceling * kTolerance : kTolerance;
  return first_of(
      {losses_differ(run, whole, 0, kTolerance),
       named("gradient", difference(run.first_gradients, whole.first_gradients, gradients)),
       named("weights", difference(run.weights, whole.weights, 20 * kTolerance)),
       named("average", difference(run.ema, whole.ema, 20 * kTolerance)),
       evaluations_differ(run.evaluation, whole.evaluation, kTolerance)});
}

class Prover {
 public:
  Prover(const RunConfig& config, const ProveOptions& options)
      : options_(options), start_(std::chrono::steady_clock::now()) {
    tessera::check_masks(config.model);  // a small model might have other masks
    ShrunkRun shrunk = shrink(config, options.folder);
    certificate_.small = std::move(shrunk.config);
    certificate_.left_out = std::move(shrunk.left_out);
    validate(certificate_.small, 1);
    precisions_.push_back(DType::f32);
    if (config.run.precision == DType::bf16) precisions_.push_back(DType::bf16);
    grad_reduce_dtype_ = config.parallel.grad_reduce_dtype;
  }

  Certificate prove() {
    layouts();
    resumes();
    masks();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start_;
    certificate_.seconds = seconds.count();
    return std::move(certificate_);
  }

 private:
  RunConfig on(const ProvedLayout& layout) const {
    RunConfig run = certificate_.small;
    run.parallel.tensor = layout.tensor;
    run.parallel.context = layout.context;
    run.parallel.zero = layout.zero;
    run.parallel.shard = layout.shard;
    run.parallel.sequence = layout.sequence;
    run.run.precision = layout.precision;
    // Several micro-batches on every data rank.
    run.batch.micro = run.batch.global / layout.data % 2 == 0 ? 2 : 1;
    if (layout.precision == DType::bf16) run.parallel.grad_reduce_dtype = grad_reduce_dtype_;
    return run;
  }

  GatheredRun train(const RunConfig& run, const ProvedLayout& layout, int64_t steps,
                    bool resume = false, bool save = false) const {
    return train_and_gather(run, {.ranks = layout.ranks(),
                                  .steps = steps,
                                  .resume = resume,
                                  .save = save,
                                  .run_ranks = options_.run_ranks});
  }

  /// Adds a check; an error of the runs is its failure.
  template <typename Compare>
  void check(std::string what, Compare&& compare) {
    Check done{std::move(what), std::nullopt};
    try {
      done.failure = compare();
    } catch (const Error& error) {
      done.failure = error.what();
    }
    if (options_.report) options_.report(done);
    certificate_.checks.push_back(std::move(done));
  }

  void layouts() {
    for (const DType precision : precisions_) {
      ProvedLayout one;
      one.precision = precision;
      const GatheredRun whole = train(on(one), one, kSteps);
      if (precision == DType::f32) {
        certificate_.first_loss = whole.steps.front().loss();
        certificate_.last_loss = whole.steps.back().loss();
      }
      for (ProvedLayout layout : layouts_to_prove(certificate_.small, options_.ranks)) {
        layout.precision = precision;
        check(to_string(layout) + ": equals one rank",
              [&] { return differs(train(on(layout), layout, kSteps), whole, on(layout)); });
      }
    }
  }

  /// Half of the steps on one layout, and the rest on another.
  std::optional<std::string> interrupt(const ProvedLayout& first, const ProvedLayout& second,
                                       const GatheredRun& uninterrupted, bool exact) {
    std::filesystem::remove_all(certificate_.small.run.dir);
    train(on(first), first, kSteps / 2, false, true);
    const GatheredRun resumed = train(on(second), second, kSteps - kSteps / 2, true);
    std::filesystem::remove_all(certificate_.small.run.dir);
    if (exact) {
      return first_of({named("weights", bit_difference(resumed.weights, uninterrupted.weights)),
                       named("moments", bit_difference(resumed.exp_avg, uninterrupted.exp_avg)),
                       named("average", bit_difference(resumed.ema, uninterrupted.ema))});
    }
    return first_of(
        {losses_differ(resumed, uninterrupted, kSteps / 2, kTolerance),
         named("weights", difference(resumed.weights, uninterrupted.weights, 20 * kTolerance))});
  }

  void resumes() {
    const ProvedLayout one;
    const std::vector<ProvedLayout> all = layouts_to_prove(certificate_.small, options_.ranks);
    if (all.empty()) return;
    const GatheredRun whole = train(on(one), one, kSteps);
    // One with the highest stage of ZeRO on the most ranks, and the last, whose ranks are all
    // tensor ranks.
    const ProvedLayout& first = *std::ranges::max_element(all, {}, [](const ProvedLayout& layout) {
      return std::tuple(layout.zero, layout.ranks(), layout.tensor);
    });
    const ProvedLayout& second = all.back();
    check(fmt::format("from {} to {}: equals one rank", to_string(first), to_string(second)),
          [&] { return interrupt(first, second, whole, false); });
    check(fmt::format("from {} to one rank: equals one rank", to_string(second)),
          [&] { return interrupt(second, one, whole, false); });
    check(fmt::format("{}, resumed: has the bits of the uninterrupted run", to_string(first)),
          [&] { return interrupt(first, first, train(on(first), first, kSteps), true); });
  }

  void masks() {
    const ModelConfig& model = certificate_.small.model;
    for (int tensor = 1; tensor <= options_.ranks; ++tensor) {
      if (!broken_layout_rules(on({.tensor = tensor}), tensor).empty()) continue;
      for (const bool sequence : {false, true}) {
        if (sequence && tensor == 1) continue;
        check_masks(fmt::format("tensor {}, sequence {}", tensor, sequence), model, tensor,
                    sequence);
      }
    }
    if (model.attention_window == 0) return;
    // Through several layers, a query may see what one of them hides.
    ModelConfig one = model;
    one.num_layers = 1;
    if (one.num_decoder_layers > 0) one.num_decoder_layers = 1;
    for (const char* kind : {"L", "G"}) {
      if (model.window_pattern.find(kind) == std::string::npos) continue;
      one.window_pattern = kind;
      check_masks(fmt::format("a layer {} window", *kind == 'L' ? "with a" : "without a"), one, 1,
                  false);
    }
  }

  void check_masks(const std::string& of, const ModelConfig& model, int tensor, bool sequence) {
    check(of + ": no row depends on one that it must not see", [&]() -> std::optional<std::string> {
      const bool hides =
          batch_shape(1, certificate_.small.model, certificate_.small.mlm).hides_targets;
      const LeakReport report = find_leaks(model, model, tensor, sequence, {hides, hides});
      if (certificate_.masks.rows == 0) certificate_.masks = report;
      if (report.leak_count > 0) {
        return fmt::format("{} leaks; {}", report.leak_count, to_string(report.leaks.front()));
      }
      if (2 * report.seen_changes < report.visible) {
        return fmt::format("only {} of {} rows that may see another one depend on it",
                           report.seen_changes, report.visible);
      }
      return std::nullopt;
    });
  }

  const ProveOptions& options_;
  std::chrono::steady_clock::time_point start_;
  std::vector<DType> precisions_;
  DType grad_reduce_dtype_ = DType::f32;
  Certificate certificate_;
};

/// Adds layouts with context ranks before the last layout, whose ranks are all tensor ranks.
void add_context_layouts(const RunConfig& small, int ranks, std::vector<ProvedLayout>& layouts) {
  for (const ProvedLayout& layout :
       {ProvedLayout{1, 1, 2}, ProvedLayout{1, 1, 3, 1}, ProvedLayout{2, 1, 2, 3, 0, true},
        ProvedLayout{1, 2, 2, 3}, ProvedLayout{2, 2, 2, 1}}) {
    RunConfig run = small;
    run.parallel.tensor = layout.tensor;
    run.parallel.context = layout.context;
    run.parallel.zero = layout.zero;
    run.parallel.sequence = layout.sequence;
    if (layout.ranks() > ranks || !broken_layout_rules(run, layout.ranks()).empty()) continue;
    layouts.insert(layouts.empty() ? layouts.end() : layouts.end() - 1, layout);
  }
}

}  // namespace

std::string to_string(const ProvedLayout& layout) {
  const std::string shard = layout.shard > 0 ? fmt::format(", shard {}", layout.shard) : "";
  const std::string context = layout.context > 1 ? fmt::format(", context {}", layout.context) : "";
  return fmt::format("tensor {}, data {}{}, zero {}{}, sequence {}{}", layout.tensor, layout.data,
                     context, layout.zero, shard, layout.sequence,
                     layout.precision == DType::bf16 ? ", bf16" : "");
}

int64_t Certificate::failures() const {
  return std::ranges::count_if(checks,
                               [](const Check& check) { return check.failure.has_value(); });
}

std::vector<ProvedLayout> layouts_to_prove(const RunConfig& small, int ranks) {
  std::vector<ProvedLayout> layouts;
  for (int tensor = 1; tensor <= ranks; ++tensor) {
    for (int data = 1; tensor * data <= ranks; ++data) {
      if (tensor * data == 1) continue;
      const auto add = [&](int64_t zero, bool sequence, int64_t shard = 0) {
        if ((zero > 0 && data == 1) || (sequence && tensor == 1)) return;  // has no effect
        RunConfig run = small;
        run.parallel.tensor = tensor;
        run.parallel.zero = zero;
        run.parallel.shard = shard;
        run.parallel.sequence = sequence;
        if (!broken_layout_rules(run, tensor * data).empty()) return;
        layouts.push_back({tensor, data, 1, zero, shard, sequence});
      };
      for (const int64_t zero : {0, 1}) {
        for (const bool sequence : {false, true}) add(zero, sequence);
      }
      add(data % 2 == 0 ? 3 : 2, tensor > 1);  // one of them, to save time
      if (data > 2 && data % 2 == 0) add(3, tensor > 1, /*shard=*/2);
    }
  }
  add_context_layouts(small, ranks, layouts);
  return layouts;
}

Certificate prove(const RunConfig& config, const ProveOptions& options) {
  return Prover(config, options).prove();
}

std::string to_string(const Certificate& certificate) {
  const LeakReport& masks = certificate.masks;
  std::string text = fmt::format(
      "small run   {}\n"
      "            loss {:.4f} → {:.4f} in {} steps on one rank\n"
      "masks       {} rows; {} pairs hidden by the masks of all layers, {} visible, of which {} "
      "depend\n",
      human_model(certificate.small.model), certificate.first_loss, certificate.last_loss, kSteps,
      masks.rows, masks.hidden, masks.visible, masks.seen_changes);
  for (const std::string& sentence : certificate.left_out) {
    text += fmt::format("left out    {}\n", sentence);
  }
  const int64_t failures = certificate.failures();
  const auto checks = std::ssize(certificate.checks);
  text += failures == 0
              ? fmt::format("all {} checks passed in {:.1f} s\n", checks, certificate.seconds)
              : fmt::format("{} of {} checks FAILED in {:.1f} s\n", failures, checks,
                            certificate.seconds);
  return text;
}

Json to_json(const Certificate& certificate) {
  Json checks = Json::array();
  for (const Check& check : certificate.checks) {
    Json& item = checks.emplace_back(Json{{"check", check.what}, {"passed", !check.failure}});
    if (check.failure) item["failure"] = *check.failure;
  }
  const LeakReport& masks = certificate.masks;
  return {{"model", human_model(certificate.small.model)},
          {"left_out", certificate.left_out},
          {"first_loss", certificate.first_loss},
          {"last_loss", certificate.last_loss},
          {"masks",
           {{"rows", masks.rows},
            {"hidden", masks.hidden},
            {"visible", masks.visible},
            {"dependent", masks.seen_changes}}},
          {"checks", std::move(checks)},
          {"failures", certificate.failures()},
          {"seconds", certificate.seconds}};
}

}  // namespace tessera
