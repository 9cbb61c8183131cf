#include "launch/cli/support/usage_error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "launch/config/key_advice.h"
#include "launch/config/schema_list.h"

namespace tessera {
namespace {

using Names = std::vector<std::string>;

/// Words that other programs use for a command or an option here, and an answer. `command` is the
/// command to which the row applies, or "" for all. Words are in lower case with underscores.
struct Habit {
  std::string_view command;
  std::string_view words;  ///< separated by spaces
  std::string_view answer;
};

// An answer that is an option is used only where the command has this option.
constexpr Habit kHabits[] = {
    {"", "config config_file config_path cfg yaml", "CONFIG"},
    {"",
     "checkpoint checkpoint_path ckpt ckpt_path model model_path model_name_or_path load_from run "
     "run_dir pretrained",
     "RUN"},
    {"",
     "max_new_tokens max_length max_len max_gen_toks max_completion_tokens num_tokens n_predict",
     "--max-tokens"},
    {"", "num_return_sequences n num_return samples num_outputs", "--num-samples"},
    {"", "temp", "--temperature"},
    {"", "topk", "--top-k"},
    {"", "topp", "--top-p"},
    {"", "num_beams beam beam_size", "--beams"},
    {"", "text p prompt_text", "--prompt"},
    {"", "sentence t prompt", "--text"},
    {"", "stop_sequence stop_string stop_token until", "--stop"},
    {"", "input_file file i data_file source", "--input"},
    {"", "out out_dir output output_dir output_path save_dir save_path o", "--to"},
    {"", "output_file out o output_prefix output_path out_file", "--output"},
    {"", "batch_size bs micro_batch_size per_device_eval_batch_size", "--micro-batch"},
    {"", "tp tp_size tensor_parallel_size tensor_model_parallel_size", "--tensor"},
    {"", "num_gpus gpus np n nproc world_size num_processes nproc_per_node", "--ranks"},
    {"", "use_ema averaged average", "--ema"},
    {"", "force f replace", "--overwrite"},
    {"", "dtype torch_dtype", "--precision"},
    {"", "workers num_workers num_proc j", "--threads"},
    {"", "json_keys json_key text_field text_column column key", "--field"},
    {"", "tokenizer_model tokenizer_name tokenizer_path vocab_file", "--tokenizer"},
    {"", "limit num_examples", "--max-samples"},
    {"", "hf_dir dir path folder", "DIR"},
    {"train", "dry_run plan estimate", "`tessera plan CONFIG --ranks N` predicts what a run needs"},
    {"train", "check validate check_config",
     "`tessera config CONFIG` checks a configuration and prints all of it"},
    {"train", "resume resume_from_checkpoint auto_resume continue",
     "a run resumes from its newest checkpoint by itself; --set checkpoint.resume=required fails "
     "without one"},
    {"train",
     "n np ranks nproc nproc_per_node num_gpus gpus world_size num_processes nnodes num_nodes",
     "`tessera run -np N train CONFIG` starts N ranks"},
    {"train", "eval_only evaluate", "`tessera eval RUN` evaluates a checkpoint"},
    {"train", "steps_to_stop stop_after", "--stop-at"},
};

constexpr Habit kCommandHabits[] = {
    {"", "finetune fine_tune fit pretrain sft", "train"},
    {"", "evaluate test validate score benchmark", "eval"},
    {"", "sample complete completion_text infer inference predict", "generate"},
    {"", "preprocess preprocess_data tokenize encode", "prepare"},
    {"", "convert to_hf save", "export"},
    {"", "from_hf load convert_from", "import"},
    {"", "show describe info cat", "inspect"},
    {"", "ls list", "runs"},
    {"", "dry_run estimate", "plan"},
    {"", "check fsck", "verify"},
    {"", "embedding embeddings encode_text", "embed"},
    {"", "mlm fillmask", "fill-mask"},
    {"", "launch mpirun torchrun accelerate deepspeed", "run"},
};

bool has_word(std::string_view words, std::string_view word) {
  for (const std::string& each : CLI::detail::split(std::string(words), ' ')) {
    if (each == word) return true;
  }
  return false;
}

Names command_names(const CLI::App& app) {
  Names names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  return names;
}

Names option_names(const CLI::App& command) {
  Names names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

/// How an argument without a name is called in the usage: "RUN", "CONFIG".
std::string argument_name(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type.empty() ? option.get_name() : type;
}

bool has_argument(const CLI::App& command, std::string_view name) {
  return std::ranges::any_of(command.get_options(), [&](const CLI::Option* option) {
    return option->get_positional() && argument_name(*option) == name;
  });
}

bool is_option(std::string_view word) {
  return word.size() > 1 && word[0] == '-' && !('0' <= word[1] && word[1] <= '9') && word[1] != '.';
}

/// A word that the command line must not have, as in "--lr=3" or "train.steps=5".
struct Unexpected {
  std::string word;   ///< as it was given, without a value
  std::string value;  ///< behind an equals sign, or "" if there is none
  bool has_value = false;
  std::string next;  ///< the argument after it, or ""
};

Unexpected split(const std::string& word, const Names& arguments) {
  const size_t equals = std::min(word.find('='), word.size());
  Unexpected unexpected = {word.substr(0, equals), "", equals < word.size(), ""};
  if (unexpected.has_value) unexpected.value = word.substr(equals + 1);
  const auto at = std::ranges::find(arguments, word);
  if (at != arguments.end() && at + 1 != arguments.end() && !is_option(at[1])) {
    unexpected.next = at[1];
  }
  return unexpected;
}

/// The first unexpected word, preferring options and keys; "" if there is none.
std::string unexpected_word(const CLI::App& app, const CLI::App& command) {
  Names left = app.remaining(/*recurse=*/true);
  for (const CLI::Option* option : command.get_options()) {
    // `tessera train train.steps=5 x.yaml` took the key for the configuration.
    if (!option->get_positional()) continue;
    for (const std::string& word : option->results()) {
      if (!left.empty() && is_config_key(word.substr(0, word.find('=')))) left.push_back(word);
    }
  }
  const auto found = std::ranges::find_if(left, [](const std::string& word) {
    return is_option(word) || is_config_key(word.substr(0, word.find('=')));
  });
  if (found != left.end()) return *found;
  return left.empty() ? "" : left.front();
}

bool is(const CLI::Error& error, CLI::ExitCodes code) {
  return error.get_exit_code() == static_cast<int>(code);
}

/// The value that an option of a key was given, or a word that stands for one.
std::string value_of(const Unexpected& unexpected, const std::string& key) {
  if (unexpected.has_value) return unexpected.value;
  const std::string allowed = allowed_values(key);
  if (allowed != "true or false") return unexpected.next.empty() ? "VALUE" : unexpected.next;
  return unexpected.next == "false" ? "false" : "true";
}

/// "write --set optimizer.lr=3e-4" for the keys that a word means, or "".
std::string set_advice(const Unexpected& unexpected, const KeyAdvice& advice) {
  Names sets;
  for (const std::string& key : advice.keys) {
    std::string set = fmt::format("{}={}", key, value_of(unexpected, key));
    if (set.find_first_of(" '\"[]{}*$;&|<>()") != std::string::npos) set.insert(0, "'").append("'");
    sets.push_back("--set " + set);
  }
  if (sets.empty()) return advice.remark;
  if (advice.is_guess) return fmt::format("did you mean {}?", fmt::join(sets, " or "));
  return fmt::format("write {}{}", fmt::join(sets, " or "),
                     advice.remark.empty() ? "" : fmt::format(" ({})", advice.remark));
}

/// Says how to write `unexpected` here; "" if it is not known.
std::string habit_advice(const CLI::App& command, const Unexpected& unexpected) {
  const std::string word = as_key(unexpected.word);
  const Names options = option_names(command);
  for (const Habit& habit : kHabits) {
    if (!habit.command.empty() && habit.command != command.get_name()) continue;
    if (!has_word(habit.words, word)) continue;
    std::string answer(habit.answer);
    if (!is_option(answer) && !habit.command.empty()) return answer;
    if (has_argument(command, answer)) return fmt::format("pass {} without an option", answer);
    if (std::ranges::count(options, answer) > 0) return fmt::format("it is {} here", answer);
  }
  return "";
}

std::string unexpected_text(const CLI::App& command, const std::string& word,
                            const Names& arguments) {
  const Unexpected unexpected = split(word, arguments);
  const Names options = option_names(command);
  const bool is_key = is_config_key(unexpected.word);
  if (!is_option(word) && !is_key) {
    return fmt::format("'{}' was not expected after what came before it", word);
  }
  const std::string what = is_option(word) ? fmt::format("there is no option {}", unexpected.word)
                                           : fmt::format("'{}' was not expected", word);
  std::string advice = habit_advice(command, unexpected);
  const bool has_set = std::ranges::count(options, "--set") > 0;
  const Names near = nearest(unexpected.word, options, 1);
  const KeyAdvice key = advice_for(unexpected.word);
  if (advice.empty() && has_set && (near.empty() || !key.is_guess)) {
    advice = set_advice(unexpected, key);
  }
  if (!advice.empty()) return fmt::format("{}: {}", what, advice);
  if (!near.empty()) return fmt::format("{}, did you mean {}?", what, near.front());
  return fmt::format("{}. The options are {}", what, fmt::join(options, ", "));
}

std::string no_command(const CLI::App& app, const Names& arguments) {
  const std::string word = unexpected_word(app, app);
  if (is_option(word)) return unexpected_text(app, word, arguments);
  const Names names = command_names(app);
  if (word.empty()) return fmt::format("a command is missing: {}", fmt::join(names, ", "));
  const std::string what = fmt::format("there is no command '{}'", word);
  for (const Habit& habit : kCommandHabits) {
    const bool means = has_word(habit.words, as_key(word));
    if (means && std::ranges::count(names, habit.answer) > 0) {
      return fmt::format("{}, did you mean {}?", what, habit.answer);
    }
  }
  const Names near = nearest(word, names, 2);
  if (!near.empty()) return fmt::format("{}, did you mean {}?", what, fmt::join(near, " or "));
  return fmt::format("{}. The commands are {}", what, fmt::join(names, ", "));
}

}  // namespace

std::string usage_error(const CLI::App& app, const CLI::Error& error, const Names& arguments) {
  const CLI::App* command = &app;
  std::string name = app.get_name();
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    name += " " + command->get_name();
  }
  const bool needs_command = !command->get_subcommands(nullptr).empty();
  const std::string word = unexpected_word(app, *command);
  const bool is_required = is(error, CLI::ExitCodes::RequiredError);
  std::string what = error.what();
  if (is_required && needs_command) {
    what = no_command(*command, arguments);
  } else if (is(error, CLI::ExitCodes::ExtrasError) || (is_required && is_option(word))) {
    what = unexpected_text(*command, word, arguments);
  }
  const std::string usage = CLI::Formatter().make_usage(command, name);
  return fmt::format("error: {}: {}\n{}{} --help says more\n", name, what, usage, name);
}

}  // namespace tessera
