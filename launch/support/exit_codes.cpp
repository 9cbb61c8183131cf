#include "launch/support/exit_codes.h"

#include <fmt/format.h>

#include <algorithm>

namespace tessera {
namespace {

constexpr ExitCodeMeaning kExitCodes[] = {
    {ExitCode::finished, false, "finished", "The command did what it was asked to do", "ends"},
    {ExitCode::failed, true, "failed", "An error without a code of its own, on any rank",
     "starts again"},
    {ExitCode::usage, false, "usage", "The command line is wrong, or differs between ranks",
     "ends"},
    {ExitCode::data, true, "data",
     "Training data, a checkpoint or a tokenizer is missing, damaged or different between hosts",
     "starts again: a file system may be back soon"},
    {ExitCode::not_finite, false, "not finite",
     "A loss, gradient or weight is NaN or infinite, or a gradient norm a spike, and the "
     "configuration does not allow it",
     "ends: a repeated run has the same bits"},
    {ExitCode::output, true, "output",
     "A checkpoint, metrics.jsonl or run.dir cannot be written, as on a full disk", "starts again"},
    {ExitCode::hang, true, "hang", "No rank has made progress for run.hang_timeout",
     "starts again"},
    {ExitCode::configuration, false, "configuration",
     "The configuration is wrong, does not suit the ranks, or differs between them", "ends"},
    {ExitCode::out_of_time, false, "out of time",
     "The run has saved and ended before the end of run.walltime or of the Slurm job: requeue it",
     "ends with this code"},
    {ExitCode::stopped, true, "stopped",
     "The run has saved and ended after SIGTERM, SIGINT, SIGUSR1 or SIGHUP: requeue it",
     "ends with this code if it was asked to stop itself; otherwise starts again"},
};

}  // namespace

std::span<const ExitCodeMeaning> exit_codes() { return kExitCodes; }

const ExitCodeMeaning* find_exit_code(int code) {
  const auto* found = std::ranges::find_if(kExitCodes, [&](const ExitCodeMeaning& meaning) {
    return static_cast<int>(meaning.code) == code;
  });
  return found == std::end(kExitCodes) ? nullptr : found;
}

std::string exit_codes_text() {
  std::string text = "Exit codes:\n";
  for (const ExitCodeMeaning& code : exit_codes()) {
    text +=
        fmt::format("  {:>2}  {:<13}  {}\n", static_cast<int>(code.code), code.name, code.meaning);
  }
  return text + "  128 + N            A rank was killed by signal N (the launcher's code)\n";
}

std::string exit_codes_markdown() {
  std::string text = "| code | name | meaning | `tessera supervise` |\n|--:|---|---|---|\n";
  for (const ExitCodeMeaning& code : exit_codes()) {
    text += fmt::format("| {} | {} | {} | {} |\n", static_cast<int>(code.code), code.name,
                        code.meaning, code.supervise);
  }
  return text +
         "| 128 + N | | A rank was killed by signal N; this is the launcher's code | starts again "
         "|\n";
}

}  // namespace tessera
