#pragma once

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "launch/support/files/replace.h"
#include "launch/support/text/json.h"

namespace tessera {

// Parts of pages that need no other file and no network.

/// `text` for HTML, in an element or a quoted attribute: & < > " ' are escaped.
std::string escape_html(std::string_view text);

/// JSON that is safe in a script element: "<" and similar characters occur only in strings, where
/// they are escaped.
std::string json_for_script(const Json& json);

/// Resources of a page besides its own elements and style.
struct PageUses {
  bool script = false;
  bool data_images = false;  ///< data: URLs
  std::string head = {};     ///< more elements of its head
};

/// A page up to the start of its body. Its policy forbids all that it does not use, and to load
/// anything. `title` is escaped.
std::string page_start(std::string_view title, std::string_view style, const PageUses& uses = {});

/// The files that a page may replace: another page of Tessera, or with --overwrite any file.
Replace replace_page(const std::string& path, bool overwrite);

template <typename... Args>
void append_html(std::string& html, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(html), format, std::forward<Args>(args)...);
}

}  // namespace tessera
