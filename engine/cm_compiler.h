/* What compilers spell differently. */
#ifndef CM_COMPILER_H
#define CM_COMPILER_H

#include <stdint.h>  /* glibc says here that it is glibc */

/* Where the compiler can build a function for several x86-64 levels and choose when the program starts, let it.
 * Products and sums are never contracted (-ffp-contract=off), so every level gives the same bits. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12 \
    && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CM_DISPATCH __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CM_DISPATCH
#endif

#if defined(__GNUC__)
#define CM_INLINE static inline __attribute__((always_inline, unused))
#else
#define CM_INLINE static inline
#endif

/* A stage of the network: part of each of those builds; a function of its own where there is one build only. */
#if defined(__x86_64__)
#define CM_STAGE CM_INLINE
#elif defined(__GNUC__)
#define CM_STAGE static __attribute__((unused))
#else
#define CM_STAGE static
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
