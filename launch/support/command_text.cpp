#include "launch/support/command_text.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "parallel/communicators/mpi/mpi_launch.h"

namespace tessera {
namespace {

std::string for_shell(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

std::ifstream command_words(int process) {
  return std::ifstream(fmt::format("/proc/{}/cmdline", process));
}

}  // namespace

std::string command_text(int process) {
  std::ifstream words = command_words(process);
  std::string text;
  for (std::string word; std::getline(words, word, '\0');) {
    text += (text.empty() ? "" : " ") + for_shell(word);
  }
  return text;
}

std::string starting_command() {
  if (!launched_by_mpi()) return command_text(::getpid());
  const int parent = ::getppid();
  std::ifstream words = command_words(parent);
  std::string program;
  std::getline(words, program, '\0');
  return is_open_mpi_launcher(program) ? command_text(parent) : "";
}

bool is_open_mpi_launcher(const std::string& word) {
  constexpr std::array<std::string_view, 4> kNames = {"mpirun", "mpiexec", "orterun", "prterun"};
  return std::ranges::find(kNames, std::filesystem::path(word).filename().string()) != kNames.end();
}

}  // namespace tessera
