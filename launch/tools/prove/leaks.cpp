#include "launch/tools/prove/leaks.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <mutex>

#include "core/arena.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/elementwise.h"
#include "core/random.h"
#include "launch/data/loading/batch_buffers.h"
#include "models/architecture.h"
#include "models/transformer.h"
#include "parallel/communicators/thread/thread_communicator.h"

namespace tessera {
namespace {

constexpr size_t kArenaBytes = size_t{64} << 20;

/// The lengths of the documents of each sequence.
std::vector<std::vector<int32_t>> documents_of(int64_t seq_length) {
  const auto length = static_cast<int32_t>(seq_length);
  std::vector<std::vector<int32_t>> sequences = {{length}};
  if (length >= 4) sequences.insert(sequences.begin(), {1, length / 4, length - 1 - length / 4});
  return sequences;
}

/// Which rows a row depends on, through all layers.
class Reach {
 public:
  Reach(const ModelConfig& config, const std::vector<std::vector<int32_t>>& sequences) {
    for (const std::vector<int32_t>& documents : sequences) {
      for (const int32_t length : documents) {
        for (int32_t t = 0; t < length; ++t) places_.push_back({num_documents_, t});
        ++num_documents_;
      }
    }
    const ModelTraits traits = traits_of(config);
    const auto n = places_.size();
    reached_.assign(n * n, false);
    for (size_t t = 0; t < n; ++t) reached_[t * n + t] = true;
    for (int64_t layer = 0; layer < config.num_layers; ++layer) add_layer(traits, config, layer);
  }

  int64_t rows() const { return static_cast<int64_t>(places_.size()); }
  bool depends(int64_t query, int64_t key) const {
    return reached_[static_cast<size_t>(query * rows() + key)];
  }

 private:
  struct Place {
    int64_t document, position;
  };

  bool sees(const ModelTraits& traits, bool is_local, size_t t, size_t s) const {
    return places_[t].document == places_[s].document &&
           !traits.hides(places_[t].position, places_[s].position, is_local);
  }

  void add_layer(const ModelTraits& traits, const ModelConfig& config, int64_t layer) {
    const size_t n = places_.size();
    std::vector<bool> next = reached_;
    for (size_t t = 0; t < n; ++t) {
      for (size_t s = 0; s < n; ++s) {
        if (!sees(traits, config.is_local(layer), t, s)) continue;
        for (size_t k = 0; k < n; ++k) {
          if (reached_[s * n + k]) next[t * n + k] = true;
        }
      }
    }
    reached_ = std::move(next);
  }

  int64_t num_documents_ = 0;
  std::vector<Place> places_;
  std::vector<bool> reached_;
};

/// One rank's blocks and its rows of the batch.
class Probe {
 public:
  Probe(const ModelConfig& config, const TokenBatch& batch, bool sequence, Communicator& tp)
      : config_(config),
        batch_(batch),
        arena_(kCpu, kArenaBytes),
        blocks_(store_, config, tp),
        ctx_(context_for({.arena = arena_, .rows = {sequence ? tp.size() : 1, tp.rank(), 0}},
                         batch)) {
    store_.allocate(kCpu, DType::f32, StoreFor::training);
    store_.initialize(1);
  }

  /// The rows of this rank.
  Range rows() const { return ctx_.rows.split() ? ctx_.rows.local() : Range{0, num_rows()}; }
  int64_t num_rows() const { return batch_.num_tokens(); }

  /// The outputs of this rank's rows, if row `changed` has another input; −1: none.
  std::vector<float> outputs(int64_t changed) {
    arena_.reset();
    return values_of(blocks_.forward(ctx_, inputs(changed), mask_of(batch_), batch_.positions));
  }

  /// The gradient of a sum over the outputs of row `query` by the inputs of this rank's rows.
  std::vector<float> gradients(int64_t query) {
    arena_.reset();
    blocks_.forward(ctx_, inputs(-1), mask_of(batch_), batch_.positions);
    const Tensor gradient = arena_.allocate({1, rows().size(), config_.hidden_size}, DType::f32);
    fill(gradient, 0.0);
    if (rows().contains(query)) set_row(gradient, query, 7);
    blocks_.backward(ctx_, gradient);
    return values_of(gradient);
  }

 private:
  Tensor inputs(int64_t changed) {
    const Tensor x = arena_.allocate({1, rows().size(), config_.hidden_size}, DType::f32);
    for (int64_t row = rows().begin; row < rows().end; ++row) set_row(x, row, row == changed);
    return x;
  }

  /// Sets a row to random numbers of a stream.
  void set_row(const Tensor& x, int64_t row, uint64_t stream) {
    float* values = x.data<float>() + (row - rows().begin) * config_.hidden_size;
    for (int64_t c = 0; c < config_.hidden_size; ++c) {
      const auto bits = random_bits({stream, RandomPurpose::sampling, 0, 0},
                                    static_cast<uint64_t>(row * config_.hidden_size + c));
      values[c] = static_cast<float>(bits % 2001) / 1000.0f - 1.0f;
    }
  }

  static std::vector<float> values_of(const Tensor& x) {
    return {x.data<float>(), x.data<float>() + x.numel()};
  }

  const ModelConfig& config_;
  const TokenBatch& batch_;
  Arena arena_;
  ParameterStore store_;
  Transformer blocks_;
  StepContext ctx_;
};

/// The number of elements of a row for which `differs`.
template <typename Differs>
int64_t count_in_row(int64_t row, int64_t columns, Differs&& differs) {
  int64_t count = 0;
  for (int64_t i = row * columns; i < (row + 1) * columns; ++i) {
    count += differs(static_cast<size_t>(i)) ? 1 : 0;
  }
  return count;
}

/// Collects the leaks that the ranks find.
class Findings {
 public:
  explicit Findings(const Reach& reach) : reach_(reach) {
    report_.rows = reach.rows();
    for (int64_t t = 0; t < reach.rows(); ++t) {
      for (int64_t s = 0; s < reach.rows(); ++s) {
        ++(reach.depends(t, s) ? report_.visible : report_.hidden);
      }
    }
  }

  void add(const Leak& found, bool counts) {
    if (found.elements == 0) return;
    const std::lock_guard lock(mutex_);
    if (reach_.depends(found.query, found.key)) {
      if (counts && found.where == Leak::Where::output) ++report_.seen_changes;
      return;
    }
    ++report_.leak_count;
    if (report_.leaks.size() < LeakReport::kMostListed) report_.leaks.push_back(found);
  }

  LeakReport report() const { return report_; }

 private:
  const Reach& reach_;
  std::mutex mutex_;
  LeakReport report_;
};

void search(Probe& probe, int64_t columns, bool counts, Findings& findings) {
  const Range rows = probe.rows();
  const std::vector<float> before = probe.outputs(-1);
  for (int64_t changed = 0; changed < probe.num_rows(); ++changed) {
    const std::vector<float> after = probe.outputs(changed);
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const auto differs = [&](size_t i) {
        return std::bit_cast<uint32_t>(before[i]) != std::bit_cast<uint32_t>(after[i]);
      };
      findings.add(
          {Leak::Where::output, row, changed, count_in_row(row - rows.begin, columns, differs)},
          counts);
    }
  }
  for (int64_t query = 0; query < probe.num_rows(); ++query) {
    const std::vector<float> gradients = probe.gradients(query);
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const auto differs = [&](size_t i) { return gradients[i] != 0.0f; };
      findings.add(
          {Leak::Where::gradient, query, row, count_in_row(row - rows.begin, columns, differs)},
          counts);
    }
  }
}

}  // namespace

LeakReport find_leaks(const ModelConfig& config, const ModelConfig& claimed, int tensor,
                      bool sequence) {
  const auto sequences = documents_of(config.seq_length);
  const Reach reach(claimed, sequences);
  Findings findings(reach);
  run_thread_ranks(tensor, [&](Communicator& tp) {
    BatchBuffers buffers({std::ssize(sequences), config.seq_length});
    for (const std::vector<int32_t>& documents : sequences) {
      Sample sample;
      const auto n = static_cast<size_t>(config.seq_length);
      sample.tokens.assign(n, 0);
      sample.token_types.assign(n, 0);
      sample.targets.assign(n, kIgnoreTarget);
      sample.document_lengths = documents;
      buffers.append(sample, config.vocab_size, "leaks", 0);
    }
    const TokenBatch batch = buffers.batch();
    Probe probe(config, batch, sequence, tp);
    search(probe, config.hidden_size, sequence || tp.rank() == 0, findings);
  });
  return findings.report();
}

std::string to_string(const Leak& leak) {
  return fmt::format("row {} depends on row {}, which its masks hide: {}", leak.query, leak.key,
                     leak.where == Leak::Where::output
                         ? fmt::format("{} elements of its output change", leak.elements)
                         : fmt::format("{} elements of the gradient are not 0", leak.elements));
}

}  // namespace tessera
