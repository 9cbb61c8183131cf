#include "launch/tools/prove/leaks.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <mutex>
#include <optional>
#include <vector>

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

/// A row of a batch with two sequences, three documents and a single one, and the lengths of their
/// sources, in another order, if the model has an encoder.
struct Lengths {
  std::vector<int32_t> documents, sources;
};

std::vector<int32_t> three_parts(int64_t length) {
  const auto total = static_cast<int32_t>(length);
  return {1, total / 4, total - 1 - total / 4};
}

std::vector<Lengths> lengths_of(const ModelConfig& config) {
  const int64_t length = config.seq_length, source = traits_of(config).source_length;
  std::vector<Lengths> rows;
  if (length >= 4 && (source == 0 || source >= 4)) {
    rows.push_back({three_parts(length), three_parts(source)});
    std::ranges::reverse(rows[0].sources);
  }
  rows.push_back({{static_cast<int32_t>(length)}, {static_cast<int32_t>(source)}});
  if (source == 0) {
    for (Lengths& row : rows) row.sources.clear();
  }
  return rows;
}

/// Whether row `i` of a sequence has a target.
bool has_target(size_t i) { return i % 3 == 1; }

/// Which rows a row depends on, through all layers. The rows are those of the batch, and then those
/// of the sources.
class Reach {
 public:
  Reach(const ModelConfig& config, const std::vector<Lengths>& rows, bool hides_targets)
      : traits_(traits_of(config)), hides_targets_(hides_targets) {
    for (const Lengths& row : rows) add_documents(row.documents, false);
    num_queries_ = this->rows();
    num_documents_ = 0;
    for (const Lengths& row : rows) add_documents(row.sources, true);
    const size_t n = places_.size();
    reached_.assign(n * n, false);
    for (size_t t = 0; t < n; ++t) reached_[t * n + t] = true;
    const bool has_encoder = traits_.source_length > 0;
    for (int64_t layer = 0; has_encoder && layer < config.num_layers; ++layer) {
      add_layer(config.is_local(layer), true);
    }
    const int64_t layers = has_encoder ? config.resolved_decoder_layers() : config.num_layers;
    for (int64_t layer = 0; layer < layers; ++layer) add_layer(config.is_local(layer), false);
  }

  int64_t rows() const { return std::ssize(places_); }
  int64_t num_queries() const { return num_queries_; }
  bool depends(int64_t query, int64_t key) const {
    return reached_[static_cast<size_t>(query * rows() + key)];
  }

 private:
  struct Place {
    int64_t document, position;
    bool in_source, has_target;
  };

  void add_documents(const std::vector<int32_t>& lengths, bool in_source) {
    int64_t rows_of_kind = 0;
    for (const int32_t length : lengths) {
      for (int32_t t = 0; t < length; ++t) {
        const auto row = static_cast<size_t>(rows_of_kind++);
        places_.push_back({num_documents_, t, in_source, !in_source && has_target(row)});
      }
      ++num_documents_;
    }
  }

  bool sees(bool is_local, const Place& query, const Place& key) const {
    if (query.document != key.document || (hides_targets_ && key.has_target)) return false;
    if (query.in_source != key.in_source) return key.in_source;  // cross-attention
    ModelTraits traits = traits_;
    traits.causal = traits.causal && !query.in_source;
    return !traits.hides(query.position, key.position, is_local);
  }

  /// A layer of the encoder, or of the only other stack.
  void add_layer(bool is_local, bool of_encoder) {
    const size_t n = places_.size();
    std::vector<bool> next = reached_;
    for (size_t t = 0; t < n; ++t) {
      if (places_[t].in_source != of_encoder) continue;
      for (size_t s = 0; s < n; ++s) {
        if (!sees(is_local, places_[t], places_[s])) continue;
        for (size_t k = 0; k < n; ++k) {
          if (reached_[s * n + k]) next[t * n + k] = true;
        }
      }
    }
    reached_ = std::move(next);
  }

  ModelTraits traits_;
  bool hides_targets_;
  int64_t num_queries_ = 0;
  int64_t num_documents_ = 0;
  std::vector<Place> places_;
  std::vector<bool> reached_;
};

/// The blocks of a stack, as models/ declares them.
struct Stack {
  ModelConfig config;
  StackSpec spec;
};

Stack decoder_of(const ModelConfig& config) {
  const ModelTraits traits = traits_of(config);
  Stack stack{config, {.causal = traits.causal}};
  if (traits.source_length == 0) return stack;
  stack.config.num_layers = config.resolved_decoder_layers();
  stack.spec.name = "decoder.";
  stack.spec.has_cross_attention = true;
  return stack;
}

Stack encoder_of(const ModelConfig& config) {
  Stack stack{config, {.name = "encoder."}};
  stack.config.seq_length = config.resolved_source_length();
  stack.spec.first_layer = static_cast<int>(config.resolved_decoder_layers());
  return stack;
}

/// One rank's blocks and its rows of the batch and of the sources.
class Probe {
 public:
  Probe(const ModelConfig& config, const TokenBatch& batch, bool sequence, Communicator& tp)
      : config_(config),
        batch_(batch),
        arena_(kCpu, kArenaBytes),
        blocks_(store_, decoder_of(config).config, tp, decoder_of(config).spec),
        ctx_(context_for({.arena = arena_, .rows = {sequence ? tp.size() : 1, tp.rank(), 0}},
                         batch)) {
    if (traits_of(config).source_length > 0) {
      const Stack encoder = encoder_of(config);
      encoder_.emplace(store_, encoder.config, tp, encoder.spec);
    }
    store_.allocate(kCpu, DType::f32, StoreFor::training);
    store_.initialize(1);
  }

  int64_t num_queries() const { return batch_.num_tokens(); }
  /// With those of the sources.
  int64_t num_rows() const { return num_queries() + num_source_rows(); }

  /// The rows of this rank, in the order of outputs() and gradients().
  std::vector<int64_t> rows() const {
    std::vector<int64_t> all;
    for (int64_t row = local().begin; row < local().end; ++row) all.push_back(row);
    for (int64_t row = local_source().begin; row < local_source().end; ++row) {
      all.push_back(num_queries() + row);
    }
    return all;
  }
  int64_t num_local_queries() const { return local().size(); }

  /// The outputs of this rank's queries, if row `changed` has another input; −1: none.
  std::vector<float> outputs(int64_t changed) {
    arena_.reset();
    return values_of(forward(changed));
  }

  /// The gradient of a sum over the outputs of row `query` by the inputs of this rank's rows.
  std::vector<float> gradients(int64_t query) {
    arena_.reset();
    forward(-1);
    const Tensor gradient = arena_.allocate({1, local().size(), config_.hidden_size}, DType::f32);
    fill(gradient, 0.0);
    if (local().contains(query)) set_row(gradient, query - local().begin, query, 7);
    if (encoder_) {
      source_.gradient = arena_.allocate(source_.states.shape(), DType::f32);
      fill(source_.gradient, 0.0);
    }
    blocks_.backward(ctx_, gradient);
    std::vector<float> values = values_of(gradient);
    if (!encoder_) return values;
    encoder_->backward(source_.context(ctx_), source_.gradient);
    const std::vector<float> of_source = values_of(source_.gradient);
    values.insert(values.end(), of_source.begin(), of_source.end());
    return values;
  }

 private:
  int64_t num_source_rows() const { return encoder_ ? batch_.source.num_tokens() : 0; }
  static Range local_rows(const SequenceShard& shard, int64_t all) {
    return shard.split() ? shard.local() : Range{0, all};
  }
  Range local() const { return local_rows(ctx_.rows, num_queries()); }
  Range local_source() const {
    return local_rows(ctx_.rows.of(num_source_rows()), num_source_rows());
  }

  Tensor forward(int64_t changed) {
    const Tensor x = inputs(local(), 0, changed);
    if (!encoder_) return blocks_.forward(ctx_, x, mask_of(batch_), batch_.positions);
    const SourceTokens& source = batch_.source;
    source_ = {.padded_rows = {source.padded_rows, source.seq_length},
               .rows = ctx_.rows.of(source.num_tokens()),
               .states = {},
               .documents = source.documents,
               .target_documents = batch_.documents};
    AttentionMask mask;
    mask.documents = source.documents;
    source_.states =
        encoder_->forward(source_.context(ctx_), inputs(local_source(), num_queries(), changed),
                          mask, source.positions);
    return blocks_.forward(ctx_, x, mask_of(batch_), batch_.positions, &source_);
  }

  /// The inputs of `rows`, whose numbers begin at `first`.
  Tensor inputs(const Range& rows, int64_t first, int64_t changed) {
    const Tensor x = arena_.allocate({1, rows.size(), config_.hidden_size}, DType::f32);
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      set_row(x, row - rows.begin, first + row, first + row == changed);
    }
    return x;
  }

  /// Sets row `local` to random numbers of a stream and the row's number.
  void set_row(const Tensor& x, int64_t local, int64_t number, uint64_t stream) const {
    float* values = x.data<float>() + local * config_.hidden_size;
    for (int64_t c = 0; c < config_.hidden_size; ++c) {
      const auto bits = random_bits({stream, RandomPurpose::sampling, 0, 0},
                                    static_cast<uint64_t>(number * config_.hidden_size + c));
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
  std::optional<Transformer> encoder_;
  Transformer blocks_;
  StepContext ctx_;
  EncodedSource source_ = {};
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
    for (int64_t t = 0; t < reach.num_queries(); ++t) {
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
  const std::vector<int64_t> rows = probe.rows();
  const std::vector<float> before = probe.outputs(-1);
  for (int64_t changed = 0; changed < probe.num_rows(); ++changed) {
    const std::vector<float> after = probe.outputs(changed);
    const auto differs = [&](size_t i) {
      return std::bit_cast<uint32_t>(before[i]) != std::bit_cast<uint32_t>(after[i]);
    };
    for (int64_t i = 0; i < probe.num_local_queries(); ++i) {
      findings.add({Leak::Where::output, rows[static_cast<size_t>(i)], changed,
                    count_in_row(i, columns, differs)},
                   counts);
    }
  }
  for (int64_t query = 0; query < probe.num_queries(); ++query) {
    const std::vector<float> gradients = probe.gradients(query);
    const auto differs = [&](size_t i) { return gradients[i] != 0.0f; };
    for (int64_t i = 0; i < std::ssize(rows); ++i) {
      findings.add({Leak::Where::gradient, query, rows[static_cast<size_t>(i)],
                    count_in_row(i, columns, differs)},
                   counts);
    }
  }
}

}  // namespace

LeakReport find_leaks(const ModelConfig& config, const ModelConfig& claimed, int tensor,
                      bool sequence, HiddenTargets hiding) {
  const std::vector<Lengths> rows = lengths_of(config);
  const Reach reach(claimed, rows, hiding.claimed);
  Findings findings(reach);
  run_thread_ranks(tensor, [&](Communicator& tp) {
    BatchBuffers buffers({.sequences = std::ssize(rows),
                          .seq_length = config.seq_length,
                          .source_length = traits_of(config).source_length,
                          .hides_targets = hiding.hidden});
    for (const Lengths& row : rows) {
      Sample sample;
      const auto n = static_cast<size_t>(config.seq_length);
      sample.tokens.assign(n, 0);
      sample.token_types.assign(n, 0);
      for (size_t i = 0; i < n; ++i) sample.targets.push_back(has_target(i) ? 0 : kIgnoreTarget);
      sample.document_lengths = row.documents;
      sample.source_tokens.assign(static_cast<size_t>(traits_of(config).source_length), 0);
      sample.source_lengths = row.sources;
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
