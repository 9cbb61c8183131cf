#pragma once

#include <cudnn_frontend.h>

#include <cmath>
#include <functional>

#include "tests/emulator/tests/test_launch.h"

/// Shared by tests of cuDNN's emulation: a small forward pass.
namespace tessera::cuda::cudnn_test {

namespace fe = cudnn_frontend;
using fe::graph::Graph;
using fe::graph::SDPA_attributes;
using fe::graph::SDPA_backward_attributes;
using fe::graph::Tensor_attributes;
using Tensor = std::shared_ptr<Tensor_attributes>;

inline constexpr int64_t kBatch = 2, kHeads = 2, kLength = 6, kFeatures = 8;
inline constexpr int64_t kElements = kBatch * kHeads * kLength * kFeatures;
inline constexpr int64_t kRowsOfHeads = kBatch * kHeads * kLength;

enum Uid : int64_t { kQ = 1, kK, kV, kO, kStats, kQueryLengths, kKeyLengths, kOffsets };

inline Tensor_attributes operand(int64_t uid) {
  return Tensor_attributes()
      .set_uid(uid)
      .set_data_type(fe::DataType_t::BFLOAT16)
      .set_dim({kBatch, kHeads, kLength, kFeatures})
      .set_stride({kLength * kHeads * kFeatures, kFeatures, kHeads * kFeatures, 1});
}
inline Tensor_attributes integers(int64_t uid, int64_t count) {
  return Tensor_attributes()
      .set_uid(uid)
      .set_data_type(fe::DataType_t::INT32)
      .set_dim({count, 1, 1, 1})
      .set_stride({1, 1, 1, 1});
}

/// A forward pass that tests modify before building it.
struct Forward {
  Graph graph;
  SDPA_attributes attributes;
  Tensor q = std::make_shared<Tensor_attributes>(operand(kQ)),
         k = std::make_shared<Tensor_attributes>(operand(kK)),
         v = std::make_shared<Tensor_attributes>(operand(kV));
  std::function<void(Tensor o, Tensor stats)> change_results = [](Tensor, Tensor) {};

  Forward() {
    graph.set_io_data_type(fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    attributes.set_generate_stats(true);
  }
  void pad() {
    attributes.set_padding_mask(true)
        .set_seq_len_q(std::make_shared<Tensor_attributes>(integers(kQueryLengths, kBatch)))
        .set_seq_len_kv(std::make_shared<Tensor_attributes>(integers(kKeyLengths, kBatch)));
  }
  fe::error_t build(cudnnHandle_t handle) {
    const auto [o, stats] = graph.sdpa(q, k, v, attributes);
    *o = operand(kO);
    stats->set_uid(kStats).set_data_type(fe::DataType_t::FLOAT).set_output(true);
    stats->set_dim({kBatch, kHeads, kLength, 1});
    stats->set_stride({kHeads * kLength, kLength, 1, 1});
    change_results(o, stats);
    return graph.build(handle, {fe::HeurMode_t::A});
  }
};

class Cudnn : public ::testing::Test {
 protected:
  Cudnn() {
    cudnnCreate(&handle_);
    cudnnSetStream(handle_, stream());
    for (int i = 0; i < kElements; ++i) v_.get()[i] = bfloat16(static_cast<float>(i % 7));
  }
  ~Cudnn() override { cudnnDestroy(handle_); }

  fe::error_t run(const Graph& graph) {
    return graph.execute(handle_, pointers_, workspace_.get());
  }

  void expect_refusal(const std::function<void(Forward&)>& change, const std::string& words) {
    Forward forward;
    change(forward);
    const fe::error_t error = forward.build(handle_);
    EXPECT_NE(error.get_message().find(words), std::string::npos)
        << "expected '" << words << "', got '" << error.get_message() << "'";
  }
  void expect_refused_run(const std::function<void(std::unordered_map<int64_t, void*>&)>& change,
                          const std::string& words) {
    Forward forward;
    ASSERT_EQ(forward.build(handle_).get_message(), "");
    auto pointers = pointers_;
    change(pointers);
    const fe::error_t error = forward.graph.execute(handle_, pointers, workspace_.get());
    EXPECT_NE(error.get_message().find(words), std::string::npos) << error.get_message();
  }
  float statistic(int64_t b, int64_t h, int64_t t) const {
    return statistics_[(b * kHeads + h) * kLength + t];
  }

  const Environment on_{"TESSERA_EMULATOR_CUDNN", "1"};
  cudnnHandle_t handle_ = nullptr;
  // Queries and keys are zero, so that all visible keys have the same weight.
  const Visible<bfloat16> q_{kElements}, k_{kElements}, v_{kElements}, o_{kElements};
  const Visible<float> statistics_{kRowsOfHeads};
  const Visible<int32_t> query_lengths_{kBatch}, key_lengths_{kBatch};
  const Visible<std::byte> workspace_{1 << 12};
  std::unordered_map<int64_t, void*> pointers_ = {
      {kQ, q_.get()}, {kK, k_.get()}, {kV, v_.get()}, {kO, o_.get()}, {kStats, statistics_.get()}};
};

}  // namespace tessera::cuda::cudnn_test
