#include "tests/emulator/cudnn/fixture.h"

namespace tessera::cuda::cudnn_test {
namespace {

TEST_F(Cudnn, RefusesAllGraphsUnlessEnabled) {
  const Environment off("TESSERA_EMULATOR_CUDNN", "0");
  expect_refusal([](Forward&) {}, "TESSERA_EMULATOR_CUDNN=1");
}

TEST_F(Cudnn, RefusesUndocumentedGraphs) {
  const auto change = [&](auto&& f, const char* words) { expect_refusal(f, words); };
  change([](Forward& f) { f.attributes = {}; }, "generate_stats is not set");
  change([](Forward& f) { f.k = nullptr; }, "K is not set");
  change([](Forward& f) { f.k->set_uid(kQ); }, "two tensors have uid 1");
  change([](Forward& f) { *f.v = Tensor_attributes().set_uid(kV); }, "V has no data type");
  change([](Forward& f) { f.q->set_data_type(fe::DataType_t::FLOAT); }, "Q must be BFLOAT16");
  change([](Forward& f) { f.q->set_stride({96, 1, 16, 8}); }, "last dimension must be 1");
  change([](Forward& f) { f.q->set_stride({96, 8, 12, 1}); }, "not a multiple of 16 bytes");
  change([](Forward& f) { f.k->set_dim({kBatch, kHeads, 5, kFeatures}); }, "K must have dims");
  change([](Forward& f) { f.attributes.set_diagonal_band_left_bound(0); }, "left bound");
  change([](Forward& f) { f.attributes.set_diagonal_band_right_bound(-1); }, "right bound");
  change([](Forward& f) { f.attributes.set_padding_mask(true); }, "seq_len_q");
  change([](Forward& f) { f.attributes.set_dropout(0.5f, nullptr, nullptr); }, "Seed is not set");
  const auto number = [](int64_t uid) {
    return std::make_shared<Tensor_attributes>(integers(uid, 1));
  };
  change([&](Forward& f) { f.attributes.set_dropout(0.5f, number(98), number(99)); },
         "Seed must be INT64");
  change([&](Forward& f) { f.attributes.set_dropout(1.0f, number(98), number(99)); },
         "probability cannot be 1");
  change(
      [](Forward& f) {
        f.pad();
        f.attributes.set_padding_mask(false);
      },
      "require a padding mask");
  change(
      [](Forward& f) {
        f.q->set_ragged_offset(std::make_shared<Tensor_attributes>(integers(kOffsets, kBatch + 1)));
      },
      "only supported with a padding mask");
  change(
      [](Forward& f) {
        f.pad();
        f.q->set_ragged_offset(std::make_shared<Tensor_attributes>(integers(kOffsets, kBatch)));
      },
      "ragged offset must have dims {3, 1, 1, 1}");
  change(
      [](Forward& f) {
        auto bias = operand(kOffsets).set_dim({1, 1, kLength, 3}).set_stride({18, 18, 3, 1});
        f.attributes.set_bias(std::make_shared<Tensor_attributes>(bias));
      },
      "Bias must have dims");
  change([](Forward& f) { f.change_results = [](Tensor o, Tensor) { o->set_output(false); }; },
         "O is virtual");
  change(
      [](Forward& f) {
        f.change_results = [](Tensor, Tensor stats) { stats->set_stride({12, 1, 2, 1}); };
      },
      "Stats that are not ragged must be packed");
}

TEST_F(Cudnn, RefusesGradientsUnsupportedOnHopperOrAmpere) {
  const auto message = [&](int64_t features, bool ragged, int sm_version, bool limited) {
    Graph graph;
    graph.set_io_data_type(fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT)
        .set_sm_version(sm_version);
    const auto offsets = graph.tensor(integers(kOffsets, kBatch + 1));
    const auto make = [&](int64_t uid) {
      Tensor_attributes tensor = operand(uid);
      tensor.set_dim({kBatch, kHeads, kLength, features});
      tensor.set_stride({kLength * kHeads * features, features, kHeads * features, 1});
      if (ragged) tensor.set_ragged_offset(offsets);
      return tensor;
    };
    SDPA_backward_attributes attributes;
    attributes.set_deterministic_algorithm(true);
    if (limited) attributes.set_max_total_seq_len_q(kLength);
    if (ragged) {
      attributes.set_padding_mask(true)
          .set_seq_len_q(graph.tensor(integers(kQueryLengths, kBatch)))
          .set_seq_len_kv(graph.tensor(integers(kKeyLengths, kBatch)));
    }
    const auto stats = graph.tensor(Tensor_attributes()
                                        .set_uid(kStats)
                                        .set_data_type(fe::DataType_t::FLOAT)
                                        .set_dim({kBatch, kHeads, kLength, 1})
                                        .set_stride({kHeads * kLength, kLength, 1, 1}));
    const auto gradients =
        graph.sdpa_backward(graph.tensor(make(kQ)), graph.tensor(make(kK)), graph.tensor(make(kV)),
                            graph.tensor(make(kO)), graph.tensor(make(20)), stats, attributes);
    for (int64_t i = 0; i < 3; ++i) *gradients[static_cast<size_t>(i)] = make(21 + i);
    return graph.build(handle_, {fe::HeurMode_t::A}).get_message();
  };
  EXPECT_EQ(message(64, false, 90, false), "");
  EXPECT_EQ(message(64, true, 90, true), "");
  EXPECT_EQ(message(256, false, 90, false), "");
  EXPECT_NE(message(256, false, 80, false).find("at most 128"), std::string::npos);
  EXPECT_NE(message(64, true, 80, false).find("Deterministic"), std::string::npos);
  EXPECT_NE(message(64, false, 90, true).find("requires ragged tensors"), std::string::npos);
}

TEST_F(Cudnn, RefusesInvalidPointers) {
  std::vector<bfloat16> on_host(kElements);
  expect_refused_run([](auto& pointers) { pointers.erase(kV); }, "Uid 3 not found");
  expect_refused_run([&](auto& pointers) { pointers[99] = q_.get(); }, "has 6 tensors");
  expect_refused_run([](auto& pointers) { pointers[kQ] = nullptr; }, "not memory of the GPU");
  expect_refused_run([&](auto& pointers) { pointers[kQ] = on_host.data(); }, "not memory of");
  expect_refused_run([&](auto& pointers) { pointers[kQ] = q_.get() + 8; }, "not memory of");
  expect_refused_run([&](auto& pointers) { pointers[kQ] = q_.get() + 1; }, "not aligned");
  Forward forward;
  ASSERT_TRUE(forward.build(handle_).is_good());
  int64_t bytes = 0;
  ASSERT_TRUE(forward.graph.get_workspace_size(bytes).is_good());
  const auto* end = workspace_.get() + (1 << 12);
  const fe::error_t error =
      forward.graph.execute(handle_, pointers_, const_cast<std::byte*>(end - bytes + 1));
  EXPECT_NE(error.get_message().find("the workspace"), std::string::npos) << error.get_message();
}

}  // namespace
}  // namespace tessera::cuda::cudnn_test
