// A block, or some warps, per row: see large_tensors.h.

#include <limits>
#include <vector>

#include "core/ops/activation.h"
#include "core/ops/attention.h"
#include "core/ops/columns.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/cuda/attention/cudnn_layouts.h"
#include "core/ops/cuda/column_sums.h"
#include "core/ops/cuda/matmul/matmul.h"
#include "core/ops/embedding.h"
#include "core/ops/key_values.h"
#include "core/ops/layer_norm.h"
#include "core/ops/pooling.h"
#include "core/ops/position_bias.h"
#include "core/ops/query_groups.h"
#include "core/ops/reduce.h"
#include "core/ops/rotary.h"
#include "core/ops/rows.h"
#include "tests/emulator/tests/large_tensors.h"

namespace tessera {
namespace {

using namespace test;

TEST_P(LargeTensorsOf, LayerNorm) {
  const DType dtype = GetParam();
  for (const int64_t columns : {1024, 8192, 1023}) {  // a warp per row, a block, unaligned
    const Shape shape = rows_of(columns);
    const Both x(shape, dtype, 1), y(shape, dtype);
    const PerRow mean(shape), rstd(shape);
    const OwnedTensor weight = on_gpu(random_tensor({columns}, dtype, 2).tensor);
    run_both([&](auto of) {
      layer_norm_forward(of(x), weight.tensor, weight.tensor, 1e-5f, of(y), of(mean), of(rstd));
    });
    y.expect_same("y");
    mean.expect_same("mean");
    rstd.expect_same("rstd");
  }
}

TEST_P(LargeTensorsOf, NormOfBranchEnd) {
  const DType dtype = GetParam();
  const Shape shape = rows_of(1024);
  const Both x(shape, dtype, 1), residual(shape, dtype, 2), sum(shape, dtype), y(shape, dtype);
  const PerRow mean(shape), rstd(shape);
  const OwnedTensor weight = on_gpu(random_tensor({1024}, dtype, 3).tensor);
  run_both([&](auto of) {
    bias_dropout_add_norm(of(x), weight.tensor, of(residual),
                          dropout_of(of(x), RandomPurpose::mlp_dropout, shape[0]), of(sum),
                          weight.tensor, weight.tensor, 1e-5f, of(y), of(mean), of(rstd));
  });
  sum.expect_same("sum");
  y.expect_same("y");
}

TEST_P(LargeTensorsOf, NormGradient) {
  const DType dtype = GetParam();
  cuda::use_multiprocessors(1024);  // so that a block has few rows
  for (const int64_t columns : {1024, 8192, 1023}) {
    // A block of unaligned rows reads many pages.
    const Shape shape = rows_of(columns, columns == 1023 ? k2To32 / 2 : k2To32);
    const Both dy(shape, dtype, 1), x(shape, dtype, 2), residual(shape, dtype, 3);
    const Both dx(shape, dtype);
    const PerRow mean(shape, 4), rstd(shape, 5);
    const OwnedTensor weight = on_gpu(random_tensor({columns}, dtype, 6).tensor);
    const OwnedTensor dweight({columns}, DType::f32, kGpu), dbias({columns}, DType::f32, kGpu);
    run_both([&](auto of) {
      layer_norm_backward(of(dy), of(x), weight.tensor, of(mean), of(rstd), of(residual), of(dx),
                          dweight.tensor, dbias.tensor, of(residual));
    });
    dx.expect_same("dx");
  }
}

TEST_P(LargeTensorsOf, CrossEntropy) {
  const DType dtype = GetParam();
  // Whole packs, single elements, and rows that do not fit into shared memory.
  for (const int64_t vocab : {50304, 50257, 131072}) {
    const Shape shape = rows_of(vocab);
    const Both logits(shape, dtype, 1);
    Both targets({shape[0]}, DType::i32);
    targets.set(from_ints(std::vector{static_cast<int32_t>(vocab) - 1}, {1}).tensor);
    const PerRow row_max(shape), row_sum(shape), target_logit(shape), log_sum_exp(shape, 2);
    run_both([&](auto of) {
      cross_entropy_statistics(of(logits), of(targets), 0, vocab, of(row_max), of(row_sum),
                               of(target_logit));
    });
    row_max.expect_same("row_max");
    row_sum.expect_same("row_sum");
    target_logit.expect_same("target_logit");
    run_both([&](auto of) {
      cross_entropy_with_gradient(of(logits), of(targets), vocab, 0.5f, of(row_max), of(row_sum),
                                  of(target_logit));
    });
    logits.expect_same("gradient");
    target_logit.expect_same("target_logit");
    run_both([&](auto of) {
      cross_entropy_gradient(of(logits), of(targets), 0, vocab, of(log_sum_exp), 0.5f);
    });
    logits.expect_same("gradient");
  }
}

TEST_P(LargeTensorsOf, EmbeddingRows) {
  const DType dtype = GetParam();
  for (const int64_t columns : {4096, 4095}) {
    const Shape shape = rows_of(columns);
    const int64_t rows = shape[0];
    const Both table(shape, dtype, 1), x(shape, dtype, 2), out(shape, dtype);
    Both ids({rows}, DType::i32);
    const auto set_id = [&](int64_t id) {
      ids.set(from_ints(std::vector{static_cast<int32_t>(id)}, {1}).tensor);
    };
    set_id(rows - 1);
    run_both([&](auto of) {
      embedding_forward(of(ids), of(table), {rows - of(table).dim(0), rows}, of(out));
    });
    out.expect_same("embedding_forward");
    run_both([&](auto of) {
      set_id(of(table).dim(0) - 1);
      embedding_add(of(x), of(ids), of(table), of(out));
    });
    out.expect_same("embedding_add");
    run_both([&](auto of) { scatter_add_rows(of(x), of(ids), of(out), rows - of(out).dim(0)); });
    out.expect_same("scatter_add_rows");
  }
}

// The gradient of the last token, in the last columns. Scratch memory grows with dout, which is
// therefore smaller than the table.
TEST_P(LargeTensorsOf, EmbeddingGradient) {
  const DType dtype = GetParam();
  constexpr int64_t kWide = 32768, kTokens = k2To32 / 2 / kWide + 16, kRows = 2 * kTokens;
  const Both dtable({kRows, kWide}, DType::f32), dout({kTokens, kWide}, dtype, 1);
  Both ids({kTokens}, DType::i32);
  ids.set(from_ints(std::vector{static_cast<int32_t>(kRows) - 1}, {1}).tensor);
  run_both(
      [&](auto of) {
        embedding_backward(of(ids), of(dout), {kRows - of(dtable).dim(0), kRows}, of(dtable));
      },
      /*blocks=*/1, {"sort_ids"});
  const auto gradient = [&](const Tensor& table) { return to_doubles(on_host(table).tensor); };
  const std::vector<double> expected = gradient(dtable.small.tensor);
  const std::vector<double> actual = gradient(end_of(dtable.large.tensor));
  constexpr size_t kThreads = 64, kPack = 4;  // at least
  for (size_t c = kWide - kThreads * kPack; c < kWide; ++c) {
    ASSERT_EQ(actual[c], expected[c]) << c;
    ASSERT_NE(expected[c], 0.0) << c;
  }
}

TEST_P(LargeTensorsOf, Argmax) {
  const Shape shape = rows_of(50257);
  const Both x(shape, GetParam(), 1), best({shape[0]}, DType::i32);
  run_both([&](auto of) { argmax_rows(of(x), of(best)); });
  best.expect_same("argmax_rows");
}

TEST_P(LargeTensorsOf, ColumnsOfRanks) {
  constexpr int64_t kParts = 4, kWidth = 1024;
  const Shape shape = rows_of(kParts * kWidth);
  const int64_t rows = shape[0];
  const SparseTensor parts({kParts, rows, kWidth}, GetParam());
  const OwnedTensor small = on_gpu(random_tensor({kParts, 1, kWidth}, GetParam(), 1).tensor);
  for (int64_t part = 0; part < kParts; ++part) {
    const Tensor all = parts.tensor.slice(part, part + 1).view({rows, kWidth});
    copy(small.tensor.slice(part, part + 1).view({1, kWidth}), end_of(all));
  }
  const Both joined({rows, kParts * kWidth - 100}, DType::f32);
  join_columns(small.tensor, joined.small.tensor);
  const OnlyLastBlocks only(1);
  join_columns(parts.tensor, joined.large.tensor);
  joined.expect_same("join_columns");
}

TEST_P(LargeTensorsOf, CopiedColumns) {
  const int64_t rows = rows_of(1024)[0];
  const Both x({rows, 1024}, GetParam(), 1), out({rows, 1280}, GetParam());
  run_both([&](auto of) { copy_columns(of(x), 256, of(out), 512, 768); });
  out.expect_same("copy_columns");
}

TEST_P(LargeTensorsOf, GatedActivations) {
  constexpr int64_t kWidth = 1024;
  const int64_t rows = rows_of(kWidth)[0];
  const Both gate_up({rows, 2 * kWidth}, GetParam(), 1), y({rows, kWidth}, GetParam());
  const Both dy({rows, kWidth}, GetParam(), 2), dgate_up({rows, 2 * kWidth}, GetParam());
  run_both([&](auto of) { gated_activation_forward(of(gate_up), Activation::silu, of(y)); });
  y.expect_same("gated_activation_forward");
  run_both([&](auto of) {
    gated_activation_backward(of(dy), of(gate_up), Activation::silu, of(dgate_up));
  });
  dgate_up.expect_same("gated_activation_backward");
}

// The last document has the last row.
TEST_P(LargeTensorsOf, Pooling) {
  const DType dtype = GetParam();
  const Shape shape = rows_of(1024);
  const auto rows = static_cast<int32_t>(shape[0]);
  const Both x(shape, dtype, 1), vectors(shape, DType::f32), dx(shape, dtype);
  const SparseTensor documents({rows + 1}, DType::i32);
  const OwnedTensor last = on_gpu(from_ints(std::vector{rows - 1, rows}, {2}).tensor);
  copy(last.tensor, documents.tensor.slice(rows - 1, rows + 1));
  const auto documents_of = [&](const Tensor& of) {
    return of.dim(0) == 1 ? last.tensor : documents.tensor;
  };
  run_both(
      [&](auto of) { pool_mean(of(x), documents_of(of(x)), of(vectors), rows - of(x).dim(0)); });
  vectors.expect_same("pool_mean");
  run_both([&](auto of) {
    pool_mean_backward(of(vectors), documents_of(of(x)), of(dx), rows - of(x).dim(0));
  });
  dx.expect_same("pool_mean_backward");
}

TEST_P(LargeTensorsOf, NormalizedRows) {
  const Shape shape = rows_of(1024);
  const Both x(shape, GetParam(), 1), y(shape, DType::f32), dy(shape, DType::f32, 2);
  const Both dx(shape, GetParam());
  const PerRow inverse_norm(shape);
  run_both([&](auto of) { normalize_rows(of(x), 2.0f, of(y), of(inverse_norm)); });
  y.expect_same("normalize_rows");
  inverse_norm.expect_same("inverse_norm");
  run_both(
      [&](auto of) { normalize_rows_backward(of(dy), of(y), 2.0f, of(inverse_norm), of(dx)); });
  dx.expect_same("normalize_rows_backward");
}

TEST_P(LargeTensorsOf, AddBias) {
  for (const int64_t columns : {4096, 4095}) {
    const Both y(rows_of(columns), GetParam(), 1);
    const OwnedTensor bias = on_gpu(random_tensor({columns}, GetParam(), 2).tensor);
    run_both([&](auto of) { cuda::add_bias(bias.tensor, of(y), Accumulate::yes); });
    y.expect_same("add_bias");
  }
}

TEST_P(LargeTensorsOf, ColumnSum) {
  constexpr int64_t kWide = 8192;
  const Both x(rows_of(kWide), GetParam(), 1);
  const OwnedTensor sums({kWide}, DType::f32, kGpu);
  const auto sums_of = [&](const Tensor& tensor) {
    clear_workspace(256 * kWide * sizeof(float));
    fill(sums.tensor, 0.0);
    const OnlyLastBlocks only(1, {"a sum over rows"});
    column_sum(tensor, sums.tensor);
    return to_doubles(on_host(sums.tensor).tensor);
  };
  const std::vector<double> expected = sums_of(x.small.tensor), actual = sums_of(x.large.tensor);
  for (size_t c = kWide - size_t{4} * 32; c < kWide; ++c) {  // at least 32 packs of 4
    EXPECT_EQ(actual[c], expected[c]) << c;
    EXPECT_NE(expected[c], 0.0) << c;
  }
}

TEST_F(LargeTensors, PiecesOfColumnSums) {
  constexpr int64_t kWide = 65536, kPieces = k2To32 / kWide + 16;
  const Both partials({kPieces, kWide}, DType::f32, 1);
  const OwnedTensor sums({kWide}, DType::f32, kGpu);
  const auto sums_of = [&](const Tensor& tensor) {
    fill(sums.tensor, 0.0);
    const OnlyLastBlocks only(1);
    cuda::add_pieces(tensor.data<float>(), tensor.dim(0), 1, kWide, Accumulate::yes,
                     sums.tensor.data<float>(), nullptr);
    return to_doubles(on_host(sums.tensor).tensor);
  };
  const std::vector<double> expected = sums_of(partials.small.tensor);
  const std::vector<double> actual = sums_of(partials.large.tensor);
  for (size_t c = kWide - 32; c < kWide; ++c) {
    EXPECT_EQ(actual[c], expected[c]) << c;
    EXPECT_NE(expected[c], 0.0) << c;
  }
}

// --- positions and heads

TEST_P(LargeTensorsOf, Rotary) {
  constexpr int64_t kHeads = 16, kSize = 64, kTokens = 2 * k2To20;  // whole rounds of all threads
  static_assert(kTokens * 3 * kHeads * kSize > k2To32);
  const Both qkv({kTokens, 1, 3 * kHeads, kSize}, GetParam(), 1);
  const Both table({kTokens, kSize}, DType::f32, 2);
  run_both([&](auto of) { rotary_forward(of(table), 2 * kHeads, of(qkv)); });
  qkv.expect_same("rotary_forward");
}

TEST_P(LargeTensorsOf, QueryGroups) {
  const DType dtype = GetParam();
  constexpr int64_t kGroups = 4, kInGroup = 6, kSize = 128, kTokens = k2To20 + 16;
  constexpr int64_t kHeads = kGroups * (kInGroup + 2);
  static_assert(kTokens * kHeads * kSize > k2To32);
  constexpr uint64_t kBlocks = kHeads / 4;  // of four rows, or more
  const Both grouped({kTokens, 1, kGroups, kInGroup + 2, kSize}, dtype, 1);
  const Both qkv({kTokens, 1, kHeads, kSize}, dtype);
  const Both dgrouped({kTokens, 1, kGroups, kInGroup + 2, kSize}, dtype);
  run_both([&](auto of) { split_groups(of(grouped), of(qkv)); }, kBlocks);
  qkv.expect_same("split_groups");
  run_both([&](auto of) { split_groups_backward(of(qkv), of(dgrouped)); }, kBlocks);
  dgrouped.expect_same("split_groups_backward");

  const OwnedTensor weight = on_gpu(random_tensor({kSize}, dtype, 2).tensor);
  const QueryKeyNorm norm{weight.tensor, weight.tensor, 1e-6f};
  const Both rstd({kTokens, kGroups, kInGroup + 1}, DType::f32);
  const auto rstd_of = [&](auto of) {
    return of(rstd).view({of(rstd).dim(0) * kGroups, kInGroup + 1});
  };
  run_both([&](auto of) { normalize_and_split(of(grouped), norm, of(qkv), rstd_of(of)); }, kBlocks);
  qkv.expect_same("normalize_and_split");
  rstd.expect_same("rstd");
  const OwnedTensor dquery({kSize}, DType::f32, kGpu), dkey({kSize}, DType::f32, kGpu);
  run_both(
      [&](auto of) {
        normalize_and_split_backward(of(qkv), of(grouped), norm, rstd_of(of), of(dgrouped),
                                     dquery.tensor, dkey.tensor, Accumulate::no);
      },
      kBlocks);
  dgrouped.expect_same("normalize_and_split_backward");
}

TEST_F(LargeTensors, RotaryTable) {
  constexpr int64_t kSize = 512, kTokens = (2 * k2To32 + 8 * k2To20) / kSize;
  const Both table({kTokens, kSize}, DType::f32);
  Both positions({kTokens}, DType::i32);
  positions.set(from_ints(std::vector{1000}, {1}).tensor);
  run_both([&](auto of) { rotary_table(of(positions), {}, of(table)); });
  table.expect_same("rotary_table");
}

/// The last `count` numbers of the last row.
Tensor end_of_row(const Tensor& tensor, int64_t count) {
  const Tensor row = end_of(tensor);
  return row.view({row.numel()}).slice(row.numel() - count, row.numel());
}

void expect_same_end(const Both& both, const char* what) {
  const auto end = [](const Tensor& tensor) { return on_host(end_of_row(tensor, 200)); };
  expect_same_bits(end(both.large.tensor).tensor, end(both.small.tensor).tensor, what);
}

// A multiple of the elements that a grid has threads for, as above.
TEST_F(LargeTensors, AlibiTable) {
  constexpr int64_t kHeads = k2To20, kWidth = 4159;
  const Both table({kHeads, kWidth}, DType::f32);
  run_both([&](auto of) { alibi_bias(kHeads - of(table).dim(0), kHeads, of(table)); });
  expect_same_end(table, "alibi_bias");
}

TEST_F(LargeTensors, RelativeBiasTable) {
  constexpr int64_t kReach = k2To20, kWidth = 2 * kReach - 1, kHeads = 2100;
  static_assert(kHeads * kWidth > k2To32);
  const Both table({kHeads, kWidth}, DType::f32);
  // The last block has the last head's last bucket: that of the keys that are farthest behind.
  const RelativeBuckets buckets;
  const OwnedTensor all = on_gpu(random_tensor({buckets.count, kHeads}, DType::f32, 1).tensor);
  const OwnedTensor last({buckets.count, 1}, DType::f32, kGpu);
  copy_columns(all.tensor, kHeads - 1, last.tensor, 0, 1);
  run_both([&](auto of) {
    relative_bias(of(table).dim(0) == 1 ? last.tensor : all.tensor, buckets, of(table));
  });
  expect_same_end(table, "relative_bias");

  const Both gradient({kHeads, kWidth}, DType::f32, 2);
  fill(all.tensor, 0.0);
  fill(last.tensor, 0.0);
  run_both([&](auto of) {
    relative_bias_backward(of(gradient), buckets,
                           of(gradient).dim(0) == 1 ? last.tensor : all.tensor);
  });
  const auto sum_of = [](const OwnedTensor& sums) { return on_host(end_of_row(sums.tensor, 1)); };
  expect_same_bits(sum_of(all).tensor, sum_of(last).tensor, "relative_bias_backward");
  EXPECT_NE(test::to_doubles(sum_of(last).tensor)[0], 0.0);
}

TEST_F(LargeTensors, StatisticsForCudnn) {
  constexpr int64_t kLength = 64, kHeads = 16, kDocuments = (k2To32 / kHeads + k2To20) / kLength;
  const Both by_rows({kDocuments, kLength, kHeads}, DType::f32, 1);
  const Both in_blocks({kDocuments, kHeads, kLength}, DType::f32);
  run_both([&](auto of) {
    const int64_t rows = of(by_rows).dim(0) * kLength;
    cuda::copy_statistics(
        of(by_rows).template data<float>(), cuda::statistics_in_rows(kHeads, rows),
        of(in_blocks).template data<float>(), cuda::statistics_in_blocks(kHeads, rows, kLength));
  });
  // The last block has the last head.
  const auto end = [](const Tensor& tensor) { return on_host(end_of_row(tensor, kLength)); };
  expect_same_bits(end(in_blocks.large.tensor).tensor, end(in_blocks.small.tensor).tensor,
                   "copy_statistics");
}

// All rows of the documents are beyond their queries and keys.
TEST_F(LargeTensors, RowsThatCudnnSkips) {
  constexpr int64_t kLength = 64, kHeads = 16, kSize = 32, kDocuments = 128 * 1024 + 512;
  static_assert(kDocuments * kLength * kHeads * kSize > k2To32);
  const Both out({kDocuments, kLength, kHeads, kSize}, DType::bf16, 1);
  const Both gradient({kDocuments, kLength, 3 * kHeads, kSize}, DType::bf16, 2);
  const Both log_sum_exp({kDocuments, kHeads, kLength}, DType::f32, 3);
  const OwnedTensor none({kDocuments + 8}, DType::i32, kGpu);
  fill(none.tensor, 0.0);
  run_both([&](auto of) {
    const int64_t count = of(out).dim(0);
    const cuda::DocumentPlaces places{count, kLength, kLength, /*ragged=*/false};
    cuda::DocumentTables tables{};
    tables.documents = count;
    tables.query_lengths = tables.key_lengths = none.tensor.data<int32_t>();
    cuda::clear_blind_rows({}, places, tables,
                           cuda::statistics_in_blocks(kHeads, count * kLength, kLength), of(out),
                           of(log_sum_exp).template data<float>());
    cuda::clear_blind_gradients({}, places, tables, kHeads, of(gradient));
  });
  for (const Both* cleared : {&out, &gradient, &log_sum_exp}) {
    const auto end = [](const Tensor& tensor) { return on_host(end_of_row(tensor, 1)); };
    const OwnedTensor expected = end(cleared->small.tensor);
    expect_same_bits(end(cleared->large.tensor).tensor, expected.tensor, "cleared rows");
    EXPECT_EQ(to_doubles(expected.tensor)[0],
              cleared == &log_sum_exp ? -std::numeric_limits<double>::infinity() : 0.0);
  }
}

TEST_P(LargeTensorsOf, KeyValueCache) {
  const DType dtype = GetParam();
  constexpr int64_t kSequences = 4096 + 16, kHeads = 32, kCapacity = 1024, kSize = 32;
  static_assert(kSequences * kHeads * kCapacity * kSize > k2To32);
  const Both qkv({kSequences, 2, 3 * kHeads, kSize}, dtype, 1);
  const Shape cache{kSequences, kHeads, kCapacity, kSize}, heads{kSequences, kHeads, kSize};
  const Both keys(cache, dtype), values(cache, dtype), q(heads, dtype, 2), out(heads, dtype);
  run_both([&](auto of) { store_key_values(of(qkv), kCapacity - 2, of(keys), of(values)); },
           /*blocks=*/2);
  keys.expect_same("keys");
  values.expect_same("values");
  AttentionOptions window;
  window.mask.window = 100;
  window.scale = 0.125f;
  // Two chunks of keys per head.
  run_both(
      [&](auto of) { attention_decode(of(q), of(keys), of(values), kCapacity, window, of(out)); },
      /*blocks=*/2 * kHeads);
  out.expect_same("attention_decode");
}

TEST_P(LargeTensorsOf, AttentionWithMaskAndDropout) {
  const DType dtype = GetParam();
  constexpr int64_t kSequences = 66000, kLength = 64, kHeads = 16, kSize = 32;
  static_assert(kSequences * kLength * 3 * kHeads * kSize > k2To32);
  static_assert(kSequences * kHeads * kLength * kLength > k2To32);
  const Shape pairs{kSequences, kHeads, kLength, kLength};
  const Both qkv({kSequences, kLength, 3 * kHeads, kSize}, dtype, 1);
  const Both added(pairs, DType::f32, 2), weights(pairs, DType::f32);
  const Both out({kSequences, kLength, kHeads, kSize}, dtype);
  const Both log_sum_exp({kSequences, kHeads, kLength}, DType::f32);
  const auto options = [&](auto of) {
    AttentionOptions result;
    result.scale = 0.125f;
    result.total_heads = kHeads;
    result.mask.additive = of(added);
    result.dropout = dropout_of(of(qkv), RandomPurpose::attention_dropout, kSequences);
    return result;
  };
  run_both([&](auto of) { attention_forward(of(qkv), options(of), of(out), of(log_sum_exp)); },
           kHeads);
  out.expect_same("out");
  log_sum_exp.expect_same("log_sum_exp");
  run_both([&](auto of) { attention_weights(of(qkv), of(log_sum_exp), options(of), of(weights)); },
           kHeads);
  weights.expect_same("weights");
}

// Large heads, because a kernel goes through all rows of heads. Their number is a multiple of its
// warps, and the last `kBlocks` blocks have those of the last sequence.
TEST_P(LargeTensorsOf, AttentionGradient) {
  const DType dtype = GetParam();
  constexpr int64_t kLength = 64, kHeads = 2, kBlocks = kLength * kHeads / 8;
  for (const int64_t size : {128, 250}) {  // tensor cores in bf16, unaligned
    const int64_t sequences = round_up(k2To32 / (kLength * 3 * kHeads * size) + 1, 256);
    const Shape qkv_shape{sequences, kLength, 3 * kHeads, size};
    const Shape out_shape{sequences, kLength, kHeads, size};
    const Both qkv(qkv_shape, dtype, 1), dqkv(qkv_shape, dtype);
    const Both out(out_shape, dtype), dout(out_shape, dtype, 2);
    const Both log_sum_exp({sequences, kHeads, kLength}, DType::f32);
    AttentionOptions options;
    options.scale = 0.0625f;
    options.total_heads = kHeads;
    options.mask.causal = true;
    run_both([&](auto of) { attention_forward(of(qkv), options, of(out), of(log_sum_exp)); },
             kBlocks);
    out.expect_same("out");
    run_both(
        [&](auto of) {
          attention_backward(of(dout), of(qkv), of(out), of(log_sum_exp), options, of(dqkv));
        },
        kBlocks);
    dqkv.expect_same("dqkv");
  }
}

}  // namespace
}  // namespace tessera
