#pragma once

namespace CLI {
class App;
}

namespace tessera {

/// Adds `config`, which checks a configuration and prints it with every key, or prints what all
/// keys mean:
///
///     tessera config CONFIG [--set section.key=value ...] [--ranks N]
///     tessera config --markdown
///
/// The command runs when `app` parses it; it throws Error.
void add_config_command(CLI::App& app);

}  // namespace tessera
