#include "serve/content/assets.hpp"

#include "embedded/icon.svg.hpp"
#include "embedded/login.html.hpp"
#include "embedded/login.js.hpp"
#include "embedded/openapi.json.hpp"
#include "embedded/page.html.hpp"
#include "embedded/page.js.hpp"
#include "embedded/style.css.hpp"

namespace holdfast::serve {

constinit const std::string_view page_html = embedded::page_html;
constinit const std::string_view login_html = embedded::login_html;
constinit const std::string_view style_css = embedded::style_css;
constinit const std::string_view icon_svg = embedded::icon_svg;
constinit const std::string_view page_js = embedded::page_js;
constinit const std::string_view login_js = embedded::login_js;
constinit const std::string_view openapi_json = embedded::openapi_json;

}  // namespace holdfast::serve
