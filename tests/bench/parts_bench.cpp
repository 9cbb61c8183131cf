#include <benchmark/benchmark.h>

#include "tests/bench/step_parts.h"

// Where a step's time goes besides matrix products: one iteration is all of a step's calls of one
// part.
namespace tessera::bench {
namespace {

using Part = void (StepParts::*)();

struct NamedPart {
  const char* name;
  Part run;
};

constexpr NamedPart kParts[] = {
    {"embedding_forward", &StepParts::embedding_forward_part},
    {"norm_forward", &StepParts::norm_forward_part},
    {"attention_forward", &StepParts::attention_forward_part},
    {"residual", &StepParts::residual_part},
    {"activation_forward", &StepParts::activation_forward_part},
    {"loss", &StepParts::loss_part},
    {"activation_backward", &StepParts::activation_backward_part},
    {"attention_backward", &StepParts::attention_backward_part},
    {"bias_gradient", &StepParts::bias_gradient_part},
    {"norm_backward", &StepParts::norm_backward_part},
    {"embedding_backward", &StepParts::embedding_backward_part},
    {"zero_gradients", &StepParts::zero_gradients_part},
    {"gradient_norm", &StepParts::gradient_norm_part},
    {"optimizer", &StepParts::optimizer_part},
};

void run_part(benchmark::State& state, const RunConfig& config, Part part) {
  StepParts parts(config);
  (parts.*part)();
  for (auto _ : state) (parts.*part)();
}

bool register_parts(const std::string& model, const RunConfig& config) {
  for (const NamedPart& part : kParts) {
    benchmark::RegisterBenchmark(("part/" + model + "/" + part.name).c_str(), run_part, config,
                                 part.run)
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
  }
  return true;
}

[[maybe_unused]] const bool parts_registered =
    register_parts("gpt2_124m_fp32", gpt2_124m(DType::f32)) &&
    register_parts("gpt2_124m_bf16", gpt2_124m(DType::bf16)) &&
    register_parts("gpt_shakespeare_fp32", gpt_shakespeare(DType::f32)) &&
    register_parts("gpt_shakespeare_bf16", gpt_shakespeare(DType::bf16));

}  // namespace
}  // namespace tessera::bench
