#pragma once

#include <concepts>
#include <string_view>
#include <type_traits>

#include "launch/config/run_config.h"
#include "launch/config/value_rule.h"

namespace tessera {

// Defines every key of a configuration once: its name, member, rule and reason. Parsing, --set,
// range checks, the resolved config.yaml and docs/configuration.md are all generated from it. A
// default is the member's own, in run_config.h and models/model_config.h.
//
// describe(section, field) calls `field(key, member, rule, meaning)` for each key in order;
// describe(config, section) calls `section(name, member, meaning)` for each section. The first
// argument may be const.

/// A key's name, and whether a file must provide it.
struct Key {
  std::string_view name;
  bool required = false;

  constexpr Key(const char* key) : name(key) {}  // NOLINT: a name alone is an optional key
};

constexpr Key required(const char* name) {
  Key key(name);
  key.required = true;
  return key;
}

template <typename T, typename Section>
concept MaybeConst = std::same_as<std::remove_const_t<T>, Section>;

// Limits far beyond any run, so that products of a few of them fit into 64 bits.
inline constexpr int64_t kMaxSteps = 1'000'000'000;
inline constexpr int64_t kMaxSequences = 100'000'000;
inline constexpr int64_t kMaxWidth = 1'000'000;

template <MaybeConst<RunSection> Section>
void describe(Section& run, auto& field) {
  field(required("dir"), run.dir, Text{},
        "The folder the run writes to: `config.yaml`, `metrics.jsonl` and `checkpoints/`.");
  field("seed", run.seed, IntegerIn{0, INT64_MAX},
        "Decides initial weights, dropout and the order of samples, on any number of ranks.");
  field(
      "device", run.device,
      OneOf<DeviceChoice>{{{"auto", DeviceChoice::automatic},
                           {"cpu", DeviceChoice::cpu},
                           {"cuda", DeviceChoice::cuda}}},
      "Where to compute: on NVIDIA GPUs or on CPUs. `auto` takes GPUs where there are any and the "
      "build can use them, one a rank in the order of a host's ranks.");
  field("precision", run.precision, OneOf<DType>{{{"fp32", DType::f32}, {"bf16", DType::bf16}}},
        "Of weights and activations in the forward and backward pass. `bf16` halves their memory; "
        "gradients, master weights and AdamW's moments stay fp32.");
  field("tf32", run.tf32, TrueOrFalse{},
        "With `precision: fp32` on a GPU: whether the matrix products of linear layers run on its "
        "tensor cores, which cut their operands to 11 significant bits of fp32's 24 and add up in "
        "fp32. An error where there is no GPU.");
}

/// The values of model.kind.
std::vector<std::pair<std::string_view, ModelKind>> model_kinds();

template <MaybeConst<ModelConfig> Section>
void describe(Section& model, auto& field) {
  field("kind", model.kind, OneOf<ModelKind>{model_kinds()},
        "The architecture: `gpt` is a decoder that predicts the next token, `bert` an encoder that "
        "predicts masked ones.");
  field("num_layers", model.num_layers, IntegerIn{1, 10'000}, "Transformer blocks.");
  field("hidden_size", model.hidden_size, IntegerIn{1, kMaxWidth},
        "Width of the residual stream; a multiple of `num_heads`.");
  field("num_heads", model.num_heads, IntegerIn{1, kMaxWidth},
        "Attention heads; they are split evenly over `parallel.tensor` ranks.");
  field("mlp_size", model.mlp_size, IntegerIn{0, 10 * kMaxWidth},
        "Width between the two layers of the MLP, split over `parallel.tensor` ranks; "
        "0 is 4 × `hidden_size`.");
  field("seq_length", model.seq_length, IntegerIn{1, 10'000'000},
        "Tokens of a sequence, which is also the number of learned positions.");
  field("vocab_size", model.vocab_size, IntegerIn{1, INT32_MAX},
        "Rows of the embedding. Any number: what does not divide by `parallel.tensor` is padded in "
        "memory only. Byte tokens need 257.");
  field("dropout", model.dropout, NumberIn{0.0, 1.0, true},
        "Probability of a zero after the embeddings and before each residual sum.");
  field("attention_dropout", model.attention_dropout, NumberIn{0.0, 1.0, true},
        "Probability of a zero among the attention weights.");
  field("bias", model.bias, TrueOrFalse{}, "Whether linear layers and norms have a bias.");
  field("layer_norm_eps", model.layer_norm_eps, NumberIn{1e-30, 1.0},
        "Added to the variance in a norm, so that a constant row does not divide by zero.");
  field("init_stddev", model.init_stddev, NumberIn{0.0, 1000.0},
        "Standard deviation of the initial weights.");
  field(
      "norm", model.norm,
      OneOf<NormPosition>{{{"auto", NormPosition::automatic},
                           {"pre", NormPosition::pre},
                           {"post", NormPosition::post}}},
      "Where a block normalises: `pre`, before attention and MLP, and once at the end, or `post`, "
      "after each residual sum. `auto` is the paper's: `pre` for `gpt`, `post` for `bert`.");
  field("positions", model.positions,
        OneOf<Positions>{{{"learned", Positions::learned}, {"rotary", Positions::rotary}}},
        "How a token's position comes in: a learned embedding each, or queries and keys rotated by "
        "it (RoPE), for which the width of a head has to be even.");
  field("rotary_base", model.rotary_base, NumberIn{1.0, 1e12},
        "The base of the rotations' wavelengths, for `positions: rotary`.");
  field("attention_window", model.attention_window, IntegerIn{0, 10'000'000},
        "A token sees only those less than this many positions away (sliding window); 0 is all.");
  field(
      "token_types", model.token_types, IntegerIn{0, 1000},
      "Rows of the embedding of token types, which tells the two parts of a pair apart; 2 in BERT, "
      "0 is no such embedding. Only for `bert`.");
  field(
      "next_sentence", model.next_sentence, TrueOrFalse{},
      "Whether BERT also learns if the second part of a pair follows the first. Samples are pairs "
      "of sentences then, half of them random. Needs 2 `token_types`.");
  field(
      "head", model.head,
      OneOf<Head>{{{"pretraining", Head::pretraining}, {"classification", Head::classification}}},
      "What the model ends in: the head or heads of its pre-training, or, for `bert`, one for the "
      "class of a text.");
  field("num_labels", model.num_labels, IntegerIn{0, 1'000'000},
        "Classes of `head: classification`, at least 2.");
}

template <MaybeConst<DataSection> Section>
void describe(Section& data, auto& field) {
  field(required("train"), data.train, PathOrBlend{},
        "Prefix of the dataset to train on, as it was given to `tessera prepare`; for `model.head: "
        "classification` a `.jsonl` or `.tsv` file of labelled texts. Several are blended by "
        "weight, as in `{data/books: 0.7, data/web: 0.3}`: in every stretch of the run each has "
        "its share of the samples, and begins anew when all of its own have been used.");
  field("eval", data.eval, OrNull<PathOrBlend>{},
        "Likewise, to evaluate on; null holds out `eval_fraction` of `train`.");
  field("eval_fraction", data.eval_fraction, NumberIn{0.0, 1.0, true},
        "The part at the end of each dataset of `train` that is evaluated on and never trained on. "
        "Only without `eval`.");
  field("test_fraction", data.test_fraction, NumberIn{0.0, 1.0, true},
        "The part at the end of each dataset of `train`, behind that of `eval_fraction`, that the "
        "run never sees: it is for a test when all is done. Megatron-LM's `--split 969,30,1` is "
        "`eval_fraction: 0.03` and `test_fraction: 0.001`.");
  field(
      "tokenizer", data.tokenizer, TokenizerName{},
      "How the text was cut, as it was given to `tessera prepare`: `byte` has a token for each of "
      "the 256 bytes and one between documents; `wordpiece:` is BERT's, which lower-cases and "
      "strips accents, with its vocabulary, `wordpiece-cased:` BERT's that does neither; `bpe:` is "
      "GPT-2's byte-level BPE, a folder with vocab.json and merges.txt; `huggingface:` a "
      "tokenizer.json of either kind; `sentencepiece:` a model of that library. It is kept in "
      "checkpoints.");
  field("packing", data.packing,
        OneOf<Packing>{{{"concatenate", Packing::concatenate}, {"documents", Packing::documents}}},
        "For `gpt`: what a row of `model.seq_length` tokens is. `concatenate` cuts it from all "
        "documents one after the other, as Megatron-LM does. `documents` puts whole documents into "
        "it, as many as fit, which do not see one another; only one that is longer is cut. What is "
        "left of a row is not computed.");
  field("separate_documents", data.separate_documents, TrueOrFalse{},
        "For `gpt` with `packing: concatenate`: whether attention ends and positions restart where "
        "a document ends within a sample. Documents are those of the dataset's index, whatever its "
        "tokens are.");
  field("loss_across_documents", data.loss_across_documents, TrueOrFalse{},
        "For `gpt` with `packing: concatenate`: whether the last token of a document has to "
        "predict the first of the next.");
  field(
      "short_samples", data.short_samples,
      OneOf<ShortSamples>{{{"pad", ShortSamples::pad}, {"pack", ShortSamples::pack}}},
      "For `bert`: whether a sample shorter than `model.seq_length` has a row of a batch to itself "
      "or shares it with others, which it does not see. Padding is not computed either way; "
      "packing makes the rows of a batch equally long. Not for pairs and not for classification.");
  field("labels", data.labels, OrNull<Text>{},
        "For `head: classification`: the names of the labels, in order and separated by commas, as "
        "in `negative,positive`; null where the data has their numbers.");
  field("truncate", data.truncate, TrueOrFalse{},
        "For `head: classification`: whether texts of more than `model.seq_length` tokens are cut; "
        "else they are errors.");
}

template <MaybeConst<MaskingOptions> Section>
void describe(Section& mlm, auto& field) {
  field("probability", mlm.probability, NumberIn{0.0, 1.0},
        "The part of the tokens that is chosen, to be predicted. Special tokens never are.");
  field("mask_fraction", mlm.mask_fraction, NumberIn{0.0, 1.0},
        "The part of the chosen tokens that the model sees as [MASK].");
  field("random_fraction", mlm.random_fraction, NumberIn{0.0, 1.0},
        "The part of the chosen tokens that the model sees as a random token; the rest it sees as "
        "they are.");
  field(
      "unit", mlm.unit,
      OneOf<MaskUnit>{{{"token", MaskUnit::token},
                       {"whole_word", MaskUnit::whole_word},
                       {"span", MaskUnit::span}}},
      "What is chosen together: a token, all tokens of a word, or a span of words whose length is "
      "geometric (Joshi et al., SpanBERT, 2020).");
  field("max_span", mlm.max_span, IntegerIn{1, 1000}, "The most words of a span.");
}

template <MaybeConst<ParallelSection> Section>
void describe(Section& parallel, auto& field) {
  field("tensor", parallel.tensor, IntegerIn{1, kMaxWidth},
        "Ranks that share one replica of the model. The others are data ranks: their number is "
        "that of all ranks, divided by this.");
  field("zero", parallel.zero, IntegerIn{0, 1},
        "The stage of ZeRO. 1 shares AdamW's moments, and the master weights of `precision: bf16`, "
        "among the data ranks: each keeps and updates its part. Nothing "
        "changes with one data rank. A checkpoint of either goes on with the other.");
  field("sequence", parallel.sequence, TrueOrFalse{},
        "Whether the `tensor` ranks also share the tokens of a micro-batch where each would do the "
        "same with all of them, in norms, dropout and residual sums: sequence parallelism, as in "
        "Megatron-LM. A block's activations take `tensor` times less memory than on one rank. As "
        "much is exchanged as without it, and what enters attention and MLP once more in the "
        "backward pass. With `tensor: 1` nothing changes.");
  field("backend", parallel.backend,
        OneOf<Backend>{
            {{"auto", Backend::automatic}, {"nccl", Backend::nccl}, {"mpi", Backend::mpi}}},
        "How GPUs exchange tensors: `nccl` directly, for which every rank needs a GPU of its own; "
        "`mpi` through the memory of their hosts, which is slower and lets any number of ranks "
        "share a GPU. `auto` is `nccl` where it is possible. CPU ranks always use MPI.");
}

template <MaybeConst<BatchSection> Section>
void describe(Section& batch, auto& field) {
  field(required("global"), batch.global, IntegerIn{1, kMaxSequences},
        "Sequences of a step, over all ranks; a multiple of `micro` × data ranks. The result of a "
        "step does not depend on how it is divided.");
  field(required("micro"), batch.micro, IntegerIn{1, kMaxSequences},
        "Sequences that a data rank computes at once. More are faster until memory ends; the rest "
        "of its share follows one after the other, gradients added up.");
}

template <MaybeConst<TrainSection> Section>
void describe(Section& train, auto& field) {
  field(required("steps"), train.steps, IntegerIn{1, kMaxSteps},
        "Optimizer steps of the whole run, those before a resume included.");
  field("recompute", train.recompute,
        OneOf<Recompute>{
            {{"none", Recompute::none}, {"gelu", Recompute::gelu}, {"block", Recompute::block}}},
        "Activations that are computed again in the backward pass instead of kept: `gelu` the "
        "MLPs' activations, `block` all of a block but its input, for a third more computing. The "
        "results are the same bits, but that of `gelu` in bf16 on a GPU: it takes a tanh GELU of "
        "sums that are rounded already.");
  field("cuda_graph", train.cuda_graph,
        OneOf<CudaGraph>{{{"auto", CudaGraph::automatic}, {"off", CudaGraph::off}}},
        "Whether a GPU's host enqueues the kernels of a micro-batch one by one (`off`), or, where "
        "micro-batches have few shapes and tensor ranks exchange by NCCL, as one CUDA graph, which "
        "it has recorded before. The results are the same bits.");
}

template <MaybeConst<OptimizerSection> Section>
void describe(Section& optimizer, auto& field) {
  field("lr", optimizer.lr, NumberIn{0.0, 1e6},
        "AdamW's learning rate at its peak; smaller for wider models.");
  field("min_lr", optimizer.min_lr, NumberIn{0.0, 1e6},
        "Where `cosine` and `linear` end, at the last step; at most `lr`.");
  field("schedule", optimizer.schedule,
        OneOf<LrSchedule>{{{"cosine", LrSchedule::cosine},
                           {"linear", LrSchedule::linear},
                           {"constant", LrSchedule::constant}}},
        "The way from `lr` after the warm-up to `min_lr`; `constant` stays at `lr`.");
  field("warmup_steps", optimizer.warmup_steps, IntegerIn{0, kMaxSteps},
        "Steps over which the learning rate rises in a line to `lr`, while AdamW's moments are "
        "still rough; at most `train.steps`.");
  field("betas", optimizer.betas, PairOf<NumberIn>{{0.0, 1.0, true}},
        "Decay of AdamW's running means of gradients and of their squares.");
  field("eps", optimizer.eps, NumberIn{1e-30, 1.0},
        "Added to the root of the second moment, so that a weight without gradients stays.");
  field("weight_decay", optimizer.weight_decay, NumberIn{0.0, 1e6},
        "Decoupled decay of matrices and embeddings; biases and norms have none.");
  field("grad_clip", optimizer.grad_clip, NumberIn{0.0, 1e30},
        "Gradients whose norm over all parameters is larger are scaled down to it; 0 is off.");
  field("stochastic_rounding", optimizer.stochastic_rounding, TrueOrFalse{},
        "With `run.precision: bf16`: whether AdamW rounds the weights that a step computes with up "
        "or down at random, such that their mean is the fp32 master, instead of to the nearest. "
        "The bits depend on `run.seed`, the step and the weight, not on the number of ranks.");
}

template <MaybeConst<EvalSection> Section>
void describe(Section& eval, auto& field) {
  field("interval", eval.interval, IntegerIn{0, kMaxSteps},
        "Steps between evaluations, which need `data.eval` or `data.eval_fraction`; 0 is never.");
  field("batches", eval.batches, IntegerIn{1, kMaxSteps},
        "Batches of `batch.global` sequences that one evaluation averages over.");
}

template <MaybeConst<CheckpointSection> Section>
void describe(Section& checkpoint, auto& field) {
  field(
      "interval", checkpoint.interval, IntegerIn{0, kMaxSteps},
      "Steps between checkpoints, which is the most that a crash can cost; 0 is only at the end.");
  field("keep", checkpoint.keep, IntegerIn{0, kMaxSteps},
        "The newest so many checkpoints stay, older ones are removed; 0 keeps all.");
  field("background", checkpoint.background, TrueOrFalse{},
        "Whether steps go on while a checkpoint is written: they wait only for a copy of what this "
        "rank writes, 12 bytes of host memory a parameter, shared by the data ranks; `false` waits "
        "for the disk. The last checkpoint of a run is written without a copy.");
  field("resume", checkpoint.resume,
        OneOf<ResumeMode>{{{"auto", ResumeMode::automatic},
                           {"never", ResumeMode::never},
                           {"required", ResumeMode::required}}},
        "Whether to go on from the newest checkpoint in `run.dir`: if there is one, never, or with "
        "an error where there is none.");
  field("from", checkpoint.from, OrNull<Text>{},
        "A run's folder, or one of its steps, whose weights to start with while `run.dir` has no "
        "checkpoint; steps, optimizer and data begin anew.");
}

template <MaybeConst<LogSection> Section>
void describe(Section& log, auto& field) {
  field("interval", log.interval, IntegerIn{1, kMaxSteps},
        "Steps between lines of `metrics.jsonl` and of the terminal.");
  field(
      "timeline_steps", log.timeline_steps, IntegerIn{0, 1000},
      "Steps of which each CPU rank writes to `timeline/` in `run.dir` what it did when: layers, "
      "ops and collectives, for chrome://tracing or ui.perfetto.dev. 0 is none. An error on GPUs, "
      "for which `nsys profile` shows the same ranges beside what the GPU does.");
  field("timeline_skip", log.timeline_skip, IntegerIn{0, kMaxSteps},
        "Steps before those, whenever the run starts or resumes: the first take memory and compile "
        "matrix products.");
}

template <MaybeConst<RunConfig> Config>
void describe(Config& config, auto& section) {
  section("run", config.run, "The run as a whole.");
  section("model", config.model,
          "The shape of the model, in Hugging Face's and Megatron-LM's words. The defaults are "
          "those of GPT-2 124M.");
  section("data", config.data, "What is trained and evaluated on.");
  section("mlm", config.mlm,
          "Masked language modelling, for `model.kind: bert`. Which tokens are chosen is another "
          "choice in every epoch, and the same on any number of ranks.");
  section("parallel", config.parallel, "How the ranks that `mpirun` starts share the work.");
  section("batch", config.batch, "Sizes of batches, in sequences of `model.seq_length` tokens.");
  section("train", config.train, "How long to train.");
  section("optimizer", config.optimizer, "AdamW and its learning rate.");
  section("eval", config.eval, "The loss on text that is not trained on.");
  section("checkpoint", config.checkpoint, "What is saved, and what a run starts from.");
  section("log", config.log, "What a run says as it goes.");
}

}  // namespace tessera
