#pragma once

namespace CLI {
class App;
}

namespace tessera {

// One function for each command of `tessera`. It adds the command to `app`; the command runs when
// `app` parses the command line. A command that runs on several ranks sets `exit_code`, the others
// throw Error.

/// Adds `train`, which runs a configuration on all ranks that mpirun started:
///
///     tessera train CONFIG [--set section.key=value ...] [--stop-at STEP]
void add_train_command(CLI::App& app, int& exit_code);

/// Adds `eval`, which prints what a trained model is worth on some data, on one rank or on the
/// ranks that mpirun started:
///
///     tessera eval --checkpoint RUN_OR_STEP [--data PREFIX | --part train|eval|test]
///                  [--config CONFIG] [--set KEY=VALUE] [--max-samples N] [--tensor K]
///                  [--micro-batch N] [--json] [--dump FILE.safetensors]
///                  [--device auto|cpu|cuda] [--backend auto|nccl|mpi]
void add_eval_command(CLI::App& app, int& exit_code);

/// Adds `generate`, which continues a prompt with a trained model, on one rank or with the model's
/// heads split over the ranks that mpirun started:
///
///     tessera generate --checkpoint RUN_OR_STEP --prompt TEXT [--max-tokens N] [--temperature X]
///                      [--top-k K] [--top-p P] [--seed S]
void add_generate_command(CLI::App& app, int& exit_code);

/// Adds `attention`, which writes the attention weights of a model for a text, as PREFIX.json and
/// as PREFIX.html for a person to look at, on one rank or with the model's heads split over the
/// ranks that mpirun started:
///
///     tessera attention --checkpoint RUN_OR_STEP --text TEXT [--text TEXT ...] [--pack]
///                       [--layer N ...] [--head N ...] [--output PREFIX]
void add_attention_command(CLI::App& app, int& exit_code);

/// `tessera fill-mask`: what a trained BERT would put in place of [MASK].
void add_fill_mask_command(CLI::App& app, int& exit_code);

/// `tessera classify`: which label a fine-tuned BERT gives a text.
void add_classify_command(CLI::App& app, int& exit_code);

/// Adds `prepare`, which turns text files into a dataset and prints what it wrote:
///
///     tessera prepare --input FILES... --output PREFIX [--tokenizer SPEC] [--overwrite]
///                     [--format auto|text|jsonl] [--field NAME] [--skip-malformed]
///                     [--documents file|paragraph|line] [--sentences none|line] [--append-eod]
///                     [--threads N]
///
/// Shows how far it is on standard error, where that is a terminal.
/// See launch/data/prepare/prepare.h.
void add_prepare_command(CLI::App& app);

/// Adds `tokenizer train`, which makes a vocabulary from text:
///
///     tessera tokenizer train --kind wordpiece --input FILES... --vocab-size N --output vocab.txt
///                             [--cased] [--min-count N] [--max-characters N] [--overwrite]
///     tessera tokenizer train --kind bpe --input FILES... --vocab-size N --output FOLDER
///                             [--min-count N] [--special TOKEN]... [--overwrite]
///     tessera tokenizer train --kind sentencepiece --input FILES... --vocab-size N
///                             --output file.model [--model-type unigram|bpe]
///                             [--character-coverage SHARE] [--overwrite]
void add_tokenizer_command(CLI::App& app);

/// Adds `tessera export`, which writes a checkpoint in Hugging Face's format.
void add_export_command(CLI::App& app);

/// Adds `tessera import`, which makes a checkpoint of a folder in Hugging Face's format.
void add_import_command(CLI::App& app);

/// Adds `inspect`, which says what a checkpoint, run, dataset, tokenizer or safetensors file is:
///
///     tessera inspect PATH [--tokenizer SPEC] [--documents N] [--text TEXT]
void add_inspect_command(CLI::App& app);

/// `tessera verify PATH`: reads a checkpoint, or all of a run's, against the checksums and prints a
/// line for each. Throws, so that the program's exit status is not zero, if one is damaged or there
/// is none.
void add_verify_command(CLI::App& app);

/// Adds `config`, which checks a configuration and prints it with every key, or prints what all
/// keys mean:
///
///     tessera config CONFIG [--set section.key=value ...] [--ranks N]
///     tessera config --markdown
void add_config_command(CLI::App& app);

/// Adds `plan`, which says what a run would need, without running anything or looking at its data:
///
///     tessera plan CONFIG --ranks N [--tensor K] [--set KEY=VALUE ...] [--json]
///     tessera plan CONFIG --ranks N --sweep --memory 80GB [--tensor K] [--set KEY=VALUE ...]
///                  [--flops 400T] [--memory-bandwidth GB/S] [--tensor-bandwidth GB/S]
///                  [--data-bandwidth GB/S] [--show N] [--json]
///
/// The exit code is not 0 if the layout breaks a rule or no layout fits.
void add_plan_command(CLI::App& app, int& exit_code);

}  // namespace tessera
