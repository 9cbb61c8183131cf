#include "launch/support/files/whole_files.h"

#include <memory>
#include <vector>

#include "launch/support/files/folders.h"
#include "launch/support/files/staged_file.h"

namespace tessera {

void write_whole_files(std::initializer_list<WholeFile> files, Replace replace) {
  std::vector<std::unique_ptr<StagedFile>> staged;
  for (const WholeFile& file : files) {
    create_folder_of(file.path);
    staged.push_back(std::make_unique<StagedFile>(file.path, replace));
    staged.back()->write(file.text);
    staged.back()->close();
  }
  if (staged.size() > 1) staged.back()->remove_older();
  for (const auto& file : staged) file->publish();
}

}  // namespace tessera
