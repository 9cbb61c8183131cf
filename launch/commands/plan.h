#pragma once

namespace CLI {
class App;
}

namespace tessera {

/// Adds `plan`, which says what a run would need, without running anything or looking at its data:
///
///     tessera plan CONFIG --ranks N [--tensor K] [--set KEY=VALUE ...] [--json]
///     tessera plan CONFIG --ranks N --sweep --memory 80GB [--tensor K] [--set KEY=VALUE ...]
///                  [--flops 400T] [--memory-bandwidth GB/S] [--tensor-bandwidth GB/S]
///                  [--data-bandwidth GB/S] [--show N] [--json]
///
/// When it is parsed, `exit_code` is set: not 0 where the layout breaks a rule, or none fits.
void add_plan_command(CLI::App& app, int& exit_code);

}  // namespace tessera
