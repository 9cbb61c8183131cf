#pragma once

#include <cudnn.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

// The part of nvidia-cudnn-frontend that Tessera uses, under the same names: graphs of one
// attention, or of its gradients. With TESSERA_EMULATOR_CUDNN=1, the emulated GPU supports in bf16
// what cuDNN 9.19 documents for Hopper (docs/operations/Attention.md of cudnn-frontend); with
// `forward`, only forward passes; otherwise, it supports nothing. Mistakes are reported as errors
// with a reason, as in the original.
namespace cudnn_frontend {

enum class error_code_t {
  OK,
  ATTRIBUTE_NOT_SET,
  INVALID_VARIANT_PACK,
  GRAPH_NOT_SUPPORTED,
  GRAPH_EXECUTION_FAILED,
  CUDA_API_FAILED,
  HANDLE_ERROR,
  INVALID_VALUE,
};

class [[nodiscard]] error_object {
 public:
  error_object() = default;
  error_object(error_code_t code, std::string message)
      : code_(code), message_(std::move(message)) {}
  error_code_t get_code() const { return code_; }
  std::string get_message() const { return message_; }
  bool is_good() const { return code_ == error_code_t::OK; }
  bool is_bad() const { return !is_good(); }

 private:
  error_code_t code_ = error_code_t::OK;
  std::string message_;
};
using error_t = error_object;

enum class DataType_t { NOT_SET, FLOAT, HALF, BFLOAT16, INT32, INT64, BOOLEAN };
enum class HeurMode_t { A, B, FALLBACK };
enum class DiagonalAlignment_t { TOP_LEFT, BOTTOM_RIGHT };

/// A GPU that need not exist. The emulation uses only the graph's set_sm_version().
class DeviceProperties {
 public:
  error_t deserialize(const std::vector<uint8_t>& json);
};

namespace graph {

class Tensor_attributes {
 public:
  using uid_t = int64_t;

  Tensor_attributes& set_uid(uid_t uid) { return uid_ = uid, *this; }
  Tensor_attributes& set_data_type(DataType_t type) { return data_type_ = type, *this; }
  Tensor_attributes& set_dim(const std::vector<int64_t>& dim) { return dim_ = dim, *this; }
  Tensor_attributes& set_stride(const std::vector<int64_t>& stride) {
    return stride_ = stride, *this;
  }
  Tensor_attributes& set_ragged_offset(const std::shared_ptr<Tensor_attributes>& offset) {
    return ragged_offset_ = offset, *this;
  }
  /// Whether the tensor is stored in memory. By default, outputs of an operation are not.
  Tensor_attributes& set_output(bool output) { return is_virtual_ = !output, *this; }

  std::optional<uid_t> uid() const { return uid_; }
  DataType_t get_data_type() const { return data_type_; }
  const std::vector<int64_t>& get_dim() const { return dim_; }
  const std::vector<int64_t>& get_stride() const { return stride_; }
  const std::shared_ptr<Tensor_attributes>& get_ragged_offset() const { return ragged_offset_; }
  bool get_is_virtual() const { return is_virtual_; }

 private:
  std::optional<uid_t> uid_;
  DataType_t data_type_ = DataType_t::NOT_SET;
  std::vector<int64_t> dim_, stride_;
  std::shared_ptr<Tensor_attributes> ragged_offset_;
  bool is_virtual_ = false;
};

/// Options of both passes.
struct AttentionOptions {
  using Tensor = std::shared_ptr<Tensor_attributes>;

  std::optional<float> scale;
  DiagonalAlignment_t alignment = DiagonalAlignment_t::TOP_LEFT;
  std::optional<int64_t> left_bound, right_bound;
  bool padding_mask = false;
  Tensor seq_len_q, seq_len_kv, bias;
  std::optional<float> dropout_probability;
  Tensor seed, offset;                                               // of dropout
  std::optional<bool> generate_stats;                                // forward
  bool deterministic = false;                                        // backward
  std::optional<int64_t> max_total_seq_len_q, max_total_seq_len_kv;  // backward
};

/// Setters of both passes.
template <typename Self>
class CommonAttributes {
 public:
  using Tensor = std::shared_ptr<Tensor_attributes>;

  Self& set_name(const std::string& /*name*/) { return self(); }
  Self& set_attn_scale(float scale) { return options.scale = scale, self(); }
  Self& set_diagonal_alignment(DiagonalAlignment_t alignment) {
    return options.alignment = alignment, self();
  }
  Self& set_diagonal_band_left_bound(int bound) { return options.left_bound = bound, self(); }
  Self& set_diagonal_band_right_bound(int bound) { return options.right_bound = bound, self(); }
  Self& set_padding_mask(bool on) { return options.padding_mask = on, self(); }
  Self& set_seq_len_q(const Tensor& lengths) { return options.seq_len_q = lengths, self(); }
  Self& set_seq_len_kv(const Tensor& lengths) { return options.seq_len_kv = lengths, self(); }
  Self& set_bias(const Tensor& bias) { return options.bias = bias, self(); }
  Self& set_dropout(float probability, const Tensor& seed, const Tensor& offset) {
    options.dropout_probability = probability;
    options.seed = seed;
    return options.offset = offset, self();
  }

  AttentionOptions options;

 private:
  Self& self() { return static_cast<Self&>(*this); }
};

class SDPA_attributes : public CommonAttributes<SDPA_attributes> {
 public:
  SDPA_attributes& set_generate_stats(bool on) { return options.generate_stats = on, *this; }
};

class SDPA_backward_attributes : public CommonAttributes<SDPA_backward_attributes> {
 public:
  SDPA_backward_attributes& set_deterministic_algorithm(bool on) {
    return options.deterministic = on, *this;
  }
  SDPA_backward_attributes& set_max_total_seq_len_q(int64_t rows) {
    return options.max_total_seq_len_q = rows, *this;
  }
  SDPA_backward_attributes& set_max_total_seq_len_kv(int64_t rows) {
    return options.max_total_seq_len_kv = rows, *this;
  }
};

/// One attention: its options and tensors. Those of the backward pass are null in a forward pass.
struct AttentionOperation {
  using Tensor = std::shared_ptr<Tensor_attributes>;

  bool backward = false;
  AttentionOptions options;
  Tensor q, k, v, o, stats;
  Tensor d_o, dq, dk, dv;
};

class Graph {
 public:
  using Tensor = std::shared_ptr<Tensor_attributes>;

  Graph& set_io_data_type(DataType_t type) { return io_type_ = type, *this; }
  Graph& set_intermediate_data_type(DataType_t type) { return intermediate_type_ = type, *this; }
  Graph& set_compute_data_type(DataType_t type) { return compute_type_ = type, *this; }
  Graph& set_device_properties(const std::shared_ptr<DeviceProperties>&) { return *this; }
  Graph& set_sm_version(int version) { return sm_version_ = version, *this; }

  Tensor tensor(const Tensor_attributes& attributes);
  /// Returns out and statistics.
  std::array<Tensor, 2> sdpa(Tensor q, Tensor k, Tensor v, SDPA_attributes attributes);
  /// Returns dq, dk and dv.
  std::array<Tensor, 3> sdpa_backward(Tensor q, Tensor k, Tensor v, Tensor o, Tensor d_o,
                                      Tensor stats, SDPA_backward_attributes attributes);

  error_t validate();
  error_t build_operation_graph();
  error_t create_execution_plans(const std::vector<HeurMode_t>& modes);
  error_t check_support();
  /// All of the above, and the compilation.
  error_t build(cudnnHandle_t handle, const std::vector<HeurMode_t>& modes);
  error_t get_workspace_size(int64_t& bytes) const;
  error_t execute(cudnnHandle_t handle, std::unordered_map<int64_t, void*>& pointers,
                  void* workspace) const;

 private:
  enum class State { described, valid, lowered, planned, supported, built };

  error_t require_state(State needed, const char* call) const;

  DataType_t io_type_ = DataType_t::NOT_SET, intermediate_type_ = DataType_t::NOT_SET,
             compute_type_ = DataType_t::NOT_SET;
  int sm_version_ = 90;
  std::vector<AttentionOperation> operations_;
  State state_ = State::described;
  std::shared_ptr<const AttentionOperation>
      plan_;  // the plan to run; captured work refers to it weakly
};

}  // namespace graph
}  // namespace cudnn_frontend
