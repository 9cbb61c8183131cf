#pragma once

namespace CLI {
class App;
}

namespace tessera {

/// Adds all commands of `tessera`.
void add_commands(CLI::App& app, int& exit_code);

/// Adds those that predict with a trained model.
void add_model_commands(CLI::App& app, int& exit_code);

// One function per command, which the command's --help describes. It adds the command to `app`,
// which runs it while parsing the command line. A command that runs on several ranks sets
// `exit_code`; the others throw Error.

void add_train_command(CLI::App& app, int& exit_code);
void add_eval_command(CLI::App& app, int& exit_code);
void add_generate_command(CLI::App& app, int& exit_code);
void add_chat_command(CLI::App& app, int& exit_code);
void add_attention_command(CLI::App& app, int& exit_code);
void add_fill_mask_command(CLI::App& app, int& exit_code);
void add_embed_command(CLI::App& app, int& exit_code);
void add_classify_command(CLI::App& app, int& exit_code);
void add_serve_command(CLI::App& app, int& exit_code);
void add_prepare_command(CLI::App& app);
void add_tokenizer_command(CLI::App& app);
void add_export_command(CLI::App& app);
void add_import_command(CLI::App& app);
void add_inspect_command(CLI::App& app);
void add_verify_command(CLI::App& app);
void add_status_command(CLI::App& app);
void add_report_command(CLI::App& app);
void add_runs_command(CLI::App& app);
void add_replay_command(CLI::App& app, int& exit_code);
void add_run_command(CLI::App& app, int& exit_code);
void add_supervise_command(CLI::App& app, int& exit_code);
void add_config_command(CLI::App& app);
void add_plan_command(CLI::App& app, int& exit_code);
void add_design_command(CLI::App& app, int& exit_code);
void add_prove_command(CLI::App& app, int& exit_code);
void add_mask_command(CLI::App& app);
void add_completion_command(CLI::App& app);
void add_man_command(CLI::App& app);

/// Makes the -np of mpirun an option for `run` and `supervise`, before the command that they start.
void name_number_of_ranks(int argc, char** argv);

}  // namespace tessera
