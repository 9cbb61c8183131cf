#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/accumulate.h"
#include "core/axes.h"
#include "core/global_index.h"
#include "core/memory.h"
#include "core/parameters/flat_layout.h"
#include "core/precision.h"
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

/// How a parameter grows with the width of a model, in the terms of maximal update parametrization
/// (µP; Yang et al., "Tensor Programs V", 2022, table 3). `vector`: biases and norms. `input`: only
/// its outputs become more, as of embeddings. `hidden`: inputs and outputs do, as of the linear
/// layers in blocks. `output`: only its inputs do, as of a head.
enum class WidthRole : uint8_t { vector, input, hidden, output };

/// The matrices of a linear layer's weight (..., rows, columns): one for each index of the dims
/// before the last two, or several if `unit_rows` is set. An optimizer may update each as a whole.
struct WeightMatrices {
  /// Tensor ranks share the sharded dim as evenly as units of this many neighbors allow.
  int64_t unit = 1;
  /// How the rows of each unit belong to the matrices: {4 × 64, 64, 64} if the queries of a group
  /// of 4 heads, its key and its value follow one another. Empty: all rows are of one matrix.
  std::vector<int64_t> unit_rows = {};

  bool operator==(const WeightMatrices&) const = default;
};

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
  /// The extent of the sharded dim that the flat buffers have room for; 0 means that in memory.
  /// If ranks have unequal shards, it is the largest, so that their flat layouts are equal.
  int64_t slot_extent = 0;
  /// The axes over whose ranks the gradient is a sum of parts: ranks along kReplicaAxes have other
  /// rows, and tensor ranks may have other heads.
  AxisSet partial_over = kReplicaAxes;
  /// Whether it is replicated and outside the tensor regions. See ParameterStore::shard_rows().
  bool local_rows = false;
  std::optional<WeightMatrices> matrices = {};  ///< of the weight of a linear layer in a block
  WidthRole role = WidthRole::vector;
  /// For a hidden weight: its number of inputs over that in µP's base model; 1 in standard
  /// parametrization. `init.stddev` is the base's: it is divided by the root of this.
  double width_mult = 1.0;
};

/// A named view into the flat buffers of a ParameterStore.
struct Parameter {
  std::string name;
  Shape global_shape;
  Shard shard;
  Init init;
  bool decay = false;
  AxisSet partial_over = kReplicaAxes;  ///< see ParameterSpec
  bool local_rows = false;              ///< likewise
  std::optional<WeightMatrices> matrices;
  WidthRole role = WidthRole::vector;
  double width_mult = 1.0;  ///< see ParameterSpec
  /// Whether its products are of 8-bit codes (core/ops/fp8.h): those of linear layers in blocks,
  /// but in the first and the last block of a stack. Decided by allocate().
  bool fp8 = false;
  bool frozen = false;    ///< never updated: has no gradient, moments or place in the flat buffers
  size_t index = 0;       ///< in the order of the store
  size_t unit = 0;        ///< index in ParameterStore::units()
  Shape local_shape;      ///< in memory, padding included
  int64_t offset = 0;     ///< first element in the flat buffers, or among those of frozen ones
  int64_t slot_size = 0;  ///< elements there; those beyond local_shape are an unused gap of zeros

  /// local_shape, compute precision. Throws, with the name, if this rank does not hold the values:
  /// before allocation, or while the unit is not resident.
  const Tensor& value() const;
  /// local_shape, fp32. Throws likewise, and if the parameter is frozen or not for training.
  const Tensor& grad() const;
  bool has_grad() const { return grad_.defined(); }

  /// Whether grad() counts as zeros, whatever its memory holds (invalidate_grads()).
  bool grad_is_invalid = false;

  /// Whether the next product adds to grad() or, if it is invalid, overwrites it. Marks it as
  /// valid.
  Accumulate next_accumulate();
  /// grad() for an op that can only add, such as the gradient of an embedding; zeroed first if it
  /// is invalid.
  const Tensor& grad_to_add_to();

  /// The leading part of a local tensor that is not padding; its shape is real_shape().
  Tensor real_part(const Tensor& local) const;
  /// local_shape without padding.
  Shape real_shape() const;
  /// The axes whose ranks hold the same elements. Ranks along the pipeline hold other parameters.
  AxisSet replicated_over() const;
  /// Maps the elements of the real part to the global tensor.
  GlobalIndex global_index() const;

 private:
  friend class ParameterStore;
  Tensor value_, grad_;  // undefined if they are not here
};

/// Writes the initial values of elements [first, first + out.numel()) of the real part, row-major:
/// a function of (seed, parameter name, global element index), so the same bits on every layout.
void write_initial(const Parameter& parameter, uint64_t seed, int64_t first, const Tensor& out);

/// Neighboring parameters that a pass uses together: those of a block, or those before, between or
/// behind the stacks of blocks. Their values come and go together.
struct ParameterUnit {
  std::string name;
  bool is_block = false;
  Range parameters = {};  ///< indices in the store
};

/// The values of a unit, 1-D in compute precision: of its trained parameters, and of the others.
struct UnitValues {
  Tensor trained, frozen;
};

/// Elements of the flat buffers whose parameters share a property: a truth value or a number.
struct FlatRange {
  Range elements;
  int property = 0;
};

/// The part of a FlatRange that this rank updates. With several shards it is within one bucket.
struct ShardRange {
  Range elements;  ///< of the flat buffers
  size_t bucket = 0;
  int property = 0;
};

/// The purpose of a store, which decides what it allocates besides the values.
enum class StoreFor : uint8_t { inference, training };

/// The parameters of a model on this rank. Layers declare theirs in their constructors, in the
/// order of the forward pass. allocate() then places them in flat buffers: values in compute
/// precision and, for training, fp32 gradients. Bucketing, gradient norm, optimizer and checkpoints
/// work on ranges of these buffers. Frozen parameters have values alone, in a buffer of their own.
/// OptimizerState has what only the optimizer and checkpoints need.
class ParameterStore {
 public:
  /// The parameters declared from now on are of this unit, the first ones of "embeddings".
  void begin_unit(std::string name, bool is_block = false);
  /// Those with parameters, in order.
  const std::vector<ParameterUnit>& units() const { return units_; }

  /// Call it before allocate(). The reference is valid as long as the store.
  Parameter& declare(const ParameterSpec& spec);

  /// For a tensor of the model that is no parameter, in host memory, where it must stay as long as
  /// the store. Call it before allocate(), which copies the tensor to a GPU. The reference is valid
  /// as long as the store, and the tensor defined after allocate().
  const Tensor& declare_constant(const Tensor& in_host);

  /// With sequence parallelism (parallel/sequence_shard.h), tensor ranks have other rows outside
  /// the tensor regions: adds Axis::tensor to `partial_over` of the parameters there.
  void shard_rows();

  /// Marks the parameters that training does not change. Call it before allocate() for training.
  void freeze(const std::function<bool(const Parameter&)>& is_frozen);

  /// Allocates zeroed buffers. `of_frozen` says how ranks share what the optimizer's state keeps of
  /// frozen parameters. Throws if two parameters share a name, or if all are frozen.
  void allocate(Device device, Precision precision, StoreFor purpose,
                const OptimizerSharding& sharding = {}, const OptimizerSharding& of_frozen = {});

  /// Fills the values with initial weights (write_initial).
  void initialize(uint64_t seed);

  /// The elements of a unit in the flat buffers, with gaps: of trained and of frozen parameters.
  struct UnitElements {
    Range trained, frozen;
  };
  UnitElements elements_of(size_t unit) const;
  /// The values of a unit in the buffers of the store, which must keep all of them.
  UnitValues values_of(size_t unit) const;
  /// From now on, value() of a unit's parameters is in `values`, which are as long as
  /// elements_of().
  void place_values(size_t unit, const UnitValues& values);
  /// From now on, value() of a unit's parameters throws.
  void release_values(size_t unit);
  /// From now on, grad() of a unit's trained parameters is in `gradients`, which are fp32 and as
  /// long as elements_of().trained; throws where it is undefined.
  void place_gradients(size_t unit, const Tensor& gradients);
  /// Whether this rank keeps all values of a parameter, or only its shard of them.
  bool keeps_values(const Parameter& parameter) const {
    return !bucket_of(parameter).shards_values();
  }
  bool keeps_gradients(const Parameter& parameter) const {
    return !bucket_of(parameter).shards_gradients();
  }
  /// The same for all values of a unit.
  bool keeps_values(size_t unit) const;

  void zero_grads();
  /// Like zero_grads(), but without writing: the first operation on each gradient overwrites it.
  /// Layers access gradients through next_accumulate() and grad_to_add_to(). The flat gradients are
  /// valid again when the backward pass has visited every parameter.
  void invalidate_grads();
  /// The same for those of a unit.
  void invalidate_grads(size_t unit);
  /// Number of parameters whose gradient is invalid.
  size_t invalid_grads() const;
  /// Marks all gradients as valid, after kernels of a captured backward pass have written them.
  void mark_grads_valid();

  std::deque<Parameter>& parameters() { return parameters_; }
  const std::deque<Parameter>& parameters() const { return parameters_; }
  /// Layout of the trained parameters; frozen ones have no elements.
  const FlatLayout& layout() const { return layout_; }
  /// The one that has a place for this parameter: layout(), or that of the frozen ones.
  const FlatLayout& layout_of(const Parameter& parameter) const {
    return parameter.frozen ? frozen_layout_ : layout_;
  }
  const FlatLayout& frozen_layout() const { return frozen_layout_; }
  const FlatBucket& bucket_of(const Parameter& parameter) const {
    const FlatLayout& layout = layout_of(parameter);
    return layout.buckets()[layout.bucket_of(parameter.index)];
  }
  /// The elements of a parameter's real_shape(), row-major, in this rank's shard: all of them, or
  /// with several shards a range that may be empty. Of a frozen one, those kept for checkpoints.
  Range owned_elements(const Parameter& parameter) const;
  /// The number of elements of each flat buffer, with alignment gaps and padding.
  int64_t flat_size() const { return layout_.size(); }
  /// The flat buffers, split where `property` changes from one parameter to the next. The ranges
  /// cover the buffers: gaps and padding, which are zeros, belong to the parameter before.
  std::vector<FlatRange> ranges_by(const std::function<int(const Parameter&)>& property) const;
  /// The parts of these ranges that this rank updates, in order.
  std::vector<ShardRange> shard_ranges_by(
      const std::function<int(const Parameter&)>& property) const;
  /// The values of elements that this rank keeps, of one bucket of layout(), or of any if it is not
  /// sharded.
  Tensor values_in(const FlatBucket& bucket, Range elements) const;
  /// Likewise of a bucket of frozen_layout().
  Tensor frozen_values_in(const FlatBucket& bucket, Range elements) const;
  Tensor grads_in(const FlatBucket& bucket, Range elements) const;
  /// The gradients of a range of shard_ranges_by().
  Tensor grads_of(const ShardRange& range) const {
    return grads_in(layout_.buckets()[range.bucket], range.elements);
  }
  /// The values and the gradients that this rank keeps.
  Tensor flat_values() const { return values_.tensor({layout_.values_size()}, precision_); }
  Tensor flat_grads() const { return grads_.tensor({layout_.gradients_size()}, DType::f32); }
  DType precision() const { return precision_; }
  Device device() const { return device_; }

  size_t constant_bytes() const;
  size_t value_bytes() const { return values_.bytes() + frozen_values_.bytes(); }
  size_t grad_bytes() const { return grads_.bytes(); }

 private:
  struct Constant {
    Tensor in_host, tensor;
    Buffer on_device;
  };

  /// Whether the units before and behind it are blocks, too.
  bool is_inner_block(size_t unit) const;
  FlatLayout make_layout(bool frozen, const OptimizerSharding& sharding) const;
  void allocate_constants();

  std::deque<Parameter> parameters_;
  std::vector<ParameterUnit> units_;
  ParameterUnit next_unit_{"embeddings"};  // of the next parameter
  bool begins_unit_ = true;                // whether it is the first one there
  std::deque<Constant> constants_;
  FlatLayout layout_, frozen_layout_;
  DType precision_ = DType::f32;
  Device device_;
  bool allocated_ = false;
  Buffer values_, grads_, frozen_values_;
};

}  // namespace tessera
