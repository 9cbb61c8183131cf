#pragma once

#include <concepts>
#include <string_view>
#include <type_traits>

#include "core/ops/position_bias.h"
#include "launch/config/model_kinds.h"
#include "launch/config/run_config.h"
#include "launch/config/values/value_rule.h"

namespace tessera {

// Defines every key of a configuration once: its name, member, rule and reason. Parsing, --set,
// range checks, the resolved config.yaml and docs/configuration.md are all generated from it. A
// default is the member's own, in sections.h and models/model_config.h, or `auto`: derived from
// other keys, the data, a checkpoint or the machine (launch/train/start/derive_config.h).
//
// describe(section, field) calls `field(key, member, rule, meaning)` for each key in order;
// describe(config, section) calls `section(name, member, meaning)` for each section. The first
// argument may be const.

/// A key's name, whether a file must provide it, whether it is derived without a value or with the
/// value `auto`, and whether its default depends on model.kind (preset() in models/architecture.h).
struct Key {
  std::string_view name;
  bool required = false;
  bool derived = false;
  bool by_kind = false;
  std::string_view alternative = {};  ///< a key of the section from which a required one is derived

  constexpr Key(const char* key) : name(key) {}  // NOLINT: a name alone is an optional key
};

constexpr Key required(const char* name) {
  Key key(name);
  key.required = true;
  return key;
}

constexpr Key derived(const char* name) {
  Key key(name);
  key.derived = true;
  return key;
}

constexpr Key required_or(const char* alternative, const char* name) {
  Key key = required(name);
  key.derived = true;
  key.alternative = alternative;
  return key;
}

constexpr Key by_kind(const char* name) {
  Key key(name);
  key.by_kind = true;
  return key;
}

template <typename T, typename Section>
concept MaybeConst = std::same_as<std::remove_const_t<T>, Section>;

// Limits far beyond any run, so that products of a few of them fit into 64 bits.
inline constexpr int64_t kMaxSteps = 1'000'000'000;
inline constexpr int64_t kMaxSequences = 100'000'000;
inline constexpr int64_t kMaxWidth = 1'000'000;
inline constexpr int64_t kMaxSpikeWindow = 1000;

template <MaybeConst<RunSection> Section>
void describe(Section& run, auto& field) {
  field(derived("dir"), run.dir, Text{},
        "The folder the run writes to: `config.yaml`, `metrics.jsonl` and `checkpoints/`. `auto` "
        "is `runs/NAME` for a configuration NAME.yaml.");
  field("seed", run.seed, IntegerIn{0, INT64_MAX},
        "The seed of initial weights, dropout and the sample order. The same seed gives the same "
        "random numbers on any number of ranks.");
  field("device", run.device,
        OneOf<DeviceChoice>{{{"auto", DeviceChoice::automatic},
                             {"cpu", DeviceChoice::cpu},
                             {"cuda", DeviceChoice::cuda}}},
        "Where to compute: `cuda` uses NVIDIA GPUs, `cpu` does not. `auto` uses GPUs if the host "
        "has any and the build supports them. Ranks of a host use its GPUs in order, one each.");
  field("precision", run.precision,
        OneOf<Precision>{
            {{"fp32", DType::f32}, {"bf16", DType::bf16}, {"fp8", Precision::with_fp8()}}},
        "Precision of weights and activations in the forward and backward passes. `bf16` halves "
        "their memory; gradients and master weights stay in fp32, and the optimizer's moments in "
        "`optimizer.moment_dtype`. `fp8` is bf16, but the linear layers of blocks, without the "
        "first and the last block, round activations, weights and gradients to 8 bits for their "
        "products ([gpu.md](gpu.md#fp8)). Not measured on a GPU yet; on CPUs it is slower than "
        "`bf16`.");
  field("tf32", run.tf32, TrueOrFalse{},
        "With `precision: fp32` on a GPU: whether linear layers run their matrix products on "
        "tensor cores, which round the operands to 11 of fp32's 24 significant bits and accumulate "
        "in fp32. An error without a GPU.");
  field(
      "deterministic", run.deterministic, TrueOrFalse{},
      "Whether a repeated run has the same bits, on the same number of ranks and kind of device. "
      "`false` lets GPUs use two faster algorithms without a fixed order of sums: NCCL's "
      "reductions in NVSwitch (NVLS) and cuDNN's attention gradients.  It also chooses cuBLASLt's "
      "algorithms by their speed (`product_algorithms`). CPU ranks are always deterministic.");
  field("product_algorithms", run.product_algorithms,
        OneOf<ProductAlgorithms>{{{"auto", ProductAlgorithms::automatic},
                                  {"first", ProductAlgorithms::first},
                                  {"timed", ProductAlgorithms::timed}}},
        "How a GPU's algorithms for matrix products are chosen. `first` takes the first of "
        "cuBLASLt's heuristics. `timed` times 32 when the run starts for the first time, and keeps "
        "the fastest in `product_algorithms.json` in `run.dir`: a resumed run has the same bits, "
        "and so has another run with a copy of that file, but not one that times them anew. "
        "`auto` is `first` if `deterministic` is `true`, otherwise `timed`. `timed` is an error "
        "without a GPU.");
  field("hang_timeout", run.hang_timeout, IntegerIn{0, 1'000'000},
        "Seconds that a rank waits for others while no rank makes progress. Then the run prints a "
        "report: which rank is missing from which collective, where it is, and what its process "
        "does. Before the third step, in evaluations and saves, computing and using files count as "
        "progress, too. 0 disables it.");
  field("on_hang", run.on_hang,
        OneOf<OnHang>{{{"abort", OnHang::abort}, {"report", OnHang::report}}},
        "After the report of a hang: `abort` ends all ranks with exit code 75; `report` waits on, "
        "and says so if the run continues.");
  field(derived("walltime"), run.walltime, Duration{},
        "Time after which a start of the run must have ended, counted from the start of its "
        "processes. The run saves and ends before that, with exit code 98, in time for a step "
        "and a save as long as they took so far. `auto` is the end of the Slurm job, if "
        "SLURM_JOB_END_TIME says it, otherwise 0: no limit. [reliability.md](reliability.md#"
        "limited-time) describes it.");
}

template <MaybeConst<ModelConfig> Section>
void describe(Section& model, auto& field) {
  const std::string encoder_decoders = kinds_with(&Architecture::cross_attention, "`");
  const std::string images = kinds_with(&Architecture::images, "`");
  field("kind", model.kind, OneOf<ModelKind>{model_kinds()},
        "The architecture, which sets the defaults of the keys that say so: " +
            model_kind_summaries() + ".");
  field("num_layers", model.num_layers, IntegerIn{1, 10'000},
        "Number of transformer blocks; of " + encoder_decoders + ", those of the encoder.");
  field("num_decoder_layers", model.num_decoder_layers, IntegerIn{0, 10'000},
        "Of " + encoder_decoders + ": number of the decoder's blocks; 0 means `num_layers`.");
  field("hidden_size", model.hidden_size, IntegerIn{1, kMaxWidth},
        "Width of the residual stream; a multiple of `num_heads` unless `head_dim` is given.");
  field(
      "num_heads", model.num_heads, IntegerIn{1, kMaxWidth},
      "Number of attention heads. The `parallel.tensor` ranks share them as evenly as possible: 25 "
      "heads on 4 ranks are 7, 6, 6 and 6.");
  field("num_kv_heads", model.num_kv_heads, IntegerIn{0, kMaxWidth},
        "Number of key-value heads; a divisor of `num_heads`. With fewer than `num_heads`, a group "
        "of heads shares a key and a value (grouped-query attention). A group stays on one of the "
        "`parallel.tensor` ranks; if there are more ranks than groups, some compute no attention. "
        "0 means `num_heads`.");
  field("head_dim", model.head_dim, IntegerIn{0, kMaxWidth},
        "Width of a head's queries, keys and values; 0 means `hidden_size` / `num_heads`.");
  field("mlp_size", model.mlp_size, IntegerIn{0, 10 * kMaxWidth},
        "Width of the MLP's hidden layer, split over the `parallel.tensor` ranks; 0 means 4 × "
        "`hidden_size` or, with `gated_mlp`, 8/3 × `hidden_size` rounded up to a multiple of 64.");
  field("seq_length", model.seq_length, IntegerIn{1, 10'000'000},
        "Maximum number of tokens in a sequence; of " + encoder_decoders +
            ", in a target text. Also the number of learned positions. Of " + images +
            ", it follows from the keys below: the number of patches, and 1 for the class token.");
  field("source_length", model.source_length, IntegerIn{0, 10'000'000},
        "Of " + encoder_decoders +
            ": maximum number of tokens in a source text, and the number of the encoder's learned "
            "positions; 0 means `seq_length`.");
  field(
      derived("vocab_size"), model.vocab_size, IntegerIn{1, INT32_MAX},
      "Rows of the token embedding. `auto` is the tokenizer's number of tokens. Any size works: "
      "if `parallel.tensor` does not divide it, it is padded in memory only. Of images, which have "
      "no token embedding, it is 1.");
  field(derived("image_size"), model.image_size, IntegerIn{0, 100'000},
        "Of " + images +
            ": rows and columns of pixels. `auto` is the size of the training images, "
            "or 224 for a folder of image files, which are resized. A multiple of `patch_size`.");
  field(by_kind("patch_size"), model.patch_size, IntegerIn{0, 10'000},
        "Of " + images + ": rows and columns of a patch. Each patch of an image is a token.");
  field(
      derived("num_channels"), model.num_channels, IntegerIn{0, 64},
      "Of " + images + ": numbers of a pixel, 3 in color. `auto` is that of the training images.");
  field("image_mean", model.image_mean, ListOf<NumberIn>{{-1e6, 1e6}},
        "Of " + images +
            ": subtracted from the numbers of pixels, which are from 0 to 1. One for "
            "each channel, or one for all.");
  field("image_std", model.image_std, ListOf<NumberIn>{{1e-6, 1e6}},
        "Of " + images +
            ": what these differences are divided by. One for each channel, or one "
            "for all.");
  field("dropout", model.dropout, NumberIn{0.0, 1.0, true},
        "Dropout probability after the embeddings and before each residual sum; of `t5`, also "
        "within the MLP, after the activation, and after the last norm of each stack.");
  field("attention_dropout", model.attention_dropout, NumberIn{0.0, 1.0, true},
        "Dropout probability of the attention weights, rounded to a multiple of 1/256: 0.1 is "
        "26/256. The weights that are kept are divided by exactly what is kept.");
  field(by_kind("bias"), model.bias,
        OneOf<Bias>{{{"true", Bias::all},
                     {"false", Bias::none},
                     {"qkv", Bias::qkv},
                     {"attention", Bias::attention}}},
        "Which layers have a bias: all linear layers and layer norms (`true`), none (`false`), "
        "only the projection to queries, keys and values (`qkv`), or this one and the output "
        "projection of attention (`attention`).");
  field(by_kind("norm"), model.norm,
        OneOf<NormType>{{{"layer", NormType::layer}, {"rms", NormType::rms}}},
        "The norms: `layer` is layer normalization; `rms` is RMSNorm, which subtracts no mean and "
        "has no bias.");
  field(by_kind("norm_position"), model.norm_position,
        OneOf<NormPosition>{{{"pre", NormPosition::pre}, {"post", NormPosition::post}}},
        "Where blocks normalize: `pre`, before attention and MLP, with a final norm at the end; or "
        "`post`, after each residual sum.");
  field(by_kind("norm_eps"), model.norm_eps, NumberIn{1e-30, 1.0},
        "Added to the variance, or the mean square, in norms to avoid division by zero.");
  field(by_kind("activation"), model.activation,
        OneOf<Activation>{{{"gelu", Activation::gelu},
                           {"gelu_tanh", Activation::gelu_tanh},
                           {"silu", Activation::silu},
                           {"relu", Activation::relu}}},
        "The activation function of the MLP. `gelu_tanh` is the tanh approximation of GELU.");
  field(by_kind("gated_mlp"), model.gated_mlp, TrueOrFalse{},
        "Whether the MLP multiplies the activation of one projection, the gate, by another one: "
        "SwiGLU with `silu`, GeGLU with `gelu`.");
  field("init_stddev", model.init_stddev, NumberIn{0.0, 1000.0},
        "Standard deviation of the initial weights.");
  field("mup_base_hidden_size", model.mup_base_hidden_size, IntegerIn{0, kMaxWidth},
        "Maximal update parametrization (µP; Yang et al., 2022): the `hidden_size` of the base "
        "model, so that a learning rate and initial weights that suit it suit this model, too "
        "([guide.md](guide.md#transfer-a-learning-rate)). Initial weights and learning rates of "
        "the linear layers in the blocks, logits and attention scores are scaled by how much wider "
        "this model is. 0 is standard parametrization, and so is a base of the same sizes.");
  field("mup_base_head_dim", model.mup_base_head_dim, IntegerIn{0, kMaxWidth},
        "With `mup_base_hidden_size`: the `head_dim` of the base model, which is this model's if "
        "wider models have more heads. `attention_scale` is that of the base model.");
  field(by_kind("positions"), model.positions,
        OneOf<Positions>{{{"learned", Positions::learned},
                          {"rotary", Positions::rotary},
                          {"alibi", Positions::alibi},
                          {"relative", Positions::relative}}},
        "How positions are encoded: `learned` adds an embedding of each position; `rotary` (RoPE) "
        "rotates queries and keys, and needs an even head size; `alibi` subtracts from each "
        "attention score its distance times the slope of the head; `relative` adds to each score "
        "a bias that is learned for each head and bucket of distances, as in T5, and that all "
        "layers share.");
  field(by_kind("embedding_norm"), model.embedding_norm, TrueOrFalse{},
        "Whether a norm follows the sum of the embeddings, before dropout.");
  field("relative_buckets", model.relative_buckets, IntegerIn{2, kMostRelativeBuckets},
        "For `positions: relative`: the number of buckets of distances "
        "(`relative_attention_num_buckets`). An encoder has half of them for earlier tokens and "
        "half for later ones. Half of a direction's buckets are single distances; the others grow "
        "logarithmically.");
  field("relative_max_distance", model.relative_max_distance, IntegerIn{2, 10'000'000},
        "For `positions: relative`: the distance up to which buckets grow "
        "(`relative_attention_max_distance`). All larger distances share a bucket.");
  field(by_kind("rotary_base"), model.rotary.base, NumberIn{1.0, 1e12},
        "Base of the rotary wavelengths, for `positions: rotary`.");
  field("rotary_scaling", model.rotary.scaling,
        OneOf<RotaryScaling>{{{"none", RotaryScaling::none},
                              {"linear", RotaryScaling::linear},
                              {"llama3", RotaryScaling::llama3},
                              {"yarn", RotaryScaling::yarn}}},
        "How rotary wavelengths are stretched for longer texts: `linear` stretches all by "
        "`rotary_factor`; `llama3` and `yarn` leave the short ones as they are. The keys below are "
        "named as in `rope_parameters` of Hugging Face.");
  field("rotary_factor", model.rotary.factor, NumberIn{1.0, 1e6},
        "By how much `rotary_scaling` stretches the longest wavelengths.");
  field("rotary_original_length", model.rotary.original_length, IntegerIn{0, 1'000'000'000},
        "Sequence length before the stretching (`original_max_position_embeddings`). `llama3` and "
        "`yarn` need it.");
  field("rotary_low_freq_factor", model.rotary.low_freq_factor, NumberIn{1e-6, 1e6},
        "For `llama3`: wavelengths above `rotary_original_length` / this are stretched fully.");
  field("rotary_high_freq_factor", model.rotary.high_freq_factor, NumberIn{1e-6, 1e6},
        "For `llama3`: wavelengths below `rotary_original_length` / this are not stretched. Larger "
        "than `rotary_low_freq_factor`.");
  field(
      "rotary_beta_fast", model.rotary.beta_fast, NumberIn{1e-6, 1e6},
      "For `yarn`: wavelengths with more than this many turns in `rotary_original_length` are not "
      "stretched.");
  field("rotary_beta_slow", model.rotary.beta_slow, NumberIn{1e-6, 1e6},
        "For `yarn`: wavelengths with fewer turns than this are stretched fully.");
  field("rotary_attention_factor", model.rotary.attention_factor, NumberIn{0.0, 1000.0},
        "For `yarn`: multiplies the rotated queries and keys. 0 means 0.1 × ln(`rotary_factor`) + "
        "1.");
  field(by_kind("local_rotary_base"), model.local_rotary_base, NumberIn{0.0, 1e12},
        "Base of the rotary wavelengths of layers with a window, which are not stretched. 0 means "
        "that these layers rotate like all others.");
  field(by_kind("qk_norm"), model.qk_norm, TrueOrFalse{},
        "Whether RMSNorm normalizes each head's query and key, with weights that all heads of a "
        "layer share.");
  field(by_kind("attention_scale"), model.attention_scale, NumberIn{0.0, 1000.0},
        "What multiplies the products of queries and keys before the softmax. 0 means 1 / "
        "sqrt(`head_dim`).");
  field(by_kind("attention_window"), model.attention_window, IntegerIn{0, 10'000'000},
        "Sliding window: a token attends only to tokens fewer than this many positions away. 0 "
        "disables it.");
  field(by_kind("window_pattern"), model.window_pattern, Letters{"GL"},
        "Which layers have the window: a letter per layer, `L` (local, with the window) or `G` "
        "(global, without), repeated until the last layer. `GLL` is ModernBERT's.");
  field("attention_dilation", model.attention_dilation, IntegerIn{1, 1'000'000},
        "Of layers with a window (Longformer): a token attends to every `attention_dilation`-th "
        "token, as many as without it, so the window is as many times as wide. 1 is a window "
        "without gaps.");
  field("global_tokens", model.global_tokens, IntegerIn{0, 10'000'000},
        "Of layers with a window (Longformer): this many first tokens of each document attend to "
        "all tokens, and all attend to them, in spite of the window. A causal model's tokens still "
        "attend only to earlier ones, so these are attention sinks (StreamingLLM).");
  field("attention_prefix", model.attention_prefix, IntegerIn{0, 10'000'000},
        "Makes a causal model a prefix language model: this many first tokens of each document "
        "attend to each other in both directions, and the model learns to predict only the tokens "
        "after them. `tessera generate` then needs a prompt of at least as many tokens. A window "
        "still applies.");
  field(
      "attention_mask_file", model.attention_mask_file, OrNull<Text>{},
      "A safetensors file with a mask that applies in all layers beside the masks above, and that "
      "checkpoints keep. Its one tensor is (`seq_length`, `seq_length`), for all heads, or "
      "(`num_heads`, `seq_length`, `seq_length`): a row for each position of a query in its "
      "document, a column for each position of a key. Its name says what it contains: `hidden` "
      "(bool or uint8, 1 hides), `visible` (bool or uint8, 1 shows) or `additive` (fp32, added to "
      "the scaled scores; -inf hides). Not for encoder-decoders.");
  field(by_kind("tie_embeddings"), model.tie_embeddings, TrueOrFalse{},
        "Whether the output head is the token embedding, or has a matrix of its own.");
  field(by_kind("scaled_logits"), model.scaled_logits, TrueOrFalse{},
        "Whether the hidden states are divided by sqrt(`hidden_size`), or that of µP's base model, "
        "before the output head, as in T5 v1.0, whose head is the token embedding. T5 v1.1 has "
        "`false`, and `tie_embeddings: false`.");
  field("token_types", model.token_types, IntegerIn{0, 1000},
        "Rows of the token type embedding, which distinguishes the two parts of a pair: 2 in BERT, "
        "0 for none. Only for " +
            kinds_with(&Architecture::token_types, "`") + ".");
  field("next_sentence", model.next_sentence, TrueOrFalse{},
        "Whether the model also predicts if the second part of a pair follows the first, as in "
        "BERT. Samples are then sentence pairs, half of them random. Needs `token_types: 2` or "
        "more. Only for " +
            kinds_with(&Architecture::next_sentence, "`") + ".");
  field(
      derived("head"), model.head,
      OneOf<Head>{{{"pretraining", Head::pretraining},
                   {"classification", Head::classification},
                   {"token_classification", Head::token_classification},
                   {"embedding", Head::embedding}}},
      "The output head: `pretraining` has the head or heads of the architecture's pre-training; "
      "`classification`, for " +
          kinds_with(&Architecture::classification, "`") +
          ", predicts what `problem_type` says about a text; `token_classification`, for the same, "
          "predicts a label for each word, from its first token; `embedding`, for the same, makes "
          "a "
          "vector of each text, for search and similarity. `auto` is `classification` if "
          "`data.train` is a file "
          "of labeled texts or the model sees images, and `embedding` if it has anchors and "
          "positives, if the architecture "
          "supports it.");
  field(derived("num_labels"), model.num_labels, IntegerIn{0, 1'000'000},
        "Number of labels with a head that classifies: at least 2, but 1 with `problem_type: "
        "regression`. `auto` counts the labels in `data.labels` or in the training file.");
  field(
      "problem_type", model.problem_type,
      OneOf<ProblemType>{{{"single_label_classification", ProblemType::single_label_classification},
                          {"multi_label_classification", ProblemType::multi_label_classification},
                          {"regression", ProblemType::regression}}},
      "With `head: classification`, named as in Hugging Face: what a text has. "
      "`single_label_classification`: one of the labels; the loss is the cross-entropy. "
      "`multi_label_classification`: any number of them; the loss is the binary cross-entropy, "
      "the mean over the labels. `regression`: a number; the loss is the squared error.");
  field("classifier_pooling", model.classifier_pooling,
        OneOf<Pooling>{{{"cls", Pooling::cls}, {"mean", Pooling::mean}}},
        "With `head: classification`, named as in ModernBERT: what the head sees of a text, the "
        "hidden state of its first token, [CLS], or the mean over all of its tokens. Images have a "
        "class token with `cls` alone.");
  field("embedding_pooling", model.embedding_pooling,
        OneOf<Pooling>{{{"cls", Pooling::cls}, {"mean", Pooling::mean}}},
        "With `head: embedding`: what becomes the embedding of a text, the mean of the hidden "
        "states of all of its tokens, including [CLS] and [SEP], or that of [CLS]. Embeddings have "
        "length 1.");
  field("similarity_scale", model.similarity_scale, NumberIn{1e-3, 1e4},
        "With `head: embedding`: the factor of the cosines in the loss, one over its temperature. "
        "The loss is the cross-entropy of finding an anchor's positive among all positives and "
        "hard negatives of the global batch (InfoNCE, MultipleNegativesRankingLoss in "
        "sentence-transformers), so it depends on `batch.global`, but not on `batch.micro` or the "
        "layout. With several micro-batches, each is computed forward twice.");
  field("symmetric_loss", model.symmetric_loss, TrueOrFalse{},
        "With `head: embedding`: whether the loss is the mean of this cross-entropy and that of "
        "finding a positive's anchor among all anchors of the global batch.");
  field(derived("hard_negatives"), model.hard_negatives, TrueOrFalse{},
        "With `head: embedding`: whether each sample has a third text, `negative`, that resembles "
        "an answer and is none. `auto` is true if the training file has them.");
  field("lora_rank", model.lora_rank, IntegerIn{0, 10'000},
        "Rank of low-rank adapters (Hu et al., LoRA, 2021) of the linear layers in "
        "`lora_targets`; 0 for none. Training then changes only the adapters and a head that "
        "classifies, and starts from the model of `checkpoint.from`. `tessera export` merges them "
        "into the weights, or writes them alone with `--adapter`.");
  field("lora_alpha", model.lora_alpha, NumberIn{1e-3, 1e6},
        "With `lora_rank`: what an adapter adds is multiplied by `lora_alpha` / `lora_rank`.");
  field("lora_dropout", model.lora_dropout, NumberIn{0.0, 1.0, true},
        "With `lora_rank`: dropout probability of an adapter's input, as in PEFT. The layer itself "
        "sees all of its input.");
  field(
      "lora_targets", model.lora_targets, LoraTargets{},
      "With `lora_rank`: patterns of the names of linear layers within the blocks that have an "
      "adapter, such as `[\"*.attention.qkv\"]`. `*` stands for any text. PEFT's names work, too, "
      "such as `all-linear`, `o_proj` or `[q_proj, k_proj, v_proj]`. Queries, keys and values are "
      "one layer with one adapter, and so are a gate and what it multiplies, so `[q_proj, v_proj]` "
      "alone is refused.");
}

template <MaybeConst<DataSection> Section>
void describe(Section& data, auto& field) {
  field(
      required("train"), data.train, PathOrBlend{},
      "Prefix of the training dataset, as passed to `tessera prepare`; with `model.head: "
      "classification` or `token_classification`, a `.jsonl`, `.json`, `.csv` or `.tsv` file of "
      "labeled texts; "
      "with `embedding`, one of anchors and positives; for models that predict the next token, "
      "also one of prompts and completions or of messages; of images, an IDX file (MNIST's format, "
      "perhaps compressed by gzip) whose labels are beside it, a folder with a folder of PNG or "
      "JPEG files for each class, or a `.bin` file, or a folder of them, in CIFAR-10's format. "
      "Several datasets are blended "
      "by weight, as in `{data/books: 0.7, data/web: 0.3}`: each provides its share of the "
      "samples throughout the run and starts over when it is used up.");
  field("eval", data.eval, OrNull<PathOrBlend>{},
        "The evaluation dataset, in the same form. With null, the run evaluates on the "
        "`eval_fraction` held out from `train`.");
  field("eval_fraction", data.eval_fraction, NumberIn{0.0, 1.0, true},
        "Fraction at the end of each `train` dataset that is held out for evaluation. Only without "
        "`eval`.");
  field("test_fraction", data.test_fraction, NumberIn{0.0, 1.0, true},
        "Fraction at the end of each `train` dataset, after `eval_fraction`, that the run never "
        "uses: reserve it for a final test. Megatron-LM's `--split 969,30,1` is `eval_fraction: "
        "0.03` and `test_fraction: 0.001`.");
  field(derived("tokenizer"), data.tokenizer, TokenizerName{},
        "The tokenizer of the data. `auto` is the one that `tessera prepare` kept beside the "
        "dataset; for files of texts, that of `checkpoint.from`; for images, `none`. `byte` has a "
        "token for each of the "
        "256 bytes and a separator; `wordpiece:` is uncased BERT's, with its vocabulary file, "
        "`wordpiece-cased:` cased BERT's; `bpe:` is GPT-2's byte-level BPE, a folder with "
        "vocab.json and merges.txt; `huggingface:` is a tokenizer.json of either kind; "
        "`tessera:` is that of a checkpoint or dataset; "
        "`sentencepiece:` is a SentencePiece model. Checkpoints include it. `none` is for data of "
        "ids without a tokenizer: `model.vocab_size` is then required, unless the model comes from "
        "a checkpoint.");
  field("special_tokens", data.special_tokens, SpecialTokenMap{},
        "With `tokenizer: none`: the ids of special tokens, as in `{cls: 2, sep: 3, mask: 4}`. "
        "Masked language models need these three, other heads the first two. None of "
        "`cls`, `sep`, `mask`, `pad` and `unk` is masked or a random replacement. `eos` ends a "
        "document: `tessera generate` stops there.");
  field("columns", data.columns, ColumnMap{},
        "Of files of texts: the columns, or fields of JSON, that have other names there than in "
        "[data.md](data.md#files-with-columns), as in `{text: sentence, label: sentiment}`.");
  field(derived("packing"), data.packing,
        OneOf<Packing>{{{"concatenate", Packing::concatenate}, {"documents", Packing::documents}}},
        "For models that predict the next token: how rows of `model.seq_length` tokens are formed. "
        "`concatenate` cuts them from the concatenated documents, as Megatron-LM does. `documents` "
        "packs as many whole documents as fit; they do not attend to one another, and only a "
        "document longer than a row is cut. The rest of a row is not computed. `auto` is "
        "`documents` if `data.train` has prompts and completions or messages, which need it, "
        "otherwise `concatenate`.");
  field("separate_documents", data.separate_documents, TrueOrFalse{},
        "For models that predict the next token, with `packing: concatenate`: whether attention "
        "and positions restart at document boundaries within a sample. The boundaries come from "
        "the dataset's index, not from special tokens.");
  field("loss_across_documents", data.loss_across_documents, TrueOrFalse{},
        "For models that predict the next token, with `packing: concatenate`: whether the last "
        "token of a document must predict the first token of the next.");
  field("short_samples", data.short_samples,
        OneOf<ShortSamples>{{{"pad", ShortSamples::pad}, {"pack", ShortSamples::pack}}},
        "For masked language models: whether a sample shorter than `model.seq_length` gets a row "
        "to itself (`pad`) or shares it with others that it does not attend to (`pack`). Padding "
        "is never computed; packing makes rows equally long. Does not apply to pairs or "
        "classification.");
  field(derived("labels"), data.labels, OrNull<Text>{},
        "With `head: classification` or `token_classification`: the label names in order, "
        "separated by commas, as in "
        "`negative,positive`. With null, the data contains label numbers or, with `problem_type: "
        "regression`, numbers. `auto` uses the labels in the training file, sorted.");
  field(
      "truncate", data.truncate, TrueOrFalse{},
      "With a `head` other than `pretraining`, and for pairs of texts, prompts and completions: "
      "whether to truncate texts of more than `model.seq_length` or `model.source_length` tokens. "
      "If false, they are errors.");
  field("loss_on_prompts", data.loss_on_prompts, TrueOrFalse{},
        "For models that predict the next token, on prompts and completions or messages: whether "
        "the loss also counts the tokens of prompts and of messages that are not the assistant's. "
        "TRL's `completion_only_loss` is the opposite.");
  field("chat_template", data.chat_template,
        OneOf<ChatFormat>{{{"auto", ChatFormat::automatic},
                           {"chatml", ChatFormat::chatml},
                           {"plain", ChatFormat::plain}}},
        "For models that predict the next token, on messages: what surrounds a message. `chatml` "
        "needs a tokenizer with ChatML's two special tokens; `plain` writes the role, a colon and "
        "a line end before each message. `auto` is the template of the model in `checkpoint.from`, "
        "such as an imported model's own, if it has one; otherwise `chatml` if the tokenizer has "
        "these tokens, otherwise `plain`. "
        "[guide.md](guide.md#fine-tune-on-prompts-and-completions) shows both.");
}

template <MaybeConst<MaskingOptions> Section>
void describe(Section& mlm, auto& field) {
  field("probability", mlm.probability, NumberIn{0.0, 1.0},
        "Fraction of tokens chosen for prediction. Special tokens are never chosen.");
  field("mask_fraction", mlm.mask_fraction, NumberIn{0.0, 1.0},
        "Fraction of the chosen tokens that the model sees as [MASK].");
  field("random_fraction", mlm.random_fraction, NumberIn{0.0, 1.0},
        "Fraction of the chosen tokens that are replaced by a random token. The model sees the "
        "remaining ones unchanged.");
  field("unit", mlm.unit,
        OneOf<MaskUnit>{{{"token", MaskUnit::token},
                         {"whole_word", MaskUnit::whole_word},
                         {"span", MaskUnit::span}}},
        "What is chosen as a unit: single tokens, whole words, or spans of words with a geometric "
        "length distribution (Joshi et al., SpanBERT, 2020).");
  field("max_span", mlm.max_span, IntegerIn{1, 1000}, "Maximum number of words in a span.");
  field("hide", mlm.hide,
        OneOf<MaskHide>{{{"token", MaskHide::token}, {"attention", MaskHide::attention}}},
        "How chosen tokens are hidden: `token` replaces them as `mask_fraction` and "
        "`random_fraction` say, and all tokens attend to what replaces them; `attention` replaces "
        "all of them by [MASK] and also hides their positions from the attention of all tokens, so "
        "that no part of the model computes with [MASK] but the prediction itself. `eval` and "
        "`fill-mask` then hide them too.");
}

template <MaybeConst<SpanCorruptionOptions> Section>
void describe(Section& corruption, auto& field) {
  field("noise_density", corruption.noise_density, NumberIn{0.001, 0.999},
        "Fraction of a text's tokens that are replaced.");
  field("mean_noise_span_length", corruption.mean_noise_span_length, NumberIn{1.0, 1000.0},
        "Mean number of tokens in a replaced span.");
  field("sentinels", corruption.sentinels, IntegerIn{1, 1'000'000},
        "Number of sentinels, the most spans of a text. They are tokens after the tokenizer's, the "
        "last one for the first span, so `model.vocab_size: auto` has room for them.");
}

template <MaybeConst<AugmentationOptions> Section>
void describe(Section& augmentation, auto& field) {
  field("crop_padding", augmentation.crop_padding, IntegerIn{0, 10'000},
        "Rows and columns by which an image is shifted at most, in a random direction. The rest of "
        "the image is black: as if it were padded by so many and then cropped.");
  field("horizontal_flip", augmentation.horizontal_flip, TrueOrFalse{},
        "Whether half of the images are flipped from left to right.");
}

template <MaybeConst<ParallelSection> Section>
void describe(Section& parallel, auto& field) {
  field("tensor", parallel.tensor, IntegerIn{1, kMaxWidth},
        "Tensor-parallel size: the number of ranks that share one replica of the model. The "
        "data-parallel size is the number of ranks divided by this and by `context`.");
  field("context", parallel.context, IntegerIn{1, kMaxWidth},
        "Context-parallel size: the number of ranks that share the tokens of each micro-batch, so "
        "that longer sequences fit. Each has equally many of them, so cut that attention has about "
        "the same work on each, and attention exchanges keys and values. Any mask is possible.");
  field("zero", parallel.zero, IntegerIn{0, 3},
        "ZeRO stage: what data ranks share instead of repeating it. 1 shards the optimizer's "
        "moments, the average of `optimizer.ema_decay` and the master weights of `precision: "
        "bf16`: each rank stores and updates its own part. 2 also shards the gradients of the "
        "blocks, which are summed in every micro-batch. 3 also shards the weights of the blocks, "
        "trained or frozen, which each pass gathers block by block. Embeddings and heads stay "
        "whole on each rank. A checkpoint of any stage can be resumed with any other.");
  field("shard", parallel.shard, IntegerIn{0, kMaxWidth},
        "Number of neighboring data ranks that share the shards of `zero`; 0: all. With fewer, "
        "for instance the ranks of a host, gathers stay among them, and each such group holds a "
        "copy of the shards, whose gradients are summed once per step (hybrid sharding). Must "
        "divide the number of data ranks.");
  field("sequence", parallel.sequence, TrueOrFalse{},
        "Sequence parallelism, as in Megatron-LM: norms, dropout and residual sums shard the "
        "tokens of a micro-batch over the tensor ranks instead of repeating the same work on each. "
        "A block's activations then take 1/`tensor` of the memory. Communication stays the same "
        "except that the backward pass gathers the inputs of attention and MLP once more. No "
        "effect with `tensor: 1`.");
  field(
      "grad_reduce_dtype", parallel.grad_reduce_dtype,
      OneOf<DType>{{{"fp32", DType::f32}, {"bf16", DType::bf16}}},
      "Precision in which gradients are summed over the data ranks. `bf16` sends half the bytes, "
      "rounds each rank's gradients and the sums to 8 significant bits, and needs 2 more bytes of "
      "memory per parameter. Micro-batches accumulate, and norm, clipping and optimizer compute, "
      "in "
      "fp32 either way. Needs several data ranks.");
  field("backend", parallel.backend,
        OneOf<Backend>{
            {{"auto", Backend::automatic}, {"nccl", Backend::nccl}, {"mpi", Backend::mpi}}},
        "How GPUs communicate: `nccl` directly, with a GPU of its own for each rank; `mpi` through "
        "host memory, which is slower but lets ranks share a GPU. `auto` uses `nccl` if possible. "
        "CPU ranks always use MPI.");
}

template <MaybeConst<BatchSection> Section>
void describe(Section& batch, auto& field) {
  field("global", batch.global, IntegerIn{1, kMaxSequences},
        "Global batch size: sequences per step over all ranks; a multiple of `micro` × data ranks. "
        "The result of a step does not depend on how the batch is divided.");
  field(derived("micro"), batch.micro, IntegerIn{1, kMaxSequences},
        "Micro-batch size: sequences that a data rank computes at once. A data rank computes its "
        "share in several micro-batches and accumulates gradients. `auto` is the largest power of "
        "two that divides this share, fits in memory, and is not larger than helps speed.");
}

template <MaybeConst<TrainSection> Section>
void describe(Section& train, auto& field) {
  field(required_or("epochs", "steps"), train.steps, IntegerIn{1, kMaxSteps},
        "Total number of steps, including those before a resume. With `epochs`, leave it out.");
  field("epochs", train.epochs, NumberIn{0.0, 1e6},
        "Instead of `steps`: how often the run sees each training sample, such as 3 or 0.5. The "
        "steps follow from the number of samples and `batch.global`, rounded up; the run says "
        "them, and a resumed run keeps them unless one of these two keys has changed. An error "
        "for blends, whose datasets end at different times. 0 means that `steps` says it.");
  field("recompute", train.recompute,
        OneOf<Recompute>{{{"none", Recompute::none},
                          {"activation", Recompute::activation},
                          {"block", Recompute::block}}},
        "Activations to recompute in the backward pass instead of storing them: `activation` the "
        "outputs of the MLP's activation function; `block` everything in a block except its input, "
        "at the cost of a third more computation. The results have the same bits, with one "
        "exception: `activation` in bf16 on a GPU applies the tanh GELU to sums that are already "
        "rounded.");
  field("cuda_graph", train.cuda_graph,
        OneOf<CudaGraph>{{{"auto", CudaGraph::automatic}, {"off", CudaGraph::off}}},
        "Whether to launch a micro-batch's kernels as one captured CUDA graph. `auto` does so if "
        "micro-batches have few shapes and tensor ranks use NCCL; `off` launches each kernel. The "
        "results have the same bits.");
  field("cudnn_dropout", train.cudnn_dropout, TrueOrFalse{},
        "With `run.precision: bf16` and `model.attention_dropout` on a GPU: whether cuDNN may "
        "compute attention and draw its dropout. Its random bits are not a CPU's, and they depend "
        "on `batch.micro`, the number of ranks, cuDNN's version and the GPU; a repeated run on the "
        "same ones has the same bits. Shapes that cuDNN has no plan for keep Tessera's kernels and "
        "their bits. An error without a GPU or without cuDNN.");
  field(
      "max_skipped_steps", train.max_skipped_steps, IntegerIn{0, kMaxSteps},
      "How many steps of the run may have a loss or gradient that is NaN or infinite, or be a "
      "spike (`spike_factor`). Such a step changes neither weights nor moments, on all "
      "ranks alike, and is reported; resumed runs count on. The next one ends the run, and so does "
      "the first if this is 0.");
  field("max_rollbacks", train.max_rollbacks, IntegerIn{0, kMaxSteps},
        "How often the run, instead of ending because no more steps may be skipped, goes back to "
        "its newest checkpoint and continues with the samples after the bad step: those since the "
        "checkpoint are left out, on all ranks alike. It saves the checkpoint again with the new "
        "position, so that resumed runs count on. Needs a `checkpoint.interval` in steps.");
  field("spike_factor", train.spike_factor, NumberIn{0.0, 1e6},
        "A step is a spike, and is skipped, if its gradient norm before clipping is more than this "
        "many times the median of the last `spike_window` steps that were not skipped. Common "
        "values are 3 to 10. No step is a spike before that many steps. 0 looks for no spikes; "
        "other values are at least 1.");
  field("spike_window", train.spike_window, IntegerIn{1, kMaxSpikeWindow},
        "With `spike_factor`: how many gradient norms have the median. Checkpoints keep them, so "
        "that a resumed run decides alike.");
  field("check_replicas_interval", train.check_replicas_interval, IntegerIn{0, kMaxSteps},
        "Steps after which ranks compare checksums of the state that they must have in common: "
        "weights, fp32 masters, moments and average; data ranks those of their shard, all ranks "
        "replicated ones. A run also compares them in each save, and ends with an error that names "
        "the parameter and the ranks that differ. With `parallel.zero` a part of the state has "
        "one copy, which nothing is compared with ([reliability.md](reliability.md#what-is-"
        "promised)). 0 never compares.");
}

template <MaybeConst<OptimizerSection> Section>
void describe(Section& optimizer, auto& field) {
  field(
      "name", optimizer.name,
      OneOf<OptimizerName>{{{"adamw", OptimizerName::adamw},
                            {"lion", OptimizerName::lion},
                            {"muon", OptimizerName::muon}}},
      "`adamw` (Loshchilov and Hutter, 2019) keeps two moments of each weight. `lion` (Chen et "
      "al., 2023) moves each weight by the sign of its momentum, which is its only "
      "moment. Its authors use `betas: [0.9, 0.99]`, and an `lr` 3 to 10 times smaller and a "
      "`weight_decay` as many times larger than AdamW's. `muon` (Jordan et al., 2024; Liu et al., "
      "2025) makes the momentum of each weight matrix in the blocks orthogonal, with queries, keys "
      "and values as matrices of their own; all other parameters have AdamW. Its updates are "
      "scaled as large as AdamW's, so that AdamW's `lr` and `weight_decay` fit. A matrix has one "
      "moment.");
  field("lr", optimizer.lr, NumberIn{0.0, 1e6},
        "The peak learning rate. Wider models need smaller ones, but not with "
        "`model.mup_base_hidden_size`.");
  field("min_lr", optimizer.min_lr, NumberIn{0.0, 1e6},
        "Learning rate at the last step, or with `inverse_sqrt` the lowest; at most `lr`.");
  field("schedule", optimizer.schedule,
        OneOf<LrSchedule>{{{"cosine", LrSchedule::cosine},
                           {"linear", LrSchedule::linear},
                           {"constant", LrSchedule::constant},
                           {"warmup_stable_decay", LrSchedule::warmup_stable_decay},
                           {"inverse_sqrt", LrSchedule::inverse_sqrt},
                           {"polynomial", LrSchedule::polynomial}}},
        "How the learning rate decays from `lr` to `min_lr` after the warmup. `constant` keeps "
        "`lr`; `warmup_stable_decay` keeps it until the last `decay_steps`. `inverse_sqrt` "
        "multiplies it by the square root of `warmup_steps` / step, whatever `train.steps` is. "
        "`polynomial` raises the linear decay to `power`.");
  field("decay_steps", optimizer.decay_steps, IntegerIn{0, kMaxSteps},
        "With `schedule: warmup_stable_decay`: the steps at the end over which the learning rate "
        "decays. 0 means a tenth of `train.steps`.");
  field("decay_style", optimizer.decay_style,
        OneOf<DecayStyle>{{{"linear", DecayStyle::linear},
                           {"cosine", DecayStyle::cosine},
                           {"minus_sqrt", DecayStyle::minus_sqrt}}},
        "With `schedule: warmup_stable_decay`: the shape of the decay. `minus_sqrt` is 1 minus the "
        "square root of its progress (Hägele et al., 2024).");
  field("power", optimizer.power, NumberIn{0.0, 100.0},
        "With `schedule: polynomial`: the exponent; 1 is linear.");
  field("warmup_steps", optimizer.warmup_steps, IntegerIn{0, kMaxSteps},
        "Steps over which the learning rate rises linearly to `lr`; at most `train.steps`.");
  field(
      "betas", optimizer.betas, PairOf<NumberIn>{{0.0, 1.0, true}},
      "AdamW's decay rates of the running means of the gradient and its square. With `name: lion`: "
      "of the momentum within the update, and of the momentum that is kept.");
  field("eps", optimizer.eps, NumberIn{1e-30, 1.0},
        "Added to the square root of AdamW's second moment, to avoid division by zero.");
  field("momentum", optimizer.momentum, NumberIn{0.0, 1.0, true},
        "With `name: muon`: the decay rate of the running mean of a matrix's gradient.");
  field("nesterov", optimizer.nesterov, TrueOrFalse{},
        "With `name: muon`: whether the update is the mean one step ahead, with the gradient once "
        "more (Nesterov), instead of the mean.");
  field("ns_steps", optimizer.ns_steps, IntegerIn{1, 20},
        "With `name: muon`: the Newton-Schulz steps that make an update orthogonal. After 5, its "
        "singular values are between about 0.7 and 1.2.");
  field("weight_decay", optimizer.weight_decay, NumberIn{0.0, 1e6},
        "Decoupled weight decay of matrices and embeddings. Biases and norms are not decayed.");
  field("grad_clip", optimizer.grad_clip, NumberIn{0.0, 1e30},
        "Maximum gradient norm over all parameters; larger gradients are scaled down to it. 0 "
        "disables clipping.");
  field("stochastic_rounding", optimizer.stochastic_rounding, TrueOrFalse{},
        "With `run.precision: bf16`: whether the optimizer rounds the fp32 master weights to bf16 "
        "stochastically, so that the expected value is the master, instead of to nearest. The bits "
        "depend on `run.seed`, the step and the weight, not on the layout.");
  field("ema_decay", optimizer.ema_decay, NumberIn{0.0, 1.0, true},
        "Keeps an exponential moving average of the weights, which often evaluates better than the "
        "weights of a single step: after each step, average = `ema_decay` × average + (1 - "
        "`ema_decay`) × weight, in fp32. It begins with the weights where it starts, without a "
        "warmup of the decay; a common value is 0.999. Evaluations compute the loss of both, and "
        "`checkpoint.keep_best` and `eval.patience` compare that of the average. Checkpoints store "
        "it, and commands that use a model, as `tessera export`, read it with `--ema`. Takes 4 "
        "bytes per trained parameter, sharded by `parallel.zero`. 0 keeps none.");
  field("moment_dtype", optimizer.moment_dtype,
        OneOf<DType>{{{"fp32", DType::f32}, {"bf16", DType::bf16}, {"int8", DType::u8}}},
        "Precision in which the optimizer's moments are stored; a step computes in fp32. `bf16` "
        "halves their memory, from 8 to 4 bytes per parameter with `adamw`. It is rounded "
        "stochastically, with bits that depend on `run.seed`, the step, the weight and the moment, "
        "not on the layout. `int8` needs about 2 bytes: a code of 8 bits for each number and an "
        "fp32 scale for 256 of them (Dettmers et al., 2022); parameters with fewer than 4096 "
        "elements stay in fp32. A run may resume with another one; its moments are converted.");
  field("lr_scales", optimizer.lr_scales, PatternNumbers{{0.0, 1e6}},
        "Factors of the learning rate of some parameters, by patterns of their names, as in "
        "`{\"embedding.*\": 0.1, \"classifier.*\": 10}`. `*` stands for any text; of several "
        "patterns that match, the last one counts. `tessera inspect` of a checkpoint lists the "
        "names.");
  field("layer_lr_decay", optimizer.layer_lr_decay, NumberIn{0.01, 1.0},
        "Layer-wise decay of the learning rate, for fine-tuning (Clark et al., ELECTRA, 2020): its "
        "factor is 1 for the heads and the final norm, this for the last block, its square for the "
        "block before, and so on down to the embeddings.");
  field(
      "frozen", optimizer.frozen, ListOf<Text>{{}, /*may_be_empty=*/true},
      "Patterns of the names of parameters that training does not change, as in `[\"embedding.*\", "
      "\"blocks.[0-5].*\"]`. They need no memory for gradients, master weights on a GPU, or "
      "moments.");
  field("trained", optimizer.trained, ListOf<Text>{{}, /*may_be_empty=*/true},
        "With `model.lora_rank`: patterns of the names of parameters that training changes beside "
        "the adapters, as in `[\"embedding.word\", \"head.*\"]` for tokens that the model has not "
        "seen before, such as those of a chat template. PEFT calls them `modules_to_save`.");
}

template <MaybeConst<EvalSection> Section>
void describe(Section& eval, auto& field) {
  field("interval", eval.interval, IntegerIn{0, kMaxSteps},
        "Steps between evaluations, which need `data.eval` or `data.eval_fraction`; the last step "
        "of the run is evaluated, too. 0 disables them.");
  field("batches", eval.batches, IntegerIn{1, kMaxSteps},
        "Batches of `batch.global` sequences that an evaluation averages over, spread evenly over "
        "the evaluation data and the same ones each time; all of it if there are fewer.");
  field("patience", eval.patience, IntegerIn{0, kMaxSteps},
        "Early stopping: the run saves and ends after this many evaluations in a row without a "
        "lower loss than the lowest so far, of the averaged weights with `optimizer.ema_decay`. 0 "
        "never ends it.");
  field("prompts", eval.prompts, ListOf<Passage>{{}, /*may_be_empty=*/true},
        "Texts that the model continues during the run, with `sample_interval`; of an "
        "encoder-decoder, source texts. An empty one starts a document. If the training data has "
        "messages, they are messages of the user, to which the model replies. What the model "
        "writes is on the terminal, in `run.dir`/`samples.jsonl`, in TensorBoard and in `tessera "
        "report`. It changes nothing of the training.");
  field("sample_interval", eval.sample_interval, IntegerIn{0, kMaxSteps},
        "Steps between texts for all `prompts`; there are some after the last step, too. 0 writes "
        "none.");
  field("sample_tokens", eval.sample_tokens, IntegerIn{1, kMaxWidth},
        "With `prompts`: the most tokens of a text. It ends earlier with a document.");
  field("sample_temperature", eval.sample_temperature, NumberIn{0.0, 1000.0},
        "With `prompts`: the sampling temperature, as of `generate`; 0 always takes the most "
        "likely token. The random numbers depend only on `run.seed`, the step and the prompt's "
        "place in the list.");
  field(
      "multiple_choice", eval.multiple_choice, ListOf<Text>{{}, /*may_be_empty=*/true},
      "Files of multiple-choice questions (`.jsonl`, docs/evaluation.md) that each evaluation of a "
      "model that predicts the next token answers, too; results are named after the files.");
}

template <MaybeConst<CheckpointSection> Section>
void describe(Section& checkpoint, auto& field) {
  field(derived("interval"), checkpoint.interval, IntegerIn{0, kMaxSteps},
        "Steps between checkpoints, which is the most that a crash can lose; 0 saves only at the "
        "end. `auto` saves by time: every 5 minutes, or less often, so that saving takes at most "
        "5% of the time, as measured; the first after 10 minutes at the latest. Each replaces the "
        "last one by time. If it cannot be written, or there is no memory for a copy, training "
        "continues without it, or waits for the disk.");
  field("keep", checkpoint.keep, IntegerIn{0, kMaxSteps},
        "Number of newest checkpoints to keep; older ones are deleted. 0 keeps all, except those "
        "by time (`interval: auto`), of which only the newest stays.");
  field("keep_best", checkpoint.keep_best, TrueOrFalse{},
        "With `keep`: whether to keep the checkpoint of the evaluation with the lowest loss, too; "
        "with `optimizer.ema_decay` that of the averaged weights. "
        "`eval.interval` must be a multiple of `interval`, a number, so that each evaluation has "
        "one.");
  field("background", checkpoint.background, TrueOrFalse{},
        "Whether to write checkpoints while training continues. Steps then wait only for a copy of "
        "what this rank writes: 12 bytes of host memory per parameter, 4 of them for each moment "
        "(2 with `moment_dtype: bf16`), and 4 more with `ema_decay`; shared by the data ranks. "
        "With `false` they wait for the disk. The last checkpoint of a run is written without a "
        "copy.");
  field("resume", checkpoint.resume,
        OneOf<ResumeMode>{{{"auto", ResumeMode::automatic},
                           {"never", ResumeMode::never},
                           {"required", ResumeMode::required}}},
        "Whether to resume from the newest checkpoint in `run.dir`: `auto` if there is one, "
        "`never`, or `required`, which is an error without one.");
  field("from", checkpoint.from, OrNull<Text>{},
        "Folder of a run, or of one of its checkpoints, to load initial weights from if `run.dir` "
        "has no checkpoint: those of the last step, not their average. The step count, optimizer, "
        "average and data order start fresh, unless `from_state` is true.");
  field("from_state", checkpoint.from_state, TrueOrFalse{},
        "With `from`: whether to continue its run from there in this `run.dir`, with its optimizer "
        "state, step count and position in the data, as when a learning-rate decay branches off.");
}

template <MaybeConst<LogSection> Section>
void describe(Section& log, auto& field) {
  field("interval", log.interval, IntegerIn{1, kMaxSteps},
        "Steps between lines in `metrics.jsonl` and on the terminal.");
  field("tensorboard", log.tensorboard, TrueOrFalse{},
        "Whether TensorBoard gets the numbers of `metrics.jsonl`, the texts of `eval.prompts` and "
        "the configuration too, in `run.dir`/`tensorboard/`.");
  field("report_interval", log.report_interval, IntegerIn{0, kMaxSteps},
        "Steps between pages of charts that the first rank writes to `run.dir`/`report.html`, as "
        "`tessera report` does, and after the run; 0 is never. The page loads itself again while "
        "the run is alive. Other ranks wait for it.");
  field("histogram_interval", log.histogram_interval, IntegerIn{0, kMaxSteps},
        "Steps between histograms of each parameter's weights and gradients in TensorBoard; 0 is "
        "never. Needs `tensorboard`. Such a step copies both to the host.");
  field("attention_interval", log.attention_interval, IntegerIn{0, kMaxSteps},
        "Steps between pictures of what the first heads of the first two layers attend to in the "
        "same held-out text: in TensorBoard, and on the page of `tessera report`; 0 is never. "
        "Needs evaluation data. An error for images.");
  field("noise_scale_interval", log.noise_scale_interval, IntegerIn{0, kMaxSteps},
        "Steps between measurements of the gradient noise scale (McCandlish et al., 2018), the "
        "batch size beyond which larger batches help little, in samples; 0 is never. A measurement "
        "reads the gradients of the first micro-batch once more and waits for the device. With one "
        "micro-batch per data rank, its sum of gradients does not overlap with the backward pass. "
        "An error with a single micro-batch in all, or `model.head: embedding`.");
  field("timeline_steps", log.timeline_steps, IntegerIn{0, 1000},
        "Number of steps that each CPU rank records in `run.dir`/`timeline/`: layers, ops and "
        "collectives over time, for chrome://tracing or ui.perfetto.dev. 0 records none. An error "
        "on GPUs; use `nsys profile`, which shows the same ranges next to GPU activity.");
  field("timeline_skip", log.timeline_skip, IntegerIn{0, kMaxSteps},
        "Steps to skip before recording, after each start or resume: the first steps allocate "
        "memory and compile matrix products.");
}

template <MaybeConst<RunConfig> Config>
void describe(Config& config, auto& section) {
  section("run", config.run, "The run as a whole.");
  section("model", config.model,
          "The model, with the names that Hugging Face and Megatron-LM use. The defaults are a "
          "small GPT that learns in minutes on a CPU. With `checkpoint.from`, keys that are not "
          "given come from that checkpoint, except dropout and `init_stddev`.");
  section("data", config.data, "The datasets and the tokenizer.");
  section("mlm", config.mlm,
          "Masked language modeling. The choice of tokens differs in every epoch and is the same "
          "on any number of ranks.");
  section("span_corruption", config.span_corruption,
          "Pre-training of encoder-decoders on prepared datasets, as in T5: spans of a text are "
          "replaced by sentinels, and the model writes each sentinel and the tokens that it "
          "replaced. Spans differ in every epoch and are the same on any number of ranks. Not for "
          "pairs of texts.");
  section("augmentation", config.augmentation,
          "Random changes of training images, which differ in every epoch and are the same on any "
          "number of ranks. Not for texts, and not in evaluations.");
  section("parallel", config.parallel,
          "How the ranks that `tessera run -np N` starts share the work.");
  section("batch", config.batch, "Batch sizes, in sequences of up to `model.seq_length` tokens.");
  section("train", config.train, "The length of the run, and what it trades for memory and speed.");
  section("optimizer", config.optimizer, "The optimizer and its learning rate.");
  section("eval", config.eval, "Evaluation during training.");
  section("checkpoint", config.checkpoint, "Saving, resuming and initial weights.");
  section("log", config.log, "Metrics and timelines.");
}

}  // namespace tessera
