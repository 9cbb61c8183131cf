#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/accumulate.h"
#include "core/global_index.h"
#include "core/memory.h"
#include "core/parameters/flat_layout.h"
#include "core/range.h"
#include "core/tensor.h"

namespace tessera {

/// The part of a global tensor that a rank holds: all of it, or `range` of dim `dim`.
struct Shard {
  static constexpr int kReplicated = -1;

  int dim = kReplicated;
  Range range;

  bool replicated() const { return dim == kReplicated; }
};

/// How a parameter is initialized.
struct Init {
  enum class Kind : uint8_t { zeros, ones, normal };
  Kind kind = Kind::zeros;
  float stddev = 0.0f;

  static Init zeros() { return {Kind::zeros, 0.0f}; }
  static Init ones() { return {Kind::ones, 0.0f}; }
  static Init normal(float stddev) { return {Kind::normal, stddev}; }
};

/// Of which rows of the activations a rank's gradient of a parameter is a sum. `held`: of those
/// that the rank holds between the tensor regions, so that where these are not all
/// (parallel/row_split.h) the gradient is the sum over the tensor ranks.
enum class GradientRows : uint8_t { all, local };

/// A layer's declaration of a parameter.
struct ParameterSpec {
  std::string name;
  Shape global_shape;
  Shard shard = {};
  Init init = {};
  /// Whether AdamW's weight decay applies: to matrices and embeddings, not to biases and norms.
  bool decay = false;
  /// The extent of the sharded dim in memory; 0 means the shard's size. Padding (only along dim 0)
  /// is zero, has no gradient and is in no checkpoint.
  int64_t padded_extent = 0;
  GradientRows gradient_rows = GradientRows::all;
};

/// Elements that this rank updates, in all that an update reads and writes: 1-D views of the same
/// elements of each flat buffer. Of a gradient that is summed over owners, only what is in such a
/// run is the sum.
struct OptimizerShard {
  Range elements;
  Tensor value;       ///< compute precision
  Tensor grad;        ///< fp32
  Tensor master;      ///< fp32; `value` itself where precision is fp32
  Tensor exp_avg;     ///< fp32
  Tensor exp_avg_sq;  ///< fp32
};

/// A named view into the flat buffers of a ParameterStore.
struct Parameter {
  std::string name;
  Shape global_shape;
  Shard shard;
  Init init;
  bool decay = false;
  GradientRows gradient_rows = GradientRows::all;
  Shape local_shape;   ///< in memory, padding included
  int64_t offset = 0;  ///< first element in the flat buffers

  Tensor value;  ///< local_shape, compute precision
  Tensor grad;   ///< local_shape, fp32

  // Undefined if there are several optimizer shards; then only `owned` has them. Masters
  // that are the values are always defined.
  Tensor master;      ///< local_shape, fp32; `value` itself where precision is fp32
  Tensor exp_avg;     ///< local_shape, fp32: AdamW's first moment
  Tensor exp_avg_sq;  ///< local_shape, fp32: AdamW's second moment

  /// What this rank updates, in training: elements of real_shape(), counted row-major. All of them,
  /// or with several owners a run, which may be empty.
  OptimizerShard optimizer_shard;

  /// Whether `grad` is to be taken for zeros, whatever is in its memory (invalidate_grads()).
  bool grad_is_invalid = false;

  /// Whether the next product adds to `grad` or, if it is invalid, overwrites it. Marks it as
  /// valid.
  Accumulate next_accumulate();
  /// `grad` for an op that can only add; zeroed first if it is invalid.
  const Tensor& grad_to_add_to();

  /// The leading part of a local tensor that is not padding; its shape is real_shape().
  Tensor real_part(const Tensor& local) const;
  /// local_shape without padding.
  Shape real_shape() const;
  /// Maps the elements of the real part to the global tensor.
  GlobalIndex global_index() const;
};

/// Elements of the flat buffers whose parameters share a property.
struct FlatRange {
  Range elements;
  bool property = false;
};

/// What this rank updates of such a range; it lies in one bucket where there are several owners.
struct ShardRange {
  OptimizerShard shard;  ///< elements of the flat buffers
  size_t bucket = 0;
  bool property = false;
};

/// What a store allocates besides the values.
enum class StoreFor : uint8_t { inference, training };

/// The parameters of a model on this rank. Layers declare theirs in their constructors, in the
/// order of the forward pass; allocate() then lays them out one after the other in flat buffers:
/// values in compute precision, gradients, masters (where precision is not fp32) and AdamW's two
/// moments. Bucketing, the gradient norm, AdamW and checkpoints work on ranges of these buffers.
/// Where ranks that hold the same parameters share the state of the optimizer (OptimizerSharding),
/// masters and moments are those of this rank's pieces alone.
class ParameterStore {
 public:
  /// Call it before allocate(). The reference is valid as long as the store.
  Parameter& declare(const ParameterSpec& spec);

  /// Throws if two parameters share a name. Buffers start as zeros.
  void allocate(Device device, DType precision, StoreFor purpose,
                const OptimizerSharding& sharding = {});

  /// Fills masters and values with initial weights, a function of (seed, parameter name, global
  /// element index): the same bits on every layout.
  void initialize(uint64_t seed);

  void zero_grads();
  /// As zero_grads(), but leaves the memory as it is until a gradient is first added to. Layers
  /// take `grad` by next_accumulate() and grad_to_add_to(); the flat gradients are right again when
  /// a backward pass has come by every parameter.
  void invalidate_grads();

  std::deque<Parameter>& parameters() { return parameters_; }
  const std::deque<Parameter>& parameters() const { return parameters_; }
  const FlatLayout& layout() const { return layout_; }
  /// The number of elements of each flat buffer, with alignment gaps and padding.
  int64_t flat_size() const { return layout_.size(); }
  /// The flat buffers, split where `property` changes from one parameter to the next. The ranges
  /// cover the buffers: gaps and padding, which are zeros, belong to the parameter before.
  std::vector<FlatRange> ranges_by(const std::function<bool(const Parameter&)>& property) const;
  /// The part of these ranges that this rank updates, in the order of elements.
  std::vector<ShardRange> shard_ranges_by(
      const std::function<bool(const Parameter&)>& property) const;
  Tensor flat_values() const { return values_.tensor({flat_size()}, precision_); }
  Tensor flat_grads() const { return grads_.tensor({flat_size()}, DType::f32); }
  /// These throw if there are several optimizer shards.
  Tensor flat_masters() const;
  Tensor flat_exp_avg() const;
  Tensor flat_exp_avg_sq() const;
  DType precision() const { return precision_; }
  Device device() const { return device_; }

  size_t value_bytes() const { return values_.bytes(); }
  size_t grad_bytes() const { return grads_.bytes(); }
  size_t master_bytes() const { return masters_.bytes(); }
  size_t moment_bytes() const { return exp_avg_.bytes() + exp_avg_sq_.bytes(); }

 private:
  OptimizerShard shard_of(size_t bucket, Range elements) const;
  Tensor whole_state(const Buffer& buffer, const char* what) const;

  std::deque<Parameter> parameters_;
  FlatLayout layout_;
  DType precision_ = DType::f32;
  Device device_;
  bool allocated_ = false;
  Buffer values_, grads_, masters_, exp_avg_, exp_avg_sq_;
};

}  // namespace tessera
