#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "core/memory.h"
#include "launch/cli/commands.h"
#include "launch/cli/support/checkpoint_choice.h"
#include "launch/cli/support/command_line.h"
#include "launch/cli/support/device_options.h"
#include "launch/cli/support/loaded_model.h"
#include "launch/cli/support/process.h"
#include "launch/cli/support/text_options.h"
#include "launch/support/text/print.h"
#include "launch/tools/evaluate/choice_run.h"
#include "launch/tools/evaluate/eval_run.h"
#include "launch/tools/evaluate/likelihood_run.h"
#include "parallel/communicators/exchange.h"

namespace tessera {
namespace {

void add_data_options(CLI::App& command, EvalOptions& options) {
  command
      .add_option("--data", options.data,
                  "Prefix of a dataset, as passed to `tessera prepare`, or a file of labeled texts "
                  "(default: the configuration's data)")
      ->type_name("PREFIX");
  add_choice(command, "--part", options.part,
             {{"train", DataPart::train}, {"eval", DataPart::eval}, {"test", DataPart::test}},
             "Without --data: the part of the configuration's data to use");
  command
      .add_option("--config", options.config,
                  "Configuration that defines the samples (default: config.yaml of the "
                  "checkpoint's run); the model always comes from the checkpoint")
      ->type_name("CONFIG");
  command
      .add_option("--set", options.overrides,
                  "Override run.seed or a key of data or mlm, as in --set mlm.probability=0.2")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command
      .add_option("--max-samples", options.max_samples,
                  "Evaluate only N samples, spread evenly over the data")
      ->check(whole_number_from(1));
}

void add_question_options(CLI::App& command, EvalOptions& options) {
  command
      .add_option("--multiple-choice", options.multiple_choice,
                  "Instead of data: answer the multiple-choice questions of a file in HellaSwag's "
                  "or a plain format. May be repeated")
      ->type_name("FILE.jsonl")
      ->allow_extra_args(false);
  CLI::Option* const scored =
      command
          .add_option("--log-likelihoods", options.log_likelihoods,
                      "Instead of data: score the objects of a file, which have context and "
                      "continuation, or text, and write the log-likelihood of each to "
                      "--log-samples")
          ->type_name("FILE.jsonl");
  add_chat_option(command, "--chat", options.chat,
                  "With --log-likelihoods: the template (data.chat_template) of contexts that are "
                  "lists of messages (default: auto, as the model learned)")
      ->needs(scored);
  command
      .add_option("--log-samples", options.log_samples,
                  "With --multiple-choice: also write the log-likelihood of each choice; with "
                  "--log-likelihoods: the file to write")
      ->type_name("FILE.jsonl");
  add_overwrite_option(command, options.overwrite);
}

/// Evaluates data, or answers questions or scores texts.
EvalReport evaluate_or_score(const EvalOptions& options, Communicator& world) {
  all_or_none(world, [&] { check_files(options); });
  if (options.multiple_choice.empty() && !options.log_likelihoods) return run_eval(options, world);
  const MemoryUse use("", kEvalMemoryAdvice);
  const DeviceOptions devices = {options.devices, options.precision};
  const LoadedModel loaded = load_model(options.checkpoint, options.ema, devices, world,
                                        options.micro_batch, options.tensor);
  const auto answer = options.log_likelihoods ? score_texts : answer_questions;
  return answer(options, loaded.ranks->groups, loaded.path, *loaded.model);
}

void eval(EvalOptions options, const CheckpointChoice& checkpoint, const DeviceOptions& devices,
          bool as_json, Communicator& world) {
  options.checkpoint = resolve(checkpoint, world).string();
  options.ema = checkpoint.ema;
  options.devices = devices;
  options.precision = devices.precision;
  const EvalReport report = evaluate_or_score(options, world);
  if (world.rank() != 0) return;
  print_out("{}\n", as_json ? to_text(to_json(report)) : to_string(report));
}

}  // namespace

void add_eval_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<EvalOptions>();
  const auto devices = std::make_shared<DeviceOptions>();
  const auto checkpoint = std::make_shared<CheckpointChoice>();
  const auto as_json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand(
      "eval",
      "Evaluate a trained model: loss, perplexity, accuracies, multiple-choice questions, "
      "log-likelihoods");
  add_model_argument(*command, *checkpoint);
  add_data_options(*command, *options);
  add_question_options(*command, *options);
  command
      ->add_option(
          "--tensor", options->tensor,
          "Tensor-parallel size; the remaining ranks are data ranks, which share the samples")
      ->check(whole_number_from(1))
      ->capture_default_str();
  command->add_option("--micro-batch", options->micro_batch, "Samples that a rank computes at once")
      ->check(whole_number_from(1))
      ->capture_default_str();
  command->add_flag("--json", *as_json, "Print one JSON object");
  command
      ->add_option(
          "--dump", options->dump,
          "Also write the evaluated tokens and targets for another program; needs one rank")
      ->type_name("FILE.safetensors");
  add_device_options(*command, *devices);
  command->callback([command, options, devices, checkpoint, as_json, &exit_code] {
    exit_code = run_on_ranks(command_line_of(*command), [&](Communicator& world) {
      eval(*options, *checkpoint, *devices, *as_json, world);
    });
  });
}

}  // namespace tessera
