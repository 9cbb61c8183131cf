#include "launch/tools/supervise/journal.h"

#include <fmt/format.h>

#include <system_error>

#include "core/error.h"
#include "launch/support/files/appended_file.h"
#include "launch/support/text/print.h"
#include "launch/support/text/utc_time.h"

namespace tessera {

void Journal::add(const std::string& event, const std::string& text, const Json& more) {
  if (!enabled_) return;
  print_error("supervise: {}\n", text);
  Json line = {{"time", now_in_utc()}, {"event", event}};
  line.update(more);
  // Messages of ranks may contain any bytes.
  const std::string words =
      line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  std::error_code ignored;
  std::filesystem::create_directories(run_dir_, ignored);
  try {
    AppendedFile file(run_dir_ / "supervise.jsonl");
    file.append(words);
    if (const auto problem = file.problem())
      fail("supervise.jsonl cannot be written: {}", *problem);
  } catch (const Error& error) {
    print_error("supervise: warning: {}\n", error.what());
  }
}

}  // namespace tessera
