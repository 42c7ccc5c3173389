/* What differs between compilers: attributes, pragmas and levels of instructions. */
#ifndef CM_COMPILER_H
#define CM_COMPILER_H

/* The x86-64 levels that training and the front end for whole clips are built for, and whether this processor supports
 * them. Not on Windows, where compilers cannot query the level. Tests define CM_BASE_ONLY to compile faster. */
#if defined(__x86_64__) && !defined(_WIN32) && !defined(CM_BASE_ONLY) \
    && (defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 12))
#define CM_LEVELS 1
#if defined(__clang__)  /* before version 18 it has no names for whole levels */
#define CM_HAS(feature) __builtin_cpu_supports(feature)
#define CM_SUPPORTS_V3 (__builtin_cpu_init(), CM_HAS("avx2") && CM_HAS("fma") && CM_HAS("bmi") && CM_HAS("bmi2"))
#define CM_SUPPORTS_V4 \
    (CM_SUPPORTS_V3 && CM_HAS("avx512f") && CM_HAS("avx512bw") && CM_HAS("avx512cd") && CM_HAS("avx512dq") \
     && CM_HAS("avx512vl"))
#else
#define CM_SUPPORTS_V3 (__builtin_cpu_init(), __builtin_cpu_supports("x86-64-v3"))
#define CM_SUPPORTS_V4 (__builtin_cpu_init(), __builtin_cpu_supports("x86-64-v4"))
#endif
#endif

#if defined(__GNUC__)
#define CM_UNUSED __attribute__((unused))  /* no warning where a build does not use a table or a function */
#define CM_INLINE static inline __attribute__((always_inline, unused))
#else
#define CM_UNUSED
#define CM_INLINE static inline
#endif

/* Promises the compiler that the iterations of a loop are independent. */
#if defined(__clang__)
#define CM_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define CM_INDEPENDENT _Pragma("GCC ivdep")
#else
#define CM_INDEPENDENT
#endif

/* Unrolls a loop of a few iterations whose number is known at compile time. */
#if defined(__clang__)
#define CM_UNROLL _Pragma("unroll")
#elif defined(__GNUC__)
#define CM_UNROLL _Pragma("GCC unroll 16")
#else
#define CM_UNROLL
#endif

#endif
