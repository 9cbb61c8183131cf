#include "launch/support/text/html.h"

#include "launch/support/files/small_file.h"

namespace tessera {

namespace {

constexpr std::string_view kBegin =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"generator\" content=\"Tessera\">\n";

}  // namespace

std::string escape_html(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string json_for_script(const Json& json) {
  std::string safe;
  for (const char c : json.dump(-1, ' ', /*ensure_ascii=*/true)) {
    if (c == '<' || c == '>' || c == '&') {
      append_html(safe, "\\u{:04x}", static_cast<unsigned>(c));
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string page_start(std::string_view title, std::string_view style, const PageUses& uses) {
  std::string html(kBegin);
  append_html(html,
              "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
              "{}style-src 'unsafe-inline'{}\">\n",
              uses.data_images ? "img-src data:; " : "",
              uses.script ? "; script-src 'unsafe-inline'" : "");
  html += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
  append_html(html, "<title>{}</title>\n{}<style>{}</style></head>\n<body>\n", escape_html(title),
              uses.head, style);
  return html;
}

Replace replace_page(const std::string& path, bool overwrite) {
  return replace_if(overwrite || begin_of_file(path, kBegin.size()) == kBegin);
}

}  // namespace tessera
