// Measures the time of each op on a GPU, and its share of the card's limit: necessary bytes at the
// memory's bandwidth, or FLOPs at the data sheet's peak. Also measures products with and without
// cuBLASLt's epilogues, and prints rows for core/ops/cuda/matmul/fusions.h. Prints one line of JSON
// per op:
//
//     kernel_times [--tiny]
//
// Sizes are those of a micro-batch of GPT-2 124M, 32 × 1024 tokens, in bf16, too large for the
// caches. --tiny uses small sizes, for a trial on an emulated GPU, whose times are meaningless.

#include <cuda_runtime.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "core/checked.h"
#include "core/cuda/runtime.h"
#include "core/deterministic.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/ops/activation.h"
#include "core/ops/adamw.h"
#include "core/ops/attention.h"
#include "core/ops/block_codes.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/cuda/attention/cudnn_attention.h"
#include "core/ops/cuda/matmul/fusions.h"
#include "core/ops/cuda/matmul/matmul.h"
#include "core/ops/device_ops.h"
#include "core/ops/dropout.h"
#include "core/ops/elementwise.h"
#include "core/ops/ema.h"
#include "core/ops/embedding.h"
#include "core/ops/fp8.h"
#include "core/ops/layer_norm.h"
#include "core/ops/matmul.h"
#include "core/ops/reduce.h"
#include "core/ops/rotary.h"
#include "core/ops/rows.h"
#include "launch/metrics/gpu_peaks.h"
#include "parallel/layers/partition.h"
#include "parallel/layers/vocab_parallel_loss.h"

namespace tessera {
namespace {

constexpr Device kGpu{DeviceType::cuda, 0};

struct Sizes {
  int64_t sequences = 32, length = 1024, heads = 12, head_dim = 64, vocab = 50304;
  int64_t loss_rows = VocabParallelLoss::kChunkRows;
  int64_t parameters = 124'000'000;

  int64_t rows() const { return sequences * length; }
  int64_t width() const { return heads * head_dim; }
};

/// The work that an op must do at least.
struct Floor {
  double bytes = 0.0;
  double flops = 0.0;
};

/// The card's peaks; none if unknown.
struct Peaks {
  std::optional<double> bandwidth, bf16;
};

/// Bytes per second, from clock and width of the memory bus: two transfers per clock.
std::optional<double> peak_bandwidth() {
#ifdef CUDART_VERSION
  int kilohertz = 0, bits = 0;
  if (cudaDeviceGetAttribute(&kilohertz, cudaDevAttrMemoryClockRate, 0) == cudaSuccess &&
      cudaDeviceGetAttribute(&bits, cudaDevAttrGlobalMemoryBusWidth, 0) == cudaSuccess &&
      kilohertz > 0 && bits > 0) {
    return 2.0 * 1e3 * kilohertz * bits / 8.0;
  }
#endif
  return std::nullopt;
}

OwnedTensor zeros(const Shape& shape, DType dtype) { return {shape, dtype, kGpu}; }

/// Ordinary numbers: a card's clock depends on how many bits toggle.
OwnedTensor normal(const Shape& shape, DType dtype, float stddev = 1.0f) {
  constexpr int64_t kOnHost = 1 << 20;  // elements, repeated
  const int64_t n = shape.numel();
  const OwnedTensor numbers({std::min(n, kOnHost)}, DType::f32);
  random_normal({1, RandomPurpose::init, 0, 0}, stddev, 0, numbers.tensor.numel(),
                numbers.tensor.data<float>());
  const OwnedTensor wide = zeros(numbers.tensor.shape(), DType::f32);
  copy(numbers.tensor, wide.tensor);
  OwnedTensor result = zeros(shape, dtype);
  const Tensor flat = result.tensor.view({n});
  for (int64_t i = 0; i < n; i += kOnHost) {
    const int64_t end = std::min(n, i + kOnHost);
    copy(wide.tensor.slice(0, end - i), flat.slice(i, end));
  }
  return result;
}

/// int32 value(i) for i < n.
template <typename Value>
OwnedTensor ints(int64_t n, Value value) {
  const OwnedTensor on_host({n}, DType::i32);
  for (int64_t i = 0; i < n; ++i)
    on_host.tensor.data<int32_t>()[i] = static_cast<int32_t>(value(i));
  OwnedTensor result = zeros({n}, DType::i32);
  copy(on_host.tensor, result.tensor);
  return result;
}

/// int32 numbers below `end` in random-like order.
OwnedTensor ids(int64_t n, int64_t end) {
  return ints(n, [end](int64_t i) { return i * 7919 % end; });
}

/// The tensors that attention reads and writes.
struct AttentionTensors {
  OwnedTensor qkv, dqkv, out, dout, sums;
  AttentionOptions options;  ///< without a mask

  explicit AttentionTensors(const Sizes& sizes) {
    const Shape shape = {sizes.sequences, sizes.length, sizes.heads, sizes.head_dim};
    const Shape all = {sizes.sequences, sizes.length, 3 * sizes.heads, sizes.head_dim};
    qkv = normal(all, DType::bf16), dqkv = zeros(all, DType::bf16);
    out = zeros(shape, DType::bf16), dout = normal(shape, DType::bf16);
    sums = zeros({sizes.sequences, sizes.heads, sizes.length}, DType::f32);
    options.scale = 1.0f / std::sqrt(static_cast<float>(sizes.head_dim));
    options.total_heads = sizes.heads;
  }
};

class Table {
 public:
  Table(Sizes sizes, Peaks peaks) : sizes_(sizes), peaks_(peaks) {}

  void all() {
    elementwise();
    norms();
    embeddings();
    losses();
    optimizer();
    products();
    attention();
    attention_by_each();
    attention_decode_of(1);
    attention_decode_of(sizes_.sequences);
  }

 private:
  /// Seconds per call, in a long sequence of calls.
  static double time_of(const std::function<void()>& op) {
    constexpr double kLongEnough = 0.04;
    const auto run = [&](int times) {
      cuda::synchronize();
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < times; ++i) op();
      cuda::synchronize();
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
      return elapsed.count() / times;
    };
    const double first = run(1);  // compiles and grows the workspace
    if (cuda::is_emulated()) return first;
    const double guess = run(3);
    return run(static_cast<int>(std::clamp(kLongEnough / guess, 3.0, 1000.0)));
  }

  void measure(const char* name, const Floor& floor, const std::function<void()>& op) {
    const double seconds = time_of(op);
    const auto share = [&](double amount, const std::optional<double>& peak) {
      return peak && amount > 0.0 ? fmt::format("{:.3f}", amount / seconds / *peak) : "null";
    };
    fmt::print(
        "measured: {{\"what\": \"kernel\", \"kernel\": \"{}\", \"microseconds\": {:.1f}, "
        "\"bytes\": "
        "{:.0f}, \"flops\": {:.0f}, \"share_of_bandwidth\": {}, \"share_of_flops\": {}}}\n",
        name, 1e6 * seconds, floor.bytes, floor.flops, share(floor.bytes, peaks_.bandwidth),
        share(floor.flops, peaks_.bf16));
    std::fflush(stdout);
  }

  double bytes_of(int64_t elements, DType dtype = DType::bf16) const {
    return static_cast<double>(elements) * static_cast<double>(size_of(dtype));
  }

  void elementwise() {
    const Shape wide = {sizes_.rows(), 4 * sizes_.width()},
                narrow = {sizes_.rows(), sizes_.width()};
    const OwnedTensor a = normal(wide, DType::bf16), b = normal(wide, DType::bf16);
    const OwnedTensor c = zeros(wide, DType::bf16), sums = zeros({wide[1]}, DType::f32);
    const double one = bytes_of(wide.numel());
    measure("copy", {2 * one}, [&] { copy(a.tensor, c.tensor); });
    measure("add", {3 * one}, [&] { add(a.tensor, b.tensor, c.tensor); });
    measure("activation_forward", {2 * one},
            [&] { activation_forward(a.tensor, Activation::gelu_tanh, c.tensor); });
    measure("activation_backward", {3 * one},
            [&] { activation_backward(a.tensor, b.tensor, Activation::gelu_tanh, c.tensor); });
    measure("column_sum", {one}, [&] { column_sum(a.tensor, sums.tensor); });

    const OwnedTensor x = normal(narrow, DType::bf16), y = normal(narrow, DType::bf16);
    const OwnedTensor z = zeros(narrow, DType::bf16), bias = normal({narrow[1]}, DType::bf16);
    const double less = bytes_of(narrow.numel());
    Dropout dropout;
    measure("bias_add", {3 * less},
            [&] { bias_dropout_add(x.tensor, bias.tensor, y.tensor, dropout, z.tensor); });
    dropout.probability = 0.1f;
    measure("bias_dropout_add", {3 * less},
            [&] { bias_dropout_add(x.tensor, bias.tensor, y.tensor, dropout, z.tensor); });
    measure("dropout", {2 * less}, [&] { dropout_forward(x.tensor, dropout, z.tensor); });
  }

  void norms() {
    const Shape shape = {sizes_.rows(), sizes_.width()};
    const OwnedTensor x = normal(shape, DType::bf16), dy = normal(shape, DType::bf16);
    const OwnedTensor y = zeros(shape, DType::bf16), weight = normal({shape[1]}, DType::bf16);
    const OwnedTensor mean = zeros({shape[0]}, DType::f32), rstd = zeros({shape[0]}, DType::f32);
    const OwnedTensor dweight = zeros({shape[1]}, DType::f32),
                      dbias = zeros({shape[1]}, DType::f32);
    const double one = bytes_of(shape.numel());
    measure("layer_norm_forward", {2 * one}, [&] {
      layer_norm_forward(x.tensor, weight.tensor, weight.tensor, 1e-5f, y.tensor, mean.tensor,
                         rstd.tensor);
    });
    // Compare with the op above and bias_dropout_add.
    const OwnedTensor sum = zeros(shape, DType::bf16);
    Dropout dropout;
    dropout.probability = 0.1f;
    measure("bias_dropout_add_norm", {4 * one}, [&] {
      bias_dropout_add_norm(x.tensor, weight.tensor, dy.tensor, dropout, sum.tensor, weight.tensor,
                            weight.tensor, 1e-5f, y.tensor, mean.tensor, rstd.tensor);
    });
    measure("layer_norm_backward", {4 * one}, [&] {
      layer_norm_backward(dy.tensor, x.tensor, weight.tensor, mean.tensor, rstd.tensor, y.tensor,
                          y.tensor, dweight.tensor, dbias.tensor);
    });
  }

  void embeddings() {
    const Shape shape = {sizes_.rows(), sizes_.width()};
    const OwnedTensor table = normal({sizes_.vocab, sizes_.width()}, DType::bf16);
    const OwnedTensor gradient = zeros({sizes_.vocab, sizes_.width()}, DType::f32);
    const OwnedTensor tokens = ids(sizes_.rows(), sizes_.vocab), x = zeros(shape, DType::bf16);
    const Range all{0, sizes_.vocab};
    const double one = bytes_of(shape.numel());
    measure("embedding_forward", {2 * one},
            [&] { embedding_forward(tokens.tensor, table.tensor, all, x.tensor); });
    // Each row that occurs is read and written once.
    const int64_t rows = std::min(sizes_.rows(), sizes_.vocab);
    measure("embedding_backward", {one + 2 * bytes_of(rows * sizes_.width(), DType::f32)},
            [&] { embedding_backward(tokens.tensor, x.tensor, all, gradient.tensor); });
    const OwnedTensor half = zeros({sizes_.rows() / 2, sizes_.width()}, DType::bf16);
    const OwnedTensor rows_of = ids(sizes_.rows() / 2, sizes_.rows());
    measure("gather_rows", {one}, [&] { gather_rows(x.tensor, rows_of.tensor, half.tensor); });
    measure("scatter_add_rows", {1.5 * one},
            [&] { scatter_add_rows(half.tensor, rows_of.tensor, x.tensor); });
  }

  void losses() {
    const int64_t rows = sizes_.loss_rows;
    const OwnedTensor logits = normal({rows, sizes_.vocab}, DType::bf16);
    const OwnedTensor targets = ids(rows, sizes_.vocab), largest = zeros({rows}, DType::i32);
    const OwnedTensor maximum = zeros({rows}, DType::f32), sum = zeros({rows}, DType::f32);
    const OwnedTensor target = zeros({rows}, DType::f32);
    const double one = bytes_of(rows * sizes_.vocab);
    measure("cross_entropy_statistics", {one}, [&] {
      cross_entropy_statistics(logits.tensor, targets.tensor, 0, sizes_.vocab, maximum.tensor,
                               sum.tensor, target.tensor);
    });
    measure("argmax_rows", {one}, [&] { argmax_rows(logits.tensor, largest.tensor); });
    measure("cross_entropy_gradient", {2 * one}, [&] {
      cross_entropy_gradient(logits.tensor, targets.tensor, 0, sizes_.vocab, maximum.tensor, 1.0f);
    });
    measure("cross_entropy_with_gradient", {2 * one}, [&] {
      cross_entropy_with_gradient(logits.tensor, targets.tensor, sizes_.vocab, 1.0f, maximum.tensor,
                                  sum.tensor, target.tensor);
    });
  }

  void optimizer() {
    const int64_t n = sizes_.parameters;
    const OwnedTensor grad = normal({n}, DType::f32, 1e-3f), m = zeros({n}, DType::f32);
    const OwnedTensor v = zeros({n}, DType::f32), master = normal({n}, DType::f32, 0.02f);
    const OwnedTensor value = zeros({n}, DType::bf16), scale = zeros({1}, DType::f32);
    const OwnedTensor squares = zeros({1}, DType::f64);
    fill(scale.tensor, 1.0);
    AdamW settings;
    settings.lr = 1e-4f;
    const auto step = [&](const Tensor& out) {
      adamw_step(settings, scale.tensor, grad.tensor, m.tensor, v.tensor, master.tensor, out);
    };
    const double four = bytes_of(n, DType::f32);
    measure("sum_of_squares", {four}, [&] { add_sum_of_squares(grad.tensor, squares.tensor); });
    measure("adamw fp32", {7 * four}, [&] { step(master.tensor); });
    measure("adamw bf16", {7.5 * four}, [&] { step(value.tensor); });
    settings.rounding = {{1, RandomPurpose::stochastic_rounding, 0, 1}};
    measure("adamw bf16, stochastic rounding", {7.5 * four}, [&] { step(value.tensor); });
    const OwnedTensor m16 = zeros({n}, DType::bf16), v16 = zeros({n}, DType::bf16);
    AdamW rounded = settings;
    rounded.rounding = {};
    rounded.moment_rounding = {{1, RandomPurpose::moment_rounding, 0, 1}};
    measure("adamw bf16, moments in bf16", {5.5 * four}, [&] {
      adamw_step(rounded, scale.tensor, grad.tensor, m16.tensor, v16.tensor, master.tensor,
                 value.tensor);
    });
    const OwnedTensor codes = zeros({n}, DType::u8);
    const OwnedTensor scales = zeros({ceil_div(n, kCodeBlock)}, DType::f32);
    measure("quantize_blocks", {1.25 * four}, [&] {
      quantize_blocks(m.tensor, CodeMap::signed_numbers, codes.tensor, scales.tensor);
    });
    measure("dequantize_blocks", {1.25 * four}, [&] {
      dequantize_blocks(codes.tensor, scales.tensor, CodeMap::signed_numbers, m.tensor);
    });
    measure("ema_step", {3 * four},
            [&] { ema_step(0.999, scale.tensor, master.tensor, v.tensor); });
    settings.rounding->index = {sizes_.width(), 2 * sizes_.width(), 0};
    measure("adamw bf16, stochastic rounding of columns", {7.5 * four},
            [&] { step(value.tensor); });
  }

  void products() {
    const int64_t rows = sizes_.rows(), width = sizes_.width();
    const OwnedTensor x = normal({rows, width}, DType::bf16),
                      y = normal({rows, 4 * width}, DType::bf16);
    const OwnedTensor w = normal({4 * width, width}, DType::bf16, 0.02f);
    const OwnedTensor active = zeros({rows, 4 * width}, DType::bf16);
    const OwnedTensor bias = normal({4 * width}, DType::bf16),
                      dx = zeros({rows, width}, DType::bf16);
    const OwnedTensor dw = zeros({4 * width, width}, DType::f32);
    const OwnedTensor out = normal({width, 4 * width}, DType::bf16, 0.02f);
    const double flops = 2.0 * static_cast<double>(rows) * static_cast<double>(4 * width * width);
    const double narrow = bytes_of(rows * width), weights = bytes_of(4 * width * width);
    measure("linear_forward", {5 * narrow + weights, flops},
            [&] { linear_forward(x.tensor, w.tensor, bias.tensor, y.tensor); });
    measure("linear_activation_forward", {9 * narrow + weights, flops}, [&] {
      linear_activation_forward(x.tensor, w.tensor, bias.tensor, Activation::gelu_tanh, y.tensor,
                                active.tensor);
    });
    measure("linear_backward_input", {5 * narrow + weights, flops},
            [&] { linear_backward_input(y.tensor, w.tensor, dx.tensor); });
    measure("linear_backward_weight", {5 * narrow + 4 * weights, flops},
            [&] { linear_backward_weight(y.tensor, x.tensor, dw.tensor, Accumulate::yes); });
    // Compare with the product alone, linear_forward, and activation_backward.
    measure("linear_activation_backward_input", {9 * narrow + weights, flops}, [&] {
      linear_activation_backward_input(x.tensor, out.tensor, y.tensor, Activation::gelu_tanh,
                                       active.tensor);
    });
    // Batches without padding have any number of rows.
    const int64_t odd = rows - 3;
    measure("linear_forward, odd rows", {5 * narrow + weights, flops}, [&] {
      linear_forward(x.tensor.slice(0, odd), w.tensor, bias.tensor, y.tensor.slice(0, odd));
    });
    measure("linear_backward_weight, odd rows", {5 * narrow + 4 * weights, flops}, [&] {
      linear_backward_weight(y.tensor.slice(0, odd), x.tensor.slice(0, odd), dw.tensor,
                             Accumulate::yes);
    });
    // Compare with linear_backward_weight and column_sum, on a tensor of this size.
    const OwnedTensor dbias = zeros({4 * width}, DType::f32);
    measure("linear_backward_weight_bias", {5 * narrow + 4 * weights, flops}, [&] {
      linear_backward_weight_bias(y.tensor, x.tensor, dw.tensor, Accumulate::yes, dbias.tensor);
    });
    if (!cuda::fp8_unsupported_reason()) codes(x.tensor, w.tensor, bias.tensor, y.tensor);
    language_head(x.tensor.slice(0, sizes_.loss_rows));
    fusions(rows, width);
    fusions(rows, round_up(4 * width / 3, int64_t{64}));
    fusions(rows / 2, round_up(25 * width / 12, int64_t{64}));
  }

  /// What takes the place of linear_forward in FP8.
  void codes(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y) {
    const int64_t features = w.dim(0), width = w.dim(1);
    const double narrow = bytes_of(x.numel()), weights = bytes_of(w.numel());
    const OwnedTensor of_x = zeros(fp8_row_codes(x), DType::u8),
                      x_scales = zeros(fp8_row_scales(x), DType::f32);
    const OwnedTensor of_w = zeros({features, width}, DType::u8),
                      w_scales = zeros(fp8_weight_scales(features, width), DType::f32);
    const OwnedTensor turned = zeros({width, features}, DType::u8),
                      turned_scales = zeros(fp8_weight_scales(width, features), DType::f32);
    const Fp8Matrix rows{of_x.tensor, x_scales.tensor}, matrix{of_w.tensor, w_scales.tensor};
    measure("quantize_fp8_rows", {1.5 * narrow}, [&] { quantize_fp8_rows(x, rows); });
    measure("quantize_fp8_weights", {1.5 * weights},
            [&] { quantize_fp8_weights(w, MatrixLayout::rows, matrix); });
    measure("quantize_fp8_weights, transposed", {1.5 * weights}, [&] {
      quantize_fp8_weights(w, MatrixLayout::columns, {turned.tensor, turned_scales.tensor});
    });
    measure("linear_fp8",
            {bytes_of(y.numel()) + (narrow + weights) / 2.0,
             2.0 * static_cast<double>(y.numel()) * static_cast<double>(width)},
            [&] { linear_fp8(rows, matrix, bias, y); });
  }

  /// The products of a block of this width that can have each epilogue, with it and without: times,
  /// and a row of core/ops/cuda/matmul/fusions.h. Widths and rows are those of GPT-2 124M, 350M and
  /// 1.5B in configs/.
  void fusions(int64_t rows, int64_t width) {
    const int64_t mlp = 4 * width;
    const OwnedTensor x = normal({rows, width}, DType::bf16), y = normal({rows, mlp}, DType::bf16);
    const OwnedTensor w = normal({mlp, width}, DType::bf16, 0.02f);
    const OwnedTensor back = normal({width, mlp}, DType::bf16, 0.02f);
    const OwnedTensor bias = normal({mlp}, DType::bf16), active = zeros({rows, mlp}, DType::bf16);
    const OwnedTensor qkv = zeros({rows, 3 * width}, DType::bf16);
    const OwnedTensor dw = zeros({mlp, width}, DType::f32), dbias = zeros({mlp}, DType::f32);
    const Tensor none;
    const auto linear = [&](const Tensor& b, Epilogue epilogue) {
      compare(epilogue, mlp, [&, b] {
        linear_activation_forward(x.tensor, w.tensor, b, Activation::gelu_tanh, y.tensor,
                                  active.tensor);
      });
    };
    compare(Epilogue::bias, 3 * width, [&] {
      linear_forward(x.tensor, w.tensor.slice(0, 3 * width), bias.tensor.slice(0, 3 * width),
                     qkv.tensor);
    });
    linear(none, Epilogue::gelu);
    linear(bias.tensor, Epilogue::bias_gelu);
    compare(Epilogue::gelu_backward, mlp, [&] {
      linear_activation_backward_input(x.tensor, back.tensor, y.tensor, Activation::gelu_tanh,
                                       active.tensor);
    });
    // Queries, keys and values; the attention's output; both layers of the MLP.
    compare(Epilogue::row_sums, width, [&] {
      const auto weights = [&](const Tensor& dy, const Tensor& input) {
        const int64_t out = dy.dim(1), in = input.dim(1);
        linear_backward_weight_bias(
            dy, input, dw.tensor.view({mlp * width}).slice(0, out * in).view({out, in}),
            Accumulate::yes, dbias.tensor.slice(0, out));
      };
      weights(qkv.tensor, x.tensor);
      weights(x.tensor, x.tensor);
      weights(y.tensor, x.tensor);
      weights(x.tensor, y.tensor);
    });
  }

  using Epilogue = cuda::Epilogue;

  static const char* name_of(Epilogue epilogue) {
    switch (epilogue) {
      case Epilogue::none:
        return "none";
      case Epilogue::bias:
        return "bias";
      case Epilogue::gelu:
        return "gelu";
      case Epilogue::bias_gelu:
        return "bias_gelu";
      case Epilogue::gelu_backward:
        return "gelu_backward";
      case Epilogue::row_sums:
        return "row_sums";
    }
    fail("an epilogue that there is not");
  }

  /// `op` has results of `columns` columns.
  void compare(Epilogue epilogue, int64_t columns, const std::function<void()>& op) {
    const int capability = cuda::compute_capability();
    const auto time_with = [&](bool fuse) {
      const cuda::Fusion table[] = {{capability, epilogue, fuse}};
      cuda::use_fusions(table);
      const double seconds = time_of(op);
      cuda::use_fusions(cuda::kFusions);
      return seconds;
    };
    const double fused = time_with(true), apart = time_with(false);
    const char* name = name_of(epilogue);
    fmt::print(
        "measured: {{\"what\": \"fusion\", \"epilogue\": \"{}\", \"columns\": {}, "
        "\"fused_microseconds\": {:.1f}, \"unfused_microseconds\": {:.1f}}}\n",
        name, columns, 1e6 * fused, 1e6 * apart);
    fmt::print("fusion: {{{}, Epilogue::{}, {}, {}, \"{}: {:.0f} us fused, {:.0f} not\"}},\n",
               capability, name, fused <= apart, columns, cuda::device_kind(0).name, 1e6 * fused,
               1e6 * apart);
    std::fflush(stdout);
  }

  /// With a rank's rows of a vocabulary that is no round number.
  void language_head(const Tensor& x) {
    const int64_t rows = x.dim(0), width = x.dim(1);
    const int64_t vocab = partition_vocab(sizes_.vocab - 47, 1, 0).padded;
    const OwnedTensor table = normal({vocab, width}, DType::bf16, 0.02f);
    const OwnedTensor logits = zeros({rows, vocab}, DType::bf16);
    const double flops = 2.0 * static_cast<double>(rows) * static_cast<double>(vocab * width);
    measure("linear_forward, logits", {bytes_of(rows * (width + vocab) + vocab * width), flops},
            [&] { linear_forward(x, table.tensor, {}, logits.tensor); });
  }

  void attention() {
    AttentionTensors tensors(sizes_);
    AttentionOptions& options = tensors.options;
    options.mask.causal = true;
    const OwnedTensor table = zeros({sizes_.rows(), sizes_.head_dim}, DType::f32);
    const OwnedTensor positions = ids(sizes_.rows(), sizes_.length);
    rotary_table(positions.tensor, {}, table.tensor);
    const int64_t elements = tensors.out.tensor.numel();
    const double one = bytes_of(elements);
    measure("rotary_forward", {4 * one + bytes_of(table.tensor.numel(), DType::f32)},
            [&] { rotary_forward(table.tensor, 2 * sizes_.heads, tensors.qkv.tensor); });
    // Half of the two products of (T, D) and (D, T); backward has five.
    const double product = static_cast<double>(elements * sizes_.length);
    for (const float dropout : {0.0f, 0.1f}) {
      options.dropout.probability = dropout;
      const bool drops = dropout > 0.0f;
      measure(
          drops ? "attention_forward, dropout" : "attention_forward", {4 * one, 2 * product}, [&] {
            attention_forward(tensors.qkv.tensor, options, tensors.out.tensor, tensors.sums.tensor);
          });
      measure(drops ? "attention_backward, dropout" : "attention_backward", {8 * one, 5 * product},
              [&] {
                attention_backward(tensors.dout.tensor, tensors.qkv.tensor, tensors.out.tensor,
                                   tensors.sums.tensor, options, tensors.dqkv.tensor);
              });
    }
  }

  /// The masks of GPT's and BERT's steps, by our kernels and by cuDNN if it supports them.
  void attention_by_each() {
    const int64_t batch = sizes_.sequences, length = sizes_.length, half = length / 2;
    const auto documents = ints(batch + 1, [=](int64_t i) { return i * length; });
    // Two documents per sequence; the first one is longer in later sequences.
    const auto cut = ints(2 * batch + 1, [=](int64_t i) {
      return i / 2 * length + (i % 2 == 0 ? 0 : half + half * (i / 2) / (2 * batch));
    });
    const auto lengths = ints(batch, [=](int64_t i) { return half + half * i / batch; });
    AttentionMask mask;
    mask.documents = documents.tensor, mask.document_length = length;
    attention_by_each("both ways", mask, 1.0);
    mask.causal = true;
    attention_by_each("causal", mask, 0.5);
    mask.window = length / 4;
    attention_by_each("causal, window", mask, 0.25 - 0.25 * 0.25 / 2);
    mask = {};
    mask.documents = cut.tensor;
    attention_by_each("documents", mask, 0.5);
    attention_by_each("documents, dropout", mask, 0.5, 0.1f);  // BERT's
    mask.causal = true;
    attention_by_each("causal, documents", mask, 0.25);
    mask = {};
    mask.lengths = lengths.tensor;
    attention_by_each("lengths", mask, 0.75);
  }

  /// `seen` is the approximate share of visible pairs.
  void attention_by_each(const char* name, const AttentionMask& mask, double seen,
                         float dropout = 0.0f) {
    AttentionTensors tensors(sizes_);
    AttentionOptions& options = tensors.options;
    options.mask = mask;
    options.dropout.probability = dropout;
    allow_cudnn_dropout(true);
    const int64_t elements = tensors.out.tensor.numel();
    const double one = bytes_of(elements);
    const double product = 2.0 * seen * static_cast<double>(elements * sizes_.length);
    const auto measure_by = [&](const char* by, const auto& forward, const auto& backward) {
      measure(
          fmt::format("attention_forward, {}, {}", name, by).c_str(), {4 * one, 2 * product},
          [&] { forward(tensors.qkv.tensor, options, tensors.out.tensor, tensors.sums.tensor); });
      measure(fmt::format("attention_backward, {}, {}", name, by).c_str(), {8 * one, 5 * product},
              [&] {
                backward(tensors.dout.tensor, tensors.qkv.tensor, tensors.out.tensor,
                         tensors.sums.tensor, options, tensors.dqkv.tensor);
              });
    };
    const auto own_backward = [](const auto&... arguments) {
      cuda::attention_backward(arguments..., /*dposition_bias=*/Tensor());
    };
    measure_by("own kernels", cuda::attention_forward, own_backward);
    if constexpr (cuda::kHasCudnn) {
      const bool is_taken =
          cuda::cudnn_attention_forward(tensors.qkv.tensor, options, tensors.out.tensor,
                                        tensors.sums.tensor) &&
          cuda::cudnn_attention_backward(tensors.dout.tensor, tensors.qkv.tensor,
                                         tensors.out.tensor, tensors.sums.tensor, options,
                                         tensors.dqkv.tensor);
      if (!is_taken) return;
      measure_by("cuDNN", cuda::cudnn_attention_forward, cuda::cudnn_attention_backward);
    }
  }

  /// A new token for each of several sequences. Calls alternate between keys and values of layers,
  /// so that they come from memory.
  void attention_decode_of(int64_t batch) {
    const int64_t calls = 4 * sizes_.sequences / batch, heads = sizes_.heads;
    const Shape all = {calls * batch, heads, sizes_.length, sizes_.head_dim};
    const OwnedTensor keys = normal(all, DType::bf16), values = normal(all, DType::bf16);
    const OwnedTensor q = normal({batch, heads, sizes_.head_dim}, DType::bf16);
    const OwnedTensor out = zeros(q.tensor.shape(), DType::bf16);
    AttentionOptions options;
    options.scale = 1.0f / std::sqrt(static_cast<float>(sizes_.head_dim));
    int64_t call = 0;
    measure(fmt::format("attention_decode, batch {}", batch).c_str(),
            {2 * bytes_of(all.numel() / calls)}, [&] {
              const int64_t first = call++ % calls * batch;
              attention_decode(q.tensor, keys.tensor.slice(first, first + batch),
                               values.tensor.slice(first, first + batch), sizes_.length, options,
                               out.tensor);
            });
  }

  Sizes sizes_;
  Peaks peaks_;
};

int run(bool tiny) {
  if (cuda::device_count() == 0) {
    std::fprintf(stderr, "%s\n", cuda::no_device_reason()->c_str());
    return 77;
  }
  cuda::use_device(0);
  Sizes sizes;
  if (tiny) sizes = {2, 64, 2, 32, 512, 64, 100'000};
  const Peaks peaks{peak_bandwidth(), peak_flops(cuda::device_kind(0).name, DType::bf16)};
  const auto text = [](const std::optional<double>& value, double unit) {
    return value ? fmt::format("{:.2f}", *value / unit) : "unknown";
  };
  fmt::print("note: {}: {} TB/s of memory, {} TFLOP/s in bf16 are taken for the most\n",
             cuda::device_kind(0).name, text(peaks.bandwidth, 1e12), text(peaks.bf16, 1e12));
  Table(sizes, peaks).all();
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  try {
    return tessera::run(argc > 1 && std::string_view(argv[1]) == "--tiny");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kernel_times: %s\n", error.what());
    return 1;
  }
}
