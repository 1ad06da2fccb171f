#pragma once

#include <holdfast/asio/call.hpp>
#include <holdfast/asio/locks.hpp>
