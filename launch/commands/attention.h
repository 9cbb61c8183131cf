#pragma once

namespace CLI {
class App;
}

namespace tessera {

/// Adds `attention`, which writes the attention weights of a model for a text, as PREFIX.json and
/// as PREFIX.html for a person to look at, on one rank or with the model's heads split over the
/// ranks that mpirun started:
///
///     tessera attention --checkpoint RUN_OR_STEP --text TEXT [--text TEXT ...] [--pack]
///                       [--layer N ...] [--head N ...] [--output PREFIX]
///
/// When it is parsed, `exit_code` is set.
void add_attention_command(CLI::App& app, int& exit_code);

}  // namespace tessera
