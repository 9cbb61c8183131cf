#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "launch/cli/commands.h"
#include "launch/cli/support/checkpoint_choice.h"
#include "launch/cli/support/command_line.h"
#include "launch/cli/support/process.h"
#include "launch/huggingface/export/export_model.h"
#include "launch/support/text/byte_size.h"
#include "launch/support/text/print.h"

namespace tessera {
namespace {

struct ExportArguments {
  CheckpointChoice checkpoint;
  std::string to;
  std::string max_shard_size = "5GB";
  std::string precision = "fp32";
  bool overwrite = false;
  bool adapter = false;
  std::optional<std::string> base;
};

void export_and_print(const ExportArguments& arguments) {
  const ExportReport report = export_model(
      {resolve(arguments.checkpoint), arguments.to, parse_byte_size(arguments.max_shard_size),
       arguments.precision == "bf16" ? DType::bf16 : DType::f32, arguments.overwrite,
       arguments.adapter, arguments.base, arguments.checkpoint.ema});
  print_out("wrote {} from {}: {}, {} parameters in {}\n", arguments.to, report.checkpoint.string(),
            report.model_class, report.parameters, arguments.precision);
  print_out("files: {}\n", fmt::join(report.files, ", "));
  for (const std::string& note : report.notes) print_out("note: {}\n", note);
}

}  // namespace

void add_export_command(CLI::App& app) {
  const auto arguments = std::make_shared<ExportArguments>();
  CLI::App* command = app.add_subcommand(
      "export", "Export a checkpoint to a folder that Hugging Face transformers loads");
  add_model_argument(*command, arguments->checkpoint);
  command->add_option("--to", arguments->to, "Folder to create")->required()->type_name("DIR");
  command
      ->add_option("--max-shard-size", arguments->max_shard_size,
                   "Maximum size of a weights file; larger models are split into several files")
      ->type_name("SIZE")
      ->capture_default_str();
  add_choice(*command, "--precision", arguments->precision, {"fp32", "bf16"},
             "Precision of the written weights");
  CLI::Option* const adapter = command->add_flag(
      "--adapter", arguments->adapter,
      "Write the low-rank adapters alone, as PEFT loads them beside the base model");
  command
      ->add_option("--base", arguments->base,
                   "With --adapter: where PEFT finds the base model, the folder of its export or "
                   "its name on the hub")
      ->type_name("DIR")
      ->needs(adapter);
  command->add_flag("--overwrite", arguments->overwrite, "Replace an earlier export in DIR");
  command->callback([command, arguments] {
    run_on_first_rank(command_line_of(*command), [&] { export_and_print(*arguments); });
  });
}

}  // namespace tessera
