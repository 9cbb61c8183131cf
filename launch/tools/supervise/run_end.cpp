#include "launch/tools/supervise/run_end.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <regex>
#include <string_view>
#include <vector>

#include "launch/support/exit_codes.h"

namespace tessera {
namespace {

constexpr size_t kLongest = 400;       // bytes of a message
constexpr size_t kLongestLine = 1000;  // bytes of a line that is searched

std::string host_of(const std::vector<RankView>& views, int rank) {
  const auto found =
      std::ranges::find_if(views, [&](const RankView& view) { return view.rank == rank; });
  return found == views.end() ? "" : found->host;
}

std::string name_of_rank(int rank, const std::string& host) {
  return host.empty() ? fmt::format("rank {}", rank) : fmt::format("rank {} (host {})", rank, host);
}

/// The lines of an output, cut off: std::regex recurses for each character.
std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    lines.emplace_back(line.substr(0, kLongestLine));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return lines;
}

std::string shortened(const std::string& message) {
  return message.size() <= kLongest ? message : message.substr(0, kLongest) + "...";
}

void name(RunEnd& end, int rank, const std::string& host, const std::string& does) {
  end.rank = rank;
  end.host = host;
  end.what = fmt::format("{} {}", name_of_rank(rank, host), does);
}

/// A rank of which the launcher or the flight recorders say that it died. Returns whether there is
/// one.
bool explain_death(RunEnd& end, const std::string& error_output, const std::vector<RankView>& views,
                   const Observed& observed) {
  if (observed.dead_rank) {
    name(end, *observed.dead_rank, host_of(views, *observed.dead_rank), "died without a message");
    return true;
  }
  static const std::regex kDied(
      R"(process rank (\d{1,9}) with PID \d+ on node (\S+) exited on signal (\d{1,3}))");
  std::smatch found;
  for (const std::string& line : lines_of(error_output)) {
    if (!std::regex_search(line, found, kDied)) continue;
    const int rank = std::stoi(found[1]);
    const std::string known = host_of(views, rank);
    name(end, rank, known.empty() ? found[2].str() : known,
         fmt::format("died by signal {}", found[3].str()));
    return true;
  }
  return false;
}

/// The only rank that the report of the hang names as its cause.
std::optional<int> rank_of_report(const std::string& error_output) {
  const size_t begin = error_output.rfind("the run hangs: ");
  if (begin == std::string::npos) return std::nullopt;
  const size_t length = error_output.find("the other ranks:", begin) - begin;
  static const std::regex kNamed(R"(^  rank (\d{1,9}) \()");
  std::optional<int> named;
  std::smatch found;
  for (const std::string& line : lines_of(std::string_view(error_output).substr(begin, length))) {
    if (!std::regex_search(line, found, kNamed)) continue;
    if (named) return std::nullopt;
    named = std::stoi(found[1]);
  }
  return named;
}

/// Whether a rank has ended because of a hang.
bool any_hung(const std::vector<RankView>& views) {
  return std::ranges::any_of(
      views, [](const RankView& view) { return view.ring && view.ring->end == RankEnd::hung; });
}

/// The rank that the others' report names or, without it, that did not end by itself while the
/// others did.
void explain_hang(RunEnd& end, const std::string& error_output,
                  const std::vector<RankView>& views) {
  constexpr const char* kHung = "hung, and the others waited for it";
  if (const auto rank = rank_of_report(error_output)) {
    return name(end, *rank, host_of(views, *rank), kHung);
  }
  std::vector<const RankView*> silent;
  for (const RankView& view : views) {
    if (view.ring && view.ring->end == RankEnd::running) silent.push_back(&view);
  }
  if (any_hung(views) && silent.size() == 1) {
    name(end, silent.front()->rank, silent.front()->host, kHung);
  } else {
    end.what = "the run hung";
  }
}

/// A rank's own last words, or the message that all ranks share.
void explain_error(RunEnd& end, const std::string& error_output,
                   const std::vector<RankView>& views) {
  static const std::regex kOfRank(R"(^tessera: rank (\d{1,9}): (.*))");
  static const std::regex kShared(R"(^error: (?:rank (\d{1,9}) of \d+: )?.*)");
  std::smatch found;
  const std::vector<std::string> lines = lines_of(error_output);
  for (const std::string& line : lines) {
    if (!std::regex_search(line, found, kOfRank)) continue;
    const int rank = std::stoi(found[1]);
    return name(end, rank, host_of(views, rank), "failed: " + shortened(found[2]));
  }
  for (const std::string& line : lines) {
    if (!std::regex_search(line, found, kShared)) continue;
    end.what = shortened(line.substr(std::string_view("error: ").size()));
    if (!found[1].matched) return;
    end.rank = std::stoi(found[1]);
    end.host = host_of(views, *end.rank);
    return;
  }
}

}  // namespace

RunEnd explain_end(int launcher_code, const std::string& error_output,
                   const std::vector<RankView>& views, const Observed& observed) {
  RunEnd end;
  end.launcher_code = launcher_code;
  if (!observed.hang.empty()) {
    end.code = ExitCode::hang;
    end.what = observed.hang;
    return end;
  }
  const ExitCodeMeaning* meaning = find_exit_code(launcher_code);
  if (meaning != nullptr) end.code = meaning->code;
  // If hosts cannot reach each other, a launcher may crash after its ranks have ended.
  if (launcher_code > 128 && any_hung(views)) end.code = ExitCode::hang;
  switch (end.code) {
    case ExitCode::finished:
    case ExitCode::out_of_time:
    case ExitCode::stopped:
      end.what = meaning->name;
      return end;
    case ExitCode::hang:
      explain_hang(end, error_output, views);
      return end;
    default:
      break;
  }
  explain_error(end, error_output, views);
  if (end.what.empty() && !explain_death(end, error_output, views, observed)) {
    end.what = launcher_code > 128
                   ? fmt::format("the launcher died by signal {}", launcher_code - 128)
                   : fmt::format("the launcher ended with exit code {}", launcher_code);
  }
  return end;
}

}  // namespace tessera
