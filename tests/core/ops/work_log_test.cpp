#include "core/trace/work_log.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "core/ops/adamw.h"
#include "core/ops/attention.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/elementwise.h"
#include "core/ops/embedding.h"
#include "core/ops/layer_norm.h"
#include "core/ops/lion.h"
#include "core/ops/matmul.h"
#include "core/ops/meta/log_work.h"
#include "core/ops/meta/workspace_log.h"
#include "core/ops/muon.h"
#include "core/ops/pooling.h"
#include "core/ops/position_bias.h"
#include "core/ops/rows.h"
#include "core/ops/value_loss.h"
#include "core/trace/trace.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

Tensor on_meta(const Shape& shape, DType dtype = DType::bf16) {
  return {nullptr, shape, dtype, kMeta};
}

/// The work of the only kernel that `body` logs.
OpWork work_of(const std::function<void()>& body) {
  WorkLog log;
  {
    const WorkLog::Scope scope(&log);
    body();
  }
  EXPECT_EQ(log.events().size(), 1u);
  return log.events().empty() ? OpWork{} : log.events()[0].work;
}

TEST(WorkLog, NamesOpsAndTheRangesAroundThem) {
  WorkLog log;
  const Tensor x = on_meta({4});
  fill(x, 0.0);
  {
    const WorkLog::Scope scope(&log);
    const TraceRange outer("outer");
    fill(x, 0.0);
    {
      const TraceRange inner("inner");
      copy(x, on_meta({4}, DType::f32));
    }
    {
      const WorkLog::Scope none(nullptr);
      fill(x, 0.0);
    }
    std::thread([&] { fill(x, 0.0); }).join();
  }
  ASSERT_EQ(log.events().size(), 2u);
  EXPECT_EQ(log.events()[0].range, "outer");
  EXPECT_EQ(log.events()[0].op, "fill");
  EXPECT_EQ(log.events()[0].work, (OpWork{.bytes_written = 8}));
  EXPECT_EQ(log.events()[1].range, "outer/inner");
  EXPECT_EQ(log.events()[1].op, "copy");
  EXPECT_EQ(log.events()[1].work, (OpWork{.bytes_read = 8, .bytes_written = 16}));
}

// Not the tanh GELU, which is fused: the second kernel reads `hidden` again.
TEST(WorkLog, AddsKernelsToTheOuterOp) {
  WorkLog log;
  const WorkLog::Scope scope(&log);
  const Tensor hidden = on_meta({8, 16});
  for (int call = 0; call < 2; ++call) {
    linear_activation_forward(on_meta({8, 3}), on_meta({16, 3}), on_meta({16}), Activation::gelu,
                              hidden, on_meta({8, 16}));
  }
  ASSERT_EQ(log.events().size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(log.events()[i].op, "linear_activation_forward");
    EXPECT_EQ(log.events()[i].continues, i % 2 == 1);
  }
  EXPECT_EQ(log.events()[0].work.matmul_flops, 2 * 8 * 3 * 16);
  EXPECT_EQ(log.events()[1].work.bytes_read, 2 * 8 * 16);
}

TEST(WorkLog, RefusesWorkOutsideAnOp) {
  WorkLog log;
  const WorkLog::Scope scope(&log);
  test::expect_error([] { meta::log_work({.flops = 1.0}); }, {"without an OpRange"});
  const TraceRange layer("layer");
  test::expect_error([] { meta::log_work({.flops = 1.0}); }, {"without an OpRange"});
}

TEST(WorkLog, RepeatsWhatIsNew) {
  WorkLog log;
  const WorkLog::Scope scope(&log);
  fill(on_meta({1}), 0.0);
  fill(on_meta({1}), 0.0);
  log.repeat_since(1, 7);
  fill(on_meta({1}), 0.0);
  EXPECT_EQ(log.events()[0].times, 1);
  EXPECT_EQ(log.events()[1].times, 7);
  EXPECT_EQ(log.events()[2].times, 1);
}

// M = 8, K = 3, N = 16, in bf16 with fp32 gradients.
TEST(WorkOfOps, Products) {
  const Tensor x = on_meta({8, 3}), w = on_meta({16, 3}), bias = on_meta({16});
  const Tensor y = on_meta({8, 16}), active = on_meta({8, 16});
  const Tensor dw = on_meta({16, 3}, DType::f32), dbias = on_meta({16}, DType::f32);
  const double flops = 2 * 8 * 3 * 16;
  const double read_x = 2 * 8 * 3, read_w = 2 * 16 * 3, read_y = 2 * 8 * 16, read_bias = 2 * 16;

  EXPECT_EQ(work_of([&] { linear_forward(x, w, bias, y); }),
            (OpWork{flops, 8 * 16, read_x + read_w + read_bias, read_y}));
  EXPECT_EQ(work_of([&] { linear_backward_input(y, w, x); }),
            (OpWork{flops, 0, read_y + read_w, read_x}));
  EXPECT_EQ(work_of([&] { linear_backward_weight(y, x, dw, Accumulate::no); }),
            (OpWork{flops, 0, read_y + read_x, 4 * 16 * 3}));
  EXPECT_EQ(work_of([&] { linear_backward_weight(y, x, dw, Accumulate::yes); }),
            (OpWork{flops, 16 * 3, read_y + read_x + 4 * 16 * 3, 4 * 16 * 3}));
  EXPECT_EQ(work_of([&] { linear_backward_weight_bias(y, x, dw, Accumulate::no, dbias); }),
            (OpWork{flops, 8 * 16, read_y + read_x + 4 * 16, 4 * 16 * 3 + 4 * 16}));
  // As on a GPU, one kernel: the GELU reads nothing.
  const OpWork fused =
      work_of([&] { linear_activation_forward(x, w, bias, Activation::gelu_tanh, y, active); });
  EXPECT_EQ(fused.bytes_read, read_x + read_w + read_bias);
  EXPECT_EQ(fused.bytes_written, 2 * read_y);
  const OpWork back = work_of([&] {
    linear_activation_backward_input(x, on_meta({3, 16}), y, Activation::gelu_tanh, active);
  });
  EXPECT_EQ(back.bytes_read, read_x + read_w + read_y);
  EXPECT_EQ(back.bytes_written, read_y);
}

// 2 sequences of 5 rows, 3 heads of 4 columns.
TEST(WorkOfOps, Attention) {
  const Tensor qkv = on_meta({2, 5, 9, 4}), out = on_meta({2, 5, 3, 4});
  const Tensor sums = on_meta({2, 3, 5}, DType::f32);
  AttentionOptions options;
  options.total_heads = 3;
  const auto pairs = [&] {
    const OpWork work = work_of([&] { attention_forward(qkv, options, out, sums); });
    const OpWork back = work_of([&] { attention_backward(out, qkv, out, sums, options, qkv); });
    EXPECT_EQ(back.matmul_flops, 2.5 * work.matmul_flops);
    EXPECT_EQ(back.bytes_written, 2 * 2 * 5 * 3 * 3 * 4);
    EXPECT_EQ(work.bytes_written, 2 * 2 * 5 * 3 * 4 + 4 * 2 * 3 * 5);
    return work.matmul_flops / (4.0 * 4.0) / 3.0;  // of a head
  };
  EXPECT_EQ(pairs(), 2 * 5 * 5);
  options.mask.causal = true;
  EXPECT_EQ(pairs(), 2 * (1 + 2 + 3 + 4 + 5));
  options.mask.window = 2;
  EXPECT_EQ(pairs(), 2 * (1 + 2 + 2 + 2 + 2));
  options.mask.causal = false;
  EXPECT_EQ(pairs(), 2 * (2 + 3 + 3 + 3 + 2));
  options.mask = {};
  options.mask.documents = on_meta({6}, DType::i32);  // 5 documents of 2 rows on average
  EXPECT_EQ(pairs(), 5 * 2 * 2);

  // In fp32 without tensor cores.
  const Tensor wide = on_meta({2, 5, 9, 4}, DType::f32);
  options.mask = {};
  const OpWork work = work_of([&] {
    attention_forward(wide, options, on_meta({2, 5, 3, 4}, DType::f32), sums);
  });
  EXPECT_EQ(work.matmul_flops, 0.0);
  EXPECT_EQ(work.flops, (4 * 4 + 5) * 3 * 2 * 5 * 5 + 2 * 5 * 3 * 4);
}

// A bias costs an addition per pair, and its gradient the scores and their gradients again.
TEST(WorkOfOps, AttentionWithPositionBias) {
  const Tensor qkv = on_meta({2, 5, 9, 4}), out = on_meta({2, 5, 3, 4});
  const Tensor sums = on_meta({2, 3, 5}, DType::f32), table = on_meta({3, 9}, DType::f32);
  AttentionOptions options;
  options.total_heads = 3;
  const auto forward = [&] { attention_forward(qkv, options, out, sums); };
  const auto backward = [&] { attention_backward(out, qkv, out, sums, options, qkv); };
  const OpWork plain = work_of(forward), plain_back = work_of(backward);
  options.position_bias = table;
  const OpWork biased = work_of(forward), biased_back = work_of(backward);
  constexpr double kPairs = 2 * 3 * 5 * 5, kTable = 4 * 3 * 9;
  EXPECT_EQ(biased.matmul_flops, plain.matmul_flops);
  EXPECT_EQ(biased.flops, plain.flops + kPairs);
  EXPECT_EQ(biased.bytes_read, plain.bytes_read + kTable);
  EXPECT_EQ(biased_back.flops, plain_back.flops + kPairs);
  WorkspaceLog log(/*has_gpu=*/false);
  const WorkspaceLog::Scope scope(&log);
  const OpWork learned =
      work_of([&] { attention_backward(out, qkv, out, sums, options, qkv, table); });
  EXPECT_EQ(learned.matmul_flops, plain_back.matmul_flops * 7 / 5);
  EXPECT_EQ(learned.bytes_written, biased_back.bytes_written + kTable);
  // In fp32, for each head: at least 3 offsets between tiles of 16, with 31 distances each.
  EXPECT_GE(log.largest(), size_t{4 * 3 * 3 * 31});

  const Tensor weights = on_meta({8, 3});
  const RelativeBuckets buckets{8, 16, true};
  EXPECT_EQ(work_of([&] { alibi_bias(0, 3, table); }).bytes_written, kTable);
  const OpWork relative = work_of([&] { relative_bias(weights, buckets, table); });
  EXPECT_EQ(relative.bytes_read, 2 * 8 * 3);
  EXPECT_EQ(relative.bytes_written, kTable);
  const OpWork gradient = work_of([&] {
    relative_bias_backward(table, buckets, on_meta({8, 3}, DType::f32));
  });
  EXPECT_EQ(gradient.bytes_written, 4 * 8 * 3);
}

TEST(WorkOfOps, Norms) {
  const Tensor x = on_meta({6, 10}), weight = on_meta({10}), rows = on_meta({6}, DType::f32);
  const Tensor dweight = on_meta({10}, DType::f32);
  const OpWork forward = work_of([&] {
    bias_dropout_add_norm(x, weight, x, {}, x, weight, weight, 1e-5f, on_meta({6, 10}), rows, rows);
  });
  EXPECT_EQ(forward.bytes_read, 2 * 2 * 60 + 3 * 2 * 10);
  EXPECT_EQ(forward.bytes_written, 2 * 2 * 60 + 2 * 4 * 6);
  const OpWork backward =
      work_of([&] { layer_norm_backward(x, x, weight, rows, rows, x, x, dweight, dweight); });
  EXPECT_EQ(backward.bytes_read, 3 * 2 * 60 + 2 * 10 + 2 * 4 * 6 + 2 * 4 * 10);
  EXPECT_EQ(backward.bytes_written, 2 * 60 + 2 * 4 * 10);
  const OpWork with_addend =
      work_of([&] { layer_norm_backward(x, x, weight, rows, rows, x, x, dweight, dweight, x); });
  EXPECT_EQ(with_addend.bytes_read, backward.bytes_read + 2 * 60);
  EXPECT_EQ(with_addend.flops, backward.flops + 60);
}

TEST(WorkOfOps, AdamW) {
  const Tensor state = on_meta({100}, DType::f32), scale = on_meta({1}, DType::f32);
  const auto bytes = [&](const Tensor& value) {
    return work_of([&] { adamw_step({}, scale, state, state, state, state, value); }).bytes();
  };
  EXPECT_EQ(bytes(on_meta({100})), 4 + 100 * (4 * 4 + 3 * 4 + 2));
  EXPECT_EQ(bytes(state), 4 + 100 * (4 * 4 + 3 * 4));  // the value is the master
  const Tensor moment = on_meta({100});
  AdamW settings;
  settings.moment_rounding.emplace();
  EXPECT_EQ(
      work_of([&] { adamw_step(settings, scale, state, moment, moment, state, moment); }).bytes(),
      4 + 100 * (2 * 4 + 2 * 2 + 4 + 2 * 2 + 2));
}

TEST(WorkOfOps, LionAndMuon) {
  const Tensor state = on_meta({100}, DType::f32), scale = on_meta({1}, DType::f32);
  const Tensor rounded = on_meta({100});
  EXPECT_EQ(work_of([&] { lion_step({}, scale, state, state, state, rounded); }).bytes(),
            4 + 100 * (3 * 4 + 2 * 4 + 2));
  EXPECT_EQ(work_of([&] { lion_step({}, scale, state, state, state, state); }).bytes(),
            4 + 100 * (3 * 4 + 2 * 4));
  EXPECT_EQ(work_of([&] { muon_momentum({}, scale, state, state, rounded); }).bytes(),
            4 + 100 * (3 * 4 + 2));
  EXPECT_EQ(work_of([&] { muon_momentum({}, scale, state, state, {}); }).bytes(), 4 + 100 * 3 * 4);
  EXPECT_EQ(work_of([&] { muon_step({}, scale, rounded, state, rounded); }).bytes(),
            4 + 100 * (2 + 4 + 4 + 2));
}

TEST(WorkOfOps, Rows) {
  const Tensor ids = on_meta({7}, DType::i32), x = on_meta({7, 10});
  const OpWork forward = work_of([&] { embedding_forward(ids, on_meta({50, 10}), {0, 50}, x); });
  EXPECT_EQ(forward.bytes_read, 4 * 7 + 2 * 7 * 10);
  EXPECT_EQ(forward.bytes_written, 2 * 7 * 10);
  // A table with fewer rows than ids is read once.
  EXPECT_EQ(work_of([&] {
              embedding_forward(ids, on_meta({16, 10}), {0, 5}, x);
            }).bytes_read,
            4 * 7 + 2 * 5 * 10);
  const OpWork backward = work_of([&] {
    embedding_backward(ids, x, {0, 50}, on_meta({50, 10}, DType::f32));
  });
  EXPECT_EQ(backward.bytes_read, 4 * 7 + 2 * 7 * 10 + 4 * 7 * 10);
  EXPECT_EQ(backward.bytes_written, 4 * 7 * 10);
  EXPECT_EQ(work_of([&] {
              gather_rows(on_meta({50, 10}), ids, x);
            }).bytes(),
            4 * 7 + 2 * 2 * 7 * 10);
}

// 48 of 64 columns are of the vocabulary.
TEST(WorkOfOps, CrossEntropy) {
  const Tensor logits = on_meta({9, 64}), targets = on_meta({9}, DType::i32);
  const Tensor rows = on_meta({9}, DType::f32);
  EXPECT_EQ(
      work_of([&] { cross_entropy_statistics(logits, targets, 0, 48, rows, rows, rows); }).bytes(),
      2 * 9 * 48 + 4 * 9 + 3 * 4 * 9);
  EXPECT_EQ(work_of([&] { cross_entropy_gradient(logits, targets, 0, 48, rows, 1.0f); }).bytes(),
            2 * 9 * 48 + 2 * 9 * 64 + 2 * 4 * 9);
  EXPECT_EQ(work_of([&] {
              cross_entropy_with_gradient(logits, targets, 48, 1.0f, rows, rows, rows);
            }).bytes(),
            2 * 9 * 48 + 2 * 9 * 64 + 4 * 9 + 3 * 4 * 9);
}

TEST(WorkOfOps, Pooling) {
  const Tensor x = on_meta({9, 4}), documents = on_meta({3}, DType::i32);
  const Tensor pooled = on_meta({2, 4}), y = on_meta({9, 4}, DType::f32);
  const Tensor norms = on_meta({9}, DType::f32);
  EXPECT_EQ(work_of([&] { pool_mean(x, documents, pooled); }).bytes(), 2 * 36 + 4 * 3 + 2 * 8);
  EXPECT_EQ(work_of([&] { pool_mean_backward(pooled, documents, x); }).bytes(),
            2 * 8 + 4 * 3 + 2 * 2 * 36);
  EXPECT_EQ(work_of([&] { normalize_rows(x, 1.0f, y, norms); }).bytes(), (2 + 4) * 36 + 4 * 9);
  EXPECT_EQ(work_of([&] { normalize_rows_backward(y, y, 1.0f, norms, x); }).bytes(),
            (4 + 4 + 2) * 36 + 4 * 9);
}

TEST(WorkOfOps, ValueLoss) {
  const Tensor logits = on_meta({9, 4}), targets = on_meta({9, 4}, DType::f32);
  const Tensor sum = on_meta({1}, DType::f64);
  EXPECT_EQ(work_of([&] { value_loss(logits, targets, ValueLoss::mse, sum); }).bytes(),
            (2 + 4) * 36 + 2 * 8);
  EXPECT_EQ(work_of([&] { value_loss_gradient(logits, targets, ValueLoss::mse, 1.0f); }).bytes(),
            (2 + 2 + 4) * 36);
}

}  // namespace
}  // namespace tessera
