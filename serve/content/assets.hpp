#pragma once

#include <string_view>

namespace holdfast::serve {

// The files of serve/page, which are part of the program.

extern const std::string_view page_html;
extern const std::string_view login_html;
extern const std::string_view style_css;
extern const std::string_view icon_svg;
extern const std::string_view page_js;
extern const std::string_view login_js;
extern const std::string_view openapi_json;

}  // namespace holdfast::serve
