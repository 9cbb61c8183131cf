#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "launch/cli/commands.h"
#include "launch/cli/support/command_line.h"
#include "launch/cli/support/process.h"
#include "launch/config/load_config.h"
#include "launch/support/text/byte_size.h"
#include "launch/support/text/number_text.h"
#include "launch/support/text/print.h"
#include "launch/tools/plan/layout_sweep.h"
#include "launch/tools/plan/roofline.h"
#include "launch/train/memory/micro_batch.h"
#include "launch/train/start/derive_config.h"

namespace tessera {
namespace {

struct PlanOptions {
  std::string config;
  std::vector<std::string> overrides;
  int64_t ranks = 0;
  std::optional<int64_t> tensor;
  bool json = false;
  bool sweep = false;
  bool roofline = false;
  bool markdown = false;
  std::string gpu = "H100";
  std::string memory;
  std::optional<std::string> flops, memory_bandwidth, tensor_bandwidth, data_bandwidth, latency;
  int64_t show = 20;
};

/// Parses "400T" as 4e14. Throws unless `text` is a positive number with at most one of these
/// letters.
double parse_flops(const std::string& text) {
  constexpr std::pair<char, double> kPrefixes[] = {{'G', 1e9}, {'T', 1e12}, {'P', 1e15}};
  std::string_view number = text;
  double unit = 1.0;
  for (const auto& [letter, factor] : kPrefixes) {
    if (!number.ends_with(letter)) continue;
    number.remove_suffix(1);
    unit = factor;
    break;
  }
  const std::optional<double> value = parse_number(number);
  require(value && *value > 0.0 && std::isfinite(*value * unit),
          "--flops is {}, but must be a positive number with the unit G, T or P, such as 400T",
          quote(text));
  return *value * unit;
}

double parse_bandwidth(const char* option, const std::string& text) {
  const std::optional<double> value = parse_number(text);
  require(value && *value > 0.0,
          "{}: {} is not a bandwidth: write a positive number of GB/s, such as 300", option,
          quote(text));
  return *value * 1e9;
}

double parse_latency(const std::string& text) {
  const std::optional<double> value = parse_number(text);
  require(value && *value >= 0.0,
          "--latency is {}, but must be a number of microseconds, at least 0, such as 20",
          quote(text));
  return *value * 1e-6;
}

AssumedMachine machine_of(const PlanOptions& options, DType precision) {
  AssumedMachine machine = AssumedMachine::of(precision);
  if (options.flops) machine.flops = parse_flops(*options.flops);
  const auto set = [](const char* option, const std::optional<std::string>& text, double& value) {
    if (text) value = parse_bandwidth(option, *text);
  };
  set("--memory-bandwidth", options.memory_bandwidth, machine.memory_bandwidth);
  set("--tensor-bandwidth", options.tensor_bandwidth, machine.tensor_bandwidth);
  set("--data-bandwidth", options.data_bandwidth, machine.data_bandwidth);
  if (options.latency) machine.latency = parse_latency(*options.latency);
  return machine;
}

/// Prints the plan, or the rules that forbid it. Returns whether the plan is valid.
bool print_plan(const RunConfig& config, const PlanOptions& options) {
  const std::vector<BrokenRule> broken = broken_rules(config, options.ranks);
  if (broken.empty()) {
    const RunPlan plan = plan_run(config, options.ranks);
    print_text(options.json ? to_text(to_json(plan)) + "\n" : to_string(plan));
    return true;
  }
  if (options.json) {
    print_out("{}\n", to_text(to_json(broken)));
    return false;
  }
  std::string message;
  for (const BrokenRule& rule : broken) message += (message.empty() ? "" : "\n") + rule.message;
  throw Error(message);
}

bool print_sweep(const RunConfig& config, const PlanOptions& options) {
  require(!options.memory.empty(),
          "plan: --sweep needs --memory, the memory of a rank, such as 80GB");
  SweepOptions sweep;
  sweep.ranks = options.ranks;
  sweep.memory = static_cast<size_t>(parse_byte_size(options.memory));
  sweep.tensor = options.tensor;
  sweep.machine = machine_of(options, config.run.precision);
  const LayoutSweep found = sweep_layouts(config, sweep);
  const auto most = static_cast<size_t>(options.show);
  print_text(options.json ? to_text(to_json(found)) + "\n" : to_string(found, most));
  return !found.fitting.empty();
}

RooflineGpu gpu_of(const PlanOptions& options, const std::string& name) {
  RooflineGpu gpu = RooflineGpu::of(name);
  if (options.tensor_bandwidth) {
    gpu.tensor_bandwidth = parse_bandwidth("--tensor-bandwidth", *options.tensor_bandwidth);
  }
  if (options.data_bandwidth) {
    gpu.data_bandwidth = parse_bandwidth("--data-bandwidth", *options.data_bandwidth);
  }
  return gpu;
}

void print_roofline(const RunConfig& config, const PlanOptions& options) {
  if (options.markdown) {
    std::vector<Roofline> rooflines;
    for (const char* name : {"A100", "H100", "H200", "B200"}) {
      rooflines.push_back(roofline(config, options.ranks, gpu_of(options, name)));
    }
    print_text(roofline_markdown(rooflines));
    return;
  }
  const Roofline bound = roofline(config, options.ranks, gpu_of(options, options.gpu));
  print_text(options.json ? to_text(to_json(bound)) + "\n" : to_string(bound));
}

/// As train chooses if memory suffices.
int64_t planned_micro_batch(const RunConfig& config, int64_t ranks) {
  const int64_t data_ranks = std::max<int64_t>(1, ranks / config.parallel.tensor);
  const bool on_gpu = config.run.device == DeviceChoice::cuda;
  const Device device = on_gpu ? Device{DeviceType::cuda, 0} : kCpu;
  return choose_micro_batch(config, data_ranks, device, [](int64_t) { return true; }).size;
}

/// Prints what the options ask for. Returns whether there is a layout.
bool print(const PlanOptions& options) {
  const bool has_links = options.tensor_bandwidth || options.data_bandwidth;
  require(!has_links || options.sweep || options.roofline,
          "plan: --tensor-bandwidth and --data-bandwidth need --sweep or --roofline");
  RunConfig config = load_config(options.config, options.overrides);
  if (options.tensor) config.parallel.tensor = *options.tensor;
  config = derive_config(config, options.ranks, DeriveFor::planning).config;
  if (config.automatic.erase("batch.micro") > 0) {
    config.batch.micro = planned_micro_batch(config, options.ranks);
  }
  bool found = true;
  if (options.roofline) {
    print_roofline(config, options);
  } else {
    found = options.sweep ? print_sweep(config, options) : print_plan(config, options);
  }
  return found;
}

void add_sweep_options(CLI::App& command, PlanOptions& options) {
  CLI::Option* sweep = command.add_flag(
      "--sweep", options.sweep, "List the layouts that fit into --memory, fastest predicted first");
  command.add_option("--memory", options.memory, "Memory of a rank, as in 80GB or 80GiB")
      ->type_name("SIZE")
      ->needs(sweep);
  command
      .add_option("--flops", options.flops,
                  "FLOP/s that a rank reaches in large matrix products (default: 400T in bf16, 40T "
                  "in fp32)")
      ->type_name("FLOP/S")
      ->needs(sweep);
  command
      .add_option("--memory-bandwidth", options.memory_bandwidth,
                  "Memory bandwidth of a rank (default: 3300)")
      ->type_name("GB/S")
      ->needs(sweep);
  command
      .add_option("--latency", options.latency,
                  "Latency of a collective in microseconds (default: 20)")
      ->type_name("US")
      ->needs(sweep);
  command.add_option("--show", options.show, "Number of layouts to print; --json prints all")
      ->check(whole_number_from(1))
      ->needs(sweep)
      ->capture_default_str();
}

void add_link_options(CLI::App& command, PlanOptions& options) {
  const auto add = [&](const char* name, std::optional<std::string>& text, const char* meaning) {
    command.add_option(name, text, meaning)->type_name("GB/S");
  };
  add("--tensor-bandwidth", options.tensor_bandwidth,
      "Bandwidth of a rank to its tensor ranks (default: 300; with --roofline, half of NVLink's)");
  add("--data-bandwidth", options.data_bandwidth,
      "Bandwidth of a rank to its data ranks (default: 40; with --roofline, half of NVLink's)");
}

void add_roofline_options(CLI::App& command, PlanOptions& options) {
  CLI::Option* roofline = command.add_flag(
      "--roofline", options.roofline,
      "Bound the time of a step by the FLOPs and bytes of each op and the GPU's data sheet");
  roofline->excludes("--sweep");
  command
      .add_option("--gpu", options.gpu, "The GPU: H100, A100, ... or the name that CUDA reports")
      ->type_name("NAME")
      ->needs(roofline)
      ->capture_default_str();
  command
      .add_flag("--markdown", options.markdown,
                "Print a section of docs/roofline.md, for several GPUs")
      ->needs(roofline)
      ->excludes("--json");
}

}  // namespace

void add_plan_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<PlanOptions>();
  CLI::App* command = app.add_subcommand(
      "plan", "Predict what a run needs: parameters, memory, FLOPs and communication");
  command->add_option("config", options->config, "YAML file of the run")
      ->required()
      ->type_name("CONFIG");
  command->add_option("--ranks", options->ranks, "Number of ranks of the run")
      ->required()
      ->check(whole_number_from(1));
  command
      ->add_option("--tensor", options->tensor,
                   "Tensor-parallel size instead of parallel.tensor; with --sweep, list only "
                   "layouts of this size")
      ->check(whole_number_from(1));
  command->add_option("--set", options->overrides, "Override a key, as for train")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->add_flag("--json", options->json, "Print one JSON object");
  add_sweep_options(*command, *options);
  add_roofline_options(*command, *options);
  add_link_options(*command, *options);
  command->callback([command, options, &exit_code] {
    run_on_first_rank(command_line_of(*command), [&] {
      if (!print(*options)) exit_code = EXIT_FAILURE;
    });
  });
}

}  // namespace tessera
