#include "launch/train/start/run_recorder.h"

#include <chrono>
#include <exception>
#include <filesystem>
#include <system_error>

#include "core/error.h"
#include "parallel/communicators/exchange.h"
#include "parallel/host/host_name.h"
#include "parallel/watchdog/rank_snapshot.h"

namespace tessera {

namespace fs = std::filesystem;

RunRecorder::RunRecorder(const RunConfig& config, Communicator& world) {
  const fs::path folder = flight_folder(config.run.dir);
  const auto make_folder = [&] {
    std::error_code error;
    fs::create_directories(folder, error);
    require(!error, "{} cannot be created: {}", folder.string(), error.message());
  };
  all_or_none(world, [&] {
    if (world.rank() != 0) return;
    std::error_code error;
    fs::remove_all(folder, error);
    require(!error, "{} of the run's last start cannot be removed: {}", folder.string(),
            error.message());
    make_folder();
  });
  std::string host;
  all_or_none(world, [&] {
    host = host_name();
    make_folder();  // again, for hosts that do not share it
    recorder_.emplace(flight_file(folder, world.rank()), world.rank(), world.size(), host);
  });
  HangWatchdog::Options options;
  options.timeout = std::chrono::seconds(config.run.hang_timeout);
  options.aborts = config.run.on_hang == OnHang::abort;
  options.folder = folder;
  options.rank = world.rank();
  options.ranks = world.size();
  options.host = host;
  watchdog_.emplace(*recorder_, options);
}

void RunRecorder::run(const std::function<void()>& body) {
  const FlightRecorder::Scope scope(&*recorder_);
  try {
    body();
  } catch (const std::exception& error) {
    recorder_->end(RankEnd::failed, message_of(error));
    throw;
  }
  recorder_->end(RankEnd::finished, "");
}

}  // namespace tessera
