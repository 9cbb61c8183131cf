#include "launch/train/start.h"

#include <filesystem>
#include <fstream>
#include <utility>

#include "core/error.h"
#include "launch/checkpoint/find.h"
#include "launch/checkpoint/same_model.h"
#include "launch/config/write_config.h"
#include "launch/train/model_json.h"
#include "parallel/exchange.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

Checkpoint open_of_same_model(const RunConfig& config, const fs::path& path) {
  Checkpoint checkpoint = Checkpoint::open(path);
  check_same_model(checkpoint.manifest().model, architecture_json(config.model), path.string());
  return checkpoint;
}

}  // namespace

TrainingData open_data(const RunConfig& config) {
  const int64_t vocab_size = config.model.vocab_size, seq_length = config.model.seq_length;
  const auto train = std::make_shared<const IndexedDataset>(config.data.train, vocab_size);
  const TokenSplit split = split_tokens(train->num_tokens(), config.data.eval_fraction);
  TrainingData data;
  data.train = std::make_shared<const GptDataset>(train, split.train, seq_length);
  if (config.data.eval) {
    const auto eval = std::make_shared<const IndexedDataset>(*config.data.eval, vocab_size);
    data.eval = std::make_shared<const GptDataset>(eval, Range{0, eval->num_tokens()}, seq_length);
  } else if (config.data.eval_fraction > 0.0) {
    data.eval = std::make_shared<const GptDataset>(train, split.eval, seq_length);
  }
  return data;
}

void prepare_run_folder(const RunConfig& config) {
  const fs::path dir = config.run.dir;
  std::error_code error;
  fs::create_directories(dir, error);
  require(!error, "run.dir {} can not be made: {}", dir.string(), error.message());
  const fs::path staged = dir / ".config.yaml.new";
  {
    std::ofstream file(staged, std::ios::trunc);
    file << to_yaml(config);
    require(file.flush().good(), "run.dir {} can not be written", dir.string());
  }
  fs::rename(staged, dir / "config.yaml", error);
  require(!error, "{} can not be replaced: {}", (dir / "config.yaml").string(), error.message());
}

std::string start_or_resume(const RunConfig& config, Trainer& trainer, Communicator& world,
                            const std::function<void(std::string)>& report) {
  const std::optional<fs::path> newest = newest_whole_checkpoint(config.run.dir, report, world);
  std::string what;
  all_or_none(world, [&] {
    const ResumeMode mode = config.checkpoint.resume;
    require(!newest || mode != ResumeMode::never,
            "run.dir {} holds a checkpoint, {}, and checkpoint.resume is never: nothing is written "
            "over; choose another run.dir, or checkpoint.resume=auto to go on from it",
            config.run.dir, newest ? newest->filename().string() : "");
    require(newest || mode != ResumeMode::required,
            "checkpoint.resume is required, but run.dir {} holds no whole checkpoint",
            config.run.dir);
    if (newest) {
      Checkpoint checkpoint = open_of_same_model(config, *newest);
      trainer.restore(checkpoint);
      what = fmt::format("resumed from {} (step {}, {} samples seen)", newest->string(),
                         trainer.steps_done(), trainer.samples_done());
    } else if (config.checkpoint.from) {
      const fs::path from = resolve_checkpoint(*config.checkpoint.from);
      Checkpoint checkpoint = open_of_same_model(config, from);
      trainer.start_from(checkpoint);
      what = fmt::format("started with the weights of {}", from.string());
    } else {
      trainer.initialize();
      what = fmt::format("started with new weights, seed {}", config.run.seed);
    }
  });
  return what;
}

}  // namespace tessera
