#pragma once

namespace CLI {
class App;
}

namespace tessera {

// One function per command of `tessera`. It adds the command to `app`, which runs it while parsing
// the command line. A command that runs on several ranks sets `exit_code`; the others throw Error.

/// Adds `train`, which runs a configuration on all ranks started by mpirun:
///
///     tessera train CONFIG [--set section.key=value ...] [--stop-at STEP]
void add_train_command(CLI::App& app, int& exit_code);

/// Adds `eval`, which evaluates a trained model on some data, on one rank or on the ranks started
/// by mpirun:
///
///     tessera eval RUN [--data PREFIX | --part train|eval|test] [--config CONFIG]
///                  [--set KEY=VALUE] [--max-samples N] [--tensor K] [--micro-batch N]
///                  [--json] [--dump FILE.safetensors] [--device auto|cpu|cuda]
///                  [--backend auto|nccl|mpi]
void add_eval_command(CLI::App& app, int& exit_code);

/// Adds `generate`, which prints a prompt and its continuation by a trained model, on one rank or
/// with the model's heads split over the ranks started by mpirun:
///
///     tessera generate RUN --prompt TEXT|- [--chat auto|chatml|plain [--system TEXT]]
///                      [--max-tokens N] [--stop TEXT]... [--temperature X] [--top-k K] [--top-p P]
///                      [--repetition-penalty X] [--seed S] [--stream | --no-stream]
///     tessera generate RUN --input FILE --output FILE ...
void add_generate_command(CLI::App& app, int& exit_code);

/// Adds `chat`, which answers each line of its standard input as a user's message:
///
///     tessera chat RUN [--template auto|chatml|plain] [--system TEXT] [--max-tokens N]
///                  [--stop TEXT]... [--temperature X] [--top-k K] [--top-p P]
///                  [--repetition-penalty X] [--seed S]
void add_chat_command(CLI::App& app, int& exit_code);

/// Adds `attention`, which writes a model's attention weights for a text, as PREFIX.json and as a
/// readable PREFIX.html, on one rank or with the model's heads split over the ranks started by
/// mpirun:
///
///     tessera attention RUN --text TEXT [--text TEXT ...] [--pack] [--layer N ...]
///                       [--head N ...] [--output PREFIX]
///     tessera attention RUN --source TEXT [--target TEXT] ... [--layer N ...] [--head N ...]
///                       [--output PREFIX]
void add_attention_command(CLI::App& app, int& exit_code);

/// Adds `tessera fill-mask`, which prints a trained BERT's predictions for [MASK].
void add_fill_mask_command(CLI::App& app, int& exit_code);

/// Adds `tessera classify`, which prints the label that a fine-tuned BERT predicts for a text.
void add_classify_command(CLI::App& app, int& exit_code);

/// Adds `tessera embed`, which prints or writes the embeddings of texts.
void add_embed_command(CLI::App& app, int& exit_code);

/// Adds `prepare`, which converts text files into a dataset and prints what it wrote:
///
///     tessera prepare --input FILES... --output PREFIX [--tokenizer SPEC] [--overwrite]
///                     [--format auto|text|jsonl] [--field NAME] [--skip-malformed]
///                     [--documents file|paragraph|line] [--sentences none|line] [--append-eod]
///                     [--drop-duplicates] [--near-duplicates SIMILARITY] [--shuffle SEED]
///                     [--threads N] [--quiet]
///     tessera prepare --check PREFIX... [--tokenizer SPEC [--vocab-size N]] [--quiet]
///
/// Shows its progress on standard error. See launch/data/prepare/prepare.h and
/// launch/data/indexed/check_dataset.h.
void add_prepare_command(CLI::App& app);

/// Adds `tokenizer train`, which trains a vocabulary on text:
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

/// Adds `tessera import`, which makes a checkpoint from a folder in Hugging Face's format.
void add_import_command(CLI::App& app);

/// Adds `inspect`, which describes a checkpoint, run, dataset, tokenizer or safetensors file:
///
///     tessera inspect PATH [--tokenizer SPEC] [--documents N] [--text TEXT]
void add_inspect_command(CLI::App& app);

/// Adds `tessera verify PATH`, which reads a checkpoint, or all of a run's, against the checksums
/// and prints one line for each. It throws if one is damaged or there is none, so that the exit
/// status is nonzero.
void add_verify_command(CLI::App& app);

/// Adds `tessera status RUN`, which prints what each rank of a run does, or did last if it has
/// ended.
void add_status_command(CLI::App& app);

/// Adds `report`, which writes an HTML page with charts of runs:
///
///     tessera report RUN... [--output FILE.html] [--watch [SECONDS]]
void add_report_command(CLI::App& app);

/// Adds `runs`, which lists runs:
///
///     tessera runs [FOLDER...] [--watch [SECONDS]]
void add_runs_command(CLI::App& app);

/// Adds `replay`, which computes a step of a run again and prints losses of its documents and norms
/// of its layers, on the ranks started by mpirun:
///
///     tessera replay RUN --step STEP [--json]
void add_replay_command(CLI::App& app, int& exit_code);

/// Adds `run`, which starts a command on several ranks with mpirun, and passes signals so that a
/// run saves:
///
///     tessera run -np N [--hosts HOST:RANKS,...] [--mpirun COMMAND] train CONFIG ...
///     tessera run -- mpirun ... tessera train CONFIG ...
void add_run_command(CLI::App& app, int& exit_code);

/// Adds `supervise`, which does the same for a command that trains, and starts it again if it
/// fails:
///
///     tessera supervise [--max-restarts-without-progress N] [--delay SECONDS] [--max-delay SECONDS]
///                       [--max-host-failures N] [--stop-timeout SECONDS] [--start-timeout SECONDS]
///                       [--kill-grace SECONDS] [--memory SIZE]
///                       -np N [--hosts HOST:RANKS,...] [--mpirun COMMAND] train CONFIG ...
///     tessera supervise ... -- mpirun ... tessera train CONFIG ...
void add_supervise_command(CLI::App& app, int& exit_code);

/// Makes the -np of mpirun an option for `run` and `supervise`, before the command that they start.
void name_number_of_ranks(int argc, char** argv);

/// Adds `config`, which checks a configuration and prints it with every key, or prints the meaning
/// of all keys:
///
///     tessera config CONFIG [--set section.key=value ...] [--ranks N]
///     tessera config --markdown
void add_config_command(CLI::App& app);

/// Adds `plan`, which predicts what a run needs without running anything or reading its data:
///
///     tessera plan CONFIG --ranks N [--tensor K] [--set KEY=VALUE ...] [--json]
///     tessera plan CONFIG --ranks N --sweep --memory 80GB [--tensor K] [--set KEY=VALUE ...]
///                  [--flops 400T] [--memory-bandwidth GB/S] [--tensor-bandwidth GB/S]
///                  [--data-bandwidth GB/S] [--show N] [--json]
///     tessera plan CONFIG --ranks N --roofline [--gpu H100] [--tensor K] [--set KEY=VALUE ...]
///                  [--tensor-bandwidth GB/S] [--data-bandwidth GB/S] [--json | --markdown]
///
/// The exit code is nonzero if the layout breaks a rule or no layout fits.
void add_plan_command(CLI::App& app, int& exit_code);

/// Adds `design`, which measures the machine and writes a tokenizer, a dataset and a configuration:
///
///     tessera design --text FILES --minutes M --output FOLDER [--format ...] [--field ...]
///                    [--skip-malformed]
void add_design_command(CLI::App& app, int& exit_code);

/// Adds `prove`, which trains a small version of a run on every layout of some thread ranks,
/// compares the results with those of one rank, and checks the masks:
///
///     tessera prove CONFIG [--ranks N] [--set KEY=VALUE ...] [--json]
void add_prove_command(CLI::App& app, int& exit_code);

/// Adds `mask`, which draws what the layers of a model hide from attention:
///
///     tessera mask CONFIG [--documents N,N] [--set KEY=VALUE ...] [--json]
void add_mask_command(CLI::App& app);

/// Adds `completion`, which prints a script for a shell:
///
///     tessera completion bash|zsh
void add_completion_command(CLI::App& app);

/// Adds `man`, which prints manual pages as roff, as in `tessera man train | man -l -`:
///
///     tessera man [COMMAND | yaml]
void add_man_command(CLI::App& app);

}  // namespace tessera
