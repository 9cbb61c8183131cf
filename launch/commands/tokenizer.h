#pragma once

namespace CLI {
class App;
}

namespace tessera {

/// Adds `tokenizer train`, which makes a vocabulary from text:
///
///     tessera tokenizer train --kind wordpiece --input FILES... --vocab-size N --output vocab.txt
///                             [--cased] [--min-count N] [--max-characters N] [--overwrite]
///     tessera tokenizer train --kind bpe --input FILES... --vocab-size N --output FOLDER
///                             [--min-count N] [--special TOKEN]... [--overwrite]
///     tessera tokenizer train --kind sentencepiece --input FILES... --vocab-size N
///                             --output file.model [--model-type unigram|bpe]
///                             [--character-coverage SHARE] [--overwrite]
///
/// The command runs when `app` parses it; it throws Error.
void add_tokenizer_command(CLI::App& app);

}  // namespace tessera
