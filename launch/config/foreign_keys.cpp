#include "launch/config/foreign_keys.h"

#include <fmt/format.h>

#include <algorithm>

namespace tessera {
namespace {

constexpr ForeignKey kForeignKeys[] = {
    {"run.dir", {"output_dir", "out_dir", "save_dir", "save", "dump_folder"}},
    {"run.seed", {"random_seed"}},
    {"run.precision",
     {"bf16", "fp16", "dtype", "torch_dtype", "params_dtype", "mixed_precision",
      "mixed_precision_param"},
     "fp32 or bf16"},

    {"model.kind", {"model_type", "architecture", "architectures"}},
    {"model.num_layers", {"layers", "n_layer", "n_layers", "num_hidden_layers", "encoder_layers"}},
    {"model.num_decoder_layers", {"decoder_layers", "decoder_num_layers"}},
    {"model.source_length", {"max_source_length", "encoder_seq_length"}},
    {"model.hidden_size",
     {"hidden", "hidden_dim", "n_embd", "d_model", "embed_dim", "embedding_dim", "dim"}},
    {"model.num_heads", {"heads", "n_head", "n_heads", "nhead", "num_attention_heads"}},
    {"model.num_kv_heads", {"num_key_value_heads", "num_query_groups", "n_kv_heads"}},
    {"model.head_dim", {"kv_channels", "d_head", "d_kv", "head_size"}},
    {"model.mlp_size",
     {"intermediate_size", "ffn_hidden_size", "ffn_dim", "n_inner", "d_ff", "dim_feedforward"}},
    {"model.seq_length",
     {"context", "context_length", "block_size", "n_positions", "n_ctx", "max_position_embeddings",
      "seq_len", "max_seq_len", "max_seq_length", "sequence_length"}},
    {"model.dropout",
     {"hidden_dropout", "hidden_dropout_prob", "resid_pdrop", "embd_pdrop", "dropout_prob",
      "dropout_rate"}},
    {"model.attention_dropout", {"attn_dropout", "attn_pdrop", "attention_probs_dropout_prob"}},
    {"model.bias", {"use_bias", "add_bias_linear"}},
    {"model.bias", {"attention_bias", "add_qkv_bias"}, "attention or qkv"},
    {"model.bias", {"disable_bias_linear"}, "with the opposite meaning"},
    {"model.norm", {"normalization", "norm_type"}},
    {"model.norm_eps",
     {"layer_norm_eps", "layer_norm_epsilon", "layernorm_epsilon", "norm_epsilon", "rms_norm_eps"}},
    {"model.activation", {"hidden_act", "hidden_activation", "activation_function"}},
    {"model.gated_mlp", {"swiglu", "gated_linear_unit"}},
    {"model.tie_embeddings", {"tie_word_embeddings"}},
    {"model.scaled_logits", {"scale_decoder_outputs"}},
    {"model.tie_embeddings", {"untie_embeddings_and_output_weights"}, "with the opposite meaning"},
    {"model.init_stddev", {"initializer_range", "init_method_std", "init_std"}},
    {"model.mup_base_hidden_size", {"mup_base_width", "scaling_base_hidden_size"}},
    {"model.mup_base_hidden_size",
     {"mup_width_mult", "mup_width_scale", "mup_width_multiplier", "use_mup"},
     "the base model's width, or 0"},
    {"model.mup_base_head_dim", {"scaling_base_head_dim"}},
    {"model.positions", {"position_embedding_type"}},
    {"model.relative_buckets", {"relative_attention_num_buckets"}},
    {"model.relative_max_distance", {"relative_attention_max_distance"}},
    {"model.rotary_base", {"rope_theta", "rope_base"}},
    {"model.rotary_scaling", {"rope_scaling", "rope_type"}},
    {"model.qk_norm", {"qk_layernorm", "use_qk_norm"}},
    {"model.attention_scale", {"softmax_scale", "attention_multiplier", "scaling"}},
    {"model.attention_scale", {"query_pre_attn_scalar"}, "which is 1 / sqrt of it"},
    {"model.window_pattern", {"layer_types", "window_attn_skip_freq"}, "with a letter per layer"},
    {"model.attention_window", {"sliding_window", "window_size"}},
    {"model.token_types", {"type_vocab_size"}},
    {"model.num_labels", {"num_classes"}},

    {"data.train",
     {"data_path", "train_data", "train_data_path", "dataset", "dataset_path", "train_file"}},
    {"data.eval", {"eval_data", "valid_data", "val_data", "valid_data_path", "validation_file"}},
    {"data.eval_fraction", {"split"}, "and data.test_fraction; they are fractions"},
    {"data.tokenizer",
     {"tokenizer_type", "tokenizer_model", "tokenizer_name", "tokenizer_path", "vocab_file"}},
    {"data.special_tokens",
     {"mask_token_id", "cls_token_id", "sep_token_id", "pad_token_id", "eos_token_id",
      "unk_token_id", "eod_token_id"},
     "a map, as in {cls: 2, sep: 3, mask: 4}"},
    {"data.loss_on_prompts", {"train_on_inputs", "train_on_prompt"}},
    {"data.loss_on_prompts",
     {"completion_only_loss", "assistant_only_loss", "mask_prompt"},
     "with the opposite meaning"},
    {"mlm.probability", {"mlm_probability", "mask_prob"}},

    {"parallel.tensor",
     {"tensor_parallel_size", "tensor_model_parallel_size", "tensor_parallel_degree",
      "tensor_parallel", "model_parallel_size", "tp", "tp_size"}},
    {"parallel.zero", {"zero_stage", "zero_optimization", "use_distributed_optimizer"}, "0 or 1"},
    {"parallel.sequence", {"sequence_parallel"}},
    {"parallel.grad_reduce_dtype",
     {"grad_reduce_in_bf16", "grad_reduce_in_fp32", "mixed_precision_reduce", "reduce_dtype",
      "communication_data_type"},
     "fp32 or bf16"},
    {"parallel.backend", {"distributed_backend", "ddp_backend"}},
    {"",
     {"data_parallel_size", "data_parallel_replicate_degree", "data_parallel_shard_degree", "dp"},
     "the data-parallel size is the number of ranks / parallel.tensor"},
    {"",
     {"pipeline_model_parallel_size", "pipeline_parallel_size", "pipeline_parallel_degree", "pp"},
     "pipeline parallelism is not supported"},

    {"batch.global", {"global_batch_size", "train_batch_size"}},
    {"batch.micro",
     {"micro_batch_size", "per_device_train_batch_size", "train_micro_batch_size_per_gpu",
      "local_batch_size"}},
    {"batch.global", {"batch_size"}, "batch.micro is what a data rank computes at once"},
    {"",
     {"gradient_accumulation_steps", "grad_accum", "grad_accum_steps"},
     "a step accumulates batch.global / (batch.micro × data ranks) micro-batches"},

    {"train.steps", {"max_steps", "train_iters", "num_steps", "max_iters", "num_train_steps"}},
    {"train.steps", {"num_train_epochs", "num_epochs", "epochs"}, "in steps, not epochs"},
    {"train.check_replicas_interval", {"check_weight_hash_across_dp_replicas_interval"}},
    {"train.recompute",
     {"gradient_checkpointing", "activation_checkpointing", "activation_checkpoint",
      "recompute_granularity", "recompute_activations"}},

    {"optimizer.name", {"optimizer_type", "optim"}},
    {"optimizer.lr", {"learning_rate", "max_lr"}},
    {"optimizer.min_lr", {"min_learning_rate"}},
    {"optimizer.min_lr",
     {"lr_min", "min_lr_factor"},
     "a learning rate, not a fraction of optimizer.lr"},
    {"optimizer.schedule",
     {"lr_scheduler_type", "lr_scheduler", "lr_decay_style", "lr_schedule", "scheduler",
      "decay_type", "decay_lr"}},
    {"optimizer.decay_steps", {"lr_wsd_decay_iters", "num_decay_steps"}},
    {"optimizer.decay_steps", {"decay_ratio"}, "in steps, not a fraction of them"},
    {"optimizer.decay_style", {"lr_wsd_decay_style"}},
    {"",
     {"lr_decay_iters", "lr_decay_steps"},
     "the learning rate decays from the end of the warmup to train.steps"},
    {"optimizer.warmup_steps",
     {"warmup", "warmup_iters", "lr_warmup_iters", "lr_warmup_steps", "num_warmup_steps",
      "warmup_num_steps"}},
    {"optimizer.warmup_steps",
     {"warmup_ratio", "lr_warmup_fraction"},
     "in steps, not a fraction of them"},
    {"optimizer.betas",
     {"beta1", "beta2", "adam_beta1", "adam_beta2"},
     "a list of two, as in [0.9, 0.95]"},
    {"optimizer.eps", {"epsilon", "adam_eps", "adam_epsilon"}},
    {"optimizer.momentum", {"muon_momentum"}},
    {"optimizer.nesterov", {"muon_use_nesterov"}},
    {"optimizer.ns_steps", {"muon_num_ns_steps", "newton_schulz_steps"}},
    {"optimizer.ema_decay", {"model_ema_decay", "ema_rate", "averaging_decay"}},
    {"optimizer.moment_dtype", {"exp_avg_dtype", "exp_avg_sq_dtype"}},
    {"optimizer.grad_clip", {"clip_grad", "max_grad_norm", "gradient_clipping", "max_norm"}},

    {"eval.interval", {"eval_interval", "eval_steps"}},
    {"eval.batches", {"eval_iters"}},
    {"checkpoint.interval", {"save_interval", "save_steps"}},
    {"checkpoint.keep", {"save_total_limit", "keep_latest_k"}},
    {"checkpoint.background", {"async_save", "async_mode"}},
    {"checkpoint.resume", {"resume_from_checkpoint", "load"}},
    {"checkpoint.from",
     {"init_from", "pretrained_checkpoint", "initial_load_path", "model_name_or_path"}},
    {"log.interval", {"log_interval", "logging_steps", "log_freq", "steps_per_print"}},
};

}  // namespace

std::string ForeignKey::text() const {
  if (key.empty()) return fmt::format("it has no key here: {}", remark);
  if (remark.empty()) return fmt::format("it is called {} here", key);
  return fmt::format("it is called {} here ({})", key, remark);
}

std::span<const ForeignKey> foreign_keys() { return kForeignKeys; }

const ForeignKey* find_foreign_key(std::string_view name) {
  const auto has_name = [&](const ForeignKey& foreign) {
    return !name.empty() && std::ranges::find(foreign.names, name) != std::end(foreign.names);
  };
  const auto* found = std::ranges::find_if(kForeignKeys, has_name);
  return found == std::end(kForeignKeys) ? nullptr : found;
}

}  // namespace tessera
