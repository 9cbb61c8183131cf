// The rules in cudnn-frontend's docs/operations/Attention.md, and what its own checks reject.

#include "tests/emulator/cudnn/rules.h"

#include <algorithm>
#include <set>
#include <utility>

#include "tests/emulator/device_memory.h"

namespace emulator {
namespace {

using cudnn_frontend::DataType_t;
using cudnn_frontend::DiagonalAlignment_t;
using cudnn_frontend::error_code_t;
using cudnn_frontend::error_t;
using cudnn_frontend::graph::AttentionOperation;
using cudnn_frontend::graph::AttentionOptions;

using Dims = std::vector<int64_t>;

void refuse_if(bool refused, error_code_t code, const std::string& why) {
  if (refused) throw error_t(code, why);
}

std::string text(const Dims& dims) {
  std::string text = "{";
  for (const int64_t dim : dims) text += (text.size() > 1 ? ", " : "") + std::to_string(dim);
  return text + "}";
}

/// Requires all attributes that a graph must set on a tensor.
void require_described(const CudnnTensor& tensor, const std::string& name) {
  refuse_if(tensor == nullptr, error_code_t::ATTRIBUTE_NOT_SET, name + " is not set");
  refuse_if(tensor->get_is_virtual(), error_code_t::ATTRIBUTE_NOT_SET,
            name + " is virtual: store it in memory with set_output(true)");
  refuse_if(!tensor->uid(), error_code_t::ATTRIBUTE_NOT_SET, name + " has no uid");
  refuse_if(tensor->get_data_type() == DataType_t::NOT_SET, error_code_t::ATTRIBUTE_NOT_SET,
            name + " has no data type");
  refuse_if(tensor->get_dim().size() != 4 || tensor->get_stride().size() != 4,
            error_code_t::ATTRIBUTE_NOT_SET, name + " must have four dims and strides");
}

void require_dim(const CudnnTensor& tensor, const std::string& name, const Dims& dim) {
  refuse_if(tensor->get_dim() != dim, error_code_t::INVALID_VALUE,
            name + " must have dims " + text(dim) + ", but has " + text(tensor->get_dim()));
}

void require_integers(const CudnnTensor& tensor, const std::string& name, int64_t count) {
  require_described(tensor, name);
  require_dim(tensor, name, {count, 1, 1, 1});
  refuse_if(tensor->get_data_type() != DataType_t::INT32, error_code_t::GRAPH_NOT_SUPPORTED,
            name + " must be INT32");
}

/// Q, K, V, O or their gradients: rows must allow 16-byte loads.
void require_operand(const CudnnTensor& tensor, const std::string& name, const Dims& dim) {
  require_described(tensor, name);
  require_dim(tensor, name, dim);
  refuse_if(tensor->get_data_type() != DataType_t::BFLOAT16, error_code_t::GRAPH_NOT_SUPPORTED,
            name + " must be BFLOAT16, the only type that is emulated");
  const Dims& stride = tensor->get_stride();
  refuse_if(
      stride[3] != 1, error_code_t::GRAPH_NOT_SUPPORTED,
      name + "'s stride of the last dimension must be 1, but is " + std::to_string(stride[3]));
  for (size_t i = 0; i < 3; ++i) {
    refuse_if(dim[i] > 1 && stride[i] * size_of(tensor->get_data_type()) % 16 != 0,
              error_code_t::GRAPH_NOT_SUPPORTED,
              name + ": stride " + std::to_string(stride[i]) + " is not a multiple of 16 bytes");
  }
  if (const CudnnTensor& offset = tensor->get_ragged_offset()) {
    require_integers(offset, name + "'s ragged offset", dim[0] + 1);
  }
}

void require_statistics(const AttentionOperation& operation, const Dims& dim) {
  const CudnnTensor& stats = operation.stats;
  require_described(stats, "Stats");
  require_dim(stats, "Stats", {dim[0], dim[1], dim[2], 1});
  refuse_if(stats->get_data_type() != DataType_t::FLOAT, error_code_t::GRAPH_NOT_SUPPORTED,
            "Stats must be FLOAT");
  if (const CudnnTensor& offset = stats->get_ragged_offset()) {
    return require_integers(offset, "Stats's ragged offset", dim[0] + 1);
  }
  refuse_if(stats->get_stride() != Dims{dim[1] * dim[2], dim[2], 1, 1},
            error_code_t::GRAPH_NOT_SUPPORTED,
            "Stats that are not ragged must be packed as (B, H, S), but have strides " +
                text(stats->get_stride()));
}

void require_bias(const CudnnTensor& bias, const Dims& q) {
  require_described(bias, "Bias");
  const Dims& dim = bias->get_dim();
  const bool fits = (dim[0] == 1 || dim[0] == q[0]) && (dim[1] == 1 || dim[1] == q[1]) &&
                    dim[2] == q[2] && dim[3] == q[2];
  refuse_if(!fits, error_code_t::INVALID_VALUE,
            "Bias must have dims {1 or B, 1 or H, S, S}, but has " + text(dim));
  refuse_if(bias->get_data_type() != DataType_t::BFLOAT16, error_code_t::GRAPH_NOT_SUPPORTED,
            "Bias must have the type of Q");
  refuse_if(bias->get_stride()[3] != 1, error_code_t::GRAPH_NOT_SUPPORTED,
            "Bias's stride of the last dimension must be 1");
}

void require_dropout(const AttentionOptions& options) {
  const float probability = *options.dropout_probability;
  refuse_if(!(probability >= 0.0f && probability < 1.0f), error_code_t::ATTRIBUTE_NOT_SET,
            "Dropout probability cannot be 1 as corresponding scale wont be well formed.");
  for (const auto& [tensor, name] :
       {std::pair(options.seed, "Seed"), std::pair(options.offset, "Offset")}) {
    require_described(tensor, name);
    require_dim(tensor, name, {1, 1, 1, 1});
    refuse_if(tensor->get_data_type() != DataType_t::INT64, error_code_t::GRAPH_NOT_SUPPORTED,
              std::string(name) + " must be INT64, the only type that is emulated");
  }
}

bool is_ragged(const AttentionOperation& operation) {
  const auto operands = {operation.q, operation.k, operation.v, operation.o};
  return std::any_of(operands.begin(), operands.end(),
                     [](const CudnnTensor& it) { return it->get_ragged_offset() != nullptr; });
}

void require_lengths(const AttentionOperation& operation, int64_t batch) {
  const AttentionOptions& options = operation.options;
  if (options.padding_mask) {
    require_integers(options.seq_len_q, "seq_len_q of the padding mask", batch);
    require_integers(options.seq_len_kv, "seq_len_kv of the padding mask", batch);
    return;
  }
  refuse_if(options.seq_len_q != nullptr || options.seq_len_kv != nullptr,
            error_code_t::ATTRIBUTE_NOT_SET, "seq_len_q and seq_len_kv require a padding mask");
  refuse_if(is_ragged(operation), error_code_t::GRAPH_NOT_SUPPORTED,
            "ragged offsets are only supported with a padding mask");
}

}  // namespace

std::vector<CudnnTensor> tensors_of(const AttentionOperation& operation) {
  std::vector<CudnnTensor> all;
  const auto add = [&](const CudnnTensor& tensor) {
    const bool known = std::find(all.begin(), all.end(), tensor) != all.end();
    if (tensor != nullptr && !known) all.push_back(tensor);
  };
  for (const CudnnTensor& tensor :
       {operation.q, operation.k, operation.v, operation.o, operation.stats, operation.d_o,
        operation.dq, operation.dk, operation.dv}) {
    add(tensor);
    if (tensor != nullptr) add(tensor->get_ragged_offset());
  }
  for (const CudnnTensor& tensor :
       {operation.options.seq_len_q, operation.options.seq_len_kv, operation.options.bias,
        operation.options.seed, operation.options.offset}) {
    add(tensor);
  }
  return all;
}

void require_whole(const AttentionOperation& operation) {
  const AttentionOptions& options = operation.options;
  refuse_if(!operation.backward && !options.generate_stats, error_code_t::ATTRIBUTE_NOT_SET,
            "generate_stats is not set");
  refuse_if(!operation.backward && !*options.generate_stats, error_code_t::GRAPH_NOT_SUPPORTED,
            "a forward pass without Stats is not emulated");
  require_described(operation.q, "Q");
  const Dims& dim = operation.q->get_dim();
  require_operand(operation.q, "Q", dim);
  require_described(operation.k, "K");
  const int64_t groups = operation.k->get_dim()[1];
  refuse_if(groups < 1 || dim[1] % groups != 0, error_code_t::INVALID_VALUE,
            "the " + std::to_string(dim[1]) + " heads of Q are no multiple of the " +
                std::to_string(groups) + " heads of K");
  const Dims grouped = {dim[0], groups, dim[2], dim[3]};
  require_operand(operation.k, "K", grouped);
  require_operand(operation.v, "V", grouped);
  require_operand(operation.o, "O", dim);
  require_statistics(operation, dim);
  if (operation.backward) {
    require_operand(operation.d_o, "dO", dim);
    require_operand(operation.dq, "dQ", dim);
    require_operand(operation.dk, "dK", grouped);
    require_operand(operation.dv, "dV", grouped);
  }
  require_lengths(operation, dim[0]);
  if (options.bias != nullptr) require_bias(options.bias, dim);
  if (options.dropout_probability) require_dropout(options);
  refuse_if(
      options.left_bound.value_or(1) <= 0, error_code_t::INVALID_VALUE,
      "the left bound must be positive, but is " + std::to_string(options.left_bound.value_or(1)));
  refuse_if(options.right_bound.value_or(0) < 0, error_code_t::INVALID_VALUE,
            "the right bound must not be negative, but is " +
                std::to_string(options.right_bound.value_or(0)));
  refuse_if((options.max_total_seq_len_q || options.max_total_seq_len_kv) && !is_ragged(operation),
            error_code_t::GRAPH_NOT_SUPPORTED, "max_total_seq_len requires ragged tensors");
  std::set<int64_t> uids;
  for (const CudnnTensor& tensor : tensors_of(operation)) {
    refuse_if(!uids.insert(*tensor->uid()).second, error_code_t::INVALID_VALUE,
              "two tensors have uid " + std::to_string(*tensor->uid()));
  }
}

void require_supported(const AttentionOperation& operation, int sm_version) {
  const Dims& dim = operation.q->get_dim();
  const bool hopper = sm_version / 10 == 9;
  const int64_t most = operation.backward && !hopper ? 128 : 256;
  refuse_if(dim[3] % 8 != 0 || dim[3] > most, error_code_t::GRAPH_NOT_SUPPORTED,
            "heads must have a multiple of 8 and at most " + std::to_string(most) +
                " features, but have " + std::to_string(dim[3]));
  refuse_if(operation.options.alignment != DiagonalAlignment_t::TOP_LEFT,
            error_code_t::GRAPH_NOT_SUPPORTED, "only TOP_LEFT is emulated");
  if (!operation.backward) return;
  refuse_if(dim[2] == 1, error_code_t::GRAPH_NOT_SUPPORTED, "s_q = s_kv = 1 is not supported");
  refuse_if(operation.options.deterministic && is_ragged(operation) && sm_version / 10 == 8,
            error_code_t::GRAPH_NOT_SUPPORTED,
            "Deterministic gradients of ragged tensors are not supported on this GPU");
  refuse_if(operation.options.deterministic && operation.options.dropout_probability &&
                sm_version / 10 == 10,
            error_code_t::GRAPH_NOT_SUPPORTED,
            "Deterministic gradients with dropout are not supported on this GPU");
}

void require_device_memory(const void* data, int64_t bytes, const std::string& what) {
  const auto* last = static_cast<const std::byte*>(data) + std::max<int64_t>(bytes, 1) - 1;
  const bool on_device = is_allocated_device(data) && is_allocated_device(last);
  const bool seen_by_both = is_allocated_host(data) && is_allocated_host(last);
  refuse_if(!on_device && !seen_by_both, error_code_t::INVALID_VARIANT_PACK,
            what + ": its " + std::to_string(bytes) + " bytes are not memory of the GPU");
}

void require_pointers(const AttentionOperation& operation, const CudnnPointers& pointers) {
  const std::vector<CudnnTensor> tensors = tensors_of(operation);
  for (const CudnnTensor& tensor : tensors) {
    const std::string name = "Uid " + std::to_string(*tensor->uid());
    const auto found = pointers.find(*tensor->uid());
    refuse_if(found == pointers.end(), error_code_t::INVALID_VARIANT_PACK,
              name + " not found in variant pack");
    const int64_t bytes = size_of(tensor->get_data_type());
    // The frontend's default alignment of a tensor without set_alignment.
    constexpr uintptr_t kAlignment = 16;
    refuse_if(reinterpret_cast<uintptr_t>(found->second) % kAlignment != 0,
              error_code_t::INVALID_VARIANT_PACK,
              name + ": the pointer is not aligned to 16 bytes");
    // The extent of a ragged tensor depends on its offsets, which are unknown before it runs.
    int64_t last = 0;
    for (size_t i = 0; i < 4 && tensor->get_ragged_offset() == nullptr; ++i) {
      last += (tensor->get_dim()[i] - 1) * tensor->get_stride()[i];
    }
    require_device_memory(found->second, (last + 1) * bytes, name);
  }
  refuse_if(pointers.size() != tensors.size(), error_code_t::INVALID_VARIANT_PACK,
            "the variant pack has " + std::to_string(pointers.size()) + " tensors, but the graph " +
                std::to_string(tensors.size()));
}

}  // namespace emulator
