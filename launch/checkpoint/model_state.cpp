#include "launch/checkpoint/model_state.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <utility>

#include "core/checked.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/ops/block_codes.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"
#include "parallel/layers/low_rank_adapter.h"

namespace tessera {
namespace {

constexpr const char* kExpAvg = "/exp_avg";
constexpr const char* kExpAvgSq = "/exp_avg_sq";

/// Whether a parameter may differ between a model and the one it is fine-tuned from.
bool of_a_head(const std::string& name) {
  constexpr const char* kHeads[] = {"head.", "pooler.", "next_sentence.", "classifier."};
  return std::any_of(std::begin(kHeads), std::end(kHeads),
                     [&](const char* head) { return name.rfind(head, 0) == 0; });
}

/// Elements `range` of a tensor, as one dim.
Tensor elements_of(const Tensor& tensor, Range range) {
  return tensor.view({tensor.numel()}).slice(range.begin, range.end);
}

/// Calls body(box, piece) for the boxes of the global tensor with these elements of a parameter's
/// real part, and for their parts of `run`, which has them.
template <typename Body>
void for_each_box(const Parameter& parameter, Range elements, const Tensor& run, Body&& body) {
  int64_t begin = 0;
  const Box local = box_of(parameter.shard, parameter.global_shape);
  for (const Box& box : boxes_of_run(local, elements)) {
    const int64_t end = begin + box.shape.numel();
    body(box, run.slice(begin, end).view(box.shape));
    begin = end;
  }
}

/// Copies fp32 numbers in host memory to bf16 values, which may be on a GPU.
void copy_rounded(const Tensor& whole, const Tensor& values) {
  const OwnedTensor rounded(values.shape(), values.dtype());
  copy(whole, rounded.tensor);
  copy(rounded.tensor, values);
}

/// Decodes elements of 8-bit moments, which may be on a GPU, to fp32 in host memory, as a part of
/// `scratch`.
Tensor decoded_moments(const Tensor& codes, const Tensor& scales, CodeMap map, Range elements,
                       OwnedTensor& scratch) {
  const Range blocks = {elements.begin / kCodeBlock, ceil_div(elements.end, kCodeBlock)};
  const int64_t begin = blocks.begin * kCodeBlock;
  const int64_t end = std::min(codes.numel(), blocks.end * kCodeBlock);
  const OwnedTensor host_codes({end - begin}, DType::u8), host_scales({blocks.size()}, DType::f32);
  copy(codes.slice(begin, end), host_codes.tensor);
  copy(scales.slice(blocks.begin, blocks.end), host_scales.tensor);
  scratch = OwnedTensor({end - begin}, DType::f32);
  dequantize_blocks(host_codes.tensor, host_scales.tensor, map, scratch.tensor);
  return scratch.tensor.slice(elements.begin - begin, elements.end - begin);
}

/// Reads this rank's part of a moment, and encodes it if it is 8-bit.
void load_moment(Checkpoint& checkpoint, const Parameter& parameter, Range elements,
                 const std::string& name, const Tensor& moment, const Tensor& scales, CodeMap map) {
  const auto read = [&](const Tensor& run) {
    for_each_box(parameter, elements, run, [&](const Box& box, const Tensor& piece) {
      checkpoint.read_box(name, parameter.global_shape, box, piece);
    });
  };
  if (!scales.defined()) return read(moment);
  const OwnedTensor run(moment.shape(), DType::f32), codes(moment.shape(), DType::u8),
      host_scales(scales.shape(), DType::f32);
  read(run.tensor);
  quantize_blocks(run.tensor, map, codes.tensor, host_scales.tensor);
  copy(codes.tensor, moment);
  copy(host_scales.tensor, scales);
}

/// Reads the values of a parameter and their masters, as much as this rank keeps.
void load_weight(Checkpoint& checkpoint, const Parameter& parameter, const OptimizerState& state) {
  const OptimizerShard& own = state.of(parameter);
  if (!state.store().keeps_values(parameter)) {
    for_each_box(parameter, own.elements, own.master, [&](const Box& box, const Tensor& piece) {
      checkpoint.read_box(parameter.name, parameter.global_shape, box, piece);
    });
    if (!state.has_masters()) return;
    return parameter.frozen ? copy_rounded(own.master, own.value) : copy(own.master, own.value);
  }
  const Tensor values = parameter.real_part(parameter.value());
  const auto read = [&](const Tensor& whole) {
    checkpoint.read(parameter.name, parameter.global_shape, parameter.shard, whole);
  };
  if (!state.has_masters()) return read(values);
  if (!parameter.frozen && own.elements.size() == values.numel()) {
    read(own.master.view(values.shape()));
    return copy(own.master.view(values.shape()), values);
  }
  // Each owner rounds all values itself and keeps its part of the masters.
  const OwnedTensor whole(values.shape(), DType::f32);
  read(whole.tensor);
  copy_rounded(whole.tensor, values);
  copy(elements_of(whole.tensor, own.elements), own.master);
}

void load_average(Checkpoint& checkpoint, OptimizerState& state) {
  if (!state.has_average()) return;
  if (!checkpoint.has_average()) return state.start_average();
  for (const Parameter& parameter : state.store().parameters()) {
    // That of a parameter that was frozen is missing, as are its moments.
    if (parameter.frozen || !has_optimizer_state(checkpoint, parameter.name)) continue;
    const OptimizerShard& own = state.of(parameter);
    for_each_box(parameter, own.elements, own.ema, [&](const Box& box, const Tensor& piece) {
      checkpoint.read_box(parameter.name + kEmaSuffix, parameter.global_shape, box, piece);
    });
  }
}

/// Whether a checkpoint has this parameter in this shape; a classifier may have had another number
/// of labels.
bool has_as_it_is(const Checkpoint& checkpoint, const Parameter& parameter) {
  return checkpoint.has(parameter.name) &&
         checkpoint.tensor(parameter.name).shape == parameter.global_shape;
}

/// Whether a parameter keeps its initial values while others are loaded.
bool starts_anew(const Checkpoint& checkpoint, const Parameter& parameter, bool other_labels) {
  if (is_of_low_rank_adapter(parameter.name)) return !checkpoint.has(parameter.name);
  if (!of_a_head(parameter.name)) return false;
  const bool of_labels = parameter.name.starts_with("classifier.");
  return (of_labels && other_labels) || !has_as_it_is(checkpoint, parameter);
}

/// The weights of a checkpoint except those in `used`.
std::vector<std::string> unused_weights(const Checkpoint& checkpoint,
                                        const std::set<std::string>& used) {
  std::vector<std::string> unused;
  for (const auto& [name, tensor] : checkpoint.manifest().tensors) {
    if (tensor.kind == kModelKind && used.count(name) == 0) unused.push_back(name);
  }
  return unused;
}

/// Pieces that the same ranks hold, in one order on all of them.
struct SharedPieces {
  int holders = 1;  ///< the number of these ranks
  int holder = 0;   ///< this rank's place among them
  std::vector<LocalTensor> pieces;
};

/// Adds the pieces of a parameter, its moments and its average that this rank holds.
void add_pieces(const OptimizerState& state, const Parameter& parameter,
                const std::shared_ptr<OwnedTensor>& scratch, std::vector<LocalTensor>& pieces) {
  const OptimizerShard& own = state.of(parameter);
  const auto hold = [&](const std::string& name, const char* kind, const Tensor& run) {
    for_each_box(parameter, own.elements, run, [&](const Box& box, const Tensor& piece) {
      pieces.push_back({name, kind, parameter.global_shape, box, piece});
    });
  };
  hold(parameter.name, kModelKind, own.master);
  if (parameter.frozen) return;
  const auto hold_moment = [&](const std::string& name, const Tensor& moment, const Tensor& scales,
                               CodeMap map) {
    if (!scales.defined()) return hold(name, kOptimizerKind, moment);
    int64_t begin = 0;
    const Tensor meta(nullptr, moment.shape(), DType::f32, kMeta);
    for_each_box(parameter, own.elements, meta, [&](const Box& box, const Tensor& piece) {
      const Range part = {begin, begin + piece.numel()};
      begin = part.end;
      pieces.push_back(
          {name, kOptimizerKind, parameter.global_shape, box, piece, [=] {
             return decoded_moments(moment, scales, map, part, *scratch).view(piece.shape());
           }});
    });
  };
  hold_moment(parameter.name + kExpAvg, own.exp_avg, own.exp_avg_scales, CodeMap::signed_numbers);
  if (state.has_second_moment(parameter)) {
    hold_moment(parameter.name + kExpAvgSq, own.exp_avg_sq, own.exp_avg_sq_scales,
                CodeMap::unsigned_numbers);
  }
  if (state.has_average()) hold(parameter.name + kEmaSuffix, kOptimizerKind, own.ema);
}

/// Chooses one tensor rank for each parameter that all have: that with the fewest elements so far.
/// Their pieces may differ, because other parameters before them in a shard have other sizes.
class WritingTensorRank {
 public:
  WritingTensorRank(int ranks, int rank) : rank_(rank), elements_(static_cast<size_t>(ranks), 0) {}

  /// Whether it is `rank`. Called for all parameters, in order.
  bool is_it(const Parameter& parameter) {
    if (!parameter.replicated_over().contains(Axis::tensor)) return true;
    const auto least = std::ranges::min_element(elements_);
    *least += parameter.global_shape.numel();
    return least - elements_.begin() == rank_;
  }

 private:
  int rank_;
  std::vector<int64_t> elements_;
};

/// The pieces that this rank holds and, of what is replicated on tensor ranks, that `tensor_rank`
/// writes, by the replicas with the same: those with the same shard.
std::vector<SharedPieces> shared_pieces(const OptimizerState& state, const ParallelGroups& groups,
                                        int tensor_rank) {
  std::map<int, SharedPieces> shared;
  const auto scratch = std::make_shared<OwnedTensor>();
  WritingTensorRank writer(groups.tp->size(), tensor_rank);
  for (const Parameter& parameter : state.store().parameters()) {
    const int shards = state.store().layout_of(parameter).sharding().num_shards;  // of neighbors
    SharedPieces& same = shared[shards];
    same.holders = groups.replicas->size() / shards;
    same.holder = groups.replicas->rank() / shards;
    if (writer.is_it(parameter)) add_pieces(state, parameter, scratch, same.pieces);
  }
  std::vector<SharedPieces> all;
  for (auto& [shards, same] : shared) all.push_back(std::move(same));
  return all;
}

/// Which holder writes each piece: that with the fewest bytes so far, largest pieces first. All
/// holders know it without an exchange.
std::vector<int> writers_of(const std::vector<LocalTensor>& pieces, int holders) {
  std::vector<size_t> order(pieces.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](size_t i) { return pieces[i].data.bytes(); });
  std::vector<size_t> bytes(static_cast<size_t>(holders), 0);
  std::vector<int> writers(pieces.size());
  for (const size_t i : order) {
    const auto least = std::ranges::min_element(bytes);
    *least += pieces[i].data.bytes();
    writers[i] = narrow<int>(least - bytes.begin());
  }
  return writers;
}

}  // namespace

std::vector<LocalTensor> local_tensors(const OptimizerState& state, const ParallelGroups& groups) {
  std::vector<LocalTensor> own;
  for (SharedPieces& shared : shared_pieces(state, groups, groups.tp->rank())) {
    const std::vector<int> writers = writers_of(shared.pieces, shared.holders);
    for (size_t i = 0; i < writers.size(); ++i) {
      if (writers[i] == shared.holder) own.push_back(std::move(shared.pieces[i]));
    }
  }
  return own;
}

size_t largest_checkpoint_share(const OptimizerState& state, const ParallelGroups& groups) {
  size_t most = 0;
  for (int tensor_rank = 0; tensor_rank < groups.tp->size(); ++tensor_rank) {
    size_t bytes = 0;
    for (const SharedPieces& shared : shared_pieces(state, groups, tensor_rank)) {
      std::vector<size_t> of_writer(static_cast<size_t>(shared.holders), 0);
      const std::vector<int> writers = writers_of(shared.pieces, shared.holders);
      for (size_t i = 0; i < writers.size(); ++i) {
        const auto size = narrow<int64_t>(shared.pieces[i].data.bytes());
        of_writer[static_cast<size_t>(writers[i])] +=
            static_cast<size_t>(round_up(size, kAlignment));
      }
      bytes += *std::ranges::max_element(of_writer);
    }
    most = std::max(most, bytes);
  }
  return most;
}

std::optional<std::string> not_finite_parameter(const OptimizerState& state) {
  const auto& parameters = state.store().parameters();
  const auto count = static_cast<int64_t>(parameters.size());
  const OwnedTensor squares({count}, DType::f64, state.store().device()),
      found({count}, DType::f64);
  for (int64_t i = 0; i < count; ++i) {
    const Parameter& parameter = parameters[static_cast<size_t>(i)];
    const Tensor& masters = state.of(parameter).master;
    if (parameter.frozen || masters.numel() == 0) continue;
    add_sum_of_squares(masters, squares.tensor.slice(i, i + 1));
  }
  copy(squares.tensor, found.tensor);
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!std::isfinite(found.tensor.span<double>()[i])) return parameters[i].name;
  }
  return std::nullopt;
}

void load_weights(Checkpoint& checkpoint, ParameterStore& store) {
  for (const Parameter& parameter : store.parameters()) {
    checkpoint.read(parameter.name, parameter.global_shape, parameter.shard,
                    parameter.real_part(parameter.value()));
  }
}

std::string load_matching_weights(Checkpoint& checkpoint, OptimizerState& state,
                                  bool other_labels) {
  std::vector<std::string> fresh;
  int64_t new_adapters = 0;
  std::set<std::string> used;
  for (const Parameter& parameter : state.store().parameters()) {
    if (starts_anew(checkpoint, parameter, other_labels)) {
      if (is_of_low_rank_adapter(parameter.name)) {
        ++new_adapters;
      } else {
        fresh.push_back(parameter.name);
      }
    } else {
      load_weight(checkpoint, parameter, state);
      used.insert(parameter.name);
    }
  }
  state.start_average();
  const std::vector<std::string> unused = unused_weights(checkpoint, used);
  for (const std::string& name : unused) {
    require(of_a_head(name), "the checkpoint {} has {}, for which the model has no place",
            checkpoint.path().string(), name);
  }
  if (new_adapters > 0) fresh.push_back(fmt::format("{} low-rank adapters", new_adapters / 2));
  std::string sentence;
  if (!fresh.empty()) sentence += fmt::format("new: {}", fmt::join(fresh, ", "));
  if (!fresh.empty() && !unused.empty()) sentence += "; ";
  if (!unused.empty()) sentence += fmt::format("left out: {}", fmt::join(unused, ", "));
  return sentence;
}

bool has_optimizer_state(const Checkpoint& checkpoint, const std::string& parameter) {
  return checkpoint.has(parameter + kExpAvg);
}

std::string_view moment_dtype_name(DType dtype) {
  return dtype == DType::u8 ? "int8" : to_string(dtype);
}

bool has_weights_alone(const Checkpoint& checkpoint) {
  const auto& tensors = checkpoint.manifest().tensors;
  return std::none_of(tensors.begin(), tensors.end(),
                      [](const auto& tensor) { return tensor.second.kind == kOptimizerKind; });
}

void load_training_state(Checkpoint& checkpoint, OptimizerState& state) {
  const auto& parameters = state.store().parameters();
  for (const Parameter& parameter : parameters) {
    load_weight(checkpoint, parameter, state);
  }
  load_average(checkpoint, state);
  const bool has_state = !has_weights_alone(checkpoint);
  const bool are_zero = !has_state && checkpoint.manifest().step == 0;
  for (const Parameter& parameter : parameters) {
    if (parameter.frozen) continue;
    const OptimizerShard& own = state.of(parameter);
    if (are_zero) {
      // With a scale of 0, all codes mean 0.
      for (const Tensor& tensor :
           {own.exp_avg, own.exp_avg_sq, own.exp_avg_scales, own.exp_avg_sq_scales}) {
        if (tensor.defined()) fill(tensor, 0.0);
      }
      continue;
    }
    require(!has_state || has_optimizer_state(checkpoint, parameter.name),
            "the checkpoint {} has no optimizer state of {}, which was frozen: keep the same "
            "parameters frozen, or start a new run from it with checkpoint.from",
            checkpoint.path().string(), parameter.name);
    load_moment(checkpoint, parameter, own.elements, parameter.name + kExpAvg, own.exp_avg,
                own.exp_avg_scales, CodeMap::signed_numbers);
    if (!state.has_second_moment(parameter)) continue;
    load_moment(checkpoint, parameter, own.elements, parameter.name + kExpAvgSq, own.exp_avg_sq,
                own.exp_avg_sq_scales, CodeMap::unsigned_numbers);
  }
}

}  // namespace tessera
