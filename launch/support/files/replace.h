#pragma once

#include <cstdint>
#include <string>

namespace tessera {

/// Which file a command may replace. Whatever it says, no folder, pipe or device.
enum class Replace : uint8_t {
  refuse,     ///< none
  overwrite,  ///< any that this process has not read: the user has passed --overwrite
  own,        ///< any: it is in a folder that is Tessera's own, such as run.dir
};

/// For the value of --overwrite.
inline Replace replace_if(bool overwrite) {
  return overwrite ? Replace::overwrite : Replace::refuse;
}

/// Remembers that this process reads a file that the user named, by its inode, so that links with
/// other names count.
void remember_input(const std::string& path);
void remember_input(int descriptor);

/// Whether the file at `path` is one of these.
bool is_input(const std::string& path);

/// Throws, naming `path`, if a new file may not take its place. A command with an output calls it
/// before the work; StagedFile does so in any case.
void require_replaceable(const std::string& path, Replace replace);

}  // namespace tessera
