#pragma once

namespace CLI {
class App;
}

namespace tessera {

/// Adds `prepare`, which turns text files into a dataset and prints what it wrote:
///
///     tessera prepare --input FILES... --output PREFIX [--tokenizer SPEC] [--overwrite]
///                     [--format auto|text|jsonl] [--field NAME] [--skip-malformed]
///                     [--documents file|paragraph|line] [--sentences none|line] [--append-eod]
///                     [--threads N]
///
/// Shows how far it is on standard error, where that is a terminal. The command runs when `app`
/// parses it; it throws Error (see launch/data/prepare.h).
void add_prepare_command(CLI::App& app);

}  // namespace tessera
