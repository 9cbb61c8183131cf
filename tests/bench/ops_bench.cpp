#include <benchmark/benchmark.h>

#include <vector>

#include "core/memory.h"
#include "core/ops/activation.h"
#include "core/ops/adamw.h"
#include "core/ops/attention.h"
#include "core/ops/cross_entropy.h"
#include "core/ops/dropout.h"
#include "core/ops/elementwise.h"
#include "core/ops/embedding.h"
#include "core/ops/layer_norm.h"
#include "core/ops/reduce.h"
#include "core/random.h"

/// The ops at the sizes of GPT-2 124M. Bytes are those that must move, every argument read or
/// written once, so compare bytes_per_second with that of a copy.
namespace tessera {
namespace {

constexpr int64_t kRows = 1024, kWidth = 768, kMlp = 3072, kVocab = 50257, kPaddedVocab = 50304;

OwnedTensor normal(const Shape& shape, DType dtype) {
  OwnedTensor result(shape, dtype);
  const OwnedTensor numbers(shape, DType::f32);
  random_normal({1}, 1.0f, 0, shape.numel(), numbers.tensor.data<float>());
  copy(numbers.tensor, result.tensor);
  return result;
}

OwnedTensor ids(int64_t count, int64_t below) {
  OwnedTensor result({count}, DType::i32);
  for (int64_t i = 0; i < count; ++i) {
    result.tensor.data<int32_t>()[i] =
        static_cast<int32_t>(random_bits({2}, static_cast<uint64_t>(i)) % below);
  }
  return result;
}

template <typename... Tensors>
void moves(benchmark::State& state, const Tensors&... tensors) {
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>((tensors.bytes() + ...)));
}

DType dtype_of_run(const benchmark::State& state) {
  return state.range(0) == 16 ? DType::bf16 : DType::f32;
}

void copy_mlp(benchmark::State& state) {
  const OwnedTensor x = normal({kRows, kMlp}, dtype_of_run(state)),
                    y = normal({kRows, kMlp}, dtype_of_run(state));
  for (auto _ : state) copy(x.tensor, y.tensor);
  moves(state, x.tensor, y.tensor);
}

void round_mlp(benchmark::State& state) {
  const OwnedTensor x = normal({kRows, kMlp}, DType::f32), y({kRows, kMlp}, DType::bf16);
  for (auto _ : state) copy(x.tensor, y.tensor);
  moves(state, x.tensor, y.tensor);
}

void layer_norm_forward_width(benchmark::State& state) {
  const DType dtype = dtype_of_run(state);
  const OwnedTensor x = normal({kRows, kWidth}, dtype), w = normal({kWidth}, dtype);
  const OwnedTensor y({kRows, kWidth}, dtype), mean({kRows}, DType::f32), rstd({kRows}, DType::f32);
  for (auto _ : state) {
    layer_norm_forward(x.tensor, w.tensor, w.tensor, 1e-5f, y.tensor, mean.tensor, rstd.tensor);
  }
  moves(state, x.tensor, y.tensor);
}

void layer_norm_backward_width(benchmark::State& state) {
  const DType dtype = dtype_of_run(state);
  const OwnedTensor x = normal({kRows, kWidth}, dtype), dy = normal({kRows, kWidth}, dtype);
  const OwnedTensor w = normal({kWidth}, dtype), dx = normal({kRows, kWidth}, dtype);
  const OwnedTensor mean({kRows}, DType::f32), rstd = normal({kRows}, DType::f32);
  const OwnedTensor dw({kWidth}, DType::f32), db({kWidth}, DType::f32);
  for (auto _ : state) {
    layer_norm_backward(dy.tensor, x.tensor, w.tensor, mean.tensor, rstd.tensor, x.tensor,
                        dx.tensor, dw.tensor, db.tensor);
  }
  moves(state, x.tensor, dy.tensor, dx.tensor);
}

void activation_forward_mlp(benchmark::State& state) {
  const OwnedTensor x = normal({kRows, kMlp}, dtype_of_run(state)),
                    y = normal({kRows, kMlp}, dtype_of_run(state));
  const Activation kind = state.range(1) == 0 ? Activation::gelu_tanh : Activation::gelu;
  for (auto _ : state) activation_forward(x.tensor, kind, y.tensor);
  moves(state, x.tensor, y.tensor);
}

void activation_backward_mlp(benchmark::State& state) {
  const OwnedTensor x = normal({kRows, kMlp}, dtype_of_run(state)),
                    dy = normal({kRows, kMlp}, dtype_of_run(state));
  const OwnedTensor dx = normal({kRows, kMlp}, dtype_of_run(state));
  const Activation kind = state.range(1) == 0 ? Activation::gelu_tanh : Activation::gelu;
  for (auto _ : state) activation_backward(dy.tensor, x.tensor, kind, dx.tensor);
  moves(state, x.tensor, dy.tensor, dx.tensor);
}

void embedding_forward_width(benchmark::State& state) {
  const DType dtype = dtype_of_run(state);
  const OwnedTensor table = normal({kPaddedVocab, kWidth}, dtype), id = ids(kRows, kVocab);
  const OwnedTensor out = normal({kRows, kWidth}, dtype);
  for (auto _ : state) embedding_forward(id.tensor, table.tensor, {0, kVocab}, out.tensor);
  moves(state, out.tensor, out.tensor);
}

void embedding_backward_width(benchmark::State& state) {
  const OwnedTensor dtable({kPaddedVocab, kWidth}, DType::f32), id = ids(kRows, kVocab);
  const OwnedTensor dout = normal({kRows, kWidth}, dtype_of_run(state));
  const OwnedTensor rows({kRows, kWidth}, DType::f32);
  for (auto _ : state) embedding_backward(id.tensor, dout.tensor, {0, kVocab}, dtable.tensor);
  moves(state, dout.tensor, rows.tensor, rows.tensor);
}

void dropout_width(benchmark::State& state) {
  const OwnedTensor x = normal({kRows, kWidth}, dtype_of_run(state)),
                    y = normal({kRows, kWidth}, dtype_of_run(state));
  const Dropout dropout{0.1f, {1, RandomPurpose::mlp_dropout, 2, 3}, 0};
  for (auto _ : state) dropout_forward(x.tensor, dropout, y.tensor);
  moves(state, x.tensor, y.tensor);
}

void bias_dropout_add_width(benchmark::State& state) {
  const DType dtype = dtype_of_run(state);
  const OwnedTensor x = normal({kRows, kWidth}, dtype), residual = normal({kRows, kWidth}, dtype);
  const OwnedTensor bias = normal({kWidth}, dtype), out = normal({kRows, kWidth}, dtype);
  const Dropout dropout{0.1f, {1, RandomPurpose::mlp_dropout, 2, 3}, 0};
  for (auto _ : state) {
    bias_dropout_add(x.tensor, bias.tensor, residual.tensor, dropout, out.tensor);
  }
  moves(state, x.tensor, residual.tensor, out.tensor);
}

void cross_entropy_statistics_vocab(benchmark::State& state) {
  const OwnedTensor logits = normal({kRows, kPaddedVocab}, dtype_of_run(state)),
                    id = ids(kRows, kVocab);
  const OwnedTensor max({kRows}, DType::f32), sum({kRows}, DType::f32), hot({kRows}, DType::f32);
  for (auto _ : state) {
    cross_entropy_statistics(logits.tensor, id.tensor, 0, kVocab, max.tensor, sum.tensor,
                             hot.tensor);
  }
  moves(state, logits.tensor);
}

void cross_entropy_gradient_vocab(benchmark::State& state) {
  const OwnedTensor logits = normal({kRows, kPaddedVocab}, dtype_of_run(state)),
                    id = ids(kRows, kVocab);
  const OwnedTensor lse({kRows}, DType::f32);
  fill(lse.tensor, 11.0);
  for (auto _ : state) {
    cross_entropy_gradient(logits.tensor, id.tensor, 0, kVocab, lse.tensor, 1.0f);
  }
  moves(state, logits.tensor, logits.tensor);
}

void column_sum_mlp(benchmark::State& state) {
  const OwnedTensor x = normal({kRows, kMlp}, dtype_of_run(state)), out({kMlp}, DType::f32);
  for (auto _ : state) column_sum(x.tensor, out.tensor);
  moves(state, x.tensor);
}

/// Masks of the attention benchmarks. With half padding, each sequence is half real tokens:
/// `lengths` keeps the padding, `compact` removes it, and `documents` packs two halves into one
/// sequence.
enum MaskKind : int64_t { kFull, kCausal, kWindow, kLengths, kCompact, kDocuments, kHidden };

/// GPT-2 124M's attention on kBatch sequences of 1024, or on the rows that a mask keeps.
class MaskedAttention {
 public:
  MaskedAttention(MaskKind kind, DType dtype) : kind_(kind), dtype_(dtype) {
    options_.scale = 0.125f;
    options_.total_heads = kHeads;
    AttentionMask& mask = options_.mask;
    mask.causal = kind == kCausal;
    if (kind == kWindow) mask.window = kRows / 8;
    if (kind == kLengths) mask.lengths = ints({kBatch}, [](int64_t) { return kRows / 2; });
    if (kind == kDocuments) {
      mask.documents = ints({2 * kBatch + 1}, [](int64_t i) { return i * kRows / 2; });
    }
    if (kind == kCompact) {
      mask.documents = ints({kBatch + 1}, [](int64_t i) { return i * kRows / 2; });
      options_.padded_rows.index = ints({kBatch * kRows / 2}, [](int64_t n) {
        return n / (kRows / 2) * kRows + n % (kRows / 2);
      });
      options_.padded_rows.seq_length = kRows;
    }
    if (kind == kHidden) {
      mask.hidden = tensors_.emplace_back(Shape{kBatch, 1, kRows, kRows}, DType::u8).tensor;
    }
  }

  void forward() { attention_forward(qkv_.tensor, options_, out_.tensor, lse_.tensor); }
  void backward() {
    attention_backward(dout_.tensor, qkv_.tensor, out_.tensor, lse_.tensor, options_, dqkv_.tensor);
  }

 private:
  static constexpr int64_t kBatch = 2, kHeads = 12, kHeadDim = 64;

  template <typename Value>
  Tensor ints(const Shape& shape, Value&& value) {
    const Tensor tensor = tensors_.emplace_back(shape, DType::i32).tensor;
    for (int64_t i = 0; i < shape.numel(); ++i) {
      tensor.data<int32_t>()[i] = static_cast<int32_t>(value(i));
    }
    return tensor;
  }
  int64_t batch() const { return kind_ == kCompact ? 1 : kBatch; }
  OwnedTensor rows(const Shape& row) const {
    // Without padding, two half sequences are the rows of one.
    Shape shape{batch(), kRows};
    for (const int64_t extent : row) shape.push_back(extent);
    return normal(shape, dtype_);
  }

  MaskKind kind_;
  DType dtype_;
  std::vector<OwnedTensor> tensors_;
  AttentionOptions options_;
  OwnedTensor qkv_ = rows({3, kHeads, kHeadDim}), dqkv_ = rows({3, kHeads, kHeadDim});
  OwnedTensor out_ = rows({kHeads, kHeadDim}), dout_ = rows({kHeads, kHeadDim});
  OwnedTensor lse_{{batch(), kHeads, kRows}, DType::f32};
};

const char* name_of(MaskKind kind) {
  constexpr const char* kNames[] = {"full",    "causal",    "window", "lengths",
                                    "compact", "documents", "hidden"};
  return kNames[kind];
}

void attention_forward_masked(benchmark::State& state) {
  const auto kind = static_cast<MaskKind>(state.range(1));
  MaskedAttention attention(kind, dtype_of_run(state));
  for (auto _ : state) attention.forward();
  state.SetLabel(name_of(kind));
}

void attention_backward_masked(benchmark::State& state) {
  const auto kind = static_cast<MaskKind>(state.range(1));
  MaskedAttention attention(kind, dtype_of_run(state));
  attention.forward();
  for (auto _ : state) attention.backward();
  state.SetLabel(name_of(kind));
}

constexpr int64_t kModel = 124439808;  // GPT-2 124M's parameters

void adamw_model(benchmark::State& state) {
  const bool rounded = dtype_of_run(state) == DType::bf16;
  const OwnedTensor grad = normal({kModel}, DType::f32), master = normal({kModel}, DType::f32);
  const OwnedTensor m({kModel}, DType::f32), v({kModel}, DType::f32);
  const OwnedTensor value({rounded ? kModel : 0}, DType::bf16);
  const Tensor out = rounded ? value.tensor : master.tensor;
  const OwnedTensor scale({1}, DType::f32);
  fill(scale.tensor, 1.0);
  AdamW settings{1e-4f, 0.9f, 0.95f, 1e-8f, 0.1f, 1};
  const auto step = [&] {
    adamw_step(settings, scale.tensor, grad.tensor, m.tensor, v.tensor, master.tensor, out);
  };
  step();  // touches all pages
  for (auto _ : state) {
    ++settings.step;
    step();
  }
  moves(state, grad.tensor, m.tensor, m.tensor, v.tensor, v.tensor, master.tensor, master.tensor,
        value.tensor);
}

void sum_of_squares_model(benchmark::State& state) {
  const OwnedTensor grad = normal({kModel}, DType::f32);
  const OwnedTensor squares({1}, DType::f64);
  for (auto _ : state) add_sum_of_squares(grad.tensor, squares.tensor);
  benchmark::DoNotOptimize(squares.tensor.data<double>()[0]);
  moves(state, grad.tensor);
}

void fill_model(benchmark::State& state) {
  const OwnedTensor grad({kModel}, DType::f32);
  fill(grad.tensor, 1.0);  // touches all pages
  for (auto _ : state) fill(grad.tensor, 0.0);
  moves(state, grad.tensor);
}

void random_bits_tile(benchmark::State& state) {
  uint32_t bits[1024];
  uint64_t first = 0;
  for (auto _ : state) {
    random_bits({1}, first, 1024, bits);
    benchmark::DoNotOptimize(bits);
    first += 1024;
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(sizeof bits));
}

void random_normal_tile(benchmark::State& state) {
  float normals[1024];
  uint64_t first = 0;
  for (auto _ : state) {
    random_normal({1}, 1.0f, first, 1024, normals);
    benchmark::DoNotOptimize(normals);
    first += 1024;
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(sizeof normals));
}

BENCHMARK(copy_mlp)->ArgName("bits")->Arg(32)->Arg(16)->UseRealTime();
BENCHMARK(round_mlp)->UseRealTime();
BENCHMARK(layer_norm_forward_width)->ArgName("bits")->Arg(32)->Arg(16)->UseRealTime();
BENCHMARK(layer_norm_backward_width)->ArgName("bits")->Arg(32)->Arg(16)->UseRealTime();
BENCHMARK(activation_forward_mlp)
    ->ArgNames({"bits", "erf"})
    ->ArgsProduct({{32, 16}, {0, 1}})
    ->UseRealTime();
BENCHMARK(activation_backward_mlp)
    ->ArgNames({"bits", "erf"})
    ->ArgsProduct({{32, 16}, {0, 1}})
    ->UseRealTime();
BENCHMARK(embedding_forward_width)->ArgName("bits")->Arg(32)->Arg(16)->UseRealTime();
BENCHMARK(embedding_backward_width)->ArgName("bits")->Arg(32)->Arg(16)->UseRealTime();
BENCHMARK(dropout_width)->ArgName("bits")->Arg(32)->Arg(16)->UseRealTime();
BENCHMARK(bias_dropout_add_width)->ArgName("bits")->Arg(32)->Arg(16)->UseRealTime();
BENCHMARK(cross_entropy_statistics_vocab)->ArgName("bits")->Arg(32)->Arg(16)->UseRealTime();
BENCHMARK(cross_entropy_gradient_vocab)->ArgName("bits")->Arg(32)->Arg(16)->UseRealTime();
BENCHMARK(column_sum_mlp)->ArgName("bits")->Arg(32)->Arg(16)->UseRealTime();
BENCHMARK(attention_forward_masked)
    ->ArgNames({"bits", "mask"})
    ->ArgsProduct({{32, 16}, benchmark::CreateDenseRange(kFull, kHidden, 1)})
    ->UseRealTime();
BENCHMARK(attention_backward_masked)
    ->ArgNames({"bits", "mask"})
    ->ArgsProduct({{32, 16}, benchmark::CreateDenseRange(kFull, kHidden, 1)})
    ->UseRealTime();
BENCHMARK(adamw_model)->ArgName("bits")->Arg(32)->Arg(16)->UseRealTime();
BENCHMARK(sum_of_squares_model)->UseRealTime();
BENCHMARK(fill_model)->UseRealTime();
BENCHMARK(random_bits_tile);
BENCHMARK(random_normal_tile);

}  // namespace
}  // namespace tessera
