#include "launch/train/run_setup.h"

#include <utility>

#include "core/cuda/runtime.h"
#include "core/deterministic.h"
#include "core/device.h"
#include "core/error.h"
#include "core/ops/cuda/attention/cudnn_attention.h"
#include "core/ops/cuda/matmul/matmul.h"
#include "launch/checkpoint/find.h"
#include "launch/config/config_changes.h"
#include "launch/config/validate.h"
#include "launch/devices/warm_up.h"
#include "launch/metrics/gpu_peaks.h"
#include "launch/metrics/product_speed.h"
#include "launch/train/memory/micro_batch.h"
#include "launch/train/sample_writer.h"
#include "launch/train/start/derive_config.h"
#include "models/attention_plane.h"
#include "parallel/communicators/exchange.h"
#include "parallel/host/host_memory.h"

namespace tessera {
namespace {

/// If no data sheet is known, rank 0, which writes the log, measures its own GPU before memory is
/// allocated. Never measures an emulated GPU: its times mean nothing.
Peak peak_of([[maybe_unused]] const OpenedDevices& devices, [[maybe_unused]] const RunSection& run,
             [[maybe_unused]] bool measures) {
  Peak peak;
  if constexpr (kHasCuda) {
    if (!devices.device.is_cuda()) return peak;
    const std::string name = cuda::device_kind(devices.device.index).name;
    peak.flops = peak_flops(name, run.precision, run.tf32);
    if (!peak.flops && measures && !cuda::is_emulated()) {
      constexpr int64_t kSize = 8192;
      peak.flops = product_speed(devices.device, run.precision, kSize);
      peak.note = fmt::format(
          "MFU is relative to {:.0f} TFLOP/s per GPU, the speed of a product of {} × {} matrices: "
          "no data sheet of {} is known",
          *peak.flops / 1e12, kSize, kSize, name);
    }
    if (peak.flops) *peak.flops *= devices.gpus;
  }
  return peak;
}

/// Throws if the run asks for a timeline on GPUs; only CPU ranks have one.
void check_timeline(const LogSection& log, const OpenedDevices& devices) {
  require(log.timeline_steps == 0 || devices.device.is_cpu(),
          "log.timeline_steps is {}, but timelines show the threads of CPU ranks, and this run "
          "uses GPUs: choose 0, and start the run under `nsys profile`, which shows the same "
          "ranges next to GPU activity",
          log.timeline_steps);
}

/// Sets which algorithms the calling thread's ops use. Throws if the run asks for what only GPUs
/// have, on CPUs.
void choose_algorithms(const RunConfig& config, const OpenedDevices& devices) {
  const std::string why_cpus = devices.note.empty() ? "" : " (" + devices.note + ")";
  require(!config.run.tf32 || devices.device.is_cuda(),
          "run.tf32 is true, but only GPUs have TF32, and this run uses CPUs{}: choose false, or "
          "start it on a machine with GPUs",
          why_cpus);
  require(config.run.product_algorithms != ProductAlgorithms::timed || devices.device.is_cuda(),
          "run.product_algorithms is timed, but only GPUs have algorithms to choose from, and this "
          "run uses CPUs{}: choose auto, or start it on a machine with GPUs",
          why_cpus);
  require(!config.train.cudnn_dropout || devices.device.is_cuda(),
          "train.cudnn_dropout is true, but cuDNN runs only on GPUs, and this run uses CPUs{}: "
          "choose false, or start it on a machine with GPUs",
          why_cpus);
  require(!config.train.cudnn_dropout || cuda::kHasCudnn,
          "train.cudnn_dropout is true, but this build has no cuDNN: choose false, or build with "
          "cuDNN (docs/gpu.md)");
  use_deterministic_algorithms(config.run.deterministic);
  allow_cudnn_dropout(config.train.cudnn_dropout);
  if constexpr (kHasCuda) {
    if (!devices.device.is_cuda()) return;
    cuda::use_tf32(config.run.tf32);
    if (!config.run.precision.fp8) return;
    if (const auto reason = cuda::fp8_unsupported_reason()) {
      fail("run.precision is fp8, but {}: choose bf16", *reason);
    }
  }
}

}  // namespace

RunInputs open_run_inputs(Communicator& world, const std::function<RunConfig()>& load) {
  RunConfig given;
  all_or_none(world, [&] { given = load(); });
  with_exit_code(ExitCode::configuration, [&] {
    require_same_on_ranks(world, config_values(given),
                          "Start all ranks with the same configuration and the same --set");
  });
  DerivedConfig derived = derive_config(given, world, warn_of_skipped);
  RunInputs inputs;
  all_or_none(world, [&] {
    with_exit_code(ExitCode::configuration, [&] {
      validate(derived.config, world.size());
      inputs.data = open_training_data(derived.config, derived.tokenizer);
      derive_steps(derived, inputs.data);
      inputs.config = std::move(derived.config);
      inputs.origins = std::move(derived.origins);
      if (inputs.config.train.epochs > 0.0) validate(inputs.config, world.size());
      if (!inputs.config.eval.prompts.empty()) {
        const SampleWriter encodes_all_prompts(inputs.config, inputs.data.tokenizer.get(),
                                               inputs.data.chat);
      }
    });
  });
  if (const auto& plane = inputs.config.model.attention_plane) {
    inputs.data.identity.push_back({"model.attention_mask_file", plane->checksum});
  }
  with_exit_code(ExitCode::data, [&] {
    require_same_on_ranks(world, inputs.data.identity,
                          "Give all hosts the same files: copy them again, or use a shared folder");
  });
  return inputs;
}

DeviceRequest device_request(const RunConfig& config) {
  return {config.run.device, config.parallel.backend, config.run.deterministic};
}

RunSetup::RunSetup(RunInputs opened, OpenedRanks& ranks, bool measures_peak)
    : inputs(std::move(opened)) {
  RunConfig& config = inputs.config;
  all_or_none(ranks.world, [&] {
    with_exit_code(ExitCode::configuration, [&] {
      choose_algorithms(config, ranks.devices);
      check_timeline(config.log, ranks.devices);
    });
    peak = peak_of(ranks.devices, config.run, measures_peak && ranks.world.rank() == 0);
  });
  const size_t free_bytes = free_bytes_after_warm_up(config, ranks.devices, ranks.groups);
  // Before any rank allocates.
  all_or_none(ranks.world, [&] { available = find_available_memory(); });
  if (config.automatic.erase("batch.micro") > 0) {
    const MicroBatch chosen =
        choose_micro_batch(config, ranks.groups, ranks.devices.device, free_bytes, available);
    config.batch.micro = chosen.size;
    inputs.origins["batch.micro"] = chosen.reason;
  }
  all_or_none(ranks.world, [&] {
    trainer = std::make_unique<Trainer>(config, ranks.groups, inputs.data, ranks.devices.device,
                                        free_bytes);
  });
}

}  // namespace tessera
