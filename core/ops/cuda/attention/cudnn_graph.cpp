#include "core/ops/cuda/attention/cudnn_graph.h"

#include <cudnn_frontend.h>

#include "core/checked.h"

namespace tessera::cuda {
namespace {

namespace fe = cudnn_frontend;
using fe::graph::Graph;
using fe::graph::Tensor_attributes;
using GraphTensor = std::shared_ptr<Tensor_attributes>;

/// Creates a graph's tensors; ragged ones have offsets, and ragged or padded ones have lengths.
class Tensors {
 public:
  Tensors(Graph& graph, const AttentionPlanKey& key) : graph_(graph), key_(key) {
    if (key.dropout > 0.0f) {
      dropout_seed_ = integers(kDropoutSeed, 1, fe::DataType_t::INT64);
      dropout_offset_ = integers(kDropoutOffset, 1, fe::DataType_t::INT64);
    }
    if (key.ragged || key.padded) {
      query_lengths_ = integers(kQueryLengths, key.documents);
      key_lengths_ = integers(kKeyLengths, key.documents);
    }
    if (!key.ragged) return;
    qkv_offsets_ = integers(kQkvOffsets, key.documents + 1);
    out_offsets_ = integers(kOutOffsets, key.documents + 1);
    statistics_offsets_ = integers(kStatisticsOffsets, key.documents + 1);
  }

  const GraphTensor& query_lengths() const { return query_lengths_; }
  const GraphTensor& key_lengths() const { return key_lengths_; }
  const GraphTensor& dropout_seed() const { return dropout_seed_; }
  const GraphTensor& dropout_offset() const { return dropout_offset_; }

  GraphTensor input_of_queries() { return described(kQueries, queries()); }
  GraphTensor input_of_keys() { return described(kKeys, key_values()); }
  GraphTensor input_of_values() { return described(kValues, key_values()); }
  GraphTensor input_of_out(AttentionTensor uid) { return described(uid, out()); }
  GraphTensor input_of_statistics() {
    GraphTensor statistics = graph_.tensor(Tensor_attributes());
    describe_statistics(statistics);
    return statistics;
  }

  void describe_gradients(const GraphTensor& of_queries, const GraphTensor& of_keys,
                          const GraphTensor& of_values) {
    describe_output(of_queries, kQueryGradient, queries());
    describe_output(of_keys, kKeyGradient, key_values());
    describe_output(of_values, kValueGradient, key_values());
  }
  void describe_out(const GraphTensor& tensor) { describe_output(tensor, kOut, out()); }
  void describe_statistics(const GraphTensor& tensor) {
    const int64_t heads = key_.heads, length = key_.length;
    tensor->set_uid(kStatistics).set_data_type(fe::DataType_t::FLOAT);
    tensor->set_dim({key_.documents, heads, length, 1});
    if (key_.ragged) {
      tensor->set_stride({length * heads, 1, heads, 1}).set_ragged_offset(statistics_offsets_);
    } else {
      tensor->set_stride({heads * length, length, 1, 1});
    }
  }

 private:
  GraphTensor integers(AttentionTensor uid, int64_t count,
                       fe::DataType_t type = fe::DataType_t::INT32) {
    return graph_.tensor(Tensor_attributes()
                             .set_uid(uid)
                             .set_dim({count, 1, 1, 1})
                             .set_stride({1, 1, 1, 1})
                             .set_data_type(type));
  }

  /// Some of the heads in rows of `row` elements.
  struct Heads {
    int64_t count, row;
    const GraphTensor& offsets;
  };
  Heads queries() const { return {key_.heads, key_.qkv_row(), qkv_offsets_}; }
  Heads key_values() const { return {key_.kv_heads, key_.qkv_row(), qkv_offsets_}; }
  Heads out() const { return {key_.heads, key_.heads * key_.head_dim, out_offsets_}; }

  /// (documents, heads, length, head_dim).
  void describe(const GraphTensor& tensor, AttentionTensor uid, const Heads& heads) {
    tensor->set_uid(uid).set_data_type(fe::DataType_t::BFLOAT16);
    tensor->set_dim({key_.documents, heads.count, key_.length, key_.head_dim});
    tensor->set_stride({key_.length * heads.row, key_.head_dim, heads.row, 1});
    if (heads.offsets != nullptr) tensor->set_ragged_offset(heads.offsets);
  }
  void describe_output(const GraphTensor& tensor, AttentionTensor uid, const Heads& heads) {
    describe(tensor, uid, heads);
    tensor->set_output(true);
  }

  GraphTensor described(AttentionTensor uid, const Heads& heads) {
    GraphTensor tensor = graph_.tensor(Tensor_attributes());
    describe(tensor, uid, heads);
    return tensor;
  }

  Graph& graph_;
  const AttentionPlanKey& key_;
  GraphTensor query_lengths_, key_lengths_, qkv_offsets_, out_offsets_, statistics_offsets_;
  GraphTensor dropout_seed_, dropout_offset_;
};

/// The scale, mask and dropout, which forward and backward share. A query at t sees keys s with t −
/// window < s, and s ≤ t or s < t + window.
template <typename Attributes>
void set_shared(Attributes& attributes, const AttentionPlanKey& key, const Tensors& tensors) {
  attributes.set_attn_scale(key.scale);
  attributes.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT);
  if (key.causal) attributes.set_diagonal_band_right_bound(0);
  if (key.window > 0 && key.window < key.length) {
    attributes.set_diagonal_band_left_bound(narrow<int>(key.window));
    if (!key.causal) attributes.set_diagonal_band_right_bound(narrow<int>(key.window - 1));
  }
  if (key.ragged || key.padded) {
    attributes.set_padding_mask(true);
    attributes.set_seq_len_q(tensors.query_lengths()).set_seq_len_kv(tensors.key_lengths());
  }
  if (key.dropout > 0.0f) {
    attributes.set_dropout(key.dropout, tensors.dropout_seed(), tensors.dropout_offset());
  }
}

void add_forward(Graph& graph, const AttentionPlanKey& key, Tensors& tensors) {
  fe::graph::SDPA_attributes attributes;
  attributes.set_name("attention_forward").set_generate_stats(true);
  set_shared(attributes, key, tensors);
  const GraphTensor queries = tensors.input_of_queries(), keys = tensors.input_of_keys(),
                    values = tensors.input_of_values();
  const auto [out, statistics] = graph.sdpa(queries, keys, values, attributes);
  tensors.describe_out(out);
  tensors.describe_statistics(statistics);
  statistics->set_output(true);
}

void add_backward(Graph& graph, const AttentionPlanKey& key, Tensors& tensors) {
  fe::graph::SDPA_backward_attributes attributes;
  // Unless deterministic, gradients of queries are summed by atomics, in a different order each
  // time.
  attributes.set_name("attention_backward").set_deterministic_algorithm(key.deterministic);
  set_shared(attributes, key, tensors);
  if (key.ragged) attributes.set_max_total_seq_len_q(key.rows).set_max_total_seq_len_kv(key.rows);
  const GraphTensor queries = tensors.input_of_queries(), keys = tensors.input_of_keys(),
                    values = tensors.input_of_values(), out = tensors.input_of_out(kOut),
                    out_gradient = tensors.input_of_out(kOutGradient),
                    statistics = tensors.input_of_statistics();
  const auto [query_gradient, key_gradient, value_gradient] =
      graph.sdpa_backward(queries, keys, values, out, out_gradient, statistics, attributes);
  tensors.describe_gradients(query_gradient, key_gradient, value_gradient);
}

/// The operation graph of a plan, not yet built.
std::shared_ptr<Graph> attention_graph(const AttentionPlanKey& key) {
  auto graph = std::make_shared<Graph>();
  graph->set_io_data_type(fe::DataType_t::BFLOAT16)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  Tensors tensors(*graph, key);
  if (key.backward) {
    add_backward(*graph, key, tensors);
  } else {
    add_forward(*graph, key, tensors);
  }
  return graph;
}

/// Mode A: heuristics. FALLBACK: if they find nothing, slow engines that support everything.
const std::vector<fe::HeurMode_t> kHeuristics = {fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK};

}  // namespace

BuiltAttentionGraph build_attention_graph(const AttentionPlanKey& key, cudnnContext* handle) {
  BuiltAttentionGraph built{attention_graph(key), 0, {}};
  int64_t bytes = 0;
  fe::error_t error = built.graph->build(handle, kHeuristics);
  if (error.is_good()) error = built.graph->get_workspace_size(bytes);
  if (error.is_bad()) built.unsupported_reason = error.get_message();
  built.workspace_bytes = static_cast<size_t>(bytes);
  return built;
}

std::optional<std::string> attention_plan_unsupported_reason(const AttentionPlanKey& key,
                                                             const std::string& device_properties,
                                                             int sm_version) {
  const auto device = std::make_shared<fe::DeviceProperties>();
  fe::error_t error = device->deserialize({device_properties.begin(), device_properties.end()});
  if (error.is_bad()) return error.get_message();
  const std::shared_ptr<Graph> graph = attention_graph(key);
  graph->set_device_properties(device).set_sm_version(sm_version);
  error = graph->validate();
  if (error.is_good()) error = graph->build_operation_graph();
  if (error.is_good()) error = graph->create_execution_plans(kHeuristics);
  if (error.is_good()) error = graph->check_support();
  if (error.is_good()) return std::nullopt;
  return error.get_message();
}

}  // namespace tessera::cuda
