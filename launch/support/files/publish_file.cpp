#include "launch/support/files/publish_file.h"

#include "launch/support/files/folders.h"
#include "launch/support/files/staged_file.h"

namespace tessera {

void publish_file(const std::string& path, std::string_view text) {
  create_folder_of(path);
  StagedFile file(path);
  file.write(text);
  file.close();
  file.publish();
}

}  // namespace tessera
