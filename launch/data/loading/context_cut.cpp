#include "launch/data/loading/context_cut.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/checked.h"
#include "core/masks/visible_keys.h"
#include "launch/data/loading/device_batch.h"
#include "models/architecture.h"
#include "models/transformer.h"

namespace tessera {
namespace {

/// Rows that stay together.
struct RowChunk {
  Range rows;
  double work;
};

/// A rank's chunks.
struct RankShare {
  int64_t room;  ///< rows that it still takes
  double work = 0.0;
  std::vector<RowChunk> chunks = {};

  void add(const RowChunk& chunk) {
    room -= chunk.rows.size();
    work += chunk.work;
    chunks.push_back(chunk);
  }
};

class RowCut {
 public:
  RowCut(std::span<const double> work, int ranks) : ranks_(ranks), sums_(work.size() + 1) {
    std::partial_sum(work.begin(), work.end(), sums_.begin() + 1);
  }

  int64_t rows() const { return std::ssize(sums_) - 1; }

  /// Deals chunks of `size` rows, those with the most work first, to the rank with the least work
  /// that has room.
  std::vector<RankShare> deal(int64_t size) const {
    std::vector<RowChunk> chunks;
    for (int64_t begin = 0; begin < rows(); begin += size) {
      chunks.push_back(chunk({begin, std::min(begin + size, rows())}));
    }
    std::ranges::stable_sort(chunks, std::greater(), mean_work);
    std::vector<RankShare> shares;
    for (int r = 0; r < ranks_; ++r) {
      shares.push_back({.room = rows() / ranks_ + (r < rows() % ranks_ ? 1 : 0)});
    }
    for (const RowChunk& each : chunks) {
      Range rest = each.rows;
      while (!rest.empty()) {
        RankShare& share = *std::ranges::min_element(shares, {}, [](const RankShare& candidate) {
          return std::pair(candidate.room == 0, candidate.work);
        });
        const int64_t taken = std::min(rest.size(), share.room);
        share.add(chunk({rest.begin, rest.begin + taken}));
        rest.begin += taken;
      }
    }
    for (size_t i = 0; i < chunks.size() && improve(shares); ++i) {
    }
    return shares;
  }

  /// The most work of a rank, in relation to the mean.
  double imbalance(const std::vector<RankShare>& shares) const {
    const double mean = sums_.back() / ranks_;
    return mean == 0.0 ? 1.0 : std::ranges::max(shares, {}, &RankShare::work).work / mean;
  }

 private:
  static double mean_work(const RowChunk& chunk) {
    return chunk.work / static_cast<double>(chunk.rows.size());
  }
  RowChunk chunk(Range rows) const {
    const auto at = [&](int64_t row) { return sums_[static_cast<size_t>(row)]; };
    return {rows, at(rows.end) - at(rows.begin)};
  }

  /// Exchanges the chunks of equal size that bring the ranks with the most and with the least work
  /// closest together; returns whether there are any.
  static bool improve(std::vector<RankShare>& shares) {
    const auto [least, most] = std::ranges::minmax_element(shares, {}, &RankShare::work);
    const double gap = most->work - least->work;
    double smallest = gap;
    RowChunk *from = nullptr, *to = nullptr;
    for (RowChunk& more : most->chunks) {
      for (RowChunk& less : least->chunks) {
        const double after = std::abs(gap - 2.0 * (more.work - less.work));
        if (more.rows.size() != less.rows.size() || after >= smallest * (1.0 - 1e-9)) continue;
        smallest = after;
        from = &more;
        to = &less;
      }
    }
    if (from == nullptr) return false;
    const double moved = from->work - to->work;
    std::swap(*from, *to);
    most->work -= moved;
    least->work += moved;
    return true;
  }

  int ranks_;
  std::vector<double> sums_;  // of the work of all earlier rows
};

CutMasks cut_masks(const ModelConfig& config, bool causal) {
  CutMasks masks;
  masks.local = model_mask(config, causal, /*is_local=*/true);
  masks.global = model_mask(config, causal, /*is_local=*/false);
  int64_t local = 0;
  for (int64_t layer = 0; layer < config.num_layers; ++layer) local += config.is_local(layer);
  masks.local_share =
      static_cast<double>(local) / static_cast<double>(std::max<int64_t>(config.num_layers, 1));
  return masks;
}

/// The keys that all rows see, of documents with these cumulative lengths.
std::vector<double> work_of(std::span<const int32_t> ends, const CutMasks& masks) {
  std::vector<double> work;
  work.reserve(static_cast<size_t>(ends.back()));
  for (size_t i = 0; i + 1 < ends.size(); ++i) {
    const int64_t length = ends[i + 1] - ends[i];
    for (int64_t t = 0; t < length; ++t) work.push_back(masks.visible_keys(t, length));
  }
  return work;
}

void set(const Tensor& tensor, int64_t at, int64_t value) {
  tensor.data<int32_t>()[at] = static_cast<int32_t>(value);
}

/// The first `rows` of a tensor.
Tensor head(const Tensor& tensor, int64_t rows) {
  return tensor.defined() ? tensor.slice(0, rows) : Tensor();
}

void copy_bytes(const Tensor& from, const Tensor& to) {
  std::copy_n(static_cast<const std::byte*>(from.raw()), from.bytes(),
              static_cast<std::byte*>(to.raw()));
}

/// Copies these rows of `all` to the begin of `memory`.
void take(const Tensor& all, const std::vector<Range>& rows, const Tensor& memory) {
  if (!all.defined()) return;
  int64_t to = 0;
  for (const Range& range : rows) {
    copy_bytes(all.slice(range.begin, range.end), memory.slice(to, to + range.size()));
    to += range.size();
  }
}

int64_t sum_of_sizes(const std::vector<Range>& rows) {
  return std::accumulate(rows.begin(), rows.end(), int64_t{0},
                         [](int64_t sum, const Range& range) { return sum + range.size(); });
}

/// The number of this rank's rows before row `end`.
int64_t rows_before(const std::vector<Range>& rows, int64_t end) {
  int64_t count = 0;
  for (const Range& range : rows) count += std::clamp<int64_t>(end - range.begin, 0, range.size());
  return count;
}

/// The rows that queries `own` see in layers with the mask's window, in order.
std::vector<Range> visible_rows(const std::vector<Range>& own, std::span<const int32_t> ends,
                                const AttentionMask& mask) {
  const int64_t reach = (mask.window - 1) * mask.dilation + 1;
  std::vector<Range> seen;
  for (size_t i = 0; i + 1 < ends.size(); ++i) {
    const int64_t first = ends[i], length = ends[i + 1] - first;
    const auto add = [&](int64_t begin, int64_t end) {
      const Range range{first + std::max<int64_t>(0, begin), first + std::min(length, end)};
      if (!range.empty()) seen.push_back(range);
    };
    for (const Range& range : own) {
      const Range queries = intersect(range, {first, first + length});
      if (queries.empty()) continue;
      const int64_t begin = queries.begin - first, end = queries.end - first;
      const int64_t latest = mask.causal ? std::max(end, mask.prefix) : length;
      const bool is_global = begin < mask.global_tokens;  // its first query sees all
      add(is_global ? 0 : begin - reach + 1,
          is_global ? latest : std::min(latest, end - 1 + reach));
      add(0, std::min(mask.global_tokens, latest));
    }
  }
  std::ranges::sort(seen, {}, &Range::begin);
  std::vector<Range> merged;
  for (const Range& range : seen) {
    if (merged.empty() || merged.back().end < range.begin) {
      merged.push_back(range);
    } else {
      merged.back().end = std::max(merged.back().end, range.end);
    }
  }
  return merged;
}

/// The rows of `rows` that are in `of`.
std::vector<Range> intersection(const std::vector<Range>& rows, const std::vector<Range>& of) {
  std::vector<Range> both;
  for (const Range& a : rows) {
    for (const Range& b : of) {
      if (const Range range = intersect(a, b); !range.empty()) both.push_back(range);
    }
  }
  return both;
}

/// What ranks exchange in layers with a window; undefined if that is no less than all rows.
ContextCut::Halo describe_halo(std::span<const int32_t> ends, const CutMasks& masks,
                               const std::vector<std::vector<Range>>& rows, int rank,
                               const ContextCut::Halo& memory) {
  if (masks.local_share == 0.0 || masks.local.window == 0) return {};
  const size_t ranks = rows.size(), self = static_cast<size_t>(rank);
  std::vector<std::vector<Range>> seen;
  for (const std::vector<Range>& own : rows) {
    seen.push_back(visible_rows(own, ends, masks.local));
  }
  // All ranks decide alike: no rank may need more memory than for all rows.
  std::vector<int64_t> exchanged(ranks);
  for (size_t to = 0; to < ranks; ++to) {
    for (size_t from = 0; from < ranks; ++from) {
      if (from == to) continue;
      const int64_t count = sum_of_sizes(intersection(seen[to], rows[from]));
      exchanged[to] += count;
      exchanged[from] += count;
    }
  }
  const auto others = ends.back() - ceil_div(int64_t{ends.back()}, static_cast<int64_t>(ranks));
  if (std::ranges::max(exchanged) > others) return {};
  ContextCut::Halo halo = memory;
  int64_t sent = 0, received = 0;
  for (size_t other = 0; other < ranks; ++other) {
    const int64_t first_sent = sent, first_received = received;
    if (other != self) {
      for (const Range& range : intersection(seen[other], rows[self])) {
        const int64_t local = rows_before(rows[self], range.begin);
        for (int64_t i = 0; i < range.size(); ++i) set(halo.sent, sent++, local + i);
      }
      for (const Range& range : intersection(seen[self], rows[other])) {
        for (int64_t i = 0; i < range.size(); ++i) set(halo.received, received++, range.begin + i);
      }
    }
    halo.sends.push_back(sent - first_sent);
    halo.receives.push_back(received - first_received);
  }
  halo.sent = head(halo.sent, sent);
  halo.received = head(halo.received, received);
  int64_t own = 0;
  for (const Range& range : rows[self]) {
    for (int64_t row = range.begin; row < range.end; ++row) set(halo.own, own++, row);
  }
  halo.own = head(halo.own, own);
  return halo;
}

/// The cut of documents with N = documents.back() rows, in `memory`.
ContextCut describe_cut(const Tensor& documents, const Tensor& padded_rows, const Tensor& hidden,
                        const std::vector<std::vector<Range>>& rows, const CutMasks& masks,
                        const ContextCut& memory) {
  const auto ends = documents.span<int32_t>();
  ContextCut cut = memory;
  cut.rows = ends.back();
  cut.gathered = head(memory.gathered, cut.rows);
  for (int64_t rank = 0; rank < cut.ranks; ++rank) {
    int64_t place = rank * cut.share();
    for (const Range& range : rows[static_cast<size_t>(rank)]) {
      for (int64_t row = range.begin; row < range.end; ++row) set(cut.gathered, row, place++);
    }
  }
  cut.documents = head(memory.documents, documents.numel());
  copy_bytes(documents, cut.documents);
  cut.own_documents = head(memory.own_documents, documents.numel());
  const std::vector<Range>& own = rows[static_cast<size_t>(cut.rank)];
  for (int64_t i = 0; i < documents.numel(); ++i) {
    set(cut.own_documents, i, rows_before(own, ends[static_cast<size_t>(i)]));
  }
  cut.padded_rows = head(memory.padded_rows, cut.rows);
  copy_bytes(padded_rows, cut.padded_rows);
  cut.hidden = head(memory.hidden, cut.rows);
  if (hidden.defined()) copy_bytes(hidden, cut.hidden);
  cut.halo = describe_halo(ends, masks, rows, cut.rank, memory.halo);
  return cut;
}

ContextCut cut_on_meta(int64_t rows, const Tensor& documents, const Tensor& hidden,
                       const ContextShape& context, const CutMasks& masks) {
  const auto tensor = [](int64_t size) { return Tensor(nullptr, {size}, DType::i32, kMeta); };
  ContextCut cut{.ranks = context.ranks, .rank = context.rank, .rows = rows};
  cut.gathered = cut.padded_rows = tensor(rows);
  cut.documents = cut.own_documents = documents;
  cut.hidden = hidden;
  if (masks.local_share > 0.0 && masks.local.window > 0) {
    cut.halo.sent = cut.halo.received = cut.halo.own = tensor(rows);
  }
  return cut;
}

/// The most rows of a rank.
int64_t most_rows(int64_t rows, const ContextShape& context) {
  return rows / context.ranks + (context.rank < rows % context.ranks ? 1 : 0);
}

}  // namespace

std::vector<std::vector<Range>> cut_rows(std::span<const double> work, int ranks) {
  const RowCut cut(work, ranks);
  const int64_t rows = cut.rows();
  constexpr double kGoodEnough = 1.03;
  constexpr int64_t kMostChunks = 64;  // of a rank
  std::vector<RankShare> best;
  const int64_t smallest = std::max<int64_t>(1, rows / (kMostChunks * ranks));
  for (int64_t size = std::max<int64_t>(1, ceil_div(rows, int64_t{2} * ranks));; size /= 2) {
    size = std::max(size, smallest);
    std::vector<RankShare> shares = cut.deal(size);
    if (best.empty() || cut.imbalance(shares) < cut.imbalance(best)) best = std::move(shares);
    if (size == smallest || cut.imbalance(best) <= kGoodEnough) break;
  }
  std::vector<std::vector<Range>> result;
  for (RankShare& share : best) {
    std::ranges::sort(share.chunks, {}, [](const RowChunk& chunk) { return chunk.rows.begin; });
    std::vector<Range>& ranges = result.emplace_back();
    for (const RowChunk& chunk : share.chunks) {
      if (chunk.rows.empty()) continue;
      if (!ranges.empty() && ranges.back().end == chunk.rows.begin) {
        ranges.back().end = chunk.rows.end;
      } else {
        ranges.push_back(chunk.rows);
      }
    }
  }
  return result;
}

double CutMasks::visible_keys(int64_t t, int64_t length) const {
  double keys = 0.0;
  for (const auto& [mask, share] : {std::pair(&local, local_share), {&global, 1.0 - local_share}}) {
    if (share > 0.0) keys += share * static_cast<double>(tessera::visible_keys(t, length, *mask));
  }
  return keys;
}

ContextShape context_shape(const ModelConfig& config, int ranks, int rank) {
  return {ranks, rank, cut_masks(config, traits_of(config).causal), cut_masks(config, false)};
}

TokenBatch cut_on_meta(const TokenBatch& whole, const ContextShape& context) {
  if (context.ranks == 1) return whole;
  TokenBatch part = whole;
  const int64_t rows = most_rows(whole.num_tokens(), context);
  part.cut = cut_on_meta(whole.num_tokens(), whole.documents, whole.hidden, context, context.masks);
  for (Tensor* tensor :
       {&part.tokens, &part.positions, &part.token_types, &part.padded_rows, &part.patches}) {
    *tensor = head(*tensor, rows);
  }
  part.hidden = {};
  const int64_t targets = std::min(rows, whole.num_targets());
  part.target_rows = head(part.target_rows, targets);
  part.targets = head(part.targets, targets);
  const int64_t documents = std::min(rows, whole.num_documents());
  part.documents = head(part.documents, documents + 1);
  part.document_length = 0;
  part.cut.counted = part.labels = head(part.labels, documents);
  part.label_values = head(part.label_values, std::min(documents, whole.label_values.dim(0)));
  SourceTokens& source = part.source;
  if (!source.tokens.defined()) return part;
  source.cut =
      cut_on_meta(source.num_tokens(), source.documents, {}, context, context.source_masks);
  const int64_t source_rows = most_rows(source.num_tokens(), context);
  for (Tensor* tensor : {&source.tokens, &source.positions, &source.padded_rows}) {
    *tensor = head(*tensor, source_rows);
  }
  source.documents = {};
  return part;
}

CutBuffers::CutBuffers(const TokenBatch& largest, const ContextShape& context, Device for_device)
    : context_(context), memory_(cut_on_meta(largest, context)) {
  const MemoryKind kind = for_device.is_cuda() ? MemoryKind::pinned : MemoryKind::ordinary;
  for (Tensor* tensor : tensors_of(memory_)) {
    owned_.emplace_back(tensor->shape(), tensor->dtype(), kCpu, kind);
    *tensor = owned_.back().tensor;
  }
}

size_t CutBuffers::bytes() const {
  size_t sum = 0;
  for (const OwnedTensor& tensor : owned_) sum += tensor.buffer.bytes();
  return sum;
}

void CutBuffers::cut(const TokenBatch& whole) {
  const auto ends = whole.documents.span<int32_t>();
  const auto rows = cut_rows(work_of(ends, context_.masks), context_.ranks);
  const std::vector<Range>& own = rows[static_cast<size_t>(context_.rank)];
  const int64_t count = sum_of_sizes(own);
  batch_ = memory_;
  batch_.cut = describe_cut(whole.documents, whole.padded_rows, whole.hidden, rows, context_.masks,
                            memory_.cut);
  const std::pair<const Tensor*, Tensor*> of_rows[] = {{&whole.tokens, &batch_.tokens},
                                                       {&whole.positions, &batch_.positions},
                                                       {&whole.token_types, &batch_.token_types},
                                                       {&whole.padded_rows, &batch_.padded_rows},
                                                       {&whole.patches, &batch_.patches}};
  for (const auto& [from, to] : of_rows) {
    take(*from, own, *to);
    *to = head(*to, count);
  }
  take_targets(whole, own);
  take_documents(whole, own);
  if (!whole.source.tokens.defined()) return;
  const SourceTokens& source = whole.source;
  SourceTokens& part = batch_.source;
  const auto source_ends = source.documents.span<int32_t>();
  const auto source_rows = cut_rows(work_of(source_ends, context_.source_masks), context_.ranks);
  const std::vector<Range>& own_source = source_rows[static_cast<size_t>(context_.rank)];
  part.cut = describe_cut(source.documents, source.padded_rows, {}, source_rows,
                          context_.source_masks, memory_.source.cut);
  const int64_t source_count = sum_of_sizes(own_source);
  const std::pair<const Tensor*, Tensor*> of_source[] = {{&source.tokens, &part.tokens},
                                                         {&source.positions, &part.positions},
                                                         {&source.padded_rows, &part.padded_rows}};
  for (const auto& [from, to] : of_source) {
    take(*from, own_source, *to);
    *to = head(*to, source_count);
  }
}

void CutBuffers::take_targets(const TokenBatch& whole, const std::vector<Range>& own) {
  const auto rows = whole.target_rows.span<int32_t>(), targets = whole.targets.span<int32_t>();
  int64_t count = 0, before = 0;
  size_t i = 0;
  for (const Range& range : own) {
    while (i < rows.size() && rows[i] < range.begin) ++i;
    for (; i < rows.size() && rows[i] < range.end; ++i, ++count) {
      set(batch_.target_rows, count, before + rows[i] - range.begin);
      set(batch_.targets, count, targets[i]);
    }
    before += range.size();
  }
  batch_.target_rows = head(batch_.target_rows, count);
  batch_.targets = head(batch_.targets, count);
}

void CutBuffers::take_documents(const TokenBatch& whole, const std::vector<Range>& own) {
  const auto begins = whole.documents.span<int32_t>();
  const int64_t width = whole.label_values.dim(1);
  int64_t count = 0;
  for (int64_t i = 0; i < whole.num_documents(); ++i) {
    const int64_t begin = begins[static_cast<size_t>(i)];
    const auto range = std::ranges::find_if(own, [&](Range r) { return r.contains(begin); });
    if (range == own.end()) continue;
    set(batch_.cut.counted, count, i);
    set(batch_.documents, count, rows_before(own, begin));
    set(batch_.labels, count, whole.labels.data<int32_t>()[i]);
    if (width > 0) {
      copy_bytes(whole.label_values.slice(i, i + 1), batch_.label_values.slice(count, count + 1));
    }
    ++count;
  }
  set(batch_.documents, count, batch_.num_tokens());
  batch_.cut.counted = head(batch_.cut.counted, count);
  batch_.documents = head(batch_.documents, count + 1);
  batch_.labels = head(batch_.labels, count);
  batch_.label_values = head(batch_.label_values, width > 0 ? count : 0);
}

}  // namespace tessera
