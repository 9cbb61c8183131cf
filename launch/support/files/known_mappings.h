#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace tessera {

/// From now on, a read of a known mapping beyond the end of its file, or of a page that the disk
/// does not give (SIGBUS), ends the program with ExitCode::data and a message: `who`, at most 60
/// bytes, as "error: ", then the file and what is wrong. Other bus errors end it as before.
void explain_bus_errors(std::string_view who);

/// Throws, with ExitCode::data, if the file of a known mapping has become shorter than the mapping:
/// bytes between its new end and the end of that page then read as 0, without a bus error. A file
/// that another one has replaced under its name is fine.
void require_whole_mappings();

/// A mapping of the open file `file` that the functions above know during this object's lifetime.
/// End it before unmapping. Of more than 1024 at a time, the last are not known.
class KnownMapping {
 public:
  KnownMapping() = default;
  KnownMapping(const std::string& path, int file, std::span<const std::byte> bytes);
  ~KnownMapping();
  KnownMapping(KnownMapping&& other) noexcept : place_(std::exchange(other.place_, -1)) {}
  KnownMapping& operator=(KnownMapping&& other) noexcept {
    std::swap(place_, other.place_);
    return *this;
  }

 private:
  int place_ = -1;  // in the table
};

}  // namespace tessera
