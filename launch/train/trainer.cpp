#include "launch/train/trainer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "core/checked.h"
#include "core/cuda/workspace.h"
#include "core/error.h"
#include "core/ops/elementwise.h"
#include "core/trace/trace.h"
#include "launch/checkpoint/attention_mask_file.h"
#include "launch/checkpoint/checkpoint_chat.h"
#include "launch/checkpoint/checkpoint_tokenizer.h"
#include "launch/checkpoint/model_json.h"
#include "launch/checkpoint/model_state.h"
#include "launch/checkpoint/run_state.h"
#include "launch/config/values/source_text.h"
#include "launch/metrics/model_flops.h"
#include "launch/train/continuation_pass.h"
#include "launch/train/diagnosis/step_diagnosis.h"
#include "launch/train/memory/gpu_memory_check.h"
#include "launch/train/optimizer/lr_schedule.h"
#include "launch/train/optimizer/optimizer_groups.h"
#include "launch/train/product_tuning.h"
#include "launch/train/run_layout.h"
#include "models/architecture.h"
#include "parallel/communicators/exchange.h"
#include "parallel/layers/low_rank_adapter.h"

namespace tessera {
namespace {

BatchLayout batch_layout(const RunConfig& config, const ParallelGroups& groups) {
  return {config.batch.global, config.batch.micro, groups.dp->rank(), groups.dp->size()};
}

/// Throws if the plan does not fit into `free_bytes` of a GPU.
MemoryPlan plan_for(const RunConfig& config, const ParallelGroups& groups, Device device,
                    size_t free_bytes) {
  const auto plan_for_micro = [&](int64_t micro_batch) {
    RunConfig smaller = config;
    smaller.batch.micro = micro_batch;
    return plan_memory(smaller, groups, device, device.is_cuda());
  };
  MemoryPlan plan = plan_for_micro(config.batch.micro);
  if (device.is_cuda()) {
    const auto shortage = gpu_memory_shortage(plan, free_bytes, config.batch.micro, plan_for_micro);
    if (shortage) fail("{}: {}", to_string(device), *shortage);
  }
  return plan;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Throws if a checkpoint has the state of another optimizer. One without that key is AdamW's.
void check_same_optimizer(const Checkpoint& checkpoint, OptimizerName name) {
  if (has_weights_alone(checkpoint)) return;
  const std::string saved = read_run_state(checkpoint.manifest())
                                .optimizer.value_or(std::string(to_string(OptimizerName::adamw)));
  require(saved == to_string(name),
          "optimizer.name is {}, but {} has the state of {}: choose {} to continue its run, or "
          "start a new run with its weights, by checkpoint.from in another run.dir",
          to_string(name), checkpoint.path().string(), excerpt(saved), excerpt(saved));
}

int64_t skipped_steps_in(const StepRecord& record) {
  return static_cast<int64_t>(record.skipped_steps().span<double>()[0]);
}

}  // namespace

Trainer::Trainer(const RunConfig& config, const ParallelGroups& groups, const TrainingData& data,
                 Device device, size_t free_bytes)
    : config_(config),
      groups_(groups),
      rows_(sequence_shard(config.parallel, groups)),
      model_(std::make_unique<Model>(config.model, store_, *groups.tp)),
      memory_(plan_for(config, groups, device, free_bytes)),
      arena_(device, memory_.arena_bytes),
      batches_(data.train, data.eval, config.model.vocab_size,
               static_cast<uint64_t>(config.run.seed), batch_layout(config, groups)),
      train_parts_(data.train_parts),
      gpu_versions_(tessera::gpu_versions(device, groups.world)),
      choices_(data.choices),
      eval_(data.eval),
      eval_datasets_(data.eval_datasets),
      tokenizer_(data.tokenizer),
      token_bytes_(data.eval && data.tokenizer ? TokenBytes(*data.tokenizer) : TokenBytes()),
      chat_(data.chat ? data.chat : config.data.chat_form),
      device_batch_(evaluation_shape(config, groups), device, /*stages=*/true),
      step_batches_(batches_, training_shape(config, groups, device), device_batch_, device),
      eval_batches_(batches_, evaluation_shape(config, groups), device),
      micro_steps_(*model_, store_, groups, device,
                   !cuda_graph_unsupported_reason(config.step_options(), device, groups)),
      background_save_(groups.world) {
  if constexpr (kHasCuda) {
    if (device.is_cuda()) cuda::workspace(memory_.workspace_bytes);  // so that it need not grow
  }
  state_.emplace(allocate_for_training(config.step_options(), groups, device, store_));
  units_.emplace(store_, groups, config.parallel.grad_reduce_dtype);
  model_->listen(&*units_);
  for (const auto& questions : choices_) {
    choice_batches_.push_back(
        continuation_batches(questions, config.model, config.batch.micro, *groups.dp));
  }
  train_step_ = std::make_unique<TrainStep>(config.step_options(), micro_steps_, *state_, *units_,
                                            groups, arena_);
  if (config.train.check_replicas_interval > 0) replica_check_.emplace(*state_, groups_);
  if (!config.eval.prompts.empty()) sample_writer_.emplace(config_, tokenizer_.get(), data.chat);
  if (copies_checkpoints(config)) {
    background_save_.reserve(largest_checkpoint_share(*state_, groups_), device);
  }
}

void Trainer::initialize() {
  load_first_step(0, 0);
  state_->initialize(static_cast<uint64_t>(config_.run.seed));
  RunState fresh;
  fresh.evaluated_step = fresh.sampled_step = 0;
  start_at(0, 0, std::move(fresh));
}

void Trainer::restore(Checkpoint& checkpoint) {
  restore_at(checkpoint, checkpoint.manifest().samples);
}

void Trainer::roll_back(Checkpoint& checkpoint) {
  require(failed_step_.has_value(), "no step has failed, so there is no reason to roll back");
  const int64_t before = run_.rollbacks;
  restore_at(checkpoint, first_place(failed_step_->step + 1));
  run_.rollbacks = std::max(before, run_.rollbacks) + 1;
}

void Trainer::restore_at(Checkpoint& checkpoint, int64_t samples) {
  with_exit_code(ExitCode::configuration,
                 [&] { check_same_optimizer(checkpoint, config_.optimizer.name); });
  RunState run = read_run_state(checkpoint.manifest());
  const int64_t most = config_.train.max_skipped_steps;
  require(run.skipped_steps <= most,
          "the run has skipped {} steps until {}, but train.max_skipped_steps is {}: choose {} or "
          "more",
          run.skipped_steps, checkpoint.path().string(), most, run.skipped_steps);
  load_first_step(checkpoint.manifest().step, samples);
  load_training_state(checkpoint, *state_);
  start_at(checkpoint.manifest().step, samples, std::move(run));
}

std::string Trainer::start_from(Checkpoint& checkpoint) {
  initialize();
  const RunState from = read_run_state(checkpoint.manifest());
  const bool other_labels = from.has_other_labels(config_.data.labels);
  std::string heads = load_matching_weights(checkpoint, *state_, other_labels);
  run_.trained_beside_adapters = from.trained_beside_adapters;
  if (other_labels) {
    heads += fmt::format("; the checkpoint's labels are {}, and data.labels is {}",
                         excerpt(quote(*from.labels), 200), quote(*config_.data.labels));
  }
  return heads;
}

std::optional<std::string> Trainer::tune_products(bool stores) {
  if (!config_.run.times_products() || !store_.device().is_cuda()) return {};
  arena_.reset();
  const Arena::Scope scope(arena_);
  const Tensor scratch = arena_.allocate({static_cast<int64_t>(arena_.capacity())}, DType::u8);
  return agree_on_algorithms(products_of_step(config_.step_options(), groups_), scratch,
                             groups_.world,
                             {(std::filesystem::path(config_.run.dir) / kAlgorithmFile), stores});
}

void Trainer::start_at(int64_t step, int64_t samples, RunState run) {
  run_ = std::move(run);
  steps_done_ = step;
  samples_ = samples;
  said_skipped_ = described_skipped_ = run_.skipped_steps;
  failed_step_.reset();
  train_step_->reset({run_.skipped_steps, run_.gradient_norms});
  noise_scale_.restore(run_.noise_scale);
  since_result_ = {};
}

void Trainer::load_first_step(int64_t step, int64_t samples) {
  step_batches_.begin_at(samples, config_.train.steps - step);
}

std::vector<MemoryPlan::Line> Trainer::memory_in_use() const {
  WorkingMemory working;
  working.activations = arena_.peak();
  working.gradient_copies = train_step_->gradient_copy_bytes();
  working.gathered_weights = units_->value_bytes();
  working.staged_gradients = units_->gradient_bytes();
  if constexpr (kHasCuda) {
    if (store_.device().is_cuda()) working.workspace = cuda::workspace_bytes();
  }
  working.device_batch = device_batch_.bytes();
  working.checkpoint_copy = background_save_.copy_bytes();
  working.host_batches = step_batches_.bytes() + eval_batches_.bytes();
  working.samples = memory_.sample_bytes;
  return memory_lines(*state_, working);
}

void Trainer::step() {
  if (since_result_.steps == 0) since_result_.start = std::chrono::steady_clock::now();
  const TrainStep::Loaded loaded = train_step_->run(steps_done_, step_batches_);
  counts_ = loaded.counts;
  ++steps_done_;
  samples_ += config_.batch.global;
  run_.tokens += counts_.tokens;
  ++since_result_.steps;
  since_result_.tokens += counts_.tokens;
  since_result_.targets += counts_.token_targets + counts_.document_targets;
  since_result_.flops += model_flops(config_.model, counts_);
  since_result_.data_wait_seconds += loaded.wait_seconds;
  if (train_step_->measures_noise(steps_done_ - 1) && !bad_reason()) {
    noise_scale_.add(train_step_->gradient_squares());
  }
}

StepResult Trainer::result() {
  require_finite_steps();
  const StepRecord& record = train_step_->record();
  const int64_t skipped = skipped_steps_in(record);
  if (skipped == described_skipped_) return local_result();
  described_skipped_ = skipped;
  const auto step = static_cast<int64_t>(record.last_skipped_step().span<double>()[0]);
  const auto last = reason_of_last_step(record, config_.train);
  const BadReason reason =
      step == steps_done_ && last ? *last : reason_of_skipped_step(record, config_.train);
  StepResult result = local_result();
  result.bad_step = describe_bad_step(step, reason);
  for (const std::string& sentence : {result.bad_step->text, result.bad_step->hint}) {
    if (!sentence.empty()) result.note += (result.note.empty() ? "" : ". ") + sentence;
  }
  return result;
}

StepParts Trainer::parts() {
  return {config_, *model_, *state_, groups_, arena_, batches_, device_batch_, *train_step_};
}

int64_t Trainer::first_place(int64_t step) const {
  return samples_ + (step - 1 - steps_done_) * config_.batch.global;
}

// Until the run fails, later steps may have changed the weights; afterwards, none does.
BadStep Trainer::describe_bad_step(int64_t step, const BadReason& reason) {
  const StepRecord& record = train_step_->record();
  BadStep bad;
  bad.step = step;
  bad.reason = reason.name();
  bad.what = fmt::format("the {} of step {} is {}", reason.subject, step, reason.predicate);
  bad.grad_norm = record.last_skipped_norm().span<double>()[0];
  if (reason.is_spike) bad.median = record.last_skipped_median().span<double>()[0];
  bad.skipped_steps = skipped_steps_in(record);
  const int64_t first = first_place(step);
  for (int64_t row = 0; row < config_.batch.global; ++row) {
    bad.samples.push_back(batches_.train_sample_at(first + row));
  }
  const bool has_same_weights =
      step == steps_done_ || bad.skipped_steps > config_.train.max_skipped_steps;
  if (!reason.is_spike && has_same_weights) {
    const StepDiagnosis diagnosis = diagnose_step(parts(), step - 1, first);
    bad.diagnosis = diagnosis.json();
    bad.text = diagnosis.text();
  } else {
    bad.hint = fmt::format("`tessera replay {} --step {}` shows the losses of its documents{}",
                           config_.run.dir, step,
                           reason.is_spike ? "" : " and the first tensor that was not finite");
  }
  return bad;
}

StepResult Trainer::local_result() {
  require(since_result_.steps > 0, "there is no result: no step has run since the last one");
  const StepRecord& record = train_step_->record();
  const std::chrono::duration<double> elapsed =
      std::chrono::steady_clock::now() - since_result_.start;
  StepResult result;
  result.step = steps_done_;
  result.losses = mean_losses({record.losses()}, counts_);
  result.has_targets = counts_.token_targets + counts_.document_targets > 0;
  result.grad_norm = record.norm().span<double>()[0];
  result.lr = learning_rate(config_.optimizer, steps_done_ - 1, config_.train.steps);
  result.steps = since_result_.steps;
  result.tokens = since_result_.tokens;
  result.padded_tokens =
      since_result_.steps * config_.batch.global * traits_of(config_.model).row_length;
  result.flops = since_result_.flops;
  result.seconds = elapsed.count();
  result.data_wait_seconds = since_result_.data_wait_seconds;
  result.skipped_steps = skipped_steps_in(record);
  result.noise_scale = noise_scale_.value();
  result.note = take_note();
  add_skipped_steps(record, result);
  since_result_ = {};
  return result;
}

std::string Trainer::take_note() {
  std::string note = micro_steps_.take_note();
  if (since_result_.targets > 0 || said_no_targets_) return note;
  said_no_targets_ = true;
  if (!note.empty()) note += ". ";
  return note + fmt::format(
                    "No token or text of step {} has a target, so it teaches nothing: with "
                    "data.loss_across_documents: false, a document of one token has none; "
                    "otherwise look at mlm.probability. Later steps without a target are not named",
                    steps_done_);
}

void Trainer::add_skipped_steps(const StepRecord& record, StepResult& result) {
  const int64_t more = result.skipped_steps - said_skipped_;
  said_skipped_ = result.skipped_steps;
  if (more == 0) return;
  const auto last = static_cast<int64_t>(record.last_skipped_step().span<double>()[0]);
  const auto reason = last == result.step ? reason_of_last_step(record, config_.train)
                                          : reason_of_skipped_step(record, config_.train);
  if (!result.note.empty()) result.note += ". ";
  result.note +=
      fmt::format("{} skipped, because {} {} was {}: {} of at most {} (train.max_skipped_steps)",
                  more == 1 ? fmt::format("Step {} was", last)
                            : fmt::format("{} steps up to step {} were", more, last),
                  more == 1 ? "its" : "the last one's", reason->subject, reason->predicate,
                  result.skipped_steps, config_.train.max_skipped_steps);
}

SavedCheckpoint Trainer::save(const SaveObserver& observer, bool by_time) {
  require(!saving(), "a checkpoint is being saved in the background: finish_save() comes first");
  const auto start = std::chrono::steady_clock::now();
  SavedCheckpoint saved = save_checkpoint(save_request(observer, by_time), groups_.world);
  saved.seconds = seconds_since(start);
  return saved;
}

void Trainer::begin_save(const SaveObserver& observer, bool by_time) {
  const auto start = std::chrono::steady_clock::now();
  background_save_.begin(save_request(observer, by_time), start);
}

SaveRequest Trainer::save_request(const SaveObserver& observer, bool by_time) {
  require_finite_steps();
  // After a failed evaluation, values may still be of the average, and fp32 values are masters.
  train_step_->round_values(steps_done_);
  // A checkpoint that cannot resume must not displace one that can.
  all_or_none(groups_.world, [&] {
    if (const auto name = not_finite_parameter(*state_)) {
      throw CodedError(
          fmt::format("after step {}, a weight of {} is NaN or infinite, so no checkpoint is "
                      "saved; earlier ones are unchanged: resume from one with a smaller "
                      "optimizer.lr",
                      steps_done_, *name),
          ExitCode::not_finite);
    }
  });
  SaveRequest request;
  request.run_dir = config_.run.dir;
  request.step = steps_done_;
  request.samples = samples_;
  request.model = architecture_json(config_.model);
  request.extra = to_extra(state_to_save(by_time));
  if (tokenizer_) request.attachments = {{kTokenizerAttachment, tokenizer_attachment(*tokenizer_)}};
  if (chat_) request.attachments[kChatTemplateAttachment] = chat_attachment(*chat_);
  if (config_.model.attention_plane && groups_.world.rank() == 0) {
    request.attachments[kAttentionMaskAttachment] =
        attention_mask_attachment(*config_.model.attention_plane);
  }
  request.tensors = local_tensors(*state_, groups_);
  request.keep = narrow<int>(config_.checkpoint.keep);
  if (config_.checkpoint.keep_best && run_.evaluations.best_step > 0) {
    request.best = run_.evaluations.best_step;
  }
  // Not before: a value that changes between a check and the copy would be saved.
  if (replica_check_) request.check = [this] { replica_check_->run(steps_done_); };
  request.observer = observer;
  return request;
}

RunState Trainer::state_to_save(bool by_time) const {
  RunState run = run_;
  run.tokenizer = config_.data.tokenizer;
  run.seed = config_.run.seed;
  run.train_samples = batches_.num_train_samples();
  run.train_parts = train_parts_;
  run.optimizer = to_string(config_.optimizer.name);
  run.moment_dtype = moment_dtype_name(config_.optimizer.moment_dtype);
  run.imported_from.clear();
  run.gpu_versions = gpu_versions_;
  run.labels = config_.data.labels;
  run.hides_targets = batch_shape(1, config_.model, config_.mlm).hides_targets;
  run.truncate = config_.data.truncate;
  if (config_.model.lora_rank > 0) {
    for (const Parameter& parameter : store_.parameters()) {
      if (parameter.frozen || is_of_low_rank_adapter(parameter.name)) continue;
      run.trained_beside_adapters.insert(parameter.name);
    }
  }
  const ClipState clip = train_step_->clip_state();
  run.skipped_steps = clip.skipped_steps;
  run.gradient_norms = clip.norms;
  run.noise_scale = noise_scale_.averages();
  run.by_time = by_time;
  return run;
}

// The record is the same on all ranks.
void Trainer::require_finite_steps() {
  const StepRecord& record = train_step_->record();
  const int64_t most = config_.train.max_skipped_steps;
  if (skipped_steps_in(record) <= most) return;
  const auto step = static_cast<int64_t>(record.step().span<double>()[0]);
  const auto reason = reason_of_last_step(record, config_.train);
  if (!failed_step_) failed_step_ = describe_bad_step(step, reason.value());
  throw SharedError(
      fmt::format(
          "{}{}. Resume from an earlier checkpoint with a smaller optimizer.lr, or with "
          "optimizer.grad_clip. Training stopped before it changed a weight, and checkpoints are "
          "unchanged. {}{}",
          failed_step_->what,
          most == 0 ? ""
                    : fmt::format(", and train.max_skipped_steps allows no more than {}", most),
          failed_step_->text, failed_step_->hint),
      ExitCode::not_finite);
}

}  // namespace tessera
