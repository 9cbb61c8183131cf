#include "launch/tools/supervise/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "launch/support/files/file_descriptor.h"
#include "launch/support/text/terminal_text.h"
#include "launch/support/text/utc_time.h"

namespace tessera {
void Journal::add(const std::string& event, const std::string& text, const Json& more) {
  fmt::print(stderr, "supervise: {}\n", for_terminal(text));
  Json line = {{"time", now_in_utc()}, {"event", event}};
  line.update(more);
  // Messages of ranks may contain any bytes.
  const std::string words =
      line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  std::error_code ignored;
  std::filesystem::create_directories(run_dir_, ignored);
  const std::filesystem::path path = run_dir_ / "supervise.jsonl";
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
  const ssize_t written =
      file.valid() ? ::write(file.get(), words.data(), words.size()) : ssize_t{-1};
  if (written == static_cast<ssize_t>(words.size())) return;
  fmt::print(stderr, "supervise: warning: {} cannot be written: {}\n", path.string(),
             written < 0 ? system_message(errno) : "no space");
}

}  // namespace tessera
