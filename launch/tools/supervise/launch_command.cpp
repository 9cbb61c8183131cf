#include "launch/tools/supervise/launch_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <sstream>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/exit_code.h"
#include "launch/support/command_text.h"
#include "launch/support/files/replace.h"
#include "launch/support/files/small_file.h"
#include "launch/support/files/whole_files.h"
#include "launch/support/text/number_text.h"

namespace tessera {
namespace {

constexpr std::array<std::string_view, 5> kRanks = {"-np", "-n", "--np", "--n", "-c"};
constexpr std::array<std::string_view, 3> kHosts = {"--host", "-host", "-H"};
constexpr std::array<std::string_view, 4> kHostfiles = {"--hostfile", "-hostfile", "--machinefile",
                                                        "-machinefile"};

bool is_one_of(std::string_view word, auto& words) {
  return std::ranges::find(words, word) != words.end();
}

template <typename... Args>
[[noreturn]] void refuse_command(fmt::format_string<Args...> message, Args&&... args) {
  throw CodedError(fmt::format(message, std::forward<Args>(args)...), ExitCode::usage);
}

/// "node1:4" or, in a hostfile, "node1 slots=4 max_slots=8".
LaunchHost parse_host(const std::string& text, bool in_file) {
  LaunchHost host;
  host.text = text;
  std::istringstream words(text);
  words >> host.name;
  const size_t colon = host.name.find(':');
  if (!in_file && colon != std::string::npos) {
    host.slots = parse_integer(std::string_view(host.name).substr(colon + 1));
    host.name.resize(colon);
  }
  for (std::string word; words >> word;) {
    constexpr std::string_view kSlots = "slots=";
    if (word.starts_with(kSlots)) {
      host.slots = parse_integer(std::string_view(word).substr(kSlots.size()));
    }
  }
  return host;
}

std::string short_name(const std::string& host) {
  const bool is_address = host.find_first_not_of("0123456789.") == std::string::npos;
  return is_address ? host : host.substr(0, host.find('.'));
}

}  // namespace

std::vector<std::string> mpirun_command(const LaunchRequest& request, const std::string& program,
                                        bool is_root) {
  std::optional<int64_t> ranks = request.ranks;
  std::istringstream hosts(request.hosts);
  int64_t slots = 0;
  for (std::string host; std::getline(hosts, host, ',');) {
    slots += parse_host(host, /*in_file=*/false).slots.value_or(1);
  }
  if (!ranks && slots > 0) ranks = slots;
  if (!ranks) refuse_command("give the number of ranks, as in -np 4, or --hosts node1:2,node2:2");
  std::istringstream launcher(request.mpirun);
  std::vector<std::string> words(std::istream_iterator<std::string>(launcher), {});
  if (words.empty()) refuse_command("--mpirun names no program");
  // By default Open MPI refuses root and more ranks than cores, and binds a rank to one core.
  if (is_root) words.emplace_back("--allow-run-as-root");
  words.insert(words.end(), {"--oversubscribe", "--bind-to", "none"});
  if (!request.hosts.empty()) {
    words.insert(words.end(), {"--host", request.hosts});
    for (const std::string& name : request.environment) words.insert(words.end(), {"-x", name});
  }
  words.insert(words.end(), {"-np", std::to_string(*ranks), program});
  words.insert(words.end(), request.command.begin(), request.command.end());
  return words;
}

bool is_same_host(const std::string& a, const std::string& b) {
  return short_name(a) == short_name(b);
}

LaunchCommand::LaunchCommand(std::vector<std::string> words) : words_(std::move(words)) {
  const auto train = std::ranges::find(words_, "train");
  if (train == words_.begin() || train == words_.end()) {
    refuse_command(
        "the command does not train: it must be as in -np 4 train x.yaml, or as in "
        "-- mpirun -np 4 tessera train x.yaml");
  }
  const auto at = static_cast<size_t>(train - words_.begin());
  parse_launcher(at - 1);
  parse_train(at);
}

void LaunchCommand::parse_launcher(size_t program) {
  open_mpi_ = program > 0 && is_open_mpi_launcher(words_.front());
  if (!open_mpi_) return;
  for (size_t i = 1; i + 1 < program; ++i) {
    const std::string& word = words_[i];
    if (is_one_of(word, kRanks)) {
      ranks_ = parse_integer(words_[i + 1]);
      ranks_at_ = i + 1;
    } else if (is_one_of(word, kHosts) || is_one_of(word, kHostfiles)) {
      if (hosts_at_) refuse_command("{} is the second option with hosts: give one", word);
      hosts_at_ = i + 1;
      hosts_in_file_ = is_one_of(word, kHostfiles);
      set_hosts(words_[i + 1], hosts_in_file_);
    } else {
      continue;
    }
    ++i;
  }
}

void LaunchCommand::parse_train(size_t train) {
  for (size_t i = train + 1; i < words_.size(); ++i) {
    const std::string& word = words_[i];
    constexpr std::string_view kSet = "--set=";
    if (word == "--set" && i + 1 < words_.size()) {
      overrides_.push_back(words_[++i]);
    } else if (word.starts_with(kSet)) {
      overrides_.push_back(word.substr(kSet.size()));
    } else if (word == "--stop-at") {
      ++i;
    } else if (word == ":") {
      refuse_command("the command starts several programs (':'): it must start one");
    } else if (config_.empty() && !word.starts_with("-")) {
      config_ = word;
    }
  }
  if (config_.empty()) refuse_command("`train` in the command has no configuration");
}

void LaunchCommand::set_hosts(const std::string& value, bool is_file) {
  std::vector<std::string> entries;
  if (is_file) {
    std::istringstream file(read_small_file(value, size_t{1} << 20));
    for (std::string line; std::getline(file, line);) {
      line = line.substr(0, line.find('#'));
      if (line.find_first_not_of(" \t\r") != std::string::npos) entries.push_back(line);
    }
  } else {
    std::istringstream list(value);
    for (std::string entry; std::getline(list, entry, ',');) entries.push_back(entry);
  }
  for (const std::string& entry : entries) {
    LaunchHost host = parse_host(entry, is_file);
    if (!is_file && !host.slots) host.slots = 1;  // as Open MPI counts it
    const auto same =
        std::ranges::find_if(hosts_, [&](const LaunchHost& h) { return h.name == host.name; });
    if (same == hosts_.end()) {
      hosts_.push_back(std::move(host));
    } else if (same->slots && host.slots) {
      same->slots = *same->slots + *host.slots;
      same->text = is_file ? fmt::format("{} slots={}", same->name, *same->slots)
                           : fmt::format("{}:{}", same->name, *same->slots);
    }
  }
}

LaunchCommand LaunchCommand::with_ranks(int64_t ranks) const {
  std::vector<std::string> words = words_;
  if (ranks_at_) {
    words[*ranks_at_] = std::to_string(ranks);
  } else {
    words.insert(words.begin() + 1, {"-np", std::to_string(ranks)});
  }
  return LaunchCommand(std::move(words));
}

LaunchCommand LaunchCommand::with_hosts(const std::vector<LaunchHost>& hosts,
                                        const std::filesystem::path& hostfile) const {
  require(hosts_at_.has_value(), "the command names no hosts");
  std::vector<std::string> entries;
  for (const LaunchHost& host : hosts) entries.push_back(host.text);
  std::vector<std::string> words = words_;
  if (hosts_in_file_) {
    write_whole_files({{hostfile.string(), fmt::format("{}\n", fmt::join(entries, "\n"))}},
                      Replace::own);
    words[*hosts_at_] = hostfile.string();
  } else {
    words[*hosts_at_] = fmt::format("{}", fmt::join(entries, ","));
  }
  return LaunchCommand(std::move(words));
}

LaunchCommand LaunchCommand::with_override(const std::string& text) const {
  std::vector<std::string> words = words_;
  words.insert(words.end(), {"--set", text});
  return LaunchCommand(std::move(words));
}

}  // namespace tessera
