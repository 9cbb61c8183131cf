#pragma once

#include <string_view>

namespace tessera {

// The files of this folder, which the build embeds (cmake/embed.cmake). kPageCss is for all pages
// and comes before a page's own.
extern const std::string_view kPageCss, kAttentionCss, kMaskCss, kReportCss;
extern const std::string_view kAttentionJs, kReportJs;

}  // namespace tessera
