// Status and Result: how every room reports failure. No exception crosses a room.
//
// A Status carries one of the codes of the C ABI and a message that names the argument (or file, or
// kernel), what was needed and what was given, so that the message can be shown to a user as it is.
#pragma once

#include <fmt/format.h>

#include <cassert>
#include <optional>
#include <string>
#include <utility>

namespace scalegemm {

// Numeric values equal scalegemm_status in include/scalegemm/scalegemm.h (checked in src/api).
enum class Code : int {
  kOk = 0,
  kInvalidArgument = 1,
  kUnsupported = 2,
  kNotBuilt = 3,
  kNoDevice = 4,
  kCompileFailed = 5,
  kLaunchFailed = 6,
  kOutOfMemory = 7,
  kIoError = 8,
  kCorruptData = 9,
  kInternal = 10,
};

const char* to_string(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

  // The same failure with "where: " before its message.
  Status with_context(const std::string& where) const {
    return ok() ? *this : Status(code_, where + ": " + message_);
  }

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

inline Status ok_status() {
  return {};
}

template <class... Args>
Status make_error(Code code, fmt::format_string<Args...> text, Args&&... args) {
  return {code, fmt::format(text, std::forward<Args>(args)...)};
}

template <class... Args>
Status invalid_argument(fmt::format_string<Args...> text, Args&&... args) {
  return {Code::kInvalidArgument, fmt::format(text, std::forward<Args>(args)...)};
}

template <class... Args>
Status unsupported(fmt::format_string<Args...> text, Args&&... args) {
  return {Code::kUnsupported, fmt::format(text, std::forward<Args>(args)...)};
}

template <class... Args>
Status corrupt(fmt::format_string<Args...> text, Args&&... args) {
  return {Code::kCorruptData, fmt::format(text, std::forward<Args>(args)...)};
}

// A value or the reason why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    assert(!status_.ok() && "a Result without a value needs an error");
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return *std::move(value_); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return *std::move(value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

#define SCALEGEMM_CONCAT_IMPL(a, b) a##b
#define SCALEGEMM_CONCAT(a, b) SCALEGEMM_CONCAT_IMPL(a, b)

// Leaves the function with the failure of `expr` (a Status).
#define SCALEGEMM_RETURN_IF_ERROR(expr)                        \
  do {                                                         \
    if (::scalegemm::Status status_ = (expr); !status_.ok()) { \
      return status_;                                          \
    }                                                          \
  } while (false)

// `lhs` becomes the value of `expr` (a Result), or the function is left with its failure.
#define SCALEGEMM_ASSIGN_OR_RETURN(lhs, expr) \
  SCALEGEMM_ASSIGN_OR_RETURN_IMPL(SCALEGEMM_CONCAT(result_, __LINE__), lhs, expr)
#define SCALEGEMM_ASSIGN_OR_RETURN_IMPL(result, lhs, expr) \
  auto result = (expr);                                    \
  if (!result.ok()) {                                      \
    return result.status();                                \
  }                                                        \
  lhs = *std::move(result)

}  // namespace scalegemm
