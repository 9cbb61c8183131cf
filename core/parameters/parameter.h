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

/// The elements that this rank updates: 1-D views of the same elements of each flat buffer. With
/// several shards, only these elements of the gradient are reduced.
struct OptimizerShard {
  Range elements;
  Tensor value;       ///< compute precision
  Tensor grad;        ///< fp32
  Tensor master;      ///< fp32; `value` itself where precision is fp32
  Tensor exp_avg;     ///< moment_dtype()
  Tensor exp_avg_sq;  ///< moment_dtype(); undefined unless the parameters of all elements have one
  /// Scales of 8-bit moments (core/ops/block_codes.h), one for each block, counted from this
  /// shard's first element. Undefined for other dtypes.
  Tensor exp_avg_scales, exp_avg_sq_scales;
  Tensor ema;  ///< fp32: the average of `master`; undefined unless the store keeps one
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
  double width_mult = 1.0;    ///< see ParameterSpec
  bool second_moment = true;  ///< whether the optimizer keeps one
  bool frozen = false;    ///< never updated: has no gradient, moments or place in the flat buffers
  size_t index = 0;       ///< in the order of the store
  Shape local_shape;      ///< in memory, padding included
  int64_t offset = 0;     ///< first element in the flat buffers
  int64_t slot_size = 0;  ///< elements there; those beyond local_shape are an unused gap of zeros

  Tensor value;  ///< local_shape, compute precision
  Tensor grad;   ///< local_shape, fp32; undefined if frozen

  // Undefined if there are several optimizer shards; then only `optimizer_shard` has them. Masters
  // that are the values, or frozen, are always defined; frozen parameters have no moments.
  Tensor master;      ///< local_shape, fp32; `value` itself where precision is fp32. If frozen and
                      ///< bf16 it is in host memory: only checkpoints need it.
  Tensor exp_avg;     ///< local_shape, moment_dtype(): the first moment
  Tensor exp_avg_sq;  ///< local_shape, moment_dtype(): the second one, if the optimizer keeps one

  /// The elements of real_shape(), row-major, that this rank updates in training: all of them, or
  /// with several shards a range that may be empty. Empty if frozen.
  OptimizerShard optimizer_shard;

  /// Whether `grad` counts as zeros, whatever its memory holds (invalidate_grads()).
  bool grad_is_invalid = false;

  /// Whether the next product adds to `grad` or, if it is invalid, overwrites it. Marks it as
  /// valid.
  Accumulate next_accumulate();
  /// `grad` for an op that can only add, such as the gradient of an embedding; zeroed first if it
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
};

/// Elements of the flat buffers whose parameters share a property: a truth value or a number.
struct FlatRange {
  Range elements;
  int property = 0;
};

/// The part of a FlatRange that this rank updates. With several shards it is within one bucket.
struct ShardRange {
  OptimizerShard shard;  ///< elements of the flat buffers
  size_t bucket = 0;
  int property = 0;
};

/// The purpose of a store, which decides what it allocates besides the values.
enum class StoreFor : uint8_t { inference, training };

/// The parameters of a model on this rank. Layers declare theirs in their constructors, in the
/// order of the forward pass. allocate() then places them in flat buffers: values in compute
/// precision, fp32 gradients, fp32 masters (unless precision is fp32) and the optimizer's moments:
/// a first one, and a second one of the parameters that need it. Bucketing, gradient norm,
/// optimizer and checkpoints work on ranges of these buffers. If ranks share the optimizer state
/// (OptimizerSharding), masters and moments are those of this rank's shards. So is an average of
/// the masters, if one is kept.
/// Frozen parameters have values alone, in a buffer of their own, and bf16 ones masters in host
/// memory, so that checkpoints keep the weights that training started from.
class ParameterStore {
 public:
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

  /// Marks the parameters of which the optimizer keeps no second moment. Call it before allocate()
  /// for training.
  void omit_second_moments(const std::function<bool(const Parameter&)>& has_none);

  /// Keeps an average of the trained weights, too. Call it before allocate() for training.
  void keep_average();

  /// The dtype of the moments: fp32, bf16, or uint8 for codes (core/ops/block_codes.h). The moments
  /// of parameters with fewer than kFewestCodes elements are then fp32. Call it before allocate()
  /// for training.
  void store_moments_in(DType dtype);
  /// As in bitsandbytes: they take little memory, and norms and biases are sensitive.
  static constexpr int64_t kFewestCodes = 4096;

  /// Allocates zeroed buffers. Throws if two parameters share a name, or if all are frozen.
  void allocate(Device device, DType precision, StoreFor purpose,
                const OptimizerSharding& sharding = {});

  /// Fills masters and values with initial weights, a function of (seed, parameter name, global
  /// element index): the same bits on every layout. The average begins with them.
  void initialize(uint64_t seed);

  bool has_average() const { return keeps_average_; }
  /// average = masters, for the elements that this rank updates. Nothing if there is no average.
  void start_average();

  void zero_grads();
  /// Like zero_grads(), but without writing: the first operation on each gradient overwrites it.
  /// Layers access `grad` through next_accumulate() and grad_to_add_to(). The flat gradients are
  /// valid again when the backward pass has visited every parameter.
  void invalidate_grads();
  /// Number of parameters whose gradient is invalid.
  size_t invalid_grads() const;
  /// Marks all gradients as valid, after kernels of a captured backward pass have written them.
  void mark_grads_valid();

  std::deque<Parameter>& parameters() { return parameters_; }
  const std::deque<Parameter>& parameters() const { return parameters_; }
  const FlatLayout& layout() const { return layout_; }
  /// The number of elements of each flat buffer, with alignment gaps and padding.
  int64_t flat_size() const { return layout_.size(); }
  /// The flat buffers, split where `property` changes from one parameter to the next. The ranges
  /// cover the buffers: gaps and padding, which are zeros, belong to the parameter before.
  std::vector<FlatRange> ranges_by(const std::function<int(const Parameter&)>& property) const;
  /// The parts of these ranges that this rank updates, in order.
  std::vector<ShardRange> shard_ranges_by(
      const std::function<int(const Parameter&)>& property) const;
  Tensor flat_values() const { return values_.tensor({flat_size()}, precision_); }
  Tensor flat_grads() const { return grads_.tensor({flat_size()}, DType::f32); }
  /// These throw if there are several optimizer shards, and those of the moments if these are
  /// 8-bit. That of the second moments also throws if a parameter has none.
  Tensor flat_masters() const;
  Tensor flat_exp_avg() const;
  Tensor flat_exp_avg_sq() const;
  DType precision() const { return precision_; }
  DType moment_dtype() const { return moment_dtype_; }
  Device device() const { return device_; }

  size_t constant_bytes() const;
  size_t value_bytes() const { return values_.bytes() + frozen_values_.bytes(); }
  size_t grad_bytes() const { return grads_.bytes(); }
  size_t master_bytes() const { return masters_.bytes(); }
  size_t moment_bytes() const {
    return exp_avg_.bytes() + exp_avg_sq_.bytes() + code_scales_.bytes() + small_moments_.bytes();
  }
  size_t average_bytes() const { return ema_.bytes(); }
  size_t frozen_master_bytes() const { return frozen_masters_.bytes(); }  ///< in host memory

 private:
  OptimizerShard shard_of(size_t bucket, Range elements) const;
  Tensor whole_state(const Buffer& buffer, DType dtype, const char* what) const;

  struct Constant {
    Tensor in_host, tensor;
    Buffer on_device;
  };
  struct StoredRange {
    Range elements;  ///< of the flat buffers
    int64_t begin;   ///< in the buffer of second moments
  };

  void allocate_constants();
  void allocate_frozen();
  void place_training_state(Parameter& parameter) const;
  bool has_codes(const Parameter& parameter) const;
  void allocate_beside_codes();
  void place_beside_codes();
  int64_t place_second_moments();
  Tensor second_moments_of(Range elements) const;

  std::deque<Parameter> parameters_;
  std::deque<Constant> constants_;
  FlatLayout layout_;  // frozen parameters have no elements
  DType precision_ = DType::f32, moment_dtype_ = DType::f32;
  Device device_;
  bool allocated_ = false, keeps_average_ = false;
  Buffer values_, grads_, masters_, exp_avg_, exp_avg_sq_, ema_;
  Buffer code_scales_, small_moments_;  // of 8-bit moments, and of parameters with fp32 beside them
  std::vector<StoredRange> second_moments_;  // those of this rank's shards, in order
  Buffer frozen_values_, frozen_masters_;
};

}  // namespace tessera
