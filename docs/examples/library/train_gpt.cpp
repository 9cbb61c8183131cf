// Trains a small GPT with a loop of its own, on as many data-parallel ranks as mpirun starts, and
// saves a checkpoint that every `tessera` command reads:
//
//     mpirun -np 2 build/library/train_gpt data/text runs/own
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>

#include "core/error.h"
#include "launch/checkpoint/checkpoint_tokenizer.h"
#include "launch/checkpoint/model_json.h"
#include "launch/checkpoint/model_state.h"
#include "launch/checkpoint/run_state.h"
#include "launch/checkpoint/save/save.h"
#include "launch/data/datasets/gpt_dataset.h"
#include "launch/devices/opened_ranks.h"
#include "launch/train/dry_run.h"
#include "launch/train/micro_steps.h"
#include "launch/train/optimizer/optimizer_groups.h"
#include "launch/train/step_batches.h"
#include "parallel/communicators/exchange.h"
#include "parallel/communicators/mpi/mpi_runtime.h"

using namespace tessera;

void train(const std::string& data, const std::string& run, Communicator& world) {
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer("byte");
  StepOptions options;
  options.model.num_layers = 2;
  options.model.hidden_size = 64;
  options.model.seq_length = 64;
  options.model.vocab_size = tokenizer->vocab_size();
  options.batch = {.global = 16, .micro = 4};
  options.train.steps = 100;
  options.optimizer.lr = 3e-3;

  // This rank's threads, device and groups; the model, and the state of its optimizer.
  const OpenedRanks ranks({}, options.parallel.grid_shape(), world);
  const ParallelGroups& groups = ranks.groups;
  const Device device = ranks.devices.device;
  ParameterStore store;
  Model model(options.model, store, *groups.tp);
  OptimizerState state = allocate_for_training(options, groups, device, store);
  ShardedUnits units(store, groups, options.parallel.grad_reduce_dtype);
  model.listen(&units);
  state.initialize(options.seed);

  // The samples, and this rank's micro-batches of them.
  std::shared_ptr<const Dataset> samples;
  all_or_none(world, [&] {  // a file that one rank cannot read is an error of all
    const auto tokens = std::make_shared<IndexedDataset>(data, options.model.vocab_size);
    const Range all = {0, tokens->num_tokens()};
    samples = std::make_shared<GptDataset>(tokens, all, options.model.seq_length);
  });
  const TokenBatches batches(
      samples, nullptr, options.model.vocab_size, options.seed,
      {options.batch.global, options.batch.micro, groups.dp->rank(), groups.dp->size()});
  const BatchShape shape = batch_shape(options.batch.micro, traits_of(options.model));
  DeviceBatch device_batch(shape, device);
  StepBatches micro_batches(batches, shape, device_batch, device);
  micro_batches.begin_at(0, options.train.steps);

  Arena arena(device, plan_step_arena(options, groups));  // for activations
  MicroSteps runner(model, store, groups, device,
                    !cuda_graph_unsupported_reason(options, device, groups));
  TrainStep train_step(options, runner, state, units, groups, arena);
  for (int64_t step = 0; step < options.train.steps; ++step) {
    const TrainStep::Loaded loaded = train_step.run(step, micro_batches);
    if ((step + 1) % 20 != 0) continue;
    const double loss = mean_losses({train_step.record().losses()}, loaded.counts).total();
    require(std::isfinite(loss), "the loss of step {} is {}: choose a smaller lr", step + 1, loss);
    if (world.rank() == 0) std::printf("step %ld: loss %.3f\n", static_cast<long>(step + 1), loss);
  }

  SaveRequest request;
  request.run_dir = run;
  request.step = options.train.steps;
  request.samples = options.train.steps * options.batch.global;
  request.model = architecture_json(options.model);
  RunState state_of_run;  // what a run that resumes from it compares
  state_of_run.tokenizer = "byte";
  state_of_run.seed = static_cast<int64_t>(options.seed);
  state_of_run.optimizer = to_string(options.optimizer.name);
  state_of_run.moment_dtype = moment_dtype_name(options.optimizer.moment_dtype);
  request.extra = to_extra(state_of_run);
  request.attachments = {{kTokenizerAttachment, tokenizer_attachment(*tokenizer)}};
  request.tensors = local_tensors(state, groups);
  const SavedCheckpoint saved = save_checkpoint(request, world);
  if (world.rank() == 0) std::printf("saved %s\n", saved.path.c_str());
}

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: train_gpt DATASET RUN\n"), 2;
  MpiRuntime mpi;
  try {
    train(argv[1], argv[2], mpi.world());
  } catch (const SharedError& error) {  // thrown by all ranks
    if (mpi.world().rank() == 0) std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  } catch (const std::exception& error) {  // of this rank alone, for which the others may wait
    mpi.abort(message_of(error));
  }
}
