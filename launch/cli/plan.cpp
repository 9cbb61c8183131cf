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
#include "launch/support/text/human_text.h"
#include "launch/support/text/number_text.h"
#include "launch/support/text/print.h"
#include "launch/tools/plan/layout_sweep.h"
#include "launch/tools/plan/roofline.h"
#include "launch/train/memory/gpu_memory_check.h"
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
  std::optional<std::string> gpu;
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

constexpr const char* kDefaultGpu = "H100";

void set_links(const PlanOptions& options, RooflineGpu& gpu) {
  const auto set = [](const char* option, const std::optional<std::string>& text, double& value) {
    if (text) value = parse_bandwidth(option, *text);
  };
  set("--tensor-bandwidth", options.tensor_bandwidth, gpu.tensor_bandwidth);
  set("--data-bandwidth", options.data_bandwidth, gpu.data_bandwidth);
}

/// The bounds of a GPU's data sheet.
RooflineGpu bounds_of(const PlanOptions& options, const std::string& name) {
  RooflineGpu gpu = RooflineGpu::of(name);
  set_links(options, gpu);
  return gpu;
}

/// The speeds that a rank is assumed to reach.
RooflineGpu machine_of(const PlanOptions& options, const RunConfig& config) {
  RooflineGpu gpu = RooflineGpu::measured(options.gpu.value_or(kDefaultGpu), config, options.ranks);
  if (options.flops) {
    const double flops = parse_flops(*options.flops);
    if (!options.gpu) gpu.peaks.limit_matmul_flops(flops, config.run.precision, config.run.tf32);
    const double peak = gpu.peaks.matmul_flops(config.run.precision, config.run.tf32);
    gpu.reached.attention *= flops / peak / gpu.reached.products;
    gpu.reached.products = flops / peak;
  }
  if (options.memory_bandwidth) {
    gpu.reached.memory = parse_bandwidth("--memory-bandwidth", *options.memory_bandwidth) /
                         gpu.peaks.memory_bandwidth;
  }
  set_links(options, gpu);
  if (options.latency) gpu.latency = parse_latency(*options.latency);
  return gpu;
}

bool predicts_time(const PlanOptions& options) {
  return options.gpu || options.flops || options.memory_bandwidth || options.tensor_bandwidth ||
         options.data_bandwidth || options.latency;
}

/// The memory of a rank in bytes: --memory, or that of --gpu.
std::optional<size_t> memory_of(const PlanOptions& options) {
  if (!options.memory.empty()) return static_cast<size_t>(parse_byte_size(options.memory));
  if (!options.gpu) return std::nullopt;
  return static_cast<size_t>(RooflineGpu::of(*options.gpu).peaks.memory);
}

SweepOptions sweep_options(const PlanOptions& options) {
  SweepOptions sweep;
  sweep.ranks = options.ranks;
  sweep.memory =
      memory_of(options).value_or(static_cast<size_t>(RooflineGpu::of(kDefaultGpu).peaks.memory));
  sweep.tensor = options.tensor;
  sweep.gpu = [&options](const RunConfig& layout) { return machine_of(options, layout); };
  return sweep;
}

/// Prints the plan, or the rules that forbid it. Returns whether it is valid and fits.
bool print_plan(const RunConfig& config, const PlanOptions& options) {
  const std::vector<BrokenRule> broken = broken_rules(config, options.ranks);
  if (!broken.empty() && options.json) {
    print_out("{}\n", to_text(to_json(broken)));
    return false;
  }
  std::string message;
  for (const BrokenRule& rule : broken) message += (message.empty() ? "" : "\n") + rule.message;
  require(broken.empty(), "{}", message);
  const RunPlan plan = plan_run(config, options.ranks);
  std::string text = to_string(plan);
  Json json = to_json(plan);
  bool fits = true;
  if (const std::optional<size_t> memory = memory_of(options)) {
    const bool on_cpu = config.run.device == DeviceChoice::cpu;
    const size_t left_free = on_cpu ? 0 : kUnplannedOfEmptyGpu;
    fits = plan.memory.total() + left_free <= *memory;
    text +=
        fmt::format("fits       {}: {} and {} that stay free, of {}\n", fits ? "yes" : "no",
                    human_bytes(plan.memory.total()), human_bytes(left_free), human_bytes(*memory));
    json["fits"] = fits;
    if (plan.grid.data() > 1) {
      const LayoutSweep stages = sweep_stages(config, sweep_options(options));
      text += stages_text(stages);
      if (!predicts_time(options)) text += "           assumed " + stages.assumed;
      json["stages"] = stages_json(stages);
    }
  }
  if (predicts_time(options)) {
    const Roofline time = roofline(plan, machine_of(options, config));
    text += time_text(time);
    json["time"] = time_json(time);
  }
  print_text(options.json ? to_text(json) + "\n" : text);
  return fits;
}

bool print_sweep(const RunConfig& config, const PlanOptions& options) {
  const bool on_cpu = config.run.device == DeviceChoice::cpu;
  require(!on_cpu || !options.memory.empty(),
          "plan: --sweep of a run on CPUs needs --memory, the memory of a rank, such as 32GB");
  const LayoutSweep found = sweep_layouts(config, sweep_options(options));
  const auto most = static_cast<size_t>(options.show);
  print_text(options.json ? to_text(to_json(found)) + "\n" : to_string(found, most));
  return !found.fitting.empty();
}

void print_roofline(const RunConfig& config, const PlanOptions& options) {
  const RunPlan plan = plan_run(config, options.ranks);
  if (options.markdown) {
    std::vector<Roofline> rooflines;
    for (const char* name : {"A100", "H100", "H200", "B200"}) {
      rooflines.push_back(roofline(plan, bounds_of(options, name)));
    }
    print_text(roofline_markdown(rooflines));
    return;
  }
  const Roofline bound = roofline(plan, bounds_of(options, options.gpu.value_or(kDefaultGpu)));
  print_text(options.json ? to_text(to_json(bound)) + "\n" : to_string(bound));
}

/// As train chooses if memory suffices.
int64_t planned_micro_batch(const RunConfig& config, int64_t ranks) {
  const int64_t data_ranks = config.grid_shape().data_ranks(ranks);
  const bool on_gpu = config.run.device == DeviceChoice::cuda;
  const Device device = on_gpu ? Device{DeviceType::cuda, 0} : kCpu;
  return choose_micro_batch(config, data_ranks, device, [](int64_t) { return true; }).size;
}

/// Prints what the options ask for. Returns whether there is a layout.
bool print(const PlanOptions& options) {
  RunConfig config = load_config(options.config, options.overrides);
  if (options.tensor) config.parallel.tensor = *options.tensor;
  config = derive_config(config, options.ranks, DeriveFor::planning).config;
  if (config.automatic.erase("batch.micro") > 0) {
    config.batch.micro = planned_micro_batch(config, options.ranks);
  }
  require(!options.gpu || config.run.device != DeviceChoice::cpu,
          "--gpu is {}, but run.device is cpu, so the run uses no GPU: leave --gpu out, or set "
          "run.device to cuda",
          options.gpu ? quote(*options.gpu) : "");
  const bool has_memory = options.gpu || !options.memory.empty();
  if (has_memory && config.run.device == DeviceChoice::automatic) {
    config.run.device = DeviceChoice::cuda;  // the memory that has to suffice
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
  CLI::Option* sweep = command.add_flag("--sweep", options.sweep,
                                        "List the layouts that fit into the memory of a rank, "
                                        "fastest predicted first");
  command.add_option("--show", options.show, "Number of layouts to print; --json prints all")
      ->check(whole_number_from(1))
      ->needs(sweep)
      ->capture_default_str();
}

void add_machine_options(CLI::App& command, PlanOptions& options) {
  command
      .add_option("--gpu", options.gpu,
                  "Predict the time of a step and of the run on this GPU, and whether it fits: "
                  "H100, A100, ... or the name that CUDA reports (default of --sweep and "
                  "--roofline: H100)")
      ->type_name("NAME");
  command
      .add_option("--memory", options.memory,
                  "Memory of a rank, as in 80GB or 80GiB (default: that of --gpu)")
      ->type_name("SIZE");
  const auto add = [&](const char* name, std::optional<std::string>& text, const char* unit,
                       const char* meaning) {
    command.add_option(name, text, meaning)->type_name(unit);
  };
  add("--flops", options.flops, "FLOP/S",
      "FLOP/s that a rank reaches in large matrix products, as in 400T (default: 57% of --gpu's "
      "peak)");
  add("--memory-bandwidth", options.memory_bandwidth, "GB/S",
      "Memory bandwidth that a rank reaches (default: 80% of --gpu's)");
  add("--tensor-bandwidth", options.tensor_bandwidth, "GB/S",
      "Bandwidth of a rank to its tensor ranks (default: two thirds of NVLink's one way, between "
      "hosts of 8 ranks 40; with --roofline, NVLink's one way)");
  add("--data-bandwidth", options.data_bandwidth, "GB/S", "Likewise to its data ranks");
  add("--latency", options.latency, "US", "Latency of a collective in microseconds (default: 20)");
}

void add_roofline_options(CLI::App& command, PlanOptions& options) {
  CLI::Option* roofline = command.add_flag(
      "--roofline", options.roofline,
      "Bound the time of a step by the FLOPs and bytes of each op and the GPU's data sheet");
  for (const char* other : {"--sweep", "--memory", "--flops", "--memory-bandwidth", "--latency"}) {
    roofline->excludes(other);
  }
  command
      .add_flag("--markdown", options.markdown,
                "Print a section of docs/roofline.md, for several GPUs")
      ->needs(roofline)
      ->excludes("--json")
      ->excludes("--gpu");
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
  add_machine_options(*command, *options);
  add_roofline_options(*command, *options);
  command->callback([command, options, &exit_code] {
    run_on_first_rank(command_line_of(*command), [&] {
      if (!print(*options)) exit_code = EXIT_FAILURE;
    });
  });
}

}  // namespace tessera
