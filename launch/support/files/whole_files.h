#pragma once

#include <initializer_list>
#include <string>

#include "launch/support/files/replace.h"

namespace tessera {

/// A file that is written at once.
struct WholeFile {
  std::string path;
  std::string text;
};

/// Writes the files, in place of earlier ones if `replace` says so, and creates missing folders.
/// Renames no file before all are complete. The last of several files is absent while the others
/// may be old or new, so no file ever sits next to one it does not belong to. Throws, naming the
/// file.
void write_whole_files(std::initializer_list<WholeFile> files, Replace replace);

}  // namespace tessera
