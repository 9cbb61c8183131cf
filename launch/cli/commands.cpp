#include "launch/cli/commands.h"

namespace tessera {

void add_model_commands(CLI::App& app, int& exit_code) {
  add_eval_command(app, exit_code);
  add_generate_command(app, exit_code);
  add_attention_command(app, exit_code);
  add_fill_mask_command(app, exit_code);
  add_embed_command(app, exit_code);
  add_classify_command(app, exit_code);
}

void add_commands(CLI::App& app, int& exit_code) {
  add_train_command(app, exit_code);
  add_model_commands(app, exit_code);
  add_chat_command(app, exit_code);
  add_serve_command(app, exit_code);
  add_prepare_command(app);
  add_tokenizer_command(app);
  add_export_command(app);
  add_import_command(app);
  add_inspect_command(app);
  add_verify_command(app);
  add_status_command(app);
  add_report_command(app);
  add_runs_command(app);
  add_replay_command(app, exit_code);
  add_run_command(app, exit_code);
  add_supervise_command(app, exit_code);
  add_config_command(app);
  add_plan_command(app, exit_code);
  add_design_command(app, exit_code);
  add_prove_command(app, exit_code);
  add_mask_command(app);
  add_completion_command(app);
  add_man_command(app);
}

}  // namespace tessera
