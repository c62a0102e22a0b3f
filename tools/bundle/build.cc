#include "build.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/files.h"
#include "linker.h"
#include "package.h"

namespace scalegemm::bundle {
namespace {

using build_builtin::BuiltKernel;

constexpr size_t kNamedKernels = 5;

Status check_budget(const Plan& plan, const OutputText& library, std::vector<BuiltKernel> kernels) {
  const auto size = static_cast<int64_t>(library.content.size());
  if (plan.size_budget == 0 || size <= plan.size_budget) {
    return ok_status();
  }
  std::sort(kernels.begin(), kernels.end(), [](const BuiltKernel& a, const BuiltKernel& b) {
    return a.code->size() != b.code->size() ? a.code->size() > b.code->size() : a.name < b.name;
  });
  std::string largest;
  for (size_t i = 0; i < std::min(kNamedKernels, kernels.size()); ++i) {
    largest += fmt::format("\n  {} bytes of {}", kernels[i].code->size(), kernels[i].name);
  }
  return unsupported("size_budget: needs {} to be at most {} bytes, is {}; its largest kernels:{}",
                     library.path, plan.size_budget, size, largest);
}

Status write(const std::string& folder, const OutputText& file) {
  const std::string path = fmt::format("{}/{}", folder, file.path);
  SCALEGEMM_RETURN_IF_ERROR(base::make_dirs(path.substr(0, path.rfind('/'))));
  return build_builtin::write_if_changed(path, file.content);
}

}  // namespace

Result<Built> build(const Plan& plan, const BuildOptions& options) {
  std::vector<spec::KernelSpec> specs;
  for (const Selected& selected : plan.kernels) {
    specs.push_back(selected.spec);
  }
  SCALEGEMM_ASSIGN_OR_RETURN(const auto units, build_builtin::units_of(specs));
  if (!plan.nvrtc.empty() && ::setenv("SCALEGEMM_NVRTC", plan.nvrtc.c_str(), 1) != 0) {
    return base::errno_status("set", "SCALEGEMM_NVRTC");  // the toolchain looks there first
  }
  build_builtin::CompileOptions compile{
      .cache = plan.cache_dir, .compiler = plan.compiler, .nvrtc = plan.nvrtc, .jobs = plan.jobs};
  if (options.done) {
    compile.done = [&](const BuiltKernel& kernel, size_t done) {
      return options.done(kernel, done, units.size());
    };
  }
  Built built;
  SCALEGEMM_ASSIGN_OR_RETURN(built.kernels, build_builtin::compile(units, compile));

  const LinkOptions link{.name_space = plan.name_space, .compiler = plan.compiler};
  SCALEGEMM_ASSIGN_OR_RETURN(const Linked linked, link_object(built.kernels, link));
  built.exports = linked.exports;
  std::vector<OutputText> files;
  for (const auto& [kind, ending] : {std::pair("shared", ".so"), std::pair("static", ".a")}) {
    const std::string path = fmt::format("lib/{}{}", library_name(plan.name_space), ending);
    if (std::find(plan.libraries.begin(), plan.libraries.end(), kind) == plan.libraries.end()) {
      const std::string old = fmt::format("{}/{}", options.folder, path);
      if (::unlink(old.c_str()) != 0 && errno != ENOENT && errno != ENOTDIR) {
        return base::errno_status("remove", old);
      }
      continue;
    }
    auto library = ending == std::string_view(".so") ? link_shared(linked, link) : make_archive(linked, link);
    if (!library.ok()) {
      return library.status();
    }
    files.push_back({path, *std::move(library)});
  }
  SCALEGEMM_RETURN_IF_ERROR(check_budget(plan, files.front(), built.kernels));
  for (OutputText& file : package_files(plan, built.kernels)) {
    files.push_back(std::move(file));
  }
  SCALEGEMM_ASSIGN_OR_RETURN(std::string json,
                             manifest_json(plan, options.manifest, units, built.kernels, linked, files));
  files.push_back({"manifest.json", std::move(json)});
  for (const OutputText& file : files) {
    SCALEGEMM_RETURN_IF_ERROR(write(options.folder, file));
    built.files.push_back({file.path, file.content.size()});
  }
  return built;
}

}  // namespace scalegemm::bundle
