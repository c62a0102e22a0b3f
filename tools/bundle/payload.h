// What every bundle is made of besides kernels: the library without a registry, and its headers, as they were
// when this program was built.
#pragma once

#include <string_view>

namespace scalegemm::bundle {

std::string_view core_object();  // relocatable: every room and the C ABI (CMakeLists.txt)
std::string_view c_header();     // scalegemm.h
std::string_view cpp_header();   // scalegemm.hpp
std::string_view library_version();

}  // namespace scalegemm::bundle
