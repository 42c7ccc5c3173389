/* What compilers spell differently. */
#ifndef CM_COMPILER_H
#define CM_COMPILER_H

/* The levels of x86-64 that parts of the engine are built for, and whether this processor has them. Tests define
 * CM_BASE_ONLY where the time to compile matters. */
#if defined(__x86_64__) && (defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 12)) && !defined(CM_BASE_ONLY)
#define CM_LEVELS 1
#define CM_HAS(feature) __builtin_cpu_supports(feature)
#define CM_SUPPORTS_V3 (__builtin_cpu_init(), CM_HAS("avx2") && CM_HAS("fma") && CM_HAS("bmi") && CM_HAS("bmi2"))
#define CM_SUPPORTS_V4 \
    (CM_SUPPORTS_V3 && CM_HAS("avx512f") && CM_HAS("avx512bw") && CM_HAS("avx512cd") && CM_HAS("avx512dq") && CM_HAS("avx512vl"))
#define CM_PRAGMA(words) _Pragma(#words)
#if defined(__clang__)
#define CM_BEGIN_LEVEL(arch) CM_PRAGMA(clang attribute push(__attribute__((target(arch))), apply_to = function))
#define CM_END_LEVEL CM_PRAGMA(clang attribute pop)
#else
#define CM_BEGIN_LEVEL(arch) CM_PRAGMA(GCC push_options) CM_PRAGMA(GCC target(arch))
#define CM_END_LEVEL CM_PRAGMA(GCC pop_options)
#endif
#endif

#if defined(__GNUC__)
#define CM_INLINE static inline __attribute__((always_inline, unused))
#else
#define CM_INLINE static inline
#endif

/* Promises the compiler that the lanes of a loop do not touch one another's memory. */
#if defined(__clang__)
#define CM_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define CM_INDEPENDENT _Pragma("GCC ivdep")
#else
#define CM_INDEPENDENT
#endif

/* A loop of a few rounds, their number known when compiling, becomes its rounds one behind the other. */
#if defined(__clang__)
#define CM_UNROLL _Pragma("unroll")
#elif defined(__GNUC__)
#define CM_UNROLL _Pragma("GCC unroll 16")
#else
#define CM_UNROLL
#endif

#endif
